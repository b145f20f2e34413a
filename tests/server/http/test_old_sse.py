"""HTTP+SSE, the transport of 2024-11-05."""

import json
from typing import Any

import pytest
import trio
import trio.testing

from mcp_trio import Context, Server
from tests.server.http.test_sessions import as_user, authenticate
from tests.server.http.web import FakeExchange, Web, open_web

Clock = trio.testing.MockClock


def make_server() -> Server:
    server = Server("s")

    @server.tool()
    async def count(ctx: Context) -> str:
        await ctx.report_progress(1)
        return f"counted for {ctx.principal}"

    @server.tool()
    async def ask(ctx: Context) -> str:
        return str(len(await ctx.list_roots()))

    return server


class OldClient:
    """A connection of this transport."""

    def __init__(self, web: Web, exchange: FakeExchange, url: str) -> None:
        self.web, self.exchange, self.url = web, exchange, url
        self.headers: dict[str, str] = {}

    async def post(self, message: Any, **headers: str) -> int:
        posting = {"content-type": "application/json", **self.headers, **headers}
        body = message if isinstance(message, bytes) else json.dumps(message).encode()
        exchange = await self.web.fetch("POST", self.url, headers=posting, body=body)
        assert exchange.status is not None
        return exchange.status

    async def request(self, method: str, params: Any = None, id: Any = 1) -> None:
        message = {"jsonrpc": "2.0", "id": id, "method": method, "params": params or {}}
        assert await self.post(message) == 202


async def connect(web: Web, **headers: str) -> OldClient:
    exchange = web.start("GET", "/sse", headers={"accept": "text/event-stream", **headers})
    event = await exchange.event()
    assert event.event == "endpoint"
    client = OldClient(web, exchange, event.data.decode())
    client.headers = headers
    return client


async def initialize(client: OldClient, version: str = "2024-11-05") -> None:
    params = {
        "protocolVersion": version,
        "capabilities": {"roots": {}},
        "clientInfo": {"name": "n", "version": "1"},
    }
    await client.request("initialize", params, id=0)
    assert (await client.exchange.message())["result"]["protocolVersion"] == version
    assert await client.post({"jsonrpc": "2.0", "method": "notifications/initialized"}) == 202


async def test_a_conversation(autojump_clock: Clock) -> None:
    """Messages go up by POST and come down as events: answers, progress, questions, changes."""
    server = make_server()
    async with open_web(server, sse_path="/sse") as web:
        client = await connect(web)
        assert client.url.startswith("/messages?session_id=")
        assert client.exchange.headers["x-accel-buffering"] == "no"
        await initialize(client)
        await client.request("tools/call", {"name": "count", "_meta": {"progressToken": 1}})
        assert (await client.exchange.message())["method"] == "notifications/progress"
        assert "result" in await client.exchange.message()
        await client.request("tools/call", {"name": "ask"})
        question = await client.exchange.message()
        assert question["method"] == "roots/list"
        await client.post({"jsonrpc": "2.0", "id": question["id"], "result": {"roots": []}})
        answer = await client.exchange.message()
        assert answer["result"]["content"][0]["text"] == "0"
        server.add_tool(lambda: "x", name="new")
        assert (await client.exchange.message())["method"] == "notifications/tools/list_changed"
        client.exchange.leave()


async def test_where_it_is_mounted(autojump_clock: Clock) -> None:
    """The endpoint event names the path as seen from outside."""
    options: Any = {"sse_path": "/events/", "messages_path": "/up"}
    async with open_web(make_server(), **options) as web:
        exchange = web.start("GET", "/events", root_path="/a b")
        event = await exchange.event()
        assert event.data.startswith(b"/a%20b/up?session_id=")
        exchange.leave()


async def test_the_end_of_the_connection_is_the_end(autojump_clock: Clock) -> None:
    """When the GET ends, its handlers are cancelled and its endpoint is gone."""
    server, ended = make_server(), []

    @server.tool()
    async def wait() -> None:
        try:
            await trio.sleep_forever()
        finally:
            ended.append(True)

    async with open_web(server, sse_path="/sse") as web:
        client = await connect(web)
        await initialize(client)
        await client.request("tools/call", {"name": "wait"})
        await trio.testing.wait_all_tasks_blocked()
        client.exchange.leave()
        await client.exchange.done.wait()
        assert ended == [True]
        assert await client.post({"jsonrpc": "2.0", "id": 5, "method": "ping"}) == 404
        assert not web.handler._old_sse._clients


async def test_it_shows_life_and_notices_death(autojump_clock: Clock) -> None:
    """Comments fill the silence; a client whom sending finds gone is let go."""
    async with open_web(make_server(), sse_path="/sse", keep_alive=10) as web:
        client = await connect(web)
        await trio.sleep(25)
        assert client.exchange.text.count(b":\n\n") == 2
        client.exchange._gone = True
        await initialize_and_forget(client)
        with trio.fail_after(30):
            await client.exchange.done.wait()


async def initialize_and_forget(client: OldClient) -> None:
    """What is answered now finds nobody."""
    await client.request("ping")


async def test_wrong_requests(autojump_clock: Clock) -> None:
    """Wrong methods, media types and sessions are refused as elsewhere."""
    async with open_web(make_server(), sse_path="/sse", authenticate=authenticate) as web:
        client = await connect(web, **as_user("ada/1"))
        ping = {"jsonrpc": "2.0", "id": 1, "method": "ping"}
        assert await client.post(ping, **{"content-type": "text/plain"}) == 415
        assert await client.post(ping, **as_user("grace/1")) == 404
        assert await client.post(ping, authorization="") == 401
        ada = as_user("ada/1")
        assert (await web.fetch("GET", client.url, headers=ada)).status == 405
        assert (await web.fetch("POST", "/sse", headers=ada)).status == 405
        assert (await web.fetch("POST", "/messages", headers=ada)).status == 404
        headers = {**ada, "accept": "application/json"}
        assert (await web.fetch("GET", "/sse", headers=headers)).status == 406
        await client.request("tools/call", {"name": "count"})
        client.exchange.leave()


async def test_unreadable_messages(autojump_clock: Clock) -> None:
    """What is no message does not end the connection."""
    async with open_web(make_server(), sse_path="/sse") as web:
        client = await connect(web)
        await initialize(client)
        await client.post(b"no JSON")
        await client.post(b'{"jsonrpc":\n"2.0",\n"id":7,"method":"ping"}')
        assert (await client.exchange.message())["id"] == 7
        client.exchange.leave()


@pytest.mark.parametrize("working", [False, True])
async def test_shutdown(working: bool, autojump_clock: Clock) -> None:
    """At a shutdown connections end; what is being worked on has a moment."""
    server = make_server()

    @server.tool()
    async def work() -> str:
        await trio.sleep(0.5)
        return "done"

    async with open_web(server, sse_path="/sse") as web:
        client = await connect(web)
        await initialize(client)
        if working:
            await client.request("tools/call", {"name": "work"})
            await trio.testing.wait_all_tasks_blocked()
        web.handler.wind_down()
        with trio.fail_after(2):
            assert len(await client.exchange.messages()) == working
