"""What has to hold of everything that a peer of ours sends, whatever it was sent before.

A `Witness` sees both directions of one connection and knows nothing of how the peer works:

- every frame that the peer sends is a message, or a batch of them;
- what it sends is what the method table says: methods that its side may use, params and results
  that are of their types;
- every request gets one answer and no more, and none at all only after it was cancelled;
- an error without an id is an answer to something that could not be read.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from mcp_trio.exceptions import ConnectionClosed, MCPError, ProtocolError
from mcp_trio.protocol.convert import StructureError, structure
from mcp_trio.protocol.correlation import is_request_id
from mcp_trio.protocol.methods import METHODS, Side
from mcp_trio.protocol.types.mrtr import InputRequiredResult
from mcp_trio.wire.jsonrpc import (
    Batch,
    ErrorResponse,
    Malformed,
    Message,
    Noise,
    Notification,
    Received,
    Request,
    RequestId,
    Response,
    decode,
)

PEERS_DOING = (MCPError, ProtocolError, ConnectionClosed)
"""Exceptions that say what the other side did."""

Key = tuple[type, RequestId]
"""An id, told apart from one that is merely equal to it."""


class Fault(AssertionError):
    """Our own code did what it must not do."""


def key_of(id: RequestId) -> Key:
    return type(id), id


class Witness:
    """Watches one connection.

    Attributes:
        side: What the peer under test is.
        questions: The requests of the peer that nobody has answered yet.
    """

    def __init__(self, side: Side) -> None:
        self.side = side
        self.questions: dict[Key, Request] = {}
        self.sent_count = 0
        self.received_count = 0
        self._asked: Counter[Key] = Counter()
        self._answered: Counter[Key] = Counter()
        self._methods: dict[Key, set[str | None]] = {}
        self._excused: set[Key] = set()
        self._unreadable = 0
        self._complaints = 0

    # What the peer is sent

    def sent(self, frame: bytes) -> Received:
        """Note a frame before it goes to the peer, and return what it says."""
        self.sent_count += 1
        message = decode(frame)
        self._note(message)
        return message

    def _note(self, message: Received, *, batched: bool = False) -> None:
        match message:
            case Batch(items):
                self._unreadable += 1  # as a whole, where the revision has no batches
                for item in items:
                    self._note(item, batched=True)
            case Request(id, method):
                self._ask(id, method, excused=batched)
            case Malformed(id=None) | Noise():
                self._unreadable += 1
            case Malformed(id=id, is_request=is_request) if id is not None:
                self._unreadable += 1
                if is_request:
                    self._ask(id, None, excused=batched)
                else:
                    self.questions.pop(key_of(id), None)
            case Notification("notifications/cancelled", params):
                id = (params or {}).get("requestId")
                if is_request_id(id):
                    self._excused.add(key_of(id))
            case Response(id) | ErrorResponse(id=id) if id is not None:
                self.questions.pop(key_of(id), None)

    def _ask(self, id: RequestId, method: str | None, *, excused: bool) -> None:
        key = key_of(id)
        self._asked[key] += 1
        self._methods.setdefault(key, set()).add(method)
        if excused:
            self._excused.add(key)

    # What the peer sends

    def received(self, frame: bytes) -> Received:
        """Judge a frame of the peer, and return what it says.

        Raises:
            Fault: It must not have been sent.
        """
        self.received_count += 1
        message = decode(frame)
        for item in message.items if isinstance(message, Batch) else (message,):
            if isinstance(item, Malformed | Noise | Batch):
                raise Fault(f"it sent what is no message: {item!r}")
            self._judge(item)
        return message

    def _judge(self, message: Message) -> None:
        match message:
            case Request(id, method, params):
                self._check_use(method, params)
                if key_of(id) in self.questions:
                    raise Fault(f"it asks with an id that is in use: {message!r}")
                self.questions[key_of(id)] = message
            case Notification(method, params):
                self._check_use(method, params)
            case Response(id, result):
                self._count_answer(id, message)
                self._check_result(self._methods[key_of(id)], result)
            case ErrorResponse(id=None):
                self._complaints += 1
                if self._complaints > self._unreadable:
                    raise Fault(f"it complains of what it was not sent: {message!r}")
            case ErrorResponse(id=id) if id is not None:
                self._count_answer(id, message)

    def _check_use(self, method: str, params: Any) -> None:
        row = METHODS.get(method)
        if row is None or self.side not in row.senders:
            raise Fault(f"a {self.side} must not send {method}")
        # The state of an unfinished request goes back as it came, be it of the right type or not.
        own = {name: value for name, value in (params or {}).items() if name != "requestState"}
        _check_type(own, row.params_type(), f"the params of {method}")

    def _count_answer(self, id: RequestId, answer: Response | ErrorResponse) -> None:
        key = key_of(id)
        self._answered[key] += 1
        if self._answered[key] > self._asked[key]:
            times = f"asked {self._asked[key]} and answered {self._answered[key]} times"
            raise Fault(f"{times}: {answer!r:.300}")

    def _check_result(self, methods: set[str | None], result: Any) -> None:
        """Of several requests with one id, any may be meant."""
        faults = []
        for method in methods:
            row = METHODS.get(method or "")
            if row is None or row.result is None:
                faults.append(f"{method} has no result, and it was answered {result!r:.300}")
                continue
            asks = row.may_ask and result.get("resultType") == "input_required"
            try:
                _check_type(
                    result,
                    InputRequiredResult if asks else row.result_type(),
                    f"the result of {method}",
                )
                return
            except Fault as fault:
                faults.append(str(fault))
        raise Fault("; ".join(faults))

    # At the end

    @property
    def unanswered(self) -> dict[Key, set[str | None]]:
        """Requests that still wait for an answer though nobody cancelled them, and their methods.

        Those in batches are not among them: a batch of many revisions is refused as a whole.
        """
        return {
            key: self._methods[key]
            for key, times in self._asked.items()
            if self._answered[key] < times and key not in self._excused
        }

    def settle(self) -> None:
        """Judge the conversation once the peer has come to rest.

        Raises:
            Fault: Requests have no answer.
        """
        if self.unanswered:
            raise Fault(f"never answered: {list(self.unanswered.items())[:10]}")


def _check_type(value: Any, cls: Any, what: str) -> None:
    try:
        structure(value, cls)
    except StructureError as error:
        raise Fault(f"{what} is not of its type: {error}: {value!r:.500}") from None


@contextmanager
def nothing_logged() -> Iterator[None]:
    """What our code caught and logged as its own failure counts as one.

    That a tool fails because of what the client answered it is not: the client did it.

    Raises:
        Fault: At the end of the block; it names the first failure.
    """
    failures: list[logging.LogRecord] = []

    class Keeper(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            cause = record.exc_info[1] if record.exc_info else None
            if cause is not None and not isinstance(cause, PEERS_DOING) and not failures:
                failures.append(record)

    logger = logging.getLogger("mcp_trio")
    keeper = Keeper(logging.ERROR)
    before = logger.propagate, logger.level
    logger.addHandler(keeper)
    logger.propagate = False
    logger.setLevel(logging.ERROR)
    try:
        yield
    finally:
        logger.removeHandler(keeper)
        logger.propagate, level = before
        logger.setLevel(level)  # which also forgets what was found to be disabled
    for record in failures:
        cause = record.exc_info[1] if record.exc_info else None
        raise Fault(f"it logged a failure of its own: {record.getMessage()}") from cause
