"""Child processes with real processes and the real clock: starting, dying, and being ended.

Every test here is also a test of lifetimes: a fixture looks for children and descriptors that
were not there before (I1).
"""

import contextlib
import errno
import os
import signal
import subprocess
import sys
import time
import tracemalloc
from collections.abc import Iterator
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any

import pytest
import trio

from mcp_trio.transports.process import ChildProcess, StdioParameters, open_process

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="POSIX processes")

SOON = 5.0  # seconds; nothing that is waited for here takes so long unless it is broken
AT_ONCE = 1.0  # seconds; on a busy machine, but less than a grace that must not be waited for

STUBBORN = "trap '' TERM; echo ready; while :; do sleep 60; done"
STUBBORN_PYTHON = """
import signal, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
print("ready", flush=True)
while True: time.sleep(60)
"""


def descriptors() -> set[tuple[str, str]]:
    found = set()
    for name in os.listdir("/proc/self/fd"):
        with contextlib.suppress(FileNotFoundError):  # the one of listdir itself
            found.add((name, os.readlink(f"/proc/self/fd/{name}")))
    return found


def children() -> set[int]:
    """The children of this process, zombies included: also those of fixtures of other tests."""
    found: set[int] = set()
    for path in Path("/proc/self/task").glob("*/children"):
        with contextlib.suppress(OSError):  # a thread that has just ended
            found.update(map(int, path.read_text().split()))
    return found


@pytest.fixture(autouse=True)
def nothing_is_left() -> Iterator[None]:
    """No child, running or dead, and no descriptor stays behind."""
    others, before = children(), descriptors()
    yield
    assert children() <= others
    assert descriptors() <= before


def running(pid: int) -> bool:
    """Whether the process exists and is no zombie (of a slow init process)."""
    try:
        return Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()[0] != b"Z"
    except OSError:
        return False


def sh(script: str, **options: Any) -> AbstractAsyncContextManager[ChildProcess]:
    return open_process(StdioParameters("sh", ["-c", script], **({"stderr": "capture"} | options)))


def python(script: str, **options: Any) -> AbstractAsyncContextManager[ChildProcess]:
    arguments = ["-S", "-E", "-c", script]
    options = {"stderr": "capture"} | options
    return open_process(StdioParameters(sys.executable, arguments, **options))


async def read_line(child: ChildProcess) -> str:
    data = b""
    with trio.fail_after(SOON):
        while not data.endswith(b"\n"):
            chunk = await child.stdout.receive_some(1)
            assert chunk, f"no line: {data!r}, stderr: {child.stderr_tail}"
            data += chunk
    return data.decode().rstrip("\n")


class Timer:
    """How long a block took, in seconds."""

    def __enter__(self) -> "Timer":
        self.began = time.monotonic()
        return self

    def __exit__(self, *_exc: object) -> None:
        self.seconds = time.monotonic() - self.began


# Starting.


async def test_echo() -> None:
    """Bytes go in and come out, and a child that we end has no exit status of its own."""
    async with sh("cat") as child:
        child.established = True
        await child.stdin.send_all(b"hello\n")
        assert await read_line(child) == "hello"
        assert child.exit_status is None
        assert running(child.pid)
    assert child.exit_status is None
    assert not running(child.pid)


@pytest.fixture
def scripts(tmp_path: Path) -> Path:
    """Things that cannot be run, each for a reason of its own."""
    (tmp_path / "data").write_text("no program")
    (tmp_path / "lost").write_text("#!/no/such/interpreter\n")
    (tmp_path / "nonsense").write_text("no program")
    (tmp_path / "folder").mkdir()
    for name in ("lost", "nonsense"):
        (tmp_path / name).chmod(0o755)
    return tmp_path


@pytest.mark.parametrize(
    ("command", "cwd", "error", "names", "says"),
    [
        ("{}/absent", None, FileNotFoundError, "{}/absent", "command not found"),
        ("no-such-command", None, FileNotFoundError, "no-such-command", "not found on PATH"),
        ("cat -u", None, FileNotFoundError, "cat -u", "belong in args"),
        ("{}/data/sub", None, FileNotFoundError, "{}/data/sub", "command not found"),
        ("data", None, FileNotFoundError, "data", "not found on PATH"),
        ("{}/data", None, PermissionError, "{}/data", "not executable"),
        ("./data", "{}", PermissionError, "./data", "not executable"),
        ("{}/folder", None, PermissionError, "{}/folder", "is a directory"),
        ("{}/lost", None, FileNotFoundError, "{}/lost", "interpreter"),
        ("{}/nonsense", None, OSError, "{}/nonsense", "neither a program nor a script"),
        ("cat", "{}/absent", FileNotFoundError, "{}/absent", "working directory"),
        ("cat", "{}/data", NotADirectoryError, "{}/data", "working directory"),
        ("no-such-command", "{}/absent", FileNotFoundError, "{}/absent", "working directory"),
    ],
)
async def test_cannot_start(
    scripts: Path, command: str, cwd: str | None, error: type[OSError], names: str, says: str
) -> None:
    """What is at fault, the command or the working directory, is named (pitfalls 7, 16)."""
    parameters = StdioParameters(
        command.format(scripts), cwd=cwd and cwd.format(scripts), env={"KEY": "hunter22"}
    )
    with pytest.raises(error, match=says) as info:
        async with open_process(parameters):
            pass
    assert info.value.filename == names.format(scripts)
    assert "hunter22" not in repr(info.value)


async def test_unreadable_directory_on_path(scripts: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A PATH entry that may not be read does not turn "not found" into "not permitted"."""

    async def refuse(*_args: object, **_options: object) -> trio.Process:
        raise PermissionError(errno.EACCES, "Permission denied", "absent")  # as root is never told

    monkeypatch.setattr(trio.lowlevel, "open_process", refuse)
    with pytest.raises(FileNotFoundError, match="command not found on PATH"):
        async with open_process(StdioParameters("absent", env={"PATH": str(scripts)})):
            pass


async def test_environment_of_a_child(monkeypatch: pytest.MonkeyPatch) -> None:
    """A child sees the allow-list and what it was given, and none of our own secrets (I13)."""
    monkeypatch.setenv("OUR_SECRET", "hunter22")
    monkeypatch.setenv("HOME", "() { :;}; echo shocked")
    async with sh("env; exit", env={"GIVEN": "yes"}) as child:
        seen = {line.partition(b"=")[0] for line in (await read_all(child)).splitlines()}
    assert {b"PATH", b"GIVEN"} <= seen
    assert not seen & {b"OUR_SECRET", b"HOME"}


async def test_command_is_found_on_the_path_of_the_child(tmp_path: Path) -> None:
    """The PATH in `env` decides, as it does for everything that the server starts itself."""
    (tmp_path / "my-server").write_text("#!/bin/sh\necho found")
    (tmp_path / "my-server").chmod(0o755)
    async with open_process(StdioParameters("my-server", env={"PATH": str(tmp_path)})) as child:
        assert await read_line(child) == "found"


async def test_working_directory(tmp_path: Path) -> None:
    """The child runs where it was told to, and a relative command is found there."""
    (tmp_path / "here").write_text("#!/bin/sh\npwd")
    (tmp_path / "here").chmod(0o755)
    async with open_process(StdioParameters("./here", cwd=tmp_path)) as child:
        assert await read_line(child) == str(tmp_path)


async def read_all(child: ChildProcess) -> bytes:
    with trio.fail_after(SOON):
        return b"".join([bytes(chunk) async for chunk in child.stdout])


# The ladder.


async def test_rung_1_end_of_input() -> None:
    """A server that exits at the end of its input gets no signal, and time to finish."""
    with Timer() as timer:
        async with sh("trap 'echo signal >&2' TERM; cat; sleep 0.2; echo done >&2") as child:
            child.established = True
    assert child.stderr_tail == "done\n"
    assert timer.seconds < SOON


async def test_rung_1_last_output_is_drained() -> None:
    """A server that flushes much before it exits is read to the end, and so can exit."""
    script = "import sys; sys.stdin.read(); print('x' * 1_000_000); sys.stderr.write('flushed')"
    async with python(script, eof_grace=SOON) as child:
        child.established = True
        await child.stdin.send_all(b"some")
    assert child.stderr_tail == "flushed"


async def test_rung_2_sigterm() -> None:
    """A server that does not listen to its stdin is asked by signal, with time to tidy up."""
    script = "trap 'sleep 0.2; echo tidy >&2; exit' TERM; echo ready; while :; do sleep 0.01; done"
    with Timer() as timer:
        async with sh(script, eof_grace=0.1, term_grace=SOON) as child:
            child.established = True
            await read_line(child)
    assert child.stderr_tail.endswith("tidy\n")
    assert 0.3 < timer.seconds < SOON
    assert child.exit_status is None


async def test_rung_3_sigkill() -> None:
    """A server that obeys nothing is killed when both graces are over, and not before."""
    with Timer() as timer:
        async with sh(STUBBORN, eof_grace=0.1, term_grace=0.2) as child:
            child.established = True
            await read_line(child)
    assert 0.3 <= timer.seconds < 0.3 + AT_ONCE
    assert not running(child.pid)


async def test_no_handshake_no_patience() -> None:
    """Before the handshake the end of input and SIGTERM come together: it may be no server."""
    script = "trap 'echo asked >&2; exit' TERM; echo ready; while :; do sleep 0.01; done"
    with Timer() as timer:
        async with sh(script, eof_grace=60, term_grace=60) as child:
            await read_line(child)
    assert timer.seconds < AT_ONCE
    assert child.stderr_tail.endswith("asked\n")


@pytest.mark.parametrize("established", [True, False])
async def test_cancelled_caller(established: bool) -> None:
    """A cancelled caller waits for half a second at most, even for a server that obeys nothing."""
    with trio.CancelScope() as scope:
        async with sh(STUBBORN, eof_grace=60, term_grace=60) as child:
            child.established = established
            await read_line(child)
            began = time.monotonic()
            scope.cancel()
            await trio.sleep_forever()
    assert scope.cancelled_caught
    assert 0.5 <= time.monotonic() - began < 0.5 + AT_ONCE
    assert not running(child.pid)


@pytest.mark.parametrize("eof_grace", [0.05, 60])
async def test_cancelled_on_the_ladder(eof_grace: float) -> None:
    """A cancellation that arrives on any rung of the long ladder cuts it short."""
    with Timer() as timer, trio.CancelScope() as scope:
        async with sh(STUBBORN, eof_grace=eof_grace, term_grace=60) as child:
            child.established = True
            await read_line(child)
            scope.deadline = trio.current_time() + 0.2
    assert scope.cancelled_caught
    assert 0.7 <= timer.seconds < 0.7 + AT_ONCE
    assert not running(child.pid)


async def test_cancelled_at_every_moment_of_the_start() -> None:
    """A timeout around the start leaves no child, whenever it strikes, and is quick (I2)."""
    script = "import time; time.sleep(97)"
    others = children()
    for tenths in range(0, 300, 6):
        with Timer() as timer, trio.move_on_after(tenths / 10_000):
            async with python(script):
                await trio.sleep_forever()
        assert children() <= others, f"a child is left after {tenths / 10} ms"
        assert timer.seconds < SOON


async def test_cancelled_before_the_start() -> None:
    """In a cancelled scope nothing is started that would not be ended again."""
    with trio.CancelScope() as scope:
        scope.cancel()
        async with sh(STUBBORN):
            await trio.lowlevel.checkpoint()
    assert scope.cancelled_caught


def test_ctrl_c_twice() -> None:
    """Ctrl-C in the block and again on the ladder ends the child all the same."""
    pids = []

    async def main() -> None:
        async with sh(STUBBORN, eof_grace=60) as child:
            child.established = True
            await read_line(child)
            pids.append(child.pid)
            async with trio.open_nursery() as nursery:
                nursery.start_soon(trio.sleep_forever)
                signal.raise_signal(signal.SIGINT)

    async def with_another() -> None:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(another)
            try:
                await main()
            finally:
                nursery.cancel_scope.cancel()

    async def another() -> None:
        await trio.sleep(0.6)
        signal.raise_signal(signal.SIGINT)
        await trio.sleep_forever()

    with pytest.raises(BaseException) as info:  # noqa: PT011 (it may be in a group)
        trio.run(with_another)
    assert info.group_contains(KeyboardInterrupt) or info.type is KeyboardInterrupt
    assert not running(pids[0])


# Exceptions of the body.


class Mine(Exception):
    """What the body of a block raises."""


@pytest.mark.parametrize("error", [Mine(), ExceptionGroup("mine", [Mine()]), SystemExit(3)])
@pytest.mark.parametrize("cancelled", [True, False])
async def test_body_exception(error: BaseException, cancelled: bool) -> None:
    """What the body raises leaves the block as it is, also while a scope is cancelled (I10)."""
    cause = error.__context__ = KeyError("before")
    with trio.CancelScope() as scope, pytest.raises(type(error)) as info:  # noqa: PT012
        async with sh("cat") as child:
            child.established = True
            if cancelled:
                scope.cancel()
            raise error
    assert info.value is error
    assert error.__context__ is cause


async def test_body_exception_has_the_long_ladder() -> None:
    """An exception is no reason for haste: the server still gets its time to finish."""
    with pytest.raises(Mine):  # noqa: PT012
        async with sh("cat; sleep 0.1; echo done >&2") as child:
            child.established = True
            raise Mine
    assert child.stderr_tail == "done\n"


# Descendants.

FAMILY = f"""
import subprocess, sys
family = subprocess.Popen([sys.executable, "-S", "-E", "-c", '''{STUBBORN_PYTHON}'''])
print(family.pid, flush=True)
"""


async def family(child: ChildProcess) -> int:
    """The process id of the grandchild, once that ignores SIGTERM."""
    lines = {await read_line(child), await read_line(child)}
    (pid,) = lines - {"ready"}
    return int(pid)


@pytest.mark.parametrize("established", [True, False])
@pytest.mark.parametrize("end", ["return", "raise", "cancel", "cancel on the ladder"])
async def test_grandchildren_end(established: bool, end: str) -> None:
    """On every way out the whole family goes, stubborn grandchildren included (I5)."""
    with trio.CancelScope() as scope:
        try:
            script = FAMILY + "sys.stdin.read()"
            async with python(script, eof_grace=0.2, term_grace=0.2) as child:
                child.established = established
                grandchild = await family(child)
                assert os.getpgid(grandchild) == child.pid
                if end == "raise":
                    raise Mine
                if end == "cancel":
                    scope.cancel()
                    await trio.sleep_forever()
                if end == "cancel on the ladder":
                    scope.deadline = trio.current_time() + 0.1
        except Mine:
            pass
    assert not running(grandchild)


async def test_launcher() -> None:
    """A leader that exits with 0 while its stdout stays open was a launcher: life goes on (I4)."""
    script = "import subprocess; subprocess.Popen(['sh', '-c', 'cat; sleep 0.2; echo done >&2'])"
    with Timer() as timer:
        async with python(script) as child:
            child.established = True
            with trio.fail_after(SOON):
                assert await child.wait() == 0
            with trio.move_on_after(0.1) as scope:
                await child.died()
            assert scope.cancelled_caught
            await child.stdin.send_all(b"still here\n")
            assert await read_line(child) == "still here"
    assert child.stderr_tail == "done\n", "the real server gets the grace of a server"
    assert timer.seconds < 1.9, "and is not waited for longer than it takes"


async def test_launcher_of_a_stubborn_server() -> None:
    """The ladder goes on when it is not the leader any more that stands on it."""
    with Timer() as timer:
        async with python(FAMILY, eof_grace=0.1, term_grace=0.2) as child:
            child.established = True
            grandchild = await family(child)
            assert await child.wait() == 0
    assert not running(grandchild)
    assert 0.3 <= timer.seconds < 0.3 + AT_ONCE


@pytest.mark.parametrize(
    ("ending", "status"), [("os.kill(os.getpid(), 9)", -9), ("os._exit(3)", 3), ("os.abort()", -6)]
)
async def test_death_with_an_heir(ending: str, status: int) -> None:
    """A leader's death is seen though a grandchild holds its stdout; that one ends too (I4)."""
    with Timer() as timer:
        async with python(f"{FAMILY}\nimport os; {ending}", eof_grace=60) as child:
            child.established = True
            grandchild = await family(child)
            with trio.fail_after(SOON):
                await child.died()
            assert child.exit_status == status
            assert running(grandchild)
            with trio.fail_after(SOON):  # stderr is held open as well
                await child.settle()
            assert not child.stderr_ended.is_set()
    assert not running(grandchild)
    assert child.exit_status == status
    assert timer.seconds < 0.5 + 0.5 + 2 * AT_ONCE, "a dead server needs no grace"


async def test_who_leaves_the_group_is_let_go() -> None:
    """A daemon that made a session of its own is not ours, and its open pipes do not hold us up."""
    script = "setsid sh -c 'echo $$; exec sleep 30' & exec cat"
    with Timer() as timer:
        async with sh(script) as child:
            child.established = True
            daemon = int(await read_line(child))
    assert timer.seconds < 1.9
    assert running(daemon)
    os.kill(daemon, signal.SIGKILL)


def test_orphans_of_a_subreaper_are_collected() -> None:
    """Where orphans become our children (process 1 of a container), they leave no zombies."""
    program = f"""
import ctypes, os, sys, trio
from mcp_trio.transports.process import StdioParameters, open_process
ctypes.CDLL(None).prctl(36, 1, 0, 0, 0)  # PR_SET_CHILD_SUBREAPER
async def main():
    async with open_process(StdioParameters(sys.executable, ["-c", {FAMILY!r}])) as child:
        while b"ready" not in await child.stdout.receive_some():
            pass
trio.run(main)
try:
    print(os.waitpid(-1, os.WNOHANG))
except ChildProcessError:
    print("no child")
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, timeout=20)
    assert done.stdout == b"no child\n", done.stderr


# Its status.


@pytest.mark.parametrize("status", [0, 3])
async def test_exit_by_itself(status: int) -> None:
    """How a server ended by itself is known, with its last words, also after the block."""
    async with sh(f"echo last words >&2; exit {status}") as child:
        with trio.fail_after(SOON):
            assert await child.wait() == status
            await child.settle()
        assert child.stderr_tail == "last words\n"
        assert child.stderr_ended.is_set()
    assert child.exit_status == status


async def test_exit_that_nobody_has_seen_yet() -> None:
    """A server that ended before the close ended by itself, even if that is noticed later."""
    async with sh("exit 3") as child:
        while running(child.pid):
            time.sleep(0.001)  # noqa: ASYNC251 (the event loop must not get to see it)
    assert child.exit_status == 3


async def test_somebody_else_collects_the_status() -> None:
    """A waitpid(-1) elsewhere in the program takes the status away, and nothing else breaks."""
    async with sh("read line; exit 3") as child:
        await child.stdin.send_all(b"\n")
        os.waitpid(-1, 0)  # noqa: ASYNC222 (it is about to exit)
        with trio.fail_after(SOON):
            assert await child.wait() is None
            with trio.move_on_after(0.05) as scope:
                await child.died()
            assert scope.cancelled_caught


@pytest.mark.parametrize("missing", ["pidfd_open", "waitid"])
async def test_older_systems(missing: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without pidfds (old kernels, sandboxes) or waitid (macOS) everything works as well."""
    monkeypatch.delattr(os, missing)
    async with sh("exit 3") as child:
        with trio.fail_after(SOON):
            await child.died()
    assert child.exit_status == 3
    async with sh(STUBBORN, eof_grace=0.05, term_grace=0.05) as child:
        child.established = True
        await read_line(child)
    assert child.exit_status is None
    assert not running(child.pid)
    monkeypatch.undo()


# stderr.


async def test_much_stderr_before_the_answer() -> None:
    """10 MB without a line end do not stop the server, and are not kept (I6)."""
    script = "import sys; sys.stderr.write('x' * 10_000_000); print('answer')"
    tracemalloc.start()
    try:
        async with python(script) as child:
            assert await read_line(child) == "answer"
            peak = tracemalloc.get_traced_memory()[1]
            await child.settle()
    finally:
        tracemalloc.stop()
    assert child.stderr_tail == "x" * 8192
    assert peak < 1_000_000


async def test_stderr_function() -> None:
    """A function gets the lines from the first on, secrets struck out, the last one too."""
    lines: list[str] = []
    script = "echo first $KEY >&2; printf 'second\\r\\nthird' >&2"
    async with sh(script, stderr=lines.append, env={"KEY": "hunter22"}) as child:
        await child.settle()
    assert lines == ["first ***", "second", "third"]
    assert child.stderr_tail == "first ***\nsecond\r\nthird"


async def test_stderr_discard() -> None:
    """What is discarded is kept nowhere, and nothing waits for it."""
    async with sh("echo noise >&2; exit 3", stderr="discard") as child:
        with trio.fail_after(0.4):
            await child.wait()
            await child.settle()
    assert child.stderr_tail == ""


async def test_repr() -> None:
    """A child can be logged: its process id and command, and nothing that may be secret."""
    async with sh("exec cat $KEY", env={"KEY": "hunter22"}) as child:
        assert str(child.pid) in repr(child)
        assert "running" in repr(child)
        assert "hunter22" not in repr(child)
