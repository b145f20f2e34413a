"""Messages of clients: checks of JSON-RPC, ids, `_meta`, cancellation, progress and pings."""

import itertools
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from typing import Final

import trio

from mcp_trio.harness.checks import LEGACY, MODERN, REVISIONS, check, having
from mcp_trio.harness.client_probe import OPENING, ClientProbe, goes_on, speaks
from mcp_trio.harness.http_scripted import HTTPRequest, open_http
from mcp_trio.harness.model import Failed
from mcp_trio.harness.probe import expect, require
from mcp_trio.harness.scripted import HOLD, Answer, Call, Refusal, Said, Scene, usual
from mcp_trio.protocol import meta as keys
from mcp_trio.protocol.revisions import LATEST_LEGACY
from mcp_trio.wire.jsonrpc import JSON, JSONObject, Malformed, Noise

client_check = partial(check, role="client")

MOMENT: Final = 0.2
"""Seconds for what must not come, beside the answer to a later question."""
FROM_2025_06: Final = tuple(revision for revision in REVISIONS if revision >= "2025-06-18")


def brief(said: Said) -> str:
    """A message in a few words."""
    text = said.raw.decode(errors="replace")
    return text if len(text) <= 120 else f"{text[:117]}..."


# JSON-RPC


@client_check(
    "client-sends-valid-messages",
    "base-2",
    "transports-1",
    "stdio-4",
    meaning="Everything that the client sends is a JSON-RPC 2.0 message in UTF-8.",
)
async def client_sends_valid_messages(probe: ClientProbe) -> None:
    scene = await probe.recording()
    require(scene.said, "the client says nothing")
    for said in scene.said:
        if isinstance(said.message, Malformed):
            raise Failed(f"no JSON-RPC message ({said.message.reason}): {brief(said)}")
        if isinstance(said.message, Noise):
            raise Failed(f"no JSON: {brief(said)}")


@client_check(
    "client-request-ids-are-strings-or-integers",
    "base-3",
    "base-4",
    meaning="Each request has an id that is a string or an integer, and not null.",
)
async def client_request_ids_are_strings_or_integers(probe: ClientProbe) -> None:
    scene = await probe.recording()
    require(scene.messages(), "the client says nothing")
    for said in scene.messages():
        if str(said.method).startswith("notifications/"):
            continue
        expect("id" in said.object, f"a request without an id: {brief(said)}")
        id = said.object["id"]
        expect(id is not None, f"a request whose id is null: {brief(said)}", "base-4")
        whole = isinstance(id, int) and not isinstance(id, bool)
        expect(whole or isinstance(id, str), f"a request with the id {id!r}")


@client_check(
    "client-request-ids-are-unique",
    "base-61",
    meaning="No request of a session has an id that another one had.",
    revisions=LEGACY,
)
async def client_request_ids_are_unique(probe: ClientProbe) -> None:
    scene = await probe.recording()
    require(scene.calls, "the client makes no requests")
    for calls in _by_session(scene):
        seen: dict[tuple[type, JSON], str] = {}
        for call in calls:
            key = (type(call.id), call.id)
            expect(key not in seen, f"{call.method} has the id of {seen.get(key)}: {call.id!r}")
            seen[key] = call.method


def _by_session(scene: Scene) -> list[list[Call]]:
    """The calls of each connection, or of each session on HTTP."""
    found: list[list[Call]] = []
    for call in scene.calls:
        starts = call.method == "initialize" or not found
        other = found and found[-1][-1].said.link is not call.said.link
        if starts or other:
            found.append([])
        found[-1].append(call)
    return found


@client_check(
    "client-request-ids-in-flight-differ",
    "base-5",
    meaning="No request has the id of another one that still waits for its answer.",
    revisions=MODERN,
)
async def client_request_ids_in_flight_differ(probe: ClientProbe) -> None:
    scene = await probe.recording()
    require(scene.calls, "the client makes no requests")
    expect(not scene.reused, f"the id {scene.reused[:1]} was used while its request still waited")


@client_check(
    "client-notifications-have-no-id",
    "base-22",
    meaning="Notifications are sent without an id.",
)
async def client_notifications_have_no_id(probe: ClientProbe) -> None:
    scene = await probe.recording()
    require(scene.messages(), "the client says nothing")
    for said in scene.messages():
        if str(said.method).startswith("notifications/"):
            expect("id" not in said.object, f"a notification with an id: {brief(said)}")


@client_check(
    "client-ignores-unknown-notifications",
    "base-21",
    meaning="Notifications that the client does not know get no answer and do no harm.",
    revisions=REVISIONS[1:],
)
async def client_ignores_unknown_notifications(probe: ClientProbe) -> None:
    async with probe.play_held() as (scene, call):
        known = len(scene.responses())
        for method in ("notifications/harness", "harness/said", "notifications/message"):
            await call.notify(method, {"level": "info", "data": "x", "logger": "y"})
        await call.answer()
        await goes_on(scene, "after a notification that it does not know")
        await scene.pause(MOMENT)
        answers = [said for said in scene.responses()[known:] if not scene.asked(said)]
        expect(not answers, f"a notification was answered: {brief(answers[0]) if answers else ''}")


@client_check(
    "client-answers-are-well-formed",
    "base-68",
    "base-62",
    "base-63",
    "base-69",
    "base-70",
    "base-71",
    "base-72",
    meaning="Answers have the id of their request, and either a result or an error with a code.",
    revisions=LEGACY,
)
async def client_answers_are_well_formed(probe: ClientProbe) -> None:
    async with probe.play_held() as (_, call):
        for id, method in (("a", "ping"), (7, "ping"), ("b", "harness/unknown"), (0, "roots/list")):
            answer = (await call.ask(method, {}, id=id)).raw
            both = "result" in answer and "error" in answer
            expect(not both, f"the answer to {method} has a result and an error", "base-63")
            if "error" in answer:
                _judge_error(method, answer["error"])
        await call.answer()


def _judge_error(method: str, error: JSON) -> None:
    expect(isinstance(error, dict), f"the error of {method} is {error!r}")
    assert isinstance(error, dict)
    code, message = error.get("code"), error.get("message")
    if "code" not in error or not isinstance(message, str):
        raise Failed(f"the error of {method} lacks code or message: {error}", requirement="base-71")
    whole = isinstance(code, int) and not isinstance(code, bool)
    expect(whole, f"the error of {method} has the code {code!r}", "base-72")


@client_check(
    "client-refuses-unknown-requests",
    meaning="A request for a method that does not exist gets -32601.",
    revisions=LEGACY,
)
async def client_refuses_unknown_requests(probe: ClientProbe) -> None:
    async with probe.play_held() as (_, call):
        (await call.ask("harness/no_such_method", {})).expect_error(-32601)
        await call.answer()


@client_check(
    "client-accepts-batches",
    "base-65",
    meaning="The messages of a batch are dealt with.",
    revisions=having("batches"),
)
async def client_accepts_batches(probe: ClientProbe) -> None:
    async with probe.play_held() as (scene, call):
        ids = ("batch-1", "batch-2")
        pings: list[JSONObject] = [{"jsonrpc": "2.0", "id": id, "method": "ping"} for id in ids]
        note = {"jsonrpc": "2.0", "method": "notifications/harness"}
        frame = b"[" + b",".join(_dump(one) for one in (pings[0], note, pings[1])) + b"]"
        await call.send(frame)
        with trio.move_on_after(probe.options.deadline):
            while not all(scene.answers_to(id) for id in ids) and not scene.has_ended():
                await scene.happens()
        for id in ids:
            expect(scene.answers_to(id), "a ping in a batch got no answer")
        await call.answer()


def _dump(message: JSONObject) -> bytes:
    from mcp_trio.harness.session import dump

    return dump(message)


@client_check(
    "client-survives-noise",
    meaning="What is no message is skipped, and the client goes on.",
)
async def client_survives_noise(probe: ClientProbe) -> None:
    async with probe.play_held() as (scene, call):
        for noise in (b"this is no JSON", b'{"jsonrpc": "2.0"}', b"[]", b"17", b'{"id": 999999}'):
            await call.send(noise)
        await call.answer()
        await goes_on(scene, "after messages that are none")


@client_check(
    "client-survives-answers-to-nothing",
    meaning="An answer to a request that was never made is ignored.",
    transports=("stdio", "sse", "memory"),
)
async def client_survives_answers_to_nothing(probe: ClientProbe) -> None:
    async with probe.play_held() as (scene, call):
        for id in (987654321, "nobody asked"):
            await call.send({"jsonrpc": "2.0", "id": id, "result": {"resultType": "complete"}})
        await call.answer()
        await goes_on(scene, "after an answer to a request that it never made")


# Results and errors


@client_check(
    "client-drops-unknown-result-types",
    "base-10",
    meaning="A result whose type is unknown counts as invalid: nothing in it is used.",
    revisions=MODERN,
)
async def client_drops_unknown_result_types(probe: ClientProbe) -> None:
    await probe.asks_for("tools/list", "tools/call")
    phantom = _tools("phantom", resultType="harness/unknown")
    async with probe.play({"tools/list": phantom}) as scene:
        await scene.over()
        calls = [call for call in scene.requests_of("tools/call") if call.name == "phantom"]
        expect(not calls, "a tool was called that stood in a result of an unknown type")


@client_check(
    "client-takes-results-without-a-type",
    "base-11",
    meaning="A result of an earlier server, which does not say its type, counts as a complete one.",
    revisions=MODERN,
)
async def client_takes_results_without_a_type(probe: ClientProbe) -> None:
    await probe.asks_for("tools/list", "tools/call")
    async with probe.play({"tools/list": _tools("typeless")}, revision=LATEST_LEGACY) as scene:
        await scene.over()
        require(speaks(scene), "the client speaks no revision before 2026-07-28")
        called = [call.name for call in scene.requests_of("tools/call")]
        expect("typeless" in called, "the tools of a result without resultType were not used")


def _tools(name: str, **fields: object) -> JSONObject:
    from mcp_trio.harness.healthy import tool

    return {"tools": [tool(name)], "ttlMs": 0, "cacheScope": "private", **fields}


@client_check(
    "client-survives-errors-of-any-code",
    "base-16",
    meaning="Errors with codes that mean nothing to the protocol are errors like any other.",
    revisions=MODERN,
)
async def client_survives_errors_of_any_code(probe: ClientProbe) -> None:
    held = await probe.first_request()
    usual_calls = [call.method for call in (await probe.recording()).requests_of(held)]
    require(usual_calls, "the client asks for nothing")
    for code in (-32000, -32004, -32011, -32019):
        async with probe.play(
            {held: [Refusal(code, "A code of the server's own"), usual]}
        ) as scene:
            call = await scene.call(held)
            await goes_on_or_leaves(scene, call, f"after error {code}")


async def goes_on_or_leaves(scene: Scene, call: Call, why: str) -> None:
    """Fail if the client repeats the same request: it took the error for something special."""
    await scene.pause(MOMENT)
    again = [other for other in scene.requests_of(call.method) if other is not call]
    same = [other for other in again if _plain(other.params) == _plain(call.params)]
    expect(not same, f"the client repeats {call.method} {why}")


def _plain(params: JSONObject) -> JSONObject:
    return {key: value for key, value in params.items() if key != keys.META}


# _meta


@client_check(
    "client-meta-keys-are-legal",
    "base-40",
    "base-41",
    "base-43",
    meaning="Each key of `_meta` is a legal name with or without a prefix.",
    revisions=FROM_2025_06,
)
async def client_meta_keys_are_legal(probe: ClientProbe) -> None:
    scene = await probe.recording()
    require(scene.messages(), "the client says nothing")
    for said in scene.messages():
        for key in said.meta:
            expect(keys.is_valid_key(key), f"{said.method} has the key {key!r} in _meta")


@client_check(
    "client-requests-carry-their-meta",
    "base-44",
    "mrtr-2",
    meaning="Each request names its revision and the client's capabilities in `_meta`.",
    revisions=MODERN,
)
async def client_requests_carry_their_meta(probe: ClientProbe) -> None:
    scene = await probe.recording()
    calls = [call for call in scene.calls if call.method != "initialize"]
    require(calls, "the client makes no requests")
    for call in calls:
        revision = call.meta.get(keys.PROTOCOL_VERSION)
        expect(isinstance(revision, str), f"{call.method} has no protocolVersion in _meta")
        offered = call.meta.get(keys.CLIENT_CAPABILITIES)
        expect(isinstance(offered, dict), f"{call.method} has no clientCapabilities in _meta")


@client_check(
    "client-introduces-itself",
    "base-47",
    meaning="Each request says in `_meta` who the client is.",
    revisions=MODERN,
)
async def client_introduces_itself(probe: ClientProbe) -> None:
    scene = await probe.recording()
    calls = [call for call in scene.calls if call.method != "initialize"]
    require(calls, "the client makes no requests")
    for call in calls:
        info = call.meta.get(keys.CLIENT_INFO)
        known = isinstance(info, dict) and "name" in info and "version" in info
        expect(known, f"{call.method} has no clientInfo with name and version in _meta")


@client_check(
    "client-assumes-nothing-about-reserved-meta",
    "base-39",
    meaning="Results with strange values under reserved `_meta` keys are results all the same.",
    revisions=FROM_2025_06,
)
async def client_assumes_nothing_about_reserved_meta(probe: ClientProbe) -> None:
    strange: JSONObject = {
        "io.modelcontextprotocol/harness": [1, {"a": None}],
        "tools.mcp.com/x": "y",
        "example.org/z": 3,
        "traceparent": "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
    }
    async with probe.play_held() as (scene, call):
        answer = await scene.healthy_answer(call)
        assert isinstance(answer, dict)
        await call.answer({**answer, keys.META: strange})
        await goes_on(scene, "after a result with strange keys in _meta")


TRACES: Final = {
    "traceparent": re.compile(r"[0-9a-f]{2}-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}(-.*)?"),
    "tracestate": re.compile(r"[^=,]+=[^=,]*(\s*,\s*[^=,]+=[^=,]*)*\s*"),
    "baggage": re.compile(r"[^=,;]+=[^,]*(\s*,\s*[^=,;]+=[^,]*)*\s*"),
}


@client_check(
    "client-trace-context-is-well-formed",
    "base-54",
    meaning="Trace context in `_meta` has the formats of the W3C.",
    revisions=MODERN,
)
async def client_trace_context_is_well_formed(probe: ClientProbe) -> None:
    scene = await probe.recording()
    require(scene.messages(), "the client says nothing")
    for said in scene.messages():
        for key, form in TRACES.items():
            value = said.meta.get(key)
            if value is not None:
                good = isinstance(value, str) and form.fullmatch(value)
                expect(good, f"{said.method} has the {key} {value!r}")


@client_check(
    "client-does-not-depend-on-server-info",
    "base-52",
    "discover-4",
    meaning="The client does the same whatever name the server gives itself.",
    revisions=MODERN,
)
async def client_does_not_depend_on_server_info(probe: ClientProbe) -> None:
    wanted = {call.method for call in (await probe.recording()).calls}

    async def anonymous(call: Call) -> Answer:
        answer = await call.scene.healthy_answer(call)
        if isinstance(answer, dict):
            answer = {**answer, keys.META: {keys.SERVER_INFO: {"name": "other", "version": "0"}}}
        return answer

    async with probe.play({"server/discover": anonymous}) as scene:
        await scene.over()
        missing = wanted - {call.method for call in scene.calls}
        expect(
            not missing, f"with another serverInfo it does not send {', '.join(sorted(missing))}"
        )


# What is fetched


@asynccontextmanager
async def _trap() -> AsyncIterator[tuple[str, list[HTTPRequest]]]:
    """A web server that nobody has a reason to visit, and those who do."""
    visits: list[HTTPRequest] = []

    async def handle(request: HTTPRequest) -> None:
        visits.append(request)
        await request.reply.whole(200, b"{}", "application/json")

    async with open_http(handle, lambda: 0) as origin:
        yield origin, visits


@client_check(
    "client-fetches-no-schema",
    "base-35",
    "base-36",
    meaning="A `$ref` of a schema that leads to the network is not followed.",
    revisions=MODERN,
    transports=("stdio", "http"),
)
async def client_fetches_no_schema(probe: ClientProbe) -> None:
    from mcp_trio.harness.healthy import text, tool

    await probe.asks_for("tools/list")
    async with _trap() as (origin, visits):
        schema: JSONObject = {"type": "object", "properties": {"a": {"$ref": f"{origin}/a.json"}}}
        remote = tool("remote", outputSchema=schema) | {"inputSchema": schema}
        tools: JSONObject = {"tools": [remote], "ttlMs": 0, "cacheScope": "private"}
        answers = {"tools/list": tools, "tools/call": text("{}", structuredContent={"a": 1})}
        async with probe.play(answers) as scene:
            await scene.over()
        expect(not visits, "the client fetched a schema from the network")


@client_check(
    "client-fetches-no-unsafe-icons",
    "base-57",
    "base-58",
    meaning="Icons at addresses that are not HTTPS, or of unsafe schemes, are not fetched.",
    revisions=having("icons"),
    transports=("stdio", "http"),
)
async def client_fetches_no_unsafe_icons(probe: ClientProbe) -> None:
    from mcp_trio.harness.healthy import tool

    await probe.asks_for("tools/list")
    async with _trap() as (origin, visits):
        sources = (f"{origin}/icon.png", f"{origin.replace('http', 'ws', 1)}/icon", "file:///icon")
        icons = [{"src": source, "mimeType": "image/png"} for source in sources]
        tools: JSONObject = {"tools": [tool("pretty", icons=icons)]}
        if scene_is_modern(probe):
            tools |= {"ttlMs": 0, "cacheScope": "private"}
        async with probe.play({"tools/list": tools}) as scene:
            await scene.over()
        if visits:
            requirement = "base-58" if visits[0].path == "/icon" else "base-57"
            raise Failed(f"the client fetched {visits[0].path}", requirement=requirement)


def scene_is_modern(probe: ClientProbe) -> bool:
    return probe.revision in MODERN


# Pings


@client_check(
    "client-answers-pings",
    "ping-1",
    meaning="A ping gets an empty result.",
    revisions=LEGACY,
)
async def client_answers_pings(probe: ClientProbe) -> None:
    async with probe.play_held() as (_, call):
        result = (await call.ask("ping")).expect_result()
        expect(not set(result) - {keys.META}, f"expected an empty result, got {result}")
        await call.answer()


@client_check(
    "client-pings-sparingly",
    "ping-5",
    meaning="The client does not ping again and again.",
    revisions=LEGACY,
)
async def client_pings_sparingly(probe: ClientProbe) -> None:
    scene = await probe.recording()
    require(scene.said, "the client says nothing")
    pings = scene.messages("ping")
    lasted = scene.said[-1].at - scene.said[0].at
    expect(len(pings) <= 5 + lasted, f"{len(pings)} pings within {lasted:.1f} s")


# Cancellation


@client_check(
    "client-ignores-strange-cancellations",
    "cancellation-17",
    meaning="Cancellations of unknown or finished requests, and malformed ones, are ignored.",
    revisions=LEGACY,
)
async def client_ignores_strange_cancellations(probe: ClientProbe) -> None:
    async with probe.play_held() as (scene, call):
        await call.ask("ping", id="finished")
        ids: tuple[JSON, ...] = ("unknown", "finished", [])
        for params in (*({"requestId": id} for id in ids), {}):
            await call.notify("notifications/cancelled", params)
        (await call.ask("ping")).expect_result()
        await call.answer()
        await goes_on(scene, "after cancellations that mean nothing")


@client_check(
    "client-does-not-cancel-initialize",
    "cancellation-18",
    meaning="`initialize` is never cancelled.",
    revisions=LEGACY,
)
async def client_does_not_cancel_initialize(probe: ClientProbe) -> None:
    async with probe.play({"initialize": HOLD}) as scene:
        call = await scene.call("initialize")
        await scene.pause(probe.options.deadline)
        expect(not _cancelled(scene, call), "the client cancelled initialize")


def _cancelled(scene: Scene, call: Call) -> bool:
    return any(
        said.params.get("requestId") == call.id
        for said in scene.messages("notifications/cancelled")
    )


@client_check(
    "client-cancels-only-what-it-waits-for",
    "cancellation-10",
    meaning="Cancellations name own requests that have had no answer yet.",
)
async def client_cancels_only_what_it_waits_for(probe: ClientProbe) -> None:
    scene = await probe.recording()
    require(scene.messages(), "the client says nothing")
    for said in scene.messages("notifications/cancelled"):
        named = said.params.get("requestId")
        calls = [call for call in scene.calls if call.id == named and call.said.at <= said.at]
        expect(calls, f"a cancellation of {named!r}, which no request has as its id")
        # One that crosses with the answer is allowed, so only old answers count.
        late = all(
            call.answered_at is not None and said.at - call.answered_at > 1 for call in calls
        )
        expect(not late, f"a cancellation of {named!r}, which was answered long before")


@client_check(
    "client-cancels-what-takes-too-long",
    "cancellation-7",
    "cancellation-1",
    "cancellation-5",
    "stdio-9",
    "transports-19",
    meaning="A client that stops waiting for an answer cancels its request.",
    revisions=REVISIONS[1:],
)
async def client_cancels_what_takes_too_long(probe: ClientProbe) -> None:
    async with _given_up(probe) as (scene, call):
        by_message = _cancelled(scene, call)
        if scene.is_modern and probe.transport == "http":
            expect(call.abandoned.is_set(), "it goes on without closing the stream of the answer")
        else:
            expect(by_message, f"it goes on without cancelling {call.method}")


@client_check(
    "client-ignores-late-answers",
    "cancellation-13",
    "cancellation-14",
    meaning="An answer that comes after its request was cancelled does no harm.",
    transports=("stdio", "sse", "memory"),
)
async def client_ignores_late_answers(probe: ClientProbe) -> None:
    async with _given_up(probe) as (scene, call):
        require(_cancelled(scene, call), "the client does not cancel")
        follower = next(c for c in reversed(scene.calls) if c is not call)
        await call.answer()
        if not follower.answered:
            await follower.answer()
        await goes_on(scene, "after an answer that came too late")


@asynccontextmanager
async def _given_up(probe: ClientProbe) -> AsyncIterator[tuple[Scene, Call]]:
    """Do not answer a request until the client has given it up and goes on."""
    held = await probe.first_request()
    made = {call.method for call in (await probe.recording()).calls} - set(OPENING)
    async with probe.play({method: [HOLD, usual] for method in made}) as scene:
        call = await scene.call(held)
        place = scene.calls.index(call)
        patience = max(6.0, probe.options.deadline)
        with trio.move_on_after(patience):
            while len(scene.calls) == place + 1 and not scene.has_ended():
                await scene.happens()
        require(scene.calls[place + 1 :], f"the client does not give up within {patience:g} s")
        await scene.pause(MOMENT)
        yield scene, call


# Progress


@client_check(
    "client-progress-tokens-are-unique",
    "progress-2",
    "progress-1",
    meaning="Progress tokens are strings or integers, and no two open requests share one.",
)
async def client_progress_tokens_are_unique(probe: ClientProbe) -> None:
    scene = await probe.recording()
    tokens = [call for call in scene.calls if keys.PROGRESS_TOKEN in call.meta]
    require(tokens, "the client does not ask for progress")
    for call in tokens:
        token = call.meta[keys.PROGRESS_TOKEN]
        whole = isinstance(token, int) and not isinstance(token, bool)
        good = whole or isinstance(token, str)
        expect(good, f"{call.method} has the progress token {token!r}", "progress-1")
        others = [
            other
            for other in tokens
            if other is not call
            and other.meta[keys.PROGRESS_TOKEN] == token
            and other.said.at <= call.said.at
            and (other.answered_at is None or other.answered_at > call.said.at)
            and not other.abandoned.is_set()
        ]
        expect(not others, f"{call.method} has the progress token of an open request: {token!r}")


@client_check(
    "client-survives-strange-progress",
    meaning="Progress of unknown or finished requests, and malformed one, is ignored.",
)
async def client_survives_strange_progress(probe: ClientProbe) -> None:
    async with probe.play_held() as (scene, call):
        for params in ({"progressToken": "unknown", "progress": 1}, {"progress": "x"}, {}):
            await call.notify("notifications/progress", dict(params))
        await call.answer()
        await goes_on(scene, "after progress that means nothing")


@client_check(
    "client-reports-progress-in-order",
    "progress-15",
    "progress-14",
    "progress-16",
    "progress-17",
    meaning="Progress is reported under a token that was given, grows, and ends with the request.",
    revisions=LEGACY,
)
async def client_reports_progress_in_order(probe: ClientProbe) -> None:
    async with probe.play_held() as (scene, call):
        for token, method in (("token-1", "ping"), (2, "roots/list")):
            answer = await call.ask(method, {keys.META: {keys.PROGRESS_TOKEN: token}})
            await scene.pause(MOMENT)
            _judge_progress(scene, token, answer.received.at)
        await call.answer()
        await scene.over()
        for said in scene.messages("notifications/progress"):
            own = said.params.get("progressToken")
            expect(own in ("token-1", 2), f"progress under the token {own!r} of no request")


def _judge_progress(scene: Scene, token: JSON, answered: float) -> None:
    notes = scene.messages("notifications/progress")
    mine = [said for said in notes if said.params.get("progressToken") == token]
    values = [said.params.get("progress") for said in mine]
    numbers = [value for value in values if isinstance(value, int | float)]
    grows = all(one < two for one, two in itertools.pairwise(numbers))
    expect(grows, f"progress does not grow: {values}", "progress-14")
    expect(len(mine) < 100, f"{len(mine)} notifications of progress", "progress-16")
    late = [said for said in mine if said.at > answered]
    expect(not late, "progress of a request that was answered", "progress-17")
