"""Which message of a legacy session goes to which HTTP response, now or later.

A session sends on many HTTP responses. Each POST that brings requests opens a *stream*: what
belongs to those requests travels on it, and the answers end it. Everything else travels on a
stream that the client opens by a GET, to listen. No message is on two streams.

A stream is not the same as an HTTP response. The response may break, or be closed on purpose,
and the client comes back with another one for the same stream, which goes on where the last one
stopped. So a stream is a log with numbered events, and a response is somebody who reads it:

    put() ──▶ number it ──┬──▶ the event store, for a reader that comes later
                          └──▶ the reader that is there now, who takes it in order

While a reader is there and slow, senders wait; while none is there, nobody waits, and the store,
which is bounded, keeps what it can.

A POST need not become a stream at all. Where the answer is the first thing to be sent, it is the
whole response, as JSON, and nothing is numbered or kept.
(MCP 2025-11-25, basic/transports, Streamable HTTP)
"""

import re
from collections import deque
from collections.abc import Collection

import attrs
import trio

from mcp_trio.outbox import OUTBOX_LIMIT
from mcp_trio.server.http.events import EventStore
from mcp_trio.wire.jsonrpc import RequestId
from mcp_trio.wire.sse import encode_event

#: Streams of POSTs that one session may come back to. Of those that are complete, the oldest
#: are forgotten.
MOST_STREAMS = 64
#: Streams to listen on that one session may have at a time.
MOST_LISTENING = 8

_EVENT_ID = re.compile(r"([0-9]{1,15})-([0-9]{1,15})", re.ASCII)


@attrs.define(eq=False)
class Stream:
    """One stream: its events, and who reads them.

    Attributes:
        id: Tells it from the other streams of its session.
        primed: Whether the first reader is first given an id that it can come back with.
        missing: How many requests are not dealt with yet; None on a stream to listen on.
        opened: Whether it is a stream that clients may come back to: then its events have ids and
            are kept. Until then it may still become a single answer.
    """

    id: str
    primed: bool
    missing: int | None
    opened: bool
    _key: str
    _store: EventStore
    _number: int = 0
    _delivered: int = 0
    _reader: "Reader | None" = None
    _waiting: deque[tuple[int, bytes]] = attrs.field(factory=deque)
    _waiting_bytes: int = 0
    _ended: bool = False
    _changed: trio.lowlevel.ParkingLot = attrs.field(factory=trio.lowlevel.ParkingLot)

    @property
    def attached(self) -> bool:
        """Whether somebody reads it."""
        return self._reader is not None

    @property
    def complete(self) -> bool:
        """Whether nothing more will be sent on it."""
        return self._ended or self.missing == 0

    @property
    def has_nothing(self) -> bool:
        """Whether it is complete, and its reader has it all."""
        return self.complete and not self._waiting

    # Writing

    def put_nowait(self, data: bytes, *, exempt: bool = False) -> None:
        """Send a message. Raises `trio.WouldBlock` where the reader is behind."""
        if self._ended:
            return
        if self._reader is not None and self._waiting_bytes >= OUTBOX_LIMIT and not exempt:
            raise trio.WouldBlock
        self._number += 1
        if self.opened:
            self._store.add(self._key, self._number, data)
        if self._reader is not None:
            self._waiting.append((self._number, data))
            self._waiting_bytes += len(data)
        self._changed.unpark_all()

    async def put(self, data: bytes) -> None:
        """Send a message, waiting while the reader is behind."""
        await trio.lowlevel.checkpoint_if_cancelled()
        while True:
            try:
                return self.put_nowait(data)
            except trio.WouldBlock:
                await self._changed.park()

    def served(self) -> None:
        """One of the requests is dealt with."""
        assert self.missing is not None
        self.missing -= 1
        self._changed.unpark_all()

    def end(self) -> None:
        """Nothing more will be sent: the session ends, or the server does."""
        self._ended = True
        self._changed.unpark_all()

    def hang_up(self, retry: float) -> None:
        """Have the present response end, and its client come back after `retry` seconds."""
        if self._reader is not None:
            self._reader.retry = retry
            self._changed.unpark_all()

    # Reading

    async def single_answer(self, patience: float) -> bytes | None:
        """Wait for the answer; None if it cannot be one JSON text, or takes too long."""
        assert self._reader is not None
        with trio.move_on_after(patience):
            while not self.complete and not self._waiting and self._reader.retry is None:
                await self._changed.park()
        if self.complete and len(self._waiting) == 1 and self._reader.retry is None:
            return self._waiting.popleft()[1]
        return None

    def open(self) -> None:
        """From here on it is a stream of events, whose client may come back."""
        self.opened = True
        for number, data in self._waiting:
            self._store.add(self._key, number, data)

    def attach(self, after: int | None = None) -> "Reader":
        """Read it from here on, instead of whoever did: that connection is as good as dead.

        Args:
            after: The number of the last event that the client has; by default it gets what no
                client has got yet.
        """
        reader = Reader(self)
        if self.opened:
            if after is not None:
                self._delivered = min(after, self._number)
            self._replace(self._store.after(self._key, self._delivered))
        self._reader = reader
        self._changed.unpark_all()
        return reader

    def detach(self, reader: "Reader") -> None:
        """That connection is gone."""
        if self._reader is reader:
            self._reader = None
            self._replace(())
            self._changed.unpark_all()

    def _replace(self, waiting: Collection[tuple[int, bytes]]) -> None:
        self._waiting = deque(waiting)
        self._waiting_bytes = sum(len(data) for _, data in waiting)

    def forget(self) -> None:
        """Keep nothing of it."""
        self._store.drop(self._key)


class Reader:
    """One HTTP response that carries a stream, as an `EventSource`."""

    def __init__(self, stream: Stream) -> None:
        self.stream = stream
        self.retry: float | None = None
        self._last = 0

    async def take(self) -> list[bytes]:
        stream = self.stream
        await trio.lowlevel.checkpoint()
        while stream._reader is self:
            events = self._prime() + self._waiting()
            if self.retry is not None:
                events.append(self._farewell(self.retry))
                stream.detach(self)
            if events or stream.complete:
                return events
            await stream._changed.park()
        return []

    def written(self) -> None:
        stream = self.stream
        stream._delivered = max(stream._delivered, self._last)

    def _prime(self) -> list[bytes]:
        """An event without content, whose id the client can come back with from the start."""
        if not self.stream.primed:
            return []
        self.stream.primed = False
        return [encode_event(b"", id=f"{self.stream.id}-0")]

    def _waiting(self) -> list[bytes]:
        stream = self.stream
        waiting = list(stream._waiting)
        if waiting:
            self._last = waiting[-1][0]
            stream._replace(())
            stream._changed.unpark_all()  # there is room again
        if not stream.opened:
            return [encode_event(data) for _, data in waiting]
        return [encode_event(data, id=f"{stream.id}-{number}") for number, data in waiting]

    def _farewell(self, retry: float) -> bytes:
        stream = self.stream
        stream._number += 1
        self._last = stream._number
        return encode_event(b"", id=f"{stream.id}-{stream._number}", retry=round(retry * 1000))


class Streams:
    """All streams of one session: the outbox of its peer (see `outbox.Outgoing`).

    Attributes:
        primed: Whether streams are primed: as the session's revision has it.
        resumable: Whether a client may come back to the streams of its POSTs.
    """

    def __init__(self, name: str, store: EventStore) -> None:
        self.primed = False
        self.resumable = True
        self._name = name
        self._store = store
        self._last_id = 0
        self._closed = False
        self._by_request: dict[RequestId, Stream] = {}
        self._resumable: dict[str, Stream] = {}
        self._listening: list[Stream] = []  # the one that was read latest comes last

    def for_requests(self, ids: Collection[RequestId]) -> "Reader":
        """A stream for a POST with these requests, and its reader; none of the ids is in use."""
        stream = self._make(len(ids), opened=False)
        self._by_request.update(dict.fromkeys(ids, stream))
        return stream.attach()

    def in_use(self, id: RequestId) -> bool:
        """Whether a request with this id is not dealt with yet."""
        return id in self._by_request

    def served(self, id: RequestId) -> None:
        """A request is dealt with: answered, cancelled, or refused."""
        if (stream := self._by_request.pop(id, None)) is not None:
            stream.served()

    def make_resumable(self, stream: Stream) -> None:
        """Let clients come back to the stream of a POST."""
        if not self.resumable:
            return
        stream.open()
        self._resumable[stream.id] = stream
        if len(self._resumable) > MOST_STREAMS:
            oldest = next((s for s in self._resumable.values() if s.complete), None)
            if oldest is not None:
                del self._resumable[oldest.id]
                oldest.forget()

    def hang_up(self, id: RequestId, retry: float) -> None:
        """Close the response on which the messages of a request travel."""
        if (stream := self._by_request.get(id)) is not None:
            stream.hang_up(retry)

    def find(self, event_id: str) -> tuple[Stream, int] | None:
        """The stream of an event, and the event's number."""
        if (match := _EVENT_ID.fullmatch(event_id)) is None:
            return None
        stream_id, number = match.groups()
        streams = (*self._listening, self._resumable.get(stream_id))
        stream = next((s for s in streams if s is not None and s.id == stream_id), None)
        return None if stream is None else (stream, int(number))

    def to_listen(self) -> Stream | None:
        """The stream for a client that begins to listen; None if it has too many already."""
        for stream in reversed(self._listening):
            if not stream.attached:
                return stream
        return self._add_listening() if len(self._listening) < MOST_LISTENING else None

    def listens(self, stream: Stream) -> None:
        """A client has begun to read this one."""
        if stream in self._listening:
            self._listening.remove(stream)
            self._listening.append(stream)

    def end_listening(self) -> None:
        """End the streams that would never end by themselves."""
        for stream in self._listening:
            stream.end()

    # The outbox of the peer

    def put_nowait(
        self, frame: bytes, *, related: RequestId | None = None, exempt: bool = False
    ) -> None:
        self._route(related).put_nowait(frame, exempt=exempt)

    async def put(self, frame: bytes, *, related: RequestId | None = None) -> None:
        await self._route(related).put(frame)

    async def flush(self) -> None:
        await trio.lowlevel.checkpoint()

    def close(self) -> None:
        """The session is over: end all streams, and keep nothing."""
        self._closed = True
        for stream in {*self._by_request.values(), *self._resumable.values(), *self._listening}:
            stream.end()
            stream.forget()

    def _route(self, related: RequestId | None) -> Stream:
        if self._closed:
            raise trio.ClosedResourceError("the session is over")
        if related is not None and (stream := self._by_request.get(related)) is not None:
            return stream
        attached = [stream for stream in self._listening if stream.attached]
        if attached:
            return attached[-1]
        return self._listening[-1] if self._listening else self._add_listening()

    def _add_listening(self) -> Stream:
        stream = self._make(None, opened=True)
        self._listening.append(stream)
        return stream

    def _make(self, missing: int | None, *, opened: bool) -> Stream:
        self._last_id += 1
        id = str(self._last_id)
        return Stream(id, self.primed, missing, opened, f"{self._name}/{id}", self._store)
