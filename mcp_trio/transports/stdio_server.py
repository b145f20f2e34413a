"""A server's own standard input and output, taken over for the protocol.

Descriptor 1 is where every `print`, every logging mistake, every C library and every subprocess of
a tool writes, and descriptor 0 is what each of those subprocesses would read. None of them may
touch the wire. Asking everybody to be careful does not work, so for the time of
`open_standard_streams` the two numbers name something else, and the wire has descriptors that
nobody else knows:

    before             during
    0  the client      0  nothing: every read is at its end
    1  the client      1  standard error
                       n  the client, reading
                       m  the client, writing
"""

from __future__ import annotations

import contextlib
import errno
import io
import os
import sys
import threading
from collections.abc import AsyncIterator, Iterator
from typing import TextIO

import trio

from mcp_trio.transports.descriptors import (
    DescriptorReceiveStream,
    DescriptorSendStream,
    open_receive_stream,
    open_send_stream,
)

STDIN, STDOUT, STDERR = 0, 1, 2

# The descriptors 0 and 1 are the process's, so who has them is too: a lock, and nothing else, is
# kept here for as long as a block of `open_standard_streams` lasts.
_taken = threading.Lock()


@contextlib.asynccontextmanager
async def open_standard_streams() -> AsyncIterator[
    tuple[DescriptorReceiveStream, DescriptorSendStream]
]:
    """Use this process's standard input and output as a pair of byte streams.

    Meanwhile descriptor 0 is the null device and descriptor 1 is standard error (the null device
    where there is none), also for subprocesses; `sys.stdout` is flushed before and after, and in
    between writes line by line. At the end, on every path, all is as it was and the streams are
    closed; nothing here waits, so cancelling needs no grace. What Python's `sys.stdin` had
    buffered before is not seen by the stream. The other side sees the end of standard output when
    the process exits.

    The streams may be used by one task each. How they read and write without changing what they
    share with other processes: see `mcp_trio.transports.descriptors`.

    Raises RuntimeError if they are already in use in this process, OSError if standard input or
    output is closed or open the wrong way round, trio.BrokenResourceError if text printed earlier
    can no longer be flushed. (MCP 2026-07-28, basic/transports/stdio; likewise in all revisions.)
    """
    if not _taken.acquire(blocking=False):
        raise RuntimeError(
            "the standard input and output of this process are already in use by a server;"
            " only one can be served over stdio at a time"
        )
    with contextlib.ExitStack() as stack:
        stack.callback(_taken.release)
        _require_open(STDIN, sys.__stdin__, "standard input (descriptor 0)")
        _require_open(STDOUT, sys.__stdout__, "standard output (descriptor 1)")
        stack.enter_context(_standard_error_open())
        receive = open_receive_stream(STDIN, "standard input")
        stack.callback(receive.close)
        send = open_send_stream(STDOUT, "standard output")
        stack.callback(send.close)
        stack.enter_context(_pointing_elsewhere())
        yield receive, send


def _require_open(fd: int, python_file: TextIO | None, name: str) -> None:
    # Python sets its own file to None if the descriptor was closed when it started. By now the
    # number may name something else, an epoll descriptor of Trio's for example.
    if python_file is None or not _is_open(fd):
        raise OSError(errno.EBADF, f"{name} is closed, and a server over stdio speaks through it")


def _is_open(fd: int) -> bool:
    try:
        os.fstat(fd)
    except OSError:
        return False
    return True


@contextlib.contextmanager
def _standard_error_open() -> Iterator[None]:
    """Keep the wire from getting descriptor 2, where error messages would be written to it: the
    system hands out the lowest free number."""
    if _is_open(STDERR):
        yield
        return
    _point(STDERR, os.devnull)
    try:
        yield
    finally:
        os.close(STDERR)


@contextlib.contextmanager
def _pointing_elsewhere() -> Iterator[None]:
    try:
        _flush_stdout()
    except OSError as error:
        raise trio.BrokenResourceError(f"cannot flush sys.stdout: {error.strerror}") from error
    with _kept(STDIN), _kept(STDOUT), _line_buffered(sys.stdout):
        _point(STDIN, os.devnull)
        if sys.__stderr__ is None:
            _point(STDOUT, os.devnull)
        else:
            os.dup2(STDERR, STDOUT)
        try:
            yield
        finally:
            _flush_or_discard_stdout()


@contextlib.contextmanager
def _kept(fd: int) -> Iterator[None]:
    original = os.dup(fd)
    try:
        yield
    finally:
        os.dup2(original, fd)
        os.close(original)


def _point(fd: int, path: str) -> None:
    opened = os.open(path, os.O_RDWR)
    if opened != fd:
        os.dup2(opened, fd)
        os.close(opened)


@contextlib.contextmanager
def _line_buffered(file: TextIO | None) -> Iterator[None]:
    """What a tool prints is for the people who read standard error now, and must not be lost when
    the client ends this process."""
    if not isinstance(file, io.TextIOWrapper) or file.closed:
        yield
        return
    before = file.line_buffering
    file.reconfigure(line_buffering=True)
    try:
        yield
    finally:
        if not file.closed:
            file.reconfigure(line_buffering=before)


def _flush_stdout() -> None:
    for file in (sys.stdout, sys.__stdout__):
        if file is not None:
            with contextlib.suppress(ValueError):  # somebody has closed it
                file.flush()


def _flush_or_discard_stdout() -> None:
    """Flush, so that nothing printed during the block comes out on the wire after it. What standard
    error does not take (its reader is gone) goes to the null device for the same reason."""
    try:
        _flush_stdout()
    except OSError:
        _point(STDOUT, os.devnull)
        _flush_stdout()
