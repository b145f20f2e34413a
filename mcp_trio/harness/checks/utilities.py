"""Pings, cancellation, progress, logging and completion: checks."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, Final

import trio

from mcp_trio.harness.aftermath import FRAMED, harmless, strays, survives
from mcp_trio.harness.checks import LEGACY, MODERN, REVISIONS, check
from mcp_trio.harness.exercise import (
    Heard,
    Running,
    as_object,
    exercise,
    keep_silent,
    running_call,
    seconds_for_nothing,
    start_again,
)
from mcp_trio.harness.model import Failed, NotApplicable, Transport
from mcp_trio.harness.probe import ServerProbe, expect, require
from mcp_trio.harness.session import Received, Reply, Session
from mcp_trio.protocol.errors import INVALID_PARAMS, METHOD_NOT_FOUND
from mcp_trio.protocol.meta import META, SUBSCRIPTION_ID
from mcp_trio.wire.jsonrpc import JSON, JSONObject

WITHOUT_HTTP: Final[tuple[Transport, ...]] = (*FRAMED, "sse")
"""Where one cancels by a notification in every era."""
LONG: Final = 1.0
LONG_IN_PINGS: Final = 10
"""Seconds after which an answer has kept waiting; on a slow connection, so many pings."""
AFTER_CANCEL: Final = 1.6  # seconds: a call of a second that goes on would be heard of until then

# Pings


@check(
    "ping-is-answered",
    "ping-1",
    meaning="A ping gets an empty result.",
    revisions=LEGACY,
)
async def ping_is_answered(probe: ServerProbe) -> None:
    session = await probe.session()
    for params in (None, {}, {META: {"harness": 1}}):
        result = (await session.request("ping", params)).expect_result()
        expect(not result.keys() - {META}, f"the result of a ping is {json.dumps(result)[:80]}")


@check(
    "ping-does-not-wait",
    "ping-1",
    meaning="A ping is answered while a call runs.",
    revisions=LEGACY,
)
async def ping_does_not_wait(probe: ServerProbe) -> None:
    await _does_not_wait(probe, "ping")


@check(
    "requests-do-not-wait",
    "base-24",
    meaning="A request is answered while a call runs.",
    revisions=MODERN,
)
async def requests_do_not_wait(probe: ServerProbe) -> None:
    await _does_not_wait(probe, "tools/list")


async def _does_not_wait(probe: ServerProbe, method: str) -> None:
    """Ask while a call runs. Who waits does so each time, and not only on a machine that is busy.

    That the call was over before the answer came says nothing by itself: over HTTP nothing orders
    two requests, and a call may be over at any moment. It says something if the answer took long,
    compared with one on a quiet session.
    """
    for last in (False, True):
        async with probe.open_session() as session:
            running = await running_call(probe, session, seconds=4 * session.deadline)
            patience = max(LONG, LONG_IN_PINGS * await seconds_for_nothing(session))
            over = bool(session.replies(running.id, running.since))
            began = trio.current_time()
            try:
                await session.request(method)
            except Failed as exc:
                raise Failed(f"while a call of {running.tool} runs: {exc.message}") from exc
            took = trio.current_time() - began
            if not session.replies(running.id, running.since):
                return
            if over or took < patience:
                raise NotApplicable(f"the call of {running.tool} was over too soon")
            expect(
                not last,
                f"{method} was answered after {took:.1f} s, only after a call of {running.tool}",
            )


@check(
    "pings-are-few",
    "ping-5",
    meaning="A server that sends pings does so a few times a minute, not many times a second.",
    revisions=LEGACY,
)
async def pings_are_few(probe: ServerProbe) -> None:
    session = await probe.session()
    since = len(session.received)
    await trio.sleep(0.5)
    count = sum(frame.method == "ping" for frame in session.received[since:])
    expect(count <= 5, f"{count} pings came in half a second in which nothing happened")


# Cancellation


@check(
    "cancelled-call-is-not-answered",
    "cancellation-12",
    meaning="Once a call is cancelled, no answer to it comes.",
    transports=WITHOUT_HTTP,
)
async def cancelled_call_is_not_answered(probe: ServerProbe) -> None:
    async with probe.open_session() as session:
        running, late = await _cancelled(probe, session)
    for frame in late:
        if frame.is_answer:
            text = Reply(frame).brief()
            raise Failed(f"a call of {running.tool} was cancelled, and then answered: {text}")


@check(
    "cancelled-call-stops",
    "cancellation-12",
    meaning="Once a call is cancelled, its work stops: no progress of it comes.",
    transports=WITHOUT_HTTP,
)
async def cancelled_call_stops(probe: ServerProbe) -> None:
    async with probe.open_session() as session:
        running, late = await _cancelled(probe, session)
    count = sum(not frame.is_answer for frame in late)
    expect(not count, f"a call of {running.tool} was cancelled, and {count} more messages came")


@check(
    "nothing-comes-after-cancel",
    "stdio-16",
    meaning="Once a request is cancelled, nothing more is sent for it.",
    revisions=MODERN,
    transports=("stdio", "stream"),
)
async def nothing_comes_after_cancel(probe: ServerProbe) -> None:
    async with probe.open_session() as session:
        running, late = await _cancelled(probe, session)
    for frame in late:
        text = frame.raw[:80].decode(errors="replace")
        raise Failed(f"a call of {running.tool} was cancelled, and then came {text}")


async def _cancelled(probe: ServerProbe, session: Session) -> tuple[Running, list[Received]]:
    """Cancel a call that runs; what comes for it after the server must have read that.

    What it sent before counts for nothing: an answer to a later request shows that it has read the
    cancellation, as far as it reads in order.
    """
    running = await running_call(probe, session)
    await session.notify("notifications/cancelled", {"requestId": running.id, "reason": "a check"})
    await survives(session, "a cancellation")
    since = len(session.received)
    if session.replies(running.id, running.since):
        # Whether it was answered before or after the cancellation had been read, nobody knows.
        answer = Reply(session.replies(running.id, running.since)[0])
        if answer.error is None:
            raise NotApplicable(f"the call of {running.tool} was over too soon")
        since = running.since
    await trio.sleep(AFTER_CANCEL)
    late = [frame for frame in session.received[since:] if _is_about(frame, running)]
    return running, late


def _is_about(frame: Received, running: Running) -> bool:
    params = as_object(frame.object.get("params"))
    answers = frame.is_answer and frame.object.get("id") == running.id
    return answers or params.get("progressToken") == running.token


@check(
    "cancellations-may-cross",
    "cancellation-14",
    meaning="A cancellation at any moment is survived, and no request is answered twice.",
    transports=WITHOUT_HTTP,
)
async def cancellations_may_cross(probe: ServerProbe) -> None:
    async with probe.open_session() as session:
        await survives(session, "the handshake")
        since = len(session.received)
        ids = []
        for pause in (0, 0, 0.001, 0.005, 0.02):
            id = await session.post(harmless(session))
            ids.append(id)
            if pause:
                await trio.sleep(pause)
            for _ in range(2):
                await session.notify("notifications/cancelled", {"requestId": id})
        await survives(session, "cancellations that cross the answers")
        for id in ids:
            count = len(session.replies(id, since))
            expect(count <= 1, f"a request that was cancelled was answered {count} times")


BAD_CANCELLATIONS: Final[tuple[JSONObject | None, ...]] = (
    {"requestId": "harness-never-sent"},
    {"requestId": 4_000_000_000},
    {"requestId": None},
    {"requestId": [1]},
    {"requestId": 1, "reason": 7},
    {"reason": "none"},
    {},
    None,
)


@check(
    "bad-cancellations-are-ignored",
    "cancellation-17",
    meaning="A cancellation that is malformed, or of no running request, changes nothing.",
    transports=WITHOUT_HTTP,
)
async def bad_cancellations_are_ignored(probe: ServerProbe) -> None:
    async with probe.open_session() as session:
        await session.request(harmless(session))
        for params in BAD_CANCELLATIONS:
            since = len(session.received)
            await session.notify("notifications/cancelled", params)
            text = f"a cancellation with {json.dumps(params)}"
            await survives(session, text)
            for answer in strays(session, since):
                raise Failed(f"{text} was answered with {Reply(answer).brief()}")


@check(
    "cancellation-hits-one-request",
    "cancellation-17",
    meaning="A cancellation ends only the request with its id; the string 1 is not the number 1.",
    transports=WITHOUT_HTTP,
)
async def cancellation_hits_one_request(probe: ServerProbe) -> None:
    async with probe.open_session() as session:
        first = await running_call(probe, session)
        require(first.ends_alone, "the only slow calls wait for the client")
        second = await start_again(session, first.tool, first.arguments)
        for id in (str(second.id), "harness-never-sent", first.id):
            await session.notify("notifications/cancelled", {"requestId": id})
        over = session.replies(second.id, second.since)
        require(not over, f"a call of {first.tool} was over too soon")
        try:
            await session.reply(second.id, since=second.since, timeout=session.deadline * 4)
        except Failed as exc:
            text = "after another call, and the text of this one's number, were cancelled"
            raise Failed(f"{text}: {exc.message}") from exc


@check(
    "late-answers-are-ignored",
    "cancellation-23",
    meaning="An answer to a request of the server whose call was cancelled is ignored.",
    revisions=LEGACY,
    transports=FRAMED,
)
async def late_answers_are_ignored(probe: ServerProbe) -> None:
    async with probe.open_session() as session:
        running = await running_call(probe, session, ends_alone=False)
        asked = [f.object for f in session.received if f.method and "id" in f.object]
        require(asked, "no tool that may be called asks the client anything")
        await session.notify("notifications/cancelled", {"requestId": running.id})
        await survives(session, "a cancellation")
        for request in asked:
            since = len(session.received)
            await session.send({"jsonrpc": "2.0", "id": request["id"], "result": {}})
            await survives(session, f"a late answer to {request['method']}")
            for answer in strays(session, since):
                raise Failed(f"a late answer was answered with {Reply(answer).brief()}")


@check(
    "server-cancels-only-subscriptions",
    "cancellation-3",
    "cancellation-11",
    meaning="notifications/cancelled of the server names a request subscriptions/listen, if any.",
    revisions=MODERN,
)
async def server_cancels_only_subscriptions(probe: ServerProbe) -> None:
    session = await probe.session()
    heard = await exercise(probe, session, tokens="harness-")
    for params in heard.notifications("notifications/cancelled"):
        raise Failed(f"the server cancels {params.get('requestId')!r}, which is no subscription")


@check(
    "server-cancels-only-its-own",
    "cancellation-22",
    meaning="notifications/cancelled of the server names a request of the server, if any.",
    revisions=LEGACY,
)
async def server_cancels_only_its_own(probe: ServerProbe) -> None:
    async with probe.open_session() as session:
        await exercise(probe, session)
        heard = Heard(tuple(session.received), {}, frozenset())
    own = [request["id"] for request in heard.requests()]
    for params in heard.notifications("notifications/cancelled"):
        id = params.get("requestId")
        expect(id in own, f"the server cancels {id!r}, which is no request of its own")


# Progress


async def _hear_progress(
    probe: ServerProbe, tokens: str | int
) -> tuple[Heard, list[tuple[int, JSONObject]]]:
    """An exercise with progress tokens, and the progress in it with its place in the order."""
    session = await probe.session()
    heard = await exercise(probe, session, tokens=tokens)
    found = [
        (place, as_object(frame.object.get("params")))
        for place, frame in enumerate(heard.frames)
        if frame.method == "notifications/progress"
    ]
    require(found, "no tool that may be called reports progress")
    return heard, found


@check(
    "progress-has-its-token",
    "progress-5",
    meaning="Progress comes under the token of a request, of the same type.",
)
async def progress_has_its_token(probe: ServerProbe) -> None:
    for first in ("harness-", 7_000):
        heard, found = await _hear_progress(probe, first)
        given = {(type(token), token) for token in heard.tokens.values()}
        for _, params in found:
            token = params.get("progressToken")
            known = type(token) in (str, int) and (type(token), token) in given
            expect(known, f"progress came under the token {token!r}, which no request has")


@check(
    "progress-counts-from-zero",
    meaning="A tool that reports progress does so under the token 0, too.",
)
async def progress_counts_from_zero(probe: ServerProbe) -> None:
    heard, found = await _hear_progress(probe, "harness-")
    reporting = {params.get("progressToken") for _, params in found}
    session = await probe.session()
    places = enumerate(heard.tokens.values())
    number = next(place for place, token in places if token in reporting)
    zero = await exercise(probe, session, tokens=-number)
    told = [p.get("progressToken") for p in zero.notifications("notifications/progress")]
    expect(0 in told, "a tool reports progress under a text, but not under the token 0")


@check(
    "no-progress-without-token",
    "progress-5",
    meaning="A call without a progress token gets no progress.",
)
async def no_progress_without_token(probe: ServerProbe) -> None:
    await _hear_progress(probe, "harness-")
    session = await probe.session()
    heard = await exercise(probe, session)
    for params in heard.notifications("notifications/progress"):
        token = params.get("progressToken")
        raise Failed(f"progress came under the token {token!r}, and no call had one")


@check(
    "progress-grows",
    "progress-3",
    meaning="The progress of a call grows with each notification.",
)
async def progress_grows(probe: ServerProbe) -> None:
    _, found = await _hear_progress(probe, "harness-")
    last: dict[object, float] = {}
    for _, params in found:
        token = params.get("progressToken")
        progress: Any = params.get("progress")
        number = isinstance(progress, (int, float)) and not isinstance(progress, bool)
        expect(number, f"the progress is {progress!r}, and no number")
        before = last.get(token)
        grown = before is None or progress > before
        expect(grown, f"progress {progress} came after {before} under the token {token!r}")
        last[token] = progress


@check(
    "progress-ends-with-the-call",
    "progress-8",
    meaning="No progress comes after the answer.",
)
async def progress_ends_with_the_call(probe: ServerProbe) -> None:
    heard, found = await _hear_progress(probe, "harness-")
    ends = {
        heard.tokens.get(frame.object["id"]): place
        for place, frame in enumerate(heard.frames)
        if frame.is_answer and isinstance(frame.object.get("id"), int)
    }
    for place, params in found:
        token = params.get("progressToken")
        over = place > ends.get(token, place)
        expect(not over, f"progress under the token {token!r} came after the answer")


@check(
    "progress-does-not-flood",
    "progress-7",
    meaning="A call sends less than five hundred progress notifications in a second or two.",
)
async def progress_does_not_flood(probe: ServerProbe) -> None:
    _, found = await _hear_progress(probe, "harness-")
    expect(len(found) < 500, f"{len(found)} progress notifications came in a moment")


@check(
    "own-tokens-are-good",
    "progress-12",
    "progress-13",
    meaning="Progress tokens of the server's requests are strings or integers, and differ.",
    revisions=LEGACY,
)
async def own_tokens_are_good(probe: ServerProbe) -> None:
    async with probe.open_session() as session:
        keep_silent(session)  # all that the server asks stays in progress
        await exercise(probe, session)
        asked = Heard(tuple(session.received), {}, frozenset()).requests()
    require(asked, "the server asked nothing of the client")
    seen = []
    for request in asked:
        meta = as_object(as_object(request.get("params", {})).get(META))
        if "progressToken" in meta:
            token = meta["progressToken"]
            good = type(token) in (str, int)
            expect(good, f"the server asks with the progress token {token!r}", "progress-12")
            again = (type(token), token) in seen
            expect(not again, f"two requests at once have the token {token!r}", "progress-13")
            seen.append((type(token), token))


# Logging

LEVELS: Final = ("debug", "info", "notice", "warning", "error", "critical", "alert", "emergency")
LOG_LEVEL: Final = "io.modelcontextprotocol/logLevel"


async def _needs_logging(probe: ServerProbe) -> None:
    require((await probe.inventory()).has("logging"), "the server does not declare logging")


async def _hear_logs(probe: ServerProbe, session: Session, level: str | None) -> list[JSONObject]:
    """What is logged in an exercise at a level."""
    if not session.is_modern and level is not None:
        (await session.request("logging/setLevel", {"level": level})).expect_result()
    meta: JSONObject = {LOG_LEVEL: level} if session.is_modern and level is not None else {}
    heard = await exercise(probe, session, meta=meta)
    return heard.notifications("notifications/message")


@check(
    "logging-is-declared",
    "logging-2",
    meaning="A server that sends log messages declares the logging capability.",
)
async def logging_is_declared(probe: ServerProbe) -> None:
    session = await probe.session()
    meta: JSONObject = {LOG_LEVEL: "debug"} if session.is_modern else {}
    heard = await exercise(probe, session, meta=meta)
    logs = heard.notifications("notifications/message")
    require(logs, "the server logged nothing")
    declared = (await probe.inventory()).has("logging")
    expect(declared, "the server sends notifications/message and does not declare logging")


@check(
    "nothing-is-logged-unasked",
    "logging-3",
    meaning="A request without a log level gets no log messages.",
    revisions=MODERN,
)
async def nothing_is_logged_unasked(probe: ServerProbe) -> None:
    session = await probe.session()
    for params in await _hear_logs(probe, session, None):
        text = json.dumps(params, ensure_ascii=False)[:80]
        raise Failed(f"a message was logged, and no request asked for it: {text}")


@check(
    "logs-stay-with-their-request",
    "logging-4",
    meaning="Log messages come before the answer of their request, and on no subscription.",
    revisions=MODERN,
)
async def logs_stay_with_their_request(probe: ServerProbe) -> None:
    async with probe.open_session() as session:
        asked = {"notifications": {"toolsListChanged": True}}
        await session.post("subscriptions/listen", asked)
        heard = await exercise(probe, session, meta={LOG_LEVEL: "debug"})
    logs = [p for p, f in enumerate(heard.frames) if f.method == "notifications/message"]
    require(logs, "the server logged nothing")
    for place in logs:
        params = as_object(heard.frames[place].object.get("params"))
        subscribed = SUBSCRIPTION_ID in as_object(params.get(META))
        expect(not subscribed, "a log message was sent to a subscription")
    last = max((p for p, f in enumerate(heard.frames) if _answers_a_call(f)), default=0)
    expect(heard.given_up or max(logs) < last, "a log message came after all calls were over")


def _answers_a_call(frame: Received) -> bool:
    result = as_object(frame.object.get("result"))
    return frame.is_answer and ("content" in result or "error" in frame.object)


@check(
    "log-levels-are-kept",
    meaning="No message is logged that is below the level which was asked for.",
)
async def log_levels_are_kept(probe: ServerProbe) -> None:
    await _needs_logging(probe)
    async with probe.open_session() as session:
        logs = await _hear_logs(probe, session, "debug")
        require(logs, "the server logged nothing")
        for level in ("warning", "emergency"):
            for params in await _hear_logs(probe, session, level):
                said = params.get("level")
                low = said in LEVELS and LEVELS.index(said) < LEVELS.index(level)
                expect(not low, f"with the level {level}, a message of level {said!r} was logged")


@check(
    "log-messages-are-well-formed",
    meaning="A log message has one of the eight levels, and data.",
)
async def log_messages_are_well_formed(probe: ServerProbe) -> None:
    session = await probe.session()
    meta: JSONObject = {LOG_LEVEL: "debug"} if session.is_modern else {}
    logs = (await exercise(probe, session, meta=meta)).notifications("notifications/message")
    require(logs, "the server logged nothing")
    for params in logs:
        level = params.get("level")
        expect(level in LEVELS, f"a message was logged with the level {level!r}")
        expect("data" in params, "a log message has no data")


@check(
    "all-log-levels-are-known",
    meaning="logging/setLevel takes each of the eight levels, with an empty result.",
    revisions=LEGACY,
)
async def all_log_levels_are_known(probe: ServerProbe) -> None:
    await _needs_logging(probe)
    async with probe.open_session() as session:
        for level in LEVELS:
            result = (await session.request("logging/setLevel", {"level": level})).expect_result()
            expect(not result.keys() - {META}, f"the result of {level} is {json.dumps(result)}")


WRONG_LEVELS: Final[tuple[JSON, ...]] = ("harness", "ERROR ", 3, None)


@check(
    "unknown-log-level-is-refused",
    "logging-8",
    meaning="logging/setLevel for a level that does not exist gets -32602.",
    revisions=LEGACY,
)
async def unknown_log_level_is_refused(probe: ServerProbe) -> None:
    await _needs_logging(probe)
    async with probe.open_session() as session:
        for level in WRONG_LEVELS:
            reply = await session.request("logging/setLevel", {"level": level})
            reply.expect_error(INVALID_PARAMS)


@check(
    "unknown-log-level-of-a-request-is-refused",
    "logging-5",
    meaning="A request that asks for a log level which does not exist gets -32602.",
    revisions=MODERN,
)
async def unknown_log_level_of_a_request_is_refused(probe: ServerProbe) -> None:
    await _needs_logging(probe)
    session = await probe.session()
    for level in WRONG_LEVELS[:3]:
        reply = await session.request("tools/list", meta={LOG_LEVEL: level})
        reply.expect_error(INVALID_PARAMS)


# Completion

Place = tuple[JSONObject, str]
"""What can be completed: a reference, and the name of an argument."""
SINCE_2025_03: Final = REVISIONS[1:]


async def _places(probe: ServerProbe) -> list[Place]:
    """All arguments of prompts, and all variables of templates."""
    inventory = await probe.inventory()
    found: list[Place] = []
    for prompt in inventory.prompts:
        reference = {"type": "ref/prompt", "name": prompt.get("name")}
        for argument in prompt.get("arguments") or ():
            found.append((reference, str(as_object(argument).get("name"))))
    for template in inventory.templates:
        uri = str(template.get("uriTemplate"))
        found += [({"type": "ref/resource", "uri": uri}, name) for name in _variables(uri)]
    return found[:12]


def _variables(template: str) -> Iterator[str]:
    for part in template.split("{")[1:]:
        for name in part.partition("}")[0].lstrip("+#./;?&").split(","):
            yield name.rstrip("*").partition(":")[0]


def _question(place: Place, value: str) -> JSONObject:
    return {"ref": place[0], "argument": {"name": place[1], "value": value}}


async def _completed(session: Session, places: list[Place]) -> list[tuple[Place, JSONObject]]:
    """Which arguments are completed, and how, when nothing or one letter has been typed."""
    found = []
    for place in places:
        for typed in ("", "a"):
            reply = await session.request("completion/complete", _question(place, typed))
            if reply.result is not None:
                found.append((place, as_object(reply.result.get("completion"))))
    return found


async def _needs_completion(probe: ServerProbe) -> Place:
    """Something that can be completed."""
    inventory = await probe.inventory()
    declared = inventory.has("completions") or probe.revision == "2024-11-05"
    require(declared, "the server does not declare completions")
    places = await _places(probe)
    require(places, "no prompt has arguments, and no template variables")
    session = await probe.session()
    completed = await _completed(session, places)
    require(completed, "the server completes nothing")
    return completed[0][0]


@check(
    "completion-is-declared",
    "completion-1",
    meaning="A server that completes arguments declares the completions capability.",
    revisions=SINCE_2025_03,
)
async def completion_is_declared(probe: ServerProbe) -> None:
    places = await _places(probe)
    require(places, "no prompt has arguments, and no template variables")
    found = await _completed(await probe.session(), places)
    completed = [place for place, completion in found if completion.get("values")]
    require(completed, "the server completes nothing")
    declared = (await probe.inventory()).has("completions")
    expect(declared, f"the server completes {completed[0][1]!r} and does not declare completions")


@check(
    "completions-are-well-formed",
    meaning="A completion has at most 100 values, all text, and a total that is not smaller.",
)
async def completions_are_well_formed(probe: ServerProbe) -> None:
    await _needs_completion(probe)
    for _, completion in await _completed(await probe.session(), await _places(probe)):
        values, total = completion.get("values"), completion.get("total")
        texts = isinstance(values, list) and all(isinstance(value, str) for value in values)
        expect(texts, f"the values of a completion are {json.dumps(values)[:80]}")
        count = len(values or ())
        expect(count <= 100, f"a completion has {count} values")
        whole = total is None or (type(total) is int and total >= count)
        expect(whole, f"a completion has {count} values and the total {total!r}")
        more = completion.get("hasMore", False)
        expect(isinstance(more, bool), f"hasMore of a completion is {more!r}")


@check(
    "completion-of-nothing-is-refused",
    "completion-5",
    meaning="Completion for an unknown prompt, or without an argument, gets -32602.",
    revisions=SINCE_2025_03,
)
async def completion_of_nothing_is_refused(probe: ServerProbe) -> None:
    reference, name = await _needs_completion(probe)
    session = await probe.session()
    unknown: JSONObject = {"type": "ref/prompt", "name": "harness/no such prompt"}
    for params in (
        _question((unknown, name), "a"),
        {"ref": reference},
        {"argument": {"name": name, "value": "a"}},
    ):
        reply = await session.request("completion/complete", params)
        reply.expect_error(INVALID_PARAMS)


@check(
    "missing-completion-is-unknown",
    "completion-5",
    meaning="completion/complete gets -32601 of a server that completes nothing.",
    revisions=SINCE_2025_03,
)
async def missing_completion_is_unknown(probe: ServerProbe) -> None:
    inventory = await probe.inventory()
    require(not inventory.has("completions"), "the server declares completions")
    reference: JSONObject = {"type": "ref/prompt", "name": "harness"}
    session = await probe.session()
    reply = await session.request("completion/complete", _question((reference, "x"), "a"))
    reply.expect_error(METHOD_NOT_FOUND)


@check(
    "completion-inputs-are-validated",
    "completion-3",
    "completion-2",
    meaning="Completion with a reference or an argument of the wrong type is refused.",
)
async def completion_inputs_are_validated(probe: ServerProbe) -> None:
    reference, name = await _needs_completion(probe)
    session = await probe.session()
    argument: JSONObject = {"name": name, "value": "a"}
    wrong: list[JSONObject] = [
        {"ref": {"type": "ref/harness", "name": "x"}, "argument": argument},
        {"ref": "text", "argument": argument},
        {"ref": reference, "argument": {"name": name, "value": 7}},
        {"ref": reference, "argument": {"name": None, "value": "a"}},
        {"ref": reference, "argument": "text"},
    ]
    for params in wrong:
        reply = await session.request("completion/complete", params)
        text = json.dumps(params, ensure_ascii=False)[:120]
        expect("error" in reply.raw, f"a completion with {text} got {reply.brief()}")
