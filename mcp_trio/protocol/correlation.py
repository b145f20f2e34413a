"""Which answer belongs to which question, in both directions.

Both ends of an MCP connection may ask. `Correlation` keeps the two tables that this takes:
the requests that we sent and that are still unanswered, and the requests of the other side
that we still owe an answer. It is told of everything that leaves and fed everything that
arrives, and says in one event what each arrival means. It touches no clock, no task and no
wire, so a test can drive two of them against each other through a wire that loses, delays
and reorders, and compare them with a plain dictionary.

The two directions number their requests independently: our request 1 and the peer's request 1
have nothing to do with each other, which is why there are two tables and not one.
"""

from collections.abc import Collection, Iterator
from typing import Any, TypeGuard

import attrs

from mcp_trio.protocol import errors
from mcp_trio.wire.jsonrpc import (
    Batch,
    ErrorObject,
    ErrorResponse,
    JSONObject,
    Malformed,
    Noise,
    Notification,
    Received,
    Request,
    RequestId,
    Response,
)

#: How many given-up requests are remembered, so that their late answers are dropped quietly.
REMEMBERED = 1024


@attrs.frozen
class Answered:
    """The answer to request `id` of ours. `Malformed` stands for one that cannot be read."""

    id: RequestId
    answer: Response | ErrorResponse | Malformed


@attrs.frozen
class Progressed:
    """Progress of request `id` of ours; `params` as they arrived."""

    id: RequestId
    params: JSONObject


@attrs.frozen
class Asked:
    """A new request of the peer; it stays open until `close_incoming`."""

    request: Request


@attrs.frozen
class Refused:
    """A request of the peer that must be answered with this error straight away."""

    id: RequestId
    error: ErrorObject


@attrs.frozen
class CancelAsked:
    """The peer no longer wants the answer to its request `id`."""

    id: RequestId
    reason: str | None


@attrs.frozen
class Notified:
    """Any other notification."""

    notification: Notification


@attrs.frozen
class Late:
    """An answer to a request that was given up: expected, and dropped."""

    id: RequestId


@attrs.frozen
class Stray:
    """Something that means nothing here: reported, never fatal.

    `answer` is the error that a server owes for it where the revision allows an answer
    without an id, None where no answer is due.
    """

    line: bytes
    reason: str
    answer: ErrorObject | None = None


Event = Answered | Progressed | Asked | Refused | CancelAsked | Notified | Late | Stray


class Correlation:
    """The open requests of one connection, in both directions.

    Args:
        max_in_flight: How many requests of the peer may be open at once; more are refused.
    """

    def __init__(self, *, max_in_flight: int = 1000) -> None:
        self.max_in_flight = max_in_flight
        self._next_id = 1
        #: Our open requests; True for one that the peer may end by a cancellation.
        self._outgoing: dict[RequestId, bool] = {}
        self._abandoned: dict[RequestId, None] = {}
        self._incoming: dict[RequestId, Request] = {}

    # What we ask

    def open_outgoing(self, *, endable: bool = False) -> int:
        """Take an id for a request of ours.

        `endable` marks `subscriptions/listen`: the only request of ours whose end a modern
        server may announce by `notifications/cancelled`.
        """
        id = self._next_id
        self._next_id += 1
        self._outgoing[id] = endable
        return id

    def abandon_outgoing(self, id: RequestId) -> bool:
        """Give up a request of ours; True if it was still unanswered."""
        if self._outgoing.pop(id, None) is None:
            return False
        self._remember(id)
        return True

    @property
    def outgoing(self) -> tuple[RequestId, ...]:
        """The ids of our open requests, oldest first."""
        return tuple(self._outgoing)

    # What we are asked

    def close_incoming(self, id: RequestId) -> bool:
        """Say that request `id` of the peer needs no answer any more; True if it was open."""
        return self._incoming.pop(id, None) is not None

    @property
    def incoming(self) -> tuple[RequestId, ...]:
        """The ids of the peer's open requests, oldest first."""
        return tuple(self._incoming)

    # What arrives

    def receive(self, received: Received) -> Event:
        """Say what something that arrived means. Batches come apart in `unbatch` first."""
        match received:
            case Response(id=id):
                return self._answered(id, received)
            case Request():
                return self._asked(received)
            case Notification(method="notifications/progress", params=params):
                return self._progressed(params or {})
            case Notification(method="notifications/cancelled", params=params):
                return self._cancelled(params or {})
            case Notification():
                return Notified(received)
            case ErrorResponse(id=None, error=error):
                return Stray(b"", f"an error without an id: {error.code} {error.message}")
            case ErrorResponse(id=id) if id is not None:
                return self._answered(id, received)
            case Malformed():
                return self._malformed(received)
            case Noise(line=line):
                error = ErrorObject(errors.PARSE_ERROR, "This line is not JSON.")
                return Stray(line, "not JSON", error)
            case _:
                raise TypeError(f"{type(received).__name__} is nothing that can be received")

    def _answered(self, id: RequestId, answer: Response | ErrorResponse | Malformed) -> Event:
        if self._outgoing.pop(id, None) is not None:
            return Answered(id, answer)
        if id in self._abandoned:
            del self._abandoned[id]
            return Late(id)
        return Stray(b"", f"an answer to {id!r}, which was not asked or is answered already")

    def _asked(self, request: Request) -> Event:
        if request.id in self._incoming:
            text = f"Request id {request.id!r} is in use by a request that is not answered yet."
            return Refused(request.id, ErrorObject(errors.INVALID_REQUEST, text))
        if len(self._incoming) >= self.max_in_flight:
            text = f"Too many requests are open: at most {self.max_in_flight} at once."
            return Refused(request.id, ErrorObject(errors.INTERNAL_ERROR, text))
        self._incoming[request.id] = request
        return Asked(request)

    def _progressed(self, params: JSONObject) -> Event:
        token = params.get("progressToken")
        if is_request_id(token) and token in self._outgoing:
            return Progressed(token, params)
        if is_request_id(token) and token in self._abandoned:
            return Late(token)
        return Stray(b"", f"progress for {token!r}, which is no request in flight")

    def _cancelled(self, params: JSONObject) -> Event:
        id = params.get("requestId")
        if not is_request_id(id):
            return Stray(b"", f"a cancellation of {id!r}, which is no request id")
        if id in self._incoming:
            reason = params.get("reason")
            return CancelAsked(id, reason if isinstance(reason, str) else None)
        if self._outgoing.get(id):
            # A modern server tears a subscription down. The response that completes it may
            # or may not follow; both are a normal end (MCP 2026-07-28, basic/cancellation).
            self.abandon_outgoing(id)
            return Answered(id, Response(id, {}))
        return Late(id)  # it crossed our answer on the wire: allowed, and nothing to do

    def _malformed(self, line: Malformed) -> Event:
        error = ErrorObject(line.code, line.reason)
        if line.id is None:
            return Stray(line.line, line.reason, error)
        if line.is_request:
            return Refused(line.id, error)
        if line.id in self._outgoing or line.id in self._abandoned:
            return self._answered(line.id, line)
        return Stray(line.line, line.reason, error)

    def _remember(self, id: RequestId) -> None:
        self._abandoned[id] = None
        if len(self._abandoned) > REMEMBERED:
            del self._abandoned[next(iter(self._abandoned))]


def unbatch(
    batch: Batch, *, allowed: bool, waiting: Collection[RequestId] = ()
) -> Iterator[Received]:
    """Take a batch apart.

    Batches are part of 2025-03-26 alone. Elsewhere the whole is one invalid request, but an
    answer that hides in it still fails its call, one of those `waiting`, so that nobody waits for
    it for ever.
    """
    if allowed and batch.items:
        yield from batch.items
        return
    text = "A batch is empty." if not batch.items else "This revision has no batches."
    yield Malformed(errors.INVALID_REQUEST, text, None, False, b"[...]")
    for item in batch.items:
        match item:
            case Response(id) | ErrorResponse(id) | Malformed(id=id, is_request=False):
                if id is not None and id in waiting:
                    yield Malformed(errors.INVALID_REQUEST, text, id, False, b"[...]")


def is_request_id(value: Any) -> TypeGuard[RequestId]:
    """True for what may stand as a request id or progress token: a string or an integer."""
    return isinstance(value, str | int) and not isinstance(value, bool)
