"""What a hostile or broken client can do to our HTTP server with a socket of its own.

Each attack is followed by an ordinary request on another connection, which must be answered as
if nothing had happened, and in the end no task and no descriptor may be left.
"""

from __future__ import annotations

import os
import socket
import struct
import sys
from collections.abc import AsyncIterator
from contextlib import aclosing, asynccontextmanager

import pytest
import trio
import trio.testing

from mcp_trio.transports.http_exchange import Exchange
from mcp_trio.transports.http_limits import HTTPLimits
from tests.transports._http import GET, Answer, RawClient, Site, echo, post, serving

#: Every limit low, but no time so short that a busy machine reaches it by itself.
LOW = HTTPLimits(
    header_bytes=1_000,
    body_bytes=10_000,
    header_time=0.5,
    body_time=0.5,
    idle_time=0.5,
    write_time=0.5,
)

HEAD = b"POST / HTTP/1.1\r\nHost: x\r\n"
CHUNKED = HEAD + b"Transfer-Encoding: chunked\r\n\r\n"


async def handle(exchange: Exchange) -> None:
    """What is asked for by the path."""
    match exchange.request.path:
        case "/stream":
            async with exchange.stream(200) as send:
                while True:
                    await send(bytes(50_000))
        case "/large":
            await exchange.respond(200, (), bytes(20_000_000))
        case "/wait":
            with exchange.cancelled_by_disconnect():
                await trio.sleep_forever()
        case "/unread":
            await exchange.respond(200)
        case _ if exchange.request.method in ("GET", "POST"):
            await echo(exchange)
        case _:
            await exchange.respond(405, {"allow": "GET, POST"})


def descriptors() -> int:
    return len(os.listdir("/proc/self/fd")) if sys.platform == "linux" else 0


def tasks() -> int:
    return trio.lowlevel.current_statistics().tasks_living


@asynccontextmanager
async def site(limits: HTTPLimits = LOW) -> AsyncIterator[Site]:
    """A server that has to be without a trace of its clients once they have gone."""
    async with serving(handle, limits=limits) as server:
        before = tasks(), descriptors()
        yield server
        await still_serves(server)
        await server.close()
        with trio.fail_after(5):
            while (tasks(), descriptors()) != before:  # noqa: ASYNC110 - the system's own pace
                await trio.sleep(0.01)


async def still_serves(server: Site) -> None:
    with trio.fail_after(5):
        assert (await (await server.connect()).ask(post(b"hello"))).body == b"hello"


def get(path: str) -> bytes:
    return f"GET {path} HTTP/1.1\r\nHost: x\r\n\r\n".encode()


ATTACKS = {
    "silence": (b"", None),
    "slow header": (b"GET / HTTP/1.1\r\nHos", 408),
    "slow body": (post(bytes(1_000))[:-1], 408),
    "slow chunks": (CHUNKED + b"1\r\nx\r\n", 408),
    "long line": (b"GET /" + b"x" * 100_000, 431),
    "large header": (b"GET / HTTP/1.1\r\nHost: x\r\nX: " + b"y" * 100_000, 431),
    "many headers": (b"GET / HTTP/1.1\r\n" + b"X: y\r\n" * 20_000, 431),
    "large body": (post(bytes(10_001)), 413),
    "endless length": (HEAD + b"Content-Length: 1000000000000\r\n\r\n", 413),
    "endless chunks": (CHUNKED + b"1\r\nx\r\n" * 20_000, 413),
    "endless chunk": (CHUNKED + b"fffffffff\r\n" + bytes(20_000), 413),
    "endless extension": (CHUNKED + b"1;" + b"x" * 100_000, 400),
    "endless trailer": (CHUNKED + b"0\r\n" + b"X: y\r\n" * 20_000, 400),
    "length in words": (HEAD + b"Content-Length: one\r\n\r\n", 400),
    "negative length": (HEAD + b"Content-Length: -5\r\n\r\n", 400),
    "length with sign": (HEAD + b"Content-Length: +5\r\n\r\n12345", 400),
    "two framings": (post(b"0\r\n\r\n", b"Transfer-Encoding: chunked"), 400),
    "bad chunk": (CHUNKED + b"what\r\n", 400),
    "TLS": (b"\x16\x03\x01\x00\xa5\x01\x00\x00\xa1\x03\x03" + bytes(20) + b"\r\n\r\n", 400),
    "binary": (bytes(range(256)) * 4 + b"\r\n\r\n", 400),
    "HTTP/2": (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 505),
    "HTTP/0.9": (b"GET /\r\n\r\n", 400),
    "proxy": (b"CONNECT evil:443 HTTP/1.1\r\nHost: evil:443\r\n\r\n", 501),
    "other method": (b"BREW / HTTP/1.1\r\nHost: x\r\n\r\n", 405),
    "method of lines": (b"GE\rT / HTTP/1.1\r\nHost: x\r\n\r\n", 400),
}


@pytest.mark.parametrize("name", ATTACKS)
async def test_attack(name: str) -> None:
    """Guards that each gets the status that is due to it and the connection's end, in time."""
    wire, status = ATTACKS[name]
    async with site() as server:
        client = await server.connect()
        with trio.fail_after(5):
            await client.send(wire)
            if status is None:
                assert await client.at_end()
                return
            assert (await client.answer()).status == status
            if status != 405:
                with pytest.raises(EOFError):
                    await client.answer()


async def test_dribbled_header_in_real_time() -> None:
    """Guards that sending a byte now and then does not buy a header more time."""
    async with site() as server:
        client = await server.connect()
        start = trio.current_time()

        async def read() -> None:
            assert (await client.answer()).status == 408
            nursery.cancel_scope.cancel()

        async with trio.open_nursery() as nursery:
            nursery.start_soon(read)
            for byte in b"GET / HTTP/1.1\r\n" + b"X: y\r\n" * 1_000:
                await client.send(bytes([byte]))
                await trio.sleep(0.02)
        assert 0.5 <= trio.current_time() - start < 3


async def test_pipelined_flood() -> None:
    """Guards order and sanity where a client sends a thousand requests at once, reading later."""
    async with site(HTTPLimits()) as server:
        client = await server.connect()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(
                client.send, b"".join(post(b"%d" % number) for number in range(1_000))
            )
            for number in range(1_000):
                assert (await client.answer()).body == b"%d" % number


async def test_thousand_connections_opened_and_dropped() -> None:
    """Guards tasks and descriptors: of a thousand clients that go in any state, nothing stays."""
    begun = (b"", b"GET", post(bytes(100))[:-50], get("/wait"), get("/stream"), CHUNKED, GET)
    async with site(HTTPLimits()) as server:

        async def come_and_go(number: int) -> None:
            stream = await trio.open_tcp_stream("127.0.0.1", server.port)
            async with stream:
                await stream.send_all(begun[number % len(begun)])
                if number % 3 == 0:
                    await trio.sleep(0.01)
                if number % 2 == 0:  # a reset instead of an orderly end
                    reset = struct.pack("ii", 1, 0)
                    stream.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, reset)

        for start in range(0, 1_000, 100):
            async with trio.open_nursery() as nursery:
                for number in range(start, start + 100):
                    nursery.start_soon(come_and_go, number)


async def test_stalled_readers_beside_live_ones() -> None:
    """Guards fifty live clients from some that ask for much and read none of it."""
    async with site(HTTPLimits(write_time=1.5)) as server:
        stalled = [await server.connect() for _ in range(3)]
        await stalled[0].send(get("/large"))
        await stalled[1].send(get("/stream"))
        await stalled[2].send(get("/large") * 20)
        await trio.sleep(0.05)
        slowest = 0.0

        async def live() -> None:
            nonlocal slowest
            client = await server.connect()
            for _ in range(10):
                start = trio.current_time()
                assert (await client.ask(post(b"hello"))).body == b"hello"
                slowest = max(slowest, trio.current_time() - start)

        async with trio.open_nursery() as nursery:
            for _ in range(50):
                nursery.start_soon(live)
        assert slowest < 1.5
        await trio.sleep(1.6)  # by now they have been given up
        for client in stalled:
            with trio.fail_after(5):
                assert await _cut_off(client)


async def _cut_off(client: RawClient) -> bool:
    try:
        while True:
            answer = await client.answer()
            if not answer.whole:
                return True
    except EOFError:
        return True


async def test_early_answer_to_a_large_upload() -> None:
    """Guards that who sends ten megabytes in vain gets to read why, instead of a reset."""
    async with site(HTTPLimits(body_bytes=1_000)) as server:
        for wire, status in [
            (post(bytes(10 << 20)), 413),
            (post(bytes(1 << 20), path=b"/unread"), 200),
        ]:
            client = await server.connect()
            answers: list[Answer] = []

            async def read(client: RawClient = client, answers: list[Answer] = answers) -> None:
                answers.append(await client.answer())

            async with trio.open_nursery() as nursery:
                nursery.start_soon(read)
                await client.send(wire)
            assert answers[0].status == status


async def test_half_closed_client() -> None:
    """Guards that a client that has said all and closed its side still gets its answer."""
    async with site() as server:
        client = await server.connect()
        await client.send(post(b"last words"))
        assert isinstance(client.stream, trio.SocketStream)
        await client.stream.send_eof()
        assert (await client.answer()).body == b"last words"
        assert await client.at_end()


async def _reads_half_of_a_stream(server: Site) -> None:
    client = await server.connect()
    await client.send(get("/stream"))
    async with aclosing(client.pieces()) as pieces:
        async for _ in pieces:
            break
    await client.stream.aclose()


async def test_leaving_in_the_middle_of_a_stream(caplog: pytest.LogCaptureFixture) -> None:
    """Guards that a stream whose client has gone ends, without an error in anybody's log."""
    async with site(HTTPLimits()) as server, trio.open_nursery() as nursery:
        for _ in range(20):
            nursery.start_soon(_reads_half_of_a_stream, server)
    assert not caplog.records
