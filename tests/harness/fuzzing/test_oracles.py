"""Each oracle accuses a peer with the fault that it is for, and nobody else."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterable

import pytest
import trio
from trio.testing import MockClock

from mcp_trio.harness.fuzzing.cases import (
    Ask,
    Await,
    Cancel,
    EndInput,
    Flood,
    Pause,
    Post,
    Raw,
    Send,
    Signal,
    Stall,
    Step,
    Tell,
)
from mcp_trio.harness.fuzzing.oracles import ORACLES
from mcp_trio.harness.fuzzing.usage import Usage, grows_again, growth, when_it_grew
from mcp_trio.harness.mutants.frames import Back, Fault, Frame
from mcp_trio.harness.requirements import load_requirements
from mcp_trio.harness.targets import ServerTarget, command_target, server_target
from mcp_trio.protocol.revisions import REVISIONS
from mcp_trio.transports.http_exchange import Exchange
from mcp_trio.transports.parameters import StdioParameters
from tests.harness.fuzzing.kit import (
    ERAS,
    LEGACY,
    MODERN,
    HangsUp,
    TakesTime,
    accusations,
    accused,
    subject,
)
from tests.harness.test_http_target import serving

Change = Iterable[Frame | Back]

COUNT = {"name": "count", "arguments": {"to": 5, "delay": 0.2}}
SLOW = {"name": "count", "arguments": {"to": 1000, "delay": 60}}
PING = b'{"jsonrpc":"2.0","id":7,"method":"ping"}'


def is_answer(frame: Frame) -> bool:
    return isinstance(frame, dict) and "method" not in frame


class IdsAsStrings(Fault):
    """Answers with the id as a string."""

    def sent(self, frame: Frame) -> Change:
        if isinstance(frame, dict) and isinstance(frame.get("id"), int):
            yield {**frame, "id": str(frame["id"])}
        yield frame


class Twice(Fault):
    """Answers twice."""

    def sent(self, frame: Frame) -> Change:
        yield frame
        if is_answer(frame):
            yield frame


class AnswersNotifications(Fault):
    """Answers notifications with an error."""

    def received(self, frame: Frame) -> Change:
        if isinstance(frame, dict) and "id" not in frame and "method" in frame:
            yield Back({"jsonrpc": "2.0", "error": {"code": -32600, "message": "no id"}})
        yield frame


class IgnoresCancellations(Fault):
    """Finishes what was cancelled, and answers."""

    def received(self, frame: Frame) -> Change:
        if not (isinstance(frame, dict) and frame.get("method") == "notifications/cancelled"):
            yield frame


class AnswersCancellations(Fault):
    """Answers what is cancelled with an error that says so."""

    def received(self, frame: Frame) -> Change:
        yield frame
        if isinstance(frame, dict) and frame.get("method") == "notifications/cancelled":
            error = {"code": -32800, "message": "cancelled"}
            yield Back({"jsonrpc": "2.0", "id": frame["params"]["requestId"], "error": error})


class HangsOnCancel(Fault):
    """Does nothing any more once something was cancelled."""

    cancelled = False

    def received(self, frame: Frame) -> Change:
        if isinstance(frame, dict):
            self.cancelled |= frame.get("method") == "notifications/cancelled"
        if not self.cancelled:
            yield frame


class LosesLists(Fault):
    """Never answers tools/list."""

    def received(self, frame: Frame) -> Change:
        if not (isinstance(frame, dict) and frame.get("method") == "tools/list"):
            yield frame


class Banner(Fault):
    """Writes a log line between its messages."""

    def sent(self, frame: Frame) -> Change:
        yield b"[INFO] sending"
        yield frame


class WrongCode(Fault):
    """Says that its code is to blame for methods that do not exist."""

    def sent(self, frame: Frame) -> Change:
        if isinstance(frame, dict) and frame.get("error", {}).get("code") == -32601:
            yield {**frame, "error": {"code": -32603, "message": "oops"}}
        else:
            yield frame


class OwnCode(Fault):
    """Refuses with a code of its own what does not exist."""

    def received(self, frame: Frame) -> Change:
        if isinstance(frame, dict) and frame.get("params", {}).get("name") == "harness_nothing":
            error = {"code": 404, "message": "not found"}
            yield Back({"jsonrpc": "2.0", "id": frame["id"], "error": error})
        else:
            yield frame


class NoPrompts(Fault):
    """Knows no prompts, and no method for them."""

    def received(self, frame: Frame) -> Change:
        if isinstance(frame, dict) and frame.get("method") == "prompts/get":
            error = {"code": -32601, "message": "Method not found"}
            yield Back({"jsonrpc": "2.0", "id": frame["id"], "error": error})
        else:
            yield frame


class NoContent(Fault):
    """Leaves the content out of the results of tools."""

    def sent(self, frame: Frame) -> Change:
        if isinstance(frame, dict) and "content" in frame.get("result", {}):
            result = {key: value for key, value in frame["result"].items() if key != "content"}
            yield {**frame, "result": result}
        else:
            yield frame


class ProgressBackwards(Fault):
    """Reports progress that shrinks."""

    def sent(self, frame: Frame) -> Change:
        if isinstance(frame, dict) and frame.get("method") == "notifications/progress":
            frame["params"]["progress"] = -frame["params"]["progress"]
        yield frame


class RoundsNumbers(Fault):
    """Reads numbers as JavaScript does."""

    def sent(self, frame: Frame) -> Change:
        if isinstance(frame, dict) and isinstance(frame.get("id"), int):
            frame["id"] = int(float(frame["id"]))
        yield frame


CALL = Ask(1, "tools/call", {"name": "add", "arguments": {"a": 1, "b": 2}})
UNKNOWN = Ask(1, "harness/none")
LIST = Ask(1, "tools/list")
LAST = Ask(9, "tools/list")
SLOWLY = (Ask(1, "tools/call", COUNT), Pause(0.1), Cancel(1))
TWICE_SLOWLY = tuple(
    step
    for id, seconds in ((1, 0.12), (2, 0.3))
    for step in (Ask(id, "tools/call", COUNT), Pause(seconds), Cancel(id), Pause(0.1))
)
DISCOVERED = {
    "resultType": "complete",
    "ttlMs": 0,
    "cacheScope": "private",
    "supportedVersions": [MODERN],
    "capabilities": {},
    "_meta": {"io.modelcontextprotocol/serverInfo": {"name": "x", "version": "1"}},
}
INITIALIZED = {
    "protocolVersion": LEGACY,
    "capabilities": {},
    "serverInfo": {"name": "x", "version": "1"},
}
BIG_ID = b'{"jsonrpc":"2.0","id":9007199254740993,"method":"ping"}'

FAULTS: tuple[tuple[str, Callable[[], Fault], tuple[Step, ...]], ...] = (
    ("right-id", IdsAsStrings, (LIST,)),
    ("right-id", RoundsNumbers, (Send(BIG_ID),)),
    ("no-second-answer", Twice, (LIST,)),
    ("no-answer-to-a-notification", AnswersNotifications, (Tell("notifications/x"),)),
    ("no-answer-after-cancel", IgnoresCancellations, (*SLOWLY, LAST, Await(1, 3))),
    ("no-answer-after-cancel", AnswersCancellations, TWICE_SLOWLY),
    ("still-answers", HangsOnCancel, SLOWLY),
    ("within-deadline", LosesLists, (LIST,)),
    ("only-protocol-on-stdout", Banner, (LIST,)),
    ("right-error-code", WrongCode, (UNKNOWN,)),
    ("right-error-code", OwnCode, (Ask(1, "tools/call", {"name": "harness_nothing"}),)),
    ("valid-for-the-revision", NoContent, (CALL,)),
    (
        "progress-is-in-order",
        ProgressBackwards,
        (
            Ask(1, "tools/call", {"name": "count", "arguments": {"delay": 0.0}}, token=True),
            Pause(1),
        ),
    ),
)


@pytest.mark.parametrize(("oracle", "fault", "steps"), FAULTS, ids=lambda value: str(value)[:40])
async def test_fault_is_named(
    oracle: str, fault: Callable[[], Fault], steps: tuple[Step, ...], autojump_clock: MockClock
) -> None:
    """An oracle that sees its fault and says nothing would prove peers to be well that are not."""
    async with subject(fault) as faulty:
        found = await accused(faulty, *steps)
        if not found:  # an answer may come while the next case is played
            found = await accused(faulty, Pause(2), LIST)
        assert oracle in found
    async with subject() as healthy:
        assert await accused(healthy, *steps) == []


ODD: tuple[Step, ...] = (
    Send(b"\xff\xfe"),
    Send(b""),
    Send(b"[]"),
    Send(b"[1]"),
    Send(b'{"jsonrpc":"2.0","id":null,"method":"ping"}'),
    Send(b'{"jsonrpc":"2.0","id":1.5,"method":"ping"}'),
    Send(b'{"jsonrpc":"2.0","id":"\\ud800","method":"ping"}'),
    Send(b'{"jsonrpc":"2.0","id":3,"id":4,"method":"ping"}'),
    Send(b'{"jsonrpc":"2.0","id":5'),
    Send(b'{"jsonrpc":"1.0","id":6,"method":"ping"}'),
    Send(b'{"jsonrpc":"2.0","id":8,"result":{}}'),
    Send(b'{"jsonrpc":"2.0","id":9,"method":"tools/list","params":{"_meta":{"progressToken":1}}}'),
    Send(b"[" * 5000),
    Tell("notifications/cancelled", {"requestId": "none"}),
    Tell("notifications/cancelled", None),
    Tell("harness/none"),
)


class AnswersEverything(Fault):
    """Answers whatever is no message with an error, under the id that can be read or under none."""

    def received(self, frame: Frame) -> Change:
        if isinstance(frame, bytes):
            yield Back({"jsonrpc": "2.0", "id": None, "error": {"code": -32700, "message": "?"}})
        elif frame.get("jsonrpc") != "2.0" or type(frame.get("id", 1)) not in (int, str):
            id = frame.get("id")
            yield Back({"jsonrpc": "2.0", "id": id, "error": {"code": -32600, "message": "?"}})
        else:
            yield frame


class AnswersNothingOdd(Fault):
    """Answers valid messages only."""

    def sent(self, frame: Frame) -> Change:
        error = frame.get("error", {}) if isinstance(frame, dict) else {}
        if error.get("code") not in (-32700, -32600):
            yield frame


@pytest.mark.parametrize("revision", ERAS)
@pytest.mark.parametrize("fault", [None, AnswersEverything, AnswersNothingOdd])
async def test_what_is_allowed_is_not_accused(
    fault: Callable[[], Fault] | None, revision: str, autojump_clock: MockClock
) -> None:
    """No sentence demands an answer to what is no message, nor forbids one."""
    async with subject(fault, revision) as peer:
        assert await accused(peer, *ODD) == []
        for step in ODD:
            assert await accused(peer, step, LIST) == []


@pytest.mark.parametrize("revision", ERAS)
async def test_an_answer_that_crosses_its_cancellation_is_allowed(
    revision: str, autojump_clock: MockClock
) -> None:
    """Both sides have to cope with that: what was sent before the cancellation was read is fine."""
    async with subject(revision=revision) as healthy:
        steps = [step for id in range(1, 40) for step in (Ask(id, "tools/list"), Cancel(id))]
        assert await accused(healthy, *steps, Pause(0.5), Ask(99, "tools/list")) == []


async def test_slow_tools_are_not_accused(autojump_clock: MockClock) -> None:
    """A tool may take as long as it likes; it is cancelled, and nobody waits for it."""
    async with subject() as healthy:
        assert await accused(healthy, Ask(1, "tools/call", SLOW), Await(1, 10), LIST) == []
        assert await accused(healthy, Pause(200), LIST) == []


async def test_floods_and_stalls_are_survived(autojump_clock: MockClock) -> None:
    """The harness's own ledger has to keep up, too."""
    async with subject() as healthy:
        steps = (Stall(0.5), Flood(1, 500, "tools/list"), Send(PING))
        assert await accused(healthy, *steps) == []


async def test_floods_may_take_time(autojump_clock: MockClock) -> None:
    """Hundreds of requests are work; who does it one by one, and slowly, still answers."""
    target = server_target(TakesTime(0.01), "takes time")
    async with subject(target=target) as slow:
        assert await accused(slow, LIST) == []
        assert await accused(slow, Flood(1, 500, "tools/list")) == []
    async with subject(HangsOnCancel) as faulty:
        (found,) = await accusations(faulty, LIST, *SLOWLY, Flood(9, 500, "ping"))
        assert found.message == "the server runs, but did not answer ping within 12.04 s"


async def test_a_used_id_is_nobodys_fault(autojump_clock: MockClock) -> None:
    """A frame that is no message under the id of one that is: either may be answered."""
    async with subject() as healthy:
        bad = Send(b'{"jsonrpc":"1.0","id":62,"method":"ping"}')
        good = Send(b'{"jsonrpc":"2.0","id":62,"method":"harness/none"}', clear=True)
        assert await accused(healthy, bad, good) == []
        assert await accused(healthy, good, bad) == []


async def test_who_has_no_prompts_has_no_method(autojump_clock: MockClock) -> None:
    """Which prompts there are not is a question only for those who have some."""
    async with subject(NoPrompts) as healthy:
        assert await accused(healthy, Ask(1, "prompts/get", {"name": "harness_none"})) == []


async def test_only_valid_requests_have_to_be_answered(autojump_clock: MockClock) -> None:
    """Who takes a request with a token that is none for no message does what it may."""
    async with subject(LosesLists) as faulty:
        (valid,) = await accusations(faulty, LIST)
        (invalid,) = await accusations(faulty, Ask(1, "tools/list", meta={"progressToken": {}}))
        (large,) = await accusations(faulty, Ask(2, "tools/list", meta={"progressToken": 2**53}))
        assert valid.requirements is None
        assert invalid.requirements == large.requirements == ()
        assert len({valid.cause, invalid.cause, large.cause}) == 3


@pytest.mark.parametrize("error", [None, RuntimeError("no")])
async def test_an_end_without_a_cause_is_a_crash(
    error: Exception | None, autojump_clock: MockClock
) -> None:
    """Also where the peer is in this process, and raises through the harness's nurseries."""
    target = server_target(HangsUp(b"tools/list", error), "hangs up")
    async with subject(target=target) as faulty:
        found = await accusations(faulty, LIST)
        assert [accusation.oracle for accusation in found] == ["no-crash"]
        assert found[0].requirements == ("base-2",)  # as a request was left without an answer
        assert await accused(faulty, CALL) == []  # on a new connection


def program(text: str) -> ServerTarget:
    return command_target(StdioParameters(sys.executable, ["-u", "-c", text]))


ECHO = """
import json, sys, time
for line in sys.stdin:
    message = json.loads(line)
    if message.get("method") == "initialize":
        result = {"protocolVersion": "2025-11-25", "capabilities": {},
                  "serverInfo": {"name": "x", "version": "1"}}
    else:
        result = {}
    if "id" in message:
        print(json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": result}), flush=True)
"""


async def test_a_process_has_to_end_with_its_input() -> None:
    """What outlives its client piles up on people's computers."""
    async with subject(target=program(ECHO + "time.sleep(60)\n")) as faulty:
        assert await accused(faulty, EndInput()) == ["ends-with-stdin"]
    async with subject(target=program(ECHO)) as healthy:
        assert await accused(healthy, EndInput()) == []
        assert await accused(healthy, Signal("STOP"), Send(PING), Signal("CONT")) == []
        assert await accused(healthy, Signal("TERM")) == []


async def test_a_crash_says_how_the_process_ended() -> None:
    """The status and the exception are what a maintainer looks for first."""
    async with subject(target=program(ECHO)) as faulty:
        (found, *_) = await accusations(faulty, Raw((b"not JSON\n",)))
        assert found.oracle == "no-crash"
        assert "status 1" in found.message
        assert "JSONDecodeError" in found.message


async def test_http_steps_are_left_out_elsewhere(autojump_clock: MockClock) -> None:
    """A replay file of an HTTP server may be played to another one."""
    async with subject() as healthy:
        assert await accused(healthy, Post("GET", {}, b""), EndInput(), LIST) == []


def series(*values: int) -> list[Usage]:
    return [Usage(n * 100, n * 10, value << 20, value) for n, value in enumerate(values)]


def test_growth_without_end_is_accused() -> None:
    """What has grown is suspected; what grows again from round to round is accused."""
    grown = growth(series(*range(50, 150)))
    assert [accusation.oracle for accusation in grown] == ["bounded-memory", "bounded-descriptors"]
    assert growth(series(*[50, 51] * 50)) == []
    assert growth(series(*range(50, 60))) == []
    assert growth(series(*range(150, 50, -1))) == []
    assert grows_again(series(*range(50, 650, 10)), "bounded-memory")
    assert not grows_again(series(*range(50, 250, 10)), "bounded-memory")  # it may be garbage
    assert not grows_again(series(*range(50, 250, 20), *[250] * 20), "bounded-memory")


def test_who_was_played_when_it_grew_is_suspected() -> None:
    """Cases that have nothing to do with it would only make the proof slow."""
    assert when_it_grew(series(5, 5, 9, 9, 10), "bounded-memory") == [range(10, 20), range(30, 40)]


def test_requirements_of_oracles_exist() -> None:
    """An id that is misspelt would make a MUST a SHOULD."""
    requirements = load_requirements()
    for oracle in ORACLES.values():
        for revision in REVISIONS:
            oracle.level(revision, requirements)
    assert ORACLES["still-answers"].level(LEGACY, requirements) == "MUST"
    assert ORACLES["still-answers"].level(MODERN, requirements) == "MUST"
    assert ORACLES["no-answer-after-cancel"].level(LEGACY, requirements) == "SHOULD"
    assert ORACLES["no-answer-after-cancel"].level(MODERN, requirements) == "MUST NOT"


async def test_playing_ends_when_it_is_cancelled() -> None:
    """Also in the middle of a case, with a process that has just been stopped."""
    async with subject(target=program(ECHO)) as healthy:
        with trio.move_on_after(0.5) as scope:
            await accused(healthy, Signal("STOP"), Send(PING), Pause(60))
        assert scope.cancelled_caught


async def test_a_status_refuses_what_is_no_message() -> None:
    """HTTP refuses by a status what a server need not take for a request, and only that."""

    async def handler(exchange: Exchange) -> None:
        message = json.loads(await exchange.body(10_000))
        if message["method"] == "tools/list":
            await exchange.respond(400, {"content-type": "text/plain"}, b"no message")
        else:
            answer = json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": DISCOVERED})
            await exchange.respond(200, {"content-type": "application/json"}, answer.encode())

    with trio.fail_after(20):
        async with serving(handler) as target, subject(target=target, revision=MODERN) as refuses:
            assert await accused(refuses, Ask(1, "tools/list", meta={"progressToken": {}})) == []
            (found,) = await accusations(refuses, LIST)
    assert found.oracle == "within-deadline"
    assert found.requirements is None
    assert "was not answered: its POST got" in found.message


NO_SESSION = b'{"jsonrpc":"2.0","error":{"code":-32000,"message":"no such session"},"id":null}'


async def test_who_ends_the_session_is_refused() -> None:
    """After a DELETE, a status that refuses, even with no id, is all that a server has to say."""
    ended = False

    async def handler(exchange: Exchange) -> None:
        nonlocal ended
        body = await exchange.body(10_000)
        message = json.loads(body or b"{}")
        ended = exchange.request.method == "DELETE" or (
            ended and message.get("method") != "initialize"
        )
        if exchange.request.method == "POST" and ended:
            await exchange.respond(400, {"content-type": "application/json"}, NO_SESSION)
        elif "id" in message:
            found = INITIALIZED if message["method"] == "initialize" else {}
            answer = json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": found}).encode()
            await exchange.respond(200, {"content-type": "application/json"}, answer)
        else:
            await exchange.respond(405 if exchange.request.method == "GET" else 202, {}, b"")

    delete = Post("DELETE", {}, b"")
    with trio.fail_after(20):
        async with serving(handler) as target, subject(target=target) as healthy:
            told = Tell("notifications/x")
            assert await accused(healthy, Ask(1, "ping"), delete, told, Ask(2, "ping")) == []
            assert await accused(healthy, Ask(1, "ping")) == []  # in a new session
