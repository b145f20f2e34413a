"""The oracles: what is asked of every case, whatever was sent.

An oracle is a pure function from the trace of a case to accusations. It expects only what the
revision does ask for: an answer that was sent before the cancellation could be read is fine, nobody
has to answer what is no message, and an answer to what is not clear may take any form that a reader
of it could have meant. A peer that the specification allows is never accused; the tests hold that
against peers that answer everything, and against others that answer nothing they need not.

What each oracle asks for is named by the requirements it stands for. Where there are none, no
sentence asks for it, and it counts as a SHOULD.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from typing import Any, Final

import attrs

from mcp_trio.harness.fuzzing.ledger import EXACT, Asked, Came, Trace
from mcp_trio.harness.model import Level, Requirement
from mcp_trio.harness.runner import strongest
from mcp_trio.protocol import errors
from mcp_trio.protocol import meta as keys
from mcp_trio.protocol.convert import CONVERTER, StructureError
from mcp_trio.protocol.methods import METHODS, Side, find_method
from mcp_trio.protocol.revisions import MODERN, REVISIONS, is_modern, supports
from mcp_trio.wire import jsonrpc
from mcp_trio.wire.jsonrpc import JSON, JSONObject

LATE: Final = 0.1
"""Seconds by which an answer has to follow the proof that its cancellation was read: what was
written before that may have waited in a queue."""
RESERVED: Final = "io.modelcontextprotocol/"
LARGE: Final = 1_000_000
"""Bytes of a case after which a peer may have had enough."""


@attrs.frozen
class Accusation:
    """Something that a peer did wrong in a case.

    Attributes:
        oracle: Who says so.
        cause: What went wrong, without what differs from one time to the next: findings with the
            same oracle and cause are one.
        message: What was seen, in one line.
        requirements: Those that are broken, if not all of the oracle's.
        vague: The cause says so little that faults of several causes may share it.
    """

    oracle: str
    cause: str
    message: str
    requirements: tuple[str, ...] | None = None
    vague: bool = False


Judge = Callable[[Trace], Iterator[Accusation]]


@attrs.frozen
class Oracle:
    """One expectation.

    Attributes:
        name: Its name.
        meaning: What a peer does that passes, in one line.
        requirements: The requirements that it stands for, by revision; all that some revision has
            may be named, as each revision keeps those that it has.
        judge: Finds what is wrong in the trace of a case; None for what is seen over many cases.
    """

    name: str
    meaning: str
    requirements: tuple[str, ...] = ()
    judge: Judge | None = attrs.field(default=None, repr=False)

    def requirements_in(
        self,
        revision: str,
        requirements: Mapping[str, Requirement],
        named: tuple[str, ...] | None = None,
    ) -> tuple[str, ...]:
        """The ids of the requirements that a revision has."""
        ids = self.requirements if named is None else named
        return tuple(id for id in ids if revision in requirements[id].revisions)

    def level(
        self,
        revision: str,
        requirements: Mapping[str, Requirement],
        named: tuple[str, ...] | None = None,
    ) -> Level:
        """How strongly it is meant in a revision."""
        ids = self.requirements_in(revision, requirements, named)
        return strongest(ids, requirements, revision)


# Is it alive? -----------------------------------------------------------------------------------


def _still_answers(trace: Trace) -> Iterator[Accusation]:
    if trace.stuck:
        message = f"the server took no more input for over {trace.deadline:g} s"
        yield Accusation("still-answers", "takes no more input", message, vague=True)
    elif trace.fenced and trace.fence is None and trace.ended is None:
        asked = "server/discover" if is_modern(trace.revision) else "ping"
        message = f"the server runs, but did not answer {asked} within {trace.patience:g} s"
        yield Accusation("still-answers", "does not answer any more", message, vague=True)


def _no_crash(trace: Trace) -> Iterator[Accusation]:
    if trace.ended is None or trace.ended_by_us or trace.stuck:
        return
    if trace.bytes_sent > LARGE and not trace.exit_status:
        return  # whoever has a limit may hang up on who ignores it
    status = trace.exit_status
    how = "the connection ended" if status is None else f"the server exited with status {status}"
    if status is not None and status < 0:
        how = f"the server was killed by signal {-status}"
    words = _exception(trace.last_words)
    message = f"{how}: {trace.ended}" + (f" ({words})" if words else "")
    owed = any(asked.due for asked in trace.asked) and not trace.unclear
    cause = f"{how}, {words.partition(':')[0]}" if words else how
    requirements = ("base-2",) if owed else ()
    yield Accusation("no-crash", cause, message, requirements, vague=not words)


_EXCEPTION: Final = re.compile(r"^\s*((?:[\w.]*(?:Error|Exception|Group|panicked))\b.*)$", re.M)


def _exception(stderr: str) -> str:
    """The last line of stderr that looks like the name of an exception."""
    found = _EXCEPTION.findall(stderr)
    return str(found[-1])[:160] if found else ""


def _within_deadline(trace: Trace) -> Iterator[Accusation]:
    plain = [asked for asked in trace.overdue if asked.refused is None or _is_plain(asked, trace)]
    for asked in plain[:1]:
        what = _method(asked)
        message = f"{what} (id {_show(asked.id)}) got no answer while others did"
        if asked.refused is not None:
            message = f"{what} (id {_show(asked.id)}) was not answered: {asked.refused}"
        if (token := _large_token(asked)) is not None:
            # No reader of JSON has to carry such numbers, so this is no more than a SHOULD.
            cause = "a request with a large number for a progress token is not answered"
            yield Accusation("within-deadline", cause, f"{message}; its token is {token}", ())
            continue
        if not params_fit(asked, "client", trace.revision):
            # JSON-RPC has every request answered, but others need not take this for one.
            cause = f"{what} with wrong params is not answered"
            yield Accusation("within-deadline", cause, f"{message}; its params do not fit", ())
            continue
        yield Accusation("within-deadline", f"{what} is not answered", message, vague=True)


def _ends_with_stdin(trace: Trace) -> Iterator[Accusation]:
    if trace.awaited_exit and trace.exit_seconds is None and trace.transport == "stdio":
        what = trace.case.steps[-1].do
        cause = "does not exit" if what == "end-input" else f"does not exit after {what}"
        message = f"the process did not exit within {trace.deadline:g} s"
        yield Accusation("ends-with-stdin", cause, message)


# Whose answer is it? ----------------------------------------------------------------------------


def _right_id(trace: Trace) -> Iterator[Accusation]:
    for came in trace.received:
        id = _id_of(came)
        if came.rounded is not None:
            # No reader of JSON has to carry such numbers, so this is no more than a SHOULD.
            message = f"the answer to id {_show(came.rounded)} carries {_show(id)}"
            yield Accusation("right-id", "a large number is rounded", message, ())
            return
        if came.verdict != "stray":
            continue
        if id is None and trace.notified:
            continue  # another oracle's business
        if id is None and trace.refused:
            continue  # the body of a status that refuses: that says which request is meant
        twin = next((a for a in trace.asked if str(a.id) == str(id)), None)
        if twin is not None:
            message = f"the answer to id {_show(twin.id)} carries {_show(id)}: another type"
            cause = f"id of another type: {type(twin.id).__name__} for {type(id).__name__}"
        elif id is None:
            message = f"an answer without an id to what was no mistake: {_brief(came)}"
            cause = "no id"
        else:
            message = f"an answer with the id {_show(id)}, which was not asked: {_brief(came)}"
            cause = "an id that was not asked"
        yield Accusation("right-id", cause, message)
        return


def _no_second_answer(trace: Trace) -> Iterator[Accusation]:
    for came in trace.received:
        if came.verdict == "second" and came.asked is not None:
            cause = _method(came.asked)
            message = f"{cause} (id {_show(came.asked.id)}) was answered twice: {_brief(came)}"
            yield Accusation("no-second-answer", cause, message)
            return


def _no_answer_to_a_notification(trace: Trace) -> Iterator[Accusation]:
    if not trace.notified or trace.refused:
        return  # the body of a status that refuses may be an error without an id
    for came in trace.received:
        if came.verdict == "stray" and _id_of(came) is None:
            message = f"a notification was answered: {_brief(came)}"
            yield Accusation("no-answer-to-a-notification", "answered", message)
            return


def _no_answer_after_cancel(trace: Trace) -> Iterator[Accusation]:
    # Over modern HTTP the end of the stream is the cancellation, and nothing can follow it.
    prompted: list[tuple[float, Came]] = []
    for came in trace.received:
        asked = came.asked
        if came.verdict != "answer" or asked is None or asked.shared:
            continue
        if asked.cancel_read_at is not None and came.at - asked.cancel_read_at > LATE:
            what = _method(asked)
            message = (
                f"{what} (id {_show(asked.id)}) was answered {came.at - asked.cancel_read_at:.1f} "
                f"s after the server had read its cancellation: {_brief(came)}"
            )
            yield Accusation("no-answer-after-cancel", what, message)
            return
        if (waited := _prompted(came, asked)) is not None:
            prompted.append((waited, came))
    yield from _answers_cancellations(prompted)


def _prompted(came: Came, asked: Asked) -> float | None:
    """How long a request had waited that got an error as soon as it was cancelled, and not before.

    It may have failed just then by itself; so one is not enough.
    """
    if asked.cancelled_at is None or not isinstance(came.message, jsonrpc.ErrorResponse):
        return None
    waited = asked.cancelled_at - asked.at
    return waited if waited >= LATE and 0 <= came.at - asked.cancelled_at <= LATE / 2 else None


def _answers_cancellations(prompted: list[tuple[float, Came]]) -> Iterator[Accusation]:
    times = [waited for waited, _ in prompted]
    if len(times) > 1 and max(times) > 1.3 * min(times):
        shown = " and ".join(f"{waited:.2f}" for waited in times[:3])
        message = (
            f"requests that were cancelled after {shown} s were answered at once, each: "
            f"{_brief(prompted[0][1])}"
        )
        yield Accusation("no-answer-after-cancel", "cancellations are answered", message)


# Is it valid? -----------------------------------------------------------------------------------


def _only_protocol(trace: Trace) -> Iterator[Accusation]:
    for came in trace.received:
        wrong = _not_protocol(came, trace.revision)
        if wrong is not None:
            cause, text = wrong
            message = f"{text}: {came.raw[:120].decode('utf-8', 'replace')}"
            named = ("base-2",) if trace.transport != "stdio" else None
            yield Accusation("only-protocol-on-stdout", cause, message, named)
            return


def _not_protocol(came: Came, revision: str) -> tuple[str, str] | None:
    message = came.message
    if came.verdict == "unclear":
        return None
    if isinstance(message, jsonrpc.Noise):
        return "no message", "this is no JSON-RPC message"
    if isinstance(message, jsonrpc.Malformed):
        if _is_excusable(came.raw):
            return None
        return message.reason.partition(" at ")[0], f"no valid message ({message.reason})"
    if came.in_batch and not supports("batches", revision):
        return "a batch", "this revision has no batches"
    if isinstance(message, jsonrpc.Request) and is_modern(revision):
        return "a request", f"servers send no requests in {revision}"
    return None


def _is_excusable(raw: bytes) -> bool:
    """Whether we are stricter than JSON is: it has no bounds, and lets halves of pairs pass."""
    try:
        text = raw.decode()
        value = json.loads(text, parse_constant=_refuse, parse_float=str, parse_int=str)
    except RecursionError:
        return True
    except ValueError:
        return False
    return jsonrpc.decode(_without_halves(raw)) != jsonrpc.decode(raw) or (
        isinstance(value, dict) and len(raw) > LARGE
    )


_HALF: Final = re.compile(rb"\\u[dD][89abAB]..(?!\\u[dD][c-fC-F])|\\u[dD][c-fC-F]..")


def _without_halves(raw: bytes) -> bytes:
    return _HALF.sub(b"?", raw)


def _refuse(constant: str) -> Any:
    raise ValueError(constant)


def _valid(trace: Trace) -> Iterator[Accusation]:
    for came in trace.received:
        message = came.message
        if isinstance(message, jsonrpc.Response):
            wrong = _wrong_result(came, message.result, trace.revision)
        elif isinstance(message, jsonrpc.Notification | jsonrpc.Request):
            wrong = _wrong_params(message, trace.revision)
        else:
            continue
        if wrong is not None:
            what, where = wrong
            yield Accusation(
                "valid-for-the-revision",
                f"{what}: {_without_numbers(where)}",
                f"{what} does not fit {trace.revision}: {where}",
            )
            return


def _wrong_result(came: Came, result: JSONObject, revision: str) -> tuple[str, str] | None:
    if came.asked is None or came.asked.shared:
        return None
    row = find_method(came.asked.method, "client", revision)
    if row is None:
        return None
    what = f"the result of {row.name}"
    if is_modern(revision):
        kind = result.get("resultType")
        if not isinstance(kind, str):
            return what, f"resultType is {_show(kind)}"
        if kind == "input_required" and row.may_ask:
            return _misfit(what, result, "mrtr:InputRequiredResult")
        if kind != "complete":
            return None  # an extension may have it
    return _misfit(what, result, row.result or "")


def _wrong_params(
    message: jsonrpc.Notification | jsonrpc.Request, revision: str
) -> tuple[str, str] | None:
    row = find_method(message.method, "server", revision)
    if row is None:
        return None  # an extension may have it
    return _misfit(message.method, message.params or {}, row.params)


def params_fit(
    message: jsonrpc.Request | jsonrpc.Notification | Asked, sender: Side, revision: str
) -> bool:
    """Whether a message is what the schema of the revision says; unknown ones may say anything."""
    params = message.params or {}
    row = find_method(message.method, sender, revision)
    reference = "base:RequestParams" if row is None else row.params
    return _plain_meta(params.get("_meta", {})) and _misfit("", params, reference) is None


def _is_plain(asked: Asked, trace: Trace) -> bool:
    """Whether nothing about a request lets a server take it for none, and refuse it by a status.

    A session is opened once, so that it may refuse another `initialize`, too.
    """
    if asked.method == "initialize" or _large_token(asked) is not None:
        return False
    return params_fit(asked, "client", trace.revision)


def _large_token(asked: Asked) -> int | None:
    """The progress token of a request, if it is a number that not everybody can read."""
    meta = (asked.params or {}).get("_meta")
    token = meta.get("progressToken") if isinstance(meta, dict) else None
    return token if isinstance(token, int) and abs(token) >= EXACT else None


def _plain_meta(meta: JSON) -> bool:
    """Whether there is nothing in `_meta` that anybody could refuse."""
    if not isinstance(meta, dict) or type(meta.get("progressToken", "")) not in (str, int):
        return False
    reserved = {key: value for key, value in meta.items() if key.startswith(RESERVED)}
    known = {keys.PROTOCOL_VERSION: str, keys.CLIENT_INFO: dict, keys.CLIENT_CAPABILITIES: dict}
    return all(type(value) is known.get(key) for key, value in reserved.items())


def _misfit(what: str, value: JSONObject, reference: str) -> tuple[str, str] | None:
    read, cls = _reader(reference)
    try:
        read(value, cls)
    except StructureError as error:
        return what, str(error)
    return None


@cache
def _reader(reference: str) -> tuple[Callable[[Any, Any], Any], Any]:
    from importlib import import_module

    module, _, name = reference.partition(":")
    cls = getattr(import_module(f"mcp_trio.protocol.types.{module}"), name)
    return CONVERTER.get_structure_hook(cls), cls


# Is it the right error? -------------------------------------------------------------------------

FORBIDDEN_IN_MODERN: Final = (errors.RESOURCE_NOT_FOUND, errors.URL_ELICITATION_REQUIRED)
DEFINED_IN_MODERN: Final = (
    errors.HEADER_MISMATCH,
    errors.MISSING_CAPABILITY,
    errors.UNSUPPORTED_VERSION,
)


def _right_error_code(trace: Trace) -> Iterator[Accusation]:
    for came in trace.received:
        if isinstance(came.message, jsonrpc.ErrorResponse):
            yield from _wrong_code(came, came.message.error, trace.revision)
        if came.verdict == "answer" and came.asked is not None and not came.asked.shared:
            yield from _wrong_outcome(came, came.asked, trace.revision, trace.case.handshake)


def _wrong_code(came: Came, error: jsonrpc.ErrorObject, revision: str) -> Iterator[Accusation]:
    if not is_modern(revision):
        return
    code = error.code
    if code in FORBIDDEN_IN_MODERN:
        message = f"{code} belongs to earlier revisions: {_brief(came)}"
        yield Accusation("right-error-code", f"{code}", message, ("base-18",))
    elif -32099 <= code <= -32020 and code not in DEFINED_IN_MODERN:
        message = f"{code} is no code of {revision}: {_brief(came)}"
        yield Accusation("right-error-code", f"{code}", message, ("base-17",))


def _wrong_outcome(
    came: Came, asked: Asked, revision: str, handshake: bool
) -> Iterator[Accusation]:
    wanted = _expected(asked, revision) if handshake else None
    if wanted is None:
        if handshake:
            yield from _wrong_refusal(came, asked, revision)
        return
    code, why, requirements = wanted
    message = came.message
    got = message.error.code if isinstance(message, jsonrpc.ErrorResponse) else None
    if got not in (code, errors.INVALID_PARAMS if asked.method in METHODS else code):
        text = f"{why} should get {code}, and got {_brief(came)}"
        cause = f"{why}: {'a result' if got is None else got}"
        yield Accusation("right-error-code", cause, text, requirements)


@attrs.frozen
class _Nothing:
    """What a request about a thing that does not exist is refused with, if it is refused."""

    field: str
    codes: tuple[int, ...]
    requirements: tuple[str, ...]
    revisions: tuple[str, ...] = REVISIONS


NOTHING: Final = {
    "tools/call": _Nothing("name", (errors.INVALID_PARAMS, errors.METHOD_NOT_FOUND), ()),
    "prompts/get": _Nothing("name", (errors.INVALID_PARAMS,), ("prompts-8",)),
    "resources/read": _Nothing("uri", (errors.INVALID_PARAMS,), ("resources-7",), MODERN),
}
OURS: Final = "harness"
"""How names begin that are made up, and that no server has."""


def _wrong_refusal(came: Came, asked: Asked, revision: str) -> Iterator[Accusation]:
    nothing, message = NOTHING.get(asked.method), came.message
    if nothing is None or not isinstance(message, jsonrpc.ErrorResponse):
        return
    name = (asked.params or {}).get(nothing.field)
    if revision not in nothing.revisions or not str(name).startswith(OURS):
        return
    if message.error.code == errors.METHOD_NOT_FOUND:
        return  # it need not have such things at all
    if message.error.code not in nothing.codes and params_fit(asked, "client", revision):
        cause = f"{asked.method} of nothing: {message.error.code}"
        text = f"{asked.method} of {name!r:.60} should get {nothing.codes[0]}, got {_brief(came)}"
        yield Accusation("right-error-code", cause, text, nothing.requirements)


def _expected(asked: Asked, revision: str) -> tuple[int, str, tuple[str, ...]] | None:
    """The error that a clear request has to get, why, and who says so; None if any answer will do.

    Where several things are wrong with a request, nobody can say which one comes first.
    """
    wrong: list[tuple[int, str, tuple[str, ...]]] = []
    if is_modern(revision):
        meta = (asked.params or {}).get("_meta")
        meta = meta if isinstance(meta, dict) else {}
        version = meta.get(keys.PROTOCOL_VERSION)
        if version is None or keys.CLIENT_CAPABILITIES not in meta:
            text = "a request without what `_meta` needs"
            wrong.append((errors.INVALID_PARAMS, text, ("base-45",)))
        elif isinstance(version, str) and version not in REVISIONS:
            text = "a request in a version that does not exist"
            wrong.append((errors.UNSUPPORTED_VERSION, text, ("versioning-1",)))
        elif version not in MODERN or not _is_plain_meta(meta):
            return None
    if asked.method not in METHODS:
        wrong.append((errors.METHOD_NOT_FOUND, "a method that does not exist", ("base-2",)))
    return wrong[0] if len(wrong) == 1 else None


def _is_plain_meta(meta: JSONObject) -> bool:
    return isinstance(meta.get(keys.CLIENT_CAPABILITIES), dict)


# Progress ---------------------------------------------------------------------------------------


def _progress(trace: Trace) -> Iterator[Accusation]:
    for came in trace.received:
        progress, message = came.progress, came.message
        if progress is None or not isinstance(message, jsonrpc.Notification):
            continue
        params = message.params or {}
        now = params.get("progress")
        if not progress.known:
            text = f"progress for the token {_show(params.get('progressToken'))}, which nobody gave"
            yield Accusation("progress-is-in-order", "unknown token", text, ("progress-5",))
        elif progress.last is not None and isinstance(now, int | float) and now <= progress.last:
            text = f"progress went from {progress.last:g} to {now:g}"
            yield Accusation("progress-is-in-order", "does not grow", text, ("progress-3",))
        elif progress.over and trace.transport != "http":
            text = f"progress {_show(now)} came after the answer"
            yield Accusation("progress-is-in-order", "after the answer", text, ("progress-8",))
        else:
            continue
        return


# The table --------------------------------------------------------------------------------------

ORACLES: Final[dict[str, Oracle]] = {
    oracle.name: oracle
    for oracle in (
        Oracle(
            "no-crash",
            "A server lives on, whatever it is sent.",
            ("base-2",),
            _no_crash,
        ),
        Oracle(
            "only-protocol-on-stdout",
            "What a server writes are messages of its revision, and nothing else.",
            ("stdio-3", "base-2"),
            _only_protocol,
        ),
        Oracle(
            "right-id",
            "An answer carries the id of a request that waits for one, in the same type.",
            ("base-6", "base-12"),
            _right_id,
        ),
        Oracle(
            "still-answers",
            "After whatever came before, a server answers a ping, or server/discover.",
            ("ping-1", "discover-1"),
            _still_answers,
        ),
        Oracle(
            "within-deadline",
            "Requests for which nobody's code is run are answered in time.",
            ("base-2",),
            _within_deadline,
        ),
        Oracle(
            "ends-with-stdin",
            "A process exits once its standard input has ended, or when it is told to.",
            ("stdio-12",),
            _ends_with_stdin,
        ),
        Oracle(
            "no-second-answer",
            "A request is answered once.",
            ("base-2",),
            _no_second_answer,
        ),
        Oracle(
            "no-answer-to-a-notification",
            "A notification is not answered, not even with an error.",
            ("base-21", "base-2"),
            _no_answer_to_a_notification,
        ),
        Oracle(
            "no-answer-after-cancel",
            "A request whose cancellation has been read is not answered any more.",
            ("cancellation-12", "stdio-16"),
            _no_answer_after_cancel,
        ),
        Oracle(
            "right-error-code",
            "Errors have the codes that the revision gives them.",
            ("base-2", "base-17", "base-18", "base-45", "versioning-1", "prompts-8", "resources-7"),
            _right_error_code,
        ),
        Oracle(
            "valid-for-the-revision",
            "Results and notifications have the form that the revision gives them.",
            ("base-2",),
            _valid,
        ),
        Oracle(
            "progress-is-in-order",
            "Progress grows, has a token that was given, and stops with the answer.",
            ("progress-3", "progress-5", "progress-8"),
            _progress,
        ),
        Oracle("bounded-memory", "Memory does not grow with the number of messages."),
        Oracle("bounded-descriptors", "Open files do not grow with the number of messages."),
    )
}
"""All oracles by name, in the order in which they are asked: the first that accuses is the cause
of what the others may see."""


def judge(trace: Trace) -> list[Accusation]:
    """Every accusation against the peer in a case, the gravest first."""
    return [
        accusation
        for oracle in ORACLES.values()
        if oracle.judge is not None
        for accusation in oracle.judge(trace)
    ]


# Words ------------------------------------------------------------------------------------------


def _id_of(came: Came) -> JSON:
    message = came.message
    return message.id if isinstance(message, jsonrpc.Response | jsonrpc.ErrorResponse) else None


def _method(asked: Asked) -> str:
    return asked.method if asked.method in METHODS else "a method that does not exist"


def _show(value: JSON) -> str:
    return json.dumps(value)[:80]


def _brief(came: Came) -> str:
    message = came.message
    if isinstance(message, jsonrpc.ErrorResponse):
        return f"error {message.error.code} ({message.error.message[:80]})"
    return came.raw[:120].decode("utf-8", "replace")


def _without_numbers(text: str) -> str:
    """A place as a cause: `tools[3].name` and `tools[5].name` are one, quoted values are out."""
    return re.sub(r"'[^']*'|\"[^\"]*\"|\d+", "…", text)[:120]
