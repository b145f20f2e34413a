"""A child's stderr: read it always, remember a little, hide the secrets, pass it on.

A pipe holds some 64 KiB. A server that logs more than that, to a client that does not read, stops
in the middle of a log line and never answers again. So one task reads stderr from before the
first byte until its end, whether or not anybody wants it, and what it keeps has a bound. It asks
for bytes and not for lines: a server may well write ten megabytes without a line end.

What was read goes through three stages: secrets are struck out, the end of it is remembered for
error messages, and the rest goes to whoever asked (our own stderr, a function, or nobody).
"""

from __future__ import annotations

import codecs
import contextlib
import logging
import re
from collections.abc import Callable, Iterable

import trio

from mcp_trio.transports.descriptors import DescriptorSendStream, open_send_stream
from mcp_trio.transports.parameters import StderrMode

TAIL_LIMIT = 8 * 1024  # bytes
LINE_LIMIT = 16 * 1024  # characters
HEAD = 8  # bytes of a secret that are compared before all of them
PATIENCE = 0.1  # seconds that a slow reader of our own stderr may hold up a child's
IMPATIENCE = 0.001  # seconds, once it has used up that

logger = logging.getLogger(__name__)


class Redactor:
    """Replaces secrets in a stream of bytes, also where a secret is cut by a chunk boundary.

    To do that it holds back the end of what it was fed as long as a secret may be starting there.
    """

    def __init__(self, secrets: Iterable[str]) -> None:
        encoded = {secret.encode("utf-8", "surrogateescape") for secret in secrets}
        self._secrets = sorted(encoded, key=len, reverse=True)  # the longest match wins
        self._pattern = re.compile(b"|".join(map(re.escape, self._secrets)))
        self._held = b""

    def feed(self, data: bytes) -> bytes:
        if not self._secrets:
            return data
        data = self._held + data
        cut = len(data) - self._started(data)
        for match in self._pattern.finditer(data) if self._occurs(data) else ():
            if match.start() < cut < match.end():  # what seemed to start is inside a whole one
                cut = len(data) - self._started(data[match.end() :])
        self._held = data[cut:]
        return self._strike(data[:cut])

    def end(self) -> bytes:
        """What was held back, once nothing more can come."""
        held, self._held = self._held, b""
        return self._strike(held)

    def _strike(self, data: bytes) -> bytes:
        return self._pattern.sub(b"***", data) if self._occurs(data) else data

    def _occurs(self, data: bytes) -> bool:
        # Looking for one text after the other takes a tenth of the time of looking for them all.
        return any(secret in data for secret in self._secrets)

    def _started(self, data: bytes) -> int:
        """The length of the longest end of `data` that is the beginning of a secret."""
        return max(_overlap(data, secret) for secret in self._secrets)


def _overlap(data: bytes, secret: bytes) -> int:
    """The length of the longest end of `data` that `secret`, which is longer, begins with.

    A secret may be a file of keys, and trying every length would then take as long as reading
    the chunk a thousand times. So only the places are tried where its first bytes stand.
    """
    head = secret[:HEAD]
    start = data.find(head[:1], max(0, len(data) - len(secret) + 1))
    while start >= 0:
        length = len(data) - start
        if data.startswith(head[:length], start) and secret.startswith(data[start:]):
            return length
        start = data.find(head[:1], start + 1)
    return 0


class Lines:
    """Cuts a stream of bytes into lines of text and calls a function with each of them."""

    def __init__(self, function: Callable[[str], object]) -> None:
        self._function = function
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._unfinished = ""

    def feed(self, data: bytes, *, final: bool = False) -> None:
        *lines, rest = (self._unfinished + self._decoder.decode(data, final)).split("\n")
        for line in lines:
            self._call(line.removesuffix("\r"))
        while len(rest) >= LINE_LIMIT or (final and rest):
            self._call(rest[:LINE_LIMIT])
            rest = rest[LINE_LIMIT:]
        self._unfinished = rest

    def _call(self, line: str) -> None:
        try:
            self._function(line)
        except Exception:
            # A log line is no reason to lose a connection.
            logger.exception("the function that is called with lines of stderr failed")


class OwnStderr:
    """Our own stderr as a place to copy to, which must not hold up the child's.

    It may be a terminal stopped with Ctrl-S, or a pipe that nobody reads. So a write has a
    deadline, and what has not been written by then is dropped; once writing is possible again, a
    note says so.
    """

    def __init__(self) -> None:
        self._stream: DescriptorSendStream | None = None
        self._dropped = 0
        with contextlib.suppress(OSError):  # it may be closed
            self._stream = open_send_stream(2, "stderr")

    async def write(self, data: bytes) -> None:
        if self._stream is None:
            return
        if self._dropped:
            data = b"\n[up to %d bytes of stderr were dropped here]\n" % self._dropped + data
        try:
            with trio.move_on_after(IMPATIENCE if self._dropped else PATIENCE) as scope:
                await self._stream.send_all(data)
            self._dropped = self._dropped + len(data) if scope.cancelled_caught else 0
        except trio.BrokenResourceError:  # nobody reads it any more
            self.close()

    def close(self) -> None:
        if self._stream is not None:
            self._stream.close()
            self._stream = None


class ChildStderr:
    """What one child writes to its stderr.

    Attributes:
        ended: Set when everything has been read, or when there is nothing to read.
    """

    def __init__(self, mode: StderrMode, secrets: Iterable[str]) -> None:
        self.ended = trio.Event()
        self._redactor = Redactor(secrets)
        self._tail = b""
        self._lines = Lines(mode) if callable(mode) else None
        self._inherit = mode == "inherit"

    @property
    def tail(self) -> str:
        """The last of it, `TAIL_LIMIT` bytes at most, from the start of a line if possible."""
        tail = self._tail
        if len(tail) > TAIL_LIMIT:
            tail = tail[-TAIL_LIMIT:]
            tail = tail.partition(b"\n")[2] or tail
        return tail.decode("utf-8", "replace")

    @trio.lowlevel.enable_ki_protection  # a Ctrl-C is for the program, not for this task
    async def drain(self, stream: trio.abc.ReceiveStream) -> None:
        """Read to the end, then close. Cancelling closes too, and forgets what was held back."""
        own = OwnStderr() if self._inherit else None
        try:
            async with stream:
                async for data in stream:
                    await self._take(self._redactor.feed(bytes(data)), own)
                await self._take(self._redactor.end(), own, final=True)
        except trio.BrokenResourceError as exc:
            logger.debug("reading the child's stderr failed: %r", exc)
        finally:
            self.ended.set()
            if own is not None:
                own.close()

    async def _take(self, data: bytes, own: OwnStderr | None, *, final: bool = False) -> None:
        # One byte more than the limit tells a tail that was cut from one that was not.
        self._tail = (self._tail + data)[-TAIL_LIMIT - 1 :]
        if self._lines is not None:
            self._lines.feed(data, final=final)
        if own is not None and data:
            await own.write(data)
