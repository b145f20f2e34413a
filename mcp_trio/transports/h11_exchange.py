"""One request on a connection that h11 keeps in order, and the answer to it."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from email.utils import formatdate
from functools import lru_cache

import h11
import trio

from mcp_trio.transports.h11_wire import Wire, pieces
from mcp_trio.transports.http_exchange import (
    BodyTooLarge,
    BodyTooSlow,
    ClientGone,
    HTTPRequest,
    MalformedBody,
    RequestError,
    ResponseHeaders,
    SendPiece,
)
from mcp_trio.transports.http_face import BODILESS, WatchedExchange, header_fields
from mcp_trio.transports.http_limits import MIB

#: Bytes of a body that nobody wanted which are read all the same, to keep the connection.
UNREAD_BODY = 65_536

#: Events of h11 handled before other tasks get a turn: a chunk may be as small as a byte.
EVENTS_A_TURN = 100


class H11Exchange(WatchedExchange):
    """An exchange whose bytes go over a `Wire`."""

    def __init__(self, request: HTTPRequest, wire: Wire, shutting_down: trio.Event) -> None:
        super().__init__(request, wire.reader, shutting_down)
        self._wire = wire
        self._responding = False
        self._unreadable = False

    def on_wait(self) -> None:
        if not self._responding:
            self._wire.clock.stop()
            self._reader.watch()

    async def body(self, limit: int) -> bytes:
        limit = min(limit, self._wire.limits.body_bytes)
        body = bytearray()
        try:
            self._begin_body(limit)
            if not await self._collect(body, limit):  # mostly it came together with the head
                await self._wait_for_body(body, limit)
        except h11.RemoteProtocolError as error:
            self._unreadable = True
            if self._reader.ended:
                raise ClientGone("the connection ended before the body did") from None
            raise MalformedBody(str(error)) from None
        except RequestError:
            self._unreadable = True
            raise
        return bytes(body)

    async def _wait_for_body(self, body: bytearray, limit: int) -> None:
        if self._wire.http.they_are_waiting_for_100_continue:
            welcome = h11.InformationalResponse(status_code=100, headers=[])
            await self._send_piece(self._wire.encode_event(welcome))
        patience = self._wire.limits.body_time
        start = trio.current_time()
        with trio.CancelScope() as scope:
            while True:
                scope.deadline = start + patience * (1 + len(body) // MIB)
                await self._wire.feed()
                if await self._collect(body, limit):
                    return
        raise BodyTooSlow(f"the body took too long: {len(body)} bytes came in time")

    async def _collect(self, body: bytearray, limit: int) -> bool:
        """Take all that h11 has of the body; True if that was the end of it."""
        http = self._wire.http
        count = 0
        while type(event := http.next_event()) is h11.Data:
            body += event.data
            if len(body) > limit:
                raise BodyTooLarge(f"the body has more than {limit} bytes")
            count += 1
            if count % EVENTS_A_TURN == 0:
                await trio.lowlevel.checkpoint()
        return type(event) is h11.EndOfMessage

    async def respond(self, status: int, headers: ResponseHeaders = (), body: bytes = b"") -> None:
        fields = header_fields(headers)
        if status not in BODILESS:
            fields.append((b"content-length", b"%d" % len(body)))
        head = self._head(status, fields)
        self._begin()
        if self.request.method == "HEAD":
            body = b""
        data = self._wire.encode(head, body)
        self._responding = True  # so that waiting for that neither stops the clock nor is watched
        for piece in pieces(data):
            self._wire.clock.start(self._wire.limits.write_time)
            await self._wire.send(piece)
        self._responding = False

    @asynccontextmanager
    async def stream(self, status: int, headers: ResponseHeaders = ()) -> AsyncIterator[SendPiece]:
        head = self._head(status, header_fields(headers))
        self._begin()
        silent = self.request.method == "HEAD"
        turn = trio.StrictFIFOLock()

        async def send(piece: bytes) -> None:
            if not piece or silent:
                return
            try:
                turn.acquire_nowait()  # as good as always; the other way costs a task switch
            except trio.WouldBlock:
                await turn.acquire()
            try:
                await self._send_piece(self._wire.encode_event(h11.Data(data=piece)))
            finally:
                turn.release()

        await self._send_piece(self._wire.encode_event(head))
        yield send
        await self._send_piece(self._wire.encode_event(h11.EndOfMessage()))

    async def _send_piece(self, data: bytes) -> None:
        """Send a part of a stream, from whatever task, within the time there is for it."""
        for piece in pieces(data):
            with trio.move_on_after(self._wire.limits.write_time) as scope:
                await self._wire.send(piece)
            if scope.cancelled_caught:
                self._reader.end()
                raise ClientGone("the client does not read")

    def _head(self, status: int, fields: list[tuple[bytes, bytes]]) -> h11.Response:
        """The head of an answer. Raises h11.LocalProtocolError if it is not valid HTTP."""
        fields.append((b"date", _date(int(time.time()))))
        if self.shutting_down.is_set() or self._is_last():
            fields.append((b"connection", b"close"))
        return _response(status, tuple(fields))

    def _is_last(self) -> bool:
        """Whether there is no finding the next request, behind the body of this one."""
        http = self._wire.http
        if http.their_state is not h11.SEND_BODY:
            return http.their_state is h11.ERROR
        if self._unreadable or http.they_are_waiting_for_100_continue:
            return True  # the client that waits may now send the body or not: nobody can tell
        return int(self.request.headers.get("content-length") or "0") > UNREAD_BODY


@lru_cache(maxsize=256)
def _response(status: int, fields: tuple[tuple[bytes, bytes], ...]) -> h11.Response:
    """The head of an answer: mostly one that was checked before, which is half of its cost."""
    return h11.Response(status_code=status, headers=list(fields))


@lru_cache(maxsize=1)
def _date(seconds: int) -> bytes:
    """The Date of an answer (RFC 9110, section 6.6.1)."""
    return formatdate(seconds, usegmt=True).encode("ascii")
