"""Any inherited file descriptor as a Trio byte stream, without changing it for those who share it.

A descriptor is only a number; what it names, the *open file description*, is shared by every
process that inherited or duplicated it: a terminal by the shell and all its children, a pipe by
two servers. `O_NONBLOCK` belongs to the description. Set it for ourselves, and somebody else's
`read` starts to fail with EAGAIN. So this module never sets it on what it was given:

- A pipe is *reopened* through /proc, which makes a description of our own for the same pipe.
- A socket has a flag for each call, MSG_DONTWAIT.
- The rest is read and written by a thread, which may block. A terminal, or a pipe that cannot be
  reopened (another user's, or no /proc), is first waited for with the event loop, so the thread
  has something to do when it starts and cancelling leaves nobody behind. What cannot even be
  waited for (files, Windows) blocks in the thread, and a cancelled caller abandons it.

A file is not reopened, because its position would no longer be shared: `>> log` must go on where
the shell's other commands stopped.
"""

from __future__ import annotations

import contextlib
import errno
import os
import socket
import stat
import sys
import threading
from collections.abc import Awaitable, Callable
from functools import partial
from typing import TypeVar

import attrs
import trio

if sys.platform != "win32":
    import fcntl

CHUNK = 64 * 1024  # bytes: what a Linux pipe holds

T = TypeVar("T")
A = TypeVar("A")


def open_receive_stream(fd: int, name: str) -> DescriptorReceiveStream:
    """A stream of the bytes that can be read from `fd`; `name` is what its errors call it.

    The stream owns a descriptor of its own: closing it leaves `fd` as it was. Raises OSError if
    `fd` is closed or only open for writing. Must be called inside `trio.run`.
    """
    return DescriptorReceiveStream(_open(fd, os.O_RDONLY, f"{name} is not open for reading"), name)


def open_send_stream(fd: int, name: str) -> DescriptorSendStream:
    """A stream that writes to `fd`; otherwise as `open_receive_stream`."""
    return DescriptorSendStream(_open(fd, os.O_WRONLY, f"{name} is not open for writing"), name)


if sys.platform != "win32":

    def adopt_receive_stream(stream: trio.lowlevel.FdStream, name: str) -> DescriptorReceiveStream:
        """The same pipe with fewer trips through the event loop; `stream` is not used any more."""
        fd = stream.fileno()
        return DescriptorReceiveStream(
            _Polled(fd, partial(os.read, fd), partial(os.write, fd), stream.close), name
        )

    def adopt_send_stream(stream: trio.lowlevel.FdStream, name: str) -> DescriptorSendStream:
        """As `adopt_receive_stream`."""
        fd = stream.fileno()
        return DescriptorSendStream(
            _Polled(fd, partial(os.read, fd), partial(os.write, fd), stream.close), name
        )


class _DescriptorStream(trio.abc.AsyncResource):
    def __init__(self, descriptor: _Polled | _Threaded, name: str) -> None:
        self._descriptor = descriptor
        self._name = name

    def close(self) -> None:
        """What `aclose` does, without a checkpoint."""
        self._descriptor.close()

    async def aclose(self) -> None:
        """Close the stream's own descriptor. Does not wait for a thread that is still using it."""
        self.close()
        await trio.lowlevel.checkpoint()

    def _broken(self, action: str, error: OSError) -> trio.BrokenResourceError:
        return trio.BrokenResourceError(f"cannot {action} {self._name}: {error.strerror}")


class DescriptorReceiveStream(_DescriptorStream, trio.abc.ReceiveStream):
    """Made by `open_receive_stream`."""

    async def receive_some(self, max_bytes: int | None = None) -> bytes:
        """At least one byte, or b"" at the end.

        Raises trio.BrokenResourceError if reading fails, trio.ClosedResourceError if this stream
        is closed before or meanwhile. Cancelling loses no bytes, unless a thread had to be
        abandoned in its read: that thread takes what comes next.
        """
        if max_bytes is not None and max_bytes < 1:
            raise ValueError(f"max_bytes must be at least 1, not {max_bytes}")
        try:
            return await self._descriptor.read(max_bytes or CHUNK)
        except OSError as error:
            raise self._broken("read", error) from error


class DescriptorSendStream(_DescriptorStream, trio.abc.SendStream):
    """Made by `open_send_stream`."""

    async def send_all(self, data: bytes | bytearray | memoryview) -> None:
        """Write all of `data`, waiting while the other side does not read.

        What can be written at once is, without a trip through the event loop: who writes frames
        one after the other waits for the next one anyway.

        Raises trio.BrokenResourceError if nobody can read it any more (or writing fails
        otherwise), trio.ClosedResourceError if this stream is closed before or meanwhile. When
        cancelled, an unknown part has been written.
        """
        view = memoryview(data)
        try:
            sent = await self._descriptor.write(view)
            while sent < len(view):
                sent += await self._descriptor.write(view[sent:])
        except OSError as error:
            raise self._broken("write to", error) from error

    async def wait_send_all_might_not_block(self) -> None:
        """Wait until some bytes can be written, where the descriptor can be waited for."""
        try:
            await self._descriptor.wait_writable()
        except OSError as error:
            raise self._broken("write to", error) from error


def _open(fd: int, access: int, refusal: str) -> _Polled | _Threaded:
    if sys.platform != "win32":
        return _open_posix(fd, access, refusal)
    return _Threaded(os.dup(fd), pollable=False, abandon=True)


if sys.platform != "win32":

    def _open_posix(fd: int, access: int, refusal: str) -> _Polled | _Threaded:
        kind = os.fstat(fd).st_mode
        if fcntl.fcntl(fd, fcntl.F_GETFL) & os.O_ACCMODE not in (access, os.O_RDWR):
            raise OSError(errno.EBADF, refusal)
        if stat.S_ISSOCK(kind):
            return _socket(fd)
        if stat.S_ISFIFO(kind):
            with contextlib.suppress(OSError):
                return _reopened_pipe(fd, access)
        regular = stat.S_ISREG(kind)
        return _Threaded(os.dup(fd), pollable=not regular, abandon=not regular)

    def _reopened_pipe(fd: int, access: int) -> _Polled:
        """Raises OSError where it does not work: only Linux has this path, and the pipe may be
        another user's, or have no reader left. A thread copes with the one and finds the other."""
        own = os.open(f"/proc/self/fd/{fd}", access | os.O_NONBLOCK)
        return _Polled(own, partial(os.read, own), partial(os.write, own), partial(os.close, own))

    def _socket(fd: int) -> _Polled:
        blocking = os.get_blocking(fd)
        own = socket.socket(fileno=os.dup(fd))
        # With a default timeout in this process, the socket would wait by itself for that long,
        # MSG_DONTWAIT or not, and has just been made non-blocking for everybody.
        own.settimeout(None)
        os.set_blocking(fd, blocking)
        return _Polled(
            own.fileno(),
            lambda max_bytes: own.recv(max_bytes, socket.MSG_DONTWAIT),
            lambda data: own.send(data, socket.MSG_DONTWAIT),
            own.close,
        )


@attrs.define(eq=False)
class _Polled:
    """Calls that fail with EAGAIN rather than block, made again when the event loop says so."""

    _fd: int  # -1 once closed: by then the number may name something else
    _read: Callable[[int], bytes]
    _write: Callable[[memoryview], int]
    _release: Callable[[], None]
    _drained: bool = attrs.field(default=False, init=False)

    async def read(self, max_bytes: int) -> bytes:
        # A short read has emptied the pipe: trying again at once would only fail with EAGAIN.
        self._check_open()
        if self._drained:
            await trio.lowlevel.wait_readable(self._fd)
        else:
            await trio.lowlevel.checkpoint()
        data = await self._when_ready(self._read, max_bytes, trio.lowlevel.wait_readable)
        self._drained = len(data) < max_bytes
        return data

    async def write(self, data: memoryview) -> int:
        await trio.lowlevel.checkpoint_if_cancelled()
        return await self._when_ready(self._write, data, trio.lowlevel.wait_writable)

    async def wait_writable(self) -> None:
        self._check_open()
        await trio.lowlevel.wait_writable(self._fd)

    async def _when_ready(
        self, call: Callable[[A], T], argument: A, ready: Callable[[int], Awaitable[None]]
    ) -> T:
        """Call now, else whenever `ready`. What a call has done, no cancellation can lose."""
        while True:
            self._check_open()  # closed between the wake-up and our turn: the number may be reused
            try:
                return call(argument)
            except BlockingIOError:
                await ready(self._fd)

    def _check_open(self) -> None:
        if self._fd < 0:
            raise trio.ClosedResourceError("this stream is already closed")

    def close(self) -> None:
        if self._fd >= 0:
            trio.lowlevel.notify_closing(self._fd)
            self._fd = -1
            self._release()


@attrs.define(eq=False)
class _Threaded:
    """Calls that may block, each in a thread.

    An abandoned thread may still be about to use the descriptor when the stream closes; if it were
    closed under the thread, its number might name another file by then. So `_busy` is held during
    each call, and whoever comes last, `close` or the thread, closes it.
    """

    _fd: int
    _pollable: bool
    _abandon: bool
    _closed: bool = attrs.field(default=False, init=False)
    _busy: threading.Lock = attrs.field(factory=threading.Lock, init=False)
    # Not Trio's default limiter: a read that waits for hours would take one of its places, and
    # forty blocking tools would keep us from reading their cancellation.
    _limiter: trio.CapacityLimiter = attrs.field(
        factory=lambda: trio.CapacityLimiter(1), init=False
    )
    _waiting: trio.CancelScope | None = attrs.field(default=None, init=False)

    async def read(self, max_bytes: int) -> bytes:
        return await self._until_closed(os.read, max_bytes, trio.lowlevel.wait_readable)

    async def write(self, data: memoryview) -> int:
        return await self._until_closed(os.write, bytes(data), trio.lowlevel.wait_writable)

    async def wait_writable(self) -> None:
        await self._wait(trio.lowlevel.wait_writable)

    async def _until_closed(
        self, call: Callable[[int, A], T], argument: A, ready: Callable[[int], Awaitable[None]]
    ) -> T:
        with trio.CancelScope() as self._waiting:
            while True:
                await self._wait(ready)
                try:
                    return await trio.to_thread.run_sync(
                        self._in_thread,
                        call,
                        argument,
                        abandon_on_cancel=self._abandon,
                        limiter=self._limiter,
                    )
                except BlockingIOError:  # somebody else made it non-blocking, so it is pollable
                    if not self._pollable:
                        raise
        raise trio.ClosedResourceError("this stream was closed meanwhile")

    async def _wait(self, ready: Callable[[int], Awaitable[None]]) -> None:
        await trio.lowlevel.checkpoint()
        if self._closed:
            raise trio.ClosedResourceError("this stream is already closed")
        if self._pollable:
            try:
                await ready(self._fd)
            except OSError:  # /dev/null, for one
                self._pollable = False

    def _in_thread(self, call: Callable[[int, A], T], argument: A) -> T:
        try:
            with self._busy:
                if self._closed:
                    raise OSError(errno.EBADF, "closed before the thread began")
                return call(self._fd, argument)
        finally:
            self._release_if_last()

    def close(self) -> None:
        if self._closed:
            return
        self._closed = True
        if self._waiting is not None:
            self._waiting.cancel()
        if self._pollable:
            trio.lowlevel.notify_closing(self._fd)
        self._release_if_last()

    def _release_if_last(self) -> None:
        if self._closed and self._busy.acquire(blocking=False):
            try:
                if self._fd >= 0:
                    self._fd, number = -1, self._fd
                    os.close(number)
            finally:
                self._busy.release()
