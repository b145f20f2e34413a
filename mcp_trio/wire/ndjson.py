"""Newline-delimited JSON: a byte stream cut into lines.

The stdio transport (MCP 2025-11-25, basic/transports, "stdio") separates messages by newlines, and
a message holds none: inside a JSON string a line feed is written as an escape. So the byte 0x0A
is a boundary wherever it stands, and nothing else is one. That makes framing possible on bytes,
before UTF-8 or JSON are looked at: a chunk may end inside a character, an escape or a CR LF pair
without any harm, and U+2028 or U+0085 inside a string, which `str.splitlines` would cut at, are
left alone.

Two things are easy to get wrong. Work must be linear in the bytes however they are split: only new
bytes are searched for a line feed, and what is incomplete is appended to one `bytearray`, never
joined again from the start. And memory must stay near the size of the message: a list of pieces
would cost eight bytes and more for each piece of one.
"""

from __future__ import annotations

from collections.abc import Iterator

CLIENT_LINE_LIMIT = 64 * 1024 * 1024
"""Bytes: the longest line that a client accepts by default."""

SERVER_LINE_LIMIT = 16 * 1024 * 1024
"""Bytes: the longest line that a server accepts by default.

It is smaller than a client's, because a server chooses its peers less: decoded, a hostile line
takes up to 24 times its size.
"""

_BYTE_ORDER_MARK = b"\xef\xbb\xbf"


class LineTooLong(ValueError):
    """A line exceeded the limit, so where the next message starts is not known any more.

    `limit` is the number of bytes that were allowed.
    """

    def __init__(self, limit: int) -> None:
        super().__init__(
            f"a line is longer than {limit} bytes; if the peer is right to send messages of this "
            "size, raise the line limit"
        )
        self.limit = limit


class LineFramer:
    """Cuts chunks of bytes into lines.

    `limit` bounds the bytes of one line, not counting its line ending (a byte-order mark counts).
    Buffered memory stays below three times the line.
    """

    def __init__(self, limit: int) -> None:
        if limit < 1:
            raise ValueError(f"limit must be a positive number of bytes, not {limit}")
        self.limit = limit
        self._partial = bytearray()
        self._at_start = True
        self._broken = False

    def feed(self, data: bytes) -> Iterator[bytes]:
        """Yield each line that `data` completes, without its LF or CR LF; skip blank lines.

        This is a generator: nothing happens until it is iterated, and it has to be exhausted before
        the next call. A byte-order mark at the start of the stream is dropped.

        Raises LineTooLong, after every complete line before the long one has been yielded, and as
        soon as the limit is passed. The framer is of no use after that: each later call raises too.
        """
        start = 0
        while not self._broken:
            end = data.find(b"\n", start)
            if end < 0:
                break
            if self._partial:
                self._append(data[start:end])
                line = bytes(self._partial)
                self._partial.clear()
            else:
                line = data[start:end]
                self._check(line, len(line))
            start = end + 1
            if line := self._strip(line):
                yield line
        self._append(data[start:] if start else data)

    def end(self) -> Iterator[bytes]:
        """Yield what stands after the last newline: a final message may lack its own."""
        last = self._strip(bytes(self._partial))
        self._partial.clear()
        if last:
            yield last

    def _append(self, piece: bytes) -> None:
        if self._broken:
            raise LineTooLong(self.limit)
        length = len(self._partial) + len(piece)
        self._check(piece or self._partial, length)
        self._partial += piece

    def _check(self, tail: bytes | bytearray, length: int) -> None:
        """Raise LineTooLong if a line of `length` bytes that ends with `tail` exceeds the limit."""
        # One byte more is fine as long as it may turn out to be the CR of a CR LF.
        if length > self.limit and (length > self.limit + 1 or not tail.endswith(b"\r")):
            self._broken = True
            self._partial = bytearray()
            raise LineTooLong(self.limit)

    def _strip(self, line: bytes) -> bytes:
        """The line without one trailing CR and without a byte-order mark; empty if it is blank."""
        if self._at_start:
            self._at_start = False
            line = line.removeprefix(_BYTE_ORDER_MARK)
        if line.endswith(b"\r"):
            line = line[:-1]
        return b"" if line.isspace() else line
