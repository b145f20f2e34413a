"""HTTP+SSE, the transport of 2024-11-05: one stream that stays open, and a place to post to.

The client opens an event stream. Its first event names the URL that takes the client's messages,
each by a POST; everything that the server says comes as events of the one stream. So this is an
ordinary stream of frames, with the two directions on different connections: when the event stream
ends, so does the connection, for there is no way to resume it (MCP 2024-11-05, basic/transports).

The URL comes from a stranger, and what is sent there may carry the user's credentials: only one of
the same origin is taken.
"""

import logging
from collections import deque
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Final

import httpx
import trio

from mcp_trio.connection import FrameStream, open_private_nursery
from mcp_trio.exceptions import TransportError
from mcp_trio.protocol.errors import INTERNAL_ERROR
from mcp_trio.transports.http_endpoint import (
    SEND_TIMEOUT,
    Endpoint,
    open_endpoint,
    same_origin,
)
from mcp_trio.transports.http_pending import GET_HEADERS, POST_HEADERS
from mcp_trio.transports.http_reply import Reply, shown
from mcp_trio.wire.jsonrpc import (
    ErrorObject,
    ErrorResponse,
    Notification,
    Request,
    RequestId,
    decode,
    encode,
)
from mcp_trio.wire.ndjson import CLIENT_LINE_LIMIT, LineTooLong
from mcp_trio.wire.sse import EventTooLong, ServerSentEvent, SSEParser

logger = logging.getLogger("mcp_trio")

#: Seconds that a server has to say where messages go.
ENDPOINT_TIME: Final = 10.0

#: Told of a request that could not be posted.
OnRefused = Callable[[RequestId, Exception], object]


@asynccontextmanager
async def open_sse(
    url: str,
    *,
    http: httpx.AsyncClient | None = None,
    headers: Mapping[str, str] | None = None,
    send_timeout: float = SEND_TIMEOUT,
    limit: int = CLIENT_LINE_LIMIT,
) -> AsyncIterator[FrameStream]:
    """A stream of frames to an HTTP+SSE server, for the length of a block.

    `open_client` finds out by itself that a URL is one of these; this is for those who know.

    Args:
        url: Where the event stream is, often ending in `/sse`.
        http: The user's own httpx client; not closed here.
        headers: Go with each request.
        send_timeout: Seconds for each of: getting a free connection, connecting, sending.
        limit: The most bytes that one message may have.

    Raises:
        TransportError: The server cannot be reached, or is no such server.
    """
    opening = open_endpoint(url, http=http, headers=headers, send_timeout=send_timeout)
    async with opening as endpoint, open_sse_at(endpoint, limit) as stream:
        yield stream


@asynccontextmanager
async def open_sse_at(
    endpoint: Endpoint, limit: int, on_refused: OnRefused | None = None
) -> AsyncIterator["SSEStream"]:
    """The same at an endpoint that is there already.

    Args:
        on_refused: Told of each request that could not be posted; without it, such a request is
            answered with an error in the server's place.
    """
    async with open_private_nursery() as nursery:
        stream = SSEStream(endpoint, limit, on_refused)
        await nursery.start(stream.run)
        await stream.wait_ready()
        try:
            yield stream
        finally:
            stream.shut()


class SSEStream(FrameStream):
    """The client's end of an HTTP+SSE connection, made by `open_sse`."""

    _nursery: trio.Nursery

    def __init__(self, endpoint: Endpoint, limit: int, on_refused: OnRefused | None = None) -> None:
        self._endpoint = endpoint
        self._target: Endpoint | None = None
        self._limit = limit
        self._on_refused = on_refused
        # Whoever reads takes all that is there at once and never waits with it, so what is in here
        # is what has come since then.
        self._arrived: deque[bytes] = deque()
        self._news = trio.lowlevel.ParkingLot()
        self._ended = False
        self._shut = False
        self._failure: Exception | None = None

    async def wait_ready(self) -> None:
        """Wait until the server has said where messages go.

        Raises:
            TransportError: It has not, in time.
        """
        with trio.move_on_after(ENDPOINT_TIME):
            while self._target is None and not self._ended:
                await self._news.park()
        if self._target is not None:
            return
        if isinstance(self._failure, EventTooLong):
            raise TransportError(f"{self._endpoint.name}: {self._failure}") from self._failure
        raise self._failure or TransportError(
            f"{self._endpoint.name} opened no event stream that says where messages go"
        )

    async def receive(self) -> list[bytes]:
        await trio.lowlevel.checkpoint()
        while not self._arrived:
            if isinstance(self._failure, EventTooLong):
                raise LineTooLong(self._limit)
            if self._failure is not None:
                raise trio.BrokenResourceError from self._failure
            if self._ended:
                return []
            await self._news.park()
        frames = list(self._arrived)
        self._arrived.clear()
        return frames

    async def send(self, frames: Sequence[bytes]) -> None:
        """Post each frame.

        A server may take its time to confirm a request, even until it has the answer to one of its
        own, so nobody waits for that. Notifications keep their place in the order.
        """
        for frame in frames:
            if self._shut:
                raise trio.ClosedResourceError("the stream was closed")
            match decode(frame):
                case Request(id=id):
                    self._nursery.start_soon(self._post, frame, id)
                case Notification():
                    with trio.move_on_after(self._endpoint.send_timeout):
                        await self._post(frame, None)
                case _:
                    self._nursery.start_soon(self._post, frame, None)

    async def aclose(self) -> None:
        self.shut()
        await trio.lowlevel.checkpoint()

    def shut(self) -> None:
        """Let go of the event stream, and of what is being posted."""
        self._shut = True
        self._end(None)
        self._nursery.cancel_scope.cancel()

    async def run(self, task_status: trio.TaskStatus[None]) -> None:
        """Have the tasks of the stream, until it is shut. Does not raise.

        They have a nursery of their own, which `shut` can cancel without cancelling whoever holds
        the stream.
        """
        async with trio.open_nursery() as self._nursery:
            self._nursery.start_soon(self._listen)
            task_status.started()
            await trio.sleep_forever()

    async def _listen(self) -> None:
        """Read the event stream to its end. Does not raise: `receive` does."""
        try:
            async with self._endpoint.open("GET", GET_HEADERS) as reply:
                if not reply.ok:
                    raise (await reply.refusal()).error
                if not reply.is_stream:
                    raise reply.error(problem=f"{reply.media_type or 'it'} is no event stream")
                await self._read(reply)
        except Exception as error:  # a hook of the user's httpx client may raise anything
            self._end(error)
        else:
            self._end(None)

    async def _read(self, reply: Reply) -> None:
        parser = SSEParser(self._limit)

        def sink(piece: bytes) -> None:
            for event in parser.feed(piece):
                self._take(event, reply)
            self._news.unpark_all()

        await reply.pour(sink)

    def _take(self, event: ServerSentEvent, reply: Reply) -> None:
        if event.event == "endpoint":
            if self._target is None:
                self._target = self._endpoint.at(self._posting_url(event.data, reply))
        elif self._target is None:
            raise TransportError(f"{reply.name}: the first event is not the endpoint to post to")
        elif event.event == "message" and event.data:
            self._arrived.append(event.data)

    def _posting_url(self, data: bytes, reply: Reply) -> httpx.URL:
        try:
            url = self._endpoint.url.join(data.decode("ascii").strip())
        except (httpx.InvalidURL, UnicodeDecodeError) as error:
            raise TransportError(f"{reply.name}: the endpoint to post to is no URL") from error
        if not same_origin(self._endpoint.url, url):
            raise TransportError(
                f"{reply.name}: messages are to be posted to {shown(url)}, which is another "
                "origin, and not done"
            )
        return url

    async def _post(self, frame: bytes, id: RequestId | None) -> None:
        assert self._target is not None
        try:
            async with self._target.open("POST", POST_HEADERS, frame) as reply:
                if not reply.ok:
                    raise (await reply.refusal()).error
                await reply.drain()
        except Exception as error:  # a hook of the user's httpx client may raise anything
            self._refused(id, error)

    def _refused(self, id: RequestId | None, error: Exception) -> None:
        if id is None:
            logger.warning("a message did not reach the server: %s", error)
        elif self._on_refused is not None:
            self._on_refused(id, error)
        else:
            self._arrived.append(encode(ErrorResponse(id, ErrorObject(INTERNAL_ERROR, str(error)))))
            self._news.unpark_all()

    def _end(self, failure: Exception | None) -> None:
        if not self._ended:
            self._ended = True
            self._failure = failure
        self._news.unpark_all()
