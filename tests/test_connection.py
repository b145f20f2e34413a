"""Connections: how bytes become messages, and all the ways in which a connection ends."""

import signal
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

import pytest
import trio
import trio.testing

from mcp_trio.connection import (
    Connection,
    FrameStream,
    LineStream,
    memory_frame_pair,
    open_connection,
    open_private_nursery,
    serve_connection,
)
from mcp_trio.exceptions import Closed, ConnectionClosed
from mcp_trio.incoming import Handler, IncomingRequest
from mcp_trio.testing import memory_pair
from mcp_trio.wire.jsonrpc import JSONObject, Notification, Request, Response, decode, encode


async def _echo(request: IncomingRequest) -> JSONObject:
    if request.method == "wait":
        await trio.sleep(request.params["seconds"])
    return request.params


def _ignore(notification: Notification) -> None:
    pass


def _lines(stream: trio.abc.Stream, limit: int = 10_000) -> LineStream:
    return LineStream(stream, stream, limit)


@asynccontextmanager
async def open_pair() -> AsyncIterator[tuple[Connection, LineStream]]:
    """A connection, and the lines of the other side, played by the test."""
    near, far = memory_pair()
    async with open_connection(_lines(near), handle=_echo, on_notification=_ignore) as connection:
        yield connection, _lines(far)


async def test_requests_travel_in_both_directions(nursery: trio.Nursery) -> None:
    """Reader, writer and handlers of both ends work at once, over real bytes."""
    near, far = memory_pair()

    async def serve() -> None:
        async with open_connection(
            _lines(far), handle=_echo, on_notification=_ignore
        ) as connection:
            assert await connection.peer.request("b", {"n": 2}) == {"n": 2}
            await connection.peer.wait_closed()

    nursery.start_soon(serve)
    async with open_connection(_lines(near), handle=_echo, on_notification=_ignore) as connection:
        for n in range(20):
            assert await connection.peer.request("a", {"n": n}) == {"n": n}


async def test_end_of_input_is_news_to_calls_and_not_to_the_body() -> None:
    """I4: a dead peer fails the calls with a reason and does not cancel the body."""
    async with open_pair() as (connection, other):
        await other.aclose()
        with pytest.raises(ConnectionClosed, match="closed the connection"):
            await connection.peer.request("x")
        await trio.sleep(0.01)
        assert connection.peer.closed is not None


async def test_line_over_the_limit_closes_after_what_came_before(nursery: trio.Nursery) -> None:
    """I11: too long a line ends the connection clearly, and loses nothing before it."""
    async with open_pair() as (connection, other):

        async def answer() -> None:
            [request] = await other.receive()
            message = decode(request)
            assert isinstance(message, Request)
            answer = encode(Response(message.id, {"fine": True}))
            await other.send_stream.send_all(answer + b"\n" + b"x" * 20_000)

        nursery.start_soon(answer)
        assert await connection.peer.request("x") == {"fine": True}
        assert "too long" in (await connection.peer.wait_closed()).reason


async def test_a_flood_in_one_read_lets_others_run(nursery: trio.Nursery) -> None:
    """I7: 64 KiB hold thirty thousand lines, and reading them is not the only thing to do."""
    turns = 0
    near, far = memory_frame_pair()

    async def flood() -> None:
        nonlocal turns
        await far.receive()
        await far.send([b"{}"] * 30_000 + [encode(Response(1, {}))])
        while True:
            await trio.lowlevel.checkpoint()
            turns += 1

    async with open_connection(near, handle=_echo, on_notification=_ignore) as connection:
        nursery.start_soon(flood)
        assert await connection.peer.request("x") == {}
        assert turns > 50
    nursery.cancel_scope.cancel()


async def test_answers_in_the_pipe_survive_a_broken_output(
    autojump_clock: trio.testing.MockClock, nursery: trio.Nursery
) -> None:
    """Writing that fails does not lose the answer that lies in the pipe already."""

    class HalfDead(FrameStream):
        def __init__(self) -> None:
            self.broken = trio.Event()
            self.frames = [[encode(Response(1, {"fine": True}))], []]

        async def receive(self) -> list[bytes]:
            await self.broken.wait()
            await trio.sleep(0.1)
            return self.frames.pop(0)

        async def send(self, frames: Sequence[bytes]) -> None:
            await trio.lowlevel.checkpoint()
            self.broken.set()
            raise trio.BrokenResourceError("Broken pipe")

        async def aclose(self) -> None:
            await trio.lowlevel.checkpoint()

    async with open_connection(HalfDead(), handle=_echo, on_notification=_ignore) as connection:
        assert await connection.peer.request("x") == {"fine": True}
        with pytest.raises(ConnectionClosed):
            await connection.peer.request("y")


async def test_process_that_dies_behind_an_open_pipe(
    autojump_clock: trio.testing.MockClock,
) -> None:
    """I4: when the stream says that the peer is dead, half a second is left for its last words."""

    class Haunted(FrameStream):
        async def receive(self) -> list[bytes]:
            await trio.sleep_forever()
            raise AssertionError

        async def send(self, frames: Sequence[bytes]) -> None:
            await trio.lowlevel.checkpoint()

        async def aclose(self) -> None:
            await trio.lowlevel.checkpoint()

        async def wait_death(self) -> str:
            await trio.sleep(10)
            return "it was killed"

        async def obituary(self, reason: str) -> Closed:
            return Closed(reason, -9, "argh")

    async with open_connection(Haunted(), handle=_echo, on_notification=_ignore) as connection:
        with pytest.raises(ConnectionClosed, match=r"it was killed.*-9.*argh"):
            await connection.peer.request("x")
        assert 10 <= trio.current_time() <= 10.5


async def test_body_exceptions_leave_as_themselves() -> None:
    """I10: no group around what the body raises; a group of its own stays; also when cancelled."""
    with pytest.raises(ValueError, match="mine"):
        async with open_pair():
            raise ValueError("mine")
    with pytest.raises(ExceptionGroup, match="mine"):
        async with open_pair():
            raise ExceptionGroup("mine", [ValueError("inner")])
    with pytest.raises(ValueError, match="while cancelled"), trio.CancelScope() as scope:  # noqa: PT012
        async with open_pair():
            scope.cancel()
            try:
                await trio.sleep_forever()
            finally:
                raise ValueError("while cancelled")


async def test_context_of_a_body_exception_is_kept() -> None:
    """The traceback that a user sees tells of the user's errors only."""
    cause = KeyError("first")
    with pytest.raises(ValueError, match="second") as info:  # noqa: PT012
        async with open_pair() as (connection, _):
            connection.nursery.start_soon(trio.sleep_forever)
            try:
                raise cause
            except KeyError:
                raise ValueError("second")  # noqa: B904 - the implicit context is the point
    assert info.value.__context__ is cause


@pytest.mark.parametrize("waiting", [True, False])
async def test_failure_of_a_task_leaves_a_private_nursery(waiting: bool) -> None:
    """A Ctrl-C may strike in any task: it comes out, as itself, and not what it cancelled."""

    async def strike() -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):  # noqa: PT012
        async with open_private_nursery() as nursery:
            nursery.start_soon(strike)
            if waiting:
                await trio.sleep_forever()


def test_ctrl_c_while_the_connection_works() -> None:
    """A Ctrl-C that arrives in the reader or the writer is raised in the program's main task."""

    class Striking(LineStream):
        async def send(self, frames: Sequence[bytes]) -> None:
            signal.raise_signal(signal.SIGINT)
            await super().send(frames)

    async def main() -> None:
        near, _far = memory_pair()
        stream = Striking(near, near, 1000)
        async with open_connection(stream, handle=_echo, on_notification=_ignore) as connection:
            try:
                await connection.peer.request("x")
            except KeyboardInterrupt:
                assert connection.peer.closed is None
                raise

    with pytest.raises(KeyboardInterrupt):
        trio.run(main)


async def test_cancellation_passes_through_a_private_nursery() -> None:
    """Cancelled is no failure: it reaches the scope that it belongs to."""
    with trio.move_on_after(0) as scope:
        async with open_private_nursery() as nursery:
            nursery.start_soon(trio.sleep_forever)
            await trio.sleep_forever()
    assert scope.cancelled_caught


async def _serve(stream: FrameStream, handle: Handler = _echo, **how: Any) -> Closed:
    return await serve_connection(
        stream, handle=handle, on_notification=_ignore, on_open=lambda peer: None, **how
    )


async def test_server_answers_what_was_asked_before_the_input_ended(
    autojump_clock: trio.testing.MockClock, nursery: trio.Nursery
) -> None:
    """`printf ... | server`: requests, then end of input; the answers still come, within grace."""
    near, far = memory_pair()
    near = trio.StapledStream(near, near)
    await near.send_all(
        encode(Request(1, "wait", {"seconds": 0.5}))
        + b"\n"
        + encode(Request(2, "wait", {"seconds": 60}))
    )
    await near.send_eof() if hasattr(near.send_stream, "send_eof") else None
    assert isinstance(far, trio.StapledStream)
    reader = far.receive_stream
    assert isinstance(reader, trio.testing.MemoryReceiveStream)
    reader.put_eof()
    nursery.start_soon(_serve, _lines(far))
    [answer] = await _lines(near).receive()
    assert decode(answer) == Response(1, {"seconds": 0.5})
    assert await _lines(near).receive() == []
    assert trio.current_time() == pytest.approx(1.0)


async def test_serving_never_raises_for_what_the_peer_does(nursery: trio.Nursery) -> None:
    """A peer that vanishes, at any moment, is a normal end for a server."""
    near, far = memory_frame_pair()
    ended = trio.Event()

    async def serve() -> None:
        await _serve(far)
        ended.set()

    nursery.start_soon(serve)
    await near.send([encode(Request(1, "wait", {"seconds": 60})), b"noise", b"[]", b"{"])
    await trio.testing.wait_all_tasks_blocked()
    await near.aclose()
    with trio.fail_after(5):
        await ended.wait()


async def test_handler_whose_cleanup_fails_hurts_nobody_else(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Errors that a handler's nursery mixes with the cancellation stay in the log, at every end.

    Which task goes first when a connection ends is up to the scheduler: hence the repetition.
    """

    async def handle(request: IncomingRequest) -> JSONObject:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(trio.sleep_forever)
            try:
                await trio.sleep_forever()
            finally:
                raise ValueError("the cleanup failed")

    for cancelled in [True, False] * 10:
        near, far = memory_frame_pair()
        with trio.CancelScope() as scope:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(partial(_serve, far, handle, grace=0))
                await near.send([encode(Request(1, "x"))])
                await trio.testing.wait_all_tasks_blocked()
                scope.cancel() if cancelled else await near.aclose()
    assert "the cleanup failed" in caplog.text


@pytest.mark.parametrize("which", ["near", "far"])
async def test_reason_is_never_empty(which: str) -> None:
    """Who closes the stream under a connection is told that it was he."""
    near, far = memory_pair()
    async with open_connection(_lines(near), handle=_echo, on_notification=_ignore) as connection:
        await (near if which == "near" else far).aclose()
        with trio.fail_after(5):
            closed = await connection.peer.wait_closed()
    ours = "reading from the peer failed: the stream was closed at this end"
    assert closed.reason == (ours if which == "near" else "the peer closed the connection")


async def test_what_was_sent_last_still_leaves() -> None:
    """Leaving the block normally writes what waits, for half a second at most."""
    near, far = memory_frame_pair()
    async with open_connection(near, handle=_echo, on_notification=_ignore) as connection:
        await connection.peer.notify("last")
    assert [decode(frame) for frame in await far.receive()] == [Notification("last")]


async def test_stream_is_closed_however_the_block_ends() -> None:
    """I1: the connection owns its stream."""
    for failure in (None, ValueError()):
        near, far = memory_pair()
        try:
            async with open_connection(_lines(near), handle=_echo, on_notification=_ignore):
                if failure is not None:
                    raise failure
        except ValueError:
            pass
        with pytest.raises(trio.ClosedResourceError):
            await near.send_all(b"x")
        with pytest.raises(trio.BrokenResourceError):
            await far.send_all(b"x")
