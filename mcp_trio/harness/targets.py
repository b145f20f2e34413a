"""Servers under test: how to open a wire to each, and how to name it on a command line.

command_target(["my-server"])                     a process of its own for each connection
url_target("http://localhost:8000/mcp")           one that runs: http, https, ws, wss, unix, tcp
server_target(server)                             a `Server` object in this process
"""

from __future__ import annotations

import os
import shlex
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager

import attrs
import trio

from mcp_trio.client.targets import InProcessServer
from mcp_trio.connection import FrameStream, LineStream, memory_frame_pair, open_private_nursery
from mcp_trio.exceptions import TransportError
from mcp_trio.harness.exchange import Exchange
from mcp_trio.harness.model import Transport
from mcp_trio.harness.wires import FrameWire, LineWire, Wire
from mcp_trio.transports.parameters import StdioParameters
from mcp_trio.wire.ndjson import CLIENT_LINE_LIMIT

CONNECT_TIME = 30.0  # seconds for a socket; a process has its time when it is asked something


class ServerTarget(ABC):
    """A server under test.

    Attributes:
        name: What people call it.
        transport: What it is reached over.
        words: How it is named at the end of a shell command, for replays.
    """

    name: str
    transport: Transport
    words: str

    @abstractmethod
    def open_wire(self, exchange: Exchange) -> AbstractAsyncContextManager[Wire]:
        """Connect, for the length of a block. A process is started for it, and ended with it.

        Raises:
            OSError, TransportError: It cannot be started or reached.
        """

    @abstractmethod
    def for_client(self) -> StdioParameters | str | FrameStream | InProcessServer:
        """What `mcp_trio.open_client` takes to connect to it."""


@attrs.frozen
class _Command(ServerTarget):
    parameters: StdioParameters
    name: str
    words: str
    transport: Transport = "stdio"

    @asynccontextmanager
    async def open_wire(self, exchange: Exchange) -> AsyncIterator[Wire]:
        from mcp_trio.transports.stdio import open_stdio

        number = 0

        def on_stderr(line: str) -> None:
            exchange.add("stderr", line.encode(), connection=number)

        parameters = attrs.evolve(self.parameters, stderr=on_stderr)
        async with open_stdio(parameters, line_limit=CLIENT_LINE_LIMIT) as (stream, child):
            wire = LineWire("stdio", exchange, stream, child)
            number = wire.number
            yield wire

    def for_client(self) -> StdioParameters:
        return self.parameters


def command_target(
    command: StdioParameters | Sequence[str], name: str | None = None, words: str | None = None
) -> ServerTarget:
    """A server that is started for each connection, and spoken to over its stdin and stdout.

    Args:
        command: The program and its arguments, or more than that of how it is run.
        name: What people call it, if not by its command line.
        words: How it is named on a command line, for replays, if not by its own.
    """
    if isinstance(command, StdioParameters):
        parameters = command
    else:
        parameters = StdioParameters.from_argv(command)
    line = shlex.join([parameters.command, *parameters.args])
    # Names only: a value may be a secret, and `-e NAME` takes the one that the reader has.
    env = "".join(f"-e {shlex.quote(variable)} " for variable in parameters.env or ())
    return _Command(parameters, name or line, words or f"{env}-- {line}")


@attrs.frozen
class _Socket(ServerTarget):
    name: str
    words: str
    transport: Transport = "stream"

    @asynccontextmanager
    async def open_wire(self, exchange: Exchange) -> AsyncIterator[Wire]:
        with trio.fail_after(CONNECT_TIME):
            stream = await _connect(self.name)
        async with stream:
            yield LineWire("stream", exchange, LineStream(stream, stream, CLIENT_LINE_LIMIT))

    def for_client(self) -> str:
        return self.name


async def _connect(place: str) -> trio.abc.HalfCloseableStream:
    scheme, _, where = place.partition(":")
    where = where.removeprefix("//")
    if scheme == "unix":
        return await trio.open_unix_socket(os.fspath(where))
    host, _, port = where.rpartition(":")
    if not port.isdecimal():
        raise TransportError(f"{place!r} is no address: expected tcp:HOST:PORT")
    return await trio.open_tcp_stream(host.strip("[]"), int(port))


@attrs.frozen
class _WebSocket(ServerTarget):
    name: str
    words: str
    headers: Mapping[str, str] | None = attrs.field(default=None, repr=False)
    transport: Transport = "websocket"

    @asynccontextmanager
    async def open_wire(self, exchange: Exchange) -> AsyncIterator[Wire]:
        from mcp_trio.transports.websocket import open_websocket_stream

        opening = open_websocket_stream(
            self.name, headers=self.headers, message_limit=CLIENT_LINE_LIMIT
        )
        async with opening as stream:
            yield FrameWire("websocket", exchange, stream)

    def for_client(self) -> str:
        return self.name


def url_target(
    url: str,
    *,
    headers: Mapping[str, str] | None = None,
    sse: bool = False,
    words: str | None = None,
) -> ServerTarget:
    """A server that runs.

    Args:
        url: http, https, ws, wss, unix:PATH or tcp:HOST:PORT.
        headers: Sent with every HTTP request, or with the opening of a WebSocket.
        sse: An http or https URL is the event stream of HTTP+SSE (2024-11-05).
        words: How it is named on a command line, for replays, if not by this URL.
    """
    if words is None:
        words = shlex.quote(url) + (" --sse" if sse else "")
        words += "".join(f" --header '{name}: ...'" for name in headers or {})
    scheme = url.partition(":")[0].lower()
    if scheme in ("unix", "tcp"):
        return _Socket(url, words)
    if scheme in ("ws", "wss"):
        return _WebSocket(url, words, headers)
    from mcp_trio.harness.http_target import HTTPTarget, SSETarget

    return (SSETarget if sse else HTTPTarget)(url, words, headers)


@attrs.frozen
class _InProcess(ServerTarget):
    server: InProcessServer
    name: str
    words: str
    transport: Transport = "memory"

    @asynccontextmanager
    async def open_wire(self, exchange: Exchange) -> AsyncIterator[Wire]:
        near, far = memory_frame_pair()
        async with open_private_nursery() as nursery:
            nursery.start_soon(self.server.serve_frames, far)
            yield FrameWire("memory", exchange, near)

    def for_client(self) -> InProcessServer:
        return self.server


def server_target(server: InProcessServer, name: str, words: str = "demo") -> ServerTarget:
    """A server in this process, without a transport between.

    Args:
        words: How the same server is named on a command line, for replays.
    """
    return _InProcess(server, name, words)
