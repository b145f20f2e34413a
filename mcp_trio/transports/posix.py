"""A child and its descendants on POSIX: a session of their own, signalled as one group.

A command is seldom the server itself. `npx`, `uvx` or a shell script start it and wait, so that
killing the process we started leaves the one that matters. Hence each child leads a session and
with it a process group: descendants belong to the group of their ancestor unless they go out of
their way to leave it, and one `killpg` reaches them all.

The group has the leader's process id for a name, and names are reused. What keeps this one ours?
A process that has exited stays in the process table, a zombie, until its parent has asked for its
status, and as long as it is there no other process or group can get its id. So the leader's exit
is *looked at* (waitid with WNOWAIT) and not *collected*: the zombie holds the reservation until
the connection closes. Only then is it collected, because a zombie counts as a member of its group
and would hide the answer to the question "is anybody left?".

macOS's Python before 3.13 has no waitid. There the exit is collected at once, and a launcher that
has exited holds no reservation.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
from functools import partial
from pathlib import Path

import trio

from mcp_trio.transports.parameters import StdioParameters

assert sys.platform != "win32"  # (for the type checker)

from mcp_trio.transports.descriptors import (  # noqa: E402 - Windows does not have these
    adopt_receive_stream,
    adopt_send_stream,
)


async def spawn(parameters: StdioParameters, env: dict[str, str], stderr: int) -> trio.Process:
    """Start the child. Raises what `subprocess.Popen` raises.

    It is started in a thread, and that is not abandoned: a cancellation that arrives meanwhile
    takes effect after the return, when there is somebody to end the child.
    """
    return await trio.lowlevel.open_process(
        [parameters.command, *parameters.args],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=stderr,
        env=env,
        cwd=parameters.cwd,
        start_new_session=True,
    )


def streams_of(process: trio.Process) -> tuple[trio.abc.SendStream, trio.abc.ReceiveStream]:
    """The child's stdin and stdout; trio's own streams, with fewer trips through the loop."""
    assert isinstance(process.stdin, trio.lowlevel.FdStream)
    assert isinstance(process.stdout, trio.lowlevel.FdStream)
    return adopt_send_stream(process.stdin, "stdin"), adopt_receive_stream(process.stdout, "stdout")


class Group:
    """The child that `spawn` started, and all its descendants that stayed in its group."""

    def __init__(self, leader: trio.Process) -> None:
        self._leader = leader
        self._empty = False

    def leader_status(self) -> int | None:
        """The leader's exit status (negative for a signal), or None while it is not known."""
        if not hasattr(os, "waitid"):
            return self._leader.poll()
        try:
            result = os.waitid(os.P_PID, self._leader.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)
        except ChildProcessError:
            return None  # somebody else collected it: a waitpid(-1), or SIGCHLD is ignored
        if result is None:
            return None
        return result.si_status if result.si_code == os.CLD_EXITED else -result.si_status

    async def wait_leader(self) -> None:
        """Return when the leader has exited."""
        if not hasattr(os, "waitid"):
            await self._leader.wait()
            return
        try:
            pidfd = os.pidfd_open(self._leader.pid)
        except ProcessLookupError:
            await trio.lowlevel.checkpoint()
        except (AttributeError, OSError):
            await self._wait_leader_in_thread()
        else:
            try:
                await trio.lowlevel.wait_readable(pidfd)
            finally:
                trio.lowlevel.notify_closing(pidfd)
                os.close(pidfd)

    async def _wait_leader_in_thread(self) -> None:
        wait = partial(os.waitid, os.P_PID, self._leader.pid, os.WEXITED | os.WNOWAIT)
        with contextlib.suppress(ChildProcessError):
            # Of a limit of its own, or forty children would use up all the threads there are.
            # It is abandoned only when the child has gone, so the thread is about to end.
            await trio.to_thread.run_sync(
                wait, abandon_on_cancel=True, limiter=trio.CapacityLimiter(1)
            )

    def end(self, *, forced: bool) -> None:
        """Ask everybody in the group to end (SIGTERM), or make them (SIGKILL)."""
        if not self._empty:
            # Suppressed: nobody is left, or nobody whom we have a right to end.
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self._leader.pid, signal.SIGKILL if forced else signal.SIGTERM)

    def alive(self) -> bool:
        """Whether anybody is left. Collects the leader if it has exited, so ask for that first."""
        if self._empty:
            return False
        if self._leader.poll() is None:
            return True
        pgid = self._leader.pid
        try:
            os.killpg(pgid, 0)
        except (ProcessLookupError, PermissionError):
            self._empty = True  # and now the id is not ours any more
        else:
            self._empty = not _any_running(pgid)
            _collect_orphans(pgid)  # after the look: whoever did not run then is collected now
        return not self._empty

    def close(self) -> None:
        """Nothing has to be given back: the group is a number."""


def _collect_orphans(pgid: int) -> None:
    """Where we are process 1 (in a container) or a subreaper, orphans become our children."""
    with contextlib.suppress(ChildProcessError):
        while os.waitpid(-pgid, os.WNOHANG) != (0, 0):
            pass


def _any_running(pgid: int) -> bool:
    """Whether the group has a member that is no zombie; some init processes take their time.

    Where there is no /proc of the kind that Linux has, every member counts.
    """
    stats = list(Path("/proc").glob("[0-9]*/stat"))
    for stat in stats:
        try:
            # pid (name) state ppid pgrp ...; the name may hold anything, brackets included
            state, _ppid, pgrp, *_ = stat.read_bytes().rpartition(b")")[2].split()
        except (OSError, ValueError):
            continue  # it ended meanwhile
        if int(pgrp) == pgid and state not in (b"Z", b"X"):
            return True
    return not stats
