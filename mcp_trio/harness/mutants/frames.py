"""Mutants made on the wire: the healthy demo server, and a fault between it and its client.

    checker  ◀── sent ──  Fault  ◀──  the demo server
             ── received ▶       ──▶

The fault sees each message on its way, in both directions, and says what goes on in its place:
nothing, something else, or more. The server is in this process, so that a thousand of them cost
little, and the time may be virtual.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from contextlib import asynccontextmanager
from typing import TypeAlias

import attrs

from mcp_trio.client.targets import InProcessServer
from mcp_trio.connection import FrameStream
from mcp_trio.harness.mutants import Mutant
from mcp_trio.harness.targets import ServerTarget, server_target
from mcp_trio.wire.jsonrpc import JSONObject

Frame: TypeAlias = JSONObject | bytes


@attrs.frozen
class Back:
    """Goes back to where the message came from, in place of going on."""

    frame: Frame


class Fault:
    """One fault. The first line of its docstring says what it does wrong.

    A frame is an object if it can be read as one, else bytes. One fault is made for each
    connection, so it may remember what it saw.
    """

    def received(self, frame: Frame) -> Iterable[Frame | Back]:
        """What reaches the server in place of a frame of its client."""
        yield frame

    def sent(self, frame: Frame) -> Iterable[Frame | Back]:
        """What reaches the client in place of a frame of the server."""
        yield frame


def frame_mutant(
    id: str,
    fault: Callable[[], Fault],
    catches: Sequence[str],
    server: Callable[[], InProcessServer] | None = None,
) -> Mutant:
    """A mutant of a server in this process.

    Args:
        id: Its name.
        fault: Makes the fault, for each connection.
        catches: The checks that must fail on it.
        server: Makes the healthy server; the demo server by default.
    """

    healthy = _demo if server is None else server

    @asynccontextmanager
    async def open_faulty() -> AsyncIterator[ServerTarget]:
        yield server_target(Faulty(healthy(), fault), id)

    @asynccontextmanager
    async def open_healthy() -> AsyncIterator[ServerTarget]:
        yield server_target(healthy(), f"{id}, healthy")

    text = (fault.__doc__ or "").strip().partition("\n")[0]
    return Mutant(id, text, tuple(catches), open_faulty, open_healthy, virtual=True)


def _demo() -> InProcessServer:
    from mcp_trio.demo import server

    return server


@attrs.frozen
class Faulty:
    """A server whose frames pass a fault."""

    healthy: InProcessServer
    fault: Callable[[], Fault]

    async def serve_frames(self, stream: FrameStream) -> object:
        fault = self.fault()
        return await self.healthy.serve_frames(FaultyStream(stream, fault.received, fault.sent))


Change: TypeAlias = Callable[[Frame], Iterable[Frame | Back]]


class FaultyStream(FrameStream):
    """A stream whose frames are changed on their way, in either direction.

    Args:
        incoming: Makes what is received of what came.
        outgoing: Makes what goes of what was sent.
    """

    def __init__(self, stream: FrameStream, incoming: Change, outgoing: Change) -> None:
        self._stream = stream
        self._incoming = incoming
        self._outgoing = outgoing

    async def receive(self) -> list[bytes]:
        while frames := await self._stream.receive():
            on, back = _sorted(self._incoming, frames)
            if back:
                await self._stream.send(back)
            if on:
                return on
        return []

    async def send(self, frames: Sequence[bytes]) -> None:
        on, _ = _sorted(self._outgoing, frames)
        if on:
            await self._stream.send(on)

    async def aclose(self) -> None:
        await self._stream.aclose()


def _sorted(change: Change, frames: Iterable[bytes]) -> tuple[list[bytes], list[bytes]]:
    on, back = [], []
    for frame in frames:
        for changed in change(_read(frame)):
            if isinstance(changed, Back):
                back.append(_write(changed.frame))
            else:
                on.append(_write(changed))
    return on, back


def _read(frame: bytes) -> Frame:
    try:
        value = json.loads(frame)
    except (ValueError, RecursionError):
        return frame
    return value if isinstance(value, dict) else frame


def _write(frame: Frame) -> bytes:
    return frame if isinstance(frame, bytes) else json.dumps(frame).encode()
