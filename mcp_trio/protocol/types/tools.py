"""Tools: what a model may call."""

from typing import Literal

import attrs

from mcp_trio.protocol.types.base import (
    JSON,
    CacheablePage,
    Icon,
    InputResponseRequestParams,
    JSONObject,
    Record,
    Result,
)
from mcp_trio.protocol.types.content import ContentBlock
from mcp_trio.protocol.types.tasks import TaskMetadata
from mcp_trio.wire.jsonrpc import MISSING


@attrs.frozen(repr=False)
class ToolAnnotations(Record):
    """Hints about what a tool does, not to be trusted unless its server is."""

    title: str | None = None
    read_only_hint: bool | None = None
    destructive_hint: bool | None = None
    idempotent_hint: bool | None = None
    open_world_hint: bool | None = None


@attrs.frozen(repr=False)
class ToolExecution(Record):
    """Whether a tool may, must or must not run as a task (2025-11-25)."""

    task_support: Literal["forbidden", "optional", "required"] | None = None


@attrs.frozen(repr=False)
class Tool(Record):
    """A tool as its server lists it; the schemas are JSON Schema, as plain dicts."""

    name: str
    input_schema: JSONObject
    description: str | None = None
    title: str | None = None
    output_schema: JSONObject | None = None
    annotations: ToolAnnotations | None = None
    icons: list[Icon] | None = None
    execution: ToolExecution | None = None
    meta: JSONObject | None = attrs.field(default=None, kw_only=True)


@attrs.frozen(repr=False)
class ListToolsResult(CacheablePage):
    """One page of the tools."""

    tools: list[Tool]


@attrs.frozen(repr=False)
class CallToolRequestParams(InputResponseRequestParams):
    """Calls the tool ``name`` with named ``arguments``."""

    name: str
    arguments: JSONObject | None = None
    task: TaskMetadata | None = attrs.field(default=None, kw_only=True)


@attrs.frozen(repr=False)
class CallToolResult(Result):
    """What a tool said.

    ``structured_content`` is any JSON value, so None is null, and `MISSING` (which is false) means
    that the tool gave none. ``is_error`` true means that the tool failed and ``content`` tells the
    model how.
    """

    content: list[ContentBlock]
    structured_content: JSON = MISSING
    is_error: bool | None = None
