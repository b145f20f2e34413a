"""A child and its descendants on Windows: a Job Object, which ends them all at once.

The same three things as in `posix`, with what this system has for them:

- **Finding the program.** `npx` is a file called `npx.cmd`, and CreateProcess finds and runs
  nothing but `.exe`. So the child's PATH is searched here, and batch files and PowerShell scripts
  are given to their interpreters.
- **Quoting.** A process gets one command line and not a list, and cmd.exe reads it by rules of its
  own: there is no way to quote `%` or `"` for every batch file, and an argument that can smuggle
  in a `&` can run anything. Such arguments are refused, for batch files only.
- **Ending the tree.** There are no process groups and no SIGTERM. The child is put into a job;
  descendants are born into it, and ending the job ends them. The job is closed, and so ended, by
  the system when we die, however we die.

Between its start and its joining the job the child could start a descendant that stays outside.
Nothing but suspending it at its start would close this gap, and `subprocess` cannot resume it.
"""

from __future__ import annotations

import ctypes
import logging
import ntpath
import os
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

import trio

from mcp_trio.transports.parameters import StdioParameters

SUFFIXES = (".cmd", ".bat", ".exe", ".ps1")  # npm's commands are .cmd files, so those come first
BATCH = (".cmd", ".bat")
UNQUOTABLE = {
    '"': "a quotation mark",
    "%": "a percent sign",
    "\r": "a line end",
    "\n": "a line end",
}

logger = logging.getLogger(__name__)


def find_program(
    command: str,
    path: str,
    cwd: str,
    is_file: Callable[[str], bool] = os.path.isfile,
) -> str:
    """The file to run for `command`: on `path`, or below `cwd` if it is a path itself.

    The directory that we happen to be in is never searched for a bare name.

    Raises FileNotFoundError if there is none.
    """
    bare = not ntpath.dirname(command) and not ntpath.splitdrive(command)[0]
    directories = [entry.strip('"') for entry in path.split(";") if entry] if bare else [cwd]
    known = ntpath.splitext(command)[1].lower() in (*SUFFIXES, ".com")
    names = [command] if known else [command + suffix for suffix in SUFFIXES]
    if not bare and not known:
        names.append(command)
    for directory in directories:
        for name in names:
            candidate = ntpath.join(directory, name)
            if is_file(candidate):
                return candidate
    raise FileNotFoundError(2, "command not found", command)


def command_line(program: str, args: Sequence[str], env: Mapping[str, str]) -> str:
    """The command line that runs `program` (with its suffix) with exactly these arguments.

    Raises ValueError for an argument that cannot be passed safely to a batch file.
    """
    system = ntpath.join(env.get("SYSTEMROOT", r"C:\Windows"), "System32")
    suffix = ntpath.splitext(program)[1].lower()
    if suffix in BATCH:
        words = " ".join(_batch_word(word, program) for word in (program, *args))
        # /d: no AutoRun commands; /v:off: "!" means nothing; /s /c: strip the outer quotes only
        return f'"{ntpath.join(system, "cmd.exe")}" /d /e:on /v:off /s /c "{words}"'
    if suffix == ".ps1":
        shell = ntpath.join(system, "WindowsPowerShell", "v1.0", "powershell.exe")
        options = ["-NoLogo", "-NoProfile", "-NonInteractive", "-File"]
        return subprocess.list2cmdline([shell, *options, program, *args])
    return subprocess.list2cmdline([program, *args])


def _batch_word(word: str, program: str) -> str:
    for character, name in UNQUOTABLE.items():
        if character in word:
            raise ValueError(
                f"an argument for the batch file {program} contains {name}, which cannot be passed "
                "to a batch file safely: run the program that it starts instead (for npx or npm, "
                "node with the path of the script)"
            )
    # Whatever the batch file passes this on to takes \" for a quotation mark and \\" for the end.
    backslashes = len(word) - len(word.rstrip("\\"))
    return f'"{word}{backslashes * chr(92)}"'


class Jobs(Protocol):
    """The system calls for Job Objects. All raise OSError."""

    def create(self) -> int:
        """A new job that ends with its last handle; returns the handle."""

    def assign(self, job: int, pid: int) -> None:
        """Put a process into the job."""

    def terminate(self, job: int) -> None:
        """End every process of the job."""

    def active(self, job: int) -> int:
        """How many processes of the job have not ended."""

    def close(self, job: int) -> None:
        """Give the handle back."""


class Group:
    """The child that `spawn` started, and its descendants, as a job.

    Where the job cannot be had (inside a sandbox, say) only the child itself is ended.
    """

    def __init__(self, leader: trio.Process, jobs: Jobs | None = None) -> None:
        self._leader = leader
        self._jobs = jobs or system_jobs()
        self._job: int | None = None
        try:
            self._job = self._jobs.create()
            self._jobs.assign(self._job, leader.pid)
        except OSError as exc:
            logger.warning(
                "no job for process %d, its children may outlive it: %s", leader.pid, exc
            )
            self.close()

    def leader_status(self) -> int | None:
        """The child's exit status, or None while it runs."""
        return self._leader.poll()

    async def wait_leader(self) -> None:
        """Return when the child has exited."""
        await self._leader.wait()

    def end(self, *, forced: bool) -> None:
        """End everybody. Nobody can be asked first, so `forced` (see `posix`) does nothing."""
        if self._job is not None:
            self._jobs.terminate(self._job)
        elif self._leader.poll() is None:
            self._leader.kill()

    def alive(self) -> bool:
        """Whether anybody is left."""
        if self._leader.poll() is None:
            return True
        return self._job is not None and self._jobs.active(self._job) > 0

    def close(self) -> None:
        """Give the job back; whoever is left in it ends."""
        if self._job is not None:
            job, self._job = self._job, None
            self._jobs.close(job)


class BasicLimits(ctypes.Structure):
    """JOBOBJECT_BASIC_LIMIT_INFORMATION."""

    _fields_ = (
        ("per_process_user_time", ctypes.c_int64),
        ("per_job_user_time", ctypes.c_int64),
        ("limit_flags", ctypes.c_uint32),
        ("minimum_working_set", ctypes.c_size_t),
        ("maximum_working_set", ctypes.c_size_t),
        ("active_process_limit", ctypes.c_uint32),
        ("affinity", ctypes.c_size_t),
        ("priority_class", ctypes.c_uint32),
        ("scheduling_class", ctypes.c_uint32),
    )


class ExtendedLimits(ctypes.Structure):
    """JOBOBJECT_EXTENDED_LIMIT_INFORMATION."""

    _fields_ = (
        ("basic", BasicLimits),
        ("io_counters", ctypes.c_uint64 * 6),
        ("process_memory", ctypes.c_size_t),
        ("job_memory", ctypes.c_size_t),
        ("peak_process_memory", ctypes.c_size_t),
        ("peak_job_memory", ctypes.c_size_t),
    )


class Accounting(ctypes.Structure):
    """JOBOBJECT_BASIC_ACCOUNTING_INFORMATION."""

    _fields_ = (
        ("times", ctypes.c_int64 * 4),
        ("page_faults", ctypes.c_uint32),
        ("total_processes", ctypes.c_uint32),
        ("active_processes", ctypes.c_uint32),
        ("terminated_processes", ctypes.c_uint32),
    )


if sys.platform == "win32":
    ACCOUNTING_CLASS, EXTENDED_LIMITS_CLASS = 1, 9
    KILL_ON_JOB_CLOSE = 0x2000
    PROCESS_TERMINATE, PROCESS_SET_QUOTA = 0x0001, 0x0100

    class Kernel32Jobs:
        """`Jobs` by kernel32.dll."""

        def __init__(self) -> None:
            handle, address, number = ctypes.c_void_p, ctypes.c_void_p, ctypes.c_uint32
            self._dll = ctypes.WinDLL("kernel32", use_last_error=True)
            signatures = {
                "CreateJobObjectW": (handle, [address, ctypes.c_wchar_p]),
                "SetInformationJobObject": (ctypes.c_int, [handle, ctypes.c_int, address, number]),
                "QueryInformationJobObject": (
                    ctypes.c_int,
                    [handle, ctypes.c_int, address, number, address],
                ),
                "OpenProcess": (handle, [number, ctypes.c_int, number]),
                "AssignProcessToJobObject": (ctypes.c_int, [handle, handle]),
                "TerminateJobObject": (ctypes.c_int, [handle, ctypes.c_uint]),
                "CloseHandle": (ctypes.c_int, [handle]),
            }
            for name, (result, arguments) in signatures.items():
                function = getattr(self._dll, name)
                function.restype, function.argtypes = result, arguments

        def _call(self, name: str, *arguments: object) -> int:
            result: int | None = getattr(self._dll, name)(*arguments)
            if not result:
                raise ctypes.WinError(ctypes.get_last_error())
            return result

        def create(self) -> int:
            job = self._call("CreateJobObjectW", None, None)
            limits = ExtendedLimits()
            limits.basic.limit_flags = KILL_ON_JOB_CLOSE
            size = ctypes.sizeof(limits)
            try:
                self._call(
                    "SetInformationJobObject",
                    job,
                    EXTENDED_LIMITS_CLASS,
                    ctypes.byref(limits),
                    size,
                )
            except OSError:
                self.close(job)
                raise
            return job

        def assign(self, job: int, pid: int) -> None:
            process = self._call("OpenProcess", PROCESS_TERMINATE | PROCESS_SET_QUOTA, False, pid)
            try:
                self._call("AssignProcessToJobObject", job, process)
            finally:
                self.close(process)

        def terminate(self, job: int) -> None:
            self._call("TerminateJobObject", job, 1)

        def active(self, job: int) -> int:
            counts = Accounting()
            size = ctypes.sizeof(counts)
            self._call(
                "QueryInformationJobObject", job, ACCOUNTING_CLASS, ctypes.byref(counts), size, None
            )
            active: int = counts.active_processes
            return active

        def close(self, job: int) -> None:
            self._call("CloseHandle", job)

    def system_jobs() -> Jobs:
        """The real system calls."""
        return Kernel32Jobs()

    def _command_line_for(parameters: StdioParameters, env: Mapping[str, str]) -> str:
        cwd = os.path.abspath(parameters.cwd or os.curdir)
        program = find_program(parameters.command, env["PATH"], cwd)
        return command_line(program, parameters.args, env)

    def streams_of(process: trio.Process) -> tuple[trio.abc.SendStream, trio.abc.ReceiveStream]:
        """The child's stdin and stdout."""
        assert process.stdin is not None
        assert process.stdout is not None
        return process.stdin, process.stdout

    async def spawn(parameters: StdioParameters, env: dict[str, str], stderr: int) -> trio.Process:
        """Start the child without a console window.

        Raises FileNotFoundError, ValueError, and what `subprocess.Popen` raises. A cancellation
        that arrives while it starts takes effect after the return.
        """
        return await trio.lowlevel.open_process(
            _command_line_for(parameters, env),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=stderr,
            env=env,
            cwd=parameters.cwd,
            creationflags=subprocess.CREATE_NO_WINDOW,
        )

else:

    def system_jobs() -> Jobs:
        """There are none here."""
        raise OSError("this system has no Job Objects")
