"""A stream with HTTP on it: bytes in, bytes out, and h11 which knows what they mean."""

from __future__ import annotations

from collections.abc import Iterator

import h11
import trio

from mcp_trio.transports.http_exchange import ClientGone
from mcp_trio.transports.http_limits import Clock, HTTPLimits
from mcp_trio.transports.shared_reader import SharedReader

#: Bytes asked of the stream at once, and given to it at once.
READ_SIZE = WRITE_SIZE = 65_536


class StreamReader(SharedReader):
    """Reads from a stream."""

    def __init__(self, stream: trio.abc.Stream, nursery: trio.Nursery) -> None:
        super().__init__(nursery)
        self._stream = stream

    async def read(self) -> bytes | None:
        try:
            return bytes(await self._stream.receive_some(READ_SIZE)) or None
        except (trio.BrokenResourceError, trio.ClosedResourceError):
            return None  # it ended, if not in the best of ways


class Wire:
    """What the loop of a connection and the exchange at hand have in common."""

    def __init__(self, stream: trio.abc.Stream, nursery: trio.Nursery, limits: HTTPLimits) -> None:
        self.limits = limits
        self.reader = StreamReader(stream, nursery)
        self.http = h11.Connection(h11.SERVER, max_incomplete_event_size=limits.header_bytes)
        self.clock = Clock()
        #: A write was broken off: whatever came next, the client could not make sense of it.
        self.torn = False
        self._stream = stream

    async def feed(self) -> None:
        """Wait for bytes, and give them (or the news that no more come) to h11."""
        if self.reader.idle:
            await self.reader.more()
        self.http.receive_data(self.reader.take())

    async def send(self, data: bytes | memoryview) -> None:
        """Send all of `data`. The caller sees to its deadline. Raises ClientGone."""
        if self.torn:
            raise ClientGone("the connection was broken off in the middle of an answer")
        self.torn = True
        try:
            await self._stream.send_all(data)
        except (trio.BrokenResourceError, trio.ClosedResourceError):
            self.reader.end()
            raise ClientGone("the client has closed the connection") from None
        self.torn = False

    def encode(self, head: h11.Response, body: bytes) -> bytes:
        """The bytes of a whole answer."""
        data = self.encode_event(head)
        if body:
            data += self.encode_event(h11.Data(data=body))
        return data + self.encode_event(h11.EndOfMessage())

    def encode_event(self, event: h11.Event) -> bytes:
        """The bytes of one of our events, which h11 takes for sent."""
        return self.http.send(event) or b""

    async def close(self, *, linger: bool) -> None:
        """Close as is polite. The caller sees to a deadline.

        If bytes of the client are unread when a socket is closed, the system resets the
        connection, and the client may never see the answer that was still on its way. So where
        more may come, `linger` until the client has closed.
        """
        if self.torn or self.reader.ended:
            return
        try:
            if linger:
                if isinstance(self._stream, trio.abc.HalfCloseableStream):
                    await self._stream.send_eof()
                while not self.reader.ended:
                    await self.reader.more()
                    self.reader.take()
            await self._stream.aclose()
        except (trio.BrokenResourceError, trio.ClosedResourceError):
            return


def pieces(data: bytes) -> Iterator[bytes | memoryview]:
    """Pieces small enough that taking one of them too slowly means not reading at all."""
    if len(data) <= WRITE_SIZE:
        yield data
        return
    view = memoryview(data)
    for start in range(0, len(data), WRITE_SIZE):
        yield view[start : start + WRITE_SIZE]
