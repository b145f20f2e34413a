"""The answer to an HTTP request of ours, be it one page or a stream without end.

The server is a stranger. So a body is read up to a limit, which counts what it unpacks to, and in
pieces, which whoever takes them can stop at any time. And what is wrong with an answer becomes a
`TransportError` that names the URL and the status and shows the beginning of the body, or the title
of an error page, but never a query string, a header of ours, or an echo of either.
"""

import math
import re
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from typing import Final

import attrs
import httpx
import trio

from mcp_trio.exceptions import AuthorizationRequired, TransportError
from mcp_trio.transports.http_packing import BadPacking, Unpacker
from mcp_trio.wire.jsonrpc import ErrorResponse, decode

#: Bytes that are read of the answer to a request that was refused, and the seconds for that.
REFUSAL_LIMIT: Final = 64 * 1024
REFUSAL_TIME: Final = 10.0
#: Characters of a body that an error shows.
EXCERPT: Final = 200
#: Seconds for letting go of a connection.
CLOSE_TIME: Final = 1.0

#: Neither part runs over a "<", so that no page takes longer to search than it is long.
_TITLE = re.compile(rb"<title[^<>]*>([^<]*)</title", re.IGNORECASE)


@attrs.frozen
class Refusal:
    """A request that was answered by a status other than 2xx.

    `error` says so as an exception; `answer` is the JSON-RPC error in the body, if it holds one.
    """

    status: int
    error: TransportError
    answer: ErrorResponse | None = None


class Reply:
    """The answer to a request: its head, and its body as it comes.

    Attributes:
        status: The status code.
        media_type: The content type in lower case and without parameters; "" if there is none.
    """

    def __init__(self, response: httpx.Response) -> None:
        self._response = response
        self._stopping: trio.CancelScope | None = None
        self.status: int = response.status_code
        self.media_type: str = (
            response.headers.get("content-type", "").partition(";")[0].strip().lower()
        )

    @property
    def name(self) -> str:
        """Status and URL, as errors show them."""
        # The phrase that the server sent may say anything, at any length.
        phrase = httpx.codes.get_reason_phrase(self.status)
        status = f"HTTP {self.status} {phrase}".rstrip()
        return f"{status} from {shown(self._response.url)}"

    @property
    def ok(self) -> bool:
        """True for a status of the 200s."""
        return self.status // 100 == 2

    @property
    def is_stream(self) -> bool:
        """True for a body of server-sent events."""
        return self.media_type == "text/event-stream"

    def header(self, name: str) -> str | None:
        """The value of a header, None if there is none."""
        value: str | None = self._response.headers.get(name)
        return value

    async def pour(self, sink: Callable[[bytes], object]) -> None:
        """Hand over the body, piece by piece as it comes, to its end or until `stop`.

        What `sink` raises leaves this, after the connection has been let go.

        Raises:
            TransportError: The body ended before it was complete, or cannot be unpacked.
        """
        failure: Exception | None = None
        # The pieces come out of a chain of generators which only an exception from its innermost
        # end takes down in order, so leaving the loop in its middle would leave them lying about.
        with trio.CancelScope() as self._stopping:
            try:
                unpacker, pieces = self._body()
                async for packed in pieces:
                    try:
                        if failure is None:
                            await _unpack(unpacker, packed, sink)
                    except Exception as exc:
                        failure = exc
                        self.stop()
                await trio.lowlevel.checkpoint_if_cancelled()  # perhaps not all was unpacked
                unpacker.end()
            except BadPacking as error:
                failure = failure or error
            except httpx.TransportError as error:
                if failure is None:
                    why = str(error) or type(error).__name__
                    raise TransportError(f"{self.name}: the body broke off: {why}") from error
        if isinstance(failure, BadPacking):
            raise TransportError(f"{self.name}: {failure}", self.status) from failure
        if failure is not None:
            raise failure

    def _body(self) -> tuple[Unpacker, AsyncIterator[bytes]]:
        if self._response.is_stream_consumed:  # a hook of the user has read it, and unpacked it
            return Unpacker(None), self._response.aiter_bytes()
        return Unpacker(self.header("content-encoding")), self._response.aiter_raw()

    def stop(self, after: float = 0) -> None:
        """Let `pour` come to its end, though the body has not, in so many seconds."""
        if self._stopping is None:
            raise RuntimeError("nothing is being read")
        self._stopping.deadline = trio.current_time() + after
        if not after:
            self._stopping.cancel()

    async def read(self, limit: int) -> bytes:
        """The whole body.

        Raises:
            TransportError: It is longer than `limit` bytes, or broke off.
        """
        body = bytearray()

        def take(piece: bytes) -> None:
            if len(body) + len(piece) > limit:
                raise TransportError(f"{self.name}: the body is longer than {limit} bytes")
            body.extend(piece)

        await self.pour(take)
        return bytes(body)

    async def skim(self) -> bytes:
        """The beginning of the body, in bounded time: enough to see what it is about."""
        body = bytearray()

        def take(piece: bytes) -> None:
            body.extend(piece[: REFUSAL_LIMIT - len(body)])
            if len(body) >= REFUSAL_LIMIT:
                self.stop()

        with trio.move_on_after(REFUSAL_TIME):
            with suppress(TransportError):  # the status says more
                await self.pour(take)
        return bytes(body)

    async def drain(self) -> None:
        """Read what should not be there, if it is little: the connection can then be used again."""
        if not self.is_stream:
            with trio.move_on_after(CLOSE_TIME):
                await self.skim()

    async def refusal(self) -> Refusal:
        """Why a request was refused."""
        body = await self.skim()
        answer = decode(body) if body else None
        if isinstance(answer, ErrorResponse):
            error = self.error(problem=answer.error.message)
            return Refusal(self.status, error, answer)
        return Refusal(self.status, self.error(body))

    def error(self, body: bytes = b"", *, problem: str = "") -> TransportError:
        """The exception for this reply: it is a refusal, or its body is not what it should be."""
        shows = ": ".join(filter(None, [problem, _excerpt(body, self.media_type)]))
        shows = self._without_secrets(shows)[: 2 * EXCERPT]
        reason = f"{self.name}: {shows}" if shows else self.name
        if self.status in (401, 403):
            challenge = self.header("www-authenticate") or ""
            return AuthorizationRequired(reason, self.status, challenge)
        return TransportError(reason, self.status)

    def _without_secrets(self, text: str) -> str:
        """A text of the server, which may repeat what we sent, without that."""
        request = self._response.request
        secrets = {value for name, value in request.headers.items() if name not in _PUBLIC}
        secrets |= {word for value in secrets for word in value.split()}
        secrets |= {value for _, value in request.url.params.multi_items()}
        secrets |= {request.url.password, request.url.query.decode("ascii", "replace")}
        for secret in sorted(secrets, key=len, reverse=True):
            if len(secret) >= 4:
                text = text.replace(secret, "***")
        return text


#: Headers of a request that hold nothing private; any other may be the user's.
_PUBLIC: Final = frozenset(
    {
        "accept",
        "accept-encoding",
        "connection",
        "content-length",
        "content-type",
        "host",
        "mcp-method",
        "mcp-name",
        "mcp-protocol-version",
        "user-agent",
    }
)


async def _unpack(unpacker: Unpacker, packed: bytes, sink: Callable[[bytes], object]) -> None:
    """Hand over what one piece unpacks to, which may be a thousand times as much.

    Everybody else gets a turn now and then. Where that brings a cancellation, this only stops: who
    reads the body hears of it with the next step, in order.
    """
    for number, piece in enumerate(unpacker.feed(packed)):
        if number:
            await trio.lowlevel.cancel_shielded_checkpoint()
            if trio.current_effective_deadline() == -math.inf:
                return
        sink(piece)


def shown(url: httpx.URL) -> str:
    """A URL without what may be secret in it: the query and the password."""
    return str(url.copy_with(userinfo=b"", query=None, fragment=None))


def _excerpt(body: bytes, media_type: str) -> str:
    if title := _TITLE.search(body) if "html" in media_type else None:
        body = title[1]
    text = body[: 8 * EXCERPT].decode(errors="replace")
    return " ".join("".join(c if c.isprintable() else " " for c in text).split())
