"""Streamable HTTP with sessions, and HTTP+SSE: checks."""

from __future__ import annotations

import json
import secrets
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from itertools import pairwise

import httpx
import trio

from mcp_trio.connection import open_private_nursery
from mcp_trio.harness.checks import LEGACY, check
from mcp_trio.harness.checks.http_common import calls, opened, some_requests, web_target
from mcp_trio.harness.exercise import running_call
from mcp_trio.harness.http_plain import LISTENING, POSTING, HTTPReply, HTTPStream
from mcp_trio.harness.http_talk import HTTPTalk, answers, messages_in, open_talk, talk_of
from mcp_trio.harness.model import Failed, NotApplicable
from mcp_trio.harness.probe import ServerProbe, expect, require
from mcp_trio.harness.session import CLIENT_INFO, dump
from mcp_trio.wire.http_headers import PROTOCOL_VERSION, SESSION_ID
from mcp_trio.wire.jsonrpc import JSON, JSONObject
from mcp_trio.wire.sse import ServerSentEvent

SESSIONS = LEGACY[1:]
"""The revisions whose Streamable HTTP has sessions, and streams to listen on."""
VERSION_HEADER = LEGACY[2:]
"""Those of them that have the header MCP-Protocol-Version."""
SHORTEST_ID = 16
"""Characters of a session id: fewer can be tried out."""
FEWEST_DIFFERENCES = 8
"""Places at which two session ids differ: fewer, and they are numbers rather than random."""
A_WHILE = 0.6
"""Seconds that a tool is asked to take, or to take for each of its steps."""
WHILE = 0.5
"""Seconds for what may come on a stream without having been asked for."""


# Sessions


@check(
    "session-id-is-visible-ascii",
    "transports-31",
    meaning="A session id holds nothing but visible ASCII characters.",
    transports=("http",),
    revisions=SESSIONS,
)
async def session_id_is_visible_ascii(probe: ServerProbe) -> None:
    id = session_id(await talk_of(probe))
    expect(all("!" <= char <= "~" for char in id), f"the session id is {id!r}")
    expect(id, "the session id is empty")


@check(
    "session-ids-cannot-be-guessed",
    "transports-30",
    meaning="Session ids are unique, and long and different enough to be random.",
    transports=("http",),
    revisions=SESSIONS,
)
async def session_ids_cannot_be_guessed(probe: ServerProbe) -> None:
    ids = [session_id(await talk_of(probe))]
    for _ in range(2):
        async with open_talk(probe) as talk:
            ids.append(session_id(talk))
    expect(len(set(ids)) == len(ids), f"two sessions have the same id {ids[0]!r}")
    expect(min(map(len, ids)) >= SHORTEST_ID, f"the session id {ids[0]!r} is short enough to try")
    for one, other in pairwise(ids):
        same = sum(a == b for a, b in zip(one, other, strict=False))
        differing = max(len(one), len(other)) - same
        seen = f"the session ids {one!r} and {other!r} differ in {differing} characters only"
        expect(differing >= FEWEST_DIFFERENCES, seen)


def session_id(talk: HTTPTalk) -> str:
    if talk.wire.session_id is None:
        raise NotApplicable("the server has no session ids")
    return talk.wire.session_id


@check(
    "missing-session-id-gets-400",
    "transports-34",
    meaning="A request without the session id that the server needs gets status 400.",
    transports=("http",),
    revisions=SESSIONS,
)
async def missing_session_id_gets_400(probe: ServerProbe) -> None:
    talk = await talk_of(probe)
    session_id(talk)
    reply = await talk.post(talk.harmless(), {SESSION_ID: None})
    require(not reply.ok, "the server does not need session ids")
    expect(reply.status == 400, f"a request without session id got {reply.brief()}")


@check(
    "ended-session-gets-404",
    "transports-35",
    meaning="A request in a session that has been ended gets status 404.",
    transports=("http",),
    revisions=SESSIONS,
)
async def ended_session_gets_404(probe: ServerProbe) -> None:
    async with open_talk(probe) as talk:
        session_id(talk)
        ended = await talk.delete()
        require(ended.ok, f"clients cannot end sessions: DELETE got {ended.brief()}")
        reply = await talk.post(talk.harmless())
        expect(reply.status == 404, f"after DELETE a request got {reply.brief()} instead of 404")
        talk.wire.session_id = None  # it needs no second end


# The version header


@check(
    "missing-version-header-is-tolerated",
    "transports-40",
    meaning="A request of a session without MCP-Protocol-Version is answered all the same.",
    transports=("http",),
    revisions=VERSION_HEADER,
)
async def missing_version_header_is_tolerated(probe: ServerProbe) -> None:
    talk = await talk_of(probe)
    reply = await talk.post(talk.harmless(), {PROTOCOL_VERSION: None})
    expect(reply.ok, f"a request without {PROTOCOL_VERSION} got {reply.brief()}")


@check(
    "unsupported-version-header-gets-400",
    "transports-41",
    meaning="A request under a version that does not exist gets status 400.",
    transports=("http",),
    revisions=VERSION_HEADER,
)
async def unsupported_version_header_gets_400(probe: ServerProbe) -> None:
    talk = await talk_of(probe)
    for version in ("1999-01-01", "9999-12-31", "harness"):
        reply = await talk.post(talk.harmless(), {PROTOCOL_VERSION: version})
        seen = f"a request with {PROTOCOL_VERSION}: {version} got {reply.brief()} instead of 400"
        expect(reply.status == 400, seen)


# The stream to listen on


@check(
    "get-is-a-stream-or-405",
    "transports-21",
    "http-70",
    meaning="A GET opens a stream of events, or gets status 405.",
    transports=("http",),
    revisions=SESSIONS,
)
async def get_is_a_stream_or_405(probe: ServerProbe) -> None:
    async with open_talk(probe) as talk:
        with trio.move_on_after(probe.options.deadline):
            async with talk.get() as stream:
                if not stream.is_stream:
                    await stream.wait_ended()
                seen = f"a GET got {stream.reply().brief()} of type {stream.media_type or 'none'}"
                expect(stream.status == 405 or (stream.status == 200 and stream.is_stream), seen)
                return
        raise Failed(f"a GET got no answer within {probe.options.deadline:g} s")


@check(
    "listening-streams-bring-no-answers",
    "transports-23",
    meaning="A stream that was opened to listen on brings no answers.",
    transports=("http",),
    revisions=SESSIONS,
)
async def listening_streams_bring_no_answers(probe: ServerProbe) -> None:
    async with open_talk(probe) as talk, listening(talk) as stream:
        for request in (*some_requests(talk), *await calls(probe, talk)):
            await talk.post(request)
            for message in heard(stream.events):
                seen = f"the answer to {request['method']} came on the stream of a GET"
                expect("method" in message or "id" not in message, seen)


@check(
    "listening-streams-are-for-other-things",
    "transports-22",
    meaning="What belongs to a running request does not come on the stream to listen on.",
    transports=("http",),
    revisions=SESSIONS,
)
async def listening_streams_are_for_other_things(probe: ServerProbe) -> None:
    async with open_talk(probe) as talk, listening(talk) as stream:
        progress = 0
        for request in await calls(probe, talk):
            reply = await talk.post(request)
            progress += len(tokens(reply.messages))
            strays = tokens(heard(stream.events))
            expect(not strays, f"progress of a request came on the stream of a GET: {strays}")
        require(progress, "no call reports progress")


@check(
    "messages-are-not-broadcast",
    "transports-25",
    meaning="Of several open streams, each message comes on one.",
    transports=("http",),
    revisions=SESSIONS,
)
async def messages_are_not_broadcast(probe: ServerProbe) -> None:
    async with open_talk(probe) as talk, listening(talk) as one, talk.get() as other:
        for request in (*some_requests(talk), *await calls(probe, talk)):
            reply = await talk.post(request)
            await trio.sleep(0.01)
            streams = (reply.messages, heard(one.events), heard(other.events))
            named = [key for messages in streams for key in set(filter(None, map(name, messages)))]
            twice = {key for key in named if named.count(key) > 1}
            expect(not twice, f"the same message came on several streams: {', '.join(twice)}")


def name(message: JSONObject) -> str | None:
    """What tells a message from all others; None if two may be the same."""
    params = message.get("params")
    if message.get("method") == "notifications/progress" and isinstance(params, dict):
        return f"progress {params.get('progress')} of {params.get('progressToken')}"
    if "id" in message:
        kind = message.get("method", "the answer")
        return f"{kind} with id {message['id']!r}"
    return None


@asynccontextmanager
async def listening(talk: HTTPTalk) -> AsyncIterator[HTTPStream]:
    """A stream to listen on, for the length of a block.

    Raises:
        NotApplicable: The server offers none.
    """
    async with talk.get() as stream:
        require(stream.is_stream, f"no stream to listen on: a GET got status {stream.status}")
        yield stream


def heard(events: Iterable[ServerSentEvent]) -> list[JSONObject]:
    return [message for event in events for message in messages_in(event)]


def tokens(messages: Iterable[JSONObject]) -> list[JSON]:
    """The tokens of the progress among messages."""
    progress = (m.get("params") for m in messages if m.get("method") == "notifications/progress")
    return [params.get("progressToken") for params in progress if isinstance(params, dict)]


@check(
    "closed-listening-stream-says-when-to-come-back",
    "transports-24",
    meaning="A server that closes a stream to listen on says with `retry` when to come back.",
    transports=("http",),
    revisions=("2025-11-25",),
)
async def closed_listening_stream_says_when_to_come_back(probe: ServerProbe) -> None:
    async with open_talk(probe) as talk, listening(talk) as stream:
        with trio.move_on_after(WHILE):
            await stream.wait_ended()
        require(stream.ended is not None, "the stream to listen on stays open")
        expect(stream.retry is not None, "a stream to listen on was closed without `retry`")


# The streams of requests


@check(
    "streams-begin-with-an-id",
    "transports-11",
    meaning="A stream of events begins with one that has an id and no data.",
    transports=("http",),
    revisions=("2025-11-25",),
)
async def streams_begin_with_an_id(probe: ServerProbe) -> None:
    talk = await talk_of(probe)
    for what, reply in await streams(probe, talk):
        first = reply.events[0]
        empty = first.id is not None and not first.data
        seen = f"the stream of {what} begins with {first.data[:60]!r} and the id {first.id!r}"
        expect(empty, seen)


async def streams(probe: ServerProbe, talk: HTTPTalk) -> list[tuple[str, HTTPReply]]:
    """Requests that were answered by a stream, and the streams.

    Raises:
        NotApplicable: None was.
    """
    found = []
    for request in (*some_requests(talk), *await calls(probe, talk)):
        reply = await talk.post(request)
        if reply.events:
            found.append((str(request["method"]), reply))
    require(found, "the server answers without streams of events")
    return found


@check(
    "streams-bring-the-answer",
    "transports-15",
    "transports-43",
    meaning="The stream of a request brings its answer, perhaps after having been resumed.",
    transports=("http",),
    revisions=SESSIONS,
)
async def streams_bring_the_answer(probe: ServerProbe) -> None:
    talk = await talk_of(probe)
    seen_one = False
    for request in (*some_requests(talk), *await calls(probe, talk)):
        async with talk.http.open("POST", talk.headers(request), dump(request)) as stream:
            if not stream.is_stream:
                continue
            seen_one = True
            found = await answer_on(stream, request, probe)
        what = f"the stream of {request['method']}"
        if found is None and probe.revision < "2025-11-25":
            raise Failed(f"{what} ended without the answer", requirement="transports-43")
        if found is None and stream.last_event_id:
            found = await resumed(talk, stream, request, probe)
        expect(found, f"{what} ended without the answer, and cannot be resumed", "transports-15")
    require(seen_one, "the server answers without streams of events")


async def answer_on(
    stream: HTTPStream, request: JSONObject, probe: ServerProbe
) -> ServerSentEvent | None:
    return await stream.find(lambda event: answers(event, request["id"]), probe.options.deadline)


async def resumed(
    talk: HTTPTalk, stream: HTTPStream, request: JSONObject, probe: ServerProbe
) -> ServerSentEvent | None:
    """The answer to a request on the stream that goes on where another one ended."""
    await trio.sleep(min(stream.retry or 0, probe.options.deadline))
    async with talk.get(last_event_id=stream.last_event_id) as again:
        return await answer_on(again, request, probe)


@check(
    "closed-stream-says-when-to-come-back",
    "transports-13",
    meaning="A server that closes a stream before the answer says with `retry` when to come back.",
    transports=("http",),
    revisions=("2025-11-25",),
)
async def closed_stream_says_when_to_come_back(probe: ServerProbe) -> None:
    talk = await talk_of(probe)
    closed = 0
    for request in (*some_requests(talk), *await calls(probe, talk)):
        async with talk.http.open("POST", talk.headers(request), dump(request)) as stream:
            found = await answer_on(stream, request, probe)
        if stream.is_stream and found is None and stream.ended is not None:
            closed += 1
            seen = (
                f"the stream of {request['method']} was closed before the answer, without `retry`"
            )
            expect(stream.retry is not None, seen)
    require(closed, "the server closes no stream before the answer")


@check(
    "streams-carry-their-own-progress",
    "transports-16",
    meaning="The stream of a request brings progress of that request only.",
    transports=("http",),
    revisions=SESSIONS,
)
async def streams_carry_their_own_progress(probe: ServerProbe) -> None:
    talk = await talk_of(probe)
    requests = await calls(probe, talk)
    require(requests, "there is no tool to call")
    replies: list[HTTPReply] = []
    done = trio.Event()

    async def post(request: JSONObject) -> None:
        reply = await talk.post(request)
        replies.append(reply)
        own = request["params"]["_meta"]["progressToken"]
        others = [token for token in tokens(reply.messages) if token != own]
        expect(not others, f"progress for {others[:3]} came on the stream of another request")
        if len(replies) == len(requests):
            done.set()

    async with open_private_nursery() as nursery:
        for request in requests:
            nursery.start_soon(post, request)
        await done.wait()
    require(any(tokens(reply.messages) for reply in replies), "no call reports progress")


# Coming back


@check(
    "event-ids-are-unique",
    "transports-26",
    meaning="No two events of a session have the same id, on whatever stream.",
    transports=("http",),
    revisions=SESSIONS,
)
async def event_ids_are_unique(probe: ServerProbe) -> None:
    async with open_talk(probe) as talk, talk.get() as stream:
        seen: dict[str, str] = {}
        for what, reply in await streams(probe, talk):
            note_ids(seen, f"the stream of {what}", reply.events)
        note_ids(seen, "the stream of a GET", stream.events)
        require(seen, "the server's events have no ids")


def note_ids(seen: dict[str, str], what: str, events: Iterable[ServerSentEvent]) -> None:
    for event in events:
        if event.id:
            there = f"the event id {event.id!r} came on {seen.get(event.id)} and on {what}"
            expect(event.id not in seen, there)
            seen[event.id] = what


@check(
    "replay-is-of-the-same-stream",
    "transports-29",
    meaning="After Last-Event-ID, nothing is sent again that belongs to another stream.",
    transports=("http",),
    revisions=SESSIONS,
)
async def replay_is_of_the_same_stream(probe: ServerProbe) -> None:
    async with open_talk(probe) as talk:
        found = [(w, r) for w, r in await streams(probe, talk) if r.events[0].id]
        require(found, "the server's events have no ids")
        await streams(probe, talk)
        what, reply = found[0]
        async with talk.get(last_event_id=reply.events[0].id) as again:
            require(again.is_stream, f"streams cannot be resumed: a GET got {again.status}")
            with trio.move_on_after(WHILE):
                await again.wait_ended()
            own = set(filter(None, map(name, reply.messages)))
            strange = [key for key in map(name, heard(again.events)) if key and key not in own]
        expect(not strange, f"{', '.join(strange[:3])} came when the stream of {what} was resumed")


@check(
    "disconnection-is-no-cancellation",
    "transports-18",
    meaning="A call whose connection broke goes on, and its answer can be had by coming back.",
    transports=("http",),
    revisions=SESSIONS,
)
async def disconnection_is_no_cancellation(probe: ServerProbe) -> None:
    async with probe.open_session() as session:
        slow = await running_call(probe, session, A_WHILE)
    async with open_talk(probe) as talk:
        call = {"name": slow.tool, "arguments": slow.arguments}
        request = talk.message("tools/call", call, meta={"progressToken": "harness"})
        async with talk.http.open("POST", talk.headers(request), dump(request)) as stream:
            with trio.move_on_after(WHILE):
                while not stream.last_event_id and await stream.next() is not None:
                    pass
            require(stream.last_event_id, "the server's events have no ids to come back with")
            require(not reply_in(stream.events, request), "no call takes long enough")
        await trio.sleep(0.05)
        async with talk.get(last_event_id=stream.last_event_id) as again:
            require(again.is_stream, f"streams cannot be resumed: a GET got {again.status}")
            await answer_on(again, request, probe)
            answer = reply_in(again.events, request)
            gone = again.ended is not None and not answer
        expect(not gone, "after a lost connection the call's stream ended without the answer")
        require(answer, "the server does not go on with a stream")
        error = answer.get("error")
        expect(error is None, f"a call whose connection was lost was answered with {error}")


def reply_in(events: Iterable[ServerSentEvent], request: JSONObject) -> JSONObject:
    found = (m for m in heard(events) if "method" not in m and m.get("id") == request["id"])
    return next(found, {})


# Batches


@check(
    "batches-are-answered-whole",
    "http-14",
    "transports-15",
    meaning="Each request of a batch is answered, in JSON or on a stream.",
    transports=("http",),
    revisions=("2025-03-26",),
)
async def batches_are_answered_whole(probe: ServerProbe) -> None:
    talk = await talk_of(probe)
    batch = [talk.harmless(), talk.harmless(), talk.message("harness/no_such_method")]
    reply = await talk.post(json.dumps(batch).encode())
    require(reply.ok, f"the server takes no batches: {reply.brief()}")
    kinds = ("application/json", "text/event-stream")
    expect(reply.media_type in kinds, f"a batch got {reply.media_type or 'no type'}")
    missing = [request["id"] for request in batch if not reply.answer(request["id"])]
    expect(not missing, f"in the answer to a batch those to {missing} are missing")


@check(
    "batches-without-requests-get-202",
    "http-12",
    meaning="A batch of nothing but notifications gets status 202 without a body.",
    transports=("http",),
    revisions=("2025-03-26",),
)
async def batches_without_requests_get_202(probe: ServerProbe) -> None:
    talk = await talk_of(probe)
    one = talk.session.message("notifications/cancelled", {"requestId": "harness-none"})
    reply = await talk.post(json.dumps([one, one]).encode())
    require(reply.ok, f"the server takes no batches: {reply.brief()}")
    seen = f"a batch of notifications got {reply.brief()} instead of 202 without a body"
    expect(reply.status == 202 and not reply.body, seen)


# HTTP+SSE


@check(
    "endpoint-event-comes-first",
    "transports-46",
    meaning="The first event of the stream is `endpoint` and says where messages go.",
    transports=("sse",),
    revisions=("2024-11-05",),
)
async def endpoint_event_comes_first(probe: ServerProbe) -> None:
    async with web_target(probe).open_http(probe.exchange) as http:
        reply = await opened(http, dict(LISTENING))
        expect(reply.ok and reply.events, f"the stream cannot be opened: {reply.brief()}")
        first = reply.events[0]
        expect(first.event == "endpoint", f"the first event is {first.event!r}")
        place = httpx.URL(http.url).join(first.data.decode("ascii", "replace"))
        expect(place.host and place.scheme in ("http", "https"), f"it names {first.data!r}")


@check(
    "posted-messages-are-answered-on-the-stream",
    "transports-45",
    meaning="What is posted to the endpoint is answered on the stream of events.",
    transports=("sse",),
    revisions=("2024-11-05",),
)
async def posted_messages_are_answered_on_the_stream(probe: ServerProbe) -> None:
    params = {"protocolVersion": probe.revision, "capabilities": {}, "clientInfo": CLIENT_INFO}
    hello: JSONObject = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params}
    async with (
        web_target(probe).open_http(probe.exchange) as http,
        http.open("GET", LISTENING) as stream,
    ):
        first = await stream.find(lambda event: event.event == "endpoint", probe.options.deadline)
        if first is None:
            raise Failed("no event says where messages go")
        place = str(httpx.URL(http.url).join(first.data.decode("ascii", "replace")))
        posted = await http.request("POST", POSTING, dump(hello), url=place)
        expect(posted.ok, f"initialize, posted to the endpoint, got {posted.brief()}")
        found = await answer_on(stream, hello, probe)
        expect(found, "initialize was posted, and not answered on the stream")


@check(
    "foreign-origin-opens-no-stream",
    "http-2",
    meaning="A web page of elsewhere (Origin) cannot open the stream of events.",
    transports=("sse",),
    revisions=("2024-11-05",),
)
async def foreign_origin_opens_no_stream(probe: ServerProbe) -> None:
    evil = {"Origin": f"https://{secrets.token_hex(4)}.invalid"}
    async with web_target(probe).open_http(probe.exchange) as http:
        reply = await opened(http, {**LISTENING, **evil})
    expect(not reply.ok, f"a GET with a foreign Origin got {reply.brief()}")
