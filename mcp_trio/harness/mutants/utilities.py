"""Pings, cancellation, progress, logging and completion: mutants of servers."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Final

import trio

from mcp_trio import Server
from mcp_trio.connection import FrameStream
from mcp_trio.demo import server as demo
from mcp_trio.harness.mutants import Mutant
from mcp_trio.harness.mutants.frames import Back, Fault, Frame, frame_mutant
from mcp_trio.harness.mutants.jsonrpc import Answers, Dies, Frames, is_answer
from mcp_trio.harness.mutants.lifecycle import is_method, refusal, served_mutant
from mcp_trio.harness.mutants.versioning import meta_of
from mcp_trio.protocol.meta import META, PROGRESS_TOKEN, PROTOCOL_VERSION
from mcp_trio.wire.jsonrpc import JSONObject

LOG_LEVEL: Final = "io.modelcontextprotocol/logLevel"
CANCELLED: Final = "notifications/cancelled"
PROGRESS: Final = "notifications/progress"
LOG: Final = "notifications/message"

# Pings


class ChattyPings(Answers):
    """Answers a ping with more than an empty result."""

    def change(self, answer: JSONObject) -> Frame:
        return {**answer, "result": {"pong": True}} if answer.get("result") == {} else answer


class OneAtATime(Fault):
    """Does nothing else while a tool runs."""

    def __init__(self) -> None:
        self.calls: set[object] = set()
        self.waiting: list[Frame] = []

    def received(self, frame: Frame) -> Frames:
        if self.calls and isinstance(frame, dict) and frame.get("method") in ("ping", "tools/list"):
            return
        if isinstance(frame, dict) and is_method(frame, "tools/call"):
            self.calls.add(frame["id"])
        yield frame

    def sent(self, frame: Frame) -> Frames:
        if isinstance(frame, dict) and is_answer(frame):
            self.calls.discard(frame.get("id"))
        yield frame


class _Pinging:
    """Pings its client a hundred times a second."""

    async def serve_frames(self, stream: FrameStream) -> object:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(_ping_for_ever, stream)
            await demo.serve_frames(stream)
            nursery.cancel_scope.cancel()
        return None


async def _ping_for_ever(stream: FrameStream) -> None:
    number = 0
    with suppress(trio.BrokenResourceError, trio.ClosedResourceError):
        while True:
            await trio.sleep(0.01)
            number += 1
            await stream.send([b'{"jsonrpc":"2.0","id":"p%d","method":"ping"}' % number])


# Cancellation


class IgnoresCancellation(Fault):
    """Goes on with a call that was cancelled, and answers it."""

    def received(self, frame: Frame) -> Frames:
        if not is_method(frame, CANCELLED):
            yield frame


class ConfirmsCancellation(Fault):
    """Answers a call that was cancelled with an error that says so."""

    def received(self, frame: Frame) -> Frames:
        yield frame
        if isinstance(frame, dict) and is_method(frame, CANCELLED):
            id = (frame.get("params") or {}).get("requestId")
            error = {"code": 0, "message": "Request cancelled"}
            yield Back({"jsonrpc": "2.0", "id": id, "error": error})


class DiesOfBadCancellations(Dies):
    """Ends at a cancellation without the id of a request."""

    def kills(self, frame: Frame) -> bool:
        params = frame.get("params") or {} if isinstance(frame, dict) else {}
        return is_method(frame, CANCELLED) and "requestId" not in params


class CancelsByText(Fault):
    """Takes the text of an id for the id when it cancels."""

    def received(self, frame: Frame) -> Frames:
        if isinstance(frame, dict) and is_method(frame, CANCELLED):
            id = (frame.get("params") or {}).get("requestId")
            if isinstance(id, str) and id.isdecimal():
                frame = {**frame, "params": {"requestId": int(id)}}
        yield frame


class DiesOfLateAnswers(Fault):
    """Ends at an answer that comes after a cancellation."""

    def __init__(self) -> None:
        self.cancelled = self.dead = False

    def received(self, frame: Frame) -> Frames:
        self.cancelled = self.cancelled or is_method(frame, CANCELLED)
        self.dead = self.dead or (self.cancelled and is_answer(frame))
        if not self.dead:
            yield frame


class CancelsCalls(Fault):
    """Tells the client that a call is cancelled once it is over."""

    def sent(self, frame: Frame) -> Frames:
        yield frame
        if isinstance(frame, dict) and "content" in frame.get("result", {}):
            params = {"requestId": frame["id"]}
            yield {"jsonrpc": "2.0", "method": CANCELLED, "params": params}


# Progress


class _Reports(Fault):
    def change(self, params: JSONObject) -> JSONObject:
        raise NotImplementedError

    def sent(self, frame: Frame) -> Frames:
        if isinstance(frame, dict) and is_method(frame, PROGRESS):
            frame = {**frame, "params": self.change(frame["params"])}
        yield frame


class TextTokens(_Reports):
    """Makes text of the progress tokens that it sends."""

    def change(self, params: JSONObject) -> JSONObject:
        return {**params, "progressToken": str(params["progressToken"])}


class ShrinkingProgress(_Reports):
    """Counts backwards."""

    def change(self, params: JSONObject) -> JSONObject:
        return {**params, "progress": -params["progress"]}


class SameProgress(_Reports):
    """Reports the same progress all the time."""

    def change(self, params: JSONObject) -> JSONObject:
        return {**params, "progress": 1}


class NoProgressForZero(Fault):
    """Takes the progress token 0 for none."""

    def sent(self, frame: Frame) -> Frames:
        params = frame.get("params", {}) if isinstance(frame, dict) else {}
        if not is_method(frame, PROGRESS) or params.get("progressToken") != 0:
            yield frame


class UnaskedProgress(Fault):
    """Reports progress though nobody asked for it, under the id of the request."""

    def received(self, frame: Frame) -> Frames:
        if isinstance(frame, dict) and is_method(frame, "tools/call"):
            meta = frame["params"].setdefault(META, {})
            meta.setdefault(PROGRESS_TOKEN, frame["id"])
        yield frame


class ProgressAfterwards(Fault):
    """Reports progress once more after the answer."""

    def __init__(self) -> None:
        self.last: JSONObject | None = None

    def sent(self, frame: Frame) -> Frames:
        yield frame
        if isinstance(frame, dict) and is_method(frame, PROGRESS):
            self.last = frame
        if isinstance(frame, dict) and "content" in frame.get("result", {}) and self.last:
            params = self.last["params"]
            yield {**self.last, "params": {**params, "progress": params["progress"] + 1}}


class FloodsProgress(Fault):
    """Reports each step of progress in a thousand smaller ones."""

    def sent(self, frame: Frame) -> Frames:
        if isinstance(frame, dict) and is_method(frame, PROGRESS):
            params = frame["params"]
            for step in range(999, 0, -1):
                less = params["progress"] - step / 1000
                yield {**frame, "params": {**params, "progress": less}}
        yield frame


def _asks_with(token: object, text: str) -> Callable[[], Fault]:
    class Asks(Fault):
        def sent(self, frame: Frame) -> Frames:
            if isinstance(frame, dict) and "method" in frame and "id" in frame:
                params = frame.get("params") or {}
                frame = {**frame, "params": {**params, META: {PROGRESS_TOKEN: token}}}
            yield frame

    Asks.__doc__ = text
    return Asks


# Logging


class DeclaresNoLogging(Answers):
    """Does not declare that it logs."""

    def change(self, answer: JSONObject) -> Frame:
        answer.get("result", {}).get("capabilities", {}).pop("logging", None)
        return answer


class LogsUnasked(Fault):
    """Logs for each request, whether that asked for it or not."""

    def received(self, frame: Frame) -> Frames:
        meta = meta_of(frame)
        if PROTOCOL_VERSION in meta:
            meta.setdefault(LOG_LEVEL, "debug")
        yield frame


class LogsAfterwards(Fault):
    """Sends log messages some seconds late, when their request is over."""

    def __init__(self) -> None:
        self.kept: list[Frame] = []

    def sent(self, frame: Frame) -> Frames:
        if is_method(frame, LOG):
            self.kept.append(frame)
            return
        yield frame
        if isinstance(frame, dict) and "supportedVersions" in frame.get("result", {}):
            yield from self.kept
            self.kept = []


class LogsToSubscriptions(Fault):
    """Sends log messages to a subscription."""

    def sent(self, frame: Frame) -> Frames:
        if isinstance(frame, dict) and is_method(frame, LOG):
            own = {"io.modelcontextprotocol/subscriptionId": "1"}
            frame = {**frame, "params": {**frame["params"], META: own}}
        yield frame


class LogsEverything(Fault):
    """Logs at each level, whatever was asked for."""

    def received(self, frame: Frame) -> Frames:
        meta = meta_of(frame)
        if LOG_LEVEL in meta:
            meta[LOG_LEVEL] = "debug"
        if isinstance(frame, dict) and is_method(frame, "logging/setLevel"):
            frame = {**frame, "params": {**frame["params"], "level": "debug"}}
        yield frame


class InventsLevels(Fault):
    """Logs with a level that does not exist."""

    def sent(self, frame: Frame) -> Frames:
        if isinstance(frame, dict) and is_method(frame, LOG):
            frame = {**frame, "params": {**frame["params"], "level": "warn"}}
        yield frame


class KnowsFewLevels(Fault):
    """Refuses the level "notice"."""

    def received(self, frame: Frame) -> Frames:
        params = frame.get("params") or {} if isinstance(frame, dict) else {}
        if isinstance(frame, dict) and params.get("level") == "notice":
            yield refusal(frame, -32602, "no such level")
        else:
            yield frame


class TakesAnyLevel(Fault):
    """Takes any log level."""

    def received(self, frame: Frame) -> Frames:
        meta_of(frame).pop(LOG_LEVEL, None)
        if isinstance(frame, dict) and is_method(frame, "logging/setLevel"):
            yield Back({"jsonrpc": "2.0", "id": frame["id"], "result": {}})
        else:
            yield frame


# Completion


class DeclaresNoCompletion(Answers):
    """Does not declare that it completes."""

    def change(self, answer: JSONObject) -> Frame:
        answer.get("result", {}).get("capabilities", {}).pop("completions", None)
        return answer


class LongCompletions(Answers):
    """Sends more than a hundred values."""

    def change(self, answer: JSONObject) -> Frame:
        if "completion" in answer.get("result", {}):
            answer["result"]["completion"]["values"] = ["x"] * 101
        return answer


class CompletesNothingQuietly(Fault):
    """Answers what cannot be completed with no values instead of an error."""

    def __init__(self) -> None:
        self.asked: set[object] = set()

    def received(self, frame: Frame) -> Frames:
        if isinstance(frame, dict) and is_method(frame, "completion/complete"):
            self.asked.add(frame["id"])
        yield frame

    def sent(self, frame: Frame) -> Frames:
        if isinstance(frame, dict) and "error" in frame and frame.get("id") in self.asked:
            result = {"resultType": "complete", "completion": {"values": []}}
            yield {"jsonrpc": "2.0", "id": frame["id"], "result": result}
        else:
            yield frame


def plain_server() -> Server:
    """A server without anything to complete."""
    server = Server("plain")

    @server.tool(read_only=True)
    async def wait(seconds: float) -> str:
        """Wait."""
        await trio.sleep(seconds)
        return "done"

    return server


class OtherCodeForNoCompletion(Answers):
    """Calls it an internal error that it completes nothing."""

    def change(self, answer: JSONObject) -> Frame:
        if answer.get("error", {}).get("code") == -32601:
            answer["error"]["code"] = -32603
        return answer


def _mutant(id: str, fault: Callable[[], Fault], *catches: str) -> Mutant:
    return frame_mutant(id, fault, catches)


MUTANTS: Final[tuple[Mutant, ...]] = (
    served_mutant("pings-all-the-time", _Pinging, ["pings-are-few"]),
    _mutant("chatty-pings", ChattyPings, "ping-is-answered"),
    _mutant("one-at-a-time", OneAtATime, "ping-does-not-wait", "requests-do-not-wait"),
    _mutant(
        "ignores-cancellation",
        IgnoresCancellation,
        "cancelled-call-stops",
    ),
    _mutant(
        "confirms-cancellation",
        ConfirmsCancellation,
        "cancelled-call-is-not-answered",
        "bad-cancellations-are-ignored",
        "cancellations-may-cross",
    ),
    _mutant("dies-of-bad-cancellations", DiesOfBadCancellations, "bad-cancellations-are-ignored"),
    _mutant("cancels-by-text", CancelsByText, "cancellation-hits-one-request"),
    _mutant("dies-of-late-answers", DiesOfLateAnswers, "late-answers-are-ignored"),
    _mutant(
        "cancels-calls",
        CancelsCalls,
        "server-cancels-only-subscriptions",
        "server-cancels-only-its-own",
    ),
    _mutant("text-tokens", TextTokens, "progress-has-its-token"),
    _mutant("shrinking-progress", ShrinkingProgress, "progress-grows"),
    _mutant("same-progress", SameProgress, "progress-grows"),
    _mutant("no-progress-for-zero", NoProgressForZero, "progress-counts-from-zero"),
    _mutant("unasked-progress", UnaskedProgress, "no-progress-without-token"),
    _mutant("progress-afterwards", ProgressAfterwards, "progress-ends-with-the-call"),
    _mutant("floods-progress", FloodsProgress, "progress-does-not-flood"),
    _mutant(
        "asks-with-true",
        _asks_with(True, "Asks with a progress token that is a boolean."),
        "own-tokens-are-good",
    ),
    _mutant(
        "asks-with-one-token",
        _asks_with("again", "Asks with the same progress token each time."),
        "own-tokens-are-good",
    ),
    _mutant("declares-no-logging", DeclaresNoLogging, "logging-is-declared"),
    _mutant("logs-unasked", LogsUnasked, "nothing-is-logged-unasked"),
    _mutant("logs-afterwards", LogsAfterwards, "logs-stay-with-their-request"),
    _mutant("logs-to-subscriptions", LogsToSubscriptions, "logs-stay-with-their-request"),
    _mutant("logs-everything", LogsEverything, "log-levels-are-kept"),
    _mutant("invents-levels", InventsLevels, "log-messages-are-well-formed"),
    _mutant("knows-few-levels", KnowsFewLevels, "all-log-levels-are-known"),
    _mutant(
        "takes-any-level",
        TakesAnyLevel,
        "unknown-log-level-is-refused",
        "unknown-log-level-of-a-request-is-refused",
    ),
    _mutant("declares-no-completion", DeclaresNoCompletion, "completion-is-declared"),
    _mutant("long-completions", LongCompletions, "completions-are-well-formed"),
    _mutant(
        "completes-nothing-quietly",
        CompletesNothingQuietly,
        "completion-of-nothing-is-refused",
        "completion-inputs-are-validated",
    ),
    frame_mutant(
        "other-code-for-no-completion",
        OtherCodeForNoCompletion,
        ["missing-completion-is-unknown"],
        server=plain_server,
    ),
)
