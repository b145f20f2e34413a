"""Notifications on their way to a client: in order, bounded, and not lost where it matters."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
import trio
from trio.testing import MockClock

from mcp_trio.exceptions import ConnectionClosed
from mcp_trio.proxy import passing
from mcp_trio.proxy.passing import Passing
from mcp_trio.wire.jsonrpc import JSONObject

VERSION = "2025-11-25"
CHANGED = "notifications/tools/list_changed"


class Client:
    """Takes what is sent, unless it stalls or is gone."""

    def __init__(self) -> None:
        self.got: list[tuple[str, JSONObject | None]] = []
        self.reads = trio.Event()
        self.gone = False

    async def send(self, method: str, params: JSONObject | None) -> None:
        await self.reads.wait()
        if self.gone:
            raise ConnectionClosed("gone")
        self.got.append((method, params))


@asynccontextmanager
async def opened() -> AsyncIterator[tuple[Passing, Client]]:
    client = Client()
    async with trio.open_nursery() as nursery:
        yield Passing(client.send, nursery), client


async def test_order_and_draining(autojump_clock: MockClock) -> None:
    """What was put first is sent first, and who waits for the end waits for all of it."""
    async with opened() as (notes, client):
        client.reads.set()
        for number in range(5):
            notes.put("n", {"number": number}, VERSION)
        await notes.drained()
        assert [params for _, params in client.got] == [{"number": n} for n in range(5)]


async def test_a_slow_client_loses_the_oldest(
    autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Memory is bounded; news of changes is kept, once each, however much else is lost."""
    monkeypatch.setattr(passing, "MOST_WAITING", 3)
    async with opened() as (notes, client):
        notes.put(CHANGED, None, VERSION)
        notes.put(CHANGED, None, VERSION)
        for number in range(10):
            notes.put("n", {"number": number}, VERSION)
        client.reads.set()
        await notes.drained()
    assert [note for note in client.got if note[0] == CHANGED] == [(CHANGED, None)]
    numbers = [params["number"] for _, params in client.got if params is not None]
    assert numbers == [7, 8, 9] or numbers == [8, 9]
    assert "too slow" in caplog.text


async def test_a_client_that_is_gone(autojump_clock: MockClock) -> None:
    """Nobody waits for a client that cannot be reached, and nothing is raised."""
    async with opened() as (notes, client):
        client.gone = True
        client.reads.set()
        notes.put("n", None, VERSION)
        notes.put("n", None, VERSION)
        await notes.drained()
        assert client.got == []


async def test_stopping(autojump_clock: MockClock) -> None:
    """What belongs to a request that is over is not sent any more."""
    async with opened() as (notes, client):
        notes.put("n", None, VERSION)
        await trio.sleep(1)
        notes.stop()
        await notes.drained()
        assert client.got == []


async def test_what_the_clients_revision_has(autojump_clock: MockClock) -> None:
    """A notification that the client's revision does not know is not sent, nor a field of it."""
    method = "notifications/elicitation/complete"
    progress = {"progressToken": 1, "progress": 1, "message": "x"}
    async with opened() as (notes, client):
        client.reads.set()
        for version in ("2025-11-25", "2026-07-28"):
            notes.put(method, {"elicitationId": "1"}, version)
        notes.put("notifications/progress", progress, "2024-11-05")
        await notes.drained()
    assert client.got == [
        (method, {"elicitationId": "1"}),
        ("notifications/progress", {"progressToken": 1, "progress": 1}),
    ]
