"""A client that speaks HTTP by hand: it sends the bytes it is told to, and reads answers."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

import attrs
import h11
import trio
import trio.testing

from mcp_trio.transports.http_connection import Shared, serve_http_connection
from mcp_trio.transports.http_exchange import Exchange, Handle
from mcp_trio.transports.http_limits import HTTPLimits
from mcp_trio.transports.http_server import serve_http_exchanges

GET = b"GET / HTTP/1.1\r\nHost: x\r\n\r\n"


def post(body: bytes, *fields: bytes, path: bytes = b"/") -> bytes:
    """A POST with its length and further header lines."""
    lines = [b"POST %s HTTP/1.1" % path, b"Host: x", b"Content-Length: %d" % len(body), *fields]
    return b"\r\n".join(lines) + b"\r\n\r\n" + body


@attrs.frozen
class Answer:
    status: int
    headers: dict[str, str]
    body: bytes
    #: Whether the body came to its end.
    whole: bool = True


class RawClient:
    """The client's end of a connection."""

    def __init__(self, stream: trio.abc.Stream) -> None:
        self.stream = stream
        self._left = b""
        self._ended = False

    async def send(self, data: bytes) -> None:
        await self.stream.send_all(data)

    async def ask(self, data: bytes, method: str = "GET") -> Answer:
        await self.send(data)
        return await self.answer(method)

    async def answer(self, method: str = "GET") -> Answer:
        """The next answer. Raises EOFError if the connection is closed instead."""
        parser = self._parser(method)
        status, body = 0, b""
        headers: dict[str, str] = {}
        while True:
            try:
                event = parser.next_event()
            except h11.RemoteProtocolError:
                if not self._ended:
                    raise
                return Answer(status, headers, body, whole=False)
            if event is h11.NEED_DATA:
                await self._feed(parser, started=status != 0)
            elif isinstance(event, h11.InformationalResponse):
                return Answer(event.status_code, {}, self._rest(parser))
            elif isinstance(event, h11.Response):
                status = event.status_code
                headers = {n.decode(): v.decode() for n, v in event.headers}
            elif isinstance(event, h11.Data):
                body += event.data
            elif isinstance(event, h11.EndOfMessage):
                self._rest(parser)
                return Answer(status, headers, body)
            else:
                raise EOFError("the connection was closed")

    async def pieces(self) -> AsyncGenerator[bytes, None]:
        """The body of the next answer as it comes, without its end."""
        parser = self._parser("GET")
        while True:
            event = parser.next_event()
            if event is h11.NEED_DATA:
                await self._feed(parser, started=True)
            elif isinstance(event, h11.Data):
                yield bytes(event.data)
            elif isinstance(event, h11.EndOfMessage):
                return

    async def at_end(self) -> bool:
        """Whether the connection is closed with nothing more on it."""
        try:
            return self._left == b"" and await self.stream.receive_some() == b""
        except trio.BrokenResourceError:
            return True

    def _parser(self, method: str) -> h11.Connection:
        parser = h11.Connection(h11.CLIENT)
        parser.send(h11.Request(method=method, target="/", headers=[("host", "x")]))
        parser.send(h11.EndOfMessage())
        if self._left:
            parser.receive_data(self._left)
        self._left = b""
        return parser

    async def _feed(self, parser: h11.Connection, *, started: bool) -> None:
        try:
            data = bytes(await self.stream.receive_some())
        except trio.BrokenResourceError:
            data = b""
        self._ended = not data
        if self._ended and not started:
            raise EOFError("the connection was closed")
        parser.receive_data(data)

    def _rest(self, parser: h11.Connection) -> bytes:
        self._left = parser.trailing_data[0]
        return b""


@asynccontextmanager
async def connected(
    handle: Handle, limits: HTTPLimits | None = None, *, shared: Shared | None = None
) -> AsyncIterator[RawClient]:
    """A client whose requests go to `handle`, over a stream in memory."""
    near, far = trio.testing.memory_stream_pair()
    shared = shared or Shared(limits or HTTPLimits())
    failures: list[AssertionError] = []

    async def checked(exchange: Exchange) -> None:
        try:
            await handle(exchange)
        except AssertionError as error:  # of a test, which the server would answer with a 500
            failures.append(error)
            raise

    async with trio.open_nursery() as nursery:
        nursery.start_soon(lambda: serve_http_connection(checked, far, shared=shared))
        async with near:
            yield RawClient(near)
        nursery.cancel_scope.deadline = trio.current_time() + 10
    assert not nursery.cancel_scope.cancelled_caught, "the connection outlived its client"
    if failures:
        raise failures[0]


class Site:
    """A server on a port of this machine, and the clients that were connected to it."""

    def __init__(self, port: int, nursery: trio.Nursery) -> None:
        self.port = port
        self.nursery = nursery
        self._clients: list[RawClient] = []

    async def connect(self) -> RawClient:
        client = RawClient(await trio.open_tcp_stream("127.0.0.1", self.port))
        self._clients.append(client)
        return client

    async def close(self) -> None:
        for client in self._clients:
            await trio.aclose_forcefully(client.stream)


@asynccontextmanager
async def serving(handle: Handle, **options: Any) -> AsyncIterator[Site]:
    """A server of ours, with options of `serve_http_exchanges`; cancelled in the end."""
    async with trio.open_nursery() as nursery:
        listeners = await nursery.start(partial(serve_http_exchanges, handle, 0, **options))
        listener = listeners[0]
        if isinstance(listener, trio.SSLListener):
            listener = listener.transport_listener
        site = Site(listener.socket.getsockname()[1], nursery)
        try:
            yield site
        finally:
            await site.close()
        nursery.cancel_scope.cancel()


async def echo(exchange: Exchange) -> None:
    """Answer with the body that was sent."""
    await exchange.respond(200, {"content-type": "text/plain"}, await exchange.body(1 << 30))


async def path(exchange: Exchange) -> None:
    """Answer with the path that was asked for, and leave the body alone."""
    await exchange.respond(200, (), exchange.request.path.encode())
