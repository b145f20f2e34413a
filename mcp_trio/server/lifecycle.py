"""How server and client meet: `initialize` in the legacy era, `server/discover` in the modern one.

Both tell a client the same about the server. The difference is what the server remembers: after
`initialize`, a session; after `server/discover`, nothing.
(MCP 2025-11-25, basic/lifecycle; MCP 2026-07-28, server/discover)
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING

from mcp_trio.protocol.convert import StructureError, structure
from mcp_trio.protocol.errors import INVALID_PARAMS, INVALID_REQUEST, MCPError
from mcp_trio.protocol.methods import METHODS
from mcp_trio.protocol.revisions import LATEST_LEGACY, supports
from mcp_trio.protocol.types.base import LOGGING_LEVELS
from mcp_trio.server.bus import LISTS, ListKind
from mcp_trio.server.context import Context
from mcp_trio.server.dispatch import Work
from mcp_trio.server.params import invalid, required
from mcp_trio.server.session import Session
from mcp_trio.wire.jsonrpc import JSONObject

if TYPE_CHECKING:
    from mcp_trio.server.app import Server


def lifecycle_handlers(server: "Server") -> Mapping[str, Work]:
    """What answers the methods of this module, for one server."""

    async def initialize(ctx: Context, params: JSONObject) -> JSONObject:
        return _initialize(server, ctx, params)

    async def discover(ctx: Context, _params: JSONObject) -> JSONObject:
        return _discover(server, ctx.protocol_version)

    return {
        "initialize": initialize,
        "server/discover": discover,
        "ping": ping,
        "logging/setLevel": set_level,
    }


def _initialize(server: "Server", ctx: Context, params: JSONObject) -> JSONObject:
    session, version = ctx.info.session, ctx.protocol_version
    check_introduction(session, params)
    begin_session(session, params, version)
    result: JSONObject = {
        "protocolVersion": version,
        "capabilities": capabilities_of(server, version),
        "serverInfo": server.info,
    }
    if server.instructions is not None:
        result["instructions"] = server.instructions
    return result


def check_introduction(session: Session, params: JSONObject) -> None:
    """Refuse an `initialize` that comes too late, or that cannot be read."""
    if session.version is not None:
        raise MCPError(INVALID_REQUEST, "This connection has been initialized already.")
    try:
        structure(params, METHODS["initialize"].params_type())
    except StructureError as exc:
        raise MCPError(INVALID_PARAMS, f"Invalid params of initialize: {exc}") from None


def begin_session(session: Session, params: JSONObject, version: str) -> None:
    """Remember what a client says in `initialize`, and the revision that is spoken from now on."""
    session.client_capabilities = params["capabilities"]
    session.client_info = params["clientInfo"]
    session.version = version
    session.peer.batches_allowed = supports("batches", version)
    session.peer.answers_strays = supports("error_without_id", version)


def _discover(server: "Server", version: str) -> JSONObject:
    result: JSONObject = {
        "supportedVersions": list(server.dispatcher.modern),
        "capabilities": capabilities_of(server, version),
        "_meta": server.stamp,
    }
    if server.instructions is not None:
        result["instructions"] = server.instructions
    return result


async def ping(_ctx: Context, _params: JSONObject) -> JSONObject:
    """Answer that we are here."""
    return {}


async def set_level(ctx: Context, params: JSONObject) -> JSONObject:
    """Remember which log messages the client wants (MCP 2025-11-25, server/utilities/logging)."""
    level = required(params, "level", str)
    if level not in LOGGING_LEVELS:
        raise invalid("level", f"one of {', '.join(LOGGING_LEVELS)}", level)
    ctx.info.session.log_level = level
    return {}


def changing_lists(server: "Server") -> list[ListKind]:
    """The lists of whose changes a legacy client hears: those that the server declares."""
    declared = capabilities_of(server, LATEST_LEGACY)
    return [kind for kind in LISTS if declared.get(kind, {}).get("listChanged")]


def capabilities_of(server: "Server", version: str) -> JSONObject:
    """What the server can do in one revision.

    Tools, resources and prompts may be added at any time, so their lists may always change, also
    where they are empty now, and clients may ask to hear of it.
    """
    found: JSONObject = {
        "logging": {},
        "tools": {"listChanged": True},
        "resources": {"listChanged": True, "subscribe": True},
        "prompts": {"listChanged": True},
    }
    if len(server.completions) and supports("completions_capability", version):
        found["completions"] = {}
    for name, value in server.capabilities.items():
        if value is None:
            found.pop(name, None)
        elif name != "extensions" or supports("extensions", version):
            found[name] = value
    return found
