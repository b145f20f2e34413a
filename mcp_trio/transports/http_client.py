"""Streamable HTTP, the client's side: each message travels on its own.

There is no stream here to read from and write to. Each message that the peer sends is a POST in a
task of its own, and what comes back for it, be it one JSON object or a stream of events, is fed to
the same peer:

    outbox.put(request) ──▶ a task: POST ──▶ JSON, or event after event ──▶ peer.feed

Which era a message belongs to can be read off it: a modern one names its protocol version. In the
modern era that is all there is, and to cancel a request is to close the stream of its answer. In
the legacy era there are sessions around it, which is a module of its own (`http_legacy`). And where
`initialize` is refused because the server is older still, this becomes a connection over HTTP+SSE
(`sse_client`), as the specification wants it: whoever uses the peer does not notice.

A request that fails, fails alone: its call raises `TransportError` and the next one tries again.
Only HTTP+SSE has a connection that can be lost as a whole.
"""

import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from functools import partial
from typing import Final

import httpx
import trio

from mcp_trio.connection import Connection, open_private_nursery
from mcp_trio.exceptions import Closed, TransportError
from mcp_trio.incoming import Handler
from mcp_trio.outbox import Outbox
from mcp_trio.peer import Peer
from mcp_trio.protocol.errors import HEADER_MISMATCH, MISSING_CAPABILITY, UNSUPPORTED_VERSION
from mcp_trio.transports.http_endpoint import SEND_TIMEOUT, Endpoint, open_endpoint
from mcp_trio.transports.http_legacy import Sessions
from mcp_trio.transports.http_mirroring import Mirroring, modern_version
from mcp_trio.transports.http_pending import POST_HEADERS, Cursor, PendingRequest, too_long
from mcp_trio.transports.http_reply import CLOSE_TIME, Refusal
from mcp_trio.transports.sse_client import SSEStream, open_sse_at
from mcp_trio.wire.jsonrpc import (
    ErrorResponse,
    Notification,
    Received,
    Request,
    RequestId,
    Response,
    decode,
)
from mcp_trio.wire.ndjson import CLIENT_LINE_LIMIT
from mcp_trio.wire.sse import EventTooLong

logger = logging.getLogger("mcp_trio")

#: How a server refuses a POST that knows HTTP+SSE only.
_OLDER: Final = (400, 404, 405)
_MODERN_ERRORS: Final = (HEADER_MISMATCH, MISSING_CAPABILITY, UNSUPPORTED_VERSION)


class HTTPConnection:
    """A peer whose messages travel over HTTP, made by `open_http_connection`.

    For its peer it is the outbox (see `Outgoing`).

    Args:
        endpoint: Where messages go.
        nursery: Where each has its task; nothing is raised into it.
        limit: The most bytes that one message may have.

    Attributes:
        peer: This end of the connection.
        nursery: Tasks that live as long as the connection may join it; they must not raise.
        sessions: The legacy session, if there is one.
    """

    def __init__(
        self,
        endpoint: Endpoint,
        nursery: trio.Nursery,
        limit: int,
        *,
        handle: Handler,
        on_notification: Callable[[Notification], None],
        on_stray: Callable[[bytes, str], object] | None,
        max_in_flight: int,
    ) -> None:
        self.nursery = nursery
        self.peer = Peer(
            nursery,
            self,
            handle=handle,
            on_notification=on_notification,
            on_stray=on_stray,
            max_in_flight=max_in_flight,
        )
        self.sessions = Sessions(endpoint, nursery, self.peer, limit, self._deliver)
        self._endpoint = endpoint
        self._limit = limit
        self._mirroring = Mirroring()
        self._version = ""  # that of the last modern request
        self._pending: dict[RequestId, PendingRequest] = {}
        self._older: Outbox | None = None  # once this is HTTP+SSE
        self._closed = False

    # What the peer sends

    def put_nowait(
        self, frame: bytes, *, related: RequestId | None = None, exempt: bool = False
    ) -> None:
        """Start to send a frame.

        Raises:
            trio.ClosedResourceError: The connection has ended.
        """
        if self._older is not None:
            self._older.put_nowait(frame, related=related, exempt=exempt)
        else:
            self._start(frame)

    async def put(self, frame: bytes, *, related: RequestId | None = None) -> None:
        """Start to send a frame; if it is a notification, wait until the server has it.

        The next message may rely on it, and would else be on its way at the same time.

        Raises:
            TransportError: The server does not take the notification.
            trio.ClosedResourceError: The connection has ended.
        """
        await trio.lowlevel.checkpoint_if_cancelled()
        if self._older is not None:
            await self._older.put(frame, related=related)
        elif (confirmation := self._start(frame)) is not None:
            await confirmation.wait()
        else:
            await trio.lowlevel.cancel_shielded_checkpoint()

    async def flush(self) -> None:
        """Nothing waits to be written here; what was taken is on its way."""
        await trio.lowlevel.checkpoint()

    def close(self) -> None:
        """Take nothing more."""
        self._closed = True
        if self._older is not None:
            self._older.close()

    def _start(self, frame: bytes) -> "_Confirmation | None":
        if self._closed:
            raise trio.ClosedResourceError("the connection is closed")
        match decode(frame):
            case Request() as request:
                self._start_request(request, frame)
            case Notification(method="notifications/cancelled", params=params):
                self._cancel((params or {}).get("requestId"), frame)
            case Notification() as notification:
                confirmation = _Confirmation()
                self.nursery.start_soon(self._notify, notification, frame, confirmation)
                return confirmation
            case _:
                self.nursery.start_soon(self._answer, frame)
        return None

    def _start_request(self, request: Request, frame: bytes) -> None:
        version = modern_version(request.params)
        pending = PendingRequest(request, frame, version is not None, self._limit, self._deliver)
        self._pending[request.id] = pending
        if version is not None:
            self._version = version
            self.nursery.start_soon(self._run, pending, partial(self._ask_modern, version))
        elif request.method == "initialize":
            self._give_up_modern()
            self.nursery.start_soon(self._run, pending, self._initialize)
        else:
            self.nursery.start_soon(self._run, pending, self.sessions.request)

    def _give_up_modern(self) -> None:
        """Close the probe that had no answer: whoever says `initialize` waits for none."""
        for pending in self._pending.values():
            if pending.modern:
                pending.scope.cancel()

    def _cancel(self, id: RequestId | None, frame: bytes) -> None:
        if id is None or (pending := self._pending.get(id)) is None:
            return
        # To close the stream is the cancellation in one era, and means nothing in the other.
        pending.scope.cancel()
        if not pending.modern:
            self.nursery.start_soon(self._answer, frame)

    # Tasks

    async def _run(
        self, pending: PendingRequest, ask: Callable[[PendingRequest], Awaitable[None]]
    ) -> None:
        """Send a request and take its answer. Whatever goes wrong, its call raises."""
        try:
            with pending.scope:
                await ask(pending)
        except Exception as error:  # a hook of the user's httpx client may raise anything
            self.peer.fail(pending.request.id, error)
        finally:
            if self._pending.get(pending.request.id) is pending:
                del self._pending[pending.request.id]

    async def _ask_modern(self, version: str, pending: PendingRequest) -> None:
        request = pending.request
        if request.method == "tools/list":
            pending.amend = self._mirroring.learn
        params = request.params or {}
        headers = self._mirroring.headers(request.method, params, version)
        opening = self._endpoint.open("POST", {**POST_HEADERS, **headers}, pending.frame)
        async with opening as reply:
            if not reply.ok:
                pending.refuse(await reply.refusal())
                return
            try:
                await pending.read(reply, Cursor(self._limit))
            except EventTooLong as error:
                raise too_long(reply, error) from error
            except TransportError as error:
                if not reply.is_stream:
                    raise
                raise TransportError(f"{error}; the request may be sent again") from error
        if not pending.answered:
            raise TransportError(
                f"{reply.name}: the stream ended without the answer; the request may be sent again"
            )

    async def _initialize(self, pending: PendingRequest) -> None:
        refusal = await self.sessions.begin(pending)
        if refusal is None:
            return
        if _is_older(refusal) and await self._become_older(pending.frame):
            return
        pending.refuse(refusal)

    async def _notify(
        self, notification: Notification, frame: bytes, confirmation: "_Confirmation"
    ) -> None:
        try:
            if self.sessions.session is None and self._version:
                await self._notify_modern(notification, frame)
            else:
                await self.sessions.notify(notification, frame)
        except Exception as error:  # a hook of the user's httpx client may raise anything
            confirmation.failure = error
        else:
            confirmation.failure = None
        finally:
            confirmation.event.set()

    async def _notify_modern(self, notification: Notification, frame: bytes) -> None:
        """The modern era has no notifications of its own for this; a user may have."""
        params = notification.params or {}
        headers = self._mirroring.headers(notification.method, params, self._version)
        refusal = await self._endpoint.tell({**POST_HEADERS, **headers}, frame)
        if refusal is not None:
            raise refusal.error

    async def _answer(self, frame: bytes) -> None:
        """Send what nobody waits for: the answer to a request of the server, a cancellation."""
        try:
            await self.sessions.answer(frame)
        except Exception as error:  # a hook of the user's httpx client may raise anything
            logger.warning("a message did not reach the server: %s", error)

    # What arrives

    def _deliver(self, received: Received, pending: PendingRequest | None) -> None:
        """Feed a message to the peer; an answer ends its request, whatever stream it came by."""
        if isinstance(received, Response | ErrorResponse) and received.id is not None:
            answered = self._pending.get(received.id)
            if answered is not None and answered is not pending:
                answered.scope.cancel()
        self.peer.feed(received)

    # HTTP+SSE

    async def _become_older(self, initialize: bytes) -> bool:
        """Go on as HTTP+SSE, beginning with `initialize`; False if that is not there either."""
        try:
            stream = await self.nursery.start(self._hold_stream)
        except TransportError as error:
            logger.debug("the server does not speak HTTP+SSE either: %s", error)
            return False
        self._older = Outbox()
        Connection(stream, self.peer, self.nursery, self._older, 0.0).start()
        await self._older.put(initialize)
        return True

    async def _hold_stream(self, task_status: trio.TaskStatus[SSEStream]) -> None:
        async with open_sse_at(self._endpoint, self._limit, self.peer.fail) as stream:
            task_status.started(stream)
            await trio.sleep_forever()


class _Confirmation:
    """What a notification is waiting for."""

    def __init__(self) -> None:
        self.event = trio.Event()
        self.failure: Exception | None = trio.ClosedResourceError("the connection is closed")

    async def wait(self) -> None:
        await self.event.wait()
        if self.failure is not None:
            raise self.failure


def _is_older(refusal: Refusal) -> bool:
    """Whether a refused `initialize` may mean that the server knows HTTP+SSE only."""
    answer = refusal.answer
    return refusal.status in _OLDER and (answer is None or answer.error.code not in _MODERN_ERRORS)


@asynccontextmanager
async def open_http_connection(
    url: str,
    *,
    http: httpx.AsyncClient | None = None,
    headers: Mapping[str, str] | None = None,
    send_timeout: float = SEND_TIMEOUT,
    limit: int = CLIENT_LINE_LIMIT,
    handle: Handler,
    on_notification: Callable[[Notification], None],
    on_stray: Callable[[bytes, str], object] | None = None,
    max_in_flight: int = 1000,
    on_new_session: Callable[[], object] | None = None,
) -> AsyncIterator[HTTPConnection]:
    """A connection to an HTTP server for the length of a block, whatever its age.

    Nothing is sent before the peer sends something. Leaving the block closes all streams, and ends
    the session of a legacy server if that takes no longer than a second.

    Args:
        url: The MCP endpoint.
        http: The user's own httpx client; not closed here. Its timeouts do not count.
        headers: Go with each request, except where the protocol says what they are.
        send_timeout: Seconds for each of: getting a free connection, connecting, sending.
        limit: The most bytes that one message may have.
        handle, on_notification, on_stray, max_in_flight: As for `Peer`.
        on_new_session: Called when a new session has taken the place of one that expired.

    Raises:
        ValueError: The URL or a header cannot be sent.
    """
    opening = open_endpoint(url, http=http, headers=headers, send_timeout=send_timeout)
    async with opening as endpoint:
        connection: HTTPConnection | None = None
        try:
            async with open_private_nursery() as nursery:
                connection = HTTPConnection(
                    endpoint,
                    nursery,
                    limit,
                    handle=handle,
                    on_notification=on_notification,
                    on_stray=on_stray,
                    max_in_flight=max_in_flight,
                )
                connection.sessions.on_renewed = on_new_session
                try:
                    yield connection
                finally:
                    connection.peer.close(Closed("the connection was closed at this end"))
        finally:
            with trio.CancelScope(deadline=trio.current_time() + CLOSE_TIME, shield=True):
                if connection is not None:
                    await connection.sessions.end()
