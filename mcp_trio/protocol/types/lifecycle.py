"""How two peers meet: the legacy handshake, and the modern ``server/discover``."""

import attrs

from mcp_trio.protocol.types.base import (
    CacheableResult,
    Implementation,
    RequestParams,
    Result,
)
from mcp_trio.protocol.types.capabilities import ClientCapabilities, ServerCapabilities


@attrs.frozen(repr=False)
class InitializeRequestParams(RequestParams):
    """Opens a legacy session; ``protocol_version`` is the one that the client likes best."""

    protocol_version: str
    capabilities: ClientCapabilities
    client_info: Implementation


@attrs.frozen(repr=False)
class InitializeResult(Result):
    """The server's half of the handshake; ``protocol_version`` is what the session speaks."""

    protocol_version: str
    capabilities: ServerCapabilities
    server_info: Implementation
    instructions: str | None = None


@attrs.frozen(repr=False)
class DiscoverResult(CacheableResult):
    """What a modern server is; its name and version stand in ``meta``."""

    supported_versions: list[str]
    capabilities: ServerCapabilities
    instructions: str | None = None
