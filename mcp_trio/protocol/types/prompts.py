"""Prompts: messages that a server prepares for a model, chosen by the user."""

import attrs

from mcp_trio.protocol.types.base import (
    CacheablePage,
    Icon,
    InputResponseRequestParams,
    JSONObject,
    Record,
    Result,
    Role,
)
from mcp_trio.protocol.types.content import ContentBlock


@attrs.frozen(repr=False)
class PromptArgument(Record):
    """One argument that a prompt takes; its value is always a string."""

    name: str
    description: str | None = None
    required: bool | None = None
    title: str | None = None


@attrs.frozen(repr=False)
class Prompt(Record):
    """A prompt as its server lists it."""

    name: str
    description: str | None = None
    arguments: list[PromptArgument] | None = None
    title: str | None = None
    icons: list[Icon] | None = None
    meta: JSONObject | None = attrs.field(default=None, kw_only=True)


@attrs.frozen(repr=False)
class PromptMessage(Record):
    """One message of a prompt."""

    role: Role
    content: ContentBlock


@attrs.frozen(repr=False)
class ListPromptsResult(CacheablePage):
    """One page of the prompts."""

    prompts: list[Prompt]


@attrs.frozen(repr=False)
class GetPromptRequestParams(InputResponseRequestParams):
    """Gets the prompt ``name``, filled with ``arguments``."""

    name: str
    arguments: dict[str, str] | None = None


@attrs.frozen(repr=False)
class GetPromptResult(Result):
    """The messages of a prompt."""

    messages: list[PromptMessage]
    description: str | None = None
