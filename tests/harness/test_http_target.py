"""The harness's wire over HTTP: it does what messages need, and hides nothing."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from functools import partial

import pytest
import trio

from mcp_trio.demo import server as demo
from mcp_trio.harness.exchange import Exchange as Evidence
from mcp_trio.harness.http_target import HTTPTarget, HTTPWire
from mcp_trio.harness.model import Failed
from mcp_trio.harness.session import Session, open_session
from mcp_trio.harness.wires import WireEnded
from mcp_trio.transports.http_connection import serve_http_connection
from mcp_trio.transports.http_exchange import Exchange

LEGACY, MODERN = "2025-11-25", "2026-07-28"
JSON = {"content-type": "application/json"}
EVENTS = {"content-type": "text/event-stream"}
Handler = Callable[[Exchange], Awaitable[None]]


@asynccontextmanager
async def serving(handler: Handler) -> AsyncIterator[HTTPTarget]:
    """A target whose requests are answered by a function."""

    async def serve(stream: trio.SocketStream) -> None:
        await serve_http_connection(handler, stream)

    async with trio.open_nursery() as nursery:
        listeners: list[trio.SocketListener] = await nursery.start(
            partial(trio.serve_tcp, serve, 0, host="127.0.0.1")
        )
        port = listeners[0].socket.getsockname()[1]
        yield HTTPTarget(f"http://127.0.0.1:{port}/mcp", "words")
        nursery.cancel_scope.cancel()


@asynccontextmanager
async def speaking(
    handler: Handler, revision: str, *, handshake: bool = False
) -> AsyncIterator[tuple[Session, Evidence]]:
    evidence = Evidence()
    with trio.fail_after(10):
        async with (
            serving(handler) as target,
            target.open_wire(evidence) as wire,
            open_session(wire, revision, deadline=5, handshake=handshake) as session,
        ):
            yield session, evidence


def result(message: dict[str, object]) -> bytes:
    return json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": {}}).encode()


async def test_a_refused_request_is_not_waited_for() -> None:
    """A status without an answer ends one request, at once and with its reason, and no other."""

    async def handler(exchange: Exchange) -> None:
        message = json.loads(await exchange.body(10_000))
        if message["method"] == "tools/list":
            await exchange.respond(503, {"content-type": "text/plain"}, b"busy")
        else:
            await exchange.respond(200, JSON, result(message))

    async with speaking(handler, MODERN) as (session, evidence):
        began = trio.current_time()
        with pytest.raises(Failed, match=r"tools/list \(id 1\): .*503.*busy"):
            await session.request("tools/list")
        assert trio.current_time() - began < 2
        assert [refused.id for refused in session.refused] == [1]
        assert (await session.request("server/discover")).result == {}
    assert b"busy" in [entry.data for entry in evidence.entries]


async def test_an_error_with_a_status_is_an_answer() -> None:
    """A JSON-RPC error in the body of a refusal is what the session gets."""

    async def handler(exchange: Exchange) -> None:
        message = json.loads(await exchange.body(10_000))
        error = {"code": -32601, "message": "none"}
        await exchange.respond(
            404, JSON, json.dumps({"jsonrpc": "2.0", "id": message["id"], "error": error}).encode()
        )

    async with speaking(handler, MODERN) as (session, _):
        assert (await session.request("harness/none")).code == -32601
        assert session.refused == []


async def test_a_modern_request_has_its_headers() -> None:
    """Version, method and name stand in headers, or a modern server would refuse the message."""
    seen = []

    async def handler(exchange: Exchange) -> None:
        message = json.loads(await exchange.body(10_000))
        headers = exchange.request.headers
        seen.append([headers.get(f"mcp-{name}") for name in ("protocol-version", "method", "name")])
        await exchange.respond(200, JSON, result(message))

    async with speaking(handler, MODERN) as (session, _):
        await session.request("resources/read", {"uri": "memo://a"})
    assert seen == [[MODERN, "resources/read", "memo://a"]]


async def test_a_modern_cancellation_closes_the_stream() -> None:
    """Over HTTP, that is how a request is cancelled in this era; no message is sent."""
    bodies, gone = [], trio.Event()

    async def handler(exchange: Exchange) -> None:
        bodies.append(json.loads(await exchange.body(10_000)))
        with exchange.cancelled_by_disconnect() as scope:
            await trio.sleep_forever()
        if scope.cancelled_caught:
            gone.set()

    async with speaking(handler, MODERN) as (session, _):
        id = await session.post("tools/call", {"name": "slow"})
        while not bodies:  # noqa: ASYNC110 (it is elsewhere)
            await trio.sleep(0.01)
        await session.notify("notifications/cancelled", {"requestId": id})
        await gone.wait()
    assert [body["method"] for body in bodies] == ["tools/call"]


async def test_a_stream_that_ends_early_is_resumed() -> None:
    """A legacy server may close a stream and send the rest to who comes back with its id."""
    came_back = []

    async def handler(exchange: Exchange) -> None:
        if exchange.request.method == "GET":
            came_back.append(exchange.request.headers.get("last-event-id"))
            async with exchange.stream(200, EVENTS) as send:
                await send(b"data: " + result({"id": 1}) + b"\n\n")
            return
        await exchange.body(10_000)
        async with exchange.stream(200, EVENTS) as send:
            await send(b"id: here\nretry: 10\ndata:\n\n")

    async with speaking(handler, LEGACY) as (session, _):
        assert (await session.request("ping")).result == {}
    assert came_back == ["here"]


async def test_a_legacy_session_is_kept_and_ended() -> None:
    """Its id goes with each request after the first, and DELETE comes last."""
    evidence = Evidence()

    with trio.fail_after(10):
        async with trio.open_nursery() as nursery:
            listeners: list[trio.SocketListener] = await nursery.start(demo.serve_http, 0)
            port = listeners[0].socket.getsockname()[1]
            target = HTTPTarget(f"http://127.0.0.1:{port}/mcp", "words")
            async with (
                target.open_wire(evidence) as wire,
                open_session(wire, LEGACY, deadline=5) as session,
            ):
                assert isinstance(wire, HTTPWire)
                assert wire.session_id
                await session.request("ping")
                id = wire.session_id
            nursery.cancel_scope.cancel()
    labels = [entry.label for entry in evidence.entries if entry.kind == "sent"]
    assert [label.split(" ")[0] for label in labels] == ["POST", "POST", "GET", "POST", "DELETE"]
    assert all((id in label) == (number > 0) for number, label in enumerate(labels))
    assert all((LEGACY in label) == (number > 0) for number, label in enumerate(labels))


async def test_nothing_can_be_sent_once_it_is_over() -> None:
    """Who still holds a wire that has ended is told so; a fuzz run ended with an error instead."""

    async def handler(exchange: Exchange) -> None:
        await exchange.respond(200, JSON, result(json.loads(await exchange.body(10_000))))

    with trio.fail_after(10):
        async with serving(handler) as target:
            async with target.open_wire(Evidence()) as wire:
                pass
            with pytest.raises(WireEnded):
                await wire.send(b'{"jsonrpc":"2.0","id":1,"method":"ping"}')


async def test_a_note_may_quote_anything() -> None:
    """A method that is no text ended the connection, and the server was blamed for it."""
    evidence = Evidence()
    evidence.note("\ud800 cannot be sent", 1)
    assert evidence.entries[-1].data == rb"\ud800 cannot be sent"
