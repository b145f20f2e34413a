"""Small server processes, and every kind of descriptor a launcher may give them."""

from __future__ import annotations

import contextlib
import fcntl
import os
import select
import socket
import subprocess
import sys
import termios
import textwrap
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import attrs

LIMIT = 10.0  # seconds: no test here should take a tenth of it

# Without PYTHONUNBUFFERED, as servers run: only then is there something to flush.
ENVIRONMENT = {k: v for k, v in os.environ.items() if k != "PYTHONUNBUFFERED"}

PRELUDE = """\
import contextlib, os, signal, subprocess, sys, trio
from mcp_trio.transports import descriptors
from mcp_trio.transports.parent import wait_parent_gone
from mcp_trio.transports.stdio_server import open_standard_streams
"""


def child(main: str) -> list[str]:
    """The command line of a Python process that runs `main`, the body of an async function."""
    body = textwrap.indent(textwrap.dedent(main), "    ")
    return [sys.executable, "-c", f"{PRELUDE}async def main():\n{body}\ntrio.run(main)\n"]


ECHO = """
    async with open_standard_streams() as (receive, send):
        while data := await receive.receive_some():
            await send.send_all(data.upper())
"""


@attrs.frozen
class Ends:
    """Both sides of some stream that runs towards a process, or away from it."""

    theirs: int  # the descriptor to give to the process
    ours: int  # -1 where there is nothing to talk to
    end: Callable[[], object]  # the stream's end, as seen from the process


@contextlib.contextmanager
def towards(kind: str, tmp_path: Path) -> Iterator[Ends]:
    """A standard input of this kind."""
    with contextlib.ExitStack() as stack:
        yield _towards(kind, tmp_path, stack)


def _towards(kind: str, tmp_path: Path, stack: contextlib.ExitStack) -> Ends:
    if kind == "pipe":
        reading, writing = os.pipe()
        stack.callback(os.close, reading)
        closing = stack.enter_context(os.fdopen(writing, "wb", buffering=0))
        return Ends(reading, writing, closing.close)
    if kind == "socket":
        ours, theirs = (stack.enter_context(one) for one in socket.socketpair())
        return Ends(theirs.fileno(), ours.fileno(), lambda: ours.shutdown(socket.SHUT_WR))
    if kind == "terminal":
        ours_fd, theirs_fd = open_terminal(stack)
        return Ends(theirs_fd, ours_fd, lambda: os.write(ours_fd, b"\x04"))
    if kind == "file":
        path = tmp_path / "input"
        path.write_bytes(b"")
        ours_fd, theirs_fd = os.open(path, os.O_WRONLY), os.open(path, os.O_RDONLY)
        stack.callback(os.close, ours_fd)
        stack.callback(os.close, theirs_fd)
        return Ends(theirs_fd, ours_fd, lambda: None)
    theirs_fd = os.open(os.devnull, os.O_RDONLY)
    stack.callback(os.close, theirs_fd)
    return Ends(theirs_fd, -1, lambda: None)


@contextlib.contextmanager
def away_from(kind: str, tmp_path: Path) -> Iterator[Ends]:
    """A standard output of this kind."""
    with contextlib.ExitStack() as stack:
        yield _away_from(kind, tmp_path, stack)


def _away_from(kind: str, tmp_path: Path, stack: contextlib.ExitStack) -> Ends:
    if kind == "pipe":
        ours, theirs = os.pipe()
    elif kind == "socket":
        one, other = socket.socketpair()
        ours, theirs = one.detach(), other.detach()
    elif kind == "terminal":
        ours, theirs = open_terminal(stack)
        return Ends(theirs, ours, lambda: None)
    elif kind == "file":
        path = tmp_path / "output"
        theirs = os.open(path, os.O_WRONLY | os.O_CREAT, 0o600)
        ours = os.open(path, os.O_RDONLY)
    else:
        theirs, ours = os.open(os.devnull, os.O_WRONLY), os.open(os.devnull, os.O_RDONLY)
    stack.callback(os.close, ours)
    stack.callback(os.close, theirs)
    return Ends(theirs, ours, lambda: None)


def open_terminal(stack: contextlib.ExitStack) -> tuple[int, int]:
    """A pseudo-terminal that neither echoes nor rewrites newlines; Ctrl-D ends its input."""
    if sys.platform == "win32":
        raise NotImplementedError
    ours, theirs = os.openpty()
    stack.callback(os.close, ours)
    stack.callback(os.close, theirs)
    mode = termios.tcgetattr(theirs)
    mode[1] &= ~termios.OPOST
    mode[3] &= ~termios.ECHO
    termios.tcsetattr(theirs, termios.TCSANOW, mode)
    return ours, theirs


def flags(fd: int) -> int:
    """The status flags (O_NONBLOCK among them) that all who share `fd` see."""
    if sys.platform == "win32":
        raise NotImplementedError
    return fcntl.fcntl(fd, fcntl.F_GETFL)


def read_until(fd: int, expected: bytes) -> bytes:
    """All that arrives up to and with `expected`; at most LIMIT seconds."""
    seen = b""
    deadline = time.monotonic() + LIMIT
    while expected not in seen:
        readable, _, _ = select.select([fd], [], [], deadline - time.monotonic())
        assert readable, f"{expected!r} did not come, only {seen!r}"
        seen += os.read(fd, 65536)
        # A file that has not grown yet answers with nothing, as if at its end.
        assert time.monotonic() < deadline, f"{expected!r} did not come, only {seen!r}"
    return seen


@contextlib.contextmanager
def running(
    command: list[str], *, stdin: int, stdout: int, stderr: int = subprocess.PIPE
) -> Iterator[subprocess.Popen[bytes]]:
    """A process that is dead afterwards in any case."""
    with subprocess.Popen(
        command, stdin=stdin, stdout=stdout, stderr=stderr, env=ENVIRONMENT
    ) as process:
        try:
            yield process
        finally:
            process.kill()
