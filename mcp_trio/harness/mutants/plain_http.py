"""The plainest way to put a server of frames behind Streamable HTTP: one client, one session."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from itertools import count

from mcp_trio.client.targets import InProcessServer
from mcp_trio.connection import MemoryFrameStream, memory_frame_pair, open_private_nursery
from mcp_trio.harness.http_scripted import HTTPRequest, open_http
from mcp_trio.wire.jsonrpc import RequestId


@asynccontextmanager
async def open_over_http(server: InProcessServer, *, streams: bool) -> AsyncIterator[str]:
    """Serve each POST with a frame of its own; the URL.

    What the server says without having been asked is lost, as it may be without a GET stream.

    Args:
        streams: Answer by streams of events instead of by JSON.
    """
    near, far = memory_frame_pair()
    face = _Face(near, streams=streams)
    numbers = count(1)
    async with open_private_nursery() as nursery:
        nursery.start_soon(server.serve_frames, far)
        nursery.start_soon(face.read)
        async with open_http(face.answer, lambda: next(numbers)) as origin:
            yield f"{origin}/mcp"


class _Face:
    def __init__(self, stream: MemoryFrameStream, *, streams: bool) -> None:
        self._stream = stream
        self._streams = streams
        self._waiting: dict[RequestId, HTTPRequest] = {}

    async def answer(self, request: HTTPRequest) -> None:
        if request.method != "POST":
            await request.reply.whole(405)
            return
        message = json.loads(request.body)
        if "method" in message and "id" in message:
            self._waiting[message["id"]] = request
        else:
            await request.reply.whole(202)
        await self._stream.send([request.body])

    async def read(self) -> None:
        while frames := await self._stream.receive():
            for frame in frames:
                request = self._waiting.pop(json.loads(frame).get("id"), None)
                if request is not None:
                    await self._reply(request, frame)

    async def _reply(self, request: HTTPRequest, frame: bytes) -> None:
        if not self._streams:
            await request.reply.whole(200, frame, "application/json")
            return
        await request.reply.begin_events()
        await request.reply.event(frame)
        await request.reply.end()
