"""Clients over HTTP: checks of requests, headers, sessions, streams, and of mirrored arguments."""

from collections.abc import Awaitable, Callable, Iterator
from functools import partial
from typing import Any, Final

import trio

from mcp_trio.harness.checks import LEGACY, MODERN, REVISIONS, check, having
from mcp_trio.harness.client_probe import ClientProbe, goes_on, speaks
from mcp_trio.harness.healthy import TOOLS, tool
from mcp_trio.harness.http_scripted import HTTPRequest
from mcp_trio.harness.model import Failed, NotApplicable
from mcp_trio.harness.probe import expect, require
from mcp_trio.harness.scripted import HOLD, Answers, Call, HTTPChannel, Refusal, Scene, usual
from mcp_trio.harness.session import dump
from mcp_trio.protocol import meta as keys
from mcp_trio.protocol.errors import HEADER_MISMATCH, UNSUPPORTED_VERSION
from mcp_trio.protocol.revisions import LATEST_LEGACY
from mcp_trio.wire.header_params import ANNOTATION, LARGEST_INTEGER
from mcp_trio.wire.http_headers import HeaderError, decode_value
from mcp_trio.wire.jsonrpc import JSON, JSONObject

ENDPOINT: Final = "/mcp"
MOMENT: Final = 0.2
HTTP: Final = having("streamable_http")
LEGACY_HTTP: Final = tuple(revision for revision in LEGACY if revision in HTTP)
FROM_2025_06: Final = tuple(revision for revision in LEGACY if revision >= "2025-06-18")

http_check = partial(check, role="client", transports=("http",))


def posts(scene: Scene) -> list[HTTPRequest]:
    """The client's POSTs.

    Raises:
        NotApplicable: There are none.
    """
    found = [request for request in scene.requests if request.method == "POST"]
    require(found, "the client POSTs nothing")
    return found


def methods_of(scene: Scene, request: HTTPRequest) -> str:
    """What a POST is about, for messages."""
    methods = [str(said.method or "an answer") for said in scene.said if said.http is request]
    return ", ".join(methods) or "a POST"


# Requests


@http_check(
    "client-posts-its-messages",
    "http-6",
    "http-7",
    meaning="Messages go to the endpoint by POST, and nothing else is sent there.",
    revisions=HTTP,
)
async def client_posts_its_messages(probe: ClientProbe) -> None:
    scene = await probe.recording()
    for request in scene.requests:
        if request.path != ENDPOINT:
            continue
        usual_methods = ("POST", "GET", "DELETE")
        expect(request.method in usual_methods, f"the client sends {request.method} requests")
        empty = request.method == "POST" or not request.body
        expect(empty, f"a {request.method} has a body: {request.body[:60]!r}")
    strange = [request for request in posts(scene) if request.path != ENDPOINT]
    expect(not strange, f"a message went to {strange[0].target if strange else ''}", "http-6")


@http_check(
    "client-accepts-both-kinds-of-answers",
    "http-8",
    meaning="Each POST lists application/json and text/event-stream in Accept.",
    revisions=HTTP,
)
async def client_accepts_both_kinds_of_answers(probe: ClientProbe) -> None:
    scene = await probe.recording()
    for request in posts(scene):
        accept = (request.header("accept") or "").lower()
        for kind in ("application/json", "text/event-stream"):
            expect(
                kind in accept,
                f"the POST of {methods_of(scene, request)} has Accept: {accept or 'nothing'}",
            )


@http_check(
    "client-posts-one-message",
    "http-10",
    "transports-8",
    meaning="The body of a POST is one message.",
    revisions=[revision for revision in REVISIONS if revision >= "2025-06-18"],
)
async def client_posts_one_message(probe: ClientProbe) -> None:
    scene = await probe.recording()
    posts(scene)
    batches = [said for said in scene.said if said.batched]
    expect(not batches, "a POST has several messages, or an array of one")


@http_check(
    "client-posts-messages-or-batches",
    "transports-44",
    meaning="The body of a POST is a message, or an array of answers, or one without answers.",
    revisions=("2025-03-26",),
)
async def client_posts_messages_or_batches(probe: ClientProbe) -> None:
    scene = await probe.recording()
    for request in posts(scene):
        kinds = {bool(said.method) for said in scene.said if said.http is request}
        expect(len(kinds) == 1, f"a POST mixes answers with others: {request.body[:80]!r}")
        expect(request.body[:1] in b"[{", f"the body of a POST is {request.body[:80]!r}")


@http_check(
    "client-posts-no-answers",
    "http-11",
    meaning="No answer is POSTed, not even to a server that asks.",
    revisions=MODERN,
)
async def client_posts_no_answers(probe: ClientProbe) -> None:
    await _silent_when_asked(probe)


async def _silent_when_asked(probe: ClientProbe) -> None:
    async with probe.play_held() as (scene, call):
        await call.send({"jsonrpc": "2.0", "id": "asked", "method": "ping"})
        await call.answer()
        await scene.pause(MOMENT)
        answers = scene.responses()
        text = answers[0].raw[:80] if answers else b""
        expect(
            not answers, f"the client answers a request, which modern servers do not make: {text!r}"
        )


@http_check(
    "client-reads-both-kinds-of-answers",
    "http-15",
    meaning="An answer may be a JSON object, or an event of a stream.",
    revisions=HTTP,
)
async def client_reads_both_kinds_of_answers(probe: ClientProbe) -> None:
    async with probe.play_held() as (scene, call):
        await _channel(call).begin()
        await call.answer()
        await goes_on(scene, "after an answer in a stream of events")
    async with probe.play_held() as (scene, call):
        await call.answer()
        await goes_on(scene, "after an answer that is a JSON object")


def _channel(call: Call) -> HTTPChannel:
    assert isinstance(call.channel, HTTPChannel)
    return call.channel


@http_check(
    "client-ignores-the-case-of-headers",
    "http-59",
    meaning="Headers of the server count in upper case, too.",
    revisions=MODERN,
)
async def client_ignores_the_case_of_headers(probe: ClientProbe) -> None:
    async with probe.play_held() as (scene, call):
        assert call.http is not None
        call.http.reply.shouts = True
        await _channel(call).begin()
        await call.answer()
        await goes_on(scene, "after an answer whose headers are in upper case")


@http_check(
    "client-gets-along-without-a-listening-stream",
    meaning="That the server refuses GET with 405 does no harm.",
    revisions=LEGACY_HTTP,
)
async def client_gets_along_without_a_listening_stream(probe: ClientProbe) -> None:
    async def refuse(request: HTTPRequest) -> bool:
        if request.method == "GET":
            await request.reply.whole(405, headers=[("allow", "POST")])
        return request.method == "GET"

    method = await probe.first_request()
    async with probe.play(on_http=refuse) as scene:
        try:
            await scene.call(method)
        except NotApplicable as exc:
            refused = [request for request in scene.requests if request.method == "GET"]
            require(refused, "the client sends no GET")
            raise Failed("GET was refused with 405, and the client does nothing more") from exc


# Headers of sessions


def _after_initialize(scene: Scene) -> list[HTTPRequest]:
    """The requests after the one that initialized the session."""
    started = [call for call in scene.requests_of("initialize") if call.answered]
    require(started, "the client does not initialize")
    http = started[-1].http
    assert http is not None
    return scene.requests[scene.requests.index(http) + 1 :]


@http_check(
    "client-returns-the-session-id",
    "transports-33",
    meaning="Each request after initialization has the session id that the server gave.",
    revisions=LEGACY_HTTP,
)
async def client_returns_the_session_id(probe: ClientProbe) -> None:
    scene = await probe.recording()
    for request in _after_initialize(scene):
        came = request.header("mcp-session-id")
        expect(
            came == scene.session_id,
            f"a {request.method} ({methods_of(scene, request)}) has the session id {came!r}",
        )


@http_check(
    "client-sends-its-version",
    "transports-38",
    "lifecycle-13",
    "transports-39",
    meaning="Each request after initialization names the negotiated revision in a header.",
    revisions=FROM_2025_06,
)
async def client_sends_its_version(probe: ClientProbe) -> None:
    scene = await probe.recording()
    for request in _after_initialize(scene):
        came = request.header("mcp-protocol-version")
        what = f"a {request.method} ({methods_of(scene, request)})"
        expect(came is not None, f"{what} has no MCP-Protocol-Version")
        expect(came == probe.revision, f"{what} has MCP-Protocol-Version {came!r}", "transports-39")


@http_check(
    "client-listens-for-events",
    "transports-20",
    meaning="A GET lists text/event-stream in Accept.",
    revisions=LEGACY_HTTP,
)
async def client_listens_for_events(probe: ClientProbe) -> None:
    scene = await probe.recording()
    gets = [r for r in scene.requests if r.method == "GET" and r.path == ENDPOINT]
    require(gets, "the client sends no GET")
    for request in gets:
        accept = request.header("accept") or ""
        expect("text/event-stream" in accept.lower(), f"a GET has Accept: {accept or 'nothing'}")


@http_check(
    "client-begins-a-new-session",
    "transports-36",
    meaning="Once its session is gone (404), the client initializes another one.",
    revisions=LEGACY_HTTP,
)
async def client_begins_a_new_session(probe: ClientProbe) -> None:
    method = await probe.first_request()
    gone: list[HTTPRequest] = []

    async def forget(request: HTTPRequest) -> bool:
        about = f'"method":"{method}"'.encode() in request.body.replace(b'": "', b'":"')
        if not gone and request.method == "POST" and about:
            gone.append(request)
            await request.reply.whole(404)
            return True
        return False

    async with probe.play(on_http=forget) as scene:
        try:
            again = await scene.call("initialize", 2)
        except NotApplicable as exc:
            require(gone, f"the client does not send {method}")
            raise Failed("its session is gone, and the client does not initialize again") from exc
        assert again.http is not None
        came = again.http.header("mcp-session-id")
        expect(came is None, f"the new initialize has the old session id {came!r}")


@http_check(
    "client-ends-its-session",
    "transports-37",
    meaning="A client that leaves ends its session with a DELETE.",
    revisions=LEGACY_HTTP,
)
async def client_ends_its_session(probe: ClientProbe) -> None:
    scene = await probe.recording()
    require(speaks(scene), "the client does not speak this revision")
    require(scene.has_ended(), "the client does not leave")
    ended = [request for request in scene.requests if request.method == "DELETE"]
    expect(ended, "the client leaves without a DELETE")
    came = ended[-1].header("mcp-session-id")
    expect(came == scene.session_id, f"the DELETE has the session id {came!r}")


# Streams that break


async def _broken_off(
    probe: ClientProbe, retry: int | None
) -> tuple[HTTPRequest | None, float, bool]:
    """Break the stream of an answer off after an event with an id.

    Returns the GET that resumes it, if one came; when it was broken off; and whether the client
    went on once it had its answer.
    """
    method = await probe.first_request()
    resumed: list[HTTPRequest] = []
    held: list[Call] = []

    async def resume(request: HTTPRequest) -> bool:
        if request.method != "GET" or request.header("last-event-id") is None or not held:
            return False
        resumed.append(request)
        result = await held[0].scene.healthy_answer(held[0])
        answer: JSONObject = {"jsonrpc": "2.0", "id": held[0].id, "result": result}
        await request.reply.begin_events()
        await request.reply.event(dump(answer), id="harness-2")
        await request.reply.end()
        return True

    async with probe.play({method: [HOLD, usual]}, on_http=resume) as scene:
        call = await scene.call(method)
        assert call.http is not None
        held.append(call)
        reply = call.http.reply
        await reply.begin_events()
        await reply.event(b"", id="harness-1", retry=retry)
        await reply.end()
        broken = trio.current_time()
        seen = len(scene.said)
        with trio.move_on_after(max(6.0, scene.deadline)):
            while not resumed and not scene.has_ended():
                await scene.happens()
        with trio.move_on_after(scene.deadline):
            while len(scene.said) == seen and not scene.has_ended():
                await scene.happens()
        return (resumed[0] if resumed else None), broken, len(scene.said) > seen


@http_check(
    "client-resumes-broken-streams",
    "transports-28",
    "transports-12",
    meaning="A stream that ends before its answer is resumed after the last event that came.",
    revisions=("2025-11-25",),
)
async def client_resumes_broken_streams(probe: ClientProbe) -> None:
    request, _, went_on = await _broken_off(probe, 100)
    expect(request, "a stream ended after an event with an id, and was not resumed")
    assert request is not None
    came = request.header("last-event-id")
    expect(came == "harness-1", f"a stream is resumed after {came!r}", "transports-28")
    expect(went_on, "the answer came on the resumed stream, and the client does not go on")


@http_check(
    "client-waits-before-it-resumes",
    "transports-14",
    meaning="The wait that the server asked for is kept before a stream is resumed.",
    revisions=("2025-11-25",),
)
async def client_waits_before_it_resumes(probe: ClientProbe) -> None:
    request, broken, _ = await _broken_off(probe, 1500)
    require(request, "the client does not resume streams")
    assert request is not None
    waited = request.at - broken
    expect(waited > 1.4, f"1.5 s were asked for, and the client waited {waited:.2f} s")


# Headers of modern requests


@http_check(
    "client-sends-request-headers",
    "http-9",
    "http-22",
    "http-23",
    meaning="Each POST has the revision, the method and the name of its request in headers.",
    revisions=MODERN,
)
async def client_sends_request_headers(probe: ClientProbe) -> None:
    scene = await probe.recording()
    calls = [call for call in scene.calls if call.method != "initialize"]
    require(calls, "the client makes no requests")
    for call in calls:
        http = _http(call)
        version, body = http.header("mcp-protocol-version"), call.meta.get(keys.PROTOCOL_VERSION)
        expect(version is not None, f"{call.method} has no MCP-Protocol-Version", "http-22")
        same = version == body
        expect(same, f"{call.method} has the version {version} and {body} in _meta", "http-23")
        method = http.header("mcp-method")
        expect(method == call.method, f"{call.method} has Mcp-Method {method!r}", "http-9")
        wanted = _name(call)
        if wanted is not None:
            came = http.header("mcp-name")
            expect(came is not None, f"{call.method} of {wanted!r} has no Mcp-Name", "http-9")


def _http(call: Call) -> HTTPRequest:
    assert call.http is not None
    return call.http


def _name(call: Call) -> str | None:
    """What `Mcp-Name` has to say for a request."""
    field = {"tools/call": "name", "prompts/get": "name", "resources/read": "uri"}.get(call.method)
    found = call.params.get(field) if field is not None else None
    return found if isinstance(found, str) else None


@http_check(
    "client-encodes-names",
    "http-28",
    meaning="Mcp-Name holds the name, in base64 if it is not plain ASCII.",
    revisions=MODERN,
)
async def client_encodes_names(probe: ClientProbe) -> None:
    scene = await probe.recording()
    named = [call for call in scene.calls if _name(call) is not None]
    require(named, "the client calls no tool, gets no prompt and reads no resource")
    for call in named:
        came = _http(call).header("mcp-name")
        if came is not None:
            said = _decoded(came)
            expect(said == _name(call), f"Mcp-Name of {_name(call)!r} is {came!r}")


def _decoded(value: str) -> str:
    try:
        return decode_value(value)
    except HeaderError as exc:
        raise Failed(f"a header has the value {value!r}: {exc}") from exc


def marked(scene: Scene) -> Iterator[tuple[Call, str, JSON, str | None]]:
    """Each marked argument of each call: the header's name, the argument, and what came."""
    schemas: dict[str, Any] = {one["name"]: one["inputSchema"] for one in TOOLS}
    for call in scene.requests_of("tools/call"):
        arguments = call.params.get("arguments") or {}
        for name, schema in schemas.get(call.name, {}).get("properties", {}).items():
            if ANNOTATION in schema:
                header = f"Mcp-Param-{schema[ANNOTATION]}"
                yield call, header, arguments.get(name), _http(call).header(header)


@http_check(
    "client-mirrors-arguments",
    "http-30",
    "http-29",
    "http-49",
    "http-55",
    meaning="An argument that is marked with x-mcp-header has its header.",
    revisions=MODERN,
)
async def client_mirrors_arguments(probe: ClientProbe) -> None:
    for _, header, value in await _given(probe):
        expect(value is not None, f"a marked argument is there, and {header} is not")


async def _given(probe: ClientProbe) -> list[tuple[str, str, str | None]]:
    """Marked arguments that were given: as a header says them, the header, and what came."""
    found: list[tuple[str, str, str | None]] = []
    for _, header, argument, came in marked(await probe.recording()):
        if argument is not None:
            text = argument if isinstance(argument, str) else dump_plain(argument)
            found.append((text, header, came))
    require(found, "the client calls no tool with marked arguments")
    return found


def dump_plain(value: JSON) -> str:
    """A number or a truth value as a header says it."""
    return str(value).lower() if isinstance(value, bool) else str(value)


@http_check(
    "client-encodes-arguments",
    "http-43",
    "http-42",
    "http-45",
    "http-48",
    meaning="A mirrored argument is what it was, in base64 where it has to be.",
    revisions=MODERN,
)
async def client_encodes_arguments(probe: ClientProbe) -> None:
    for text, header, came in await _given(probe):
        if came is None:
            continue
        # What looks encoded means what it encodes, so that a plain value of that form is another.
        expect(_decoded(came) == text, f"{header} of {text!r} is {came!r}")


@http_check(
    "client-mirrors-nothing-else",
    "http-57",
    "http-56",
    meaning="An argument that is null or not there has no header.",
    revisions=MODERN,
)
async def client_mirrors_nothing_else(probe: ClientProbe) -> None:
    absent = [
        (header, came)
        for _, header, argument, came in marked(await probe.recording())
        if argument is None
    ]
    require(absent, "the client gives every marked argument")
    for header, came in absent:
        expect(came is None, f"an argument is not there, and {header} is {came!r}")


async def _with_tools(
    probe: ClientProbe, tools: list[JSONObject], judge: Callable[[Scene], Awaitable[None]]
) -> None:
    await probe.asks_for("tools/list", "tools/call")
    page: JSONObject = {"tools": tools, "ttlMs": 0, "cacheScope": "private"}
    async with probe.play({"tools/list": page}) as scene:
        await scene.over()
        await judge(scene)


@http_check(
    "client-leaves-out-invalid-tools",
    "http-40",
    "http-39",
    meaning="Tools with an invalid x-mcp-header are left out; the others are not.",
    revisions=MODERN,
)
async def client_leaves_out_invalid_tools(probe: ClientProbe) -> None:
    def bad(name: str, mark: JSON, kind: str = "string") -> JSONObject:
        return tool(name, {"x": {"type": kind, ANNOTATION: mark}})

    twice = {"a": {"type": "string", ANNOTATION: "A"}, "b": {"type": "string", ANNOTATION: "a"}}
    tools = [
        bad("empty", ""),
        bad("spaced", "My Region"),
        bad("broken", "A\r\nB"),
        bad("typed", "N", "number"),
        tool("doubled", twice),
        tool("good"),
    ]

    async def judge(scene: Scene) -> None:
        called = {call.name for call in scene.requests_of("tools/call")}
        expect("good" in called, "a good tool beside invalid ones was not called")
        wrong = sorted(called - {"good"})
        expect(not wrong, f"tools with an invalid x-mcp-header were called: {wrong}", "http-39")

    await _with_tools(probe, tools, judge)


@http_check(
    "client-keeps-integers-in-range",
    "http-36",
    meaning="An integer beyond 2^53-1 does not go into a header.",
    revisions=MODERN,
)
async def client_keeps_integers_in_range(probe: ClientProbe) -> None:
    big = LARGEST_INTEGER + 2
    huge = tool("huge", {"n": {"type": "integer", ANNOTATION: "N", "const": big}})

    async def judge(scene: Scene) -> None:
        for call in scene.requests_of("tools/call"):
            came = _http(call).header("mcp-param-n")
            inside = came is None or abs(int(came)) <= LARGEST_INTEGER
            expect(inside, f"a header has the integer {came}")

    await _with_tools(probe, [huge, tool("good")], judge)


@http_check(
    "client-looks-again-after-a-mismatch",
    "http-50",
    meaning="After HeaderMismatch the tools are listed again, and the call is repeated.",
    revisions=MODERN,
)
async def client_looks_again_after_a_mismatch(probe: ClientProbe) -> None:
    await probe.asks_for("tools/list", "tools/call")
    named = {"region": {"type": "string", "const": "eu"}}
    marked_ = {"region": {"type": "string", "const": "eu", ANNOTATION: "Region"}}
    rest: JSONObject = {"ttlMs": 0, "cacheScope": "private"}
    before: JSONObject = {"tools": [tool("moved", named)], **rest}
    after: JSONObject = {"tools": [tool("moved", marked_)], **rest}
    refusal = Refusal(HEADER_MISMATCH, "Mcp-Param-Region is missing")
    answers: Answers = {"tools/list": [before, after], "tools/call": [refusal, usual]}
    async with probe.play(answers) as scene:
        await scene.call("tools/call", name="moved")
        try:
            again = await scene.call("tools/call", 2, name="moved")
        except NotApplicable as exc:
            raise Failed("a call was refused with HeaderMismatch, and not repeated") from exc
        listed = len(scene.requests_of("tools/list"))
        expect(listed > 1, "the call was repeated without listing the tools again")
        came = _http(again).header("mcp-param-region")
        expect(came == "eu", f"the repeated call has Mcp-Param-Region {came!r}")


# Eras


@http_check(
    "client-reads-the-body-of-400",
    "http-67",
    meaning="Status 400 with a modern error does not lead to `initialize`.",
    revisions=MODERN,
)
async def client_reads_the_body_of_400(probe: ClientProbe) -> None:
    await probe.asks_for("server/discover")
    data: JSONObject = {"supported": ["2099-12-31"], "requested": probe.revision}
    refusal = Refusal(UNSUPPORTED_VERSION, "Unsupported protocol version", data, status=400)
    async with probe.play({"server/discover": refusal}) as scene:
        await scene.over()
        fell = scene.requests_of("initialize")
        expect(not fell, "status 400 has a modern error, and the client sends initialize")


@http_check(
    "client-falls-back-on-any-status",
    meaning="A status that means nothing to modern clients leads to `initialize`.",
    revisions=MODERN,
)
async def client_falls_back_on_any_status(probe: ClientProbe) -> None:
    await probe.asks_for("server/discover")
    async with probe.play(revision=LATEST_LEGACY) as scene:
        await scene.over()
        require(speaks(scene), "the client speaks no revision before 2026-07-28")

    for status in (400, 404, 405):

        async def refuse(request: HTTPRequest, status: int = status) -> bool:
            probing = b"server/discover" in request.body
            if probing:
                await request.reply.whole(status)
            return probing

        async with probe.play(revision=LATEST_LEGACY, on_http=refuse) as scene:
            await scene.over()
            fell = scene.requests_of("initialize")
            expect(fell, f"server/discover gets status {status}, and initialize does not follow")


# HTTP+SSE


@check(
    "client-posts-to-the-endpoint",
    "transports-47",
    role="client",
    meaning="Messages are POSTed to the URI that the endpoint event named.",
    revisions=("2024-11-05",),
    transports=("sse",),
)
async def client_posts_to_the_endpoint(probe: ClientProbe) -> None:
    scene = await probe.recording()
    named = f"/messages?session={scene.link.number}"
    opened = next(n for n, request in enumerate(scene.requests) if request.method == "GET")
    sent = [request.target for request in scene.requests[opened:] if request.method == "POST"]
    require(sent, "the client POSTs nothing")
    strange = [target for target in sent if target != named]
    expect(not strange, f"the endpoint is {named}, and a POST goes to {strange[:1]}")
