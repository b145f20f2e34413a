"""Cancel an HTTP client everywhere: connect, call, stream, resume, renew, listen and close.

The site is in memory and asserts that nothing of a run is left with it: each request ended, each
body let go.
"""

import json
import ssl
from collections.abc import Awaitable, Callable
from contextlib import suppress
from functools import partial
from typing import Any

import h11
import httpx
import pytest
import trio
import trustme

import mcp_trio
from mcp_trio.testing import exhaustive_cancellation
from tests.client.scripted import discovered, initialized
from tests.transports.web import (
    Events,
    Legacy,
    Seen,
    Site,
    Web,
    event,
    modern,
    progress,
    response_to,
    result,
    text,
)

Scenario = Callable[[], Awaitable[None]]


class Bookkeeping:
    """The sites of all runs of a scenario, and the bodies that they gave out."""

    def __init__(self) -> None:
        self.webs: list[Web] = []
        self.bodies: list[Events] = []

    def web(self, site: Site) -> Web:
        self.webs.append(Web(site))
        return self.webs[-1]

    def body(self, *events: bytes) -> Events:
        self.bodies.append(Events(*events))
        return self.bodies[-1]

    def check(self) -> None:
        assert not any(web.running for web in self.webs), "a request is still running"
        assert all(body.closed.is_set() for body in self.bodies), "a body was not let go"
        self.webs.clear()
        self.bodies.clear()


def calling_modern(books: Bookkeeping) -> Scenario:
    async def site(seen: Seen) -> httpx.Response:
        if seen.rpc == "tools/list":
            return result(seen, {"resultType": "complete", "tools": []})
        steps = [event(progress(seen, n)) for n in (1, 2)]
        body = books.body(*steps, event(response_to(seen, text("done"))))
        return body.end().response()

    async def scenario() -> None:
        async with books.web(modern(site)).connect() as client:
            await client.list_tools()
            await client.call_tool("t", on_progress=lambda p: None, timeout=100)

    return scenario


def listening_modern(books: Bookkeeping) -> Scenario:
    async def scenario() -> None:
        async def site(seen: Seen) -> httpx.Response:
            meta = {"io.modelcontextprotocol/subscriptionId": seen.id}
            params = {"notifications": {"toolsListChanged": True}, "_meta": meta}
            method = "notifications/subscriptions/acknowledged"
            body = books.body(event({"jsonrpc": "2.0", "method": method, "params": params}))
            if len(web.of("subscriptions/listen")) == 1:
                body.cut()
            return body.response()

        web = books.web(modern(site))
        async with web.connect() as client, client.listen(tools=True) as events:
            assert await anext(events) == mcp_trio.ToolsChanged()

    return scenario


def in_a_session(books: Bookkeeping) -> Scenario:
    async def scenario() -> None:
        own: list[Events] = []
        answered = trio.Event()

        async def site(seen: Seen) -> httpx.Response:
            ask = {"jsonrpc": "2.0", "id": 1, "method": "elicitation/create", "params": QUESTION}
            own[-1].message(ask)
            return books.body(event(progress(seen, 1), id="1")).cut().response()

        async def get(seen: Seen) -> httpx.Response:
            if "last-event-id" not in seen.headers:
                own.append(books.body())
                return own[-1].response()
            await answered.wait()
            (call,) = web.of("tools/call")
            return books.body(event(response_to(call, text("done")))).response()

        server = Legacy(site, get)

        async def watched(seen: Seen) -> httpx.Response:
            if seen.rpc == "answer":
                answered.set()
            return await server(seen)

        web = books.web(watched)
        async with web.connect(mode="legacy", on_elicit=answer) as client:
            await client.call_tool("t", on_progress=lambda p: None)

    return scenario


QUESTION = {"message": "Name?", "requestedSchema": {"type": "object", "properties": {}}}


async def answer(question: object) -> dict[str, Any]:
    await trio.sleep(1)
    return {}


def with_an_expired_session(books: Bookkeeping) -> Scenario:
    async def scenario() -> None:
        async def site(seen: Seen) -> httpx.Response:
            return result(seen, text("done"))

        async def get(seen: Seen) -> httpx.Response:
            return books.body().response()

        server = Legacy(site, get)
        async with books.web(server).connect() as client:
            server.alive.clear()
            async with trio.open_nursery() as nursery:
                for _ in range(2):
                    nursery.start_soon(client.call_tool, "t")

    return scenario


def with_an_old_server(books: Bookkeeping) -> Scenario:
    async def scenario() -> None:
        stream = Events(b"event: endpoint\ndata: /messages\n\n")

        async def site(seen: Seen) -> httpx.Response:
            if seen.method == "GET":
                books.bodies.append(stream)
                return stream.response()
            if seen.request.url.path != "/messages":
                return httpx.Response(404)
            answers = {"initialize": initialized("2024-11-05"), "tools/call": text("hello")}
            if seen.rpc in answers:
                stream.message(response_to(seen, answers[seen.rpc]))
            return httpx.Response(202)

        async with books.web(site).connect() as client:
            await client.call_tool("t")

    return scenario


@pytest.mark.parametrize(
    "make",
    [calling_modern, listening_modern, in_a_session, with_an_expired_session, with_an_old_server],
)
def test_nothing_is_left_wherever_it_is_cancelled(make: Callable[[Bookkeeping], Scenario]) -> None:
    """Each request ends and each body is let go, whichever step was the last (I1, I2)."""
    books = Bookkeeping()
    steps = exhaustive_cancellation(make(books), time_limit=1000, check=books.check)
    print(f"{steps} task steps tried")
    assert steps > 20


async def serve(stream: trio.abc.Stream) -> None:
    """A server that knows its two answers."""
    http, body = h11.Connection(h11.SERVER), b""
    async with stream:
        while (arrived := http.next_event()) is not h11.PAUSED:
            if arrived is h11.NEED_DATA:
                http.receive_data(bytes(await stream.receive_some()))
            elif isinstance(arrived, h11.Data):
                body += bytes(arrived.data)
            elif isinstance(arrived, h11.ConnectionClosed):
                return
            elif isinstance(arrived, h11.EndOfMessage):
                await reply(stream, http, json.loads(body))
                http.start_next_cycle()
                body = b""


async def reply(stream: trio.abc.Stream, http: h11.Connection, asked: Any) -> None:
    found = discovered() if asked["method"] == "server/discover" else text("hello")
    headers = [("content-type", "text/event-stream")]
    answer = {"jsonrpc": "2.0", "id": asked["id"], "result": found}
    for part in (
        h11.Response(status_code=200, headers=headers),
        h11.Data(data=event(answer)),
        h11.EndOfMessage(),
    ):
        await stream.send_all(http.send(part) or b"")


async def serve_quietly(stream: trio.abc.Stream) -> None:
    """The same, where it is no news that the client has gone."""
    with suppress(trio.BrokenResourceError, h11.RemoteProtocolError):
        await serve(stream)


def test_sockets_are_closed_wherever_it_is_cancelled() -> None:
    """The same over TCP with the client that is used by default, down to the descriptors."""

    async def scenario() -> None:
        async with trio.open_nursery() as nursery:
            serving = partial(trio.serve_tcp, serve_quietly, 0, host="127.0.0.1")
            listeners = await nursery.start(serving)
            url = f"http://127.0.0.1:{listeners[0].socket.getsockname()[1]}/mcp"
            async with mcp_trio.open_client(url) as client:
                await client.call_tool("t")
            nursery.cancel_scope.cancel()

    steps = exhaustive_cancellation(scenario, real_clock=True)
    print(f"{steps} task steps tried")


def test_tls_connections_are_closed_wherever_it_is_cancelled() -> None:
    """In the middle of the handshake too; with an authority that only the user's client knows."""
    authority = trustme.CA()
    theirs = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("127.0.0.1").configure_cert(theirs)
    ours = ssl.create_default_context()
    authority.configure_trust(ours)

    async def scenario() -> None:
        async with trio.open_nursery() as nursery:
            open_listeners = partial(trio.open_ssl_over_tcp_listeners, 0, theirs)
            listeners = await open_listeners(host="127.0.0.1", https_compatible=True)
            (tcp,) = (listener.transport_listener for listener in listeners)
            assert isinstance(tcp, trio.SocketListener)
            port = tcp.socket.getsockname()[1]
            nursery.start_soon(trio.serve_listeners, serve_quietly, listeners)
            async with (
                httpx.AsyncClient(verify=ours) as http,
                mcp_trio.open_client(f"https://127.0.0.1:{port}/mcp", http=http) as client,
            ):
                await client.call_tool("t")
            nursery.cancel_scope.cancel()

    steps = exhaustive_cancellation(scenario, real_clock=True)
    print(f"{steps} task steps tried")


def everything_server() -> mcp_trio.Server:
    server = mcp_trio.Server("exhausted")

    @server.tool()
    async def greet(ctx: mcp_trio.Context) -> str:
        await ctx.report_progress(1)
        answer = await ctx.elicit("name", "Your name?", {"name": str})
        assert answer.content is not None
        return f"Hello, {answer.content['name']}!"

    return server


@pytest.mark.parametrize("mode", ["modern", "legacy"])
def test_nothing_is_left_of_client_and_server(mode: str) -> None:
    """Both ends over TCP: connect, ask, stream, listen and close."""

    async def scenario() -> None:
        server = everything_server()
        async with trio.open_nursery() as nursery:
            listeners = await nursery.start(partial(server.serve_http, 0, grace=0))
            url = f"http://127.0.0.1:{listeners[0].socket.getsockname()[1]}/mcp"
            options: dict[str, Any] = {"mode": mode, "on_elicit": lambda question: {"name": "Ada"}}
            async with mcp_trio.open_client(url, **options) as client:
                async with client.listen(tools=True) as events:
                    server.add_tool(lambda: "new", name="new")
                    assert await anext(events) == mcp_trio.ToolsChanged()
                answer = await client.call_tool("greet", on_progress=lambda p: None)
                assert answer.content == [mcp_trio.TextContent("Hello, Ada!")]
            nursery.cancel_scope.cancel()

    steps = exhaustive_cancellation(scenario, real_clock=True)
    print(f"{steps} task steps tried")
