"""The common server of `tests.interop.servers`, as each implementation makes it.

What differs is a field here and not an `if` in a test. Where a peer differs from the specification,
the comment beside the value says in what.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import attrs

from mcp_trio import ProtocolError
from mcp_trio.client.events import Granted
from tests import peers

SERVERS = Path(__file__).parent / "servers"
TODAY = "memo://today"
EVERYTHING = Granted(tools=True, uris=frozenset({TODAY}))


@attrs.frozen
class Kit:
    """A common server in one era, and what is particular about it."""

    name: str
    mode: str
    argv: Callable[[], list[str]]
    version: str
    #: The text of the result of `fail`, whose reason is "because".
    failure: str = "because"
    #: Whether an unknown tool is a JSON-RPC error, as the specification has it.
    unknown_tool_is_error: bool = True
    #: The error code for a resource that does not exist.
    no_such_resource: int = -32602
    #: The error code for a prompt without a required argument.
    missing_argument: int = -32602
    #: What `memo://a%20b` binds the variable of `memo://{name}` to; RFC 6570 expands "a b" to it.
    variable: str = "a b"
    #: What a log message "hi" arrives as.
    logged: Any = "hi"
    #: Whether it holds back log messages below the level that was asked for.
    holds_back_logs: bool = True
    #: What comes of asking a client that cannot be asked: an error code, or None for a result with
    #: isError, or what our client raises because it has been asked nevertheless.
    undeclared: int | type[Exception] | None = -32021
    #: What it agrees to tell of, of `EVERYTHING`; None if it cannot be listened to.
    grants: Granted | None = EVERYTHING
    #: The end of its URL if it is reached over HTTP.
    path: str | None = None
    #: The rest of that URL, once it runs.
    origin: str = ""

    def __str__(self) -> str:
        return f"{self.name}-{self.mode}{self.path or ''}"

    @property
    def target(self) -> list[str] | str:
        """What to open a client on."""
        return self.argv() if self.path is None else self.origin + self.path


def _ours() -> list[str]:
    return [sys.executable, "-m", "tests.interop.servers.ours"]


def _mcp() -> list[str]:
    return [str(peers.mcp_python()), str(SERVERS / "mcp_sdk.py")]


def _fastmcp() -> list[str]:
    return [str(peers.fastmcp_python()), str(SERVERS / "fastmcp_sdk.py")]


def _ts_v1() -> list[str]:
    return peers.node_script(SERVERS / "ts_sdk_v1.mjs")


def _ts_v2() -> list[str]:
    return peers.node_script(SERVERS / "ts_sdk_v2.mjs")


KITS = [
    Kit("ours", "auto", _ours, "2026-07-28"),
    Kit("ours", "legacy", _ours, "2025-11-25", no_such_resource=-32002, undeclared=-32600),
    Kit(
        "mcp",
        "auto",
        _mcp,
        "2026-07-28",
        failure="Error executing tool fail",  # the library hides what an unexpected exception says
        unknown_tool_is_error=False,  # a result with isError
        missing_argument=-32603,  # an unexpected exception to the library
    ),
    Kit(
        "mcp",
        "legacy",
        _mcp,
        "2025-11-25",
        failure="Error executing tool fail",
        unknown_tool_is_error=False,
        missing_argument=0,  # no code of the specification
        holds_back_logs=False,  # the library leaves that to its user
        grants=Granted(uris=frozenset({TODAY})),  # it does not declare listChanged in this era
    ),
    Kit(
        "fastmcp",
        "auto",
        _fastmcp,
        "2026-07-28",
        unknown_tool_is_error=False,
        logged={"msg": "hi", "extra": None},
        undeclared=ProtocolError,  # it does not look at what the client declared
        grants=None,  # it has no subscriptions/listen
    ),
    Kit(
        "fastmcp",
        "legacy",
        _fastmcp,
        "2025-11-25",
        unknown_tool_is_error=False,
        logged={"msg": "hi", "extra": None},
        undeclared=None,
        grants=Granted(tools=True),  # it has no resources/subscribe
    ),
    Kit("ts-2.4", "auto", _ts_v2, "2026-07-28", variable="a%20b"),  # it does not decode
    Kit("ts-2.4", "legacy", _ts_v2, "2025-11-25", variable="a%20b", undeclared=None),
    *(
        Kit(
            "ts-1.32",
            mode,
            _ts_v1,
            "2025-11-25",
            unknown_tool_is_error=False,
            variable="a%20b",
            undeclared=None,
        )
        for mode in ("auto", "legacy")
    ),
]

#: The same over HTTP.
HTTP_KITS = [attrs.evolve(kit, path="/mcp") for kit in KITS]
#: The same over HTTP+SSE, which is found by clients of either mode.
SSE_KITS = [
    attrs.evolve(kit, path="/sse", mode=mode)
    for kit in KITS
    if kit.mode == "legacy" and kit.name != "ts-2.4"  # which has given that up
    for mode in ("auto", "legacy")
    if mode == "legacy" or kit.name == "mcp"
]
#: A legacy server without sessions, which can neither ask nor tell.
STATELESS_KITS = [
    attrs.evolve(kit, path="/stateless") for kit in KITS if str(kit) == "ts-2.4-legacy"
]
