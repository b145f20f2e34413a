"""One HTTP connection over a stream in memory, mostly in virtual time."""

from __future__ import annotations

import gc
import logging
import weakref

import pytest
import trio
import trio.testing

from mcp_trio.testing import exhaustive_cancellation
from mcp_trio.transports.http_connection import Shared, serve_http_connection
from mcp_trio.transports.http_exchange import (
    BodyTooLarge,
    ClientGone,
    Exchange,
    MalformedBody,
    RequestError,
)
from mcp_trio.transports.http_limits import MIB, HTTPLimits
from tests.transports._http import GET, Answer, RawClient, connected, echo, path, post

CHUNKED = b"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n"


async def ok(exchange: Exchange) -> None:
    await exchange.respond(200, (), b"ok")


async def test_request_as_seen_by_the_handler() -> None:
    """Guards what a handler reads of the head: decoded path, raw query, headers in any case."""
    seen: list[Exchange] = []

    async def handle(exchange: Exchange) -> None:
        seen.append(exchange)
        await exchange.respond(204)

    async with connected(handle) as client:
        answer = await client.ask(
            b"GET /a%20b/%C3%A9?q=%201 HTTP/1.1\r\nhOST: x\r\nACCEPT: a\r\naccept: b\r\n\r\n"
        )
    assert answer.status == 204
    assert "content-length" not in answer.headers
    request = seen[0].request
    assert (request.method, request.path, request.query) == ("GET", "/a b/é", "q=%201")
    assert request.headers.get("Accept") == "a, b"
    assert "HOST" in request.headers
    assert request.headers.raw() == [(b"host", b"x"), (b"accept", b"a"), (b"accept", b"b")]
    assert "secret" not in repr(request.headers)


async def test_keep_alive_and_its_end() -> None:
    """Guards that a connection serves many requests, and closes when the client asks for it."""
    async with connected(echo) as client:
        for text in (b"one", b"", b"three"):
            answer = await client.ask(post(text))
            assert answer.body == text
            assert answer.headers["content-length"] == str(len(text))
            assert "date" in answer.headers
        answer = await client.ask(post(b"last", b"Connection: close"))
        assert answer.headers["connection"] == "close"
        assert await client.at_end()


@pytest.mark.parametrize("steps", [1, 2, 3])
async def test_waiting_after_the_answer(steps: int, autojump_clock: trio.testing.MockClock) -> None:
    """Guards the next request from a handler that goes on after it has answered this one."""

    async def lingering(exchange: Exchange) -> None:
        await echo(exchange)
        for _ in range(steps):
            await trio.lowlevel.checkpoint()

    for _ in range(20):  # what runs first is a matter of chance
        async with connected(lingering) as client:
            for body in (b"one", b"two", b"three"):
                assert (await client.ask(post(body))).body == body
    assert trio.current_time() == 0


async def test_http_1_0() -> None:
    """Guards that an old client gets an answer that ends with the connection, streams too."""

    async def handle(exchange: Exchange) -> None:
        async with exchange.stream(200) as send:
            await send(b"a")
            await send(b"b")

    async with connected(handle) as client:
        answer = await client.ask(b"GET / HTTP/1.0\r\n\r\n")
        assert answer.body == b"ab"
        assert "transfer-encoding" not in answer.headers
        assert await client.at_end()


async def test_head_has_no_body() -> None:
    """Guards that HEAD is told the length and sent no body, so that the next answer is found."""

    async def handle(exchange: Exchange) -> None:
        if exchange.request.path == "/stream":
            async with exchange.stream(200) as send:
                await send(b"never sent")
        else:
            await exchange.respond(200, (), b"four")

    async with connected(handle) as client:
        answer = await client.ask(b"HEAD / HTTP/1.1\r\nHost: x\r\n\r\n", "HEAD")
        assert (answer.headers["content-length"], answer.body) == ("4", b"")
        await client.ask(b"HEAD /stream HTTP/1.1\r\nHost: x\r\n\r\n", "HEAD")
        assert (await client.ask(GET)).body == b"four"


async def test_pipelined_requests_in_order() -> None:
    """Guards that requests sent ahead are answered in turn, also when handlers wait."""

    async def handle(exchange: Exchange) -> None:
        await trio.testing.wait_all_tasks_blocked()
        await path(exchange)

    async with connected(handle) as client:
        await client.send(b"".join(post(b"body", path=b"/%d" % n) for n in range(50)))
        for n in range(50):
            assert (await client.answer()).body == b"/%d" % n


async def test_pipelining_without_end_is_not_read_ahead(
    autojump_clock: trio.testing.MockClock,
) -> None:
    """Guards memory: while a handler waits, only so much is read beyond its request."""
    near, far = trio.testing.memory_stream_pair()
    taken = 0
    receive = far.receive_some

    async def counting(limit: int | None = None) -> bytes | bytearray:
        nonlocal taken
        data = await receive(limit)
        taken += len(data)
        return data

    far.receive_some = counting  # type: ignore[assignment,method-assign]  # to see what is read

    async def handle(exchange: Exchange) -> None:
        await trio.sleep(10)
        await exchange.respond(200)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(serve_http_connection, handle, far)
        await near.send_all(GET)
        await trio.testing.wait_all_tasks_blocked()
        await near.send_all(bytes(1_000_000))
        await trio.testing.wait_all_tasks_blocked()
        assert taken < 200_000
        nursery.cancel_scope.cancel()


async def test_chunked_body() -> None:
    """Guards uploads without a length, in chunks cut anywhere."""
    wire = CHUNKED + b"3\r\nabc\r\n1;x=y\r\nd\r\n0\r\nTrailer: t\r\n\r\n"
    async with connected(echo) as client:
        assert (await client.ask(wire)).body == b"abcd"
        for byte in wire:
            await client.send(bytes([byte]))
            await trio.testing.wait_all_tasks_blocked()
        assert (await client.answer()).body == b"abcd"


async def test_expect_continue(autojump_clock: trio.testing.MockClock) -> None:
    """Guards that a client that asks first hears 100 when, and only when, the body is read."""
    head = b"POST %s HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\nContent-Length: 4\r\n\r\n"

    async def handle(exchange: Exchange) -> None:
        if exchange.request.path == "/no":
            await exchange.respond(401)
        else:
            await echo(exchange)

    async with connected(handle) as client:
        assert (await client.ask(head % b"/yes")).status == 100
        assert (await client.ask(b"body")).body == b"body"
        answer = await client.ask(head % b"/no")
        assert (answer.status, answer.headers["connection"]) == (401, "close")
        assert await client.at_end()
        assert trio.current_time() == 0


@pytest.mark.parametrize(
    "wire",
    [
        post(bytes(11)),
        b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 99999999999999999999\r\n\r\n",
        CHUNKED + b"b\r\n" + bytes(11) + b"\r\n0\r\n\r\n",
        CHUNKED + b"7\r\n1234567\r\n" * 2,
        CHUNKED + b"fffffff\r\n" + bytes(70_000),
    ],
)
async def test_body_too_large(wire: bytes) -> None:
    """Guards that no body over the limit is taken in, whatever it says of itself: 413."""
    limits = HTTPLimits(body_bytes=10)
    async with connected(echo, limits) as client:
        answer = await client.ask(wire)
        assert (answer.status, answer.headers["connection"]) == (413, "close")
        assert b" 10 " in answer.body
        await client.stream.aclose()


async def test_limits_of_handler_and_server() -> None:
    """Guards that the lower of both limits on a body holds, and that the error can be handled."""

    async def handle(exchange: Exchange) -> None:
        try:
            await exchange.body(3)
        except BodyTooLarge as error:
            await exchange.respond(413, (), f"mine: {error}".encode())
        else:
            await exchange.respond(200)

    async with connected(handle, HTTPLimits(body_bytes=10)) as client:
        assert (await client.ask(post(b"123"))).status == 200
        answer = await client.ask(post(b"1234"))
        assert (answer.status, answer.body[:5]) == (413, b"mine:")


async def test_bytes_in_single_chunks_leave_others_a_turn() -> None:
    """Guards other clients from one whose body is a million chunks of a byte."""
    turns = 0

    async def count() -> None:
        nonlocal turns
        while True:
            await trio.lowlevel.checkpoint()
            turns += 1

    async with connected(echo) as client:
        await client.send(CHUNKED + b"1\r\nx\r\n" * 5_000)
        await trio.testing.wait_all_tasks_blocked()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(count)
            await client.send(b"1\r\nx\r\n" * 5_000 + b"0\r\n\r\n")
            assert len((await client.answer()).body) == 10_000
            nursery.cancel_scope.cancel()
    assert turns > 40


async def test_slow_header(autojump_clock: trio.testing.MockClock) -> None:
    """Guards against clients that send a header a byte at a time, for ever: 408."""
    async with connected(echo, HTTPLimits(header_time=5)) as client:
        start = trio.current_time()
        answer: list[Answer] = []

        async def read() -> None:
            answer.append(await client.answer())
            nursery.cancel_scope.cancel()

        async with trio.open_nursery() as nursery:
            nursery.start_soon(read)
            for byte in post(b"", b"X-Long: " + b"a" * 1_000):
                await client.send(bytes([byte]))
                await trio.sleep(1)
        assert answer[0].status == 408
        assert 5 <= trio.current_time() - start <= 7


async def test_slow_header_of_a_later_request(autojump_clock: trio.testing.MockClock) -> None:
    """Guards that the time a connection may idle is not there for dribbling a header."""
    async with connected(ok, HTTPLimits(header_time=5, idle_time=1_000)) as client:
        await client.ask(GET)
        await trio.sleep(500)
        await client.send(b"GET / HT")
        assert (await client.answer()).status == 408
        assert 505 <= trio.current_time() <= 506


async def test_silent_and_idle_connections(autojump_clock: trio.testing.MockClock) -> None:
    """Guards against connections that are opened, or kept, for nothing: closed without a word."""
    limits = HTTPLimits(header_time=5, idle_time=50)
    async with connected(echo, limits) as client:
        with trio.testing.assert_checkpoints(), trio.fail_after(6):
            assert await client.at_end()
    async with connected(echo, limits) as client:
        assert (await client.ask(post(b"x"))).status == 200
        await trio.sleep(45)
        assert (await client.ask(post(b"x"))).status == 200
        start = trio.current_time()
        assert await client.at_end()
        assert 50 <= trio.current_time() - start <= 52


async def test_slow_body(autojump_clock: trio.testing.MockClock) -> None:
    """Guards against bodies that trickle in: 408; one that is only large has the time it needs."""
    limits = HTTPLimits(body_time=5)
    async with connected(echo, limits) as client:
        await client.send(post(bytes(10))[:-9])
        await trio.sleep(4)
        await client.send(b"1")
        answer = await client.answer()
        assert (answer.status, answer.headers["connection"]) == (408, "close")
        assert trio.current_time() < 6
    async with connected(echo, limits) as client:
        await client.send(post(bytes(3 * MIB))[: -3 * MIB])
        for _ in range(3):
            await trio.sleep(4)
            await client.send(bytes(MIB))
        assert len((await client.answer()).body) == 3 * MIB


@pytest.mark.parametrize(
    ("wire", "status"),
    [
        (b"hello\r\n\r\n", 400),
        (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n", 400),
        (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 505),
        (b"CONNECT x:1 HTTP/1.1\r\nHost: x\r\n\r\n", 501),
        (b"GET / HTTP/1.1\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\nHost: x\r\nHost: y\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\nHost: x\r\n bad: folding\r\nno colon\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\nHost: x\r\nBad Name: y\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\nHost: x\r\nA: \x00\r\n\r\n", 400),
        (b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: -1\r\n\r\n", 400),
        (b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 1x\r\n\r\nab", 400),
        (b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nab", 400),
        (b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: " + b"9" * 50 + b"\r\n\r\n", 400),
        (post(b"5\r\nhello\r\n0\r\n\r\n", b"Transfer-Encoding: chunked"), 400),
        (b"POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 400),
        (b"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: gzip\r\n\r\n", 501),
        (CHUNKED + b"zz\r\n\r\n", 400),
        (CHUNKED + b"1\r\nabc\r\n", 400),
        (b"GET http://y/ HTTP/1.1\r\nHost: x\r\n\r\n", 400),
        (b"GET http://[x HTTP/1.1\r\nHost: x\r\n\r\n", 400),
        (b"GET x HTTP/1.1\r\nHost: x\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\nHost: x\r\nX: " + b"y" * 200_000, 431),
        (b"GET /" + b"y" * 200_000, 431),
        (b"\r\n" * 100_000, 400),
    ],
)
async def test_what_is_no_request(wire: bytes, status: int) -> None:
    """Guards that whatever is no HTTP is refused and the connection closed: no smuggling."""
    async with connected(echo) as client:
        answer = await client.ask(wire + GET)
        assert (answer.status, answer.headers["connection"]) == (status, "close")
        with pytest.raises(EOFError):  # the GET behind it is not answered
            await client.answer()


async def test_target_as_a_whole_url() -> None:
    """Guards requests as proxies send them: the URL's path, if its host is the one of Host."""
    async with connected(path) as client:
        for target, expected in [
            (b"http://x/a?b", b"/a"),
            (b"HTTP://X", b"/"),
            (b"//x/a", b"//x/a"),
            (b"*", b"*"),
        ]:
            answer = await client.ask(b"OPTIONS %s HTTP/1.1\r\nHost: x\r\n\r\n" % target)
            assert answer.body == expected


async def test_upgrade_is_declined() -> None:
    """Guards that a client that would rather speak HTTP/2 is answered in HTTP/1.1."""
    upgrade = b"GET / HTTP/1.1\r\nHost: x\r\nConnection: upgrade\r\nUpgrade: h2c\r\n\r\n"
    async with connected(ok) as client:
        assert (await client.ask(upgrade)).body == b"ok"
        assert (await client.ask(GET)).body == b"ok"


async def test_unread_body() -> None:
    """Guards that what a handler left of a body is not taken for the next request."""
    async with connected(path) as client:
        answers = [await client.ask(post(bytes(size), path=b"/a")) for size in (10, 60_000)]
        assert {answer.headers.get("connection") for answer in answers} == {None}
        answer = await client.ask(post(bytes(100_000), path=b"/big"))
        assert (answer.body, answer.headers["connection"]) == (b"/big", "close")


async def test_unread_body_in_chunks(autojump_clock: trio.testing.MockClock) -> None:
    """Guards the same where the length is not known before: read up to a bound, else closed."""
    async with connected(path) as client:
        await client.ask(CHUNKED + b"5\r\nhello\r\n0\r\n\r\n")
        assert (await client.ask(GET)).body == b"/"
        assert (await client.ask(CHUNKED + b"1\r\nx\r\n" * 3_000)).body == b"/"
        assert await client.at_end()
        assert trio.current_time() == 0


async def test_last_words_are_read_before_the_close(
    autojump_clock: trio.testing.MockClock,
) -> None:
    """Guards that an early answer reaches a client that is still sending: no reset, in time."""
    async with connected(path) as client:
        await client.send(post(bytes(1 << 20))[: -1 << 19])
        start = trio.current_time()
        assert (await client.answer()).body == b"/"
        assert await client.at_end()  # half closed: it could still send
        await client.send(bytes(1 << 18))
        await trio.sleep(5)
        with pytest.raises(trio.BrokenResourceError):
            await client.send(b"x")
        assert trio.current_time() - start < 6


async def test_failing_handler(caplog: pytest.LogCaptureFixture) -> None:
    """Guards that a bug in a handler is a bare 500, a traceback in the log, and no more."""

    async def handle(exchange: Exchange) -> None:
        if exchange.request.path == "/group":
            async with trio.open_nursery():
                raise KeyError("tell nobody")
        if exchange.request.path == "/bad-header":
            await exchange.respond(200, {"x": "a\nb"})
        if exchange.request.path != "/silent":
            raise ValueError("tell nobody")

    async with connected(handle) as client:
        for where in (b"/", b"/silent", b"/group", b"/bad-header"):
            answer = await client.ask(post(b"body", path=where))
            assert (answer.status, answer.body) == (500, b"Internal Server Error\n")
    assert len(caplog.records) == 4
    assert all(record.exc_info for record in caplog.records)
    assert "POST /silent" in caplog.text
    assert "ValueError: tell nobody" in caplog.text


async def test_failing_in_a_stream(caplog: pytest.LogCaptureFixture) -> None:
    """Guards that an answer that breaks off is seen to be broken off, and not taken for whole."""

    async def handle(exchange: Exchange) -> None:
        async with exchange.stream(200) as send:
            await send(b"half")
            raise ValueError

    async with connected(handle) as client:
        answer = await client.ask(GET)
        assert (answer.body, answer.whole) == (b"half", False)
        assert await client.at_end()
    assert "ValueError" in caplog.text


async def test_misuse_is_an_error(caplog: pytest.LogCaptureFixture) -> None:
    """Guards handlers from answering twice or reading the body twice without noticing."""
    errors: list[str] = []

    async def handle(exchange: Exchange) -> None:
        await exchange.body(10)
        with pytest.raises(RuntimeError) as caught:
            await exchange.body(10)
        errors.append(str(caught.value))
        await exchange.respond(200)
        assert exchange.answered
        with pytest.raises(RuntimeError) as caught:
            await exchange.respond(200)
        errors.append(str(caught.value))
        with pytest.raises(RuntimeError):
            async with exchange.stream(200):
                raise AssertionError

    async with connected(handle) as client:
        assert (await client.ask(post(b"x"))).status == 200
        assert (await client.ask(post(b"x"))).status == 200
    assert ["read" in errors[0], "answered" in errors[1]] == [True, True]
    assert not caplog.records


async def test_request_errors_of_a_handler() -> None:
    """Guards that a handler may leave a malformed request to the face, from a nursery as well."""

    async def handle(exchange: Exchange) -> None:
        if exchange.request.path == "/":
            raise MalformedBody("no such luck")
        async with trio.open_nursery():
            raise RequestError("grouped")

    async with connected(handle) as client:
        answer = await client.ask(GET)
        assert (answer.status, answer.body) == (400, b"no such luck\n")
        answer = await client.ask(b"GET /x HTTP/1.1\r\nHost: x\r\n\r\n")
        assert (answer.status, answer.body) == (400, b"grouped\n")


@pytest.mark.parametrize("where", ["/before", "/in-a-stream", "/in-a-child"])
async def test_disconnect_cancels(
    where: str, autojump_clock: trio.testing.MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    """Guards that a handler hears at once that its client has gone, without a word in the log."""
    ends: list[float] = []

    async def work() -> None:
        try:
            await trio.sleep(1_000)
        finally:
            ends.append(trio.current_time())

    async def handle(exchange: Exchange) -> None:
        with exchange.cancelled_by_disconnect() as scope:
            if where == "/before":
                await work()
            elif where == "/in-a-stream":
                async with exchange.stream(200) as send:
                    await send(b"x")
                    await work()
            else:
                async with trio.open_nursery() as nursery:
                    nursery.start_soon(work)
        assert scope.cancelled_caught

    async with connected(handle) as client:
        await client.send(post(b"body", path=where.encode()))
        await trio.sleep(3)
        await client.stream.aclose()
        await trio.testing.wait_all_tasks_blocked()
    assert ends == [3]
    assert not caplog.records


async def test_disconnect_while_requests_are_piled_up(
    autojump_clock: trio.testing.MockClock,
) -> None:
    """Guards that requests sent ahead neither hide the disconnect behind them nor run after it."""
    ends: list[float] = []

    async def handle(exchange: Exchange) -> None:
        with exchange.cancelled_by_disconnect():
            await trio.sleep(1_000)
        ends.append(trio.current_time())

    async with connected(handle) as client:
        await client.send(GET)
        await trio.sleep(1)
        await client.send(GET * 3)
        await trio.sleep(1)
        await client.stream.aclose()
        await trio.testing.wait_all_tasks_blocked()
    assert ends == [2]


async def test_disconnect_outside_of_the_scope(autojump_clock: trio.testing.MockClock) -> None:
    """Guards work that has to go on without its client (a legacy session's)."""
    done: list[str] = []

    async def handle(exchange: Exchange) -> None:
        with exchange.cancelled_by_disconnect():
            await trio.lowlevel.checkpoint()
        await trio.sleep(10)
        done.append("work")
        with pytest.raises(ClientGone):
            await exchange.respond(200)
        done.append("answer")

    near, far = trio.testing.memory_stream_pair()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(serve_http_connection, handle, far)
        await near.send_all(GET)
        await trio.sleep(1)
        await near.aclose()
    assert done == ["work", "answer"]


async def test_disconnect_in_the_body() -> None:
    """Guards that a body that is cut off is never taken for a whole one."""
    caught: list[BaseException] = []

    async def handle(exchange: Exchange) -> None:
        try:
            await exchange.body(100)
        except ClientGone as error:
            caught.append(error)
            raise

    for wire in (post(b"1234")[:-1], CHUNKED + b"1\r\nx\r\n"):
        async with connected(handle) as client:
            await client.send(wire)
            await trio.testing.wait_all_tasks_blocked()
            await client.stream.aclose()
            await trio.testing.wait_all_tasks_blocked()
    assert len(caught) == 2


async def test_disconnect_comes_before_the_scope() -> None:
    """Guards that a scope that is asked for too late is cancelled from the start."""
    caught: list[bool] = []

    async def handle(exchange: Exchange) -> None:
        await trio.testing.wait_all_tasks_blocked(0.01)
        with exchange.cancelled_by_disconnect() as scope:
            await trio.sleep_forever()
        caught.append(scope.cancelled_caught)

    async with connected(handle) as client:
        await client.send(GET)
        await client.stream.aclose()
        await trio.testing.wait_all_tasks_blocked(0.05)
    assert caught == [True]


async def test_no_deadline_touches_a_handler(autojump_clock: trio.testing.MockClock) -> None:
    """Guards slow work: neither before, in nor after an answer does a limit of ours end it."""
    done: list[str] = []

    async def handle(exchange: Exchange) -> None:
        await trio.sleep(80_000)
        if exchange.request.path == "/stream":
            async with exchange.stream(200) as send, trio.open_nursery() as nursery:
                nursery.start_soon(send, b"a")
                await trio.sleep(80_000)
                await send(b"b")
        else:
            await exchange.respond(200)
        await trio.sleep(80_000)
        done.append(exchange.request.path)

    async with connected(handle) as client:
        assert (await client.ask(b"GET /stream HTTP/1.1\r\nHost: x\r\n\r\n")).body == b"ab"
        assert (await client.ask(GET)).status == 200
        await trio.sleep(80_001)
    assert done == ["/stream", "/"]


@pytest.mark.parametrize("streaming", [False, True])
async def test_client_that_does_not_read(
    streaming: bool, autojump_clock: trio.testing.MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    """Guards against clients that ask and never take the answer: they are given up in time."""
    ends: list[float] = []

    async def handle(exchange: Exchange) -> None:
        try:
            if streaming:
                with exchange.cancelled_by_disconnect() as scope:
                    with pytest.raises(ClientGone, match="does not read"):
                        async with exchange.stream(200):
                            raise AssertionError
                    await trio.lowlevel.checkpoint()
                assert scope.cancelled_caught
                raise ClientGone
            await exchange.respond(200, (), bytes(1_000))
        finally:
            ends.append(trio.current_time())

    near, far = trio.testing.lockstep_stream_pair()
    async with trio.open_nursery() as nursery:
        shared = Shared(HTTPLimits(write_time=7))
        nursery.start_soon(lambda: serve_http_connection(handle, far, shared=shared))
        await near.send_all(GET)
        await trio.sleep(20)
    assert 7 <= ends[0] <= 7.2
    assert not caplog.records


async def test_nothing_follows_half_a_piece(
    autojump_clock: trio.testing.MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    """Guards the framing: after a send that was cancelled half way, there are no more."""

    async def handle(exchange: Exchange) -> None:
        async with exchange.stream(200) as send:
            with trio.move_on_after(1):
                await send(bytes(1_000))
            with trio.move_on_after(1):
                await send(b"more")

    near, far = trio.testing.lockstep_stream_pair()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(serve_http_connection, handle, far)
        await near.send_all(GET)
        assert b"200" in await near.receive_some(10_000)
        await trio.sleep(1.5)
        rest = b""
        while data := await near.receive_some(10_000):
            rest += data
        assert b"more" not in rest
    assert not caplog.records


async def test_scopes_of_old_requests_are_let_go() -> None:
    """Guards memory: a connection keeps nothing of the requests that it has answered."""
    scopes: list[weakref.ref[trio.CancelScope]] = []

    async def handle(exchange: Exchange) -> None:
        with exchange.cancelled_by_disconnect() as scope:
            scopes.append(weakref.ref(scope))
            await exchange.respond(200)

    async with connected(handle) as client:
        for _ in range(3):
            await client.ask(GET)
        await trio.testing.wait_all_tasks_blocked()
        gc.collect()
        assert [scope() for scope in scopes] == [None] * 3


async def test_failing_without_a_client(
    autojump_clock: trio.testing.MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    """Guards the log: an error that nobody can be told of any more is there once, as itself."""

    async def handle(exchange: Exchange) -> None:
        await trio.sleep(5)
        raise ValueError

    async with connected(handle) as client:
        await client.send(GET)
        await client.stream.aclose()
    assert [record.getMessage() for record in caplog.records] == ["Handling GET / failed"]


async def test_slow_reader_gets_all(autojump_clock: trio.testing.MockClock) -> None:
    """Guards that a client that reads slowly, but reads, is not taken for one that does not."""

    ends: list[float] = []

    async def handle(exchange: Exchange) -> None:
        await exchange.respond(200, (), bytes(500_000))
        ends.append(trio.current_time())

    near, far = trio.testing.lockstep_stream_pair()
    async with trio.open_nursery() as nursery:
        shared = Shared(HTTPLimits(write_time=7))
        nursery.start_soon(lambda: serve_http_connection(handle, far, shared=shared))
        await near.send_all(GET)
        size = 0
        while size < 500_000:
            await trio.sleep(1)
            size += len(await near.receive_some(20_000))
        await trio.sleep(1)
        assert ends[0] > 20
        nursery.cancel_scope.cancel()


async def test_pieces_arrive_when_sent(autojump_clock: trio.testing.MockClock) -> None:
    """Guards streaming: each piece reaches the client when it is sent, and not at the end."""

    async def handle(exchange: Exchange) -> None:
        async with exchange.stream(200, {"content-type": "text/event-stream"}) as send:
            for n in range(3):
                await send(b"%d" % n)
                await trio.sleep(1)

    async with connected(handle) as client:
        await client.send(GET)
        came = [(piece, trio.current_time()) async for piece in client.pieces()]
    assert came == [(b"0", 0), (b"1", 1), (b"2", 2)]


async def test_pieces_of_many_tasks_do_not_mix() -> None:
    """Guards streams that several tasks send to, where each send takes several steps."""

    async def handle(exchange: Exchange) -> None:
        async with exchange.stream(200) as send, trio.open_nursery() as nursery:
            for n in range(5):
                nursery.start_soon(send, b"%d" % n * 100_000)

    near, far = trio.testing.lockstep_stream_pair()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(serve_http_connection, handle, far)
        client = RawClient(near)
        body = (await client.ask(GET)).body
        nursery.cancel_scope.cancel()
    runs = {body[start : start + 100_000] for start in range(0, 500_000, 100_000)}
    assert runs == {b"%d" % n * 100_000 for n in range(5)}


async def test_dropped_between_requests(autojump_clock: trio.testing.MockClock) -> None:
    """Guards that a connection that waits can be closed, also in the middle of a header."""
    for begun in (b"", b"GET / HT"):
        shared = Shared()
        async with connected(ok, shared=shared) as client:
            assert (await client.ask(GET)).body == b"ok"
            await client.send(begun)
            await trio.testing.wait_all_tasks_blocked()
            (connection,) = shared.waiting
            connection.drop()
            assert await client.at_end()
            assert trio.current_time() == 0


async def test_bug_in_here_is_logged(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Guards a server from an error of one connection that nobody thought of."""

    async def broken(*_: object) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr("mcp_trio.transports.http_connection.HTTPConnection.run", broken)
    near, far = trio.testing.memory_stream_pair()
    with caplog.at_level(logging.ERROR):
        await serve_http_connection(ok, far)
    assert "ZeroDivisionError" in caplog.text
    assert await near.receive_some() == b""


async def _work(exchange: Exchange) -> None:
    """A handler with a bit of everything."""
    with exchange.cancelled_by_disconnect():
        body = await exchange.body(100)
        await trio.sleep(1)
        if exchange.request.path == "/stream":
            async with exchange.stream(200) as send, trio.open_nursery() as nursery:
                nursery.start_soon(send, body)
                nursery.start_soon(send, body)
        else:
            await exchange.respond(200, (), body)


async def _requests() -> None:
    near, far = trio.testing.memory_stream_pair()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(serve_http_connection, _work, far)
        async with near:
            client = RawClient(near)
            await client.send(post(b"one")[:-1])
            await trio.sleep(1)
            await client.send(b"e")
            await client.answer()
            await client.ask(post(b"two", path=b"/stream"))
            await client.ask(post(b"three", b"Expect: 100-continue", path=b"/none")[:-5])
            await client.ask(b"three")
            await client.send(post(b"never read"))
            await trio.sleep(0.5)


def test_cancelled_anywhere() -> None:
    """Guards that no place of a connection's life is a bad one to cancel it."""
    assert exhaustive_cancellation(_requests) > 20


async def _cancelled_handlers() -> None:
    """A client for a handler whose work is cancelled by itself, at whatever step."""
    near, far = trio.testing.memory_stream_pair()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(serve_http_connection, _work, far)
        client = RawClient(near)
        await client.send(post(b"one", path=b"/stream"))
        await trio.sleep(1)
        await near.aclose()


def test_client_gone_anywhere() -> None:
    """Guards that a client that goes at any step leaves no task and no error behind."""
    assert exhaustive_cancellation(_cancelled_handlers) > 5
