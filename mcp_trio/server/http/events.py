"""What was sent on the streams of legacy sessions, kept for clients that lost the connection.

A client that comes back names the last event that it got, and gets what was sent after it on the
same stream. Events are numbered stream by stream. A store may forget: it is bounded, and what
it forgets first is what is oldest, since an answer always comes last.
(MCP 2025-11-25, basic/transports, Resumability and Redelivery)
"""

from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Sequence

import attrs


class EventStore(ABC):
    """Keeps events by stream. Methods are called in Trio's thread and must not block."""

    @abstractmethod
    def add(self, stream: str, number: int, data: bytes) -> None:
        """Keep an event; numbers grow within a stream, not always by one."""

    @abstractmethod
    def after(self, stream: str, number: int) -> Sequence[tuple[int, bytes]]:
        """What is kept of the events of a stream after the one with this number, in order."""

    @abstractmethod
    def drop(self, stream: str) -> None:
        """Forget a stream, of which there may be nothing."""


@attrs.define(eq=False)
class _Kept:
    events: deque[tuple[int, bytes]] = attrs.field(factory=deque)
    size: int = 0


class MemoryEventStore(EventStore):
    """Keeps events in memory, within bounds: for each stream and for all of them together.

    Args:
        stream_bytes: Bytes kept of one stream. The newest event is kept however large it is.
        total_bytes: Bytes kept in all. Beyond it, the streams that were silent longest lose
            what is kept of them.
    """

    def __init__(self, *, stream_bytes: int = 1024 * 1024, total_bytes: int = 64 * 1024 * 1024):
        self.stream_bytes = stream_bytes
        self.total_bytes = total_bytes
        self.size = 0
        self._streams: dict[str, _Kept] = {}  # those with the newest events last

    def add(self, stream: str, number: int, data: bytes) -> None:
        kept = self._streams.pop(stream, None) or _Kept()
        self._streams[stream] = kept
        kept.events.append((number, data))
        self._grow(kept, _cost(data))
        while kept.size > self.stream_bytes and len(kept.events) > 1:
            self._grow(kept, -_cost(kept.events.popleft()[1]))
        while self.size > self.total_bytes and len(self._streams) > 1:
            self.drop(next(iter(self._streams)))

    def after(self, stream: str, number: int) -> Sequence[tuple[int, bytes]]:
        kept = self._streams.get(stream)
        return [] if kept is None else [event for event in kept.events if event[0] > number]

    def drop(self, stream: str) -> None:
        kept = self._streams.pop(stream, None)
        if kept is not None:
            self.size -= kept.size

    def _grow(self, kept: _Kept, by: int) -> None:
        kept.size += by
        self.size += by


def _cost(data: bytes) -> int:
    """Bytes that an event takes, roughly: with what Python needs to hold it."""
    return len(data) + 200
