"""HTTP/1.1 for a server, on one connection: h11 knows the protocol, Trio moves bytes and time.

A connection is a loop: read the head of a request, run the handler, read what it left of the
body, and again. One task does all of it, in order, so pipelined requests are answered in turn
and a client that does not read its answers holds up nobody but itself.

Everything a client can do slowly has a deadline, and everything it can make large a limit.
"""

from __future__ import annotations

from contextlib import suppress
from urllib.parse import unquote, urlsplit

import attrs
import h11
import trio

from mcp_trio.transports.h11_exchange import UNREAD_BODY, H11Exchange
from mcp_trio.transports.h11_wire import Wire
from mcp_trio.transports.http_exchange import ClientGone, Handle, Headers, HTTPRequest
from mcp_trio.transports.http_face import PLAIN_TEXT, answer, header_fields, logger
from mcp_trio.transports.http_limits import HTTPLimits

#: Seconds that closing may take: for the client to read what we sent last, and for TLS. Also
#: what the rest of a body may take that no handler wanted.
CLOSING_TIME = 2.0

#: What the smallest piece of such a body counts in bytes, for it takes as long to handle.
PIECE_COST = 64

_REQUEST_TIMEOUT = 408
_NOT_IMPLEMENTED = 501
_WRONG_VERSION = 505


@attrs.define(eq=False)
class Shared:
    """What the connections of one server have in common."""

    limits: HTTPLimits = attrs.field(factory=HTTPLimits)
    shutting_down: trio.Event = attrs.field(factory=trio.Event)
    #: How many connections there are.
    open: int = 0
    #: Those that wait for a request, longest first (a dict for its order).
    waiting: dict[HTTPConnection, None] = attrs.field(factory=dict)


async def serve_http_connection(
    handle: Handle,
    stream: trio.abc.Stream,
    *,
    shared: Shared | None = None,
    scheme: str = "http",
    client: str | None = None,
) -> None:
    """Answer the requests that come over one stream, until it ends, and close it.

    Errors of the client and of the handler are answered and end here; nothing is raised.
    Cancelling closes the stream at once.

    Args:
        handle: Called for each request, in the task that this was called in.
        stream: Any stream of bytes; if its `receive_some` is cancelled, nothing may be lost.
        shared: The limits, and what a server has to know of its connections.
        scheme: What the requests say it is: "https" for a TLS stream.
        client: The address of the other end.
    """
    shared = shared or Shared()
    try:
        async with trio.open_nursery() as nursery:
            wire = Wire(stream, nursery, shared.limits)
            await HTTPConnection(handle, wire, shared, scheme, client).run()
            nursery.cancel_scope.cancel()
    except* Exception:  # would end the server of all the others
        logger.exception("An HTTP connection failed")
    finally:
        await trio.aclose_forcefully(stream)


class HTTPConnection:
    """The loop over the requests of one connection."""

    def __init__(
        self, handle: Handle, wire: Wire, shared: Shared, scheme: str, client: str | None
    ) -> None:
        self._handle = handle
        self._wire = wire
        self._http = wire.http
        self._shared = shared
        self._scheme = scheme
        self._client = client
        self._head_begun = False
        self._refused = False

    async def run(self) -> None:
        """Answer requests until the client, a limit, an error or the shutdown ends it."""
        limits = self._wire.limits
        with self._wire.clock.scope:
            patience = limits.header_time
            while (request := await self._next_request(patience)) is not None:
                exchange = H11Exchange(request, self._wire, self._shared.shutting_down)
                await answer(self._handle, exchange)
                self._wire.reader.unwatch()
                if not await self._next_cycle():
                    break
                patience = limits.idle_time
        with trio.move_on_after(CLOSING_TIME):
            if self._head_begun:
                await self._refuse(_REQUEST_TIMEOUT, "the header of the request took too long")
            unread = self._http.their_state in (h11.SEND_BODY, h11.ERROR)
            await self._wire.close(linger=self._refused or unread)

    def drop(self) -> None:
        """Close, for it only waits for a request. See `Shared.waiting`."""
        self._head_begun = False
        self._wire.clock.scope.cancel()

    async def _next_request(self, patience: float) -> HTTPRequest | None:
        """The head of the next request, or None if there is none and the connection is to end."""
        if self._shared.shutting_down.is_set():
            return None
        self._shared.waiting[self] = None
        self._wire.clock.start(patience)
        try:
            event = await self._next_event()
            return self._head(event) if type(event) is h11.Request else None
        except h11.RemoteProtocolError as error:
            self._head_begun = False
            await self._refuse(error.error_status_hint, str(error))
            return None
        finally:
            self._shared.waiting.pop(self, None)

    async def _next_event(self) -> h11.Event | type[h11.NEED_DATA] | type[h11.PAUSED]:
        """What h11 says next: of a new request, the head, and of an old connection, the end."""
        if (event := self._http.next_event()) is h11.NEED_DATA:
            await self._wire.feed()
            event = self._http.next_event()
        if event is h11.NEED_DATA:
            self._head_begun = True
            self._wire.clock.start(self._wire.limits.header_time)
            while event is h11.NEED_DATA:
                await self._wire.feed()
                event = self._http.next_event()
            self._head_begun = False
        return event

    def _head(self, event: h11.Request) -> HTTPRequest:
        headers = Headers([(name.lower(), value) for name, value in event.headers.raw_items()])
        # A proxy in front of us may have framed the request by the other one of the two: what
        # it took for the body, we would take for the next request (RFC 9112, section 6.3).
        if "transfer-encoding" in headers:
            if "content-length" in headers:
                raise h11.RemoteProtocolError("both Content-Length and Transfer-Encoding")
            if event.http_version < b"1.1":
                raise h11.RemoteProtocolError("HTTP/1.0 has no Transfer-Encoding")
        if event.http_version[:2] != b"1.":
            raise h11.RemoteProtocolError("this is a server for HTTP/1.1", _WRONG_VERSION)
        if event.method == b"CONNECT":
            raise h11.RemoteProtocolError("this is no proxy", _NOT_IMPLEMENTED)
        target = event.target.decode("ascii")
        if target[:1] not in ("/", "*"):
            target = _origin_form(target, headers.get("host"))
        path, _, query = target.partition("?")
        method = event.method.decode("ascii")
        path = unquote(path) if "%" in path else path
        return HTTPRequest(method, path, query, headers, self._client, self._scheme)

    async def _refuse(self, status: int, reason: str) -> None:
        """Answer what was no request, as the last thing on this connection."""
        if self._http.our_state in (h11.IDLE, h11.SEND_RESPONSE):
            body = f"{reason}\n".encode()
            fields = header_fields({**PLAIN_TEXT, "content-length": str(len(body))})
            fields.append((b"connection", b"close"))
            head = h11.Response(status_code=status, headers=fields)
            self._refused = True
            with suppress(ClientGone):
                await self._wire.send(self._wire.encode(head, body))

    async def _next_cycle(self) -> bool:
        """Get ready for another request; False if there cannot be one."""
        http = self._http
        if http.their_state is h11.SEND_BODY and not self._wire.torn:
            await self._skip_body(CLOSING_TIME if http.our_state is h11.DONE else 0)
        if self._wire.torn or http.our_state is not h11.DONE or http.their_state is not h11.DONE:
            return False
        http.start_next_cycle()
        return True

    async def _skip_body(self, patience: float) -> None:
        """Read what the handler left of a body, if it is not much. h11's state tells."""
        left = UNREAD_BODY
        try:
            with trio.move_on_after(patience):
                while left > 0 and type(event := self._http.next_event()) is not h11.EndOfMessage:
                    if event is h11.NEED_DATA:
                        await self._wire.feed()
                    left -= max(PIECE_COST, len(event.data) if type(event) is h11.Data else 0)
        except h11.RemoteProtocolError:
            return


def _origin_form(target: str, host: str | None) -> str:
    """The path and query of a target that is a whole URL, as proxies are sent them.

    RFC 9112 (section 3.2.2) has it win over Host. Whoever checks Host must not be deceived by
    that, so the two have to agree.
    """
    try:
        url = urlsplit(target)
    except ValueError as error:
        raise h11.RemoteProtocolError(f"the target {target!r} is no URL: {error}") from None
    if url.scheme not in ("http", "https") or url.netloc.lower() != (host or "").lower():
        raise h11.RemoteProtocolError(f"the target {target!r} is not on this host")
    return (url.path or "/") + (f"?{url.query}" if url.query else "")
