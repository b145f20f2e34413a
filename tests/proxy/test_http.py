"""A proxy served over HTTP, and in front of an HTTP server: sockets, streams, sessions."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

import httpx
import pytest
import trio

import mcp_trio
from mcp_trio import MCPError, Server
from mcp_trio.protocol import meta as keys
from mcp_trio.proxy.app import Proxy
from tests.client.scripted import text_result
from tests.server.raw import MODERN_META

from .kit import ANSWERS, EACH_PAIR, Kit, Scripts, text_of


@asynccontextmanager
async def at_url(server: Server, **options: Any) -> AsyncIterator[str]:
    """Serve over HTTP for the length of a block."""
    with trio.fail_after(20):
        async with trio.open_nursery() as nursery:
            (listener,) = await nursery.start(partial(server.serve_http, 0, **options))
            yield f"http://127.0.0.1:{listener.socket.getsockname()[1]}/mcp"
            nursery.cancel_scope.cancel()


@EACH_PAIR
async def test_http_on_both_sides(up: str, down: str) -> None:
    """Calls, progress, log messages, questions and changes travel over both connections."""
    kit = Kit()
    progress: list[float] = []
    logs: list[Any] = []
    async with (
        at_url(kit.server) as behind,
        at_url(Proxy(behind, mode=up)) as url,
        mcp_trio.open_client(
            url, mode=down, **ANSWERS, on_log=lambda message: logs.append(message.data)
        ) as client,
    ):
        result = await client.call_tool(
            "interview", on_progress=lambda report: progress.append(report.progress)
        )
        assert text_of(result) == "Ada file:///project Ada"
        assert set(progress) == {1, 2}
        assert logs[-1] == "last"
        async with client.listen(tools=True, uris=["memo://today"]) as events:
            await client.call_tool("touch", {"uri": "memo://today"})
            assert await anext(events) == mcp_trio.ResourceUpdated("memo://today")
        with pytest.raises(MCPError):
            await client.read_resource("nil:")


@pytest.mark.parametrize("up", ["legacy", "modern"])
async def test_hanging_up_cancels(up: str) -> None:
    """A modern client that goes away in mid-call cancels the handler behind."""
    kit = Kit()
    async with (
        at_url(Proxy(kit.server, mode=up)) as url,
        mcp_trio.open_client(url, mode="modern") as client,
    ):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(client.call_tool, "wait")
            await kit.started.wait()
            nursery.cancel_scope.cancel()
        await kit.cancelled.wait()


async def test_sessions_over_http() -> None:
    """Each session has a server of its own, which ends with the session."""
    scripts = Scripts("legacy", {"tools/call": text_result()})
    async with at_url(Proxy(scripts)) as url:
        async with (
            mcp_trio.open_client(url, mode="legacy") as one,
            mcp_trio.open_client(url, mode="legacy") as other,
        ):
            await one.call_tool("t")
            await other.call_tool("t")
            assert scripts.open == 2
        while scripts.open:  # noqa: ASYNC110 (nobody is told)
            await trio.sleep(0.01)


@pytest.mark.parametrize("up", ["legacy", "modern"])
async def test_legacy_clients_without_sessions(up: str) -> None:
    """With the option `stateless` legacy clients share the server, and cannot be asked."""
    kit = Kit()
    async with (
        at_url(Proxy(kit.server, mode=up), stateless=True) as url,
        mcp_trio.open_client(url, mode="legacy", **ANSWERS) as client,
    ):
        assert client.server_info is not None
        assert client.server_info.name == "behind"
        await client.ping()
        assert text_of(await client.call_tool("add", {"a": 1, "b": 2})) == "3"
        with pytest.raises(MCPError):
            await client.call_tool("greet")
        with pytest.raises(MCPError):
            await client.request("resources/subscribe", {"uri": "memo://today"})


@pytest.mark.parametrize("up", ["legacy", "modern"])
async def test_a_graceful_shutdown_ends_subscriptions(up: str) -> None:
    """Who listens is told that the proxy ends, and is not just cut off."""
    stop = trio.Event()
    kit = Kit()
    async with (
        at_url(Proxy(kit.server, mode=up), shutdown=stop.wait) as url,
        mcp_trio.open_client(url, mode="modern") as client,
        client.listen(tools=True) as events,
    ):
        stop.set()
        assert [event async for event in events] == []


async def test_a_principals_held_call_is_its_own() -> None:
    """What one user was asked cannot be answered by another."""

    def authenticate(request: Any) -> str | None:
        user: str | None = request.headers.get("user")
        return user

    kit = Kit()
    async with (
        at_url(Proxy(kit.server, mode="legacy"), authenticate=authenticate) as url,
        httpx.AsyncClient() as http,
    ):

        async def greet(user: str, **params: Any) -> Any:
            meta = {**MODERN_META, keys.CLIENT_CAPABILITIES: {"elicitation": {}}}
            body = {
                "jsonrpc": "2.0",
                "id": 1,
                "method": "tools/call",
                "params": {"name": "greet", **params, "_meta": meta},
            }
            headers = {
                "accept": "application/json, text/event-stream",
                "mcp-protocol-version": "2026-07-28",
                "mcp-method": "tools/call",
                "mcp-name": "greet",
                "user": user,
            }
            return (await http.post(url, json=body, headers=headers)).json()

        first = (await greet("ada"))["result"]
        (key,) = first["inputRequests"]
        again = {
            "requestState": first["requestState"],
            "inputResponses": {key: {"action": "accept", "content": {"name": "Ada"}}},
        }
        assert (await greet("eve", **again))["error"]["code"] == -32602
        done = (await greet("ada", **again))["result"]
        assert done["content"][0]["text"] == "Hello, Ada!"


async def test_the_server_behind_is_not_there() -> None:
    """Clients hear that it cannot be reached, and not where it should have been."""
    proxy = Proxy("http://127.0.0.1:1/secret")
    for mode in ("legacy", "modern"):
        async with at_url(proxy) as url:
            with pytest.raises((MCPError, mcp_trio.ProtocolError)) as failed:
                async with mcp_trio.open_client(url, mode=mode):
                    pass
            assert "The server behind this one cannot be reached" in str(failed.value)
            assert "secret" not in str(failed.value)
