"""HTTP responses: errors, JSON, and streams of events."""

import logging
from collections.abc import Iterator, Mapping
from typing import Any, Final, Protocol

import trio

from mcp_trio.protocol.errors import ERRORS, MCPError
from mcp_trio.transports.http_exchange import Exchange, SendPiece
from mcp_trio.wire.jsonrpc import MISSING, ErrorObject, ErrorResponse, RequestId, encode
from mcp_trio.wire.sse import encode_comment

logger = logging.getLogger("mcp_trio")

JSON_HEADERS: Final = {"content-type": "application/json"}
#: Proxies must neither keep a stream nor collect it until it is complete.
SSE_HEADERS: Final = {
    "content-type": "text/event-stream",
    "cache-control": "no-cache, no-transform",
    "x-accel-buffering": "no",
}
#: Bytes of events that are sent together, unless one event has more.
BATCH: Final = 64 * 1024
_SIGN_OF_LIFE = encode_comment()


class Refused(Exception):
    """The request is answered with this HTTP status, and a JSON-RPC error as its body.

    Args:
        id: The id of the JSON-RPC request, where there is one.
        headers: Further fields of the response.
    """

    def __init__(
        self,
        status: int,
        code: int,
        message: str,
        *,
        data: Any = MISSING,
        id: RequestId | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(message)
        self.status = status
        self.error = ErrorObject(code, message, data)
        self.id = id
        self.headers = headers or {}

    @classmethod
    def because(cls, error: MCPError, status: int, id: RequestId | None) -> "Refused":
        """The refusal that says what an `MCPError` says."""
        return cls(status, error.code, error.message, data=error.data, id=id)

    async def answer(self, exchange: Exchange) -> None:
        """Send it."""
        body = encode(ErrorResponse(self.id, self.error))
        await exchange.respond(self.status, {**JSON_HEADERS, **self.headers}, body)


def status_of(error: ErrorObject) -> int:
    """The HTTP status of a modern response with this error."""
    kind = ERRORS.get(error.code)
    return 200 if kind is None else kind.http


class EventSource(Protocol):
    """Where a stream's events come from."""

    async def take(self) -> list[bytes]:
        """Wait for encoded events and take all there are; an empty list is the end.

        Cancelling it loses nothing.
        """

    def written(self) -> None:
        """What was taken last has been sent."""


async def pump(source: EventSource, send: SendPiece, keep_alive: float) -> None:
    """Send events as they come until there are no more, and signs of life while none come."""
    while True:
        events: list[bytes] | None = None
        with trio.move_on_after(keep_alive):
            events = await source.take()
        if events is None:
            await send(_SIGN_OF_LIFE)
        elif events:
            for batch in _batches(events):
                await send(batch)
            source.written()
        else:
            return


def _batches(events: list[bytes]) -> Iterator[bytes]:
    """Events together, as long as they are small: copying costs more than sending twice."""
    batch: list[bytes] = []
    size = 0
    for event in events:
        if batch and size + len(event) > BATCH:
            yield b"".join(batch)
            batch, size = [], 0
        batch.append(event)
        size += len(event)
    yield b"".join(batch)
