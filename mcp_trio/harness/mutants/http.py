"""Mutants of HTTP: the healthy demo server, and a fault between it and its HTTP requests.

    checker ──▶ our own HTTP listener ──▶ HTTPFault ──▶ the handler of the demo server
            ◀──                       ◀──           ◀──

The fault sees each request, and the head and every piece of what comes back, and may put something
else in its place; or it answers by itself. All of it is in this process, over real sockets.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from functools import partial
from typing import Any, TypeAlias

import attrs
import trio

from mcp_trio.connection import open_private_nursery
from mcp_trio.harness.mutants import Mutant
from mcp_trio.harness.targets import ServerTarget, url_target
from mcp_trio.server.app import Server
from mcp_trio.server.http.handler import HTTPHandler
from mcp_trio.server.http.options import HTTPOptions
from mcp_trio.transports.http_connection import serve_http_connection
from mcp_trio.transports.http_exchange import (
    Exchange,
    Handle,
    Headers,
    HTTPRequest,
    ResponseHeaders,
    SendPiece,
)

Fields: TypeAlias = dict[str, str]


@attrs.frozen(eq=False)
class Seen:
    """A request as its client sent it.

    Attributes:
        body: Its body.
        message: The JSON object in it; empty if there is none.
    """

    request: HTTPRequest
    body: bytes
    message: dict[str, Any]

    @property
    def is_post(self) -> bool:
        return self.request.method == "POST"

    @property
    def method(self) -> str | None:
        """The method of the message."""
        return self.message.get("method")

    @property
    def id(self) -> Any:
        return self.message.get("id")

    @property
    def params(self) -> dict[str, Any]:
        params = self.message.get("params")
        return params if isinstance(params, dict) else {}

    @property
    def is_modern(self) -> bool:
        return (self.request.headers.get("mcp-protocol-version") or "") >= "2026"


class HTTPFault:
    """One fault, made anew for each server. The first line of its docstring says what it does."""

    def arrived(self, data: bytes | bytearray) -> bytes | bytearray:
        """What arrives in place of some bytes of a connection."""
        return data

    async def handle(self, exchange: Exchange, serve: Handle) -> None:
        """Answer a request; by default the healthy server does, and the rest of this changes it."""
        request = exchange.request
        body = await exchange.body(LONGEST_BODY) if request.method == "POST" else b""
        seen = Seen(request, body, _object(body))
        own = self.answer(seen)
        if own is None:
            await serve(_Changed(exchange, self, seen))
        else:
            status, value = own
            await exchange.respond(status, JSON_FIELDS if value else (), value)

    def answer(self, seen: Seen) -> tuple[int, bytes] | None:
        """The answer in place of the server's; None for the server's."""
        return None

    def request(self, seen: Seen) -> HTTPRequest:
        """What reaches the server in place of a request's head."""
        return seen.request

    def body(self, seen: Seen) -> bytes:
        """What reaches the server in place of a request's body."""
        return seen.body

    def head(self, seen: Seen, status: int, fields: Fields) -> tuple[int, Fields]:
        """What reaches the client in place of the head of a response."""
        return status, fields

    def whole(self, seen: Seen, body: bytes) -> bytes:
        """What reaches the client in place of a response's body."""
        return body

    def piece(self, seen: Seen, piece: bytes) -> bytes:
        """What reaches the client in place of some events of a stream."""
        return piece

    def last(self, seen: Seen) -> bytes:
        """What comes behind the last event of a stream."""
        return b""

    async def linger(self, seen: Seen) -> None:
        """Wait before a stream is ended."""
        await trio.lowlevel.checkpoint()


LONGEST_BODY = 16 * 1024 * 1024
JSON_FIELDS = {"content-type": "application/json"}


def refusal(code: int, message: str, id: Any = None) -> bytes:
    """A JSON-RPC error."""
    error = {"code": code, "message": message}
    return json.dumps({"jsonrpc": "2.0", "id": id, "error": error}).encode()


def _object(body: bytes) -> dict[str, Any]:
    try:
        value = json.loads(body)
    except ValueError:
        return {}
    return value if isinstance(value, dict) else {}


def with_headers(request: HTTPRequest, **changes: str | None) -> HTTPRequest:
    """A request with other headers; underscores stand for hyphens, None takes one away."""
    changed = {name.replace("_", "-").encode(): value for name, value in changes.items()}
    kept = [(name, value) for name, value in request.headers.raw() if name not in changed]
    added = [(name, value.encode()) for name, value in changed.items() if value is not None]
    return attrs.evolve(request, headers=Headers([*kept, *added]))


class _Changed(Exchange):
    """An exchange as the server sees it, with the fault on both ways."""

    def __init__(self, exchange: Exchange, fault: HTTPFault, seen: Seen) -> None:
        self._exchange = exchange
        self._fault = fault
        self._seen = seen
        self.request = fault.request(seen)
        self.shutting_down = exchange.shutting_down

    async def body(self, limit: int) -> bytes:
        await trio.lowlevel.checkpoint()
        return self._fault.body(self._seen)

    async def respond(self, status: int, headers: ResponseHeaders = (), body: bytes = b"") -> None:
        changed, fields = self._fault.head(self._seen, status, dict(headers))
        await self._exchange.respond(changed, fields, self._fault.whole(self._seen, body))

    @asynccontextmanager
    async def stream(self, status: int, headers: ResponseHeaders = ()) -> AsyncIterator[SendPiece]:
        changed, fields = self._fault.head(self._seen, status, dict(headers))
        async with self._exchange.stream(changed, fields) as send:

            async def send_changed(piece: bytes) -> None:
                await send(self._fault.piece(self._seen, piece))

            yield send_changed
            await send(self._fault.last(self._seen))
            await self._fault.linger(self._seen)

    def cancelled_by_disconnect(self) -> trio.CancelScope:
        return self._exchange.cancelled_by_disconnect()

    @property
    def scope(self) -> trio.CancelScope:
        return self._exchange.scope

    def cancel_with_client(self) -> None:
        self._exchange.cancel_with_client()

    @property
    def answered(self) -> bool:
        return self._exchange.answered


class _Heard(trio.abc.Stream):
    """A connection whose bytes pass the fault."""

    def __init__(self, stream: trio.SocketStream, fault: HTTPFault) -> None:
        self._stream = stream
        self._fault = fault

    async def receive_some(self, max_bytes: int | None = None) -> bytes | bytearray:
        return self._fault.arrived(await self._stream.receive_some(max_bytes))

    async def send_all(self, data: bytes | bytearray | memoryview) -> None:
        await self._stream.send_all(data)

    async def wait_send_all_might_not_block(self) -> None:
        await self._stream.wait_send_all_might_not_block()

    async def aclose(self) -> None:
        await self._stream.aclose()


@attrs.frozen
class Setting:
    """How the healthy server is served.

    Attributes:
        server: Makes it; the demo server by default.
        options: Of `Server.serve_http`.
        host: Where it listens.
        sse: It is spoken to over HTTP+SSE.
        headers: Of the target.
        benign: A fault that is none: it is there in the healthy server, too.
    """

    server: Callable[[], Server] | None = None
    options: HTTPOptions = attrs.field(factory=HTTPOptions)
    host: str = "127.0.0.1"
    sse: bool = False
    headers: dict[str, str] | None = None
    benign: Callable[[], HTTPFault] = HTTPFault


def http_mutant(
    id: str,
    fault: Callable[[], HTTPFault],
    catches: Sequence[str],
    setting: Setting | None = None,
    healthy: Setting | None = None,
) -> Mutant:
    """A mutant of a server that listens on a port of this computer.

    Args:
        id: Its name.
        fault: Makes the fault, for each server.
        catches: The checks that must fail on it.
        setting: How the server is served.
        healthy: The same for the healthy one, if it is another.
    """
    setting = setting or Setting()
    text = (fault.__doc__ or "").strip().partition("\n")[0]
    return Mutant(
        id,
        text,
        tuple(catches),
        partial(_serving, setting, fault),
        partial(_serving, healthy or setting, (healthy or setting).benign),
    )


@asynccontextmanager
async def _serving(setting: Setting, fault: Callable[[], HTTPFault]) -> AsyncIterator[ServerTarget]:
    server = setting.server() if setting.server else _demo()
    options: HTTPOptions = {"sse_path": "/sse", **setting.options}
    handler = HTTPHandler(server, **options)
    made = fault()

    async def serve(stream: trio.SocketStream) -> None:
        await serve_http_connection(handle, _Heard(stream, made))

    async def handle(exchange: Exchange) -> None:
        await made.handle(exchange, handler)

    async with (
        server.open_run(shared=False),
        handler.serving(),
        open_private_nursery() as nursery,
    ):
        listeners: list[Any] = await nursery.start(
            partial(trio.serve_tcp, serve, 0, host=setting.host)
        )
        port = listeners[0].socket.getsockname()[1]
        path = "/sse" if setting.sse else "/mcp"
        url = f"http://127.0.0.1:{port}{path}"
        yield url_target(url, headers=setting.headers, sse=setting.sse)


def _demo() -> Server:
    from mcp_trio.demo import server

    return server
