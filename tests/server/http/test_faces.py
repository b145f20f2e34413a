"""The same handler on real sockets: our own HTTP server, and Hypercorn through ASGI."""

import json
import logging
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from functools import partial
from typing import Any

import httpx
import pytest
import trio
import trio.testing
from hypercorn.config import Config
from hypercorn.trio import serve

import mcp_trio
from mcp_trio import Context, Server
from mcp_trio.client.events import Events
from mcp_trio.protocol import meta as keys
from mcp_trio.protocol.revisions import LEGACY
from tests.server.raw import MODERN_META

FACES = ["serve_http", "hypercorn"]


class Diary(list[str]):
    """What happened in a server, and a way to wait for it."""

    def __init__(self) -> None:
        self._news = trio.lowlevel.ParkingLot()

    def append(self, entry: str) -> None:
        super().append(entry)
        self._news.unpark_all()

    async def until(self, entry: str) -> None:
        with trio.fail_after(3):
            while entry not in self:
                await self._news.park()


def make_server(events: Diary | None = None) -> Server:
    @asynccontextmanager
    async def lifespan(_server: Server) -> AsyncIterator[str]:
        yield "alive"

    server = Server("s", lifespan=lifespan)

    @server.tool()
    async def count(upto: int, ctx: Context) -> str:
        for n in range(upto):
            await ctx.report_progress(n + 1, upto)
            await trio.sleep(0.01)
        return str(ctx.lifespan)

    @server.tool()
    async def ask(ctx: Context) -> str:
        answer = await ctx.elicit("name", "Your name?", {"name": str})
        return str(answer.content["name"] if answer.content else answer.action)

    @server.tool()
    async def wait(ctx: Context) -> str:
        assert events is not None
        events.append("waiting")
        try:
            await trio.sleep(1)
            events.append("done")
        except trio.Cancelled:
            events.append("cancelled")
            raise
        return "waited"

    return server


@asynccontextmanager
async def served(face: str, server: Server, **options: Any) -> AsyncIterator[str]:
    """A server on a real socket; gives the URL of where it is mounted."""
    async with trio.open_nursery() as nursery:
        if face == "serve_http":
            listeners = await nursery.start(partial(server.serve_http, 0, **options))
            url = f"http://127.0.0.1:{listeners[0].socket.getsockname()[1]}"
        else:
            config = Config()
            config.bind, config.errorlog = ["127.0.0.1:0"], None
            app: Any = server.asgi_app(**options)
            url = (await nursery.start(serve, app, config))[0]
        yield url
        nursery.cancel_scope.cancel()


async def answer(_request: object) -> dict[str, Any]:
    return {"name": "Ada"}


@pytest.mark.parametrize("face", FACES)
@pytest.mark.parametrize("mode", ["modern", "legacy", "2025-03-26"])
async def test_a_conversation(face: str, mode: str) -> None:
    """Calls, progress, questions and changes, over a real connection in both eras."""
    server = make_server()
    async with served(face, server) as url:
        on_elicit = answer if mode != "2025-03-26" else None
        async with mcp_trio.open_client(f"{url}/mcp", mode=mode, on_elicit=on_elicit) as client:
            progress: list[float] = []
            result = await client.call_tool(
                "count", {"upto": 3}, on_progress=lambda p: progress.append(p.progress)
            )
            assert result.content[0].text == "alive"  # type: ignore[union-attr]  # a text
            assert progress == [1, 2, 3]
            if on_elicit is not None:
                result = await client.call_tool("ask")
                assert result.content[0].text == "Ada"  # type: ignore[union-attr]  # a text
            with trio.fail_after(5):
                async with client.listen(tools=True) as events:
                    server.add_tool(lambda: "x", name="new")
                    assert isinstance(await anext(events), mcp_trio.ToolsChanged)


def modern_request(name: str, **meta: Any) -> dict[str, Any]:
    params = {"name": name, "arguments": {}, "_meta": {**MODERN_META, **meta}}
    headers = {
        "accept": "application/json, text/event-stream",
        "mcp-protocol-version": "2026-07-28",
        "mcp-method": "tools/call",
        "mcp-name": name,
    }
    message = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
    return {"json": message, "headers": headers}


@pytest.mark.parametrize("face", FACES)
@pytest.mark.parametrize("streaming", [False, True])
async def test_a_modern_client_that_hangs_up(face: str, streaming: bool) -> None:
    """Closing the connection cancels the handler at once."""
    events = Diary()
    server = make_server(events)
    if streaming:

        @server.middleware
        async def talk(ctx: Context, params: Any, proceed: Any) -> Any:
            await ctx.report_progress(0.5)
            return await proceed(params)

    async with served(face, server) as url, httpx.AsyncClient() as http:
        with trio.move_on_after(5) as scope:
            async with trio.open_nursery() as nursery:

                async def call() -> None:
                    await http.post(
                        f"{url}/mcp", **modern_request("wait", **{keys.PROGRESS_TOKEN: 1})
                    )

                nursery.start_soon(call)
                await events.until("waiting")
                nursery.cancel_scope.cancel()
        assert not scope.cancelled_caught
        await events.until("cancelled")
    assert events == ["waiting", "cancelled"]


async def call_and_hang_up(http: httpx.AsyncClient, url: str) -> None:
    """Begin a legacy session, call `wait` in it, and go away."""
    headers = {"accept": "application/json, text/event-stream"}
    params = {
        "protocolVersion": "2025-11-25",
        "capabilities": {},
        "clientInfo": {"name": "n", "version": "1"},
    }
    hello = {"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params}
    response = await http.post(url, json=hello, headers=headers)
    headers["mcp-session-id"] = response.headers["mcp-session-id"]
    call = modern_request("wait")["json"]
    del call["params"]["_meta"]
    with trio.move_on_after(0.2):
        await http.post(url, json=call, headers=headers)


@pytest.mark.parametrize("face", FACES)
async def test_a_legacy_client_that_hangs_up(face: str) -> None:
    """Closing the connection cancels nothing: the work is finished in the session."""
    events = Diary()
    async with served(face, make_server(events)) as url, httpx.AsyncClient() as http:
        await call_and_hang_up(http, f"{url}/mcp")
        await events.until("done")
    assert events == ["waiting", "done"]


@pytest.mark.parametrize("face", FACES)
async def test_refusals_on_the_wire(face: str) -> None:
    """Statuses and bodies are what the handler says, whoever writes them."""
    async with served(face, make_server()) as url, httpx.AsyncClient() as http:
        response = await http.post(f"{url}/mcp", headers={"origin": "http://evil.example"})
        assert response.status_code == 403
        assert (await http.get(f"{url}/nowhere")).status_code == 404
        response = await http.put(f"{url}/mcp/")
        assert (response.status_code, response.headers["allow"]) == (405, "GET, POST, DELETE")
        response = await http.post(f"{url}/mcp", content=b"{", headers={"content-type": "text/x"})
        assert response.status_code == 415
        request = modern_request("nope")
        response = await http.post(f"{url}/mcp", **request)
        assert response.json()["error"]["code"] == -32602


# An end with grace


async def test_shutdown_ends_what_would_not_end() -> None:
    """After `shutdown` subscriptions are completed and listeners let go; then serving returns."""
    events = Diary()
    server, over = make_server(events), trio.Event()
    async with trio.open_nursery() as nursery:
        serving = partial(server.serve_http, 0, shutdown=over.wait, grace=10)
        finished = trio.Event()

        async def run(*, task_status: trio.TaskStatus[Any]) -> None:
            await serving(task_status=task_status)
            finished.set()

        listeners = await nursery.start(run)
        url = f"http://127.0.0.1:{listeners[0].socket.getsockname()[1]}/mcp"
        async with (
            mcp_trio.open_client(url, mode="modern") as client,
            mcp_trio.open_client(url, mode="legacy") as _listener,
            client.listen(tools=True) as changes,
        ):
            nursery.start_soon(client.call_tool, "wait")
            await events.until("waiting")
            over.set()
            with trio.fail_after(4):
                assert [change async for change in changes] == []
                await finished.wait()
    assert events == ["waiting", "done"]


async def test_one_of_two_places_shuts_down() -> None:
    """What one place leaves behind ends with it, and what goes on at the other does not."""
    events = Diary()
    server, over = make_server(events), trio.Event()
    async with server.running(), trio.open_nursery() as nursery, AsyncExitStack() as stack:

        async def serve(*, task_status: trio.TaskStatus[Any]) -> None:
            await server.serve_http(0, shutdown=over.wait, grace=10, task_status=task_status)
            events.append("over")

        async def listen(listeners: list[trio.SocketListener], mode: str) -> Events:
            url = f"http://127.0.0.1:{listeners[0].socket.getsockname()[1]}/mcp"
            client = await stack.enter_async_context(mcp_trio.open_client(url, mode=mode))
            return await stack.enter_async_context(client.listen(tools=True))

        here, there = await nursery.start(server.serve_http, 0), await nursery.start(serve)
        goes_on, goes_on_too = await listen(here, "modern"), await listen(here, "legacy")
        ends = await listen(there, "modern")
        async with httpx.AsyncClient() as http:
            await call_and_hang_up(http, f"http://127.0.0.1:{there[0].socket.getsockname()[1]}/mcp")
        over.set()
        with trio.fail_after(5):
            assert [change async for change in ends] == []
            await events.until("over")
            server.add_tool(lambda: "x", name="new")
            assert isinstance(await anext(goes_on), mcp_trio.ToolsChanged)
            assert isinstance(await anext(goes_on_too), mcp_trio.ToolsChanged)
        assert events == ["waiting", "cancelled", "over"]
        await stack.aclose()
        nursery.cancel_scope.cancel()


async def test_cancelling_is_immediate() -> None:
    """Without a shutdown everything is cut at once, open streams and all."""
    server = make_server()
    start = trio.current_time()
    async with trio.open_nursery() as nursery:
        async with served("serve_http", server) as url:
            client = mcp_trio.open_client(f"{url}/mcp")
            listening = trio.Event()

            async def listen() -> None:
                async with client as connected, connected.listen(tools=True):
                    listening.set()
                    await trio.sleep_forever()

            nursery.start_soon(listen)
            await listening.wait()
        assert trio.current_time() - start < 2
        nursery.cancel_scope.cancel()


async def test_the_address_is_a_name() -> None:
    """A server that listens at another address may be called by it."""
    async with served("serve_http", make_server(), host="127.0.0.2") as url:
        url = url.replace("127.0.0.1", "127.0.0.2")
        async with mcp_trio.open_client(f"{url}/mcp") as client:
            assert await client.list_tools()


# Mounting


def mount(**apps: Any) -> Any:
    """An ASGI application with others below it, which passes no lifespan on, as most do not."""

    async def app(scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "lifespan":
            await receive()
            await send({"type": "lifespan.startup.complete"})
            await receive()
            await send({"type": "lifespan.shutdown.complete"})
            return
        name = scope["path"].split("/")[1]
        await apps[name]({**scope, "root_path": f"/{name}"}, receive, send)

    return app


def hypercorn(app: Any) -> AbstractAsyncContextManager[str]:
    class Mounted(Server):
        def asgi_app(self, **options: Any) -> Any:
            return app

    return served("hypercorn", Mounted("mounted"))


async def test_several_servers_in_one_application() -> None:
    """Servers that are mounted side by side run in one lifespan and do not know each other."""
    one, other = Server("one"), Server("other")
    app = mount(a=one.asgi_app(sse_path="/sse"), b=other.asgi_app(path="/"))
    async with one.running(), other.running(), hypercorn(app) as url:
        for path, mode, name in (
            ("/a/mcp", "modern", "one"),
            ("/a/mcp/", "legacy", "one"),
            ("/b", "modern", "other"),
            ("/b/", "legacy", "other"),
        ):
            async with mcp_trio.open_client(url + path, mode=mode) as client:
                assert client.server_info is not None
                assert client.server_info.name == name
        async with mcp_trio.open_client(f"{url}/a/sse") as client:
            assert client.protocol_version in LEGACY
            assert await client.list_tools() == []


async def test_a_mounted_application_that_does_not_run(caplog: pytest.LogCaptureFixture) -> None:
    """Whoever forgets `running` is told so, by a 500 and in the log."""
    with caplog.at_level(logging.ERROR, "mcp_trio"):
        async with hypercorn(mount(a=Server("one").asgi_app())) as url, httpx.AsyncClient() as http:
            response = await http.post(f"{url}/a/mcp")
    assert response.status_code == 500
    assert "server.running()" in response.text
    assert "server.running()" in caplog.text


async def test_asgi_uses_the_lifespan_that_is_open() -> None:
    """An application inside a `running` block shares it, and its end does not end the block."""
    server = make_server()
    async with server.running() as value:
        async with served("hypercorn", server) as url, mcp_trio.open_client(f"{url}/mcp") as client:
            result = await client.call_tool("count", {"upto": 1})
        assert value == result.content[0].text == "alive"  # type: ignore[union-attr]  # a text
        assert server.current_run is not None
    assert server.current_run is None
    assert json.dumps(value)
