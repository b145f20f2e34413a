"""The takeover of standard input and output, seen from outside: each test runs a real process."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

if sys.platform == "win32":
    pytest.skip("the launchers here are POSIX's", allow_module_level=True)

from tests.transports._children import (
    ECHO,
    ENVIRONMENT,
    LIMIT,
    away_from,
    child,
    flags,
    read_until,
    running,
    towards,
)


def run(main: str, given: bytes = b"") -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(
        child(main), input=given, capture_output=True, timeout=LIMIT, env=ENVIRONMENT
    )


@pytest.mark.parametrize(
    ("stdin", "stdout"),
    [
        ("pipe", "pipe"),
        ("socket", "socket"),
        ("terminal", "terminal"),
        ("file", "file"),
        ("pipe", "file"),
        ("file", "pipe"),
        ("pipe", "nothing"),
    ],
)
def test_every_kind_of_descriptor(stdin: str, stdout: str, tmp_path: Path) -> None:
    """Bytes pass both ways, the end of stdin ends the process, and no shared flag is changed."""
    with towards(stdin, tmp_path) as there, away_from(stdout, tmp_path) as back:
        before = flags(there.theirs), flags(back.theirs)
        os.write(there.ours, b"hello\n")
        with running(child(ECHO), stdin=there.theirs, stdout=back.theirs) as process:
            if stdout != "nothing":
                assert read_until(back.ours, b"HELLO\n") == b"HELLO\n"
                assert (flags(there.theirs), flags(back.theirs)) == before
            there.end()
            assert process.wait(LIMIT) == 0
        assert (flags(there.theirs), flags(back.theirs)) == before


def test_null_device_as_stdin_is_an_end_at_once(tmp_path: Path) -> None:
    """A server started with nothing to read stops at once, cleanly."""
    with (
        towards("nothing", tmp_path) as there,
        running(child(ECHO), stdin=there.theirs, stdout=subprocess.DEVNULL) as process,
    ):
        assert process.wait(LIMIT) == 0


def test_one_socket_for_both_directions(tmp_path: Path) -> None:
    """Some launchers give the same socket as stdin and stdout."""
    with (
        towards("socket", tmp_path) as both,
        running(child(ECHO), stdin=both.theirs, stdout=both.theirs) as process,
    ):
        os.write(both.ours, b"hello\n")
        assert read_until(both.ours, b"\n") == b"HELLO\n"
        both.end()
        assert process.wait(LIMIT) == 0


def test_prints_and_subprocesses_cannot_reach_the_wire() -> None:
    """print(), os.write and subprocesses go to stderr, and none of them reads protocol bytes."""
    done = run(
        """
        print("before")
        async with open_standard_streams() as (receive, send):
            print("printed")
            subprocess.run(["echo", "spoken"])
            os.write(1, b"written\\n")
            eaten = subprocess.run(["cat"], stdout=subprocess.PIPE, timeout=5).stdout
            await send.send_all(b"wire " + await receive.receive_some())
            assert eaten == sys.stdin.buffer.read() == b""
        print("after")
        """,
        b"input\n",
    )
    assert done.stdout == b"before\nwire input\nafter\n"
    assert done.stderr == b"printed\nspoken\nwritten\n"
    assert done.returncode == 0


def test_prints_are_not_lost_to_a_kill() -> None:
    """What a tool prints is on stderr at once, not in a buffer that dies with the process."""
    done = run(
        """
        async with open_standard_streams() as (receive, send):
            print("printed")
            os.kill(os.getpid(), signal.SIGKILL)
        """
    )
    assert (done.stdout, done.stderr) == (b"", b"printed\n")


def test_prints_go_nowhere_when_stderr_breaks() -> None:
    """Text that stderr refuses is dropped: it must not come out on the wire afterwards."""
    reading, writing = os.pipe()
    os.close(reading)
    main = """
    async with open_standard_streams() as (receive, send):
        sys.stdout.reconfigure(line_buffering=False)
        print("printed")
    print("after")
    """
    with running(
        child(main), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=writing
    ) as process:
        os.close(writing)
        assert process.communicate(timeout=LIMIT)[0] == b"after\n"


def test_flushed_before_though_replaced() -> None:
    """What was printed before stays in its place, also when sys.stdout is some other object now."""
    done = run(
        """
        import io
        print("before")
        sys.stdout = io.StringIO()
        async with open_standard_streams() as (receive, send):
            await send.send_all(b"wire")
        """
    )
    assert done.stdout == b"before\nwire"


def test_a_stdout_that_is_broken_already() -> None:
    """Text printed before that nobody can read: a BrokenResourceError, as for any later send."""
    reading, writing = os.pipe()
    os.close(reading)
    main = """
    print("before")
    try:
        async with open_standard_streams():
            raise AssertionError
    except trio.BrokenResourceError as error:
        print(error, file=sys.stderr)
    os.dup2(2, 1)
    """
    with running(child(main), stdin=subprocess.DEVNULL, stdout=writing) as process:
        os.close(writing)
        _, complaint = process.communicate(timeout=LIMIT)
    assert complaint == b"cannot flush sys.stdout: Broken pipe\nbefore\n"
    assert process.returncode == 0


def test_everything_is_put_back_on_every_path() -> None:
    """After an end, an exception or a cancellation, descriptors are the same and none is left."""
    done = run(
        """
        def state():
            files = [os.fstat(fd) for fd in (0, 1, 2)]
            return [(f.st_dev, f.st_ino) for f in files], sorted(os.listdir("/proc/self/fd"))

        before = state()
        async with open_standard_streams():
            pass
        assert state() == before
        with contextlib.suppress(KeyError):
            async with open_standard_streams():
                raise KeyError
        assert state() == before
        with trio.CancelScope() as scope:
            async with open_standard_streams() as (receive, send):
                scope.cancel()
                await receive.receive_some()
        assert state() == before
        assert os.get_inheritable(0) and os.get_inheritable(1)
        assert not sys.stdout.line_buffering
        """
    )
    assert (done.returncode, done.stderr) == (0, b"")


def test_a_second_use_is_refused_while_the_first_lasts() -> None:
    """Two servers cannot share the wire; a later one can have it."""
    done = run(
        """
        async with open_standard_streams():
            try:
                async with open_standard_streams():
                    raise AssertionError
            except RuntimeError as error:
                print(error)
        async with open_standard_streams() as (receive, send):
            await send.send_all(b"wire")
        """
    )
    assert done.stdout == b"wire"
    assert b"already in use" in done.stderr
    assert done.returncode == 0


def with_redirection(redirection: str, main: str = ECHO) -> subprocess.CompletedProcess[bytes]:
    shell = ["sh", "-c", f'exec "$@" {redirection}', "sh"]
    return subprocess.run(
        [*shell, *child(main)],
        input=b"hello\n",
        capture_output=True,
        timeout=LIMIT,
        env=ENVIRONMENT,
    )


@pytest.mark.parametrize(
    ("redirection", "complaint"),
    [
        ("0<&-", b"standard input (descriptor 0) is closed"),
        ("1>&-", b"standard output (descriptor 1) is closed"),
        ("0>/dev/null", b"standard input is not open for reading"),
        ("1</dev/null", b"standard output is not open for writing"),
    ],
)
def test_unusable_descriptors_are_named(redirection: str, complaint: bytes) -> None:
    """A stdin or stdout that cannot work is a clear error, not a hang or a silent end."""
    done = with_redirection(redirection)
    assert complaint in done.stderr
    assert done.returncode == 1


def test_without_stderr_the_wire_stays_clean() -> None:
    """With descriptor 2 closed the wire does not get its number, and prints go nowhere."""
    main = """
    async with open_standard_streams() as (receive, send):
        print("printed")
        subprocess.run(["sh", "-c", "echo spoken; echo complaint >&2"])
        await send.send_all(await receive.receive_some())
    """
    assert with_redirection("2>&-", main).stdout == b"hello\n"


def test_stderr_closed_later_does_not_lend_its_number_to_the_wire() -> None:
    """Descriptor 2 closed by the program itself: error messages must not be written to the wire."""
    done = run(
        """
        os.close(2)
        async with open_standard_streams() as (receive, send):
            subprocess.run(["sh", "-c", "echo complaint >&2"])
            os.write(2, b"complaint")
            await send.send_all(await receive.receive_some())
        try:
            os.fstat(2)
        except OSError:
            print("still closed")
        """,
        b"hello\n",
    )
    assert done.stdout == b"hello\nstill closed\n"


def test_a_broken_stdout_is_a_broken_resource() -> None:
    """The client closed its side: sending raises BrokenResourceError, nothing kills the process."""
    reading, writing = os.pipe()
    main = """
    async with open_standard_streams() as (receive, send):
        await receive.receive_some()
        try:
            await send.send_all(b"hello")
        except trio.BrokenResourceError as error:
            print(error)
    """
    with running(child(main), stdin=subprocess.PIPE, stdout=writing) as process:
        os.close(reading)
        os.close(writing)
        _, complaint = process.communicate(b"go", LIMIT)
    assert b"cannot write to standard output: Broken pipe" in complaint
    assert process.returncode == 0


# What Windows and macOS do: the thread really blocks in its read.
ALWAYS_A_THREAD = """
    descriptors._open = lambda fd, access, refusal: descriptors._Threaded(
        os.dup(fd), pollable=False, abandon=True
    )
"""


@pytest.mark.parametrize(
    ("kind", "how"),
    [("pipe", ""), ("socket", ""), ("terminal", ""), ("terminal", ALWAYS_A_THREAD)],
)
def test_a_blocked_read_holds_up_neither_cancellation_nor_exit(
    kind: str, how: str, tmp_path: Path
) -> None:
    """With stdin open and silent, cancelling the reader ends the process at once."""
    main = (
        how
        + """
    async with open_standard_streams() as (receive, send), trio.open_nursery() as nursery:
        nursery.start_soon(receive.receive_some)
        await trio.testing.wait_all_tasks_blocked(0.05)
        await send.send_all(b"blocked")
        nursery.cancel_scope.cancel()
    """
    )
    with towards(kind, tmp_path) as there, away_from("pipe", tmp_path) as back:
        command = child("    import trio.testing\n" + main)
        with running(command, stdin=there.theirs, stdout=back.theirs) as process:
            read_until(back.ours, b"blocked")
            began = time.monotonic()
            assert process.wait(LIMIT) == 0
            assert time.monotonic() - began < 2


def test_the_end_is_seen_by_a_blocked_thread(tmp_path: Path) -> None:
    """Also where a thread blocks in the read, the end of stdin ends the process."""
    with towards("pipe", tmp_path) as there, away_from("pipe", tmp_path) as back:
        command = child(ALWAYS_A_THREAD + ECHO)
        with running(command, stdin=there.theirs, stdout=back.theirs) as process:
            os.write(there.ours, b"hello\n")
            assert read_until(back.ours, b"\n") == b"HELLO\n"
            there.end()
            assert process.wait(LIMIT) == 0
