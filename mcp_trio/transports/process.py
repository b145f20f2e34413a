"""A child process, from its start to the last of its descendants.

    async with open_process(StdioParameters("my-server")) as child:
        ...  # child.stdin, child.stdout, child.stderr_tail, child.exit_status

Starting a program is one call. Being rid of it again, whatever it does and whatever happens to
us, is the rest of this module. Three questions decide its shape.

**How does one end a program that somebody else wrote?** By a ladder: ask as gently as can be, wait
for so long, then ask less gently.

1. Its stdin is closed. That is how this protocol says goodbye (MCP 2026-07-28,
   basic/transports/stdio, "Shutdown"): a good server finishes what it does and exits.
2. SIGTERM, to its whole group. It was not listening, but may still want to tidy up.
3. SIGKILL, to its whole group. Nobody can refuse that.

Each rung is a cancel scope with a deadline, so the ladder is as long as the sum of its rungs. One
who has no time for it takes the short one: 1 and 2 at once, and 3 after half a second. That is
when the caller was cancelled (being cancelled half way down the long ladder cuts it short, too), or
when there never was a handshake, so that the program may not be a server at all.

The process that was started need not be the last one alive. When it has gone down the ladder,
whoever is left in its group is sent after it.

**Who does this when the caller is cancelled?** A cancelled task cannot wait, and here there is a
lot to wait for. So the ladder is a task of its own, and the short ladder in it is shielded from
cancellation. A shield that could last for ever would be a hang that nobody can end, hence each of
its rungs has a deadline. Two more tasks live behind a shield until the ladder is done, because a
child must be read even while it is ended: one that empties stderr, and, from the moment of the
close, one that empties stdout. A server which flushes a last answer into a full pipe would not
come to see that its stdin is closed.

**When is it dead?** A server that exits with a status other than 0, or by a signal, is dead, even
if a descendant of it holds its pipes open, so that they do not end. A program that exits with
status 0 while its stdout stays open was a launcher: the real server is a descendant of it, is
well, and the connection goes on.
"""

from __future__ import annotations

import errno
import logging
import math
import os
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import trio

from mcp_trio.transports.child_stderr import ChildStderr
from mcp_trio.transports.parameters import StdioParameters, default_environment

if sys.platform == "win32":
    from mcp_trio.transports.windows import Group, spawn, streams_of
else:
    from mcp_trio.transports.posix import Group, spawn, streams_of

__all__ = ["ChildProcess", "StdioParameters", "default_environment", "open_process"]

# Seconds.
SHORT_TERM_GRACE = 0.5  # between SIGTERM and SIGKILL for who has no time
KILL_PATIENCE = 5.0  # for the system to carry out a SIGKILL
LAST_WORDS = 0.1  # for what is left in the pipe of stderr when all are gone
OBITUARY = 0.5  # for finding out why a server has gone
LONGEST_PAUSE = 0.05  # between two looks at a group that is about to end

logger = logging.getLogger(__name__)


class ChildProcess:
    """A child process that `open_process` started.

    Attributes:
        stdin: The stream into the child. Leave closing it to the end of the block: an exit that
            follows from it counts as the child's own.
        stdout: The stream out of the child.
        pid: Its process id, which is also the id of its process group.
        stderr_ended: Set when the last of stderr has been read.
        exit_status: How the child ended by itself: its status, negative for a signal. None as long
            as that is not known, and for ever if it was us who ended it.
        established: To be set to True once the handshake is done: then the child is a server,
            and gets the time to end as one.
    """

    def __init__(self, parameters: StdioParameters, process: trio.Process) -> None:
        self.stdin, self.stdout = streams_of(process)
        self.pid = process.pid
        self.exit_status: int | None = None
        self.established = False
        self._parameters = parameters
        self._stderr_stream = process.stderr
        self._stderr = ChildStderr(parameters.stderr, parameters.secrets())
        self.stderr_ended = self._stderr.ended
        self._group = Group(process)
        self._exited = trio.Event()
        self._exited_at = math.inf
        self._closing = trio.Event()
        self._attendance = trio.CancelScope(shield=True)  # ended by the ladder, which is bounded

    def __repr__(self) -> str:
        state = f"exited with {self.exit_status}" if self._exited.is_set() else "running"
        return f"<ChildProcess {self.pid} {self._parameters.command!r}, {state}>"

    @property
    def stderr_tail(self) -> str:
        """The last lines of its stderr so far, at most 8 KiB, without secrets."""
        return self._stderr.tail

    async def wait(self) -> int | None:
        """Wait until the child (not its descendants) has exited; returns `exit_status`."""
        await self._exited.wait()
        return self.exit_status

    async def died(self) -> None:
        """Return when the child has exited as no launcher does: by a signal, or not with 0."""
        await self._exited.wait()
        if not self.exit_status:
            await trio.sleep_forever()

    def was_launcher(self) -> bool:
        """Whether it exited with 0 a while ago: if the pipes end now, that was another's end."""
        return self.exit_status == 0 and trio.current_time() - self._exited_at > OBITUARY

    async def settle(self) -> None:
        """Wait for what there is to know about a child that is gone, half a second at most.

        That is its exit status and the rest of its stderr, which a descendant may hold open. One
        that has been dead for longer has had that time.
        """
        with trio.move_on_after(OBITUARY) as scope:
            await self._exited.wait()
            if self.exit_status:
                scope.deadline = min(scope.deadline, self._exited_at + OBITUARY)
            await self.stderr_ended.wait()

    # The tasks behind the shield.

    @trio.lowlevel.enable_ki_protection  # a Ctrl-C is for the program, not for a task of ours
    async def _attend(self) -> None:
        with self._attendance:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(self._watch)
                nursery.start_soon(self._drain_stdout)
                if self._stderr_stream is None:
                    self.stderr_ended.set()
                else:
                    nursery.start_soon(self._stderr.drain, self._stderr_stream)

    @trio.lowlevel.enable_ki_protection
    async def _watch(self) -> None:
        await self._group.wait_leader()
        self._note_exit()
        self._exited_at = trio.current_time()
        self._exited.set()

    def _note_exit(self) -> None:
        if not self._closing.is_set():
            self.exit_status = self._group.leader_status()

    @trio.lowlevel.enable_ki_protection
    async def _drain_stdout(self) -> None:
        async with self.stdout:
            await self._closing.wait()
            try:
                async for _ in self.stdout:
                    pass
            except (trio.BrokenResourceError, trio.ClosedResourceError, trio.BusyResourceError):
                pass  # it is closed, or somebody still reads it

    # The ladder.

    @trio.lowlevel.enable_ki_protection
    async def _close(self) -> None:
        self._note_exit()  # what has happened so far was the child's own doing
        self._closing.set()
        try:
            await self._descend()
        finally:
            self._group.close()
            self._attendance.cancel()

    async def _descend(self) -> None:
        rungs = [(False, SHORT_TERM_GRACE), (True, KILL_PATIENCE)]
        try:
            await trio.aclose_forcefully(self.stdin)  # closes even when cancelled
            if self.established and await self._obeyed_nothing():
                del rungs[0]
        finally:
            with trio.CancelScope(shield=True):  # as long as its parts, which have deadlines
                for forced, grace in rungs:
                    await self._end_group(grace, forced=forced)
                with trio.move_on_after(LAST_WORDS):
                    await self.stderr_ended.wait()
        if self._group.alive():
            logger.warning("process group %d cannot be killed", self.pid)

    async def _obeyed_nothing(self) -> bool:
        """The patient part, cut short by cancellation; tells whether SIGTERM has had its time.

        A launcher's descendants are the server, and have its time. Those of a server that has
        exited are what it should have ended itself, and do not.
        """
        launched = self.exit_status == 0
        with trio.move_on_after(self._parameters.eof_grace):
            await (self._group_ended() if launched else self._exited.wait())
        if self._exited.is_set() and not launched:
            return False
        await self._end_group(self._parameters.term_grace, forced=False)
        return True

    async def _end_group(self, grace: float, *, forced: bool) -> None:
        """One rung: end whoever is left, and wait until nobody is, `grace` seconds at most."""
        if self._group.alive():
            self._group.end(forced=forced)
            with trio.move_on_after(grace):
                await self._group_ended()

    async def _group_ended(self) -> None:
        await self._exited.wait()
        pause = 0.001
        while self._group.alive():  # no event tells when a group has ended
            await trio.sleep(pause)
            pause = min(2 * pause, LONGEST_PAUSE)


@asynccontextmanager
@trio.lowlevel.enable_ki_protection  # between the start and the ladder a Ctrl-C has to wait
async def open_process(parameters: StdioParameters) -> AsyncIterator[ChildProcess]:
    """Run a program for the length of a block; at its end nothing of the program is left.

    Leaving the block climbs down the ladder that this module's docstring describes. Cancellation
    works at every moment, of the start as well, and leaves no process: it takes at most half a
    second for a program that ignores SIGTERM. What the body raises leaves the block as it is.

    Raises:
        FileNotFoundError: The command cannot be found, or `cwd` does not exist; the error has the
            one at fault as its `filename` and says which it is.
        NotADirectoryError: `cwd` is not a directory.
        PermissionError: The command is not executable, or `cwd` may not be entered.
        OSError: The program cannot be started for another reason.
        ValueError: Windows only: an argument that cannot be passed to a batch file safely.
    """
    child = ChildProcess(parameters, await _start(parameters))
    raised: BaseException | None = None
    try:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(child._attend)
            try:
                yield child
            except BaseException as exc:
                # Held back: the nursery would take it for a reason to cancel the ladder.
                raised = exc
            nursery.start_soon(child._close)
    except BaseException:
        # The ladder was cancelled. What the body raised says more, unless it is that same news.
        if raised is None or isinstance(raised, trio.Cancelled):
            raise
    if raised is not None:
        raise raised


async def _start(parameters: StdioParameters) -> trio.Process:
    env = parameters.environment()
    stderr = subprocess.DEVNULL if parameters.stderr == "discard" else subprocess.PIPE
    try:
        return await spawn(parameters, env, stderr)
    except OSError as exc:
        raise _explained(exc, parameters, env["PATH"]) from exc


def _explained(exc: OSError, parameters: StdioParameters, path: str) -> OSError:
    """The same kind of error, but one that says what is at fault and names it."""
    code, command, cwd = exc.errno or 0, parameters.command, parameters.cwd
    if cwd is not None and (not os.path.isdir(cwd) or exc.filename == cwd != command):
        return OSError(code, CWD_FAULTS.get(code, "cannot use this working directory"), cwd)
    found = _find(command, path, cwd)
    if found is None and code in (errno.ENOENT, errno.ENOTDIR, errno.EACCES):
        where = "" if os.path.dirname(command) else " on PATH"
        hint = " (its arguments belong in args)" if " " in command else ""
        return FileNotFoundError(errno.ENOENT, f"command not found{where}{hint}", command)
    if found is not None and os.path.isdir(found):
        return OSError(code, "the command is a directory", command)
    reason = COMMAND_FAULTS.get(code, f"cannot start the command: {exc.strerror}")
    return OSError(code, reason, command)


CWD_FAULTS = {
    errno.ENOENT: "the working directory (cwd) does not exist",
    errno.ENOTDIR: "the working directory (cwd) is not a directory",
    errno.EACCES: "the working directory (cwd) may not be entered",
}
COMMAND_FAULTS = {
    errno.ENOENT: "the interpreter that this script's first line names was not found",
    errno.EACCES: "the command is not executable",
    errno.ENOEXEC: "the command is neither a program nor a script with a #! line",
}


def _find(command: str, path: str, cwd: str | None) -> str | None:
    """What `command` refers to, executable or not."""
    directories = path.split(os.pathsep) if not os.path.dirname(command) else [cwd or ""]
    candidates = [os.path.join(directory, command) for directory in directories]
    return next((name for name in candidates if os.path.exists(name)), None)
