"""The client's end of the stdio transport: a server as a child process, one message a line.

A process differs from other peers in how it ends. It may be dead while a descendant of it still
holds its stdout open, so that no end of input comes; and it leaves a status and last words, which
are most of what a person needs to know.
"""

from __future__ import annotations

import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import trio

from mcp_trio.connection import LineStream
from mcp_trio.exceptions import Closed
from mcp_trio.transports.process import ChildProcess, StdioParameters, open_process
from mcp_trio.wire.ndjson import CLIENT_LINE_LIMIT


class ChildStream(LineStream):
    """Lines from and to a child. Its pipes belong to `open_process`, so closing does nothing."""

    def __init__(self, child: ChildProcess, limit: int, command: str) -> None:
        super().__init__(child.stdout, child.stdin, limit)
        self._child = child
        self._command = command

    async def wait_death(self) -> str:
        await self._child.died()
        return self._ending()

    async def obituary(self, reason: str) -> Closed:
        launched = self._child.was_launcher()
        await self._child.settle()
        status = None if launched else self._child.exit_status  # a launcher's is not the server's
        if status is None:
            reason = f"{reason} ({self._command})"
        elif reason != self._ending():
            reason = f"{reason}: {self._ending()}"
        return Closed(reason, status, self._child.stderr_tail)

    async def aclose(self) -> None:
        await trio.lowlevel.checkpoint()

    def _ending(self) -> str:
        status = self._child.exit_status
        if status is not None and status < 0:
            return f"{self._command} was ended by {_signal_name(-status)}"
        return f"{self._command} exited"


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


@asynccontextmanager
async def open_stdio(
    parameters: StdioParameters, *, line_limit: int = CLIENT_LINE_LIMIT
) -> AsyncIterator[tuple[ChildStream, ChildProcess]]:
    """Run a server for the length of a block, and give the stream to it, and the child itself.

    Set `established` of the child once the handshake is done. For how the child ends, for what
    cancellation does, and for what is raised if it cannot be started, see `open_process`.

    Args:
        parameters: The server to run.
        line_limit: The most bytes that a message of the server may have.
    """
    async with open_process(parameters) as child:
        yield ChildStream(child, line_limit, parameters.command), child
