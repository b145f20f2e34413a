"""A request of the other side, from its arrival to its answer.

Its handler runs in a task and a cancel scope of its own, and gets this object: what was asked, and
the ways to tell and to ask the other side something while the answer is being made. All of them
end with the request, since nothing may follow its answer or its cancellation.
"""

import logging
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

import attrs
import trio

from mcp_trio.exceptions import MCPError
from mcp_trio.protocol.errors import INTERNAL_ERROR
from mcp_trio.wire.jsonrpc import (
    EncodeError,
    ErrorObject,
    ErrorResponse,
    JSONObject,
    RequestId,
    Response,
    encode,
)

if TYPE_CHECKING:
    from mcp_trio.peer import Peer

logger = logging.getLogger("mcp_trio")

#: Answers a request of the other side with a result, or raises `MCPError`.
Handler = Callable[["IncomingRequest"], Awaitable[JSONObject]]


@attrs.define(eq=False)
class IncomingRequest:
    """A request of the other side, while a handler works on it.

    Attributes:
        scope: Cancelled when the answer is no longer wanted.
        open_ended: Set by a handler that ends only when it is cancelled, such as a
            subscription; when input ends, nobody waits for it.
        answered: True once the answer is on its way; nothing follows it.
        principal: Whoever the transport authenticated for this very request, where it does that.
    """

    id: RequestId
    method: str
    params: JSONObject
    peer: "Peer"
    scope: trio.CancelScope = attrs.field(factory=trio.CancelScope, repr=False)
    open_ended: bool = False
    answered: bool = False
    principal: object = None
    batch: "BatchReply | None" = attrs.field(default=None, repr=False)
    _over: trio.Event | None = attrs.field(default=None, init=False, repr=False)

    @property
    def meta(self) -> JSONObject:
        """The request's `_meta`, empty if it has none or one that is no object."""
        meta = self.params.get("_meta")
        return meta if isinstance(meta, dict) else {}

    @property
    def silenced(self) -> bool:
        """True once nothing more may be sent for this request."""
        return self.answered or self.scope.cancel_called or self.peer.closed is not None

    async def notify(self, method: str, params: JSONObject | None = None) -> None:
        """Send a notification that belongs to this request.

        Does nothing once the request is answered or cancelled: nothing may be sent for it then.
        """
        if self.silenced:
            await trio.lowlevel.checkpoint()
        else:
            await self.peer.notify(method, params, related=self.id)

    async def request(
        self, method: str, params: JSONObject | None = None, *, timeout: float | None = None
    ) -> JSONObject:
        """Ask the other side something while answering this request (legacy revisions only).

        Raises:
            RuntimeError: The request is answered or cancelled, before or meanwhile. Only a task
                that is not the handler's, a thread or a shield comes to see that.
            As `Peer.request`.
        """
        await trio.lowlevel.checkpoint_if_cancelled()
        if self.silenced and self.peer.closed is None:
            raise self.too_late()
        return await self.peer.request(method, params, timeout=timeout, related=self.id)

    async def wait_over(self) -> None:
        """Wait until this request, one of `Peer.serving`, is answered or has been cancelled."""
        if self._over is None:
            self._over = trio.Event()
        await self._over.wait()

    def too_late(self) -> RuntimeError:
        """What becomes of questions on behalf of a request that is over."""
        text = f"{self.method} (request {self.id!r}) is answered or cancelled"
        return RuntimeError(f"{text}: nothing can be asked on its behalf any more")


class BatchReply:
    """Collects the answers to the requests of one batch, which leave together as one array."""

    def __init__(self, size: int) -> None:
        self.size = size
        self.missing = size
        self.answers: list[bytes] = []

    def settle(self, answer: bytes | None) -> bytes | None:
        """Add an answer, or None where a request was cancelled; the frame after the last."""
        self.missing -= 1
        if answer is not None:
            self.answers.append(answer)
        done = not self.missing and self.answers
        return b"[" + b",".join(self.answers) + b"]" if done else None


async def answer_request(handle: Handler, incoming: IncomingRequest) -> Response | ErrorResponse:
    """Run a handler; what it raises becomes the answer, and is logged unless it is meant to be."""
    try:
        return Response(incoming.id, await handle(incoming))
    except Exception as exc:
        cause = sole_exception(exc)
        if isinstance(cause, MCPError):
            error = ErrorObject(cause.code, cause.message, cause.data)
        else:
            logger.exception("the handler of %s failed", incoming.method)
            error = ErrorObject(INTERNAL_ERROR, "The request failed inside the server.")
        return ErrorResponse(incoming.id, error)


def encode_answer(answer: Response | ErrorResponse) -> bytes:
    """The answer as a frame; an error that says why, if it cannot be sent as JSON."""
    try:
        return encode(answer)
    except EncodeError as exc:
        logger.error("the answer to request %r %s", answer.id, exc)
        text = f"The result {exc}"
        return encode(ErrorResponse(answer.id, ErrorObject(INTERNAL_ERROR, text)))


def sole_exception(exc: BaseException) -> BaseException:
    """The one exception inside a group of one, however deep; else `exc` itself.

    A handler that opens a nursery raises its own error wrapped in a group; what it means is
    the error.
    """
    while isinstance(exc, BaseExceptionGroup) and len(exc.exceptions) == 1:
        exc = exc.exceptions[0]
    return exc
