"""Messages, requests, responses and errors: mutants of servers."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from typing import Any, Final

from mcp_trio.harness.mutants import Mutant
from mcp_trio.harness.mutants.frames import Back, Fault, Frame, frame_mutant
from mcp_trio.wire.jsonrpc import JSONObject

Frames = Iterable[Frame | Back]


def is_answer(frame: Frame) -> bool:
    """Whether a frame is a response."""
    return isinstance(frame, dict) and "method" not in frame


class Answers(Fault):
    """Changes answers by a function; the classes below say to what."""

    def change(self, answer: JSONObject) -> Frame:
        raise NotImplementedError

    def sent(self, frame: Frame) -> Frames:
        yield self.change(frame) if isinstance(frame, dict) and is_answer(frame) else frame


class Dies(Fault):
    """Says nothing more once it has seen something."""

    def __init__(self) -> None:
        self.dead = False

    def kills(self, frame: Frame) -> bool:
        raise NotImplementedError

    def received(self, frame: Frame) -> Frames:
        self.dead = self.dead or self.kills(frame)
        if not self.dead:
            yield frame


# Requests and their ids


class UnknownMethodsSucceed(Fault):
    """Answers a method that does not exist with an empty result."""

    def sent(self, frame: Frame) -> Frames:
        if isinstance(frame, dict) and frame.get("error", {}).get("code") == -32601:
            yield {"jsonrpc": "2.0", "id": frame["id"], "result": {}}
        else:
            yield frame


class UnknownMethodsAreBadParams(Answers):
    """Calls a method that does not exist a matter of invalid parameters."""

    def change(self, answer: JSONObject) -> Frame:
        if answer.get("error", {}).get("code") == -32601:
            answer["error"]["code"] = -32602
        return answer


class NumericTextIds(Answers):
    """Takes an id that looks like a number for one."""

    def change(self, answer: JSONObject) -> Frame:
        id = answer.get("id")
        return {**answer, "id": int(id) if isinstance(id, str) and id.isdecimal() else id}


class ZeroIsNoId(Answers):
    """Takes the id 0 for none."""

    def change(self, answer: JSONObject) -> Frame:
        return {**answer, "id": answer.get("id") or None}


class ErrorsLoseTheirId(Answers):
    """Sends errors with id null."""

    def change(self, answer: JSONObject) -> Frame:
        return {**answer, "id": None} if "error" in answer else answer


class IdsAreFloats(Answers):
    """Keeps numbers as a double does: ids beyond 2**53 lose their last digits."""

    def change(self, answer: JSONObject) -> Frame:
        id = answer.get("id")
        return {**answer, "id": int(float(id))} if type(id) is int else answer


class OddIdsAreServed(Fault):
    """Serves a request whatever its id is."""

    def received(self, frame: Frame) -> Frames:
        if isinstance(frame, dict) and "method" in frame and "id" in frame:
            id = frame["id"]
            if type(id) not in (str, int):
                yield Back({"jsonrpc": "2.0", "id": id, "result": {}})
                return
        yield frame


class AnswersTwice(Fault):
    """Sends each answer two times."""

    def sent(self, frame: Frame) -> Frames:
        yield frame
        if is_answer(frame):
            yield frame


class ForgetsSome(Fault):
    """Does not answer more than a few requests at a time: the twentieth in a row is lost."""

    def __init__(self) -> None:
        self.unknown = 0

    def received(self, frame: Frame) -> Frames:
        if isinstance(frame, dict) and frame.get("method") == "harness/no_such_method":
            self.unknown += 1
            if self.unknown % 4 == 0:
                return
        yield frame


class DiesOfCalls(Dies):
    """Ends when a tool is called."""

    def kills(self, frame: Frame) -> bool:
        return isinstance(frame, dict) and frame.get("method") == "tools/call"


# Responses


class WithoutVersion(Answers):
    """Leaves out "jsonrpc"."""

    def change(self, answer: JSONObject) -> Frame:
        return {key: value for key, value in answer.items() if key != "jsonrpc"}


class NullErrors(Answers):
    """Sends "error": null beside a result, as version 1 of JSON-RPC did."""

    def change(self, answer: JSONObject) -> Frame:
        return {"error": None, **answer}


class TextCodes(Answers):
    """Sends the code of an error as text."""

    def change(self, answer: JSONObject) -> Frame:
        if "error" in answer:
            answer["error"]["code"] = str(answer["error"]["code"])
        return answer


class WithoutMessage(Answers):
    """Sends errors without a message."""

    def change(self, answer: JSONObject) -> Frame:
        if "error" in answer:
            answer["error"].pop("message")
        return answer


class WithoutType(Answers):
    """Leaves out the resultType of lists."""

    def change(self, answer: JSONObject) -> Frame:
        if "tools" in answer.get("result", {}):
            answer["result"].pop("resultType", None)
        return answer


class InventedTypes(Answers):
    """Gives results of tools a resultType of its own."""

    def change(self, answer: JSONObject) -> Frame:
        if "content" in answer.get("result", {}):
            answer["result"]["resultType"] = "streamed"
        return answer


class Nameless(Answers):
    """Names itself in no result but that of server/discover."""

    def change(self, answer: JSONObject) -> Frame:
        if "supportedVersions" not in answer.get("result", {}):
            answer.get("result", {}).pop("_meta", None)
        return answer


def _with_code(code: int, text: str) -> Callable[[], Fault]:
    class Code(Answers):
        def change(self, answer: JSONObject) -> Frame:
            if answer.get("error", {}).get("code") == -32602:
                answer["error"]["code"] = code
            return answer

    Code.__doc__ = text
    return Code


# Notifications


class AnswersNotifications(Fault):
    """Answers notifications with an error whose id is null."""

    def received(self, frame: Frame) -> Frames:
        yield frame
        if isinstance(frame, dict) and "method" in frame and "id" not in frame:
            error = {"code": -32601, "message": "no such notification"}
            yield Back({"jsonrpc": "2.0", "id": None, "error": error})


class NumbersNotifications(Fault):
    """Sends its notifications with an id, and so as requests."""

    def sent(self, frame: Frame) -> Frames:
        if isinstance(frame, dict) and frame.get("method", "").startswith("notifications/"):
            frame = {**frame, "id": 1}
        yield frame


class DiesOfUnknownNotifications(Dies):
    """Ends at a notification that it does not know."""

    def kills(self, frame: Frame) -> bool:
        return (
            isinstance(frame, dict) and "harness/" in frame.get("method", "") and "id" not in frame
        )


# Requests of the server


class AsksForRoots(Fault):
    """Asks for the roots whenever a tool is called, in any era."""

    def received(self, frame: Frame) -> Frames:
        if isinstance(frame, dict) and frame.get("method") == "tools/call":
            yield Back({"jsonrpc": "2.0", "id": "roots", "method": "roots/list"})
        yield frame


def _asks_under(id: Any, text: str) -> Callable[[], Fault]:
    class Asks(Fault):
        def received(self, frame: Frame) -> Frames:
            if isinstance(frame, dict) and frame.get("method") == "tools/call":
                yield Back({"jsonrpc": "2.0", "id": id, "method": "roots/list"})
            if not isinstance(frame, dict) or "method" in frame or frame.get("id") != id:
                yield frame

    Asks.__doc__ = text
    return Asks


# Messages that are none


class DiesOfNoise(Dies):
    """Ends at text that is no JSON."""

    def kills(self, frame: Frame) -> bool:
        return isinstance(frame, bytes) and not _is_json(frame)


def _is_json(frame: bytes) -> bool:
    try:
        json.loads(frame)
    except (ValueError, RecursionError):
        return False
    return True


class DiesOfNonsense(Dies):
    """Ends at JSON that is no message."""

    def kills(self, frame: Frame) -> bool:
        if isinstance(frame, bytes):
            return _is_json(frame) and not frame.startswith(b"[")
        return not ({"method", "result", "error"} & frame.keys())


class ServesNonsense(Fault):
    """Gives a result to a request without a method."""

    def received(self, frame: Frame) -> Frames:
        if isinstance(frame, dict) and "id" in frame and frame.get("method") in (None, 1):
            yield Back({"jsonrpc": "2.0", "id": frame["id"], "result": {}})
        else:
            yield frame


class DiesOfStrayResponses(Dies):
    """Ends at a response to a request that it never sent."""

    def kills(self, frame: Frame) -> bool:
        return isinstance(frame, dict) and "result" in frame and "method" not in frame


class DiesOfDepth(Dies):
    """Ends at a deeply nested message."""

    def kills(self, frame: Frame) -> bool:
        return isinstance(frame, bytes) and (b"[[[[" in frame or b'{"a":{"a":' in frame)


class DiesOfArrays(Dies):
    """Ends at an array."""

    def kills(self, frame: Frame) -> bool:
        return isinstance(frame, bytes) and frame.startswith(b"[")


class IgnoresBatches(Fault):
    """Ignores batches."""

    def received(self, frame: Frame) -> Frames:
        if not (isinstance(frame, bytes) and frame.startswith(b"[")):
            yield frame


class AnswersEmptyBatches(Fault):
    """Answers a batch of notifications with an empty array."""

    def received(self, frame: Frame) -> Frames:
        yield frame
        if isinstance(frame, bytes) and frame.startswith(b"[") and b'"id"' not in frame:
            yield Back(b"[]")


# _meta


def _with_meta(key: str, text: str, value: Any = 1) -> Callable[[], Fault]:
    class Meta(Answers):
        def change(self, answer: JSONObject) -> Frame:
            if "result" in answer:
                answer["result"].setdefault("_meta", {})[key] = value
            return answer

    Meta.__doc__ = text
    return Meta


class RefusesUnknownMeta(Fault):
    """Refuses a request with a key in _meta that it does not know."""

    def received(self, frame: Frame) -> Frames:
        meta = frame.get("params", {}).get("_meta", {}) if isinstance(frame, dict) else {}
        if any(key.endswith("/harness") for key in meta) and isinstance(frame, dict):
            error = {"code": -32602, "message": "unknown key in _meta"}
            yield Back({"jsonrpc": "2.0", "id": frame["id"], "error": error})
        else:
            yield frame


MUTANTS: Final[tuple[Mutant, ...]] = (
    frame_mutant("unknown-methods-succeed", UnknownMethodsSucceed, ["unknown-method-is-refused"]),
    frame_mutant(
        "unknown-methods-are-bad-params", UnknownMethodsAreBadParams, ["unknown-method-is-refused"]
    ),
    frame_mutant("numeric-text-ids", NumericTextIds, ["ids-come-back", "ids-of-errors-come-back"]),
    frame_mutant("zero-is-no-id", ZeroIsNoId, ["ids-come-back"]),
    frame_mutant("errors-lose-their-id", ErrorsLoseTheirId, ["ids-of-errors-come-back"]),
    frame_mutant("ids-are-floats", IdsAreFloats, ["big-ids-come-back"]),
    frame_mutant("odd-ids-are-served", OddIdsAreServed, ["odd-ids-get-no-result"]),
    frame_mutant("answers-twice", AnswersTwice, ["each-request-is-answered"]),
    frame_mutant("forgets-some", ForgetsSome, ["each-request-is-answered"]),
    frame_mutant("dies-of-calls", DiesOfCalls, ["calls-are-survived"]),
    frame_mutant("without-version", WithoutVersion, ["answers-are-well-formed"]),
    frame_mutant("null-errors", NullErrors, ["answers-are-well-formed"]),
    frame_mutant("text-codes", TextCodes, ["answers-are-well-formed"]),
    frame_mutant("without-message", WithoutMessage, ["answers-are-well-formed"]),
    frame_mutant("without-type", WithoutType, ["results-say-their-type"]),
    frame_mutant("invented-types", InventedTypes, ["results-say-their-type"]),
    frame_mutant("nameless", Nameless, ["results-name-the-server"]),
    frame_mutant(
        "old-codes",
        _with_code(-32002, "Says with an older code that there is no such thing."),
        ["error-codes-keep-to-their-ranges"],
    ),
    frame_mutant(
        "invented-codes",
        _with_code(-32050, "Uses a code that the specification keeps for itself."),
        ["error-codes-keep-to-their-ranges"],
    ),
    frame_mutant(
        "codes-of-json-rpc",
        _with_code(-32000, "Uses a code from the range that JSON-RPC reserves."),
        ["error-codes-keep-to-their-ranges"],
    ),
    frame_mutant(
        "answers-notifications",
        AnswersNotifications,
        [
            "notifications-get-no-answer",
            "notifications-of-2024-get-no-answer",
            "unknown-notifications-are-ignored",
        ],
    ),
    frame_mutant(
        "dies-of-unknown-notifications",
        DiesOfUnknownNotifications,
        ["unknown-notifications-are-ignored"],
    ),
    frame_mutant("numbers-notifications", NumbersNotifications, ["own-notifications-have-no-id"]),
    frame_mutant("asks-for-roots", AsksForRoots, ["server-asks-nothing"]),
    frame_mutant(
        "asks-under-null",
        _asks_under(None, "Asks the client under the id null."),
        ["own-requests-have-good-ids"],
    ),
    frame_mutant(
        "asks-under-a-fraction",
        _asks_under(1.5, "Asks the client under the id 1.5."),
        ["own-requests-have-good-ids"],
    ),
    frame_mutant(
        "asks-under-one-id",
        _asks_under("again", "Asks the client under the same id each time."),
        ["own-requests-have-good-ids"],
    ),
    frame_mutant("dies-of-noise", DiesOfNoise, ["text-that-is-no-json-is-survived"]),
    frame_mutant("dies-of-nonsense", DiesOfNonsense, ["json-that-is-no-message-is-survived"]),
    frame_mutant("serves-nonsense", ServesNonsense, ["json-that-is-no-message-is-survived"]),
    frame_mutant(
        "dies-of-stray-responses", DiesOfStrayResponses, ["responses-to-nothing-are-ignored"]
    ),
    frame_mutant("dies-of-depth", DiesOfDepth, ["deep-nesting-is-survived"]),
    frame_mutant("dies-of-arrays", DiesOfArrays, ["arrays-are-survived"]),
    frame_mutant("ignores-batches", IgnoresBatches, ["batches-are-served"]),
    frame_mutant(
        "answers-empty-batches", AnswersEmptyBatches, ["batches-of-notifications-get-no-answer"]
    ),
    frame_mutant(
        "long-meta-names",
        _with_meta("com.example/a/b", "Has a second slash in a key of _meta."),
        ["meta-keys-are-legal"],
    ),
    frame_mutant(
        "digits-in-prefixes",
        _with_meta("1st.example/a", "Begins a label of a prefix with a digit."),
        ["meta-keys-are-legal"],
    ),
    frame_mutant(
        "dots-at-the-end",
        _with_meta("com.example/a.", "Ends the name in a key of _meta with a dot."),
        ["meta-keys-are-legal"],
    ),
    frame_mutant(
        "odd-trace-context",
        _with_meta("traceparent", "Sends a traceparent that is a number."),
        ["trace-context-is-well-formed"],
    ),
    frame_mutant("refuses-unknown-meta", RefusesUnknownMeta, ["unknown-meta-is-ignored"]),
)
