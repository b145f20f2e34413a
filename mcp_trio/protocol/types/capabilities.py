"""What each side can do: a capability that is there is supported, one that is None is not."""

import attrs

from mcp_trio.protocol import meta as keys
from mcp_trio.protocol.types.base import (
    Implementation,
    JSONObject,
    LoggingLevel,
    ProgressToken,
    Record,
)


@attrs.frozen(repr=False)
class RootsCapability(Record):
    """The client has roots; ``list_changed``: it says when they change (legacy)."""

    list_changed: bool | None = None


@attrs.frozen(repr=False)
class SamplingCapability(Record):
    """The client samples a model; ``tools``: with tools; ``context``: with include_context."""

    context: JSONObject | None = None
    tools: JSONObject | None = None


@attrs.frozen(repr=False)
class ElicitationCapability(Record):
    """The client asks its user. Neither ``form`` nor ``url`` set means forms only."""

    form: JSONObject | None = None
    url: JSONObject | None = None


@attrs.frozen(repr=False)
class TasksCapability(Record):
    """Tasks of 2025-11-25; ``requests`` names those that may run as one, such as tools/call."""

    list: JSONObject | None = None
    cancel: JSONObject | None = None
    requests: JSONObject | None = None


@attrs.frozen(repr=False)
class ClientCapabilities(Record):
    """What a client can do."""

    sampling: SamplingCapability | None = None
    elicitation: ElicitationCapability | None = None
    roots: RootsCapability | None = None
    tasks: TasksCapability | None = None
    experimental: dict[str, JSONObject] | None = None
    extensions: dict[str, JSONObject] | None = None


@attrs.frozen(repr=False)
class ToolsCapability(Record):
    """The server has tools; ``list_changed``: it says when the list changes."""

    list_changed: bool | None = None


@attrs.frozen(repr=False)
class PromptsCapability(Record):
    """The server has prompts; ``list_changed``: it says when the list changes."""

    list_changed: bool | None = None


@attrs.frozen(repr=False)
class ResourcesCapability(Record):
    """The server has resources; ``subscribe``: it says when one of them changes."""

    subscribe: bool | None = None
    list_changed: bool | None = None


@attrs.frozen(repr=False)
class ServerCapabilities(Record):
    """What a server can do."""

    tools: ToolsCapability | None = None
    resources: ResourcesCapability | None = None
    prompts: PromptsCapability | None = None
    logging: JSONObject | None = None
    completions: JSONObject | None = None
    tasks: TasksCapability | None = None
    experimental: dict[str, JSONObject] | None = None
    extensions: dict[str, JSONObject] | None = None


@attrs.frozen(repr=False)
class RequestMetaObject(Record):
    """The ``_meta`` of a modern request: what its server needs to know of the client."""

    protocol_version: str = attrs.field(metadata={"wire": keys.PROTOCOL_VERSION})
    client_capabilities: ClientCapabilities = attrs.field(
        metadata={"wire": keys.CLIENT_CAPABILITIES}
    )
    client_info: Implementation | None = attrs.field(
        default=None, metadata={"wire": keys.CLIENT_INFO}
    )
    log_level: LoggingLevel | None = attrs.field(default=None, metadata={"wire": keys.LOG_LEVEL})
    progress_token: ProgressToken | None = None
