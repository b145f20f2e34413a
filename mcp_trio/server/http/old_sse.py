"""HTTP+SSE, the transport of 2024-11-05: one stream of events down, POSTs up.

A client connects by a GET and is told, in the first event, where to post its messages. The
connection is that GET: when it ends, all is over. So this is a stream of frames like any other,
and only how the frames get in is peculiar.
(MCP 2024-11-05, basic/transports, HTTP with SSE)
"""

import secrets
from collections.abc import Sequence
from typing import TYPE_CHECKING
from urllib.parse import parse_qs, quote

import attrs
import trio

from mcp_trio.connection import MEMORY_FRAMES, FrameStream
from mcp_trio.protocol.errors import INVALID_REQUEST
from mcp_trio.server.http.negotiation import SSE_TYPE, accepts, is_json
from mcp_trio.server.http.options import Settings
from mcp_trio.server.http.replies import SSE_HEADERS, Refused
from mcp_trio.server.http.sessions import ID_BYTES
from mcp_trio.server.http.visit import Visit
from mcp_trio.server.serving import serve_client
from mcp_trio.server.state import principal_name
from mcp_trio.transports.http_exchange import ClientGone, SendPiece
from mcp_trio.wire.sse import encode_comment, encode_event

if TYPE_CHECKING:
    from mcp_trio.server.app import Server


@attrs.define(eq=False)
class EventFrames(FrameStream):
    """Frames of one client: they come from POSTs and leave as events."""

    owner: str | None
    _send: SendPiece
    _posted: trio.MemorySendChannel[bytes]
    _arrived: trio.MemoryReceiveChannel[bytes]

    async def receive(self) -> list[bytes]:
        try:
            return [await self._arrived.receive()]
        except trio.EndOfChannel:
            return []

    async def send(self, frames: Sequence[bytes]) -> None:
        try:
            await self._send(b"".join(encode_event(frame, event="message") for frame in frames))
        except ClientGone as exc:
            raise trio.BrokenResourceError(str(exc)) from exc

    async def aclose(self) -> None:
        self._posted.close()
        self._arrived.close()
        await trio.lowlevel.checkpoint()

    async def post(self, frame: bytes) -> None:
        """Take a frame that the client has posted, waiting while it sends faster than we read."""
        await self._posted.send(frame)

    def end(self) -> None:
        """Nothing more will be taken; what is being worked on has a moment to finish."""
        self._posted.close()


class OldSSEEndpoints:
    """The two endpoints of HTTP+SSE for one server."""

    def __init__(self, server: "Server", settings: Settings) -> None:
        self._server = server
        self._messages_path = settings.messages_path
        self._keep_alive = settings.keep_alive
        self._clients: dict[str, EventFrames] = {}

    async def connect(self, visit: Visit) -> None:
        """Serve the client that makes this GET until it is gone."""
        exchange, request = visit.exchange, visit.exchange.request
        if request.method != "GET":
            raise Refused(405, INVALID_REQUEST, "Connect with GET.", headers={"allow": "GET"})
        if not accepts(request.headers.get("accept"), SSE_TYPE):
            raise Refused(406, INVALID_REQUEST, f"The answer is {SSE_TYPE}; Accept has to say so.")
        id = secrets.token_urlsafe(ID_BYTES)
        url = f"{quote(request.root_path)}{self._messages_path}?session_id={id}"
        channel = trio.open_memory_channel[bytes](MEMORY_FRAMES)
        async with exchange.stream(200, SSE_HEADERS) as send:
            stream = self._clients[id] = EventFrames(
                principal_name(visit.principal), send, *channel
            )
            try:
                with exchange.cancelled_by_disconnect() as watch:
                    await send(encode_event(url.encode(), event="endpoint"))
                    await self._serve(stream, visit)
            finally:
                del self._clients[id]
            if watch.cancelled_caught:
                raise ClientGone("the client went away")

    async def _serve(self, stream: EventFrames, visit: Visit) -> None:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._show_life, stream)
            lifespan = visit.running.value
            await serve_client(self._server, stream, lifespan, principal=visit.principal)
            nursery.cancel_scope.cancel()

    async def _show_life(self, stream: EventFrames) -> None:
        try:
            while True:
                await trio.sleep(self._keep_alive)
                await stream._send(encode_comment())
        except ClientGone:
            return  # whoever watches the client is told as well

    async def post(self, visit: Visit) -> None:
        """Take a message for the client's connection; what it is answered comes there."""
        exchange, request = visit.exchange, visit.exchange.request
        if request.method != "POST":
            raise Refused(405, INVALID_REQUEST, "Send with POST.", headers={"allow": "POST"})
        ids = parse_qs(request.query).get("session_id", [])
        stream = self._clients.get(ids[0]) if len(ids) == 1 else None
        if stream is None or stream.owner != principal_name(visit.principal):
            raise Refused(404, INVALID_REQUEST, "There is no such connection, or it has ended.")
        if not is_json(request.headers.get("content-type")):
            raise Refused(415, INVALID_REQUEST, "A message is application/json.")
        body = await exchange.body(self._server.line_limit)
        try:
            await stream.post(body)
        except (trio.BrokenResourceError, trio.ClosedResourceError):
            raise Refused(404, INVALID_REQUEST, "The connection has ended.") from None
        await exchange.respond(202, {"content-type": "text/plain"}, b"Accepted")

    def end(self) -> None:
        """Let all connections come to their end, as before a shutdown."""
        for stream in self._clients.values():
            stream.end()
