"""A web site without a network: an httpx transport that a test writes as one async function.

    async def site(request: Seen) -> httpx.Response:
        return result(request, {"tools": []})

    web = Web(site)
    async with web.connect(mode="modern") as client: ...
    assert [seen.rpc for seen in web.seen] == ["server/discover", "tools/list"]

Nothing here touches a socket, so tests run under virtual time. `Events` is a body of server-sent
events that the test writes while the client reads, and that knows when the client has let it go.
"""

import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any, TypeAlias

import attrs
import httpx
import trio

import mcp_trio
from mcp_trio.protocol import meta as keys
from tests.client.scripted import LATEST_LEGACY, discovered, initialized

JSONObject: TypeAlias = dict[str, Any]
URL = "http://server.example/mcp"
#: Seconds of virtual time after which a test counts as hanging.
PATIENCE = 10_000


@attrs.define
class Seen:
    """A request as the site saw it."""

    request: httpx.Request
    content: bytes
    at: float
    message: JSONObject = attrs.field(factory=dict)

    @property
    def method(self) -> str:
        return self.request.method

    @property
    def headers(self) -> httpx.Headers:
        return self.request.headers

    @property
    def rpc(self) -> str:
        """The JSON-RPC method, "answer" for an answer of the client, else the HTTP method."""
        if not self.message:
            return self.method
        name: str = self.message.get("method", "answer")
        return name

    @property
    def id(self) -> Any:
        return self.message.get("id")

    @property
    def params(self) -> JSONObject:
        found: JSONObject = self.message.get("params") or {}
        return found


Site: TypeAlias = Callable[[Seen], Awaitable[httpx.Response]]


class Web(httpx.AsyncBaseTransport):
    """What stands in for the network, and what it has seen."""

    def __init__(self, site: Site) -> None:
        self.seen: list[Seen] = []
        self.running = 0
        self._site = site

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        content = await request.aread()
        seen = Seen(request, content, trio.current_time(), json.loads(content) if content else {})
        self.seen.append(seen)
        self.running += 1
        try:
            await trio.lowlevel.checkpoint()
            response = await self._site(seen)
        finally:
            self.running -= 1
        return response

    @property
    def rpcs(self) -> list[str]:
        return [seen.rpc for seen in self.seen]

    def of(self, rpc: str) -> list[Seen]:
        return [seen for seen in self.seen if seen.rpc == rpc]

    @asynccontextmanager
    async def connect(self, url: str = URL, **options: Any) -> AsyncIterator[mcp_trio.Client]:
        with trio.fail_after(PATIENCE):
            async with (
                httpx.AsyncClient(transport=self) as http,
                mcp_trio.open_client(url, http=http, **options) as client,
            ):
                yield client


class Events(httpx.AsyncByteStream):
    """The body of an event stream."""

    def __init__(self, *events: bytes) -> None:
        self._send, self._receive = trio.open_memory_channel[bytes | Exception](1000)
        self.closed = trio.Event()
        for event in events:
            self.write(event)

    def write(self, data: bytes) -> None:
        self._send.send_nowait(data)

    def message(self, message: JSONObject, **fields: object) -> None:
        """Write one message as an event."""
        self.write(event(message, **fields))

    def end(self) -> "Events":
        """End the body as it should be."""
        self._send.close()
        return self

    def cut(self) -> "Events":
        """Break the connection."""
        self._send.send_nowait(httpx.ReadError("Connection reset by peer"))
        return self

    def __aiter__(self) -> "Events":
        return self

    async def __anext__(self) -> bytes:
        await trio.lowlevel.checkpoint()
        try:
            piece = await self._receive.receive()
        except trio.EndOfChannel:
            raise StopAsyncIteration from None
        if isinstance(piece, Exception):
            raise piece
        return piece

    async def aclose(self) -> None:
        self.closed.set()
        await trio.lowlevel.checkpoint()

    def response(self, **headers: str) -> httpx.Response:
        fields = {"content-type": "text/event-stream", **headers}
        return httpx.Response(200, headers=fields, stream=self)


def event(message: JSONObject, **fields: object) -> bytes:
    """One message as a server-sent event; `id` and `retry` as the fields of these names."""
    lines = [f"{name}: {value}\n" for name, value in fields.items()]
    return ("".join(lines) + f"data: {json.dumps(message)}\n\n").encode()


def response_to(seen: Seen, result: JSONObject) -> JSONObject:
    return {"jsonrpc": "2.0", "id": seen.id, "result": result}


def error_to(seen: Seen, code: int, message: str, data: Any = None) -> JSONObject:
    error = {"code": code, "message": message, **({} if data is None else {"data": data})}
    return {"jsonrpc": "2.0", "id": seen.id, "error": error}


def result(seen: Seen, value: JSONObject, **headers: str) -> httpx.Response:
    """200, and the result as JSON."""
    return httpx.Response(200, json=response_to(seen, value), headers=headers)


def refused(seen: Seen, status: int, code: int, message: str, data: Any = None) -> httpx.Response:
    """A status, and a JSON-RPC error as its body."""
    return httpx.Response(status, json=error_to(seen, code, message, data))


def progress(seen: Seen, value: float) -> JSONObject:
    params = {"progressToken": seen.params["_meta"]["progressToken"], "progress": value}
    return {"jsonrpc": "2.0", "method": "notifications/progress", "params": params}


def text(value: str) -> JSONObject:
    """A tool's result."""
    return {"resultType": "complete", "content": [{"type": "text", "text": value}]}


def modern(site: Site) -> Site:
    """A modern server: what is left to `site` are the requests after the first."""

    async def serve(seen: Seen) -> httpx.Response:
        if seen.method != "POST":
            return httpx.Response(405)
        if seen.rpc == "server/discover":
            return result(seen, discovered())
        assert seen.params["_meta"][keys.PROTOCOL_VERSION] == seen.headers["mcp-protocol-version"]
        return await site(seen)

    return serve


class Legacy:
    """A legacy server with sessions; requests go to `site`, GETs to `get`."""

    def __init__(self, site: Site, get: Site | None = None, version: str = LATEST_LEGACY) -> None:
        self.site = site
        self.get = get
        self.version = version
        self.alive: set[str] = set()
        self.begun = 0

    async def __call__(self, seen: Seen) -> httpx.Response:
        if seen.rpc == "initialize":
            self.begun += 1
            session = f"session-{self.begun}"
            self.alive.add(session)
            return result(seen, initialized(self.version), **{"mcp-session-id": session})
        session = seen.headers.get("mcp-session-id", "")
        if not session:
            return refused(seen, 400, -32000, "Bad Request: Server not initialized")
        if session not in self.alive:
            return refused(seen, 404, -32001, "Session not found")
        assert seen.headers["mcp-protocol-version"] == self.version
        if seen.method == "DELETE":
            self.alive.discard(session)
            return httpx.Response(200)
        if seen.method == "GET":
            return httpx.Response(405) if self.get is None else await self.get(seen)
        if seen.id is None or seen.rpc == "answer":
            return httpx.Response(202)
        return await self.site(seen)
