"""Cancelled at each of its steps, a proxy leaves nothing behind."""

import pytest

import mcp_trio
from mcp_trio.proxy.app import Proxy
from mcp_trio.testing import exhaustive_cancellation
from tests.client.scripted import text_result

from .kit import ANSWERS, EACH_PAIR, Kit, Scripts, text_of


@EACH_PAIR
def test_calls_and_questions(up: str, down: str) -> None:
    """Connecting, calling, being asked, and leaving."""

    async def scenario() -> None:
        proxy = Proxy(Kit().server, mode=up)
        async with mcp_trio.open_client(proxy, mode=down, **ANSWERS) as client:
            assert text_of(await client.call_tool("greet")) == "Hello, Ada!"

    assert exhaustive_cancellation(scenario) > 20


@EACH_PAIR
def test_subscriptions(up: str, down: str) -> None:
    """Listening, a change, and no longer listening."""

    async def scenario() -> None:
        proxy = Proxy(Kit().server, mode=up)
        async with (
            mcp_trio.open_client(proxy, mode=down) as client,
            client.listen(uris=["memo://today"]) as events,
        ):
            await client.call_tool("touch", {"uri": "memo://today"})
            await anext(events)

    assert exhaustive_cancellation(scenario) > 20


@pytest.mark.parametrize("down", ["legacy", "modern"])
def test_shared_and_restarted(down: str) -> None:
    """A running proxy whose server dies, and two clients one after the other."""

    async def scenario() -> None:
        scripts = Scripts("legacy", {"tools/call": text_result()})
        proxy = Proxy(scripts)
        async with proxy.running():
            for _ in range(2):
                async with mcp_trio.open_client(proxy, mode=down) as client:
                    await client.call_tool("t")
                    await scripts.latest.close()

    assert exhaustive_cancellation(scenario) > 20
