"""The ASGI face: by hand for what the specification says, and under Hypercorn's Trio worker."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

import httpx
import pytest
import trio
import trio.testing
from hypercorn.config import Config
from hypercorn.trio import serve

from mcp_trio.testing import exhaustive_cancellation
from mcp_trio.transports.asgi import ASGIApp, Message
from mcp_trio.transports.http_exchange import ClientGone, Exchange
from tests.transports._http import GET, RawClient, echo, post

GONE = {"type": "http.disconnect"}


def body(data: bytes, *, more: bool = False) -> Message:
    return {"type": "http.request", "body": data, "more_body": more}


def scope(**changes: Any) -> Message:
    return {
        "type": "http",
        "asgi": {"version": "3.0"},
        "http_version": "1.1",
        "method": "POST",
        "scheme": "https",
        "path": "/a b",
        "raw_path": b"/a%20b",
        "query_string": b"q=%201",
        "root_path": "",
        "headers": [(b"host", b"x"), (b"accept", b"a"), (b"accept", b"b")],
        "client": ("192.0.2.1", 4711),
        **changes,
    }


class Caller:
    """An ASGI server for one call: what it receives is given, what it sends is kept."""

    def __init__(self, *messages: Message) -> None:
        self.sent: list[Message] = []
        self._give, self._messages = trio.open_memory_channel[Message](100)
        for message in messages:
            self.give(message)

    def give(self, message: Message) -> None:
        self._give.send_nowait(message)

    async def receive(self) -> Message:
        return await self._messages.receive()

    async def send(self, message: Message) -> None:
        await trio.lowlevel.checkpoint()
        self.sent.append(message)

    @property
    def status(self) -> int:
        return int(self.sent[0]["status"])

    @property
    def body(self) -> bytes:
        assert self.sent[-1]["more_body"] is False
        return b"".join(message["body"] for message in self.sent[1:])


async def call(app: ASGIApp, caller: Caller, **changes: Any) -> Caller:
    await app(scope(**changes), caller.receive, caller.send)
    return caller


async def test_request_as_seen_by_the_handler() -> None:
    """Guards that a handler sees the same as from our own server."""
    seen: list[Exchange] = []

    async def handle(exchange: Exchange) -> None:
        seen.append(exchange)
        await echo(exchange)

    caller = await call(
        ASGIApp(handle), Caller(body(b"ab", more=True), body(b"", more=True), body(b"c"))
    )
    assert (caller.status, caller.body) == (200, b"abc")
    assert (b"content-length", b"3") in caller.sent[0]["headers"]
    request = seen[0].request
    assert (request.method, request.path, request.query) == ("POST", "/a b", "q=%201")
    assert (request.client, request.scheme) == ("192.0.2.1", "https")
    assert request.headers.get("Accept") == "a, b"


@pytest.mark.parametrize(
    ("root", "path", "raw", "expected"),
    [
        ("", "/mcp", b"/mcp", "/mcp"),
        ("/api", "/api/mcp", b"/api/mcp", "/mcp"),
        ("/api/", "/api/mcp", b"/api/mcp", "/mcp"),
        ("/api", "/api", b"/api", "/"),
        ("/api", "/apiary", b"/apiary", "/apiary"),
        ("/api", "/mcp", b"/api/mcp", "/mcp"),
        ("/mcp", "/mcp", b"/mcp/mcp", "/mcp"),
        ("/mcp", "/mcp/mcp", b"/mcp/mcp", "/mcp"),
        ("/é", "/é/mcp", b"/%C3%A9/mcp", "/mcp"),
        ("/api", "/api/mcp", None, "/mcp"),
    ],
)
async def test_root_path(root: str, path: str, raw: bytes | None, expected: str) -> None:
    """Guards that routes hold wherever the application is mounted, by whatever framework."""
    seen: list[tuple[str, str]] = []

    async def handle(exchange: Exchange) -> None:
        seen.append((exchange.request.root_path, exchange.request.path))
        await exchange.respond(200)

    await call(ASGIApp(handle), Caller(), root_path=root, path=path, raw_path=raw)
    assert seen == [(root.rstrip("/"), expected)]


async def test_body_too_large() -> None:
    """Guards that a body over the handler's limit is not taken in, announced or not."""

    async def handle(exchange: Exchange) -> None:
        await exchange.body(3)

    pieces = [body(b"ab", more=True) for _ in range(50)]
    assert (await call(ASGIApp(handle), Caller(*pieces))).status == 413
    announced = {"headers": [(b"content-length", b"4")]}
    assert (await call(ASGIApp(handle), Caller(), **announced)).status == 413
    announced = {"headers": [(b"content-length", b"9" * 5_000)]}
    assert (await call(ASGIApp(handle), Caller(), **announced)).status == 413


async def test_head() -> None:
    """Guards that HEAD is told the length and sent no body."""

    async def handle(exchange: Exchange) -> None:
        if exchange.request.path == "/stream":
            async with exchange.stream(200) as send:
                await send(b"never")
        else:
            await exchange.respond(200, (), b"four")

    caller = await call(ASGIApp(handle), Caller(), method="HEAD")
    assert caller.body == b""
    assert (b"content-length", b"4") in caller.sent[0]["headers"]
    caller = await call(ASGIApp(handle), Caller(), method="HEAD", path="/stream")
    assert caller.body == b""


async def test_stream() -> None:
    """Guards streaming: a message a piece, and one more for the end; empty ones are left out."""

    async def handle(exchange: Exchange) -> None:
        async with exchange.stream(200, [("Content-Type", "text/event-stream")]) as send:
            await send(b"a")
            await send(b"")
            await send(b"b")

    caller = await call(ASGIApp(handle), Caller())
    assert caller.sent == [
        {
            "type": "http.response.start",
            "status": 200,
            "headers": [(b"content-type", b"text/event-stream")],
        },
        {"type": "http.response.body", "body": b"a", "more_body": True},
        {"type": "http.response.body", "body": b"b", "more_body": True},
        {"type": "http.response.body", "body": b"", "more_body": False},
    ]


async def test_pieces_of_many_tasks_are_sent_in_turn() -> None:
    """Guards servers whose `send` is for one task at a time: ASGI does not promise more."""
    sending = False

    async def send_alone(message: Message) -> None:
        nonlocal sending
        assert not sending
        sending = True
        await trio.testing.wait_all_tasks_blocked()
        sending = False

    async def handle(exchange: Exchange) -> None:
        async with exchange.stream(200) as send, trio.open_nursery() as nursery:
            for _ in range(3):
                nursery.start_soon(send, b"x")
        done.append(exchange)

    done: list[Exchange] = []
    await ASGIApp(handle)(scope(), Caller().receive, send_alone)
    assert done


async def test_failing_handler(caplog: pytest.LogCaptureFixture) -> None:
    """Guards that errors become a 500, and that an answer that broke off gets no proper end."""

    async def handle(exchange: Exchange) -> None:
        if exchange.request.path == "/stream":
            async with exchange.stream(200) as send:
                await send(b"a")
                raise ValueError
        raise ValueError

    assert (await call(ASGIApp(handle), Caller())).status == 500
    caller = await call(ASGIApp(handle), Caller(), path="/stream")
    assert [message.get("more_body") for message in caller.sent] == [None, True]
    assert len(caplog.records) == 2


@pytest.mark.parametrize("read_first", [True, False])
async def test_disconnect_cancels(
    read_first: bool, autojump_clock: trio.testing.MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    """Guards that the news of the disconnect reaches a handler that waits for something else."""
    ends: list[float] = []

    async def handle(exchange: Exchange) -> None:
        if read_first:
            assert await exchange.body(10) == b"body"
        with exchange.cancelled_by_disconnect() as cancelled:
            await trio.sleep(100)
        assert cancelled.cancelled_caught
        ends.append(trio.current_time())
        with pytest.raises(ClientGone):
            await exchange.respond(200)

    caller = Caller(body(b"bo", more=True), body(b"dy"))
    async with trio.open_nursery() as nursery:
        nursery.start_soon(call, ASGIApp(handle), caller)
        await trio.sleep(3)
        caller.give(GONE)
    assert ends == [3]
    assert not caller.sent
    assert not caplog.records


async def test_late_body_is_kept_for_a_handler_that_waits() -> None:
    """Guards that watching for the disconnect does not eat the body that comes in between."""

    async def handle(exchange: Exchange) -> None:
        await trio.testing.wait_all_tasks_blocked()
        await echo(exchange)

    caller = await call(ASGIApp(handle), Caller(body(b"a", more=True), body(b"b")))
    assert caller.body == b"ab"


async def test_disconnect_in_the_body() -> None:
    """Guards that a body that is cut off is not taken for a whole one."""
    errors: list[BaseException] = []

    async def handle(exchange: Exchange) -> None:
        try:
            await exchange.body(10)
        except ClientGone as error:
            errors.append(error)
            raise

    caller = await call(ASGIApp(handle), Caller(body(b"a", more=True), GONE))
    assert len(errors) == 1
    assert not caller.sent


async def test_send_that_fails(caplog: pytest.LogCaptureFixture) -> None:
    """Guards against servers that say by an OSError that the client has gone, as ASGI has it."""

    async def handle(exchange: Exchange) -> None:
        async with exchange.stream(200) as send:
            await send(b"x")

    async def broken(message: Message) -> None:
        raise BrokenPipeError

    caller = Caller()
    await ASGIApp(handle)(scope(), caller.receive, broken)
    assert not caplog.records


async def test_other_scopes() -> None:
    """Guards that a websocket is refused, and an unknown scope is an error."""
    caller = Caller({"type": "websocket.connect"})
    await ASGIApp(echo)({"type": "websocket"}, caller.receive, caller.send)
    assert caller.sent[0]["type"] == "websocket.close"
    with pytest.raises(ValueError, match="'other'"):
        await ASGIApp(echo)({"type": "other"}, caller.receive, caller.send)


class Lifespan:
    """A lifespan that notes what happens to it."""

    def __init__(self, fail: str = "") -> None:
        self.events: list[str] = []
        self.fail = fail

    @asynccontextmanager
    async def __call__(self) -> AsyncIterator[None]:
        await self._note("startup")
        async with trio.open_nursery() as nursery:
            nursery.start_soon(trio.sleep_forever)
            yield
            nursery.cancel_scope.cancel()
        await self._note("shutdown")

    async def _note(self, event: str) -> None:
        await trio.lowlevel.checkpoint()
        self.events.append(event)
        if self.fail == event:
            raise ValueError(f"no {event} today")


async def test_lifespan() -> None:
    """Guards that a lifespan holds for as long as the server runs, and that requests need it."""
    lifespan = Lifespan()
    shutting_down: list[trio.Event] = []

    async def handle(exchange: Exchange) -> None:
        shutting_down.append(exchange.shutting_down)
        await exchange.respond(200)

    app = ASGIApp(handle, lifespan=lifespan)
    for _ in range(2):  # it may run again
        with pytest.raises(RuntimeError, match=r"app\.running"):
            await call(app, Caller())
        caller = Caller({"type": "lifespan.startup"})
        async with trio.open_nursery() as nursery:
            nursery.start_soon(app, {"type": "lifespan"}, caller.receive, caller.send)
            await trio.testing.wait_all_tasks_blocked()
            assert lifespan.events == ["startup"]
            assert (await call(app, Caller())).status == 200
            with pytest.raises(RuntimeError, match="already"):
                async with app.running():
                    raise AssertionError
            assert not shutting_down[-1].is_set()
            caller.give({"type": "lifespan.shutdown"})
        assert shutting_down[-1].is_set()
        assert lifespan.events == ["startup", "shutdown"]
        assert [message["type"] for message in caller.sent] == [
            "lifespan.startup.complete",
            "lifespan.shutdown.complete",
        ]
        lifespan.events.clear()


@pytest.mark.parametrize("phase", ["startup", "shutdown"])
async def test_failing_lifespan(phase: str, caplog: pytest.LogCaptureFixture) -> None:
    """Guards that the ASGI server hears that, and why, a lifespan failed."""
    app = ASGIApp(echo, lifespan=Lifespan(fail=phase))
    caller = Caller({"type": "lifespan.startup"}, {"type": "lifespan.shutdown"})
    await app({"type": "lifespan"}, caller.receive, caller.send)
    failed = {"type": f"lifespan.{phase}.failed", "message": f"no {phase} today"}
    assert caller.sent[-1] == failed
    assert "ValueError" in caplog.text


async def test_mounted_without_lifespan() -> None:
    """Guards frameworks that do not pass the lifespan on: the block does the same."""
    lifespan = Lifespan()
    app = ASGIApp(echo, lifespan=lifespan)
    async with app.running():
        assert (await call(app, Caller(body(b"x")))).body == b"x"
    assert lifespan.events == ["startup", "shutdown"]
    async with ASGIApp(echo).running():
        pass


async def _scenario() -> None:
    async def handle(exchange: Exchange) -> None:
        with exchange.cancelled_by_disconnect():
            async with exchange.stream(200) as send:
                await send(await exchange.body(10))
                await trio.sleep(10)

    app = ASGIApp(handle, lifespan=Lifespan())
    async with app.running(), trio.open_nursery() as nursery:
        caller = Caller(body(b"a", more=True), body(b"b"))
        nursery.start_soon(call, app, caller)
        await trio.sleep(1)
        caller.give(GONE)


def test_cancelled_anywhere() -> None:
    """Guards that no step of a call is a bad one to cancel it."""
    assert exhaustive_cancellation(_scenario) > 10


# Under a real server


@asynccontextmanager
async def hypercorn(app: ASGIApp, **settings: Any) -> AsyncIterator[str]:
    """The address of `app` under Hypercorn, which is shut down as its command would do it."""
    config = Config()
    config.bind = ["127.0.0.1:0"]
    config.errorlog = logging.getLogger("hypercorn.error")
    for name, value in settings.items():
        setattr(config, name, value)
    shutdown = trio.Event()
    ready: Callable[..., Awaitable[None]] = partial(
        serve,
        app,  # type: ignore[arg-type]  # its own classes for what ASGI calls dictionaries
        config,
        shutdown_trigger=shutdown.wait,
    )
    async with trio.open_nursery() as nursery:
        (address,) = await nursery.start(ready)
        yield address
        shutdown.set()


async def test_hypercorn_end_to_end() -> None:
    """Guards the whole way: bodies, streams, HEAD and the lifespan under a real server."""
    lifespan = Lifespan()

    async def handle(exchange: Exchange) -> None:
        if exchange.request.path == "/stream":
            async with exchange.stream(200) as send:
                for n in range(3):
                    await send(b"%d" % n)
        else:
            await echo(exchange)

    async with hypercorn(ASGIApp(handle, lifespan=lifespan)) as url, httpx.AsyncClient() as http:
        assert lifespan.events == ["startup"]
        for size in (0, 1, 3 << 20):
            answer = await http.post(url, content=bytes(size))
            assert (answer.status_code, len(answer.content)) == (200, size)
        assert (await http.get(f"{url}/stream")).text == "012"
        assert (await http.head(url)).status_code == 200
    assert lifespan.events == ["startup", "shutdown"]


async def test_hypercorn_disconnect() -> None:
    """Guards that a handler under Hypercorn hears within a moment that its client has gone."""
    started, ended = trio.Event(), trio.Event()

    async def handle(exchange: Exchange) -> None:
        await exchange.body(10)
        with exchange.cancelled_by_disconnect():
            if exchange.request.path == "/stream":
                async with exchange.stream(200) as send:
                    await send(b"x")
                    started.set()
                    await trio.sleep_forever()
            started.set()
            await trio.sleep_forever()
        ended.set()

    async with hypercorn(ASGIApp(handle)) as url:
        for path in (b"/", b"/stream"):
            started, ended = trio.Event(), trio.Event()
            port = int(url.rpartition(":")[2])
            client = RawClient(await trio.open_tcp_stream("127.0.0.1", port))
            await client.send(post(b"x", path=path))
            with trio.fail_after(5):
                await started.wait()
                await client.stream.aclose()
                await ended.wait()


async def test_hypercorn_sees_what_breaks_off(caplog: pytest.LogCaptureFixture) -> None:
    """Guards that an answer that breaks off reaches the client as such through Hypercorn."""

    async def handle(exchange: Exchange) -> None:
        async with exchange.stream(200) as send:
            await send(b"half")
            raise ValueError

    async with hypercorn(ASGIApp(handle)) as url:
        port = int(url.rpartition(":")[2])
        client = RawClient(await trio.open_tcp_stream("127.0.0.1", port))
        answer = await client.ask(GET)
        assert (answer.body, answer.whole) == (b"half", False)
        await client.stream.aclose()
    assert "ValueError" in caplog.text
