"""Server-sent events: a byte stream cut into events, and events written as bytes.

The format is the one of the HTML standard ("Server-sent events", 9.2.5 and 9.2.6); MCP's HTTP
transports put one JSON-RPC message into the data of each event. It is made of lines. A line ends
with LF, CR or CR LF, a blank line ends the event, and a line that starts with a colon is a comment,
which keeps the connection alive and says nothing.

Three things are easy to get wrong. A CR ends its line at once: the LF that may follow comes in the
next chunk, or never, and an event must not wait for it. The id of the last event belongs to the
stream and not to the event: it stays until another event brings another one, and half an event at
the end of a broken stream must not change it, or what follows it would be lost on resumption. And
an event without data is no event, but one whose data is empty is: servers send it to hand out an
id before anything else (MCP 2025-11-25, basic/transports, "Sending Messages to the Server").

The standard decodes the whole stream as UTF-8 and puts U+FFFD in place of what is not UTF-8. Names
and ids are decoded so, each for itself, which is the same since lines end at ASCII bytes. Data
stays bytes: whoever decodes the JSON in it shall see the damage.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import attrs

LONGEST_RETRY: Final = 10**15
"""Milliseconds: a longer `retry` counts as this one (it is 31,000 years)."""

_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
_LONGEST_PREFIX = len(_BYTE_ORDER_MARK + b"data: ")


@attrs.frozen
class ServerSentEvent:
    """One event.

    `data` are the bytes of its data lines, joined by LF. `event` is its type. `id` is the id that
    it brought itself and None if it brought none (`SSEParser.last_event_id` is the one in force);
    an empty one takes back those before it. `retry` is the wait before reconnecting, in
    milliseconds, that it asked for.
    """

    data: bytes
    event: str = "message"
    id: str | None = None
    retry: int | None = None


class EventTooLong(ValueError):
    """An event, or one line, exceeded the limit, so the rest of the stream is of no use.

    `limit` is the number of bytes that were allowed.
    """

    def __init__(self, limit: int) -> None:
        super().__init__(
            f"a server-sent event is longer than {limit} bytes; if the peer is right to send "
            "messages of this size, raise the limit"
        )
        self.limit = limit


class SSEParser:
    """Cuts chunks of bytes into events.

    `limit` bounds the bytes of one event's data, and those of any single line apart from what a
    data line has in front of its data. At most about twice as much is buffered. There is nothing
    to call at the end of the stream: an event that no blank line has ended is dropped, as the
    standard wants it.

    `last_event_id` is what to resume with: the id of the latest event that had one, whether or not
    it had data; "" if there is none. It may be given from the stream before, which this one
    resumes. `retry` is the wait before reconnecting, in milliseconds, that the peer asked for last,
    or None. Both are up to date with the events yielded so far.
    """

    def __init__(self, limit: int, *, last_event_id: str = "") -> None:
        if limit < 1:
            raise ValueError(f"limit must be a positive number of bytes, not {limit}")
        self.limit = limit
        self.last_event_id = last_event_id
        self.retry: int | None = None
        self._line = bytearray()
        self._at_start = True
        self._after_cr = False
        self._broken = False
        # What the lines of the event under way have said.
        self._data = bytearray()
        self._has_data = False
        self._event = ""
        self._id: str | None = None
        self._retry: int | None = None

    def feed(self, data: bytes) -> Iterator[ServerSentEvent]:
        """Yield each event that `data` completes.

        This is a generator: nothing happens until it is iterated, and it has to be exhausted before
        the next call.

        Raises EventTooLong, after every event before the long one has been yielded, and as soon as
        the limit is passed. The parser is of no use after that: each later call raises too.
        """
        data = self._with_line_feeds(data)
        start = 0
        while (end := data.find(b"\n", start)) >= 0:
            self._extend_line(data[start:end])
            start = end + 1
            if self._is_blank():
                if event := self._end_event():
                    yield event
            else:
                self._read_field()
                self._line.clear()
        self._extend_line(data[start:] if start else data)

    def _with_line_feeds(self, data: bytes) -> bytes:
        """`data` with LF for every line ending; the LF of a CR LF that was cut is dropped."""
        if self._after_cr and data:
            data = data.removeprefix(b"\n")
            self._after_cr = False
        if b"\r" not in data:
            return data
        self._after_cr = data.endswith(b"\r")
        return data.replace(b"\r\n", b"\n").replace(b"\r", b"\n")

    def _extend_line(self, piece: bytes) -> None:
        self._check(len(self._line) + len(piece), self.limit + _LONGEST_PREFIX)
        self._line += piece

    def _check(self, length: int, limit: int) -> None:
        if self._broken or length > limit:
            self._broken = True
            self._line = bytearray()
            self._reset()
            raise EventTooLong(self.limit)

    def _is_blank(self) -> bool:
        if self._at_start:
            self._at_start = False
            if self._line.startswith(_BYTE_ORDER_MARK):
                del self._line[: len(_BYTE_ORDER_MARK)]
        return not self._line

    def _read_field(self) -> None:
        """Take in one line that is not blank: a field, or a comment, whose name is empty."""
        line = self._line
        colon = line.find(b":")
        name = bytes(line if colon < 0 else line[:colon])
        # Cutting off the front leaves the value where it is; a slice would copy it once more.
        del line[: len(name) + (0 if colon < 0 else 1)]
        if line.startswith(b" "):
            del line[0]
        if name == b"data":
            self._add_data(line)
        elif name == b"event":
            self._event = line.decode(errors="replace")
        elif name == b"id" and b"\0" not in line:
            self._id = line.decode(errors="replace")
        elif name == b"retry" and line.isdigit():
            # Python converts only so many digits, and as many as are kept here tell it is too long.
            self._retry = min(int(line.lstrip(b"0")[:16] or b"0"), LONGEST_RETRY)
            self.retry = self._retry

    def _add_data(self, value: bytearray) -> None:
        self._check(len(self._data) + self._has_data + len(value), self.limit)
        if self._has_data:
            self._data += b"\n"
        self._data += value
        self._has_data = True

    def _end_event(self) -> ServerSentEvent | None:
        if self._id is not None:
            self.last_event_id = self._id
        event = None
        if self._has_data:
            name = self._event or "message"
            event = ServerSentEvent(bytes(self._data), name, self._id, self._retry)
        self._reset()
        return event

    def _reset(self) -> None:
        self._data = bytearray()
        self._has_data = False
        self._event = ""
        self._id = None
        self._retry = None


def encode_event(
    data: bytes, *, event: str | None = None, id: str | None = None, retry: int | None = None
) -> bytes:
    """Write one event, its closing blank line included.

    Each line of `data` becomes a data line, so that a line ending in it arrives as LF, whatever it
    was, and never as a boundary. `retry` is in milliseconds.

    Raises ValueError for a line ending or NUL in `event` or `id`, where it would forge fields or
    make the receiver ignore the id, for a lone surrogate there, and for a negative `retry`.
    """
    lines = []
    if event is not None:
        lines.append(b"event: " + _single_line("event", event))
    if id is not None:
        lines.append(b"id: " + _single_line("id", id))
    if retry is not None:
        if retry < 0:
            raise ValueError(f"retry must be a number of milliseconds from 0 on, not {retry}")
        lines.append(b"retry: %d" % retry)
    if b"\r" in data:
        data = data.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
    if b"\n" in data:
        data = data.replace(b"\n", b"\ndata: ")
    return b"\n".join([*lines, b"data: " + data, b"", b""])


def encode_comment(text: str = "") -> bytes:
    """Write a comment, which a receiver ignores: a sign of life on a quiet stream.

    Raises ValueError for a line ending or NUL in `text`.
    """
    # The blank line means nothing here, but parsers that cut at blank lines need it.
    return b":%b\n\n" % _single_line("a comment", text)


def _single_line(what: str, text: str) -> bytes:
    if any(character in text for character in "\r\n\0"):
        raise ValueError(f"{what} of a server-sent event must not hold CR, LF or NUL: {text!r}")
    return text.encode()
