"""What every face of a handler has in common: running it, and what becomes of its failures."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from contextlib import suppress

import trio

from mcp_trio.transports.http_exchange import (
    BodyTooLarge,
    ClientGone,
    Exchange,
    Handle,
    HTTPRequest,
    RequestError,
    ResponseHeaders,
)
from mcp_trio.transports.shared_reader import SharedReader, noticing_waits

logger = logging.getLogger("mcp_trio.http")

#: Statuses whose responses have no body and no length (RFC 9110, section 8.6).
BODILESS = frozenset({204, 304})

PLAIN_TEXT = {"content-type": "text/plain; charset=utf-8"}


class WatchedExchange(Exchange):
    """An exchange whose client is read from, and watched, by a `SharedReader`."""

    def __init__(
        self, request: HTTPRequest, reader: SharedReader, shutting_down: trio.Event
    ) -> None:
        self.request = request
        self.shutting_down = shutting_down
        self._reader = reader
        self._answered = False
        self._body_begun = False

    @property
    def answered(self) -> bool:
        return self._answered

    @property
    def client_gone(self) -> bool:
        """Whether nobody waits for the answer any more, as far as we have read."""
        return self._reader.ended

    def cancelled_by_disconnect(self) -> trio.CancelScope:
        scope = trio.CancelScope()
        self._reader.cancel_at_end(scope)
        return scope

    @property
    def scope(self) -> trio.CancelScope:
        return self._reader.nursery.cancel_scope

    def cancel_with_client(self) -> None:
        self._reader.cancel_at_end(self.scope)

    def on_wait(self) -> None:
        """The handler begins to wait for something."""
        self._reader.watch()

    def _begin_body(self, limit: int) -> None:
        if self._body_begun:
            raise RuntimeError("the body of this request has been read already")
        self._body_begun = True
        declared = self.request.headers.get("content-length") or "0"
        if declared.isdecimal() and (len(declared) > 20 or int(declared) > limit):
            raise BodyTooLarge(f"the body has {declared} bytes; at most {limit} are accepted")

    def _begin(self) -> None:
        if self._answered:
            raise RuntimeError("this request has been answered already")
        self._answered = True


def header_fields(headers: ResponseHeaders) -> list[tuple[bytes, bytes]]:
    """The fields of a response as h11 and ASGI want them: bytes, names in lower case."""
    pairs = headers.items() if isinstance(headers, Mapping) else headers
    return [(name.lower().encode("ascii"), value.encode("latin-1")) for name, value in pairs]


async def answer(handle: Handle, exchange: WatchedExchange) -> None:
    """Run the handler for one exchange, and answer for it if it fails.

    Raises nothing but cancellation. Whether the response was completed is for the face to know.
    """
    status = 0
    reason = ""
    try:
        await noticing_waits(handle(exchange), exchange.on_wait)
        if not exchange.answered and not exchange.client_gone:
            raise RuntimeError(f"{handle} returned without an answer")
    except* Exception as group:  # a nursery of the handler may mix errors with a cancellation
        status, reason = _judge(group, exchange.request)
    if status and not exchange.answered:
        with suppress(ClientGone):
            await exchange.respond(status, PLAIN_TEXT, reason.encode())


def _judge(failure: ExceptionGroup[Exception], request: HTTPRequest) -> tuple[int, str]:
    """The status and text that a failure of the handler is answered with; 0 if nobody is there."""
    errors = list(_leaves(failure))
    if all(isinstance(error, ClientGone | RequestError) for error in errors):
        for error in errors:
            if isinstance(error, RequestError):
                return error.status, f"{error}\n"
        return 0, ""
    cause = errors[0] if len(errors) == 1 else failure
    logger.error("Handling %s %s failed", request.method, request.path, exc_info=cause)
    return 500, "Internal Server Error\n"


def _leaves(group: ExceptionGroup[Exception]) -> Iterator[Exception]:
    for error in group.exceptions:
        if isinstance(error, ExceptionGroup):
            yield from _leaves(error)
        else:
            yield error
