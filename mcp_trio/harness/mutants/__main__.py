"""Mutants that are processes: the demo server on stdin and stdout, with a fault of the process.

`python -m mcp_trio.harness.mutants FAULT` is what `mcp_trio.harness.mutants.stdio` starts; each
fault is a row of `FAULTS` here, and "none" is the healthy one.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable
from typing import Final

import trio

from mcp_trio.demo import server as demo
from mcp_trio.testing import memory_pair

CHUNK: Final = 65_536


class Process:
    """A server in a process: what comes from stdin goes to the server, its answers to stdout.

    The subclasses say what is wrong with it, in the first line of their docstrings.
    """

    def __init__(self) -> None:
        self.calls = 0
        self.heard = False

    def begin(self) -> None:
        """Get ready."""

    async def at_end(self) -> None:
        """Do what is to be done when stdin ends; the process exits after that."""

    async def before_write(self) -> None:
        """Do what is to be done before something is written."""

    async def run(self) -> None:
        """Serve until stdin ends."""
        self.begin()
        near, far = memory_pair()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(demo.serve_stream, far)
            nursery.start_soon(self._write, near)
            await self._read(near)
            await self.at_end()
            assert isinstance(near, trio.abc.HalfCloseableStream)
            await near.send_eof()

    async def _read(self, near: trio.abc.Stream) -> None:
        while data := await trio.to_thread.run_sync(os.read, 0, CHUNK, abandon_on_cancel=True):
            self.heard = True
            self.calls += data.count(b'"tools/call"')
            await near.send_all(data)

    async def _write(self, near: trio.abc.Stream) -> None:
        while data := await near.receive_some():
            await self.before_write()
            while data:
                data = data[os.write(1, data) :]


class StaysForEver(Process):
    """Does not notice that its stdin has ended."""

    async def at_end(self) -> None:
        await trio.sleep_forever()


class StaysForCalls(Process):
    """Waits for its calls when its stdin has ended, however long they take."""

    async def at_end(self) -> None:
        if self.calls:
            await trio.sleep_forever()


class StaysIfUnused(Process):
    """Waits for its first message though its stdin has ended."""

    async def at_end(self) -> None:
        if not self.heard:
            await trio.sleep_forever()


class LeavesAtOnce(Process):
    """Exits when its stdin ends, and forgets what it has not written yet."""

    async def at_end(self) -> None:
        os._exit(0)

    async def before_write(self) -> None:
        await trio.sleep(0.1)


class IgnoresSigterm(Process):
    """Ignores SIGTERM."""

    def begin(self) -> None:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)


FAULTS: Final[dict[str, Callable[[], Process]]] = {
    "none": Process,
    "stays-for-ever": StaysForEver,
    "stays-for-calls": StaysForCalls,
    "stays-if-unused": StaysIfUnused,
    "leaves-at-once": LeavesAtOnce,
    "ignores-sigterm": IgnoresSigterm,
}

if __name__ == "__main__":
    trio.run(FAULTS[sys.argv[1]]().run)
