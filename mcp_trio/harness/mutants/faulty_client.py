"""Clients on stdio with a fault each: `python -m mcp_trio.harness.mutants.faulty_client FAULT ...`

The rest of the command line is the server. The faults are those that only a process can have:
in its bytes, and in how it starts and ends its server.
"""

from __future__ import annotations

import contextlib
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from functools import partial
from typing import Any, Final

import trio

from mcp_trio.connection import FrameStream, LineStream
from mcp_trio.exceptions import ConnectionClosed
from mcp_trio.harness.demo_client import play, play_again
from mcp_trio.wire.ndjson import CLIENT_LINE_LIMIT

Server = list[str]
Change = Callable[[bytes], bytes]


async def none(server: Server) -> None:
    """No fault."""
    await play_again(server)


class _Changed(LineStream):
    """Sends other bytes than lines."""

    change: Change = staticmethod(lambda line: line)

    async def send(self, frames: Sequence[bytes]) -> None:
        for frame in frames:
            await self.send_stream.send_all(self.change(frame + b"\n"))


@asynccontextmanager
async def _started(server: Server, change: Change | None = None) -> AsyncIterator[Any]:
    """A server that is started, and a stream to it; nobody ends it."""
    process = await trio.lowlevel.open_process(
        server, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert process.stdin is not None
    assert process.stdout is not None
    stream = _Changed(process.stdout, process.stdin, CLIENT_LINE_LIMIT)
    if change is not None:
        stream.change = change
    yield process, stream


async def _speak(server: Server, change: Change) -> None:
    async with _started(server, change) as (process, stream):
        await play(stream)
        await process.stdin.aclose()
        await process.wait()


async def splits(server: Server) -> None:
    """Puts newlines into its messages."""
    await _speak(server, lambda line: line.replace(b',"method"', b',\n"method"'))


async def pads(server: Server) -> None:
    """Puts empty lines between its messages."""
    await _speak(server, lambda line: line + b"\n")


class _Answering(FrameStream):
    """Answers requests of a modern server."""

    def __init__(self, stream: LineStream) -> None:
        self._stream = stream

    async def receive(self) -> list[bytes]:
        frames = await self._stream.receive()
        for frame in frames:
            if b'"asked"' in frame:
                await self._stream.send([b'{"jsonrpc":"2.0","id":"asked","result":{}}'])
        return frames

    async def send(self, frames: Sequence[bytes]) -> None:
        await self._stream.send(frames)

    async def aclose(self) -> None:
        await self._stream.aclose()


async def answers(server: Server) -> None:
    """Answers requests, which modern servers do not make."""
    async with _started(server) as (process, stream):
        await play(_Answering(stream))
        await process.wait()


async def minds(server: Server) -> None:
    """Takes what the server writes to stderr for an error, and leaves."""
    process = await trio.lowlevel.open_process(
        server, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    assert process.stdin is not None
    assert process.stdout is not None
    assert process.stderr is not None
    stream = LineStream(process.stdout, process.stdin, CLIENT_LINE_LIMIT)
    with trio.move_on_after(0.3):
        if await process.stderr.receive_some():
            process.kill()
            sys.exit("the server has an error")
    await play(stream)
    await process.wait()


async def kills(server: Server) -> None:
    """Ends its server by a signal, without closing its stdin before."""
    async with _started(server) as (process, stream):

        async def end(_client: object) -> None:
            process.terminate()
            await process.wait()

        with contextlib.suppress(ConnectionClosed):
            await play(stream, also=end)


async def leaves(server: Server) -> None:
    """Leaves its server alone."""
    async with _started(server) as (_, stream):
        await play(stream)


async def hurries(server: Server) -> None:
    """Sends SIGTERM as soon as it has closed stdin."""
    async with _started(server) as (process, stream):
        await play(stream)
        process.terminate()
        with trio.move_on_after(0.5):
            await process.wait()
        process.kill()
        await process.wait()


async def gives_up(server: Server) -> None:
    """Does not start a server again."""
    with contextlib.suppress(ConnectionClosed):
        await play(server)


async def forgets(server: Server) -> None:
    """Does not listen again after it has started the server again."""
    try:
        await play(server)
    except ConnectionClosed:
        from mcp_trio.client.client import open_client

        async with open_client(server) as client:
            await client.list_tools()


async def hangs(server: Server) -> None:
    """Waits for ever when its server dies."""
    try:
        await play(server)
    except ConnectionClosed:
        await trio.sleep_forever()


FAULTS: Final[tuple[Callable[[Server], Any], ...]] = (
    none,
    splits,
    pads,
    answers,
    minds,
    kills,
    leaves,
    hurries,
    gives_up,
    forgets,
    hangs,
)


def main(arguments: Sequence[str]) -> None:
    """Be a client with a fault."""
    fault = next(fault for fault in FAULTS if fault.__name__ == arguments[0])
    if sys.platform != "win32":
        signal.signal(signal.SIGPIPE, signal.SIG_IGN)
    trio.run(partial(fault, list(arguments[1:])))


if __name__ == "__main__":
    main(sys.argv[1:])
