"""Servers reached over HTTP: Streamable HTTP in both eras, and HTTP+SSE of 2024-11-05.

On Streamable HTTP each frame is the body of a POST of its own, and what comes back for it, one JSON
object or event after event, are the frames that are received:

    send(frame) ──▶ a task: POST ──▶ JSON, or events ──▶ receive()
                    GET, in the legacy era ──▶ events ──▶

The wire does what every client has to do for its messages to arrive, and no more: the headers of
the revision, the session's id, the stream to listen on, and to go on where a stream broke off. A
POST that is refused without a JSON-RPC answer is told of by `on_refused`.
"""

from __future__ import annotations

import json
from abc import abstractmethod
from collections.abc import AsyncIterator, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from typing import Any, Final

import attrs
import trio

from mcp_trio.connection import open_private_nursery
from mcp_trio.exceptions import TransportError
from mcp_trio.harness.exchange import Exchange
from mcp_trio.harness.http_plain import (
    LISTENING,
    POSTING,
    HTTPClient,
    HTTPStream,
    is_json,
    open_http,
)
from mcp_trio.harness.model import Transport
from mcp_trio.harness.targets import ServerTarget
from mcp_trio.harness.wires import FrameWire, Wire, WireEnded
from mcp_trio.protocol.revisions import is_modern
from mcp_trio.transports.http_endpoint import open_endpoint
from mcp_trio.transports.http_mirroring import Mirroring, modern_version
from mcp_trio.transports.sse_client import open_sse_at
from mcp_trio.wire.http_headers import LAST_EVENT_ID, METHOD, PROTOCOL_VERSION, SESSION_ID
from mcp_trio.wire.jsonrpc import JSON, JSONObject, Response
from mcp_trio.wire.ndjson import CLIENT_LINE_LIMIT

#: Seconds that a server has to take what gets no answer, before the next frame is sent all the
#: same; to open the stream to listen on; and to end a session.
TAKE_TIME: Final = 5.0
OPEN_TIME: Final = 0.5
END_TIME: Final = 1.0
#: Seconds before a stream is resumed, if the server does not say how many; and how often at most.
RESUME_AFTER: Final = 0.2
MOST_RESUMES: Final = 20

VERSION_HEADER_SINCE: Final = "2025-06-18"


@attrs.frozen
class WebTarget(ServerTarget):
    """A server with a URL.

    Attributes:
        name: The URL.
        headers: Sent with each request.
        mirroring: What arguments of the server's tools go into headers, as far as any wire has
            heard; modern servers ask for it.
    """

    name: str
    words: str
    headers: Mapping[str, str] | None = attrs.field(default=None, repr=False)
    mirroring: Mirroring = attrs.field(factory=Mirroring, repr=False, init=False)

    def open_http(self, exchange: Exchange) -> AbstractAsyncContextManager[HTTPClient]:
        """A client for plain requests to this server."""
        return open_http(self.name, self.headers, exchange)

    @abstractmethod
    def open_wire(self, exchange: Exchange) -> AbstractAsyncContextManager[Wire]: ...

    def for_client(self) -> str:
        return self.name


@attrs.frozen
class HTTPTarget(WebTarget):
    """A server with an MCP endpoint of Streamable HTTP."""

    transport: Transport = "http"

    @asynccontextmanager
    async def open_wire(self, exchange: Exchange) -> AsyncIterator[Wire]:
        number = exchange.next_connection()
        async with open_http(self.name, self.headers, exchange, number) as http:
            try:
                async with open_private_nursery() as nursery:
                    wire = HTTPWire(http, exchange, number, nursery, self.mirroring)
                    try:
                        yield wire
                    finally:
                        wire.closed = True
            finally:
                with trio.CancelScope(deadline=trio.current_time() + END_TIME, shield=True):
                    await wire.end_session()


class HTTPWire(Wire):
    """Streamable HTTP as a wire; made by `HTTPTarget`.

    Attributes:
        http: Sends requests just as they are told.
        session_id: What the server calls this session; None before it said so, or if it does not.
        listens: Open a stream for what belongs to no request, once the handshake is over.
        closed: Nothing can be sent any more, as its block is over or one of its tasks failed.
    """

    def __init__(
        self,
        http: HTTPClient,
        exchange: Exchange,
        number: int,
        nursery: trio.Nursery,
        mirroring: Mirroring,
    ) -> None:
        super().__init__("http", exchange, number)
        self.http = http
        self.session_id: str | None = None
        self.listens = True
        self.closed = False
        self._nursery = nursery
        self._mirroring = mirroring
        self._version: str | None = None  # the legacy one, once it is agreed on
        self._put, self._frames = trio.open_memory_channel[bytes](float("inf"))
        self._requests: dict[str, trio.CancelScope] = {}

    # Frames

    async def send(self, frame: bytes) -> None:
        """POST a frame.

        Returns at once if it is a request or an answer, else when the server has taken it.

        A modern cancellation is what this transport has for it: the end of the request's stream.
        """
        if self.closed:
            raise WireEnded("the connection is closed")
        message = _read(frame)
        method = message.get("method")
        if method == "notifications/cancelled" and self._is_modern(message):
            await self._cancel(message)
            return
        post = _Post(frame)
        if post.waiting or ("id" in message and "method" not in message):
            self._nursery.start_soon(self._run, post)
            await trio.lowlevel.checkpoint()
            return
        with trio.move_on_after(TAKE_TIME):
            self._nursery.start_soon(self._run, post)
            await post.taken.wait()
        if method == "notifications/initialized" and self.listens and not self._is_modern(message):
            with trio.move_on_after(OPEN_TIME):
                await self._nursery.start(self._listen)

    async def receive(self) -> bytes:
        return await self._frames.receive()

    async def negotiated(self, version: str) -> None:
        self._version = version
        await trio.lowlevel.checkpoint()

    # Headers

    def headers(self, message: JSONObject) -> dict[str, str]:
        """What a message goes with, besides what goes with every POST."""
        if self._is_modern(message):
            return self._mirrored(message)
        found = {}
        if self.session_id is not None:
            found[SESSION_ID] = self.session_id
        if self._version is not None and self._version >= VERSION_HEADER_SINCE:
            found[PROTOCOL_VERSION] = self._version
        return found

    def _is_modern(self, message: JSONObject) -> bool:
        if modern_version(_params(message)) is not None:
            return True
        if message.get("method") == "initialize":
            return False
        return self.revision is not None and is_modern(self.revision)

    def _mirrored(self, message: JSONObject) -> dict[str, str]:
        """The headers of a modern message; of one that cannot have them, as many as it can."""
        params = _params(message)
        version = modern_version(params) or self.revision or ""
        method = message.get("method")
        if not isinstance(method, str):
            return {PROTOCOL_VERSION: version}
        try:
            return self._mirroring.headers(method, params, version)
        except TransportError as error:
            self.note(str(error))
            found = {PROTOCOL_VERSION: version, METHOD: method}
            return {
                name: text for name, text in found.items() if text.isascii() and text.isprintable()
            }

    # Requests

    async def _run(self, post: _Post) -> None:
        """Send a frame and take what comes back. Does not raise."""
        with trio.CancelScope() as scope:
            self._requests.update(dict.fromkeys(post.waiting, scope))
            try:
                await self._post(post)
            except TransportError as error:
                self.on_refused(post.id, str(error))
        for key in [key for key, of in self._requests.items() if of is scope]:
            del self._requests[key]
        post.taken.set()

    async def _post(self, post: _Post) -> None:
        headers = {**POSTING, **self.headers(post.message)}
        async with self.http.open("POST", headers, post.frame) as stream:
            self._look_at(post.message, stream)
            if not stream.is_stream:
                await stream.wait_ended()
                self._take_body(post, stream)
                return
            post.taken.set()
            await self._take_events(post, stream)
        if post.waiting and not self._is_modern(post.message):
            await self._resume(post, stream)
        if post.waiting:
            self.on_refused(post.id, "the stream of its POST ended without the answer")

    def _take_body(self, post: _Post, stream: HTTPStream) -> None:
        reply = stream.reply()
        if is_json(stream.media_type) and reply.body.strip():
            self._arrived(post, reply.body)
        if post.waiting or not (reply.ok or post.answered):
            self.on_refused(post.id, f"its POST got {reply.brief()}")

    async def _take_events(self, post: _Post, stream: HTTPStream) -> None:
        while (event := await stream.next()) is not None:
            if event.event == "message" and event.data:
                self._arrived(post, event.data)

    async def _resume(self, post: _Post, stream: HTTPStream) -> None:
        """Go on with the stream of a request where it ended, as long as the server has us do so."""
        last, retry = stream.last_event_id, stream.retry
        for _ in range(MOST_RESUMES):
            if not last or not post.waiting:
                return
            await trio.sleep(RESUME_AFTER if retry is None else retry)
            headers = {**LISTENING, **self.headers({}), LAST_EVENT_ID: last}
            async with self.http.open("GET", headers) as again:
                if again.status != 200 or not again.is_stream:
                    return
                await self._take_events(post, again)
            last, retry = again.last_event_id or last, again.retry or retry

    def _look_at(self, message: JSONObject, stream: HTTPStream) -> None:
        if message.get("method") == "initialize" and SESSION_ID in stream.headers:
            self.session_id = stream.headers[SESSION_ID]

    def _arrived(self, post: _Post, frame: bytes) -> None:
        post.look_at(frame)
        self._put.send_nowait(frame)
        if post.message.get("method") == "tools/list":
            self._learn(frame)

    def _learn(self, frame: bytes) -> None:
        result = _read(frame).get("result")
        if isinstance(result, dict):
            self._mirroring.learn(Response(1, result))

    async def _cancel(self, message: JSONObject) -> None:
        key = json.dumps(_params(message).get("requestId"))
        scope = self._requests.get(key)
        self.note(f"the harness closes the stream of request {key}")
        if scope is not None:
            scope.cancel()
        await trio.lowlevel.checkpoint()

    # The legacy session

    async def _listen(self, task_status: trio.TaskStatus[None]) -> None:
        """Hold a stream open for what belongs to no request. Does not raise."""
        last = ""
        for attempt in range(MOST_RESUMES):
            headers = {**LISTENING, **self.headers({})}
            if last:
                headers[LAST_EVENT_ID] = last
            try:
                async with self.http.open("GET", headers) as stream:
                    if attempt == 0:
                        task_status.started()
                    if stream.status != 200 or not stream.is_stream:
                        return
                    while (event := await stream.next()) is not None:
                        if event.event == "message" and event.data:
                            self._put.send_nowait(event.data)
            except TransportError:
                if attempt == 0:
                    task_status.started()
                return
            last = stream.last_event_id or last
            await trio.sleep(RESUME_AFTER if stream.retry is None else stream.retry)

    async def end_session(self) -> None:
        """Tell the server that the session is over, if there is one. Does not raise."""
        if self.session_id is not None:
            with suppress(TransportError):
                await self.http.request("DELETE", self.headers({}), timeout=END_TIME)


class _Post:
    """A frame on its way.

    Attributes:
        message: What it is to any reader; empty if it is no object.
        id: The id in it.
        waiting: The ids of its requests (several in a batch) that are not answered, as JSON.
        answered: An answer to one of them has come.
        taken: Set once the server has taken it, or has refused it.
    """

    def __init__(self, frame: bytes) -> None:
        self.frame = frame
        self.message = _read(frame)
        self.id: JSON = self.message.get("id")
        self.waiting = {
            json.dumps(item["id"])
            for item in _items(frame)
            if "id" in item and isinstance(item.get("method"), str)
        }
        self.answered = False
        self.taken = trio.Event()

    def look_at(self, frame: bytes) -> None:
        for item in _items(frame):
            if "method" not in item and (key := json.dumps(item.get("id"))) in self.waiting:
                self.waiting.remove(key)
                self.answered = True


@attrs.frozen
class SSETarget(WebTarget):
    """A server with the two endpoints of 2024-11-05."""

    transport: Transport = "sse"

    @asynccontextmanager
    async def open_wire(self, exchange: Exchange) -> AsyncIterator[Wire]:
        wire: FrameWire | None = None

        def on_refused(id: JSON, error: Exception) -> None:
            if wire is not None:
                wire.on_refused(id, str(error))

        async with (
            open_endpoint(self.name, headers=self.headers) as endpoint,
            open_sse_at(endpoint, CLIENT_LINE_LIMIT, on_refused) as stream,
        ):
            wire = FrameWire("sse", exchange, stream)
            yield wire


def _read(frame: bytes) -> JSONObject:
    """The object in a frame; an empty one if it holds none."""
    value = _value(frame)
    return value if isinstance(value, dict) else {}


def _items(frame: bytes) -> list[JSONObject]:
    """The objects of a batch, or the one that a frame is."""
    value = _value(frame)
    items = value if isinstance(value, list) else [value]
    return [item for item in items if isinstance(item, dict)]


def _value(frame: bytes) -> Any:
    try:
        return json.loads(frame)
    except (ValueError, RecursionError):
        return None


def _params(message: JSONObject) -> dict[str, Any]:
    params = message.get("params")
    return params if isinstance(params, dict) else {}
