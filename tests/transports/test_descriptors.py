"""Streams over descriptors that are shared with others, in one process."""

from __future__ import annotations

import contextlib
import os
import select
import socket
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import trio
import trio.testing

if sys.platform == "win32":
    pytest.skip("the descriptors here are POSIX's", allow_module_level=True)

from mcp_trio.transports import descriptors
from mcp_trio.transports.descriptors import open_receive_stream, open_send_stream
from tests.transports._children import LIMIT, Ends, away_from, flags, towards

SILENT = ["pipe", "socket", "terminal", "foreign pipe", "blocking thread"]


@pytest.fixture
def kind(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """A kind of descriptor; two of them are pipes with something made impossible."""

    def refuse(fd: int, access: int) -> descriptors._Polled:
        raise PermissionError("somebody else's pipe")

    def thread(fd: int, access: int, refusal: str) -> descriptors._Threaded:
        return descriptors._Threaded(os.dup(fd), pollable=False, abandon=True)

    name: str = request.param
    if name == "foreign pipe":
        monkeypatch.setattr(descriptors, "_reopened_pipe", refuse)
        return "pipe"
    if name == "blocking thread":
        monkeypatch.setattr(descriptors, "_open", thread)
        return "pipe"
    return name


@pytest.fixture
def there(kind: str, tmp_path: Path) -> Iterator[Ends]:
    with towards(kind, tmp_path) as ends:
        yield ends


@pytest.fixture
def back(kind: str, tmp_path: Path) -> Iterator[Ends]:
    with away_from(kind, tmp_path) as ends:
        yield ends


@pytest.fixture(autouse=True)
def _no_descriptor_left() -> Iterator[None]:
    """Each test leaves as many open descriptors as it found."""
    before = open_descriptors()
    yield
    assert open_descriptors() == before


def open_descriptors() -> set[str]:
    return set(os.listdir("/dev/fd"))


async def drain(fd: int, size: int) -> bytes:
    """`size` bytes from `fd`, or fewer if they do not come."""

    def read() -> bytes:
        seen = bytearray()
        while len(seen) < size and select.select([fd], [], [], LIMIT)[0]:
            seen += os.read(fd, 65536)
        return bytes(seen)

    return await trio.to_thread.run_sync(read)


@pytest.mark.parametrize("kind", [*SILENT, "file"], indirect=True)
async def test_receives_what_comes_then_the_end(there: Ends) -> None:
    """A stream gives the bytes in order, then b"", and leaves the shared flags alone throughout."""
    before = flags(there.theirs)
    stream = open_receive_stream(there.theirs, "it")
    with trio.fail_after(LIMIT):
        os.write(there.ours, b"one\ntwo\n")
        seen = b""
        while len(seen) < 8:
            seen += await stream.receive_some(3)
        there.end()
        assert await stream.receive_some() == b""
    assert seen == b"one\ntwo\n"
    assert flags(there.theirs) == before
    await stream.aclose()
    assert flags(there.theirs) == before


@pytest.mark.parametrize("kind", [*SILENT, "file"], indirect=True)
async def test_sends_more_than_fits_without_blocking_the_loop(back: Ends) -> None:
    """A reader who comes late gets every byte, and the event loop runs meanwhile."""
    before = flags(back.theirs)
    data = bytes(range(65, 91)) * 10_000
    stream = open_send_stream(back.theirs, "it")
    with trio.fail_after(LIMIT):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(stream.send_all, data)
            await trio.testing.wait_all_tasks_blocked()
            assert await drain(back.ours, len(data)) == data
        await stream.wait_send_all_might_not_block()
        await stream.send_all(b"")
    assert flags(back.theirs) == before
    await stream.aclose()
    assert flags(back.theirs) == before


@pytest.mark.parametrize("kind", ["pipe", "socket", "terminal", "foreign pipe"], indirect=True)
async def test_a_cancelled_receive_takes_nothing_with_it(there: Ends) -> None:
    """Where the event loop can wait, cancelling leaves no thread that eats the next bytes."""
    stream = open_receive_stream(there.theirs, "it")
    with trio.fail_after(LIMIT):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(stream.receive_some)
            await trio.testing.wait_all_tasks_blocked()
            nursery.cancel_scope.cancel()
        os.write(there.ours, b"next\n")
        assert await stream.receive_some() == b"next\n"
    stream.close()


@pytest.mark.parametrize("kind", SILENT[:-1], indirect=True)
async def test_closing_wakes_who_waits(there: Ends) -> None:
    """As every Trio stream: a close by another task ends a receive with ClosedResourceError."""
    stream = open_receive_stream(there.theirs, "it")

    async def receive() -> None:
        with pytest.raises(trio.ClosedResourceError):
            await stream.receive_some()

    with trio.fail_after(LIMIT):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(receive)
            await trio.testing.wait_all_tasks_blocked()
            await stream.aclose()
        await receive()


@pytest.mark.parametrize("kind", ["pipe", "socket", "foreign pipe"], indirect=True)
async def test_closing_between_wake_up_and_read(there: Ends) -> None:
    """A receive that was woken, but has not run when the stream is closed, reads no other file."""

    async def receive() -> None:
        with contextlib.suppress(trio.ClosedResourceError):
            assert await stream.receive_some() == b"x"

    for _ in range(20):  # which of the two tasks runs first is random
        stream = open_receive_stream(there.theirs, "it")
        with trio.fail_after(LIMIT):
            async with trio.open_nursery() as nursery:
                nursery.start_soon(receive)
                await trio.testing.wait_all_tasks_blocked()
                os.write(there.ours, b"x")
                await trio.lowlevel.checkpoint()
                stream.close()
        if select.select([there.theirs], [], [], 0)[0]:
            os.read(there.theirs, 1)


@pytest.mark.parametrize("kind", SILENT, indirect=True)
async def test_after_close_everything_is_refused(back: Ends) -> None:
    """A closed stream never touches a descriptor that got its number since."""
    stream = open_send_stream(back.theirs, "it")
    stream.close()
    with pytest.raises(trio.ClosedResourceError):
        await stream.send_all(b"x")
    with pytest.raises(trio.ClosedResourceError):
        await stream.wait_send_all_might_not_block()


@pytest.mark.parametrize(
    "kind", ["pipe", "socket", "foreign pipe", "blocking thread"], indirect=True
)
async def test_nobody_reads_any_more(kind: str) -> None:
    """EPIPE is a BrokenResourceError that names the stream."""
    if kind == "socket":
        one, other = socket.socketpair()
        reading, writing = one.detach(), other.detach()
    else:
        reading, writing = os.pipe()
    stream = open_send_stream(writing, "the output")
    os.close(reading)
    with pytest.raises(trio.BrokenResourceError, match="cannot write to the output: Broken pipe"):
        await stream.send_all(b"x")
    stream.close()
    os.close(writing)


async def test_a_pipe_that_broke_before() -> None:
    """Without a reader a pipe cannot be reopened; that is found when something is sent."""
    reading, writing = os.pipe()
    os.close(reading)
    stream = open_send_stream(writing, "the output")
    with trio.fail_after(LIMIT), pytest.raises(trio.BrokenResourceError):
        await stream.send_all(b"x")
    stream.close()
    os.close(writing)


@pytest.mark.parametrize("cancel_first", [True, False])
@pytest.mark.parametrize("kind", ["blocking thread"], indirect=True)
async def test_an_abandoned_thread_closes_what_it_used(there: Ends, cancel_first: bool) -> None:
    """Neither cancelling nor closing waits for a thread in its read, and the descriptor lives just
    as long as that thread, so that its number cannot be reused under it."""
    stream = open_receive_stream(there.theirs, "it")

    async def receive() -> None:
        with contextlib.suppress(trio.ClosedResourceError):
            await stream.receive_some()

    with trio.fail_after(LIMIT):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(receive)
            await trio.testing.wait_all_tasks_blocked(0.05)
            if cancel_first:
                nursery.cancel_scope.cancel()
            else:
                stream.close()
    stream.close()
    os.fstat(stream._descriptor._fd)
    os.close(there.theirs)
    try:
        os.write(there.ours, b"x")  # no EPIPE: the thread still has the pipe's read end
        writer = select.poll()
        writer.register(there.ours, 0)
        events = await trio.to_thread.run_sync(writer.poll, LIMIT * 1000)
        assert events == [(there.ours, select.POLLERR)]
    finally:
        os.dup2(there.ours, there.theirs)  # for the fixture to close


async def test_the_position_of_a_file_stays_shared(tmp_path: Path) -> None:
    """`(echo one; server; echo three) > log` must not overwrite: a file is not reopened."""
    path = tmp_path / "log"
    with path.open("wb", buffering=0) as file:
        file.write(b"one\n")
        stream = open_send_stream(file.fileno(), "the log")
        await stream.send_all(b"two\n")
        stream.close()
        file.write(b"three\n")
    assert path.read_bytes() == b"one\ntwo\nthree\n"


@pytest.mark.parametrize("blocking", [True, False])
async def test_a_default_timeout_does_not_reach_shared_sockets(blocking: bool) -> None:
    """socket.setdefaulttimeout() makes new sockets non-blocking, and calls wait; not ours."""
    ours, theirs = socket.socketpair()
    theirs.setblocking(blocking)
    before = flags(theirs.fileno())
    socket.setdefaulttimeout(60)
    try:
        stream = open_receive_stream(theirs.fileno(), "it")
    finally:
        socket.setdefaulttimeout(None)
    assert flags(theirs.fileno()) == before
    with trio.move_on_after(0.05):
        await stream.receive_some()
    ours.send(b"x")
    with trio.fail_after(LIMIT):
        assert await stream.receive_some() == b"x"
    stream.close()
    ours.close()
    theirs.close()


@pytest.mark.parametrize("kind", ["pipe", "terminal", "foreign pipe"], indirect=True)
async def test_a_descriptor_that_others_made_non_blocking(there: Ends, back: Ends) -> None:
    """Whoever shares it may have set O_NONBLOCK: no EAGAIN surfaces, and the flag stays set."""
    os.set_blocking(there.theirs, False)
    os.set_blocking(back.theirs, False)
    receive = open_receive_stream(there.theirs, "input")
    send = open_send_stream(back.theirs, "output")
    data = b"x" * 200_000
    with trio.fail_after(LIMIT):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(send.send_all, data)
            await trio.testing.wait_all_tasks_blocked()
            assert await drain(back.ours, len(data)) == data
            nursery.start_soon(receive.receive_some)
            await trio.testing.wait_all_tasks_blocked()
            os.write(there.ours, b"hello\n")
    assert not os.get_blocking(there.theirs)
    assert not os.get_blocking(back.theirs)
    receive.close()
    send.close()


@pytest.mark.parametrize("kind", ["pipe", "foreign pipe"], indirect=True)
async def test_somebody_else_was_faster(there: Ends) -> None:
    """Of two readers who are woken by one byte, the one who finds nothing goes on waiting."""
    os.set_blocking(there.theirs, False)
    sender, receiver = trio.open_memory_channel[bytes](2)
    streams = [open_receive_stream(there.theirs, "it") for _ in range(2)]

    async def receive(stream: descriptors.DescriptorReceiveStream) -> None:
        sender.send_nowait(await stream.receive_some())

    with trio.fail_after(LIMIT):
        async with trio.open_nursery() as nursery:
            for stream in streams:
                nursery.start_soon(receive, stream)
            await trio.testing.wait_all_tasks_blocked()
            for byte in (b"x", b"y"):
                os.write(there.ours, byte)
                assert await receiver.receive() == byte
                await trio.testing.wait_all_tasks_blocked(0.02)
    for stream in streams:
        stream.close()
    sender.close()
    receiver.close()


async def test_what_cannot_be_read_says_why(tmp_path: Path) -> None:
    """A directory opens like a file and fails when it is read."""
    fd = os.open(tmp_path, os.O_RDONLY)
    stream = open_receive_stream(fd, "the input")
    with pytest.raises(trio.BrokenResourceError, match="cannot read the input: Is a directory"):
        await stream.receive_some()
    stream.close()
    os.close(fd)


async def test_the_wrong_way_round() -> None:
    """A descriptor of the other direction is refused at once, by name; a pipe would even work."""
    reading, writing = os.pipe()
    with pytest.raises(OSError, match="the input is not open for reading"):
        open_receive_stream(writing, "the input")
    with pytest.raises(OSError, match="the output is not open for writing"):
        open_send_stream(reading, "the output")
    os.close(reading)
    os.close(writing)


async def test_max_bytes_must_be_positive(tmp_path: Path) -> None:
    """0 would look like the end of the stream."""
    with towards("pipe", tmp_path) as there:
        stream = open_receive_stream(there.theirs, "it")
        with pytest.raises(ValueError, match="at least 1"):
            await stream.receive_some(0)
        stream.close()
