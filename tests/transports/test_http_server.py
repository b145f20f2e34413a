"""Our HTTP server as a whole: listening, TLS, the number of connections, and its end."""

from __future__ import annotations

import ssl
from contextlib import aclosing
from typing import Any

import h11
import httpx
import pytest
import trio
import trio.testing
import trustme

from mcp_trio.transports.http_exchange import Exchange
from mcp_trio.transports.http_limits import HTTPLimits
from mcp_trio.transports.http_server import serve_http_exchanges
from tests.transports._http import GET, RawClient, Site, echo, post, serving


async def ok(exchange: Exchange) -> None:
    await exchange.respond(200, (), b"ok")


async def test_a_real_client() -> None:
    """Guards that a common HTTP client is served, on a port that the system has chosen."""
    async with serving(echo) as site, httpx.AsyncClient() as http:
        for body in (b"x", bytes(3 << 20)):
            answer = await http.post(f"http://127.0.0.1:{site.port}/", content=body)
            assert (answer.status_code, answer.content) == (200, body)
            assert answer.http_version == "HTTP/1.1"


async def test_client_and_scheme_are_told() -> None:
    """Guards what a handler hears of the connection: who it is from, and that it is not TLS."""
    seen: list[tuple[str | None, str]] = []

    async def handle(exchange: Exchange) -> None:
        seen.append((exchange.request.client, exchange.request.scheme))
        await exchange.respond(200)

    async with serving(handle) as site:
        await (await site.connect()).ask(GET)
    assert seen == [("127.0.0.1", "http")]


async def test_tls() -> None:
    """Guards HTTPS, with a certificate authority of one's own and with clients that hang up."""
    seen: list[str] = []

    async def handle(exchange: Exchange) -> None:
        seen.append(exchange.request.scheme)
        await echo(exchange)

    authority = trustme.CA()
    ours = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("localhost").configure_cert(ours)
    theirs = ssl.create_default_context()
    authority.configure_trust(theirs)
    async with serving(handle, ssl_context=ours, host="localhost") as site:
        async with httpx.AsyncClient(verify=theirs) as http:
            for body in (b"x", bytes(1 << 20)):
                answer = await http.post(f"https://localhost:{site.port}/", content=body)
                assert answer.content == body
        for goodbye in (True, False):
            stream = await trio.open_ssl_over_tcp_stream("localhost", site.port, ssl_context=theirs)
            client = RawClient(stream)
            assert (await client.ask(post(b"x"))).body == b"x"
            if goodbye:
                await stream.aclose()
            else:
                await stream.transport_stream.aclose()
        plain = RawClient(await trio.open_tcp_stream("localhost", site.port))
        await plain.send(GET)  # no TLS: the answer, if any, is TLS's own
        with pytest.raises((EOFError, h11.RemoteProtocolError)):
            await plain.answer()
        await plain.stream.aclose()
    assert seen == ["https"] * 4


async def test_address_in_use() -> None:
    """Guards that a server that cannot listen says so, before it claims to have started."""
    async with serving(ok) as site:
        with pytest.raises(ExceptionGroup) as caught:
            async with trio.open_nursery() as nursery:
                await nursery.start(serve_http_exchanges, ok, site.port)
        assert caught.group_contains(OSError)


async def test_longest_waiting_makes_room() -> None:
    """Guards that connections that only wait cannot keep others out, and go in order of age."""
    async with serving(ok, limits=HTTPLimits(connections=3)) as site:
        clients = [await site.connect() for _ in range(3)]
        for client in clients:
            await client.ask(GET)
        await clients[0].ask(GET)  # it has waited longest no more
        late = await site.connect()
        assert (await late.ask(GET)).body == b"ok"
        assert await clients[1].at_end()
        for client in (clients[0], clients[2], late):
            assert (await client.ask(GET)).body == b"ok"


async def test_each_newcomer_makes_room_of_its_own() -> None:
    """Guards the bound: two that come at once displace two, not the same one twice."""
    async with serving(ok, limits=HTTPLimits(connections=3)) as site:
        clients = [await site.connect() for _ in range(3)]
        for client in clients:
            await client.ask(GET)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(site.connect)
            nursery.start_soon(site.connect)
        with trio.fail_after(5):
            assert await clients[0].at_end()
            assert await clients[1].at_end()
        assert (await clients[2].ask(GET)).body == b"ok"


async def test_too_many_at_work() -> None:
    """Guards running requests from newcomers: 503, until there is room again."""
    proceed = trio.Event()
    running = 0

    async def handle(exchange: Exchange) -> None:
        nonlocal running
        running += 1
        await proceed.wait()
        await exchange.respond(200, {"connection": "close"})

    async with serving(handle, limits=HTTPLimits(connections=2)) as site:
        clients = [await site.connect() for _ in range(2)]
        for client in clients:
            await client.send(GET)
        while running < 2:
            await trio.testing.wait_all_tasks_blocked(0.01)
        late = await site.connect()
        answer = await late.ask(GET)
        assert (answer.status, answer.headers["connection"]) == (503, "close")
        assert answer.body == b"too many connections\n"
        assert await late.at_end()
        proceed.set()
        for client in clients:
            assert (await client.answer()).status == 200
            assert await client.at_end()
        await trio.testing.wait_all_tasks_blocked(0.01)
        assert (await (await site.connect()).ask(GET)).status == 200


async def test_cancelling_is_immediate() -> None:
    """Guards that nothing delays a cancellation: not handlers, nor streams, nor slow readers."""

    async def handle(exchange: Exchange) -> None:
        async with exchange.stream(200) as send:
            while True:
                await send(bytes(100_000))

    async with serving(handle, grace=1_000) as site:
        client = await site.connect()
        await client.send(GET)
        await client.stream.receive_some(1)
        start = trio.current_time()
    assert trio.current_time() - start < 1
    with pytest.raises(OSError, match="connect"):
        await site.connect()


class Ending:
    """A server that is told to end, and its clients."""

    def __init__(self) -> None:
        self.asked = trio.Event()
        self.ended = trio.Event()
        self.seen: list[str] = []

    async def handle(self, exchange: Exchange) -> None:
        name = exchange.request.path
        try:
            if name == "/stream":
                async with exchange.stream(200) as send:
                    await send(b"begin ")
                    await exchange.shutting_down.wait()
                    await send(b"end")
            elif name == "/slow":
                await exchange.shutting_down.wait()
                await exchange.respond(200, (), b"done")
            elif name == "/endless":
                async with exchange.stream(200) as send:
                    await send(b"begin")
                    await trio.sleep_forever()
            else:
                await exchange.respond(200, (), b"ok")
        finally:
            self.seen.append(name)

    async def run(self, grace: float, task_status: trio.TaskStatus[Any]) -> None:
        await serve_http_exchanges(
            self.handle, 0, shutdown=self.asked.wait, grace=grace, task_status=task_status
        )
        self.ended.set()


def get(path: str) -> bytes:
    return f"GET {path} HTTP/1.1\r\nHost: x\r\n\r\n".encode()


async def test_graceful_end() -> None:
    """Guards a shutdown without loss: idle connections closed, requests finished, streams ended."""
    server = Ending()
    async with trio.open_nursery() as nursery:
        listeners = await nursery.start(server.run, 30)
        site = Site(listeners[0].socket.getsockname()[1], nursery)
        idle, begun, slow, stream = [await site.connect() for _ in range(4)]
        assert (await idle.ask(GET)).body == b"ok"
        await begun.send(b"GET / HTTP")
        await slow.send(get("/slow"))
        await stream.send(get("/stream"))
        pieces = stream.pieces()
        assert await anext(pieces) == b"begin "
        await trio.testing.wait_all_tasks_blocked(0.02)
        server.asked.set()
        assert await idle.at_end()
        assert await begun.at_end()
        assert await anext(pieces) == b"end"
        assert [piece async for piece in pieces] == []
        answer = await slow.answer()
        assert (answer.body, answer.headers["connection"]) == (b"done", "close")
        with trio.fail_after(5):
            await server.ended.wait()
        with pytest.raises(OSError, match="connect"):
            await site.connect()
        await site.close()


async def test_grace_ends() -> None:
    """Guards that a stream that does not end holds up the shutdown for the grace and no longer."""
    server = Ending()
    async with trio.open_nursery() as nursery:
        listeners = await nursery.start(server.run, 0.2)
        site = Site(listeners[0].socket.getsockname()[1], nursery)
        client = await site.connect()
        await client.send(get("/endless"))
        async with aclosing(client.pieces()) as pieces:
            assert await anext(pieces) == b"begin"
        server.asked.set()
        start = trio.current_time()
        await server.ended.wait()
        assert 0.1 < trio.current_time() - start < 2
        assert server.seen == ["/endless"]
        await site.close()


async def test_shutdown_may_be_an_awaitable() -> None:
    """Guards both ways to say when: an async function, and what calling one gives."""

    async def now() -> None:
        await trio.lowlevel.checkpoint()

    with trio.fail_after(5):
        await serve_http_exchanges(ok, 0, shutdown=now)
        await serve_http_exchanges(ok, 0, shutdown=now())
