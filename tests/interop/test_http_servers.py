"""Our client and other people's HTTP servers: what goes wrong between them.

That all the servers do the same over HTTP as over stdio is in `test_servers`; here connections are
cut, sessions expire, and servers die and come back.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial

import pytest
import trio

from mcp_trio import (
    ProgressNotificationParams,
    ResourceUpdated,
    ToolsChanged,
    TransportError,
    open_client,
)
from mcp_trio.client.events import Event
from tests import peers
from tests.interop.kit import HTTP_KITS, TODAY, Kit
from tests.interop.running import CuttingProxy, cutting_proxy, free_port, served
from tests.interop.test_servers import check_stopped, say, text_of

pytestmark = [
    pytest.mark.interop,
    pytest.mark.usefixtures("mcp_python", "fastmcp_python", "node", "npm_project"),
]
KITS = {str(kit): kit for kit in HTTP_KITS}


def kits(*names: str) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("kit", [KITS[name] for name in names], ids=str)


# Cut connections


@kits("mcp-legacy/mcp", "ours-legacy/mcp")
async def test_a_call_survives_a_cut_connection(kit: Kit) -> None:
    """The stream is resumed and nothing of it is lost; the call does not run twice."""
    with trio.fail_after(30):
        async with (
            served(kit.argv()) as (origin, _),
            cutting_proxy(int(origin.rpartition(":")[2])) as proxy,
            open_client(f"{proxy.origin}/mcp", mode="legacy", on_elicit=cut_and_answer(proxy)) as c,
        ):
            assert await say(c, "greet") == "Hello, Ada!"
            assert await say(c, "add", a=1, b=2) == "3"


def cut_and_answer(proxy: CuttingProxy) -> Callable[[object], Awaitable[dict[str, str]]]:
    async def on_elicit(question: object) -> dict[str, str]:
        proxy.cut()
        await trio.sleep(0.5)
        return {"name": "Ada"}

    return on_elicit


LEGACY = [kit for kit in HTTP_KITS if kit.mode == "legacy"]


@pytest.mark.parametrize("kit", LEGACY, ids=str)
async def test_a_stream_is_resumed_more_than_once(kit: Kit) -> None:
    """However often it is cut, each step of a call is heard of once, and its result."""
    port = free_port()
    steps: list[float] = []
    with trio.fail_after(30):
        async with (
            served(kit.argv(), port=port),
            cutting_proxy(port, b"step 2", b"step 7") as proxy,
            open_client(f"{proxy.origin}/mcp", mode="legacy") as client,
        ):
            result = await client.call_tool(
                "steps", {"count": 10, "pause": 0.1}, on_progress=lambda p: steps.append(p.progress)
            )
            assert text_of(result) == "10 steps"
    assert steps == list(range(1, 11))


async def test_a_call_of_the_reference_server_survives_a_cut_connection() -> None:
    """In the middle of its progress, of which nothing is lost either.

    It is reconnected to once it has finished: what comes later it does not send on (the id that
    its store of events gives back is not that of the stream).
    """
    argv = [*peers.npm_server("server-everything"), "streamableHttp"]
    progress: list[float] = []
    began = trio.Event()

    def progressed(params: ProgressNotificationParams) -> None:
        progress.append(params.progress)
        began.set()

    with trio.fail_after(30):
        async with (
            served(argv) as (origin, _),
            cutting_proxy(int(origin.rpartition(":")[2])) as proxy,
            open_client(f"{proxy.origin}/mcp") as client,
            trio.open_nursery() as nursery,
        ):
            operation = partial(client.call_tool, "trigger-long-running-operation")
            arguments = {"duration": 2, "steps": 4}
            nursery.start_soon(partial(operation, arguments, on_progress=progressed))
            await began.wait()
            with proxy.severed():
                await trio.sleep(2.2)
    assert progress == [1, 2, 3, 4]


@kits("mcp-auto/mcp", "ts-2.4-auto/mcp", "ours-auto/mcp")
async def test_a_modern_call_does_not_survive_a_cut_connection(kit: Kit) -> None:
    """It fails at once, the server cancels it, and the next call works."""
    with trio.fail_after(30):
        async with (
            served(kit.argv()) as (origin, _),
            cutting_proxy(int(origin.rpartition(":")[2])) as proxy,
            open_client(f"{proxy.origin}/mcp") as client,
        ):
            waiting = trio.Event()

            async def cut() -> None:
                await waiting.wait()
                proxy.cut()

            async with trio.open_nursery() as nursery:
                nursery.start_soon(cut)
                with pytest.raises(TransportError):
                    await client.call_tool("wait", on_progress=lambda _: waiting.set())
            await check_stopped(client, 1)


@kits("mcp-auto/mcp", "mcp-legacy/mcp", "ts-2.4-auto/mcp", "ts-1.32-legacy/mcp", "ours-auto/mcp")
async def test_listening_survives_a_cut_connection(kit: Kit) -> None:
    """Subscribed again, or the session's own stream resumed: changes after the cut arrive."""
    with trio.fail_after(30):
        async with (
            served(kit.argv()) as (origin, _),
            cutting_proxy(int(origin.rpartition(":")[2])) as proxy,
            open_client(f"{proxy.origin}/mcp", mode=kit.mode) as client,
            client.listen(uris=[TODAY]) as events,
        ):
            await say(client, "touch", uri=TODAY)
            assert await anext(events) == ResourceUpdated(TODAY)
            proxy.cut()
            await trio.sleep(1)
            await say(client, "touch", uri=TODAY)
            assert await anext(events) == ResourceUpdated(TODAY)


# Servers that go away


@kits("mcp-auto/mcp", "mcp-legacy/mcp", "ts-1.32-legacy/mcp", "ts-2.4-auto/mcp")
async def test_a_killed_server_is_news_and_a_new_one_is_found(kit: Kit) -> None:
    """Calls in flight fail within a second; once it runs again, the same client goes on."""
    port = free_port()
    with trio.fail_after(60):
        async with (
            served(kit.argv(), port=port) as (origin, process),
            open_client(f"{origin}/mcp", mode=kit.mode) as client,
        ):

            async def wait() -> None:
                with pytest.raises(TransportError):
                    await client.call_tool("wait", on_progress=lambda _: waiting.set())

            waiting = trio.Event()
            async with trio.open_nursery() as nursery:
                nursery.start_soon(wait)
                await waiting.wait()
                process.kill()
                killed = trio.current_time()
            assert trio.current_time() - killed < 1
            with pytest.raises(TransportError):
                await client.call_tool("add", {"a": 1, "b": 2})
            async with served(kit.argv(), port=port):
                result = await client.call_tool("add", {"a": 1, "b": 2})
                assert text_of(result) == "3"


async def test_a_session_that_was_idle_for_too_long_is_renewed(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """The server says 404; the call that hears of it first begins a new session and is answered."""
    caplog.set_level("INFO", "mcp_trio")
    port = free_port()
    kit = KITS["mcp-legacy/mcp"]
    with trio.fail_after(30):
        async with (
            served(kit.argv(), port=port, SESSION_IDLE="0.5"),
            cutting_proxy(port) as proxy,
            open_client(f"{proxy.origin}/mcp", mode="legacy") as client,
        ):
            assert await say(client, "add", a=1, b=2) == "3"
            with proxy.severed():  # as a client that listens is not idle
                await trio.sleep(1)
            assert "expired" not in caplog.text
            assert await say(client, "add", a=1, b=2) == "3"
            assert "the session has expired" in caplog.text


@kits("mcp-legacy/mcp", "fastmcp-legacy/mcp", "ts-1.32-legacy/mcp", "ours-legacy/mcp")
async def test_a_session_that_expired_is_renewed_for_listeners_too(kit: Kit) -> None:
    """A server that was started anew knows nothing: session and subscription are made again."""
    port = free_port()
    with trio.fail_after(60):
        async with (
            served(kit.argv(), port=port) as (origin, process),
            open_client(f"{origin}/mcp", mode="legacy") as client,
            client.listen(tools=True, uris=[TODAY]) as events,
        ):
            process.kill()
            await process.wait()
            async with served(kit.argv(), port=port):
                expected: set[Event] = {ResourceUpdated(uri) for uri in events.granted.uris}
                expected |= {ToolsChanged()} if events.granted.tools else set()
                assert {await anext(events) for _ in expected} == expected
                assert await say(client, "add", a=1, b=2) == "3"
