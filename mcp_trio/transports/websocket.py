"""WebSocket: one message in each text frame, both eras (trio-websocket does the protocol).

A WebSocket is what stdio is, a stream of messages in both directions, with the framing done by
somebody else. So all there is to do is to make a `FrameStream` of one, to check who connects, and
to say in words why it was closed. There is no page of the specification for it: it is a custom
transport, with the subprotocol `mcp` (MCP 2026-07-28, basic/transports, "Custom Transports").
"""

from __future__ import annotations

import logging
import re
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Mapping, Sequence
from contextlib import asynccontextmanager
from functools import partial
from typing import Any
from urllib.parse import urlsplit

import attrs
import trio
import trio_websocket

from mcp_trio.connection import FrameStream, open_private_nursery
from mcp_trio.exceptions import AuthorizationRequired, Closed, TransportError
from mcp_trio.incoming import sole_exception
from mcp_trio.transports.origins import is_origin_allowed
from mcp_trio.wire.http_headers import check_headers

logger = logging.getLogger("mcp_trio")

SUBPROTOCOL = "mcp"
#: Seconds for the closing handshake.
CLOSE_TIME = 2.0
#: Seconds that a client has for its opening handshake.
HANDSHAKE_TIME = 30.0
#: Bytes that are read from the socket at once.
CHUNK = 64 * 1024

_RESOURCE = re.compile(r"[!-~]+")
#: Headers that are part of the handshake itself.
_OURS = re.compile(r"host|connection|upgrade|sec-websocket-.*", re.IGNORECASE)

_NORMAL = (1000, 1001, 1005)
_TEXT_ONLY = 1003
_NO_PONG = 1011


class WebSocketStream(FrameStream):
    """A WebSocket as a stream of frames.

    The size limit of a message counts characters, as trio-websocket does.
    """

    def __init__(self, websocket: trio_websocket.WebSocketConnection) -> None:
        self.websocket = websocket

    async def receive(self) -> list[bytes]:
        try:
            message = await self.websocket.get_message()
        except trio_websocket.ConnectionClosed as exc:
            if exc.reason is not None and exc.reason.code in _NORMAL:
                return []
            raise trio.BrokenResourceError(_in_words(exc.reason)) from exc
        if isinstance(message, bytes):
            await self.websocket.aclose(_TEXT_ONLY, "messages are text")
            raise trio.BrokenResourceError("it sent a binary message, and messages are text")
        return [message.encode()]

    async def send(self, frames: Sequence[bytes]) -> None:
        try:
            for frame in frames:
                await self.websocket.send_message(frame.decode())
        except trio_websocket.ConnectionClosed as exc:
            raise trio.BrokenResourceError(_in_words(exc.reason)) from exc

    async def aclose(self) -> None:
        await self.websocket.aclose()

    async def obituary(self, reason: str) -> Closed:
        closed = self.websocket.closed
        await trio.lowlevel.checkpoint()
        if closed is None or closed.code in _NORMAL:
            return Closed(reason)
        return Closed(f"the WebSocket was closed with {_in_words(closed)}")


def _in_words(reason: trio_websocket.CloseReason | None) -> str:
    if reason is None:
        return "no reason given"
    text = f": {reason.reason}" if reason.reason else ""
    return f"{reason.code} ({reason.name.replace('_', ' ').lower()}){text}"


@asynccontextmanager
async def open_websocket_stream(
    url: str,
    *,
    headers: Mapping[str, str] | None = None,
    ssl_context: ssl.SSLContext | None = None,
    message_limit: int,
    connect_timeout: float = HANDSHAKE_TIME,
    ping_interval: float | None = None,
) -> AsyncIterator[WebSocketStream]:
    """Connect to a `ws://` or `wss://` URL for the length of a block.

    Args:
        headers: Sent with the opening handshake.
        ssl_context: For `wss://` with a certificate authority of one's own.
        message_limit: The most characters that a message may have.
        connect_timeout: Seconds for connecting and for the opening handshake.
        ping_interval: Seconds between pings; a pong that takes as long ends the connection.
            By default there are none.

    Raises:
        AuthorizationRequired: The server answered the handshake with 401 or 403.
        TransportError: It cannot be reached, or refused the handshake otherwise.
        ValueError: It is no such URL, or a header cannot be sent.
    """
    place = _Place.of(url)
    _check_headers(headers or {})
    with trio.move_on_after(connect_timeout) as patience:
        stream = _Watched(await place.connect(ssl_context))
    if patience.cancelled_caught:
        raise TransportError(f"cannot connect to {place}: it took over {connect_timeout:g} s")
    opening = _Opening(place, stream, headers or {}, message_limit)
    try:
        async with open_private_nursery() as nursery:
            nursery.start_soon(opening.run)
            websocket = await opening.outcome(connect_timeout)
            async with _pinging(websocket, ping_interval):
                yield WebSocketStream(websocket)
    finally:
        await trio.aclose_forcefully(stream)


def _check_headers(headers: Mapping[str, str]) -> None:
    check_headers(headers)
    for name in filter(_OURS.fullmatch, headers):
        raise ValueError(f"the header {name} is part of the handshake and cannot be chosen")


@attrs.frozen
class _Place:
    """Where a URL leads. In text it lacks the query, which may hold a secret."""

    secure: bool
    host: str
    port: int
    resource: str

    @classmethod
    def of(cls, url: str) -> _Place:
        parts = urlsplit(url)
        if parts.scheme not in ("ws", "wss") or not parts.hostname:
            raise ValueError(f"{url.partition('?')[0]!r} is no ws:// or wss:// URL")
        secure = parts.scheme == "wss"
        if parts.username is not None:
            raise ValueError(
                f"the user in the {parts.scheme}:// URL would not be sent: use headers"
            )
        resource = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
        if not _RESOURCE.fullmatch(resource):
            raise ValueError(f"the path or query of the {parts.scheme}:// URL needs %-encoding")
        port = parts.port if parts.port is not None else 443 if secure else 80
        return cls(secure, parts.hostname, port, resource)

    def __str__(self) -> str:
        return f"ws{'s' * self.secure}://{self.authority}{self.resource.partition('?')[0]}"

    @property
    def authority(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port == (443 if self.secure else 80) else f"{host}:{self.port}"

    async def connect(self, ssl_context: ssl.SSLContext | None) -> trio.abc.Stream:
        stream: trio.abc.Stream
        try:
            if not self.secure:
                return await trio.open_tcp_stream(self.host, self.port)
            stream = await trio.open_ssl_over_tcp_stream(
                self.host, self.port, ssl_context=ssl_context, https_compatible=True
            )
            try:
                await stream.do_handshake()
            except BaseException:
                await trio.aclose_forcefully(stream)
                raise
            return stream
        except (OSError, trio.BrokenResourceError) as exc:
            raise TransportError(f"cannot connect to {self}: {exc.__cause__ or exc}") from exc


class _Watched(trio.abc.Stream):
    """A stream that says when its input has ended, which trio-websocket keeps to itself."""

    def __init__(self, stream: trio.abc.Stream) -> None:
        self._stream = stream
        self.ended = trio.Event()

    async def receive_some(self, max_bytes: int | None = None) -> bytes | bytearray:
        try:
            data = await self._stream.receive_some(max_bytes)
        except trio.BrokenResourceError:
            self.ended.set()
            raise
        if not data:
            self.ended.set()
        return data

    async def send_all(self, data: bytes | bytearray | memoryview) -> None:
        await self._stream.send_all(data)

    async def wait_send_all_might_not_block(self) -> None:
        await self._stream.wait_send_all_might_not_block()

    async def aclose(self) -> None:
        await self._stream.aclose()


class _Opening:
    """The opening handshake, and the task in which trio-websocket reads from then on.

    That task may fail, and so cannot be in a nursery together with the user's code.
    """

    def __init__(
        self, place: _Place, stream: _Watched, headers: Mapping[str, str], message_limit: int
    ) -> None:
        self._place = place
        self._stream = stream
        self._headers = headers
        self._message_limit = message_limit
        self._settled = trio.Event()
        self._websocket: trio_websocket.WebSocketConnection | None = None
        self._failure = TransportError(f"{place} closed the connection during the handshake")

    async def run(self) -> None:
        try:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(self._watch)
                self._websocket = await trio_websocket.wrap_client_stream(
                    nursery,
                    self._stream,  # type: ignore[arg-type] # any stream will do
                    self._place.authority,
                    self._place.resource,
                    subprotocols=[SUBPROTOCOL],
                    extra_headers=[(k.encode(), v.encode()) for k, v in self._headers.items()],
                    max_message_size=self._message_limit,
                    receive_buffer_size=CHUNK,
                )
                self._settled.set()
        except* trio_websocket.ConnectionRejected as group:
            rejected = sole_exception(group)  # by the one task that reads
            assert isinstance(rejected, trio_websocket.ConnectionRejected)
            self._failure = _refusal(self._place, rejected)
        self._settled.set()

    async def _watch(self) -> None:
        await self._stream.ended.wait()
        self._settled.set()

    async def outcome(self, seconds: float) -> trio_websocket.WebSocketConnection:
        with trio.move_on_after(seconds) as patience:
            await self._settled.wait()
        if self._websocket is not None:
            return self._websocket
        if patience.cancelled_caught:
            text = f"{self._place} did not answer the handshake within {seconds:g} s"
            raise TransportError(text)
        raise self._failure


def _refusal(place: _Place, rejected: trio_websocket.ConnectionRejected) -> TransportError:
    status = rejected.status_code
    reason = f"{place} refused the WebSocket with HTTP {status}"
    if status in (401, 403):
        challenge = dict(rejected.headers or ()).get(b"www-authenticate", b"")
        return AuthorizationRequired(reason, status, challenge.decode("latin-1"))
    return TransportError(reason, status)


@asynccontextmanager
async def _pinging(
    websocket: trio_websocket.WebSocketConnection, interval: float | None
) -> AsyncIterator[None]:
    if interval is None:
        yield
        return

    async def ping() -> None:
        try:
            while True:
                await trio.sleep(interval)
                with trio.move_on_after(interval) as patience:
                    await websocket.ping()
                if patience.cancelled_caught:
                    with trio.move_on_after(CLOSE_TIME):
                        await websocket.aclose(_NO_PONG, "no pong in time")
                    return
        except trio_websocket.ConnectionClosed:
            pass  # whoever reads hears of it

    async with open_private_nursery() as nursery:
        nursery.start_soon(ping)
        yield


async def serve_websocket(
    serve: Callable[[FrameStream], Awaitable[object]],
    port: int,
    *,
    host: str | None = "127.0.0.1",
    origins: Collection[str] = (),
    ssl_context: ssl.SSLContext | None = None,
    message_limit: int,
    ping_interval: float | None = None,
    task_status: trio.TaskStatus[Any] = trio.TASK_STATUS_IGNORED,
) -> None:
    """Accept WebSockets until cancelled, and `serve` each as a stream of frames.

    Args:
        host: The address to listen at; None for all of them.
        origins: Web pages that may connect besides those of this computer, as
            `https://example.com`. Clients that are no browsers send no Origin and are not asked
            for one.
        ssl_context: Listen for `wss://`.
        message_limit, ping_interval: As for `open_websocket_stream`.
        task_status: Reports the listeners, as `trio.serve_tcp` and its sibling for TLS do.
    """
    handle = partial(
        _handle_connection,
        serve=serve,
        origins=origins,
        message_limit=message_limit,
        ping_interval=ping_interval,
    )
    if ssl_context is None:
        await trio.serve_tcp(handle, port, host=host, task_status=task_status)
    else:
        await trio.serve_ssl_over_tcp(
            handle, port, ssl_context, host=host, https_compatible=True, task_status=task_status
        )


async def _handle_connection(
    stream: trio.abc.Stream,
    *,
    serve: Callable[[FrameStream], Awaitable[object]],
    origins: Collection[str],
    message_limit: int,
    ping_interval: float | None,
) -> None:
    """One connection; whatever goes wrong with it is its own affair."""
    try:
        async with open_private_nursery() as nursery:
            request: trio_websocket.WebSocketRequest | None = None
            with trio.move_on_after(HANDSHAKE_TIME):
                request = await trio_websocket.wrap_server_stream(
                    nursery, stream, max_message_size=message_limit, receive_buffer_size=CHUNK
                )
            websocket = None if request is None else await _accepted(request, origins)
            if websocket is not None:
                async with _pinging(websocket, ping_interval):
                    await serve(WebSocketStream(websocket))
    except Exception:
        logger.exception("a WebSocket connection failed")
    finally:
        await trio.aclose_forcefully(stream)


async def _accepted(
    request: trio_websocket.WebSocketRequest, origins: Collection[str]
) -> trio_websocket.WebSocketConnection | None:
    sent = [value.decode("latin-1") for name, value in request.headers if name.lower() == b"origin"]
    if any(not is_origin_allowed(origin, origins) for origin in sent):
        await request.reject(403, body=b"This Origin may not connect.\n")
        return None
    offered = SUBPROTOCOL in request.proposed_subprotocols
    return await request.accept(subprotocol=SUBPROTOCOL if offered else None)
