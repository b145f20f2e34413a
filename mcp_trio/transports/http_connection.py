"""HTTP/1.1 for a server, on one connection: h11 knows the protocol, Trio moves bytes and time.

A connection is a loop: read the head of a request, run the handler, read what it left of the
body, and again. One task does all of it, in order, so pipelined requests are answered in turn
and a client that does not read its answers holds up nobody but itself.

Everything a client can do slowly has a deadline, and everything it can make large a limit.
"""

from __future__ import annotations

import math
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, suppress
from email.utils import formatdate
from functools import lru_cache
from urllib.parse import unquote, urlsplit

import attrs
import h11
import trio

from mcp_trio.transports.http_exchange import (
    BodyTooLarge,
    BodyTooSlow,
    ClientGone,
    Handle,
    Headers,
    HTTPRequest,
    MalformedBody,
    ResponseHeaders,
    SendPiece,
)
from mcp_trio.transports.http_face import (
    BODILESS,
    PLAIN_TEXT,
    WatchedExchange,
    answer,
    header_fields,
    logger,
)
from mcp_trio.transports.shared_reader import SharedReader

#: Bytes asked of the stream at once, and given to it at once.
READ_SIZE = WRITE_SIZE = 65_536

#: Bytes of a body that nobody wanted which are read all the same, to keep the connection.
UNREAD_BODY = 65_536

#: What the smallest piece of a body counts in bytes there, for it takes as long to handle.
PIECE_COST = 64

#: Events of h11 handled before other tasks get a turn: a chunk may be as small as a byte.
EVENTS_A_TURN = 100

#: Seconds that closing may take: for the client to read what we sent last, and for TLS.
CLOSING_TIME = 2.0

MIB = 1 << 20

_REQUEST_TIMEOUT = 408


@attrs.frozen(kw_only=True)
class HTTPLimits:
    """What one client may take of a server. Bytes and seconds; `math.inf` lifts a time.

    Going over a limit is answered with the status named, and ends the connection.
    """

    #: Bytes of a request's line and header, at most one read (64 KiB) over it: 431.
    header_bytes: int = 32_768
    #: Bytes of a body, whatever a handler asks for: 413.
    body_bytes: int = 16 * MIB
    #: Seconds from the first byte of a request to the end of its header, and from the opening
    #: of a connection to the first byte: 408, or nothing if not even one byte came.
    header_time: float = 20.0
    #: Seconds for each MiB that is begun of a body: 408.
    body_time: float = 60.0
    #: Seconds that a connection is kept between requests: closed.
    idle_time: float = 60.0
    #: Seconds in which the client has to take the next 64 KiB of an answer: closed.
    write_time: float = 60.0
    #: Connections at a time. Over it, the one that has waited for a request longest is closed;
    #: if all are at work, the new one is answered 503.
    connections: int = 1_000


@attrs.define(eq=False)
class Shared:
    """What the connections of one server have in common."""

    limits: HTTPLimits = attrs.field(factory=HTTPLimits)
    shutting_down: trio.Event = attrs.field(factory=trio.Event)
    #: How many connections there are.
    open: int = 0
    #: Those that wait for a request, longest first (a dict for its order).
    waiting: dict[HTTPConnection, None] = attrs.field(factory=dict)


async def serve_http_connection(
    handle: Handle,
    stream: trio.abc.Stream,
    *,
    shared: Shared | None = None,
    scheme: str = "http",
    client: str | None = None,
) -> None:
    """Answer the requests that come over one stream, until it ends, and close it.

    Errors of the client and of the handler are answered and end here; nothing is raised.
    Cancelling closes the stream at once.

    Args:
        handle: Called for each request, in the task that this was called in.
        stream: Any stream of bytes; if its `receive_some` is cancelled, nothing may be lost.
        shared: The limits, and what a server has to know of its connections.
        scheme: What the requests say it is: "https" for a TLS stream.
        client: The address of the other end.
    """
    try:
        async with trio.open_nursery() as nursery:
            reader = _StreamReader(stream, nursery)
            connection = HTTPConnection(handle, stream, reader, shared or Shared(), scheme, client)
            await connection.run()
            nursery.cancel_scope.cancel()
    except* Exception:  # would end the server of all the others
        logger.exception("An HTTP connection failed")
    finally:
        await trio.aclose_forcefully(stream)


class Clock:
    """The deadline of a connection, which every request moves a little.

    Entering a cancel scope for each thing that may take too long, or moving the deadline of one,
    costs as much as handling a small request may take. So there is one scope, its deadline is
    left alone if it is about right, and it is stopped only for a handler that begins to wait.
    """

    def __init__(self) -> None:
        self.scope = trio.CancelScope()
        self._due = math.inf

    def start(self, seconds: float) -> None:
        """Cancel the scope in so many seconds, or up to a fiftieth later."""
        due = trio.current_time() + seconds
        if not due <= self._due <= due + seconds / 50:
            self._due = self.scope.deadline = due + seconds / 50

    def stop(self) -> None:
        """What comes now takes as long as it takes."""
        if self._due != math.inf:
            self._due = self.scope.deadline = math.inf


class HTTPConnection:
    """The state of one connection, and the loop over its requests."""

    def __init__(
        self,
        handle: Handle,
        stream: trio.abc.Stream,
        reader: SharedReader,
        shared: Shared,
        scheme: str,
        client: str | None,
    ) -> None:
        self.stream = stream
        self.reader = reader
        self.shared = shared
        self.limits = shared.limits
        self.scheme = scheme
        self.client = client
        self.http = h11.Connection(h11.SERVER, max_incomplete_event_size=self.limits.header_bytes)
        #: A write was broken off: whatever came next, the client could not make sense of it.
        self.torn = False
        self.clock = Clock()
        self._handle = handle
        self._linger = False
        self._head_begun = False

    async def run(self) -> None:
        """Answer requests until the client, a limit, an error or the shutdown ends it."""
        with self.clock.scope:
            patience = self.limits.header_time
            while (request := await self._next_request(patience)) is not None:
                exchange = H11Exchange(request, self)
                await answer(self._handle, exchange)
                self.reader.unwatch()
                if not await self._next_cycle():
                    break
                patience = self.limits.idle_time
        with trio.move_on_after(CLOSING_TIME):
            if self._head_begun:
                await self._refuse(_REQUEST_TIMEOUT, "the header of the request took too long")
            await self._close()

    def drop(self) -> None:
        """Close, for it only waits for a request. See `Shared.waiting`."""
        self._head_begun = False
        self.clock.scope.cancel()

    async def feed(self) -> None:
        """Wait for bytes, and give them (or the news that no more come) to h11."""
        if self.reader.idle:
            await self.reader.more()
        self.http.receive_data(self.reader.take())

    async def send(self, data: bytes | memoryview) -> None:
        """Send all of `data`. The caller sees to its deadline."""
        if self.torn:
            raise ClientGone("the connection was broken off in the middle of an answer")
        self.torn = True
        try:
            await self.stream.send_all(data)
        except (trio.BrokenResourceError, trio.ClosedResourceError):
            self.reader.end()
            raise ClientGone("the client has closed the connection") from None
        self.torn = False

    # Between requests

    async def _next_request(self, patience: float) -> HTTPRequest | None:
        """The head of the next request, or None if there is none and the connection is to end."""
        if self.shared.shutting_down.is_set():
            return None
        self.shared.waiting[self] = None
        self.clock.start(patience)
        try:
            if (event := self.http.next_event()) is h11.NEED_DATA:
                await self.feed()
                event = self.http.next_event()
            if event is h11.NEED_DATA:
                self._head_begun = True
                self.clock.start(self.limits.header_time)
                while (event := self.http.next_event()) is h11.NEED_DATA:
                    await self.feed()
                self._head_begun = False
            return self._head(event) if type(event) is h11.Request else None
        except h11.RemoteProtocolError as error:
            self._head_begun = False
            await self._refuse(error.error_status_hint, str(error))
            return None
        finally:
            self.shared.waiting.pop(self, None)

    def _head(self, event: h11.Request) -> HTTPRequest:
        headers = Headers([(name.lower(), value) for name, value in event.headers.raw_items()])
        # A proxy in front of us may have framed the request by the other one of the two: what
        # it took for the body, we would take for the next request (RFC 9112, section 6.3).
        if "transfer-encoding" in headers:
            if "content-length" in headers:
                raise h11.RemoteProtocolError("both Content-Length and Transfer-Encoding")
            if event.http_version < b"1.1":
                raise h11.RemoteProtocolError("HTTP/1.0 has no Transfer-Encoding")
        target = event.target.decode("ascii")
        if target[:1] not in ("/", "*") and event.method != b"CONNECT":
            target = _origin_form(target, headers.get("host"))
        path, _, query = target.partition("?")
        method = event.method.decode("ascii")
        path = unquote(path) if "%" in path else path
        return HTTPRequest(method, path, query, headers, self.client, self.scheme)

    async def _refuse(self, status: int, reason: str) -> None:
        """Answer what was no request, as the last thing on this connection."""
        if self.http.our_state is h11.SEND_RESPONSE or self.http.our_state is h11.IDLE:
            body = f"{reason}\n".encode()
            fields = header_fields({**PLAIN_TEXT, "content-length": str(len(body))})
            fields.append((b"connection", b"close"))
            head = h11.Response(status_code=status, headers=fields)
            self._linger = True
            with suppress(ClientGone):
                await self.send(_encode(self.http, head, body))

    async def _next_cycle(self) -> bool:
        """Get ready for another request; False if there cannot be one."""
        http = self.http
        if self.torn or http.our_state is not h11.DONE:
            return False
        if http.their_state is h11.SEND_BODY:
            await self._skip_body()
        if http.their_state is not h11.DONE:
            return False
        http.start_next_cycle()
        return True

    async def _skip_body(self) -> None:
        """Read what the handler left of a body, if it is not much. h11's state tells."""
        if self.http.they_are_waiting_for_100_continue:
            return  # and may now send the body or leave it out: nobody can tell
        left = UNREAD_BODY
        try:
            with trio.move_on_after(CLOSING_TIME):
                while left > 0 and type(event := self.http.next_event()) is not h11.EndOfMessage:
                    if event is h11.NEED_DATA:
                        await self.feed()
                    left -= max(PIECE_COST, len(event.data) if type(event) is h11.Data else 0)
        except h11.RemoteProtocolError:
            return

    async def _close(self) -> None:
        """Close so that the client gets to read our last words.

        If bytes of the client are unread when a socket is closed, the system resets the
        connection, and the client may never see the answer that was still on its way.
        """
        if self.torn or self.reader.ended:
            return
        try:
            if self._linger or self.http.their_state is h11.SEND_BODY:
                if isinstance(self.stream, trio.abc.HalfCloseableStream):
                    await self.stream.send_eof()
                while not self.reader.ended:
                    await self.reader.more()
                    self.reader.take()
            await self.stream.aclose()
        except (trio.BrokenResourceError, trio.ClosedResourceError):
            return


class _StreamReader(SharedReader):
    def __init__(self, stream: trio.abc.Stream, nursery: trio.Nursery) -> None:
        super().__init__(nursery)
        self._stream = stream

    async def read(self) -> bytes | None:
        try:
            return bytes(await self._stream.receive_some(READ_SIZE)) or None
        except (trio.BrokenResourceError, trio.ClosedResourceError):
            return None  # it ended, if not in the best of ways


class H11Exchange(WatchedExchange):
    """One request on an `HTTPConnection`."""

    def __init__(self, request: HTTPRequest, connection: HTTPConnection) -> None:
        super().__init__(request, connection.reader, connection.shared.shutting_down)
        self._connection = connection
        self._responding = False

    def on_wait(self) -> None:
        if not self._responding:
            self._connection.clock.stop()
            self._reader.watch()

    async def body(self, limit: int) -> bytes:
        limits = self._connection.limits
        limit = min(limit, limits.body_bytes)
        self._begin_body(limit)
        body = bytearray()
        try:
            if await self._collect(body, limit):  # mostly it came together with the head
                return bytes(body)
            await self._continue()
            with trio.CancelScope() as scope:
                start = trio.current_time()
                while True:
                    scope.deadline = start + limits.body_time * (1 + len(body) // MIB)
                    await self._connection.feed()
                    if await self._collect(body, limit):
                        return bytes(body)
        except h11.RemoteProtocolError as error:
            if self._reader.ended:
                raise ClientGone("the connection ended before the body did") from None
            raise MalformedBody(str(error)) from None
        raise BodyTooSlow(f"the body took too long: {len(body)} bytes came")

    async def _collect(self, body: bytearray, limit: int) -> bool:
        """Take all that h11 has of the body; True if that was the end of it."""
        http = self._connection.http
        count = 0
        while type(event := http.next_event()) is h11.Data:
            body += event.data
            if len(body) > limit:
                raise BodyTooLarge(f"the body has more than {limit} bytes")
            count += 1
            if count % EVENTS_A_TURN == 0:
                await trio.lowlevel.checkpoint()
        return type(event) is h11.EndOfMessage

    async def _continue(self) -> None:
        """Tell a client that asked first that its body is welcome."""
        http = self._connection.http
        if http.they_are_waiting_for_100_continue:
            event = h11.InformationalResponse(status_code=100, headers=[])
            await self._connection.send(http.send(event) or b"")

    async def respond(self, status: int, headers: ResponseHeaders = (), body: bytes = b"") -> None:
        fields = header_fields(headers)
        if status not in BODILESS:
            fields.append((b"content-length", b"%d" % len(body)))
        head = self._response(status, fields)
        self._begin()
        if self.request.method == "HEAD":
            body = b""
        data = _encode(self._connection.http, head, body)
        self._responding = True  # so that waiting for that neither stops the clock nor is watched
        for piece in _pieces(data):
            self._connection.clock.start(self._connection.limits.write_time)
            await self._connection.send(piece)
        self._responding = False

    @asynccontextmanager
    async def stream(self, status: int, headers: ResponseHeaders = ()) -> AsyncIterator[SendPiece]:
        http = self._connection.http
        head = self._response(status, header_fields(headers))
        self._begin()
        turn = trio.StrictFIFOLock()
        silent = self.request.method == "HEAD"

        async def send(piece: bytes) -> None:
            if not piece or silent:
                return
            try:
                turn.acquire_nowait()  # as good as always; the other way costs a task switch
            except trio.WouldBlock:
                await turn.acquire()
            try:
                await self._send_piece(http.send(h11.Data(data=piece)) or b"")
            finally:
                turn.release()

        await self._send_piece(http.send(head) or b"")
        yield send
        await self._send_piece(http.send(h11.EndOfMessage()) or b"")

    async def _send_piece(self, data: bytes) -> None:
        """Send a part of a stream, from whatever task, within the time there is for it."""
        for piece in _pieces(data):
            with trio.move_on_after(self._connection.limits.write_time) as scope:
                await self._connection.send(piece)
            if scope.cancelled_caught:
                self._reader.end()
                raise ClientGone("the client does not read")

    def _response(self, status: int, fields: list[tuple[bytes, bytes]]) -> h11.Response:
        """The head of an answer. Raises h11.LocalProtocolError if it is not valid HTTP."""
        fields.append((b"date", _date(int(time.time()))))
        if self.shutting_down.is_set():
            fields.append((b"connection", b"close"))
        return h11.Response(status_code=status, headers=fields)


def _encode(http: h11.Connection, head: h11.Response, body: bytes) -> bytes:
    """A whole answer."""
    data = http.send(head) or b""
    if body:
        data += http.send(h11.Data(data=body)) or b""
    return data + (http.send(h11.EndOfMessage()) or b"")


def _pieces(data: bytes) -> Iterator[bytes | memoryview]:
    """Pieces small enough that taking one of them too slowly means not reading at all."""
    if len(data) <= WRITE_SIZE:
        yield data
        return
    view = memoryview(data)
    for start in range(0, len(data), WRITE_SIZE):
        yield view[start : start + WRITE_SIZE]


def _origin_form(target: str, host: str | None) -> str:
    """The path and query of a target that is a whole URL, as proxies are sent them.

    RFC 9112 (section 3.2.2) has it win over Host. Whoever checks Host must not be deceived by
    that, so the two have to agree.
    """
    url = urlsplit(target)
    if url.scheme not in ("http", "https") or url.netloc.lower() != (host or "").lower():
        raise h11.RemoteProtocolError(f"the target {target!r} is not on this host")
    return (url.path or "/") + (f"?{url.query}" if url.query else "")


@lru_cache(maxsize=1)
def _date(seconds: int) -> bytes:
    """The Date of an answer (RFC 9110, section 6.6.1)."""
    return formatdate(seconds, usegmt=True).encode("ascii")
