"""A request of ours, from the moment it has an id to its result, and the time that it has.

Each call waits on a channel of its own. What comes for it, progress and then the answer, is put
there by whoever reads, without waiting; so calls do not wait for each other, and one that is slow
to take its progress loses the oldest of it and delays nobody.
"""

import inspect
import math
from collections.abc import Callable
from typing import TYPE_CHECKING

import trio

from mcp_trio.exceptions import Closed, MCPError, ProtocolError
from mcp_trio.wire.jsonrpc import ErrorResponse, JSONObject, Malformed, RequestId, Response

if TYPE_CHECKING:
    from mcp_trio.peer import Peer

#: Progress that may wait for a slow `on_progress`; beyond it the oldest is dropped.
PROGRESS_BUFFER = 256

#: Gets the params of each `notifications/progress` of a call; may be a coroutine function.
ProgressCallback = Callable[[JSONObject], object]
#: What comes for a call of ours: progress, its answer, or the reason why there will be none.
Arrival = JSONObject | Response | ErrorResponse | Malformed | Closed | Exception


class Call:
    """A request of ours, from the moment it has an id; made by `Peer.call`."""

    def __init__(self, peer: "Peer", id: RequestId, method: str, related: RequestId | None) -> None:
        self.id = id
        self.method = method
        self.related = related
        self.sent = False
        self._peer = peer
        self.frame = b""  # the peer encodes it
        channel: tuple[trio.MemorySendChannel[Arrival], trio.MemoryReceiveChannel[Arrival]]
        channel = trio.open_memory_channel(PROGRESS_BUFFER)
        self._arrived, self._events = channel

    async def send(self) -> None:
        """Hand the request to the writer.

        Raises:
            ConnectionClosed: The connection has ended, or nothing will answer any more.
        """
        if self._peer.input_ended is not None:
            raise self._peer.input_ended.error()
        await self._peer.put(self.frame, related=self.related)
        self.sent = True

    async def result(self, on_progress: ProgressCallback | None = None) -> JSONObject:
        """Wait for the result, handing over progress as it comes, all of it before the result.

        Raises:
            MCPError: The other side answered with an error.
            ProtocolError: Its answer cannot be read.
            ConnectionClosed: The connection ended first.
        """
        while True:
            event = await self._events.receive()
            match event:
                case Response(result=result):
                    return result
                case ErrorResponse(error=error):
                    raise MCPError(error.code, error.message, error.data)
                case Malformed(reason=reason):
                    text = f"the answer to {self.method} (request {self.id!r}) is unreadable"
                    raise ProtocolError(f"{text}: {reason}")
                case Closed():
                    raise event.error()
                case Exception():
                    raise event
                case dict() if on_progress is not None:
                    returned = on_progress(event)
                    if inspect.isawaitable(returned):
                        await returned

    def deliver(self, event: Arrival) -> None:
        """For the peer: put what came for this call onto its channel. Never waits."""
        try:
            self._arrived.send_nowait(event)
        except trio.WouldBlock:  # a slow reader of progress: the oldest gives way
            self._events.receive_nowait()
            self._arrived.send_nowait(event)


class Deadline:
    """The deadline of a call: progress moves it, a person who is being asked stops it."""

    def __init__(self, scope: trio.CancelScope, timeout: float, ceiling: float) -> None:
        self._scope = scope
        self._timeout = timeout
        self._longest = ceiling
        self._ceiling = trio.current_time() + ceiling
        self._paused_at: float | None = None
        self.extend()

    @property
    def seconds(self) -> float:
        """The time that ran out, once one has: the timeout, or the ceiling above it."""
        return self._longest if self._scope.deadline >= self._ceiling else self._timeout

    def extend(self) -> None:
        if self._paused_at is None:
            self._scope.deadline = min(trio.current_time() + self._timeout, self._ceiling)

    def pause(self) -> None:
        self._paused_at = trio.current_time()
        self._left = self._scope.deadline - self._paused_at
        self._scope.deadline = math.inf

    def resume(self) -> None:
        assert self._paused_at is not None
        now = trio.current_time()
        self._ceiling += now - self._paused_at
        self._paused_at = None
        self._scope.deadline = now + self._left
