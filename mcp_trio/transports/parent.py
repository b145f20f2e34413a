"""Notice that the process which started this one has gone.

A client that is killed outright closes our standard input by dying, and that is the signal a server
should rely on. But somebody else may hold the other end of that pipe open (a sibling that inherited
it), and a server over a socket has no such pipe. Then the parent itself can be watched.

Linux offers PR_SET_PDEATHSIG for this. It is not used: it fires when the *thread* that forked us
ends, which in a client with a pool of threads is any time, and a signal leaves no time to clean up.
"""

from __future__ import annotations

import os
import sys

import trio

POLL_INTERVAL = 1.0  # seconds, where the system cannot tell us


async def wait_parent_gone(parent: int) -> None:
    """Return as soon as the parent process, the one with the id `parent`, has ended.

    Ask `os.getppid()` for the id first thing in the program and pass it here: a parent that ends
    before this is called has been replaced by then, and its replacement lives long. Returns at
    once (after a checkpoint) if `parent` is our parent no longer. One outside of our PID namespace
    has the id 0 and is never seen to go. Cancelling leaves nothing behind.
    """
    await trio.lowlevel.checkpoint()
    if sys.platform == "win32":
        await _wait_process(parent)
    else:
        descriptor = _open_pidfd(parent)
        # Asked after the descriptor was opened: the id cannot have passed to another process while
        # it was still our parent's.
        if descriptor is None:
            while os.getppid() == parent:  # noqa: ASYNC110  (nobody is there to set an event)
                await trio.sleep(POLL_INTERVAL)
            return
        try:
            if os.getppid() == parent:
                await trio.lowlevel.wait_readable(descriptor)
        finally:
            os.close(descriptor)


if sys.platform == "win32":
    import _winapi

    async def _wait_process(pid: int) -> None:
        # Windows never changes what getppid() answers, so the process itself must be opened.
        try:
            handle = _winapi.OpenProcess(_winapi.SYNCHRONIZE, False, pid)
        except OSError:
            return
        try:
            await trio.lowlevel.WaitForSingleObject(handle)
        finally:
            _winapi.CloseHandle(handle)

else:

    def _open_pidfd(pid: int) -> int | None:
        """None where the system has no such thing, does not allow it, or knows no such process."""
        if sys.platform == "linux":
            try:
                return os.pidfd_open(pid)
            except OSError:
                return None
        return None
