"""One server on every transport that crosses a network: in a test, or as a program to be killed.

    python -m tests.hard_cases.everywhere PATH_OF_A_SOCKET

The program prints, as one line of JSON, where it serves: what fills in the URLs of `WAYS`.
"""

from __future__ import annotations

import json
import socket
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial

import attrs
import trio

import mcp_trio

Places = dict[str, str | int]


@attrs.frozen
class Way:
    """How a client reaches the server: a URL with something to be filled in, and an era."""

    url: str
    mode: str

    def __str__(self) -> str:
        last = self.url.rpartition("/")[2]
        return f"{self.url.partition(':')[0]}{'-sse' if last == 'sse' else ''}-{self.mode}"

    @property
    def has_sessions(self) -> bool:
        """Whether what is being worked on outlives the connections: legacy Streamable HTTP."""
        return self.url.endswith("/mcp") and self.mode == "legacy"


WAYS = [
    Way("http://127.0.0.1:{http}/mcp", "modern"),
    Way("http://127.0.0.1:{http}/mcp", "legacy"),
    Way("http://127.0.0.1:{http}/sse", "legacy"),
    Way("ws://127.0.0.1:{websocket}", "modern"),
    Way("ws://127.0.0.1:{websocket}", "legacy"),
    Way("tcp:127.0.0.1:{tcp}", "modern"),
    Way("unix:{unix}", "legacy"),
]


@attrs.define
class Handlers:
    """How many handlers are at work and how many ended in which way, and what they wait for."""

    working: int = 0
    finished: int = 0
    cancelled: int = 0
    release: trio.Event = attrs.field(factory=trio.Event)

    @contextmanager
    def counted(self) -> Iterator[None]:
        self.working += 1
        try:
            yield
            self.finished += 1
        except trio.Cancelled:
            self.cancelled += 1
            raise
        finally:
            self.working -= 1


def make_server(handlers: Handlers) -> mcp_trio.Server:
    server = mcp_trio.Server("everywhere")

    @server.tool()
    async def wait(ctx: mcp_trio.Context) -> None:
        """Wait to be released."""
        with handlers.counted():
            await ctx.report_progress(1)
            await handlers.release.wait()

    @server.tool()
    async def flow(ctx: mcp_trio.Context, size: int) -> None:
        """Send messages of so many characters until released."""
        with handlers.counted():
            number = 0
            while not handlers.release.is_set():
                number += 1
                await ctx.report_progress(number, message="x" * size)
                await trio.sleep(0.002)

    @server.tool()
    async def add(a: int, b: int) -> int:
        return a + b

    return server


async def serve_everywhere(
    server: mcp_trio.Server,
    unix: str,
    session_idle: float = 1800,
    *,
    task_status: trio.TaskStatus[Places] = trio.TASK_STATUS_IGNORED,
) -> None:
    """Serve until cancelled; with `nursery.start` it gives the places."""
    places: Places = {"unix": unix}
    ways = {
        "http": partial(server.serve_http, 0, sse_path="/sse", session_idle=session_idle),
        "websocket": partial(server.serve_websocket, 0),
        "tcp": partial(trio.serve_tcp, server.serve_stream, 0, host="127.0.0.1"),
    }
    with trio.socket.socket(socket.AF_UNIX) as sock:
        await sock.bind(unix)
        sock.listen()
        async with server.running(), trio.open_nursery() as nursery:
            listener = trio.SocketListener(sock)
            nursery.start_soon(trio.serve_listeners, server.serve_stream, [listener])
            for name, serve in ways.items():
                listeners: list[trio.SocketListener] = await nursery.start(serve)
                places[name] = listeners[0].socket.getsockname()[1]
            task_status.started(places)


async def main(unix: str) -> None:
    async with trio.open_nursery() as nursery:
        serve = partial(serve_everywhere, make_server(Handlers()), unix)
        print(json.dumps(await nursery.start(serve)), flush=True)


if __name__ == "__main__":
    trio.run(main, sys.argv[1])
