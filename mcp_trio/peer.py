"""One end of a connection: who asked what, and which task waits for it.

`Correlation` knows which answer belongs to which question. `Peer` adds the tasks:

    feed(message) ──┬─▶ our call's own channel: its progress, then its answer
    (sync, never    ├─▶ a new task for a request of the other side, in its own cancel scope
     blocks,        └─▶ a callback for any other notification
     never raises)

    request(), notify(), answers ──▶ outbox ──▶ whoever writes

A request of ours is a `Call`, one of the other side an `IncomingRequest`; each has its own file.

Reading these files, note what is absent. No task sits between the reader and the calls: the
reader calls `feed`, and `feed` puts each message where it belongs without waiting, so a
consumer that dawdles delays nobody but itself. No timeout is a timer: it is the deadline of a
cancel scope. And nothing is ever stopped by a flag: a request that is cancelled here, there,
by a timeout or by the death of the connection is always the same thing, a cancel scope.

A `Peer` knows no stream. Its owner runs it: a `Connection` for everything that is one stream
of frames, something else where each message travels on its own, as over HTTP.
"""

import logging
import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

import trio

from mcp_trio.call import Call, Deadline, ProgressCallback
from mcp_trio.exceptions import Closed, RequestTimeout
from mcp_trio.incoming import (
    BatchReply,
    Handler,
    IncomingRequest,
    answer_request,
    encode_answer,
)
from mcp_trio.outbox import Outgoing
from mcp_trio.protocol import correlation
from mcp_trio.protocol.correlation import Correlation, unbatch
from mcp_trio.protocol.methods import METHODS
from mcp_trio.wire.jsonrpc import (
    MAX_BATCH,
    Batch,
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

#: Answers that may wait inside unfinished batches. Beyond it a batch is answered one by one.
MOST_BATCHED = MAX_BATCH
#: How many lines of a connection that make no sense are all logged.
STRAYS_LOGGED = 20
#: A timeout that progress extends ends at this many times its length, unless told otherwise.
CEILING = 10


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

    Attributes:
        batches_allowed: The revision has batches.
        requests_allowed: The other side makes requests; if not, they make no sense.
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
        self.requests_allowed = True
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
        self._deadlines: set[Deadline] = set()
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
            call.frame = encode(Request(id, method, params))
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
        await trio.lowlevel.cancel_shielded_checkpoint()  # it is sent: too late to raise Cancelled

    def fail(self, id: RequestId, error: Exception) -> None:
        """Let one of our calls raise `error`: what carries the messages could not carry this one.

        The connection goes on. Nothing happens if the call has ended already.
        """
        if self._correlation.abandon_outgoing(id) and (call := self._calls.get(id)) is not None:
            call.deliver(error)

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
    ) -> Iterator[Deadline]:
        if max_timeout is None:
            assert timeout is not None
            max_timeout = timeout * CEILING
        deadline = Deadline(scope, math.inf if timeout is None else timeout, max_timeout)
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
        elif isinstance(received, Request) and not self.requests_allowed:
            self._strayed(encode(received), "requests of this side are not expected", None)
        else:
            self._act(self._correlation.receive(received))

    def _feed_batch(self, batch: Batch) -> None:
        allowed = self.batches_allowed
        answers = sum(map(_wants_answer, batch.items)) if allowed else 0
        together = 0 < answers <= MOST_BATCHED - self._batched
        reply = BatchReply(answers) if together else None
        if reply is not None:
            self._batched += reply.size
        waiting = () if allowed else frozenset(self._correlation.outgoing)
        for item in unbatch(batch, allowed=allowed, waiting=waiting):
            self._act(self._correlation.receive(item), reply)

    def _act(self, event: correlation.Event, batch: BatchReply | None = None) -> None:
        match event:
            case correlation.Asked(request):
                incoming = IncomingRequest(
                    request.id, request.method, request.params or {}, self, batch=batch
                )
                self._serving[request.id] = incoming
                self._nursery.start_soon(self._serve, incoming)
            case correlation.Answered(id, answer):
                if (call := self._calls.get(id)) is not None:
                    call.deliver(answer)
            case correlation.Progressed(id, params):
                if (call := self._calls.get(id)) is not None:
                    call.deliver(params)
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
        """Cancel a handler, unless it is one that may not be, as that of `initialize`."""
        incoming = self._serving[id]
        row = METHODS.get(incoming.method)
        others_wait = incoming.answered and incoming.batch is not None
        if (row is None or row.cancellable) and not others_wait:
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
            if incoming.batch is not None and not incoming.answered:
                self._settle(incoming.batch, None, incoming.id)
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
                call.deliver(incoming.too_late())

    async def _reply(self, incoming: IncomingRequest, answer: Response | ErrorResponse) -> None:
        if incoming.silenced:  # cancelled after its last checkpoint: it is silent all the same
            return
        incoming.answered = True
        frame = encode_answer(answer)
        if incoming.batch is not None:
            await self._reply_in_batch(incoming.batch, frame, incoming.id)
            return
        try:
            self._outbox.put_nowait(frame, related=incoming.id)
        except trio.ClosedResourceError:
            pass  # nobody is left to read it
        except trio.WouldBlock:
            await self.put(frame, related=incoming.id)

    async def _reply_in_batch(self, batch: BatchReply, answer: bytes, related: RequestId) -> None:
        """Add an answer; the last one waits for room, and so counts as open, for all of them."""
        frame = batch.settle(answer)
        if frame is None:
            return
        try:
            await self.put(frame, related=related)
        finally:
            self._batched -= batch.size

    def _settle(self, batch: BatchReply, answer: bytes | None, related: RequestId) -> None:
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
                call.deliver(closed)


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
