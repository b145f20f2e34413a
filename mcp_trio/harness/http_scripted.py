"""A small HTTP server that does whatever it is told: the ground that scripted servers stand on.

It knows HTTP and nothing of MCP. What each request is answered with is decided by one function,
which gets the request with a reply to fill: a whole one, a stream of events, half of one, or a
closed connection. That the client went away meanwhile is an event of the reply.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextlib import asynccontextmanager
from typing import Final, TypeAlias

import attrs
import h11
import trio

from mcp_trio.connection import open_private_nursery

CHUNK: Final = 65_536
GONE = (trio.BrokenResourceError, trio.ClosedResourceError, trio.BusyResourceError)

Headers: TypeAlias = Iterable[tuple[str, str]]


class ClientLeft(Exception):
    """The client has closed the connection that a reply was to go over."""


class HTTPReply:
    """What goes back for one request. Nothing is sent until one of the methods is called.

    Attributes:
        left: Set when the client has closed the connection, or the reply has come to its end.
        status: What was sent; None as long as nothing was.
        shouts: Send the names of headers in upper case.
    """

    def __init__(self, stream: trio.abc.Stream, http: h11.Connection) -> None:
        self.left = trio.Event()
        self.status: int | None = None
        self.done = False
        self.shouts = False
        self._stream = stream
        self._http = http
        self._lock = trio.Lock()

    async def whole(
        self, status: int, body: bytes = b"", content_type: str = "", headers: Headers = ()
    ) -> None:
        """A reply with a body, or without one.

        Raises:
            ClientLeft: The client does not wait for it any more.
        """
        own = [("content-length", str(len(body)))]
        if content_type:
            own.append(("content-type", content_type))
        await self.begin(status, [*own, *headers])
        if body:
            await self.data(body)
        await self.end()

    async def begin(self, status: int, headers: Headers = ()) -> None:
        """Status and headers; a body may follow, in pieces. Raises as `whole`."""
        self.status = status
        lines = [
            ((name.upper() if self.shouts else name).encode("ascii"), value.encode("latin-1"))
            for name, value in headers
        ]
        await self._send(h11.Response(status_code=status, headers=lines))

    async def data(self, data: bytes) -> None:
        """A piece of the body. Raises as `whole`."""
        await self._send(h11.Data(data=data))

    async def begin_events(self, headers: Headers = ()) -> None:
        """The beginning of a stream of events. Raises as `whole`."""
        own = [("content-type", "text/event-stream"), ("cache-control", "no-store")]
        await self.begin(200, [*own, *headers])

    async def event(
        self,
        data: bytes | None,
        *,
        id: str | None = None,
        event: str | None = None,
        retry: int | None = None,
    ) -> None:
        """One event. Raises as `whole`."""
        lines: list[bytes] = []
        if event is not None:
            lines.append(b"event: " + event.encode())
        if id is not None:
            lines.append(b"id: " + id.encode())
        if retry is not None:
            lines.append(b"retry: %d" % retry)
        if data is not None:
            lines += [b"data: " + line for line in data.split(b"\n")]
        await self.data(b"\n".join(lines) + b"\n\n")

    async def end(self) -> None:
        """The end of the reply; the connection stays. Raises as `whole`."""
        await self._send(h11.EndOfMessage())
        self.done = True
        self.left.set()

    async def abort(self) -> None:
        """Close the connection at once, whatever is missing of the reply."""
        self.done = True
        await trio.aclose_forcefully(self._stream)
        self.left.set()

    async def _send(self, event: h11.Event) -> None:
        async with self._lock:
            try:
                await self._stream.send_all(self._http.send(event) or b"")
            except (*GONE, h11.LocalProtocolError) as exc:
                self.left.set()
                raise ClientLeft(str(exc)) from exc


@attrs.frozen(eq=False)
class HTTPRequest:
    """One request of the client.

    Attributes:
        connection: The number of its connection.
        method, target: Its first line.
        headers: With names in lower case, in order.
        at: When it was complete, in Trio's time.
        reply: What goes back for it.
    """

    connection: int
    method: str
    target: str
    headers: tuple[tuple[str, str], ...]
    body: bytes = attrs.field(repr=False)
    at: float
    reply: HTTPReply = attrs.field(repr=False)

    @property
    def path(self) -> str:
        return self.target.partition("?")[0]

    @property
    def query(self) -> str:
        return self.target.partition("?")[2]

    def header(self, name: str) -> str | None:
        """The value of a header; several are joined by commas, and None stands for none."""
        found = [value for key, value in self.headers if key == name.lower()]
        return ", ".join(found) if found else None


Handle: TypeAlias = Callable[[HTTPRequest], Awaitable[None]]


@asynccontextmanager
async def open_http(handle: Handle, next_connection: Callable[[], int]) -> AsyncIterator[str]:
    """Serve for the length of a block; its origin, such as "http://127.0.0.1:49152".

    Args:
        handle: Answers each request by means of its `reply`; may return before the reply ends.
        next_connection: Numbers connections.
    """

    async def serve(stream: trio.SocketStream) -> None:
        async with stream:
            try:
                await _serve(stream, handle, next_connection())
            except (*GONE, ClientLeft, h11.RemoteProtocolError):
                pass  # the client has gone, or speaks no HTTP

    listeners = await trio.open_tcp_listeners(0, host="127.0.0.1")
    port = listeners[0].socket.getsockname()[1]
    async with open_private_nursery() as nursery:
        await nursery.start(trio.serve_listeners, serve, listeners)
        yield f"http://127.0.0.1:{port}"


async def _serve(stream: trio.SocketStream, handle: Handle, number: int) -> None:
    http = h11.Connection(h11.SERVER, max_incomplete_event_size=1 << 20)
    while True:
        request = await _next_request(stream, http, number)
        if request is None:
            return
        async with open_private_nursery() as nursery:
            nursery.start_soon(_watch, stream, http, request.reply)
            await handle(request)
            await request.reply.left.wait()
        if not request.reply.done or http.our_state is not h11.DONE:
            return
        if http.their_state is not h11.DONE:
            return
        http.start_next_cycle()


async def _next_request(
    stream: trio.SocketStream, http: h11.Connection, number: int
) -> HTTPRequest | None:
    head: h11.Request | None = None
    body = bytearray()
    while True:
        event = http.next_event()
        if event is h11.NEED_DATA:
            if http.they_are_waiting_for_100_continue:
                go_on = h11.InformationalResponse(status_code=100, headers=[])
                await stream.send_all(http.send(go_on) or b"")
            http.receive_data(await stream.receive_some(CHUNK))
        elif isinstance(event, h11.Request):
            head = event
        elif isinstance(event, h11.Data):
            body += event.data
        elif isinstance(event, h11.EndOfMessage) and head is not None:
            headers = tuple(
                (name.decode("latin-1").lower(), value.decode("latin-1"))
                for name, value in head.headers
            )
            return HTTPRequest(
                connection=number,
                method=head.method.decode("ascii"),
                target=head.target.decode("latin-1"),
                headers=headers,
                body=bytes(body),
                at=trio.current_time(),
                reply=HTTPReply(stream, http),
            )
        else:
            return None  # the connection was closed between requests


async def _watch(stream: trio.SocketStream, http: h11.Connection, reply: HTTPReply) -> None:
    """Notice that the client closes its connection while its reply is not finished."""
    try:
        while data := await stream.receive_some(CHUNK):
            http.receive_data(data)  # the next request, too early
    except GONE:
        pass
    reply.left.set()
