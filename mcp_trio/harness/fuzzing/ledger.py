"""The ledger of one connection: what was sent, what came, and what belongs to what.

Oracles judge a `Trace`, the part of the ledger that one case has written. The ledger itself goes on
from case to case, because an answer may come late: one that belongs to an earlier case is known as
such, and one that belongs to nothing is known for certain.

Frames are either *clear*, valid messages that nobody can mistake, or not. For what is not clear the
ledger knows which ids an answer to it could have, however the peer reads it, and accuses nobody who
uses one of these.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from typing import Any, Final, Literal, TypeAlias

import attrs

from mcp_trio.harness.fuzzing.cases import Case
from mcp_trio.wire import jsonrpc
from mcp_trio.wire.jsonrpc import JSON, JSONObject, RequestId

Key: TypeAlias = tuple[str, str]
"""An id with its type, so that "1" is not 1."""

Verdict: TypeAlias = Literal["answer", "second", "stray", "unclear", "message", "garbage"]

EXACT: Final = 2**53
"""Whole numbers beyond this one are not the same for everybody who reads JSON."""
REMEMBERED: Final = 5_000
"""Ids that are remembered after they were answered, and ids of what was not clear."""
NULL: Final[Key] = ("null", "")
_HALF: Final = re.compile("[\ud800-\udfff]")


def key_of(id: JSON) -> Key:
    """The key of an id. Ids that JSON readers cannot be asked to tell apart have the same."""
    match id:
        case None:
            return NULL
        case bool():
            return "boolean", str(id)
        case int() | float():
            return "number", _number(id)
        case str():
            return "string", _HALF.sub("?", id).replace("\ufffd", "?")
        case _:
            return "json", json.dumps(id, sort_keys=True)


def _number(number: float) -> str:
    try:
        exact = float(number)
    except OverflowError:
        return "huge"
    return repr(exact) if abs(exact) >= EXACT or not exact.is_integer() else str(int(exact))


@attrs.define(eq=False)
class Asked:
    """A clear request that was sent.

    Attributes:
        at: When, in Trio's time.
        serial: How many clear messages were sent before it.
        slow: Its answer may take as long as it likes, as that of a tool.
        shared: Something else was sent under its id, so that nobody can say what an answer is to.
        answers: How many have come; more than one is one too many.
        answered_at: When the first came.
        cancelled: The same number for its cancellation, once that was sent.
        cancelled_at: And when that was.
        cancel_read_at: When the peer answered something that was sent after the cancellation, so
            that it has read it.
    """

    id: RequestId
    method: str
    params: JSONObject | None
    at: float
    serial: int
    slow: bool = False
    shared: bool = False
    answers: int = 0
    answered_at: float | None = None
    cancelled: int | None = None
    cancelled_at: float | None = None
    cancel_read_at: float | None = None
    refused: str | None = None

    @property
    def open(self) -> bool:
        return not self.answers

    @property
    def due(self) -> bool:
        """Whether its answer has to come soon."""
        return not self.answers and not self.slow and self.cancelled is None

    @property
    def expected(self) -> bool:
        """Whether it is due, and still may come."""
        return self.due and self.refused is None


@attrs.define(eq=False)
class Came:
    """A message of the peer, or a frame that is none.

    Attributes:
        raw: The frame.
        verdict: What it is to the ledger: the answer to `asked`; a second one for it; a response
            that belongs to nothing ("stray") or possibly to something that was not clear; another
            "message"; or "garbage".
        rounded: The id that was sent, where this one is the same only to who rounds numbers.
        progress: For progress: what the same token had before it, and whether its request is over.
    """

    at: float
    raw: bytes
    message: jsonrpc.Message | jsonrpc.Malformed | jsonrpc.Noise
    verdict: Verdict
    asked: Asked | None = None
    in_batch: bool = False
    rounded: int | None = None
    progress: Progress | None = None


@attrs.frozen
class Progress:
    """What is known of the token of a progress notification when it comes."""

    known: bool
    last: float | None
    over: bool


@attrs.define(eq=False)
class Trace:
    """What happened in one case.

    Attributes:
        case: What was played.
        number: Which case of its connection it was, from 1.
        sent: How many messages were sent, about.
        received: What came.
        asked: The clear requests that it sent.
        overdue: Those of them whose answers did not come though they had to.
        notified: Whether notifications were sent.
        unclear: Whether something was sent that is not clear.
        refused: Whether the transport refused something by itself, as HTTP does by its status.
        bytes_sent: How much was sent.
        fence: Seconds until the peer answered once all was done; None if it did not, or was not
            asked because the connection had been ended on purpose.
        fenced: Whether it was asked.
        patience: The seconds that it had for that.
        stuck: The peer took no more input within the deadline.
        ended: Why the connection ended; None if it did not.
        ended_by_us: A step ended it, or gave the peer a reason to.
        exit_seconds: Seconds that the process took to exit once its input had ended; None if it
            did not, or if there is none.
        awaited_exit: Whether it was waited for.
        exit_status: How the process ended, as far as it ended by itself.
        last_words: The end of its stderr.
        deadline: The seconds that an answer may take.
        began: In Trio's time.
    """

    case: Case
    number: int
    revision: str
    transport: str
    deadline: float
    began: float
    sent: int = 0
    received: list[Came] = attrs.field(factory=list)
    asked: list[Asked] = attrs.field(factory=list)
    overdue: list[Asked] = attrs.field(factory=list)
    notified: bool = False
    unclear: bool = False
    refused: bool = False
    bytes_sent: int = 0
    fence: float | None = None
    fenced: bool = False
    patience: float = 0.0
    stuck: bool = False
    ended: str | None = None
    ended_by_us: bool = False
    exit_seconds: float | None = None
    awaited_exit: bool = False
    exit_status: int | None = None
    last_words: str = ""


class Ledger:
    """Keeps the books of one connection. Does no I/O; it is told the time.

    Attributes:
        open: The clear requests without an answer, by id.
        trace: What the current case has written.
        frames: How many messages were sent, about.
    """

    def __init__(self, slow: frozenset[str]) -> None:
        self.open: dict[Key, list[Asked]] = {}
        self.trace: Trace | None = None
        self.frames = 0
        self._slow = slow
        self._answered: dict[Key, Asked] = {}
        self._unclear: dict[Key, list[RequestId]] = {}
        self._tokens: dict[Key, float | None] = {}
        self._unclear_tokens = False
        self._serial = 0
        self._unread: list[Asked] = []  # their cancellation may not have been read

    # What is sent

    def sent(self, frame: bytes, at: float, *, clear: bool) -> None:
        """Write down a frame before it is sent."""
        trace = self._trace
        trace.bytes_sent += len(frame)
        message = jsonrpc.decode(frame) if clear else None
        if message is None or not isinstance(message, jsonrpc.Message):
            self._sent_unclear(frame)
            return
        self._count(1)
        self._serial += 1
        if isinstance(message, jsonrpc.Request):
            self._asked(message, at)
        elif isinstance(message, jsonrpc.Notification):
            trace.notified = True
            if message.method == "notifications/cancelled":
                self._cancelled((message.params or {}).get("requestId"), at)

    def _asked(self, request: jsonrpc.Request, at: float) -> None:
        slow = request.method in self._slow
        asked = Asked(request.id, request.method, request.params, at, self._serial, slow)
        key = key_of(request.id)
        waiting = self.open.setdefault(key, [])
        waiting.append(asked)
        if len(waiting) > 1 or key in self._unclear:
            self._share(waiting)
        self._answered.pop(key, None)
        self._trace.asked.append(asked)
        meta = (request.params or {}).get("_meta")
        if isinstance(meta, dict) and type(token := meta.get("progressToken")) in (str, int):
            self._tokens[key_of(token)] = None

    def _cancelled(self, id: JSON, at: float) -> None:
        for asked in self.open.get(key_of(id), ()):
            if asked.cancelled is None:
                asked.cancelled, asked.cancelled_at = self._serial, at
                self._unread.append(asked)

    def refused(self, id: JSON, why: str) -> None:
        """Write down that a transport refused a frame by itself."""
        if self.trace is not None:
            self.trace.refused = True
        for asked in self.open.get(key_of(id), ()):
            asked.refused = why

    def _sent_unclear(self, frame: bytes) -> None:
        self._trace.unclear = True
        found = list(ids_in(frame))
        self._count(max(1, frame.count(b'"jsonrpc"')))
        for id in found:
            same = self._unclear.setdefault(key_of(id), [])
            if type(id) in (str, int) and id not in same:
                same.append(id)
        _forget(self._unclear)
        self._unclear_tokens |= b"oken" in frame
        self._unclear_ids(frame, found)

    def _unclear_ids(self, frame: bytes, ids: list[JSON]) -> None:
        """What is not clear may also have used an id that is open, or cancelled its request."""
        for id in ids:
            self._share(self.open.get(key_of(id), ()))
        if b"cancel" in frame or b"\\u" in frame:
            for waiting in self.open.values():
                self._share(waiting)

    @staticmethod
    def _share(waiting: Iterable[Asked]) -> None:
        for asked in waiting:
            asked.shared = asked.slow = True

    def _count(self, messages: int) -> None:
        self._trace.sent += messages
        self.frames += messages

    # What comes

    def came(self, raw: bytes, at: float) -> list[Came]:
        """Write down a frame of the peer; what is in it, one entry for each message."""
        message = jsonrpc.decode(raw)
        if isinstance(message, jsonrpc.Batch):
            entries = [self._came(raw, at, item, in_batch=True) for item in message.items]
        else:
            entries = [self._came(raw, at, message)]
        if self.trace is not None:
            self.trace.received += entries
        return entries

    def _came(
        self,
        raw: bytes,
        at: float,
        message: jsonrpc.Message | jsonrpc.Malformed | jsonrpc.Noise,
        *,
        in_batch: bool = False,
    ) -> Came:
        came = Came(at, raw, message, "message", in_batch=in_batch)
        if isinstance(message, jsonrpc.Response | jsonrpc.ErrorResponse):
            self._answer(came, message.id)
        elif isinstance(message, jsonrpc.Malformed | jsonrpc.Noise):
            if isinstance(message, jsonrpc.Malformed) and message.id is not None:
                self._answer(came, message.id)  # so that nobody waits for it
            came.verdict = "unclear" if self._is_echo(raw) else "garbage"
        elif message.method == "notifications/progress":
            came.progress = self._progress(message.params or {})
        return came

    def _is_echo(self, raw: bytes) -> bool:
        """Whether it is wrong only in that it carries back an id that was none."""
        try:
            value = json.loads(raw)
        except (ValueError, RecursionError):
            return False
        if not isinstance(value, dict) or "method" in value or type(value.get("id")) in (int, str):
            return False
        cured = json.dumps({**value, "id": 0}).encode()
        is_message = isinstance(jsonrpc.decode(cured), jsonrpc.Message)
        return is_message and key_of(value.get("id")) in self._unclear

    def _answer(self, came: Came, id: RequestId | None) -> None:
        key = key_of(id)
        if waiting := self.open.get(key):
            came.verdict, came.asked = "answer", waiting.pop(0)
            if not waiting:
                del self.open[key]
            came.asked.answers += 1
            came.asked.answered_at = came.at
            self._answered[key] = came.asked
            self._has_read(came.asked.serial, came.at)
            _forget(self._answered)
        elif key in self._unclear:
            came.verdict = "unclear"
            numbers = [sent for sent in self._unclear.get(key, ()) if isinstance(sent, int)]
            if isinstance(id, int) and numbers and id not in numbers:
                came.rounded = numbers[0]
        elif key in self._answered:
            came.verdict, came.asked = "second", self._answered[key]
            came.asked.answers += 1
        else:
            came.verdict = "stray"

    def _has_read(self, serial: int, at: float) -> None:
        """The peer answers what was sent as number `serial`: what came before that was read."""
        for asked in self._unread:
            if asked.cancelled is not None and asked.cancelled < serial:
                asked.cancel_read_at = asked.cancel_read_at or at
        if self._unread:
            self._unread = [asked for asked in self._unread if asked.cancel_read_at is None]

    def _progress(self, params: JSONObject) -> Progress:
        token, now = key_of(params.get("progressToken")), params.get("progress")
        known = token in self._tokens or self._unclear_tokens
        last = self._tokens.get(token)
        if isinstance(now, int | float):
            self._tokens[token] = now
        return Progress(known, last, over=token in self._answered and token not in self.open)

    # Between

    def unclear_ids(self) -> list[RequestId]:
        """Ids under which something may still be running that was not clear."""
        found = [id for ids in self._unclear.values() for id in ids]
        return [id for id in found if isinstance(id, int) or not _HALF.search(id)]

    def forget_unclear(self) -> None:
        """Forget ids of what was not clear, except for the newest. A case is over."""
        self._unclear.pop(NULL, None)  # the fence has been answered, and so errors without an id
        _forget(self._unclear, keep=500)
        _forget(self._tokens, keep=500)

    @property
    def _trace(self) -> Trace:
        assert self.trace is not None, "a frame is sent outside of a case"
        return self.trace


def _forget(remembered: dict[Key, Any], keep: int = REMEMBERED) -> None:
    """Drop the oldest entries of a dictionary that has become too long."""
    if len(remembered) > keep:
        for key in list(remembered)[: len(remembered) - keep]:
            del remembered[key]


# Ids in what is not clear -----------------------------------------------------------------------

_MEMBER = re.compile(rb'"id"\s*:\s*("(?:[^"\\]|\\.)*"|[^\s,}\]]*)')


def ids_in(frame: bytes) -> Iterator[JSON]:
    """Every id that an answer to a frame might have, whoever reads it and however."""
    yield None
    for line in frame.splitlines() if b"\n" in frame or b"\r" in frame else [frame]:
        yield from _ids_in_line(line)


def _ids_in_line(line: bytes) -> Iterator[JSON]:
    found: list[JSON] = []

    def note(members: list[tuple[str, JSON]]) -> JSONObject:
        found.extend(value for name, value in members if name == "id")
        return dict(members)

    try:
        json.loads(line, object_pairs_hook=note)
    except (ValueError, RecursionError):
        for text in _MEMBER.findall(line):
            try:
                found.append(json.loads(text))
            except (ValueError, RecursionError):
                found.append(text.decode("utf-8", "replace"))
    yield from found
