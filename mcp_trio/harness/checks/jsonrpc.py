"""Messages, requests, responses and errors: checks of what JSON-RPC asks of a server."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from typing import Any, Final

import trio

from mcp_trio.harness.aftermath import FRAMED, harmless, strays, survives
from mcp_trio.harness.checks import LEGACY, MODERN, REVISIONS, check, having
from mcp_trio.harness.exercise import MOST_TOOLS, Heard, arguments_of, as_object, exercise
from mcp_trio.harness.model import Failed
from mcp_trio.harness.probe import ServerProbe, expect, require
from mcp_trio.harness.session import Received, Reply, Session
from mcp_trio.protocol.errors import METHOD_NOT_FOUND
from mcp_trio.protocol.meta import META, is_valid_key
from mcp_trio.wire.jsonrpc import JSON, JSONObject, RequestId

SINCE_2025_03: Final = REVISIONS[1:]
SINCE_2025_06: Final = REVISIONS[2:]

# Requests and their ids


@check(
    "unknown-method-is-refused",
    "base-2",
    meaning="A request for a method that does not exist gets -32601.",
)
async def unknown_method_is_refused(probe: ServerProbe) -> None:
    session = await probe.session()
    reply = await session.request("harness/no_such_method")
    reply.expect_error(METHOD_NOT_FOUND)


@check(
    "ids-come-back",
    "base-6",
    meaning="A result carries the id of its request, of the same type: 1 is not the string 1.",
)
async def ids_come_back(probe: ServerProbe) -> None:
    session = await probe.session()
    start = session.next_id() + 10_000
    ids: list[RequestId] = [0, start, str(start), "", "null", "ünïcode ☃", -1, 2**53 - 1, "x" * 500]
    for id in ids:
        reply = await _answer_to(session, id)
        reply.expect_result()


@check(
    "ids-of-errors-come-back",
    "base-12",
    meaning="An error carries the id of its request, of the same type.",
)
async def ids_of_errors_come_back(probe: ServerProbe) -> None:
    session = await probe.session()
    for id in ("an error", 123_456_789, "987654321"):
        reply = await session.request("harness/no_such_method", id=id)
        reply.expect_error()


@check(
    "big-ids-come-back",
    meaning="An id beyond 2**53 comes back with all its digits.",
)
async def big_ids_come_back(probe: ServerProbe) -> None:
    session = await probe.session()
    for id in (2**53 + 1, 2**63 - 1):
        await _answer_to(session, id)


async def _answer_to(session: Session, id: RequestId) -> Reply:
    """The answer under an id; if it comes under another one, say so at once."""
    since = len(session.received)
    await session.post(harmless(session), id=id)
    await survives(session, f"a request with id {json.dumps(id)}")
    if not session.replies(id, since):
        for other in strays(session, since):
            got = json.dumps(other.object.get("id"))
            raise Failed(f"a request with id {json.dumps(id)} was answered under id {got}")
    return await session.reply(id, since=since)


ODD_IDS: Final[tuple[JSON, ...]] = (None, True, 1.5, [], {"id": 1})


@check(
    "odd-ids-get-no-result",
    meaning="A request whose id is null, a boolean, a fraction, an array or an object fails.",
    transports=FRAMED,
)
async def odd_ids_get_no_result(probe: ServerProbe) -> None:
    async with probe.open_session() as session:
        for id in ODD_IDS:
            since = len(session.received)
            await session.send({**session.message(harmless(session), id=1), "id": id})
            text = json.dumps(id)
            await survives(session, f"a request with id {text}")
            for answer in strays(session, since):
                expect("result" not in answer.object, f"a request with id {text} got a result")


@check(
    "each-request-is-answered",
    "base-2",
    meaning="Many requests at once are all answered, each of them once.",
)
async def each_request_is_answered(probe: ServerProbe) -> None:
    session = await probe.session()
    since = len(session.received)
    methods = (harmless(session), "tools/list", "harness/no_such_method") * 7
    posted = [await session.post(method) for method in methods]
    for id, method in zip(posted, methods, strict=True):
        await session.reply(id, since=since, what=method)
    await session.fence()
    for id in posted:
        count = len(session.replies(id, since))
        expect(count == 1, f"the request with id {id} was answered {count} times")


@check(
    "calls-are-survived",
    meaning="The server goes on after each call of a tool.",
)
async def calls_are_survived(probe: ServerProbe) -> None:
    tools = await probe.callable_tools()
    async with probe.open_session() as session:
        for tool in tools[:MOST_TOOLS]:
            params = {"name": tool.get("name"), "arguments": arguments_of(tool, 0.05)}
            id = await session.post("tools/call", params)
            await survives(session, f"a call of {tool.get('name')}")
            await session.notify("notifications/cancelled", {"requestId": id})


# Responses


@check(
    "answers-are-well-formed",
    "base-2",
    "base-7",
    "base-13",
    "base-14",
    "base-62",
    "base-63",
    meaning="Each answer is a JSON-RPC response: a result, or an error with its code and message.",
)
async def answers_are_well_formed(probe: ServerProbe) -> None:
    session = await probe.session()
    answers = await _answers_of_all_kinds(probe, session)
    for answer in answers:
        text = json.dumps(answer, ensure_ascii=False)[:100]
        _judge_answer(answer, text, session.revision)


async def _answers_of_all_kinds(probe: ServerProbe, session: Session) -> list[JSONObject]:
    """Results, and errors for all sorts of reasons."""
    heard = await exercise(probe, session)
    return heard.answers() + await _errors_of_all_kinds(session)


WRONG: Final[tuple[tuple[str, JSONObject], ...]] = (
    ("harness/no_such_method", {}),
    ("tools/call", {"name": "harness/no such tool", "arguments": {}}),
    ("tools/call", {}),
    ("tools/call", {"name": 7, "arguments": "none"}),
    ("resources/read", {"uri": "harness://nothing/here"}),
    ("resources/read", {}),
    ("prompts/get", {"name": "harness/no such prompt"}),
    ("prompts/get", {}),
    ("tools/list", {"cursor": 7}),
    ("completion/complete", {"ref": {"type": "ref/none"}, "argument": {}}),
)
"""Requests that a server has a reason to refuse."""


async def _errors_of_all_kinds(session: Session) -> list[JSONObject]:
    answers = []
    for method, params in WRONG:
        answer = (await session.request(method, params)).raw
        answers.append(answer)
    return answers


def _judge_answer(answer: JSONObject, text: str, revision: str) -> None:
    older = revision < "2025-11-25"
    version = answer.get("jsonrpc")
    expect(version == "2.0", f"an answer has jsonrpc {version!r}: {text}", "base-2")
    both = "result" in answer and "error" in answer
    expect(not both, f"an answer has a result and an error: {text}", _in(older, "base-63"))
    if "result" in answer:
        whole = isinstance(answer["result"], dict)
        expect(whole, f"a result is no object: {text}", _in(older, "base-62", "base-7"))
        return
    error = answer["error"]
    expect(isinstance(error, dict), f"an error is no object: {text}", "base-2")
    code = error.get("code")
    expect(type(code) is int, f"the code of an error is {code!r}: {text}", "base-14")
    named = "base-2" if revision == "2024-11-05" else "base-13"
    message = error.get("message")
    expect(isinstance(message, str), f"the message of an error is {message!r}: {text}", named)


def _in(older: bool, id: str, since: str = "base-2") -> str:
    return id if older else since


@check(
    "results-say-their-type",
    "base-8",
    "base-9",
    "versioning-5",
    meaning="Each result has a resultType, of the core or of an extension of both sides.",
    revisions=MODERN,
)
async def results_say_their_type(probe: ServerProbe) -> None:
    session = await probe.session()
    for answer in (await exercise(probe, session)).answers():
        if "result" not in answer:
            continue
        found = as_object(answer["result"]).get("resultType")
        text = json.dumps(answer, ensure_ascii=False)[:100]
        expect(isinstance(found, str), f"the resultType of a result is {found!r}: {text}", "base-8")
        known = found in ("complete", "input_required")
        expect(known, f"resultType is {found!r}, and no extension was declared", "base-9")


@check(
    "results-name-the-server",
    "base-51",
    meaning="Each result has the server's name and version in its _meta.",
    revisions=MODERN,
)
async def results_name_the_server(probe: ServerProbe) -> None:
    session = await probe.session()
    for answer in (await exercise(probe, session)).answers():
        meta = as_object(as_object(answer.get("result", {})).get(META))
        info = as_object(meta.get("io.modelcontextprotocol/serverInfo"))
        whole = isinstance(info.get("name"), str) and isinstance(info.get("version"), str)
        text = json.dumps(answer, ensure_ascii=False)[:100]
        expect(whole or "error" in answer, f"a result does not name the server: {text}")


STANDARD: Final = frozenset((-32700, *range(-32603, -32599)))
OF_THE_PROTOCOL: Final = frozenset((-32020, -32021, -32022))


@check(
    "error-codes-keep-to-their-ranges",
    "base-18",
    "base-17",
    "base-20",
    meaning="Errors have codes of the specification, or own ones outside -32768 to -32000.",
    revisions=MODERN,
)
async def error_codes_keep_to_their_ranges(probe: ServerProbe) -> None:
    session = await probe.session()
    for answer in await _answers_of_all_kinds(probe, session):
        if "error" in answer:
            code, message = (as_object(answer["error"]).get(key) for key in ("code", "message"))
            _judge_code(code, f"({str(message)[:60]})")


def _judge_code(code: object, text: str) -> None:
    if type(code) is not int or code in STANDARD or code in OF_THE_PROTOCOL:
        return
    old = code in (-32002, -32042)
    expect(not old, f"error {code} belongs to earlier revisions {text}", "base-18")
    reserved = -32099 <= code <= -32020
    expect(not reserved, f"the specification has no error {code} {text}", "base-17")
    expect(not -32768 <= code <= -32000, f"{code} is no code of one's own {text}", "base-20")


# Notifications


KNOWN_NOTIFICATIONS: Final[tuple[tuple[str, JSONObject], ...]] = (
    ("notifications/cancelled", {"requestId": "harness-never-sent"}),
    ("notifications/progress", {"progressToken": "harness", "progress": 1}),
    ("notifications/roots/list_changed", {}),
)


@check(
    "notifications-get-no-answer",
    "base-21",
    meaning="A notification gets no answer, and neither has a request without an id.",
    revisions=SINCE_2025_03,
    transports=FRAMED,
)
async def notifications_get_no_answer(probe: ServerProbe) -> None:
    session = await probe.session()
    await _stays_silent(session, [*KNOWN_NOTIFICATIONS, ("ping", {}), ("tools/list", {})])


@check(
    "notifications-of-2024-get-no-answer",
    "base-2",
    meaning="A notification gets no answer, as JSON-RPC has it.",
    revisions=("2024-11-05",),
    transports=FRAMED,
)
async def notifications_of_2024_get_no_answer(probe: ServerProbe) -> None:
    session = await probe.session()
    await _stays_silent(session, KNOWN_NOTIFICATIONS)


@check(
    "unknown-notifications-are-ignored",
    "base-2",
    meaning="A notification that nobody knows, or that is malformed, changes nothing.",
    transports=FRAMED,
)
async def unknown_notifications_are_ignored(probe: ServerProbe) -> None:
    session = await probe.session()
    await _stays_silent(
        session,
        [
            ("notifications/harness/no_such", {"x": 1}),
            ("harness/no_such_method", {}),
            ("notifications/progress", {"progressToken": None}),
            ("notifications/initialized", {"surprise": [1, 2]}),
        ],
    )


async def _stays_silent(session: Session, notes: Iterable[tuple[str, JSONObject]]) -> None:
    for method, params in notes:
        since = len(session.received)
        await session.notify(method, params)
        await survives(session, f"the notification {method}")
        for answer in strays(session, since):
            text = Reply(answer).brief()
            raise Failed(f"the notification {method} was answered with {text}")


@check(
    "own-notifications-have-no-id",
    "base-22",
    meaning="What the server calls a notification has no id.",
)
async def own_notifications_have_no_id(probe: ServerProbe) -> None:
    session = await probe.session()
    heard = await exercise(probe, session, tokens="harness-", meta=_log_level(session))
    notes = [f for f in heard.frames if (f.method or "").startswith("notifications/")]
    require(notes, "the server sends no notifications")
    for note in notes:
        id = note.object.get("id")
        expect("id" not in note.object, f"{note.method} came with id {id!r}")


def _log_level(session: Session) -> JSONObject:
    return {"io.modelcontextprotocol/logLevel": "debug"} if session.is_modern else {}


# Requests of the server


@check(
    "server-asks-nothing",
    "base-59",
    "stdio-8",
    meaning="The server sends no requests; what it needs to know stands in its results.",
    revisions=MODERN,
)
async def server_asks_nothing(probe: ServerProbe) -> None:
    session = await probe.session()
    heard = await exercise(probe, session, tokens="harness-")
    for request in heard.requests():
        raise Failed(f"the server sent the request {request.get('method')}")


@check(
    "own-requests-have-good-ids",
    "base-66",
    "base-67",
    "base-61",
    meaning="Requests of the server have ids that are strings or integers, and no two the same.",
    revisions=LEGACY,
)
async def own_requests_have_good_ids(probe: ServerProbe) -> None:
    async with probe.open_session() as session:
        await exercise(probe, session)
        await exercise(probe, session)
        asked = Heard(tuple(session.received), {}, frozenset()).requests()
    require(asked, "the server asked nothing of the client")
    seen: set[tuple[type, Any]] = set()
    for request in asked:
        id, method = request["id"], request.get("method")
        expect(id is not None, f"{method} came with id null", "base-67")
        good = type(id) in (str, int) or (type(id) is float and id.is_integer())
        expect(good, f"{method} came with id {id!r}", "base-66")
        expect((type(id), id) not in seen, f"{method} came with id {id!r} again", "base-61")
        seen.add((type(id), id))


# Messages that are none


UNREADABLE: Final = (
    b'{"jsonrpc": "2.0", "id": 1, "method": "ping"',
    b"{'jsonrpc': '2.0', 'id': 1, 'method': 'ping'}",
    b"hello",
    b"Content-Length: 55",
    b'{"jsonrpc": "2.0", "id": 1, "method": "ping"}}',
    b'{"jsonrpc": "2.0", "id": 1, "method": "ping", "params": {"x": NaN}, }',
)


@check(
    "text-that-is-no-json-is-survived",
    meaning="After text that is no JSON, the server goes on; if it answers that, then by an error.",
    transports=FRAMED,
)
async def text_that_is_no_json_is_survived(probe: ServerProbe) -> None:
    async with probe.open_session() as session:
        for frame in UNREADABLE:
            since = len(session.received)
            await session.send(frame)
            await survives(session, frame.decode())
            for answer in strays(session, since):
                expect("result" not in answer.object, f"{frame.decode()} got a result")


def _malformed() -> Iterator[tuple[str, JSON]]:
    """JSON that is no message, with what is wrong."""
    yield "an empty object", {}
    yield "a message without a method", {"jsonrpc": "2.0", "id": "harness-1"}
    yield "a method that is a number", {"jsonrpc": "2.0", "id": "harness-2", "method": 1}
    yield "a method that is null", {"jsonrpc": "2.0", "id": "harness-3", "method": None}
    yield "params that are text", {**_request("harness-4"), "params": "text"}
    yield "params that are a number", {**_request("harness-5"), "params": 5}
    yield "the version 1.0 of JSON-RPC", {**_request("harness-6"), "jsonrpc": "1.0", "method": 5}
    yield "a string", "ping"
    yield "a number", 1
    yield "null", None
    yield "true", True
    yield (
        "a result and an error in one",
        {
            "jsonrpc": "2.0",
            "id": "harness-7",
            "result": {},
            "error": {"code": 1, "message": ""},
        },
    )
    yield "an error that is text", {"jsonrpc": "2.0", "id": "harness-8", "error": "text"}


def _request(id: str) -> JSONObject:
    return {"jsonrpc": "2.0", "id": id, "method": "tools/list"}


@check(
    "json-that-is-no-message-is-survived",
    meaning="After JSON that is no message, the server goes on; none of it gets a result.",
    transports=FRAMED,
)
async def json_that_is_no_message_is_survived(probe: ServerProbe) -> None:
    async with probe.open_session() as session:
        for what, value in _malformed():
            since = len(session.received)
            await session.send(json.dumps(value).encode())
            await survives(session, what)
            for answer in strays(session, since):
                expect("result" not in answer.object, f"{what} got a result")


STRAY_RESPONSES: Final[tuple[JSONObject, ...]] = (
    {"result": {}},
    {"error": {"code": -32603, "message": "no"}},
)


@check(
    "responses-to-nothing-are-ignored",
    meaning="A response that belongs to no request is ignored.",
    transports=FRAMED,
)
async def responses_to_nothing_are_ignored(probe: ServerProbe) -> None:
    async with probe.open_session() as session:
        for id in ("harness-never-asked", 4_000_000_000):
            for body in STRAY_RESPONSES:
                since = len(session.received)
                await session.send({"jsonrpc": "2.0", "id": id, **body})
                await survives(session, f"a response with id {json.dumps(id)}")
                got = strays(session, since)
                expect(not got, "a response was answered")


@check(
    "deep-nesting-is-survived",
    meaning="After a message that is nested a hundred thousand deep, the server goes on.",
    transports=FRAMED,
)
async def deep_nesting_is_survived(probe: ServerProbe) -> None:
    async with probe.open_session() as session:
        for depth in (500, 100_000):
            for opening, closing in ((b"[", b"]"), (b'{"a":', b"}")):
                inner = opening * depth + b"1" + closing * depth
                text = session.message("tools/list", {"x": "HERE"}, id=f"harness-{depth}")
                await session.send(json.dumps(text).encode().replace(b'"HERE"', inner))
                await survives(session, f"a message nested {depth} deep")


# Batches


@check(
    "batches-are-served",
    "base-65",
    meaning="The requests of a batch are all answered, and its notifications are not.",
    revisions=having("batches"),
    transports=FRAMED,
)
async def batches_are_served(probe: ServerProbe) -> None:
    async with probe.open_session() as session:
        since = len(session.received)
        batch: list[JSONObject] = [
            session.message("ping", id="harness-a"),
            session.message("notifications/harness/no_such"),
            session.message("ping", id="harness-b"),
            session.message("harness/no_such_method", id="harness-c"),
        ]
        await session.send(json.dumps(batch).encode())
        await survives(session, "a batch")
        await trio.sleep(0.1)
        answers = list(_answers_in(session.received[since:]))
        for id in ("harness-a", "harness-b", "harness-c"):
            count = sum(answer.get("id") == id for answer in answers)
            expect(count == 1, f"a request of a batch was answered {count} times: {id}")


@check(
    "batches-of-notifications-get-no-answer",
    "base-65",
    "base-21",
    meaning="A batch of notifications gets no answer, not even an empty one.",
    revisions=having("batches"),
    transports=FRAMED,
)
async def batches_of_notifications_get_no_answer(probe: ServerProbe) -> None:
    async with probe.open_session() as session:
        since = len(session.received)
        note = session.message("notifications/harness/no_such")
        await session.send(json.dumps([note, note]).encode())
        await survives(session, "a batch of notifications")
        for answer in strays(session, since):
            text = answer.raw[:80].decode(errors="replace")
            raise Failed(
                f"a batch of notifications was answered with {text}", requirement="base-21"
            )


def _answers_in(frames: Iterable[Received]) -> Iterator[JSONObject]:
    for frame in frames:
        members = frame.value if isinstance(frame.value, list) else [frame.value]
        yield from (as_object(member) for member in members)


@check(
    "arrays-are-survived",
    meaning="After an array, empty or of messages or of nonsense, the server goes on.",
    transports=FRAMED,
)
async def arrays_are_survived(probe: ServerProbe) -> None:
    async with probe.open_session() as session:
        good = session.message(harmless(session), id="harness-a")
        batches: list[JSON] = [[], [1, 2], [[]], [None], [good, {}], [good] * 3]
        for batch in batches:
            await session.send(json.dumps(batch).encode())
            await survives(session, f"the array {json.dumps(batch)[:60]}")


# _meta


@check(
    "meta-keys-are-legal",
    "base-40",
    "base-41",
    "base-43",
    meaning="The keys of the server's _meta have legal prefixes and names.",
    revisions=SINCE_2025_06,
)
async def meta_keys_are_legal(probe: ServerProbe) -> None:
    session = await probe.session()
    heard = await exercise(probe, session, tokens="harness-")
    for frame in heard.frames:
        for meta in _metas(frame.value):
            for key in meta:
                expect(is_valid_key(key), f"_meta has the key {key!r}", _broken_by(key))


def _metas(value: JSON) -> Iterator[JSONObject]:
    """Each `_meta` in a message, but not what a tool has put into structured content."""
    if isinstance(value, list):
        for member in value:
            yield from _metas(member)
    if isinstance(value, dict):
        if isinstance(value.get(META), dict):
            yield value[META]
        for name, member in value.items():
            if name not in (META, "structuredContent", "arguments", "data"):
                yield from _metas(member)


def _broken_by(key: str) -> str:
    """Which of the rules for keys one that is not legal breaks."""
    prefix, slash, name = key.partition("/")
    if not slash or is_valid_key(f"{prefix}/x"):
        return "base-43"
    labels = prefix.split(".")
    return "base-40" if "" in labels or "/" in name else "base-41"


TRACE: Final = {
    "traceparent": r"[0-9a-f]{2}-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}(-.*)?",
    "tracestate": r"\s*([a-z0-9][a-z0-9_\-*/@]{0,255}=[ -~]*(\s*,\s*|$))*",
    "baggage": r"\s*([!#$%&'*+.^_`|~0-9A-Za-z-]+\s*=[^,]*(,\s*|$))*",
}


@check(
    "trace-context-is-well-formed",
    "base-54",
    meaning="Trace context in the server's _meta, if there is any, is written as the W3C says.",
    revisions=MODERN,
)
async def trace_context_is_well_formed(probe: ServerProbe) -> None:
    session = await probe.session()
    heard = await exercise(probe, session, tokens="harness-")
    for frame in heard.frames:
        for meta in _metas(frame.value):
            for key in TRACE.keys() & meta.keys():
                value = meta[key]
                good = isinstance(value, str) and re.fullmatch(TRACE[key], value)
                expect(good, f"_meta has {key} {json.dumps(value)[:80]}")


ODD_VALUES: Final[tuple[JSON, ...]] = ("x", 7, [None], {"a": {"b": []}})


@check(
    "unknown-meta-is-ignored",
    "base-39",
    meaning="A request is served whatever its _meta holds beside what the server knows.",
    revisions=SINCE_2025_06,
)
async def unknown_meta_is_ignored(probe: ServerProbe) -> None:
    session = await probe.session()
    for key in ("com.example/harness", "io.modelcontextprotocol/harness", "harness"):
        for value in ODD_VALUES:
            reply = await session.request("tools/list", meta={key: value})
            told = "error" in reply.raw and reply.code != METHOD_NOT_FOUND
            expect(not told, f"with {key} = {json.dumps(value)} in _meta: {reply.brief()}")
