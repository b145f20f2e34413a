"""What went over the wire, in order: the evidence of every finding, and what a report draws."""

from collections.abc import Callable, Iterable
from typing import Final, Literal, TypeAlias

import attrs
import trio

Kind: TypeAlias = Literal["sent", "received", "stderr", "note"]

LONGEST: Final = 16_384
"""Bytes of one frame that are kept; of a longer one, the beginning and its length."""
MOST: Final = 2_000
"""Entries that are kept: the newest."""


@attrs.frozen
class Entry:
    """One frame, one line of stderr, or one thing that happened.

    Attributes:
        at: Seconds since the exchange began.
        kind: "sent" is from the harness to the peer under test, "received" the other way; "note" is
            an event, such as the end of a connection.
        data: The frame as it was on the wire, without its delimiter.
        label: What carried it, where that says something: "POST 200 application/json".
        connection: Which of several connections of one check; the first is 1.
        length: The bytes that it had; more than `data` holds where it was clipped.
    """

    at: float
    kind: Kind
    data: bytes
    label: str
    connection: int
    length: int


class Exchange:
    """Collects the entries of one check or of one fuzzed case."""

    def __init__(self, clock: Callable[[], float] = trio.current_time) -> None:
        self._clock = clock
        self._began = clock()
        self._entries: list[Entry] = []
        self._connections = 0

    def add(self, kind: Kind, data: bytes, label: str = "", connection: int = 0) -> None:
        at = self._clock() - self._began
        self._entries.append(Entry(at, kind, data[:LONGEST], label, connection, len(data)))
        if len(self._entries) > MOST:
            del self._entries[: MOST // 2]

    def extend(self, entries: Iterable[Entry]) -> None:
        """Take over what happened elsewhere, with the times that it had there."""
        self._entries.extend(entries)

    def note(self, text: str, connection: int = 0) -> None:
        """Say that something happened."""
        # A note may quote a peer, or us: a lone surrogate is no reason to lose all of it.
        self.add("note", text.encode(errors="backslashreplace"), connection=connection)

    def next_connection(self) -> int:
        """The number of a connection that is about to be opened."""
        self._connections += 1
        return self._connections

    def clear(self) -> None:
        """Forget everything: a new check begins. Numbers of connections go on."""
        self._entries.clear()
        self._began = self._clock()

    @property
    def entries(self) -> tuple[Entry, ...]:
        return tuple(self._entries)
