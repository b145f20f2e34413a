"""Fuzzing clients: who crashes, stops or talks nonsense is named; who gives up need not be."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress

import pytest
import trio
from trio.testing import MockClock

from mcp_trio.client.client import open_client
from mcp_trio.connection import FrameStream
from mcp_trio.exceptions import MCPError, ProtocolError
from mcp_trio.harness.client_probe import record
from mcp_trio.harness.fuzzing.campaign import Plan
from mcp_trio.harness.fuzzing.cases import At, Case, Instead, Send
from mcp_trio.harness.fuzzing.client_campaign import Player, fuzz_client, judge_client
from mcp_trio.harness.fuzzing.layers.client_layer import GENTLE, ROUGH
from mcp_trio.harness.handover import Address, function_target
from mcp_trio.harness.probe import Options
from tests.harness.fuzzing.kit import ERAS, LEGACY

OPTIONS = Options(deadline=2.0)
PING = Send(b'{"jsonrpc":"2.0","id":9001,"method":"ping"}', "a ping", clear=True)
UNKNOWN = Send(GENTLE["an unknown notification"], "an unknown notification", clear=True)


async def use(address: Address) -> None:
    """A healthy client: lists tools twice, and leaves. What the server refuses, it lives with."""
    assert address.stream is not None
    async with open_client(address.stream) as client:
        for _ in range(2):
            with suppress(MCPError, ProtocolError):
                await client.list_tools()


class Changed(FrameStream):
    """A stream on which a function sees what comes, and may raise or drop it."""

    def __init__(self, stream: FrameStream, see: Callable[[bytes], bool]) -> None:
        self._stream = stream
        self._see = see

    async def receive(self) -> list[bytes]:
        while frames := await self._stream.receive():
            if kept := [frame for frame in frames if self._see(frame)]:
                return kept
        return []

    async def send(self, frames: object) -> None:
        await self._stream.send(frames)  # type: ignore[arg-type]

    async def aclose(self) -> None:
        await self._stream.aclose()


def client_that(see: Callable[[bytes], bool]) -> Callable[[Address], Awaitable[object]]:
    async def play(address: Address) -> None:
        assert address.stream is not None
        await use(Address(stream=Changed(address.stream, see)))

    return play


@asynccontextmanager
async def player(
    play: Callable[[Address], Awaitable[object]], revision: str = LEGACY
) -> AsyncIterator[Player]:
    target = function_target(play, "client")
    healthy = await record(target, revision, OPTIONS)
    yield Player(target, revision, OPTIONS, healthy)


async def accused(player: Player, *steps: At | Send | Instead) -> list[str]:
    trace = await player.play(Case("client", steps))
    return [accusation.oracle for accusation in judge_client(trace)]


@pytest.mark.parametrize("revision", ERAS)
async def test_the_library_bears_it_all(revision: str, autojump_clock: MockClock) -> None:
    """Everything that the layer can send, to our own client."""
    async with player(use, revision) as healthy:
        gentle = [Send(frame, name, clear=True) for name, frame in GENTLE.items()]
        pings = [PING] if revision == LEGACY else []
        assert await accused(healthy, At(2), *gentle, *pings) == []
        for name, frame in ROUGH.items():
            assert await accused(healthy, At(2), Send(frame, name)) == []
        for frame in (b'{"jsonrpc":"2.0","id":"$id","result":5}', b"{", b"[]"):
            assert await accused(healthy, At(2), Instead(frame)) == []


async def test_a_ping_without_an_answer_is_named(autojump_clock: MockClock) -> None:
    """Both sides have to answer pings; a server may hang up on who does not."""
    async with player(client_that(lambda frame: b'"ping"' not in frame)) as deaf:
        assert await accused(deaf, At(2), PING) == ["still-answers"]
        assert await accused(deaf, At(2), UNKNOWN) == []


async def test_who_stops_at_what_is_harmless_is_named(autojump_clock: MockClock) -> None:
    """A client that loses its way at a notification which it does not know."""
    lost: list[bool] = []

    def see(frame: bytes) -> bool:
        lost.append(b"notifications/harness" in frame)
        return not any(lost)

    async with player(client_that(see)) as stuck:
        assert await accused(stuck, At(2), UNKNOWN) == ["goes-on"]


async def test_a_campaign_finds_and_cuts_down() -> None:
    """From Hypothesis to the replay line, with a client in this process."""
    target = function_target(client_that(lambda frame: b'"ping"' not in frame), "deaf")
    plan = Plan(seconds=None, examples=30, seed=3, revisions=(LEGACY,))
    with trio.fail_after(60):
        report = await fuzz_client(target, plan, options=Options(deadline=0.5))
    (finding,) = report.findings
    assert finding.check == "still-answers"
    assert finding.requirements == ("ping-1",)
    assert finding.level == "MUST"
    assert report.role == "client"
