"""Sampling: a server asks the client's model."""

from typing import Literal

import attrs

from mcp_trio.protocol.types.base import JSONObject, Record, RequestParams, Result, Role
from mcp_trio.protocol.types.content import SamplingMessageContentBlock
from mcp_trio.protocol.types.tasks import TaskMetadata
from mcp_trio.protocol.types.tools import Tool


@attrs.frozen(repr=False)
class ModelHint(Record):
    """A part of the name of a model that would do."""

    name: str | None = None


@attrs.frozen(repr=False)
class ModelPreferences(Record):
    """Which model to take; the priorities go from 0 to 1, the first hint that fits wins."""

    hints: list[ModelHint] | None = None
    cost_priority: float | None = None
    speed_priority: float | None = None
    intelligence_priority: float | None = None


@attrs.frozen(repr=False)
class ToolChoice(Record):
    """Whether the model may, must or must not call tools; None means "auto"."""

    mode: Literal["auto", "required", "none"] | None = None


@attrs.frozen(repr=False)
class SamplingMessage(Record):
    """One message to or from a model; lists of content from 2025-11-25."""

    role: Role
    content: SamplingMessageContentBlock | list[SamplingMessageContentBlock]
    meta: JSONObject | None = attrs.field(default=None, kw_only=True)


@attrs.frozen(repr=False)
class CreateMessageRequestParams(RequestParams):
    """Asks a model to go on from ``messages``, in at most ``max_tokens`` tokens."""

    messages: list[SamplingMessage]
    max_tokens: int
    system_prompt: str | None = None
    model_preferences: ModelPreferences | None = None
    include_context: Literal["none", "thisServer", "allServers"] | None = None
    temperature: float | None = None
    stop_sequences: list[str] | None = None
    metadata: JSONObject | None = None
    tools: list[Tool] | None = None
    tool_choice: ToolChoice | None = None
    task: TaskMetadata | None = attrs.field(default=None, kw_only=True)


@attrs.frozen(repr=False)
class CreateMessageResult(Result):
    """What the model said; ``stop_reason`` is "endTurn", "maxTokens", "toolUse" or its own."""

    content: SamplingMessageContentBlock | list[SamplingMessageContentBlock]
    model: str
    role: Role = "assistant"
    stop_reason: str | None = None
