"""What one client may take of a server, and the clock that holds it to that."""

from __future__ import annotations

import math

import attrs
import trio

MIB = 1 << 20


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
