"""One end of a connection: who asked what, and which task waits for it.

`Correlation` knows which answer belongs to which question. `Peer` adds the tasks:

    feed(message) ──┬─▶ our call's own channel: its progress, then its answer
    (sync, never    ├─▶ a new task for a request of the other side, in its own cancel scope
     blocks,        └─▶ a callback for any other notification
     never raises)

    request(), notify(), answers ──▶ outbox ──▶ whoever writes

Reading this file, note what is absent. No task sits between the reader and the calls: the
reader calls `feed`, and `feed` puts each message where it belongs without waiting, so a
consumer that dawdles delays nobody but itself. No timeout is a timer: it is the deadline of a
cancel scope. And nothing is ever stopped by a flag: a request that is cancelled here, there,
by a timeout or by the death of the connection is always the same thing, a cancel scope.

A `Peer` knows no stream. Its owner runs it: a `Connection` for everything that is one stream
of frames, something else where each message travels on its own, as over HTTP.
"""

import inspect
import logging
import math
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

import attrs
import trio

from mcp_trio.exceptions import ConnectionClosed, RequestTimeout
from mcp_trio.outbox import Outgoing
from mcp_trio.protocol import correlation
from mcp_trio.protocol.correlation import Correlation, unbatch
from mcp_trio.protocol.errors import INTERNAL_ERROR, MCPError, ProtocolError
from mcp_trio.wire.jsonrpc import (
    MAX_BATCH,
    Batch,
    EncodeError,
    ErrorObject,
    ErrorResponse,
    JSONObject,
    Malformed,
    Message,
    Notification,
    Received,
    Request,
    RequestId,
    Response,
    encode,
)

logger = logging.getLogger("mcp_trio")

#: Progress that may wait for a slow `on_progress`; beyond it the oldest is dropped.
PROGRESS_BUFFER = 256
#: Answers that may wait inside unfinished batches. Beyond it a batch is answered one by one.
MOST_BATCHED = MAX_BATCH
#: How many lines of a connection that make no sense are all logged.
STRAYS_LOGGED = 20
#: A timeout that progress extends ends at this many times its length, unless told otherwise.
CEILING = 10


@attrs.frozen
class Closed:
    """Why a connection ended, and what is known of the process behind it."""

    reason: str
    exit_status: int | None = None
    stderr_tail: str = ""

    def error(self) -> ConnectionClosed:
        """A fresh exception: one that two tasks raised would carry both their tracebacks."""
        return ConnectionClosed(self.reason, self.exit_status, self.stderr_tail)


#: Answers a request of the other side with a result, or raises `MCPError`.
Handler = Callable[["IncomingRequest"], Awaitable[JSONObject]]
#: Gets the params of each `notifications/progress` of a call; may be a coroutine function.
ProgressCallback = Callable[[JSONObject], object]


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
    _batch: "_BatchReply | None" = attrs.field(default=None, repr=False)
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
        self._over = self._over or trio.Event()
        await self._over.wait()

    def too_late(self) -> RuntimeError:
        """What becomes of questions on behalf of a request that is over."""
        text = f"{self.method} (request {self.id!r}) is answered or cancelled"
        return RuntimeError(f"{text}: nothing can be asked on its behalf any more")


#: What comes for a call of ours: progress, its answer, or the reason why there will be none.
_Arrival = JSONObject | Response | ErrorResponse | Malformed | Closed | Exception


class _BatchReply:
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


class Call:
    """A request of ours, from the moment it has an id; made by `Peer.call`."""

    def __init__(self, peer: "Peer", id: RequestId, method: str, related: RequestId | None) -> None:
        self.id = id
        self.method = method
        self.related = related
        self.sent = False
        self._peer = peer
        self._frame = b""
        channel: tuple[trio.MemorySendChannel[_Arrival], trio.MemoryReceiveChannel[_Arrival]]
        channel = trio.open_memory_channel(PROGRESS_BUFFER)
        self._arrived, self._events = channel

    async def send(self) -> None:
        """Hand the request to the writer.

        Raises:
            ConnectionClosed: The connection has ended, or nothing will answer any more.
        """
        if self._peer.input_ended is not None:
            raise self._peer.input_ended.error()
        await self._peer.put(self._frame, related=self.related)
        self.sent = True

    async def result(self, on_progress: ProgressCallback | None = None) -> JSONObject:
        """Wait for the result, handing over progress as it comes, all of it before the result.

        Raises:
            MCPError: The other side answered with an error.
            ProtocolError: Its answer cannot be read.
            ConnectionClosed: The connection ended first.
        """
        while True:
            event = await self._events.receive()
            match event:
                case Response(result=result):
                    return result
                case ErrorResponse(error=error):
                    raise MCPError(error.code, error.message, error.data)
                case Malformed(reason=reason):
                    text = f"the answer to {self.method} (request {self.id!r}) is unreadable"
                    raise ProtocolError(f"{text}: {reason}")
                case Closed():
                    raise event.error()
                case Exception():
                    raise event
                case dict() if on_progress is not None:
                    returned = on_progress(event)
                    if inspect.isawaitable(returned):
                        await returned

    def _deliver(self, event: "_Arrival") -> None:
        try:
            self._arrived.send_nowait(event)
        except trio.WouldBlock:  # a slow reader of progress: the oldest gives way
            self._events.receive_nowait()
            self._arrived.send_nowait(event)


class _Deadline:
    """The deadline of a call: progress moves it, a person who is being asked stops it."""

    def __init__(self, scope: trio.CancelScope, timeout: float, ceiling: float) -> None:
        self._scope = scope
        self._timeout = timeout
        self._longest = ceiling
        self._ceiling = trio.current_time() + ceiling
        self._paused_at: float | None = None
        self.extend()

    @property
    def seconds(self) -> float:
        """The time that ran out, once one has: the timeout, or the ceiling above it."""
        return self._longest if self._scope.deadline >= self._ceiling else self._timeout

    def extend(self) -> None:
        if self._paused_at is None:
            self._scope.deadline = min(trio.current_time() + self._timeout, self._ceiling)

    def pause(self) -> None:
        self._paused_at = trio.current_time()
        self._left = self._scope.deadline - self._paused_at
        self._scope.deadline = math.inf

    def resume(self) -> None:
        assert self._paused_at is not None
        now = trio.current_time()
        self._ceiling += now - self._paused_at
        self._paused_at = None
        self._scope.deadline = now + self._left


class Peer:
    """Requests and notifications in both directions, over whatever carries them.

    Args:
        nursery: Where the handlers of incoming requests run.
        outbox: Takes the frames that are to be written.
        handle: Answers a request of the other side; runs in a task of its own.
        on_notification: Called, not awaited, with each notification that is neither progress
            nor a cancellation. What it raises is logged.
        on_stray: Called with the line and the reason for whatever made no sense: noise,
            malformed messages, answers to nothing. Logged if not given.
        max_in_flight: How many requests of the other side may be open at once.
        answers_strays: Answer what cannot be read, without an id, where nothing better is
            possible: a server does, as far as its revision allows.
        on_served: Called once for each request of the other side that got a handler, when its
            answer has been handed to the outbox, or there will be none.
    """

    def __init__(
        self,
        nursery: trio.Nursery,
        outbox: Outgoing,
        *,
        handle: Handler,
        on_notification: Callable[[Notification], None],
        on_stray: Callable[[bytes, str], object] | None = None,
        max_in_flight: int = 1000,
        answers_strays: bool = False,
        on_served: Callable[[IncomingRequest], object] | None = None,
    ) -> None:
        self.batches_allowed = False
        self.answers_strays = answers_strays
        self.closed: Closed | None = None
        self.input_ended: Closed | None = None
        self._nursery = nursery
        self._outbox = outbox
        self._handle = handle
        self._on_notification = on_notification
        self._on_stray = on_stray or _StrayLog()
        self._on_served = on_served
        self._correlation = Correlation(max_in_flight=max_in_flight)
        self._calls: dict[RequestId, Call] = {}
        self._serving: dict[RequestId, IncomingRequest] = {}
        self._deadlines: set[_Deadline] = set()
        self._batched = 0
        self._people = 0
        self._idle = trio.lowlevel.ParkingLot()
        self._ended = trio.Event()

    # Asking

    async def request(
        self,
        method: str,
        params: JSONObject | None = None,
        *,
        on_progress: ProgressCallback | None = None,
        timeout: float | None = None,
        max_timeout: float | None = None,
        cancel_notice: bool = True,
        related: RequestId | None = None,
    ) -> JSONObject:
        """Ask the other side, and wait for its result.

        Cancelling this, or a timeout, tells the other side that the answer is not wanted any
        more (unless `cancel_notice` is false, as `initialize` requires) and drops the answer
        should it still come.

        Args:
            on_progress: Called in this task with the params of each progress notification,
                in order, all before the result. What it raises leaves this call and cancels it.
            timeout: Seconds; each progress notification starts them anew.
            max_timeout: Seconds that no progress extends; ten times `timeout` by default.
            related: The request of the other side on whose behalf this is asked.

        Raises:
            MCPError: The other side answered with an error.
            RequestTimeout: The time ran out.
            ConnectionClosed: The connection ended, before or meanwhile.
            ProtocolError: The answer cannot be read.
            EncodeError: The params cannot be sent as JSON.
        """
        call_context = self.call(
            method,
            params,
            progress=on_progress is not None,
            cancel_notice=cancel_notice,
            related=related,
        )
        with call_context as call:
            if timeout is None and max_timeout is None:
                await call.send()
                return await call.result(on_progress)
            with trio.CancelScope() as scope, self._deadline(scope, timeout, max_timeout) as timer:

                def progressed(progress: JSONObject) -> object:
                    timer.extend()
                    return on_progress(progress) if on_progress is not None else None

                await call.send()
                return await call.result(progressed)
            raise RequestTimeout(method, timer.seconds)

    @contextmanager
    def call(
        self,
        method: str,
        params: JSONObject | None = None,
        *,
        progress: bool = False,
        cancel_notice: bool = True,
        endable: bool = False,
        related: RequestId | None = None,
    ) -> Iterator[Call]:
        """Prepare a request and own it for the length of a block.

        Leaving the block before the answer came cancels the request at the other side.
        `endable` is for `subscriptions/listen`, whose end a server may announce by a
        cancellation; `result` then returns an empty object.
        """
        id = self._correlation.open_outgoing(endable=endable)
        call = self._calls[id] = Call(self, id, method, related)
        try:
            if progress:
                params = dict(params or {})
                params["_meta"] = {**params.get("_meta", {}), "progressToken": id}
            call._frame = encode(Request(id, method, params))
            yield call
        finally:
            del self._calls[id]
            if self._correlation.abandon_outgoing(id) and cancel_notice and call.sent:
                goodbye = Notification("notifications/cancelled", {"requestId": id})
                self._put_exempt(encode(goodbye), related)

    def post(self, method: str, params: JSONObject | None = None) -> None:
        """Ask something and not wait for the answer, which is dropped when it comes.

        For goodbyes, which have to work while one is being cancelled.
        """
        id = self._correlation.open_outgoing()
        self._correlation.abandon_outgoing(id)
        self._put_exempt(encode(Request(id, method, params)))

    async def notify(
        self,
        method: str,
        params: JSONObject | None = None,
        *,
        related: RequestId | None = None,
    ) -> None:
        """Send a notification; `related` as for `request`.

        Always lets other tasks run: a handler that computes, and reports progress as it does,
        would otherwise keep its reports from leaving and its own cancellation from arriving.

        Raises:
            ConnectionClosed: The connection has ended.
            EncodeError: The params cannot be sent as JSON.
        """
        await self.put(encode(Notification(method, params)), related=related)
        await trio.lowlevel.cancel_shielded_checkpoint()  # it is sent: too late to cancel
        await trio.lowlevel.cancel_shielded_checkpoint()  # it is sent: too late to raise Cancelled

    def fail(self, id: RequestId, error: Exception) -> None:
        """Let one of our calls raise `error`: what carries the messages could not carry this one.

        The connection goes on. Nothing happens if the call has ended already.
        """
        if self._correlation.abandon_outgoing(id) and (call := self._calls.get(id)) is not None:
            call._deliver(error)

    @contextmanager
    def person_answering(self) -> Iterator[None]:
        """Stop the clocks of our calls while a person is being asked something.

        A tool that asks its user would otherwise run into the timeout of its own call.
        """
        self._people += 1
        if self._people == 1:
            for deadline in self._deadlines:
                deadline.pause()
        try:
            yield
        finally:
            self._people -= 1
            if self._people == 0:
                for deadline in self._deadlines:
                    deadline.resume()

    @contextmanager
    def _deadline(
        self, scope: trio.CancelScope, timeout: float | None, max_timeout: float | None
    ) -> Iterator[_Deadline]:
        if max_timeout is None:
            assert timeout is not None
            max_timeout = timeout * CEILING
        deadline = _Deadline(scope, math.inf if timeout is None else timeout, max_timeout)
        if self._people:
            deadline.pause()
        self._deadlines.add(deadline)
        try:
            yield deadline
        finally:
            self._deadlines.discard(deadline)

    # Sending

    async def put(self, frame: bytes, *, related: RequestId | None = None) -> None:
        """Hand an encoded frame to the writer, waiting for room.

        Raises:
            ConnectionClosed: The connection has ended.
        """
        try:
            await self._outbox.put(frame, related=related)
        except trio.ClosedResourceError:
            # The writer failed. Why, the owner of the connection is just finding out.
            await self._ended.wait()
            assert self.closed is not None
            raise self.closed.error() from None

    def _put_or_close(self, frame: bytes, related: RequestId | None = None) -> None:
        """Send what must not wait; a peer that asks on but does not read is given up."""
        try:
            self._outbox.put_nowait(frame, related=related)
        except trio.ClosedResourceError:
            pass  # the end of the connection is on its way
        except trio.WouldBlock:
            closed = Closed("the peer keeps sending requests but does not read the answers")
            if self.closed is None:
                logger.warning("a connection is given up: %s", closed.reason)
            self.close(closed)

    def _put_exempt(self, frame: bytes, related: RequestId | None = None) -> None:
        """Send a goodbye, for which there is always room, unless nobody is left to tell."""
        with suppress(trio.ClosedResourceError):
            self._outbox.put_nowait(frame, related=related, exempt=True)

    # Receiving

    def feed(self, received: Received) -> None:
        """Put something that arrived where it belongs. Never blocks, never raises."""
        if self.closed is not None:
            return
        if isinstance(received, Batch):
            self._feed_batch(received)
        else:
            self._act(self._correlation.receive(received))

    def _feed_batch(self, batch: Batch) -> None:
        allowed = self.batches_allowed
        answers = sum(map(_wants_answer, batch.items)) if allowed else 0
        together = 0 < answers <= MOST_BATCHED - self._batched
        reply = _BatchReply(answers) if together else None
        if reply is not None:
            self._batched += reply.size
        for item in unbatch(batch, allowed=allowed):
            self._act(self._correlation.receive(item), reply)

    def _act(self, event: correlation.Event, batch: _BatchReply | None = None) -> None:
        match event:
            case correlation.Asked(request):
                incoming = IncomingRequest(
                    request.id, request.method, request.params or {}, self, batch=batch
                )
                self._serving[request.id] = incoming
                self._nursery.start_soon(self._serve, incoming)
            case correlation.Answered(id, answer):
                if (call := self._calls.get(id)) is not None:
                    call._deliver(answer)
            case correlation.Progressed(id, params):
                if (call := self._calls.get(id)) is not None:
                    call._deliver(params)
            case correlation.CancelAsked(id, reason):
                logger.debug("request %r was cancelled by the peer: %s", id, reason)
                self._cancel(id)
            case correlation.Notified(notification):
                self._notified(notification)
            case correlation.Refused(id, error):
                refusal = encode(ErrorResponse(id, error))
                if batch is None:
                    self._put_or_close(refusal, id)
                else:
                    self._settle(batch, refusal, id)
            case correlation.Stray(line, reason, error):
                self._strayed(line, reason, error)
            case correlation.Late(id):
                logger.debug("dropped a late message for request %r", id)

    def _cancel(self, id: RequestId) -> None:
        """Cancel a handler; but `initialize` must not be cancelled (basic/cancellation)."""
        incoming = self._serving[id]
        others_wait = incoming.answered and incoming._batch is not None
        if incoming.method != "initialize" and not others_wait:
            incoming.scope.cancel()

    def _notified(self, notification: Notification) -> None:
        try:
            self._on_notification(notification)
        except Exception:
            logger.exception("the handler of %s failed", notification.method)

    def _strayed(self, line: bytes, reason: str, error: ErrorObject | None) -> None:
        try:
            self._on_stray(line, reason)
        except Exception:
            logger.exception("the hook for lines that make no sense failed")
        if error is not None and self.answers_strays:
            self._put_or_close(encode(ErrorResponse(None, error)))

    # Answering

    @property
    def serving(self) -> tuple[IncomingRequest, ...]:
        """The requests of the other side that are being worked on, in order of arrival."""
        return tuple(self._serving.values())

    async def _serve(self, incoming: IncomingRequest) -> None:
        """Answer one request of the other side, unless it is cancelled first."""
        try:
            with incoming.scope:
                await self._reply(incoming, await answer_request(self._handle, incoming))
        except* Exception:  # a handler's nursery may mix its own errors with the cancellation
            logger.exception("the handler of %s failed while it was cancelled", incoming.method)
        finally:
            del self._serving[incoming.id]
            self._correlation.close_incoming(incoming.id)
            self._withdraw_questions(incoming)
            if incoming._over is not None:
                incoming._over.set()
            if incoming._batch is not None and not incoming.answered:
                self._settle(incoming._batch, None, incoming.id)
            self._idle.unpark_all()
            if self._on_served is not None:
                self._on_served(incoming)

    def _withdraw_questions(self, incoming: IncomingRequest) -> None:
        """End what is still asked on behalf of a request that is over, here and over there.

        The handler's own tasks are gone by now, but a thread that was left to itself may be
        waiting for an answer, and a person may be looking at the question.
        """
        for call in self._calls.values():
            if call.related == incoming.id:
                call._deliver(incoming.too_late())

    async def _reply(self, incoming: IncomingRequest, answer: Response | ErrorResponse) -> None:
        if incoming.silenced:  # cancelled after its last checkpoint: it is silent all the same
            return
        incoming.answered = True
        frame = encode_answer(answer)
        if incoming._batch is not None:
            await self._reply_in_batch(incoming._batch, frame, incoming.id)
            return
        try:
            self._outbox.put_nowait(frame, related=incoming.id)
        except trio.ClosedResourceError:
            pass  # nobody is left to read it
        except trio.WouldBlock:
            await self.put(frame, related=incoming.id)

    async def _reply_in_batch(self, batch: _BatchReply, answer: bytes, related: RequestId) -> None:
        """Add an answer; the last one waits for room, and so counts as open, for all of them."""
        frame = batch.settle(answer)
        if frame is None:
            return
        try:
            await self.put(frame, related=related)
        finally:
            self._batched -= batch.size

    def _settle(self, batch: _BatchReply, answer: bytes | None, related: RequestId) -> None:
        """Add an answer that must not wait, or None for a request that was cancelled."""
        frame = batch.settle(answer)
        if not batch.missing:
            self._batched -= batch.size
        if frame is not None:
            self._put_or_close(frame, related)

    # Ending

    async def finish(self) -> None:
        """Nothing more will arrive: let the handlers that can still finish do so.

        What waits for the other side cannot: our own calls fail, and requests that only a
        cancellation ends are cancelled. The caller bounds the time that this may take.
        """
        self.input_ended = Closed("the peer will send nothing more")
        self._fail_calls(self.input_ended)
        for incoming in list(self._serving.values()):
            if incoming.open_ended:
                incoming.scope.cancel()
        await trio.lowlevel.checkpoint()
        while self._serving:
            await self._idle.park()
        await self._outbox.flush()

    def close(self, closed: Closed) -> None:
        """End everything, for the reason given; only the first reason counts.

        Every call that waits raises a `ConnectionClosed` of its own, every handler is
        cancelled, and what is fed or asked from now on finds the connection closed.
        """
        if self.closed is not None:
            return
        self.closed = self.input_ended = closed
        self._fail_calls(closed)
        for incoming in list(self._serving.values()):
            incoming.scope.cancel()
        self._outbox.close()
        self._ended.set()

    async def wait_closed(self) -> Closed:
        """Wait until the connection has ended, and say why."""
        await self._ended.wait()
        assert self.closed is not None
        return self.closed

    def _fail_calls(self, closed: Closed) -> None:
        for id in self._correlation.outgoing:
            self._correlation.abandon_outgoing(id)
            if (call := self._calls.get(id)) is not None:
                call._deliver(closed)


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


def _wants_answer(item: Message | Malformed) -> bool:
    return isinstance(item, Request) or (
        isinstance(item, Malformed) and item.is_request and item.id is not None
    )


class _StrayLog:
    """Logs what makes no sense; of a flood less and less, so that it neither fills the log nor
    takes up the time of the task that reads."""

    def __init__(self) -> None:
        self._number = 0

    def __call__(self, line: bytes, reason: str) -> None:
        self._number += 1
        if self._number > STRAYS_LOGGED and self._number & (self._number - 1):
            return  # beyond the first few only the 32nd, 64th, 128th, ...
        text = "skipped what makes no sense here, number %d (%s): %r"
        shown: Any = line[:200]
        logger.warning(text, self._number, reason, shown)
