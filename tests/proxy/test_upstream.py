"""The server behind fails: what clients hear of it, and how it is opened again."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
import trio
from trio.testing import MockClock

import mcp_trio
from mcp_trio import (
    AuthorizationRequired,
    ConnectionClosed,
    MCPError,
    ProtocolError,
    RequestTimeout,
    TransportError,
)
from mcp_trio.client.client import Client
from mcp_trio.connection import FrameStream, memory_frame_pair
from mcp_trio.proxy.app import Proxy
from mcp_trio.proxy.upstream import LONGEST_PAUSE, Upstream, answer_for
from tests.client.scripted import Answer, JSONObject, Scripted, text_result

from .kit import EACH_PAIR, STARTS, Kit, Scripts, text_of, through


async def dies(server: Scripted, request: JSONObject) -> Answer:
    await server.close()
    return None


@EACH_PAIR
async def test_dying_in_mid_call(up: str, down: str, autojump_clock: MockClock) -> None:
    """The call fails with the reason, at once, and the next one finds a server again."""
    scripts = Scripts(up, {"tools/call": [dies, text_result("back")]})
    scripts._steps["tools/call"] = [dies]
    async with through(scripts, up, down) as client:
        with pytest.raises(MCPError, match=r"The server behind this one is gone: .*\.") as failed:
            await client.call_tool("t")
        assert failed.value.code == -32603
        assert not client.closed
        scripts._steps["tools/call"] = text_result("back")
        assert text_of(await client.call_tool("t")) == "back"
    assert len(scripts.connections) == 2


@EACH_PAIR
async def test_dying_between_calls(up: str, down: str, autojump_clock: MockClock) -> None:
    """A server that died while nobody used it is opened again without anybody noticing."""
    scripts = Scripts(up, {"tools/call": text_result()})
    async with through(scripts, up, down) as client:
        await client.call_tool("t")
        await scripts.latest.close()
        await trio.sleep(1)
        await client.call_tool("t")
    assert len(scripts.connections) == 2


@pytest.mark.parametrize("up", ["legacy", "modern"])
async def test_a_session_outlives_its_server(up: str, autojump_clock: MockClock) -> None:
    """A server that takes the place of another is told what the session had said."""
    kit = Kit()
    logs: list[Any] = []
    connections: list[FrameStream] = []

    class Mortal:
        async def serve_frames(self, stream: FrameStream) -> None:
            connections.append(stream)
            await kit.server.serve_frames(stream)

    async with through(
        Mortal(), up, "legacy", on_log=lambda m: logs.append(m.data), log_level="error"
    ) as client:
        async with client.listen(uris=["memo://today"]) as events:
            await connections[-1].aclose()
            await trio.sleep(1)
            await client.call_tool("touch", {"uri": "memo://today"})
            with trio.fail_after(5):
                assert await anext(events) == mcp_trio.ResourceUpdated("memo://today")
        await client.call_tool("log", {"level": "warning", "text": "no"})
        await client.call_tool("log", {"level": "error", "text": "yes"})
    assert logs == ["yes"]
    assert len(connections) == 2


@pytest.mark.parametrize("down", ["legacy", "modern"])
async def test_a_server_that_cannot_be_started(down: str) -> None:
    """The client hears that it cannot, and of which kind the reason is."""
    with pytest.raises((MCPError, ProtocolError)) as failed:
        async with mcp_trio.open_client(Proxy(["/no/such/program"]), mode=down):
            pass
    assert "cannot be started" in str(failed.value)


async def test_one_session_after_another(autojump_clock: MockClock) -> None:
    """The end of a client is the end of its server, and the next client gets a new one."""
    scripts = Scripts("legacy", {"tools/call": text_result()})
    proxy = Proxy(scripts)
    async with proxy.running():
        for number in (1, 2):
            async with mcp_trio.open_client(proxy, mode="legacy") as client:
                await client.call_tool("t")
                assert len(scripts.connections) == number
            assert scripts.open == 0


async def test_modern_clients_share_a_server(autojump_clock: MockClock) -> None:
    """There is one for all of them, started by the first request, and it outlives each."""
    scripts = Scripts("modern", {"tools/call": text_result()})
    proxy = Proxy(scripts)
    async with proxy.running():
        assert scripts.connections == []
        for _ in range(3):
            async with mcp_trio.open_client(proxy, mode="modern") as client:
                await client.call_tool("t")
        assert scripts.open == 1
    assert len(scripts.connections) == 1
    assert scripts.open == 0


async def test_a_modern_server_is_found_out_once(autojump_clock: MockClock) -> None:
    """The first legacy client finds out that there is no legacy era; the next need not."""
    scripts = Scripts("modern", {"tools/call": text_result()})
    proxy = Proxy(scripts)
    async with proxy.running():
        for opened in (2, 3):
            async with mcp_trio.open_client(proxy, mode="legacy") as client:
                await client.call_tool("t")
            assert len(scripts.connections) == opened


@pytest.mark.parametrize("up", ["legacy", "modern"])
async def test_what_was_missed(up: str, autojump_clock: MockClock) -> None:
    """What a client has subscribed to counts as changed when its server was replaced."""
    kit = Kit()
    connections: list[FrameStream] = []

    class Mortal:
        async def serve_frames(self, stream: FrameStream) -> None:
            connections.append(stream)
            await kit.server.serve_frames(stream)

    async with (
        through(Mortal(), up, "legacy") as client,
        client.listen(uris=["memo://today"]) as events,
    ):
        await connections[-1].aclose()
        with trio.fail_after(5):
            assert await anext(events) == mcp_trio.ResourceUpdated("memo://today")


# Opening again


class Attempts:
    """A server of which opening fails, until it does not."""

    def __init__(self, *outcomes: Exception | None) -> None:
        self.outcomes = list(outcomes)
        self.times: list[float] = []
        self.streams: list[FrameStream] = []

    @asynccontextmanager
    async def open(self) -> AsyncIterator[Client]:
        self.times.append(trio.current_time())
        outcome = self.outcomes.pop(0) if self.outcomes else None
        if outcome is not None:
            raise outcome
        scripted = Scripted(start=STARTS["modern"])
        near, scripted._stream = memory_frame_pair()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(scripted._serve, nursery)
            async with mcp_trio.open_client(near) as client:
                self.streams.append(near)
                yield client
            nursery.cancel_scope.cancel()


async def nothing(
    client: Client, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED
) -> None:
    task_status.started()


@asynccontextmanager
async def kept(attempts: Attempts) -> AsyncIterator[Upstream]:
    upstream = Upstream(attempts.open, nothing)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(upstream.keep)
        yield upstream
        nursery.cancel_scope.cancel()


async def test_pauses_grow(autojump_clock: MockClock) -> None:
    """A server that cannot be opened is tried for each request, but never in a hurry."""
    attempts = Attempts(*(OSError(2, "nope") for _ in range(9)))
    async with kept(attempts) as upstream:
        for _ in range(9):
            with pytest.raises(MCPError, match="cannot be started: nope"):
                await upstream.connected()
    waits = [b - a for a, b in zip(attempts.times, attempts.times[1:], strict=False)]
    assert waits[:3] == pytest.approx([0.25, 0.5, 1])
    assert waits[-1] == pytest.approx(LONGEST_PAUSE)


async def test_a_server_that_lived_is_opened_soon(autojump_clock: MockClock) -> None:
    """The pauses begin anew once a server has lasted; nobody is served by a dead one meanwhile."""
    attempts = Attempts(*(OSError(2, "nope") for _ in range(4)))
    async with kept(attempts) as upstream:
        for _ in range(4):
            with pytest.raises(MCPError):
                await upstream.connected()
        await upstream.connected()
        await trio.sleep(100)
        await attempts.streams[-1].aclose()
        began = trio.current_time()
        client = await upstream.connected()
        assert not client.closed
        assert trio.current_time() - began < 1


async def test_many_wait_for_one_server(autojump_clock: MockClock) -> None:
    """Requests that come together wait for the same attempt, and share its failure."""
    attempts = Attempts(OSError(2, "nope"))
    failures: list[MCPError] = []
    async with kept(attempts) as upstream, trio.open_nursery() as nursery:

        async def need() -> None:
            try:
                await upstream.connected()
            except MCPError as error:
                failures.append(error)

        for _ in range(5):
            nursery.start_soon(need)
    assert (len(failures), len(attempts.times)) == (5, 1)
    assert len({id(failure) for failure in failures}) == 5


FAILURES: list[tuple[Exception, str]] = [
    (ConnectionClosed("it exited", 3, "password=x"), "is gone: it exited (exit status 3)."),
    (RequestTimeout("connecting", 30), "does not answer."),
    (TransportError("cannot connect to http://secret@inside", None), "cannot be reached."),
    (TransportError("HTTP 502 from http://inside", 502), "cannot be reached (HTTP 502)."),
    (AuthorizationRequired("HTTP 401 from http://inside", 401), "does not let the proxy in."),
    (MCPError(-32000, "go away"), "refuses the proxy: go away."),
    (OSError(13, "Permission denied", "/x"), "cannot be started: Permission denied."),
    (ZeroDivisionError("secret"), "cannot be used (ZeroDivisionError)."),
]


@pytest.mark.parametrize(("failure", "text"), FAILURES)
def test_what_clients_hear(failure: Exception, text: str) -> None:
    """A reason that helps, and neither addresses nor what the server wrote to its stderr."""
    error = answer_for(failure)
    assert error.code == -32603
    assert error.message == f"The server behind this one {text}"


async def test_a_stream_is_no_target() -> None:
    """What can be opened only once is refused when the proxy is made."""
    near, _ = memory_frame_pair()
    with pytest.raises(TypeError, match="no stream"):
        Proxy(near)
    with pytest.raises(ValueError, match="mode"):
        Proxy(["x"], mode="medieval")
