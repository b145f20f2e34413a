"""A connection: one nursery, one task that reads, one task that writes.

    stream ──▶ reader task ──▶ decode ──▶ peer.feed
    stream ◀── writer task ◀── outbox ◀── calls, answers, notifications

The stream is a `FrameStream`: whatever can carry one JSON text after another. `LineStream`
makes one of any Trio byte stream, with one message a line; the other transports bring theirs.

How a connection ends is most of this file, because it is most of what goes wrong elsewhere:

- **The input ends.** A client's server has gone: `Closed` is recorded and every call that
  waits is told. A server's client has gone: handlers get a short grace to finish, since a
  client may well write its requests, close its end and read the answers.
- **The output breaks.** Nothing more can be sent, but answers may still lie in the pipe: the
  reader goes on to the end of them.
- **The process behind the stream dies** while somebody else holds its pipe open. No end of
  input will ever come, so the stream itself says so (`FrameStream.wait_death`).
- **The block is left**, normally, by an exception or by cancellation: the tasks are cancelled.

None of the first three cancels the body of the block, nor raises into it: the tasks here do
not raise, they record the reason, and the next call finds it. An exception of the body leaves
the block as itself and not inside a group, since a nursery is nobody's business but ours.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager

import attrs
import trio

from mcp_trio.exceptions import Closed
from mcp_trio.incoming import Handler, sole_exception
from mcp_trio.outbox import OUTBOX_LIMIT, Outbox
from mcp_trio.peer import Peer
from mcp_trio.wire.jsonrpc import INVALID_REQUEST, Malformed, Notification, decode
from mcp_trio.wire.ndjson import LineFramer, LineTooLong

#: Seconds for finding out why a stream ended: the exit status, the last words on stderr.
OBITUARY_TIME = 0.5
#: Seconds that the handlers of a server have left once its input has ended.
SERVER_GRACE = 1.0
#: Seconds for writing what still waits when a block is left normally.
FLUSH_TIME = 0.5
#: Frames that are dealt with before other tasks have a turn: of a flood of empty objects, thirty
#: thousand fit into what is read at once.
FRAMES_AT_ONCE = 256
#: Seconds for closing a stream that wants to say goodbye, as TLS does.
CLOSE_TIME = 1.0
#: Frames that an in-memory stream holds before its sender waits.
MEMORY_FRAMES = 64


class FrameStream(ABC):
    """Carries frames, each one JSON text without its delimiter, in both directions."""

    @abstractmethod
    async def receive(self) -> list[bytes]:
        """Wait for frames: at least one, or an empty list at the end of the input.

        Raises:
            LineTooLong: A frame is over the limit; the stream is of no use any more.
            trio.BrokenResourceError: The stream broke.
        """

    @abstractmethod
    async def send(self, frames: Sequence[bytes]) -> None:
        """Send all the frames. Only the writer task calls this.

        Raises:
            trio.BrokenResourceError: The other side has gone.
        """

    @abstractmethod
    async def aclose(self) -> None:
        """Close both directions."""

    async def wait_death(self) -> str:
        """Wait until the other side is dead though the stream is open; say of what it died."""
        await trio.sleep_forever()
        raise AssertionError("unreachable")

    async def obituary(self, reason: str) -> Closed:
        """Say how the stream ended: for a process, with its exit status and last words.

        Takes `OBITUARY_TIME` at most, and then says what is known by then.
        """
        return Closed(reason)


class LineStream(FrameStream):
    """One frame a line, as on stdio, over any pair of Trio byte streams.

    Args:
        receive_stream: Where lines come from.
        send_stream: Where lines go; the same object for a two-way stream.
        limit: The most bytes that one line may have.
    """

    def __init__(
        self,
        receive_stream: trio.abc.ReceiveStream,
        send_stream: trio.abc.SendStream,
        limit: int,
    ) -> None:
        self.receive_stream = receive_stream
        self.send_stream = send_stream
        self._framer = LineFramer(limit)
        self._failure: LineTooLong | None = None

    async def receive(self) -> list[bytes]:
        frames: list[bytes] = []
        while not frames:
            if self._failure is not None:
                raise self._failure
            data = await self.receive_stream.receive_some()
            try:
                frames.extend(self._framer.feed(bytes(data)) if data else self._framer.end())
            except LineTooLong as exc:
                self._failure = exc  # after the lines that came before it
                continue
            if not data:
                break
        return frames

    async def send(self, frames: Sequence[bytes]) -> None:
        await self.send_stream.send_all(b"\n".join(frames) + b"\n")

    async def aclose(self) -> None:
        try:
            await self.send_stream.aclose()
        finally:
            await self.receive_stream.aclose()


class MemoryFrameStream(FrameStream):
    """One end of a pair in memory, made by `memory_frame_pair`."""

    def __init__(
        self,
        outgoing: trio.MemorySendChannel[list[bytes]],
        incoming: trio.MemoryReceiveChannel[list[bytes]],
    ) -> None:
        self._outgoing = outgoing
        self._incoming = incoming

    async def receive(self) -> list[bytes]:
        try:
            return await self._incoming.receive()
        except trio.EndOfChannel:
            return []

    async def send(self, frames: Sequence[bytes]) -> None:
        await self._outgoing.send(list(frames))

    async def aclose(self) -> None:
        self._outgoing.close()
        self._incoming.close()
        await trio.lowlevel.checkpoint()


def memory_frame_pair() -> tuple[MemoryFrameStream, MemoryFrameStream]:
    """Two ends of a stream in memory; each holds a few frames before its sender waits."""
    there = trio.open_memory_channel[list[bytes]](MEMORY_FRAMES)
    back = trio.open_memory_channel[list[bytes]](MEMORY_FRAMES)
    return MemoryFrameStream(there[0], back[1]), MemoryFrameStream(back[0], there[1])


@attrs.define(eq=False)
class Connection:
    """A stream, the peer at our end of it, and the tasks between the two.

    Tasks that live as long as the connection may join its nursery; they must not raise.
    """

    stream: FrameStream
    peer: Peer
    nursery: trio.Nursery
    _outbox: Outbox
    _grace: float
    _input_ended: trio.Event = attrs.field(factory=trio.Event)

    def start(self) -> None:
        """Start the tasks that read, write and watch. They do not raise."""
        for task in (self._read, self._write, self._watch):
            self.nursery.start_soon(task)

    @trio.lowlevel.enable_ki_protection  # a Ctrl-C is for the program, not for a task of ours
    async def _read(self) -> None:
        reason = "the peer closed the connection"
        try:
            while frames := await self.stream.receive():
                for number, frame in enumerate(frames, 1):
                    self.peer.feed(decode(frame))
                    if number % FRAMES_AT_ONCE == 0:
                        await trio.lowlevel.checkpoint()
        except LineTooLong as exc:
            reason = f"the peer sent a message that is too long: {exc}"
            self.peer.feed(Malformed(INVALID_REQUEST, str(exc), None, False, b""))
        except (trio.BrokenResourceError, trio.ClosedResourceError) as exc:
            reason = f"reading from the peer failed{_because(exc)}"
        self._input_ended.set()
        if self._grace:
            with trio.move_on_after(self._grace):
                await self.peer.finish()
        await self._end(reason)

    @trio.lowlevel.enable_ki_protection
    async def _write(self) -> None:
        try:
            while frames := await self._outbox.take():
                await self.stream.send(frames)
                self._outbox.written(frames)
        except (trio.BrokenResourceError, trio.ClosedResourceError) as exc:
            self._outbox.close()
            with trio.move_on_after(OBITUARY_TIME):
                await self._input_ended.wait()
            await self._end(f"writing to the peer failed{_because(exc)}")

    @trio.lowlevel.enable_ki_protection
    async def _watch(self) -> None:
        reason = await self.stream.wait_death()
        with trio.move_on_after(OBITUARY_TIME):  # its last words may still lie in the pipe
            await self._input_ended.wait()
        await self._end(reason)

    async def _end(self, reason: str) -> None:
        if self.peer.closed is None:
            self.peer.close(await self.stream.obituary(reason))


def _because(exc: Exception) -> str:
    if isinstance(exc, trio.ClosedResourceError):
        return ": the stream was closed at this end"
    cause = str(exc.__cause__ or exc)
    return f": {cause}" if cause else ""


@asynccontextmanager
async def open_private_nursery() -> AsyncIterator[trio.Nursery]:
    """A nursery that the body of the block need not know of.

    Its tasks are cancelled when the block is left, and what the body raises leaves the block as
    itself: a nursery that somebody opened for himself may raise groups, one that hides inside a
    context manager may not (`except ValueError` around it would never fire).
    """
    raised: BaseException | None = None
    try:
        async with trio.open_nursery() as nursery:
            try:
                yield nursery
            except BaseException as exc:
                raised = exc
                raise
            finally:
                nursery.cancel_scope.cancel()
    except BaseException as exc:
        if raised is None or isinstance(raised, trio.Cancelled):
            raised = _failure_in(exc) or raised
        if raised is None or exc is raised:
            raise
        # The group around it is ours and says nothing. Raising here would make the group the
        # context of what the body raised, so put back the context that it had.
        context = raised.__context__
        try:
            raise raised
        finally:
            raised.__context__ = context
            del raised


def _failure_in(exc: BaseException) -> BaseException | None:
    """What is more than a cancellation: a Ctrl-C, say, that struck one of the nursery's tasks."""
    if isinstance(exc, BaseExceptionGroup):
        failure = exc.split(trio.Cancelled)[1]
        return None if failure is None else sole_exception(failure)
    return None if isinstance(exc, trio.Cancelled) else exc


@asynccontextmanager
async def open_connection(
    stream: FrameStream,
    *,
    handle: Handler,
    on_notification: Callable[[Notification], None],
    on_stray: Callable[[bytes, str], object] | None = None,
    max_in_flight: int = 1000,
    answers_strays: bool = False,
    grace: float = 0.0,
    outbox_limit: int = OUTBOX_LIMIT,
) -> AsyncIterator[Connection]:
    """Run a connection for the length of a block, and close the stream at its end.

    The parameters that are not named here are those of `Peer`.

    Args:
        stream: Owned by the connection from here on.
        grace: Seconds that handlers may go on after the input has ended.
        outbox_limit: Bytes that may wait to be written before senders wait.

    What the body raises leaves the block as it is. The end of the connection is not raised
    here: it is the `ConnectionClosed` of the calls, and `connection.peer.closed`.
    """
    try:
        async with open_private_nursery() as nursery:
            outbox = Outbox(outbox_limit)
            peer = Peer(
                nursery,
                outbox,
                handle=handle,
                on_notification=on_notification,
                on_stray=on_stray,
                max_in_flight=max_in_flight,
                answers_strays=answers_strays,
            )
            connection = Connection(stream, peer, nursery, outbox, grace)
            connection.start()
            try:
                yield connection
                with trio.move_on_after(FLUSH_TIME):  # what was sent last leaves as well
                    await outbox.flush()
            finally:
                peer.close(Closed("the connection was closed at this end"))
    finally:
        # Who is cancelled has no time for goodbyes: then closing is cutting.
        hurried = trio.current_effective_deadline() == -math.inf
        patience = 0.0 if hurried else CLOSE_TIME
        with trio.CancelScope(deadline=trio.current_time() + patience, shield=True):
            await stream.aclose()


async def serve_connection(
    stream: FrameStream,
    *,
    handle: Handler,
    on_notification: Callable[[Notification], None],
    on_stray: Callable[[bytes, str], object] | None = None,
    on_open: Callable[[Peer], None],
    max_in_flight: int = 1000,
    grace: float = SERVER_GRACE,
) -> Closed:
    """Serve one peer until it is gone; says why it went.

    `on_open` is called with the peer before anything is read. Whatever the peer does, this
    does not raise; cancelling it closes the stream.
    """
    async with open_connection(
        stream,
        handle=handle,
        on_notification=on_notification,
        on_stray=on_stray,
        max_in_flight=max_in_flight,
        answers_strays=True,
        grace=grace,
    ) as connection:
        on_open(connection.peer)
        return await connection.peer.wait_closed()
