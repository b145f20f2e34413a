"""HTTP as it is: requests that are sent as they are told, and answers that are taken as they come.

    async with open_http(url, headers, exchange) as http:
        reply = await http.request("POST", {"Accept": None, "Origin": "https://evil.example"}, body)
        async with http.open("GET", {"Accept": "text/event-stream"}) as stream:
            event = await stream.next()
        data = await http.raw(b"POST /mcp HTTP/1.1\\r\\nHost: two words\\r\\n\\r\\n")

Nothing is added but what HTTP itself needs, nothing is followed, repeated or refused. `HTTPWire` is
made of this, and so are checks that are about HTTP and not about messages.
"""

from __future__ import annotations

import json
import ssl
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from typing import Any, Final, TypeAlias

import attrs
import httpx
import trio

from mcp_trio.connection import open_private_nursery
from mcp_trio.exceptions import TransportError
from mcp_trio.harness.exchange import Exchange
from mcp_trio.transports.http_endpoint import open_endpoint
from mcp_trio.transports.http_pool import Pool
from mcp_trio.transports.http_reply import CLOSE_TIME, Reply
from mcp_trio.wire.jsonrpc import JSONObject
from mcp_trio.wire.ndjson import CLIENT_LINE_LIMIT
from mcp_trio.wire.sse import EventTooLong, ServerSentEvent, SSEParser

CONNECT_TIME: Final = 10.0
"""Seconds for a connection, and for sending; waiting for an answer has no bound of its own."""

RAW_LIMIT: Final = 256 * 1024
"""Bytes that are taken of the answer to raw bytes."""

HeaderChanges: TypeAlias = Mapping[str, str | None]
"""Headers of one request. One that the target's own headers name takes its place; None takes it
away."""

_SECRET: Final = frozenset({"authorization", "cookie", "proxy-authorization", "x-api-key"})


@attrs.frozen
class HTTPReply:
    """An answer, as far as it had come.

    Attributes:
        status: The status code.
        headers: Its headers; names count in any case.
        body: The body, or of an event stream nothing.
        events: The events of an event stream.
        ended: The body came to its end; False if waiting for that ended first.
    """

    status: int
    headers: httpx.Headers
    body: bytes
    events: tuple[ServerSentEvent, ...]
    ended: bool

    @property
    def ok(self) -> bool:
        return self.status // 100 == 2

    @property
    def media_type(self) -> str:
        return media_type(self.headers)

    @property
    def json(self) -> Any:
        """The body read as JSON; None if it is none."""
        return _read(self.body)

    @property
    def messages(self) -> list[JSONObject]:
        """All messages in it, of the body (a batch counts as its items) or of the events."""
        values = [_read(event.data) for event in self.events] if self.events else [self.json]
        items = [
            item for value in values for item in (value if isinstance(value, list) else [value])
        ]
        return [item for item in items if isinstance(item, dict)]

    def answer(self, id: object) -> JSONObject:
        """The response with an id; an empty object if there is none."""
        answers = (m for m in self.messages if "method" not in m and m.get("id") == id)
        return next(answers, {})

    @property
    def code(self) -> int | None:
        """The code of the one JSON-RPC error in it; None if there is none."""
        for message in self.messages:
            error = message.get("error")
            if isinstance(error, dict) and isinstance(code := error.get("code"), int):
                return code
        return None

    def brief(self) -> str:
        """The answer in a few words, for messages."""
        text = f"status {self.status}"
        for message in self.messages:
            error = message.get("error")
            if isinstance(error, dict):
                return f"{text} with error {error.get('code')} ({str(error.get('message'))[:80]})"
            if "result" in message:
                return f"{text} with a result"
        if self.events or self.media_type == "text/event-stream":
            return f"{text} with an event stream"
        shown = self.body[:60].decode(errors="replace")
        return f"{text} with {shown!r}" if shown else f"{text} without a body"


class HTTPStream:
    """The answer to one request, while it comes.

    Attributes:
        status, headers: Its head.
        events: What came of an event stream so far.
        body: What came of any other body.
        ended: Why nothing more comes; None as long as something may.
    """

    def __init__(self, response: httpx.Response) -> None:
        self.status = response.status_code
        self.headers = response.headers
        self.events: list[ServerSentEvent] = []
        self.body = bytearray()
        self.ended: str | None = None
        self.whole = False
        self._reply = Reply(response)
        self._parser = SSEParser(CLIENT_LINE_LIMIT)
        self._taken = 0
        self._news = trio.lowlevel.ParkingLot()

    @property
    def media_type(self) -> str:
        return media_type(self.headers)

    @property
    def is_stream(self) -> bool:
        return self.media_type == "text/event-stream"

    @property
    def last_event_id(self) -> str:
        """What to resume it with; empty if that is not known."""
        return self._parser.last_event_id

    @property
    def retry(self) -> float | None:
        """Seconds to wait before that, if the server said so."""
        return None if self._parser.retry is None else self._parser.retry / 1000

    async def next(self) -> ServerSentEvent | None:
        """The next event; None when the stream has ended."""
        await trio.lowlevel.checkpoint()
        while self._taken == len(self.events):
            if self.ended is not None:
                return None
            await self._news.park()
        self._taken += 1
        return self.events[self._taken - 1]

    async def find(
        self, wanted: Callable[[ServerSentEvent], bool], timeout: float
    ) -> ServerSentEvent | None:
        """The next event that fits; None if none came in time."""
        with trio.move_on_after(timeout):
            while (event := await self.next()) is not None:
                if wanted(event):
                    return event
        return None

    async def wait_ended(self) -> None:
        while self.ended is None:
            await self._news.park()

    def reply(self) -> HTTPReply:
        """What has come so far."""
        return HTTPReply(
            self.status, self.headers, bytes(self.body), tuple(self.events), self.whole
        )

    async def run(self, on_event: Callable[[ServerSentEvent], object]) -> None:
        """Take the body, to its end."""
        try:
            await self._reply.pour(lambda piece: self._take(piece, on_event))
            self.ended, self.whole = "it came to its end", True
        except (TransportError, EventTooLong) as error:
            self.ended = str(error)
        finally:
            self._news.unpark_all()

    def _take(self, piece: bytes, on_event: Callable[[ServerSentEvent], object]) -> None:
        if not self.is_stream:
            if len(self.body) + len(piece) > CLIENT_LINE_LIMIT:
                raise TransportError(f"the body is longer than {CLIENT_LINE_LIMIT} bytes")
            self.body += piece
            return
        for event in self._parser.feed(piece):
            self.events.append(event)
            on_event(event)
        self._news.unpark_all()


class HTTPClient:
    """Sends requests to one place, and writes down what goes over the wire. See `open_http`.

    Attributes:
        url: Where requests go that name no other place.
        headers: The target's own, which go with each.
    """

    def __init__(
        self,
        http: httpx.AsyncClient | Pool,
        url: str,
        headers: Mapping[str, str],
        exchange: Exchange,
        number: int,
    ) -> None:
        self.url = url
        self.headers = dict(headers)
        self._http = http
        self._exchange = exchange
        self._number = number

    @asynccontextmanager
    async def open(
        self,
        method: str,
        headers: HeaderChanges | None = None,
        body: bytes | None = None,
        *,
        url: str | None = None,
    ) -> AsyncIterator[HTTPStream]:
        """Send a request, and have its answer as it comes, for the length of a block.

        Raises:
            TransportError: There is no answer.
        """
        fields = self._fields(headers or {})
        self._exchange.add("sent", body or b"", self._label(method, fields, url), self._number)
        response = await self._send(method, fields, body, url or self.url)
        stream = HTTPStream(response)
        label = f"{method} {stream.status} {stream.media_type}".rstrip()
        try:
            async with open_private_nursery() as nursery:
                nursery.start_soon(self._take, stream, label)
                yield stream
        finally:
            scope = trio.CancelScope(deadline=trio.current_time() + CLOSE_TIME, shield=True)
            with scope, suppress(httpx.TransportError):
                await response.aclose()

    async def request(
        self,
        method: str,
        headers: HeaderChanges | None = None,
        body: bytes | None = None,
        *,
        url: str | None = None,
        timeout: float = 5.0,
        until: Callable[[ServerSentEvent], bool] | None = None,
    ) -> HTTPReply:
        """Send a request and take its answer to the end, for `timeout` seconds at most.

        Args:
            until: An event that is enough.

        Raises:
            TransportError: There is no answer, or its head did not come in time.
        """
        with trio.move_on_after(timeout) as scope:
            async with self.open(method, headers, body, url=url) as stream:
                scope.deadline = float("inf")
                with trio.move_on_after(timeout):
                    if until is not None and stream.is_stream:
                        await stream.find(until, timeout)
                    else:
                        await stream.wait_ended()
                return stream.reply()
        raise TransportError(f"no answer to {method} within {timeout:g} s")

    async def raw(self, data: bytes, *, timeout: float = 5.0) -> bytes:
        """Send bytes over a connection of their own; what comes back until it is closed.

        Raises:
            OSError: Nobody is there.
        """
        self._exchange.add("sent", data, "raw", self._number)
        url = httpx.URL(self.url)
        answer = bytearray()
        with trio.move_on_after(timeout):
            async with await _connect(url) as stream:
                with suppress(trio.BrokenResourceError):
                    await stream.send_all(data)
                with suppress(trio.BrokenResourceError):
                    while len(answer) < RAW_LIMIT and (piece := await stream.receive_some()):
                        answer += piece
        self._exchange.add("received", bytes(answer), "raw", self._number)
        return bytes(answer)

    async def _send(
        self, method: str, fields: list[tuple[bytes, bytes]], body: bytes | None, url: str
    ) -> httpx.Response:
        timeout = httpx.Timeout(CONNECT_TIME, read=None)
        request = self._http.build_request(
            method, httpx.URL(url), headers=fields, content=body, timeout=timeout
        )
        try:
            return await self._http.send(request, stream=True, follow_redirects=False)
        except httpx.TransportError as error:
            why = str(error) or type(error).__name__
            self._exchange.note(f"{method} got no answer: {why}", self._number)
            raise TransportError(f"no answer to {method}: {why}") from error

    async def _take(self, stream: HTTPStream, label: str) -> None:
        def on_event(event: ServerSentEvent) -> None:
            named = "" if event.event == "message" else f" event: {event.event}"
            numbered = "" if event.id is None else f" id: {event.id[:80]}"
            self._exchange.add("received", event.data, label + named + numbered, self._number)

        if stream.is_stream:
            self._exchange.note(label, self._number)
        await stream.run(on_event)
        if stream.body:
            self._exchange.add("received", bytes(stream.body), label, self._number)
        elif not stream.is_stream:
            self._exchange.note(label, self._number)

    def _fields(self, changes: HeaderChanges) -> list[tuple[bytes, bytes]]:
        changed = {name.lower() for name in changes}
        kept = [item for item in self.headers.items() if item[0].lower() not in changed]
        fields = [*kept, *((name, value) for name, value in changes.items() if value is not None)]
        return [(name.encode(), _encoded(value)) for name, value in fields]

    def _label(self, method: str, fields: list[tuple[bytes, bytes]], url: str | None) -> str:
        shown = [method]
        if url is not None:
            shown.append(url)
        for name, value in fields:
            text = value.decode("latin-1")
            if name.decode().lower() in _SECRET or name.decode() in self.headers:
                text = "..."
            if text not in _USUAL:
                shown.append(f"{name.decode()}: {text[:80]}")
        return " | ".join(shown)


POSTING: Final[Mapping[str, str]] = {
    "Accept": "application/json, text/event-stream",
    "Content-Type": "application/json",
}
"""Headers of every POST of a message."""

LISTENING: Final[Mapping[str, str]] = {"Accept": "text/event-stream"}
"""Headers of every GET of a stream."""

_USUAL: Final = frozenset([*POSTING.values(), *LISTENING.values()])


@asynccontextmanager
async def open_http(
    url: str, headers: Mapping[str, str] | None, exchange: Exchange, number: int | None = None
) -> AsyncIterator[HTTPClient]:
    """A client for plain requests, for the length of a block.

    Args:
        url: Where they go.
        headers: Go with each.
        exchange: Where all of it is written down.
        number: The number of the connection that they count as; a new one by default.
    """
    if number is None:
        number = exchange.next_connection()
    async with open_endpoint(url) as endpoint:
        yield HTTPClient(endpoint.http, url, headers or {}, exchange, number)


def media_type(headers: Mapping[str, str]) -> str:
    """The content type in lower case and without parameters; empty if there is none."""
    return headers.get("content-type", "").partition(";")[0].strip().lower()


def is_json(kind: str) -> bool:
    """Whether a content type is one of JSON."""
    return kind == "application/json" or kind.endswith("+json")


async def _connect(url: httpx.URL) -> trio.abc.Stream:
    port = url.port or {"http": 80, "https": 443}[url.scheme]
    if url.scheme == "https":
        context = ssl.create_default_context()
        return await trio.open_ssl_over_tcp_stream(
            url.host, port, ssl_context=context, https_compatible=True
        )
    return await trio.open_tcp_stream(url.host, port)


def _encoded(value: str) -> bytes:
    try:
        return value.encode("latin-1")
    except UnicodeEncodeError:
        return value.encode()


def _read(data: bytes) -> Any:
    try:
        return json.loads(data)
    except (ValueError, RecursionError):
        return None
