"""The queue between everybody who sends and the one task that writes.

Only the writer touches the stream: a caller that is cancelled can therefore never cut a frame
in half. What it costs is a queue, and a queue needs a bound. This one is bounded in bytes,
since one frame may be a hundred bytes and the next one a hundred megabytes.
"""

import math
from typing import Protocol

import trio

from mcp_trio.wire.jsonrpc import RequestId

#: Bytes that may wait for the writer before senders have to wait too.
OUTBOX_LIMIT = 4 * 1024 * 1024


class Outgoing(Protocol):
    """Takes the frames that a peer sends: an `Outbox` where all go the same way, something else
    where each goes its own.

    `related` is the id of the incoming request that a frame belongs to: its answer, its progress,
    what its handler asks. It is None for all other frames. `exempt` frames are goodbyes, for
    which there is always room.
    """

    def put_nowait(
        self, frame: bytes, *, related: RequestId | None = None, exempt: bool = False
    ) -> None:
        """Take a frame; `trio.WouldBlock` without room, `trio.ClosedResourceError` at the end."""

    async def put(self, frame: bytes, *, related: RequestId | None = None) -> None:
        """Take a frame, waiting for room first; `trio.ClosedResourceError` at the end."""

    async def flush(self) -> None:
        """Wait until everything that was taken is written, or cannot be any more."""

    def close(self) -> None:
        """Take nothing more."""


class Outbox:
    """Frames on their way to the writer task, in order, bounded in bytes.

    A frame is accepted while fewer than `limit` bytes wait, so a frame larger than the limit
    still passes when the queue has room, and at most one frame lies above the bound.
    """

    def __init__(self, limit: int = OUTBOX_LIMIT) -> None:
        self.limit = limit
        self.closed = False
        self._waiting_bytes = 0
        self._send, self._receive = trio.open_memory_channel[bytes](math.inf)
        self._changed = trio.lowlevel.ParkingLot()

    def put_nowait(
        self, frame: bytes, *, related: RequestId | None = None, exempt: bool = False
    ) -> None:
        """Queue a frame, whatever it is related to.

        `exempt` frames pass a full queue. They are the cancellations: each follows a request
        that was accepted before, so those requests bound their number.

        Raises:
            trio.WouldBlock: The queue is full.
            trio.ClosedResourceError: Nothing can be sent any more.
        """
        if self.closed:
            raise trio.ClosedResourceError("the outbox is closed")
        if self._waiting_bytes >= self.limit and not exempt:
            raise trio.WouldBlock
        self._waiting_bytes += len(frame)
        self._send.send_nowait(frame)

    async def put(self, frame: bytes, *, related: RequestId | None = None) -> None:
        """Queue a frame, waiting for room first if there is none.

        Cancelled while it waits, it has queued nothing.

        Raises:
            trio.ClosedResourceError: Nothing can be sent any more.
        """
        await trio.lowlevel.checkpoint_if_cancelled()
        while True:
            try:
                return self.put_nowait(frame)
            except trio.WouldBlock:
                await self._changed.park()

    async def take(self) -> list[bytes]:
        """For the writer: wait for a frame, and take all that wait.

        Returns an empty list once the outbox is closed and empty.
        """
        try:
            frames = [await self._receive.receive()]
        except trio.EndOfChannel:
            return []
        while True:
            try:
                frames.append(self._receive.receive_nowait())
            except (trio.WouldBlock, trio.EndOfChannel):
                return frames

    def written(self, frames: list[bytes]) -> None:
        """For the writer: these frames have left, and make room."""
        self._waiting_bytes -= sum(map(len, frames))
        self._changed.unpark_all()

    async def flush(self) -> None:
        """Wait until everything that was queued has been written, or cannot be any more."""
        await trio.lowlevel.checkpoint()
        while self._waiting_bytes and not self.closed:
            await self._changed.park()

    def close(self) -> None:
        """Accept nothing more. Senders that wait get `trio.ClosedResourceError`."""
        self.closed = True
        self._send.close()
        self._changed.unpark_all()
