"""A client made of nothing but frames: what a test sends is what the server gets."""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import trio

from mcp_trio import Server
from mcp_trio.connection import MemoryFrameStream, memory_frame_pair
from mcp_trio.protocol import meta as keys

JSONObject = dict[str, Any]

MODERN_META: JSONObject = {
    keys.PROTOCOL_VERSION: "2026-07-28",
    keys.CLIENT_INFO: {"name": "raw", "version": "1"},
    keys.CLIENT_CAPABILITIES: {},
}


class Raw:
    """Sends messages and keeps what comes back until somebody asks for it."""

    def __init__(self, stream: MemoryFrameStream) -> None:
        self.stream = stream
        self.received: list[JSONObject] = []
        self._last_id = 0

    async def send(self, *messages: Any) -> None:
        """Send JSON values, or bytes as they are, in one write."""
        await self.stream.send(
            [m if isinstance(m, bytes) else json.dumps(m).encode() for m in messages]
        )

    async def receive(self) -> JSONObject:
        """The next message of the server's."""
        while not self.received:
            frames = await self.stream.receive()
            if not frames:
                raise EOFError
            self.received += map(json.loads, frames)
        return self.received.pop(0)

    def request_message(
        self, method: str, params: JSONObject | None = None, *, id: Any = None
    ) -> JSONObject:
        if id is None:
            self._last_id += 1
            id = self._last_id
        message: JSONObject = {"jsonrpc": "2.0", "id": id, "method": method}
        if params is not None:
            message["params"] = params
        return message

    async def request(self, method: str, params: JSONObject | None = None) -> JSONObject:
        """Send a request and wait for the answer to it; other messages stay in `received`."""
        message = self.request_message(method, params)
        await self.send(message)
        return await self.answer_to(message["id"])

    async def answer_to(self, id: Any) -> JSONObject:
        others: list[JSONObject] = []
        while True:
            got = await self.receive()
            if got.get("id") == id and "method" not in got:
                self.received[:0] = others
                return got
            others.append(got)

    async def modern(
        self, method: str, params: JSONObject | None = None, **meta: Any
    ) -> JSONObject:
        """A request of the modern era."""
        full = {**(params or {}), "_meta": {**MODERN_META, **meta}}
        return await self.request(method, full)

    async def result(self, method: str, params: JSONObject | None = None) -> JSONObject:
        """The result of a modern request."""
        answer = await self.modern(method, params)
        assert "result" in answer, answer
        result: JSONObject = answer["result"]
        return result

    async def error(self, method: str, params: JSONObject | None = None) -> JSONObject:
        """The error of a modern request."""
        answer = await self.modern(method, params)
        assert "error" in answer, answer
        error: JSONObject = answer["error"]
        return error

    async def initialize(
        self, version: str = "2025-11-25", capabilities: JSONObject | None = None
    ) -> JSONObject:
        """The legacy handshake; returns the result of `initialize`."""
        params = {
            "protocolVersion": version,
            "capabilities": capabilities or {},
            "clientInfo": {"name": "raw", "version": "1"},
        }
        answer = await self.request("initialize", params)
        assert "result" in answer, answer
        await self.send({"jsonrpc": "2.0", "method": "notifications/initialized"})
        result: JSONObject = answer["result"]
        return result


@asynccontextmanager
async def open_raw(server: Server) -> AsyncIterator[Raw]:
    """A raw client of a server that is served for the length of the block."""
    near, far = memory_frame_pair()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(server.serve_frames, far)
        try:
            yield Raw(near)
        finally:
            nursery.cancel_scope.cancel()


@asynccontextmanager
async def open_legacy(server: Server, version: str = "2025-11-25") -> AsyncIterator[Raw]:
    """A raw client after the legacy handshake."""
    async with open_raw(server) as raw:
        await raw.initialize(version)
        yield raw
