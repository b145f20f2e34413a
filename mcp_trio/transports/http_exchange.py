"""One HTTP request and the answer to it, without a web framework.

What speaks MCP over HTTP is a function `handle(exchange)`. It is called for each request and
neither knows nor cares who reads the bytes: our own server (`http_server`) or somebody else's,
through ASGI (`asgi`). An `Exchange` is all that it sees of either.

    async def handle(exchange: Exchange) -> None:
        body = await exchange.body(1_000_000)
        await exchange.respond(200, {"content-type": "text/plain"}, body.upper())

The face below takes care of what is no business of the handler: it answers a `RequestError`
with its status, drops a `ClientGone`, and answers any other exception with a bare 500 after
writing it to the log.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Iterable, Mapping
from contextlib import AbstractAsyncContextManager
from typing import ClassVar, TypeAlias

import attrs
import trio


class Headers:
    """The header fields of a request; names compare without regard to case.

    Values are latin-1 text, as HTTP has them. A field that was sent several times is one value
    with ", " in between (RFC 9110, section 5.3): so a second Origin or Host makes a value that
    no allow-list holds, instead of hiding behind the first.
    """

    __slots__ = ("_fields", "_raw")

    def __init__(self, fields: Iterable[tuple[bytes, bytes]]) -> None:
        """Take fields as h11 and ASGI have them: names in lower case."""
        self._raw = raw = list(fields)
        found = dict(raw)
        if len(found) < len(raw):
            found = {}
            for name, value in raw:
                found[name] = found[name] + b", " + value if name in found else value
        self._fields = found

    def get(self, name: str) -> str | None:
        """The value of a field, or None if the request does not have it."""
        value = self._fields.get(name.lower().encode("latin-1", "replace"))
        return None if value is None else value.decode("latin-1")

    def __contains__(self, name: str) -> bool:
        return name.lower().encode("latin-1", "replace") in self._fields

    def items(self) -> list[tuple[str, str]]:
        """All fields, names in lower case, in the order of their first appearance."""
        return [(n.decode("latin-1"), v.decode("latin-1")) for n, v in self._fields.items()]

    def raw(self) -> list[tuple[bytes, bytes]]:
        """The fields as they came, with repetitions; names in lower case. Not to be changed."""
        return self._raw

    def __repr__(self) -> str:
        return f"<Headers {', '.join(name for name, _ in self.items())}>"  # values may be secret


@attrs.frozen
class HTTPRequest:
    """The head of a request."""

    method: str
    #: Percent-decoded, without the query, relative to `root_path`; starts with "/" (or is "*").
    path: str
    #: What stands after the "?", as it was sent.
    query: str
    headers: Headers
    #: The address of the client (or of the proxy in front of us), without its port.
    client: str | None = None
    scheme: str = "http"
    #: Where an ASGI server or framework has mounted us: "" or, say, "/api".
    root_path: str = ""


class RequestError(Exception):
    """The client sent a request that cannot be read. Left alone, it is answered with `status`."""

    status: ClassVar[int] = 400


class BodyTooLarge(RequestError):
    """The body has, or announces, more bytes than allowed."""

    status = 413


class BodyTooSlow(RequestError):
    """The body did not arrive in time."""

    status = 408


class MalformedBody(RequestError):
    """The body is not framed as HTTP says."""


class ClientGone(Exception):
    """The client closed the connection, or stopped reading: nothing can be sent to it any more."""


#: What a response's header fields are given as.
ResponseHeaders: TypeAlias = Mapping[str, str] | Iterable[tuple[str, str]]

#: What `Exchange.stream` gives: sends a piece of the body, and waits while the client is slow.
SendPiece: TypeAlias = Callable[[bytes], Awaitable[None]]


class Exchange(ABC):
    """A request that waits for its answer. It belongs to the one call of the handler it is for."""

    request: HTTPRequest
    #: Set when the server is about to stop: a stream should come to its end now.
    shutting_down: trio.Event

    @abstractmethod
    async def body(self, limit: int) -> bytes:
        """The whole body of the request. Once only, and in the task that the handler runs in.

        Args:
            limit: The most bytes it may have; the server's own limit holds as well.

        Raises:
            BodyTooLarge: Also if the header only says so, before anything was read.
            BodyTooSlow: It took longer than the server allows.
            MalformedBody: It is not framed as HTTP says.
            ClientGone: The connection ended before the body did.
        """

    @abstractmethod
    async def respond(self, status: int, headers: ResponseHeaders = (), body: bytes = b"") -> None:
        """Answer with all there is. The length is filled in, and HEAD gets no body.

        It may return before the last byte is sent; a handler should return soon after.

        Raises:
            ClientGone: The client went away or stopped reading.
            RuntimeError: The request has been answered already.
        """

    @abstractmethod
    def stream(
        self, status: int, headers: ResponseHeaders = ()
    ) -> AbstractAsyncContextManager[SendPiece]:
        """Answer piece by piece, for the length of a block.

        The head goes out on entry. Each piece is sent when its call returns; while the client
        does not read, the call waits. Several tasks may send, a piece never mixes with another.
        Leaving the block normally ends the body; leaving it by
        an exception or a cancellation cuts the connection, so that the client can tell.

            async with exchange.stream(200, {"content-type": "text/event-stream"}) as send:
                await send(b"data: hello\\n\\n")

        Raises:
            ClientGone: On entry or by a send: the client went away or stopped reading.
            RuntimeError: The request has been answered already.
        """

    @abstractmethod
    def cancelled_by_disconnect(self) -> trio.CancelScope:
        """A cancel scope, not entered yet, that is cancelled when the client goes away.

        Its `cancelled_caught` tells whether that is how the block ended. Outside of such a block
        a disconnect is noticed by reading and sending alone. A client that closes its sending
        side only, while it still waits for the answer, counts as gone.

            with exchange.cancelled_by_disconnect():
                await exchange.respond(200, body=await slow_work())
        """

    @property
    @abstractmethod
    def scope(self) -> trio.CancelScope:
        """The cancel scope around the handler, and around the whole connection if it has one.

        To cancel it is to drop the client, which is right for whoever finds that it has gone.
        """

    @abstractmethod
    def cancel_with_client(self) -> None:
        """Cancel `scope` when the client goes away.

        That is what `cancelled_by_disconnect` does for a block. A scope of its own costs a request
        that is answered at once a twentieth of its time.
        """

    @property
    @abstractmethod
    def answered(self) -> bool:
        """Whether the head of a response has been sent or is about to be."""


#: Answers one request. It runs in a task of the face; what it raises is taken care of there.
Handle: TypeAlias = Callable[[Exchange], Awaitable[None]]
