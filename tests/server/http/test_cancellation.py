"""Cancel everything at every step: nothing is left, and the server can go on."""

from collections.abc import Awaitable, Callable
from typing import Any

import pytest
import trio

from mcp_trio import Context, Server
from mcp_trio.protocol import meta as keys
from mcp_trio.testing import exhaustive_cancellation
from tests.server.http.web import Web, open_web


def make_server() -> Server:
    server = Server("s")

    @server.tool()
    async def count(ctx: Context) -> str:
        for n in range(2):
            await ctx.report_progress(n + 1)
            await trio.sleep(1)
        return "counted"

    @server.tool()
    async def ask(ctx: Context) -> str:
        return (await ctx.elicit("k", "Sure?", {"sure": bool})).action

    @server.tool()
    async def hang_up(ctx: Context) -> str:
        await ctx.close_stream(1)
        await trio.sleep(5)
        return "done"

    return server


async def modern(server: Server, web: Web) -> None:
    """A call, a stream, a subscription, and clients that leave."""
    assert "result" in await web.modern("tools/list").answer()
    call: dict[str, Any] = {"name": "count"}
    token = {keys.PROGRESS_TOKEN: 1}
    assert len(await web.modern("tools/call", call, meta=token).messages()) == 3
    left = web.modern("tools/call", call, meta=token)
    await left.message()
    left.leave()
    await left.done.wait()
    params = {"notifications": {"toolsListChanged": True}}
    listening = web.modern("subscriptions/listen", params)
    await listening.message()
    server.add_tool(lambda: "x", name="new")
    await listening.message()
    web.handler.wind_down()
    assert len(await listening.messages()) == 2


async def legacy(server: Server, web: Web) -> None:
    """A session: calls, questions, streams that are cut, closed and resumed, and its end."""
    client = await web.initialize(capabilities={"elicitation": {}})
    listening = client.get()
    await listening.head()
    assert len(await client.call("count", token=1).messages()) == 3
    asking = client.call("ask")
    question = await asking.message()
    await client.send({"jsonrpc": "2.0", "id": question["id"], "result": {"action": "cancel"}})
    assert len(await asking.messages()) == 1
    closed = client.call("hang_up")
    await closed.event()
    last = await closed.event()
    await closed.done.wait()
    assert len(await client.get(last.id).messages()) == 1
    left = client.call("count", id=5)
    await trio.sleep(0.5)
    left.leave()
    server.add_tool(lambda: "x", name="new")
    await listening.message()
    assert (await web.fetch("DELETE", headers=client.headers)).status == 204


async def stateless(server: Server, web: Web) -> None:
    """Calls without a session, and a batch."""
    call = {"name": "count", "_meta": {"progressToken": 1}}
    request = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": call}
    assert len(await web.post(request).messages()) == 3
    left = web.post(request)
    await left.message()
    left.leave()
    await left.done.wait()
    assert len(await web.post([request, {**request, "id": 2}]).messages()) == 5


Scenario = Callable[[Server, Web], Awaitable[None]]


@pytest.mark.parametrize("scenario", [modern, legacy, stateless])
def test_cancelled_everywhere(scenario: Scenario) -> None:
    """Wherever a server over HTTP is cancelled, no task remains and nothing else is raised."""

    async def run() -> None:
        server = make_server()
        async with open_web(server, stateless=scenario is stateless) as web:
            await scenario(server, web)

    steps = exhaustive_cancellation(run)
    print(f"{scenario.__name__}: {steps} task steps tried")


@pytest.mark.parametrize("scenario", [modern, legacy])
def test_the_server_goes_on(scenario: Scenario) -> None:
    """Wherever the clients are cancelled, the server is as it was: no session, no subscription."""

    async def run() -> None:
        server = make_server()
        async with server.running():
            from mcp_trio.server.http.handler import HTTPHandler

            handler = HTTPHandler(server, session_idle=60)
            try:
                async with trio.open_nursery() as nursery:
                    await scenario(server, Web(handler, nursery))
                    nursery.cancel_scope.cancel()
            finally:
                with trio.CancelScope(shield=True):
                    await trio.sleep(100)
                    assert handler.sessions == 0
                    assert not [s for s in server.bus._subscriptions if not s._ended]

    exhaustive_cancellation(run, time_limit=1000)
