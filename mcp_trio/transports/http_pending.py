"""What comes back for a request over HTTP: one JSON object, or a stream of server-sent events.

A `PendingRequest` is a request of ours on its way. It takes whatever comes back for it, hands each
message to the connection, and knows when the one has come that answers it. A `Cursor` reads event
streams, and remembers where in them it is and how long to wait before another attempt, should the
stream have to be resumed.
"""

from collections.abc import Callable, Mapping
from typing import Final

import attrs
import trio

from mcp_trio.exceptions import TransportError
from mcp_trio.transports.http_reply import Refusal, Reply
from mcp_trio.wire.http_headers import LAST_EVENT_ID
from mcp_trio.wire.jsonrpc import (
    Batch,
    ErrorResponse,
    Malformed,
    Noise,
    Received,
    Request,
    Response,
    decode,
)
from mcp_trio.wire.sse import EventTooLong, SSEParser

#: Seconds that a stream has to end after its answer has come; if it does, its connection is kept.
LINGER: Final = 1.0
#: Headers of every POST. Both kinds of answer have to be accepted each time.
POST_HEADERS: Final[Mapping[str, str]] = {
    "Accept": "application/json, text/event-stream",
    "Content-Type": "application/json",
}
#: Headers of every GET.
GET_HEADERS: Final[Mapping[str, str]] = {
    "Accept": "text/event-stream",
    "Cache-Control": "no-store",
}

#: Takes a message that arrived, and the request on whose behalf it came, if any.
Deliver = Callable[[Received, "PendingRequest | None"], None]


class Cursor:
    """Reads event streams that continue each other.

    Args:
        limit: The most bytes that one event may have.

    Attributes:
        last_event_id: Where to resume, "" if that is not known.
        retry: Seconds to wait first, if the server has said so.
        moved: True once an event came; who reads may reset it.
    """

    def __init__(self, limit: int) -> None:
        self.last_event_id = ""
        self.retry: float | None = None
        self.moved = False
        self._limit = limit

    @property
    def headers(self) -> dict[str, str]:
        """What a GET that resumes the stream says: the id in UTF-8, as a browser sends it."""
        if not self.last_event_id:
            return {}
        sent = self.last_event_id.strip(" \t")  # which no header can have at its ends
        return {LAST_EVENT_ID: sent.encode().decode("latin-1")}

    @property
    def resumable(self) -> bool:
        """True if the server has said, in one of the two ways, that one may come again."""
        return bool(self.last_event_id) or self.retry is not None

    async def follow(self, reply: Reply, take: Callable[[bytes], object]) -> None:
        """Hand over the data of each message of a stream, to its end.

        Raises:
            EventTooLong: An event is over the limit.
            TransportError: The stream broke off.
        """
        parser = SSEParser(self._limit, last_event_id=self.last_event_id)

        def sink(piece: bytes) -> None:
            for event in parser.feed(piece):
                self.moved = True
                if event.event == "message" and event.data:
                    take(event.data)

        try:
            await reply.pour(sink)
        finally:
            self.last_event_id = parser.last_event_id
            if parser.retry is not None:
                self.retry = parser.retry / 1000


@attrs.define(eq=False)
class PendingRequest:
    """A request of ours on its way over HTTP.

    Attributes:
        frame: The request as it is sent.
        modern: It belongs to the modern era.
        scope: Cancelled when the answer is not wanted any more, or came another way.
        answered: The answer has come.
        amend: Changes the answer before it is handed over.
    """

    request: Request
    frame: bytes
    modern: bool
    limit: int
    deliver: Deliver
    scope: trio.CancelScope = attrs.field(factory=trio.CancelScope, repr=False)
    answered: bool = False
    amend: Callable[[Response], Response] | None = None

    async def read(self, reply: Reply, cursor: Cursor) -> None:
        """Take a reply of the 200s, which may end without the answer only if it is a stream.

        Raises:
            TransportError: It is neither JSON nor a stream, is no answer, or broke off.
            EventTooLong: An event is over the limit.
        """
        if reply.is_stream:
            await self.follow(reply, cursor)
        elif reply.media_type in ("application/json", "") or reply.media_type.endswith("+json"):
            self.take_whole(reply, await reply.read(self.limit))
        else:
            problem = f"{reply.media_type} is neither JSON nor an event stream"
            raise reply.error(await reply.skim(), problem=problem)

    async def follow(self, reply: Reply, cursor: Cursor) -> None:
        """Take the messages of a stream, to its end or until shortly after the answer."""

        def take(data: bytes) -> None:
            was_answered = self.answered
            self.take(data)
            if self.answered and not was_answered:
                reply.stop(after=LINGER)

        try:
            await cursor.follow(reply, take)
        except TransportError:
            if not self.answered:
                raise

    def take(self, data: bytes) -> None:
        """Take a message of a stream."""
        self._receive(decode(data))

    def take_whole(self, reply: Reply, body: bytes) -> None:
        """Take a body that has to be the answer.

        Raises:
            TransportError: It is not.
        """
        received = decode(body) if body.strip() else Noise(body)
        if isinstance(received, Malformed):
            received = attrs.evolve(received, id=self.request.id, is_request=False)
        if not isinstance(received, Noise):
            self._receive(received)
        if not self.answered:
            problem = "the body is no answer to the request" if body.strip() else "it has no body"
            raise reply.error(body, problem=problem)

    def refuse(self, refusal: Refusal) -> None:
        """Take the error in the body of a refusal.

        Raises:
            TransportError: There is none, or it is about who we are.
        """
        answer = refusal.answer
        if answer is None or refusal.status in (401, 403):
            raise refusal.error
        # Nothing but our request can have led to it, whatever id it has.
        self._receive(attrs.evolve(answer, id=self.request.id))

    def _receive(self, received: Received) -> None:
        if self.modern and isinstance(received, Request):
            # Not allowed on any stream of this era, and could not be answered.
            reason = f"a request of the server ({received.method}), which the modern era has not"
            self.deliver(Malformed(-32600, reason, None, False, b""), self)
            return
        if isinstance(received, ErrorResponse) and received.id is None:
            received = attrs.evolve(received, id=self.request.id)
        for message in received.items if isinstance(received, Batch) else (received,):
            if (
                isinstance(message, Response | ErrorResponse | Malformed)
                and message.id == self.request.id
                and not (isinstance(message, Malformed) and message.is_request)
            ):
                self.answered = True
        if isinstance(received, Response) and self.amend is not None and self.answered:
            received = self.amend(received)
        self.deliver(received, self)


def too_long(reply: Reply, error: EventTooLong) -> TransportError:
    """The same as an error of the exchange."""
    return TransportError(f"{reply.name}: {error}", reply.status)
