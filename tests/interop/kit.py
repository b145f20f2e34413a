"""The common server of `tests.interop.servers`, as each implementation makes it.

What differs is a field here and not an `if` in a test. Where a peer differs from the specification,
the comment beside the value says in what.
"""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

import attrs
import trio

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

    def __str__(self) -> str:
        return f"{self.name}-{self.mode}{self.path or ''}"

    @asynccontextmanager
    async def target(self) -> AsyncIterator[list[str] | str]:
        """What to open a client on; a server over HTTP runs for the length of the block."""
        if self.path is None:
            yield self.argv()
        else:
            async with served(self.argv(), sse=self.path == "/sse") as (origin, _):
                yield origin + self.path


@asynccontextmanager
async def served(
    argv: list[str], *, sse: bool = False, port: int | None = None
) -> AsyncIterator[tuple[str, trio.Process]]:
    """An HTTP server in a process of its own: its origin, once it takes connections."""
    port = port or free_port()
    environment = {**os.environ, "PORT": str(port), "TRANSPORT": "sse" if sse else "http"}
    async with trio.open_nursery() as nursery:
        start = partial(trio.run_process, env=environment, stdin=subprocess.DEVNULL, check=False)
        quiet = partial(start, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        process = await nursery.start(quiet, argv)
        with trio.fail_after(20):
            while not await _takes_connections(port):  # noqa: ASYNC110 (it is elsewhere)
                await trio.sleep(0.05)
        yield f"http://127.0.0.1:{port}", process
        nursery.cancel_scope.cancel()


async def _takes_connections(port: int) -> bool:
    try:
        stream = await trio.open_tcp_stream("127.0.0.1", port)
    except OSError:
        return False
    await stream.aclose()
    return True


def free_port() -> int:
    """A TCP port that nobody listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


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
HTTP_KITS = [
    attrs.evolve(kit, path="/mcp")
    for kit in KITS
    if str(kit) != "ts-2.4-legacy"  # it keeps no sessions, and so can neither ask nor tell
]
SSE_KITS = [attrs.evolve(kit, path="/sse") for kit in KITS if str(kit) == "mcp-legacy"]
