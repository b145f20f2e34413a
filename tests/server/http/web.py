"""HTTP without a network: exchanges in memory, and a client that makes them.

The handler sees an `Exchange` as from any face. The test sees the response as it comes, and can
go away, or stop reading, at any time.
"""

import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

import attrs
import trio

from mcp_trio import Server
from mcp_trio.server.http.handler import HTTPHandler
from mcp_trio.transports.http_exchange import (
    BodyTooLarge,
    ClientGone,
    Exchange,
    Headers,
    HTTPRequest,
    RequestError,
    ResponseHeaders,
    SendPiece,
)
from mcp_trio.wire.sse import ServerSentEvent, SSEParser
from tests.server.raw import MODERN_META

JSONObject = dict[str, Any]

ACCEPT = "application/json, text/event-stream"
POSTING = {"host": "127.0.0.1:8000", "content-type": "application/json", "accept": ACCEPT}


class FakeExchange(Exchange):
    """One request and what became of it.

    Attributes:
        status, headers: Of the response, as soon as there is one; names in lower case.
        text: The body so far.
        done: Set when the handler has returned.
        cut: Whether the response broke off.
        reading: Cleared to be a client that does not read.
    """

    def __init__(self, request: HTTPRequest, body: bytes) -> None:
        self.request = request
        self.shutting_down = trio.Event()
        self.status: int | None = None
        self.headers: dict[str, str] = {}
        self.text = b""
        self.done = trio.Event()
        self.cut = False
        self.reading = True
        self._body = body
        self._gone = False
        self._scope = trio.CancelScope()
        self._scopes: list[trio.CancelScope] = []
        self._news = trio.lowlevel.ParkingLot()
        self._parser = SSEParser(2_000_000)
        self._events: list[ServerSentEvent] = []
        self._parsed = 0

    # The handler's side

    @property
    def answered(self) -> bool:
        return self.status is not None

    async def body(self, limit: int) -> bytes:
        await trio.lowlevel.checkpoint()
        if len(self._body) > limit:
            raise BodyTooLarge("too large")
        return self._body

    async def respond(self, status: int, headers: ResponseHeaders = (), body: bytes = b"") -> None:
        await self._begin(status, headers)
        await self._receive(body)

    @asynccontextmanager
    async def stream(self, status: int, headers: ResponseHeaders = ()) -> AsyncIterator[SendPiece]:
        await self._begin(status, headers)
        try:
            yield self._receive
        except BaseException:
            self.cut = True
            raise
        await self._receive(b"")

    async def _begin(self, status: int, headers: ResponseHeaders) -> None:
        if self.answered:
            raise RuntimeError("answered already")
        await self._receive(b"")
        self.status = status
        pairs = headers.items() if isinstance(headers, Mapping) else headers
        self.headers = {name.lower(): value for name, value in pairs}
        self._news.unpark_all()

    async def _receive(self, piece: bytes) -> None:
        await trio.lowlevel.checkpoint()
        while not self.reading and not self._gone:
            await self._news.park()
        if self._gone:
            raise ClientGone("gone")
        self.text += piece
        self._news.unpark_all()

    @property
    def scope(self) -> trio.CancelScope:
        return self._scope

    def cancel_with_client(self) -> None:
        self._cancel_at_end(self._scope)

    def cancelled_by_disconnect(self) -> trio.CancelScope:
        scope = trio.CancelScope()
        self._cancel_at_end(scope)
        return scope

    def _cancel_at_end(self, scope: trio.CancelScope) -> None:
        if self._gone:
            scope.cancel()
        self._scopes.append(scope)

    # The test's side

    def leave(self) -> None:
        """Be a client that closes the connection."""
        self._gone = True
        for scope in self._scopes:
            scope.cancel()
        self._news.unpark_all()

    def stall(self, *, reading: bool = False) -> None:
        """Stop reading, or go on."""
        self.reading = reading
        self._news.unpark_all()

    async def answer(self) -> Any:
        """The JSON of the complete response."""
        await self.done.wait()
        assert self.headers.get("content-type") == "application/json", (self.status, self.text)
        return json.loads(self.text)

    async def head(self) -> int:
        """Wait for the status."""
        while self.status is None and not self.done.is_set():
            await self._news.park()
        assert self.status is not None
        return self.status

    async def event(self) -> ServerSentEvent:
        """The next event; EOFError at the end."""
        while True:
            self._events += self._parser.feed(self.text[self._parsed :])
            self._parsed = len(self.text)
            if self._events:
                return self._events.pop(0)
            await trio.lowlevel.checkpoint_if_cancelled()
            if self.done.is_set():
                raise EOFError
            await self._news.park()

    async def message(self) -> Any:
        """The next message in an event, past those without content."""
        while not (event := await self.event()).data:
            pass
        return json.loads(event.data)

    async def messages(self) -> list[Any]:
        """All messages to the end of the stream."""
        found = []
        while True:
            try:
                found.append(await self.message())
            except EOFError:
                return found


@attrs.define
class Web:
    """Makes requests to a handler."""

    handler: HTTPHandler
    nursery: trio.Nursery

    def start(
        self,
        method: str,
        path: str = "/mcp",
        headers: Mapping[str, str] | None = None,
        body: bytes = b"",
        *,
        root_path: str = "",
    ) -> FakeExchange:
        """Make a request and do not wait for anything."""
        exchange = self.exchange(method, path, headers, body, root_path=root_path)
        self.nursery.start_soon(self._serve, exchange)
        return exchange

    def exchange(
        self,
        method: str,
        path: str = "/mcp",
        headers: Mapping[str, str] | None = None,
        body: bytes = b"",
        *,
        root_path: str = "",
    ) -> FakeExchange:
        """A request that nobody handles yet."""
        path, _, query = path.partition("?")
        fields = {"host": "127.0.0.1:8000", **(headers or {})}
        raw = [(name.lower().encode(), value.encode()) for name, value in fields.items()]
        request = HTTPRequest(method, path, query, Headers(raw), "127.0.0.1", "http", root_path)
        return FakeExchange(request, body)

    async def _serve(self, exchange: FakeExchange) -> None:
        try:
            with exchange.scope:
                await self.handler(exchange)
                assert exchange.answered, "the handler did not answer"
        except RequestError as error:
            await exchange.respond(error.status)
        except ClientGone:
            pass
        finally:
            exchange.done.set()
            exchange._news.unpark_all()

    async def fetch(self, method: str, path: str = "/mcp", **kwargs: Any) -> FakeExchange:
        """Make a request and wait for all of the response."""
        exchange = self.start(method, path, **kwargs)
        await exchange.done.wait()
        return exchange

    def post(self, message: Any, headers: Mapping[str, str] | None = None) -> FakeExchange:
        """POST a JSON value, or bytes as they are."""
        body = message if isinstance(message, bytes) else json.dumps(message).encode()
        return self.start("POST", headers={**POSTING, **(headers or {})}, body=body)

    def modern(
        self,
        method: str,
        params: JSONObject | None = None,
        *,
        id: Any = 1,
        meta: JSONObject | None = None,
        headers: Mapping[str, str | None] | None = None,
    ) -> FakeExchange:
        """POST a modern request with the headers that it needs, or others; None leaves one out."""
        full = {**(params or {}), "_meta": {**MODERN_META, **(meta or {})}}
        fields: dict[str, str | None] = {
            "mcp-protocol-version": "2026-07-28",
            "mcp-method": method,
            "mcp-name": full.get("name") or full.get("uri"),
            **(headers or {}),
        }
        sent = {name: value for name, value in fields.items() if value is not None}
        return self.post({"jsonrpc": "2.0", "id": id, "method": method, "params": full}, sent)

    async def initialize(
        self,
        version: str = "2025-11-25",
        capabilities: JSONObject | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> "LegacyClient":
        """Begin a legacy session."""
        params = {
            "protocolVersion": version,
            "capabilities": capabilities or {},
            "clientInfo": {"name": "raw", "version": "1"},
        }
        message = {"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params}
        exchange = self.post(message, headers)
        answer = await exchange.answer()
        assert "result" in answer, answer
        result = answer["result"]
        ours = {
            "mcp-session-id": exchange.headers["mcp-session-id"],
            "mcp-protocol-version": result["protocolVersion"],
            **(headers or {}),
        }
        client = LegacyClient(self, ours, result)
        await client.notify("notifications/initialized")
        return client


@attrs.define
class LegacyClient:
    """A client in a session."""

    web: Web
    headers: dict[str, str]
    initialized: JSONObject

    def request(
        self, method: str, params: JSONObject | None = None, *, id: Any = 1
    ) -> FakeExchange:
        message: JSONObject = {"jsonrpc": "2.0", "id": id, "method": method}
        if params is not None:
            message["params"] = params
        return self.web.post(message, self.headers)

    def call(
        self, name: str, arguments: JSONObject | None = None, *, id: Any = 1, token: Any = None
    ) -> FakeExchange:
        """Call a tool, with a progress token if there is one."""
        params: JSONObject = {"name": name, "arguments": arguments or {}}
        if token is not None:
            params["_meta"] = {"progressToken": token}
        return self.request("tools/call", params, id=id)

    async def notify(self, method: str, params: JSONObject | None = None) -> None:
        message: JSONObject = {"jsonrpc": "2.0", "method": method}
        if params is not None:
            message["params"] = params
        await self.send(message)

    async def send(self, message: Any) -> None:
        """POST what is answered by nothing."""
        exchange = self.web.post(message, self.headers)
        await exchange.done.wait()
        assert exchange.status == 202, (exchange.status, exchange.text)
        assert exchange.text == b""

    def get(self, last_event_id: str | None = None) -> FakeExchange:
        """Listen, or come back to a stream."""
        headers = {**self.headers, "accept": "text/event-stream"}
        if last_event_id is not None:
            headers["last-event-id"] = last_event_id
        return self.web.start("GET", headers=headers)


@asynccontextmanager
async def open_web(server: Server, **options: Any) -> AsyncIterator[Web]:
    """A web with one running server in it."""
    handler = HTTPHandler(server, **options)
    async with server.running(), trio.open_nursery() as nursery:
        yield Web(handler, nursery)
        nursery.cancel_scope.cancel()
