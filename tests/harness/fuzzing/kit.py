"""Faulty and healthy demo servers in this process, and ways to play cases to them."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager

import attrs
import trio

from mcp_trio.connection import FrameStream
from mcp_trio.harness.fuzzing.cases import Case, Step
from mcp_trio.harness.fuzzing.guard import Guard
from mcp_trio.harness.fuzzing.oracles import Accusation, judge
from mcp_trio.harness.fuzzing.subject import Played, Subject, open_subject
from mcp_trio.harness.mutants.frames import Fault, frame_mutant
from mcp_trio.harness.targets import ServerTarget, server_target

LEGACY = "2025-11-25"
MODERN = "2026-07-28"
ERAS = (LEGACY, MODERN)


def demo() -> ServerTarget:
    from mcp_trio.demo import server

    return server_target(server, "demo")


@asynccontextmanager
async def subject(
    fault: Callable[[], Fault] | None = None,
    revision: str = LEGACY,
    *,
    target: ServerTarget | None = None,
    protected: Iterable[str] = (),
) -> AsyncIterator[Subject]:
    """The demo server, with a fault or without, to play cases to."""
    guard = Guard(protected)
    if fault is None or target is not None:
        opening = open_subject(target or demo(), revision, deadline=2.0, guard=guard)
        async with opening as found:
            yield found
        return
    async with (
        frame_mutant("faulty", fault, ()).open() as faulty,
        open_subject(faulty, revision, deadline=2.0, guard=guard) as found,
    ):
        yield found


async def play(subject: Subject, *steps: Step, handshake: bool = True) -> Played:
    return await subject.play(Case("test", steps, handshake=handshake))


async def accusations(subject: Subject, *steps: Step) -> list[Accusation]:
    return judge((await play(subject, *steps)).trace)


async def accused(subject: Subject, *steps: Step) -> list[str]:
    """The names of the oracles that accuse."""
    return [accusation.oracle for accusation in await accusations(subject, *steps)]


@attrs.frozen
class HangsUp:
    """A server in this process that leaves, or raises, once it has read a frame with a word."""

    word: bytes
    error: Exception | None = None

    async def serve_frames(self, stream: FrameStream) -> object:
        from mcp_trio.demo import server

        return await server.serve_frames(_Ending(stream, self.word, self.error))


@attrs.frozen
class TakesTime:
    """A server in this process that needs some time for each frame."""

    seconds: float

    async def serve_frames(self, stream: FrameStream) -> object:
        from mcp_trio.demo import server

        return await server.serve_frames(_Slow(stream, self.seconds))


class _Slow(FrameStream):
    def __init__(self, stream: FrameStream, seconds: float) -> None:
        self._stream = stream
        self._seconds = seconds

    async def receive(self) -> list[bytes]:
        frames = await self._stream.receive()
        await trio.sleep(self._seconds * len(frames))
        return frames

    async def send(self, frames: object) -> None:
        await self._stream.send(frames)  # type: ignore[arg-type]

    async def aclose(self) -> None:
        await self._stream.aclose()


class _Ending(FrameStream):
    def __init__(self, stream: FrameStream, word: bytes, error: Exception | None) -> None:
        self._stream = stream
        self._word = word
        self._error = error

    async def receive(self) -> list[bytes]:
        frames = await self._stream.receive()
        if any(self._word in frame for frame in frames):
            if self._error is not None:
                raise self._error
            await self._stream.aclose()
            return []
        return frames

    async def send(self, frames: object) -> None:
        await self._stream.send(frames)  # type: ignore[arg-type]

    async def aclose(self) -> None:
        await self._stream.aclose()
