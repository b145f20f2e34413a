"""A request that is answered where it was read: by the task of the HTTP exchange itself.

That is how all modern requests are answered, and legacy ones where there are no sessions. There
is no connection behind such a request and no task of its own, only this:

    the exchange's task:  handler ─────────────────────────────▶ result ─▶ JSON
                             │ notify(), the first one              │
    a writer's task:         └─▶ opens a stream ─▶ event ─▶ event ──┴─▶ event, end of stream

Most handlers send nothing before their result, so most requests need no second task. When one is
needed, it cannot live in a nursery that does not exist yet: it lives in that of the running
server, and the exchange's task waits for it, or cancels it, before it lets go of the exchange.
"""

from collections.abc import Callable, Coroutine
from typing import Any

import attrs
import trio

from mcp_trio.connection import CLOSE_TIME
from mcp_trio.exceptions import Closed
from mcp_trio.incoming import IncomingRequest, answer_request, encode_answer
from mcp_trio.outbox import Outbox
from mcp_trio.peer import Peer
from mcp_trio.server.http.replies import JSON_HEADERS, SSE_HEADERS, logger, pump, status_of
from mcp_trio.transports.http_exchange import ClientGone, Exchange
from mcp_trio.wire.jsonrpc import ErrorResponse, JSONObject, Notification, Response, encode
from mcp_trio.wire.sse import encode_event


def nobody(nursery: trio.Nursery) -> Peer:
    """The peer of requests that belong to no connection: whatever is sent to it fails."""

    async def never(_incoming: IncomingRequest) -> JSONObject:
        raise AssertionError("nothing is ever fed to it")

    peer = Peer(nursery, Outbox(), handle=never, on_notification=lambda _notification: None)
    peer.close(Closed("over HTTP this client can be reached only while it waits for an answer"))
    return peer


@attrs.define(eq=False)
class DirectRequest(IncomingRequest):
    """A request whose answer is the response of one HTTP exchange.

    Attributes:
        exchange: The exchange.
        nursery: Where a writer may live.
        keep_alive: Seconds of silence after which a stream gets a sign of life.
        modern: In the modern era the client cancels the handler by going away, and errors have
            an HTTP status of their own.
    """

    exchange: Exchange = attrs.field(kw_only=True)
    nursery: trio.Nursery = attrs.field(kw_only=True, repr=False)
    keep_alive: float = attrs.field(kw_only=True)
    modern: bool = attrs.field(kw_only=True)
    _stream: "_Stream | None" = attrs.field(default=None, init=False, repr=False)

    @property
    def silenced(self) -> bool:
        return self.answered or self.scope.cancel_called

    async def notify(self, method: str, params: JSONObject | None = None) -> None:
        if self.silenced:
            await trio.lowlevel.checkpoint()
            return
        frame = encode(Notification(method, params))
        if self._stream is None:
            self._stream = _Stream(self)
            self.nursery.start_soon(self._stream.write)
        await self._stream.put(frame)
        await trio.lowlevel.cancel_shielded_checkpoint()  # see `Peer.notify`

    async def answer(
        self, handle: Callable[[IncomingRequest], Coroutine[Any, Any, JSONObject]]
    ) -> None:
        """Run the handler and send what it returns or raises.

        Raises:
            ClientGone: Nobody is there to be answered.
        """
        try:
            answer = await answer_request(handle, self)
            if not self.silenced:
                self.answered = True
                if self._stream is not None:
                    await self._stream.finish(encode_answer(answer))
        finally:
            if self._stream is not None:
                await self._stream.stop()
        if not self.answered:
            raise ClientGone("the client went away before there was an answer")
        if self._stream is None:
            await self._respond(answer)

    async def _respond(self, answer: Response | ErrorResponse) -> None:
        status = 200
        if self.modern and isinstance(answer, ErrorResponse):
            status = status_of(answer.error)
        await self.exchange.respond(status, JSON_HEADERS, encode_answer(answer))


class _Stream:
    """The events of one request, and the task that sends them."""

    def __init__(self, request: DirectRequest) -> None:
        self._request = request
        self._outbox = Outbox()
        self._taken: list[bytes] = []
        self._scope = trio.CancelScope()
        self._done = trio.Event()

    async def put(self, frame: bytes) -> None:
        """Send a frame, waiting for room; does nothing if the client has gone."""
        try:
            await self._outbox.put(frame)
        except trio.ClosedResourceError:
            await trio.lowlevel.checkpoint()

    async def finish(self, frame: bytes) -> None:
        """Send the last frame, and wait until everything is sent."""
        await self.put(frame)
        self._outbox.close()
        await self._done.wait()

    async def stop(self) -> None:
        """Make sure that nothing of this touches the exchange any more."""
        if not self._done.is_set():
            self._scope.cancel()
            with trio.CancelScope(deadline=trio.current_time() + CLOSE_TIME, shield=True):
                await self._done.wait()

    async def write(self) -> None:
        """The writer's task."""
        request = self._request
        whole = False
        try:
            with self._scope:
                async with request.exchange.stream(200, SSE_HEADERS) as send:
                    await pump(self, send, request.keep_alive)
                whole = True
        except ClientGone:
            pass
        except Exception:  # would end the server for all others
            logger.exception("sending the events of %s failed", request.method)
        finally:
            self._outbox.close()
            self._done.set()
            if not whole and request.modern:
                request.scope.cancel()

    # An EventSource

    async def take(self) -> list[bytes]:
        self._taken = await self._outbox.take()
        return [encode_event(frame) for frame in self._taken]

    def written(self) -> None:
        self._outbox.written(self._taken)
