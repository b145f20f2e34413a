"""Streamable HTTP: what both eras ask for: checks."""

from __future__ import annotations

import secrets
import socket

import httpx
import trio

from mcp_trio.connection import open_private_nursery
from mcp_trio.harness.calling import sent_questions, tried_tools
from mcp_trio.harness.checks import REVISIONS, check
from mcp_trio.harness.exercise import arguments_of
from mcp_trio.harness.http_plain import LISTENING, POSTING, HTTPClient, HTTPReply, is_json
from mcp_trio.harness.http_talk import HTTPTalk, open_talk, talk_of
from mcp_trio.harness.http_target import WebTarget
from mcp_trio.harness.model import Failed, NotApplicable
from mcp_trio.harness.probe import ServerProbe, expect, require
from mcp_trio.harness.session import dump
from mcp_trio.wire.jsonrpc import JSONObject

STREAMABLE = REVISIONS[1:]
"""The revisions that have Streamable HTTP."""
FORBIDDEN_SINCE = "2025-11-25"
"""From here on the specification says by which status a foreign Origin is refused."""
MOST_CALLS = 8
"""Tools that are called, of those that may be."""
BRIEFLY = 0.05
"""Seconds for arguments of tools that are called like a time."""
BRIEFLY_AT_MOST = 2.0
"""Seconds that they may take then."""
OTHER_ADDRESS = "127.0.0.2"
"""An address of this computer that reaches only who listens at all addresses (on Linux)."""


# Who may come in


@check(
    "foreign-origin-is-refused",
    "http-2",
    "http-3",
    meaning="A request from a web page of elsewhere (Origin) is refused, with 403.",
    transports=("http",),
    revisions=STREAMABLE,
)
async def foreign_origin_is_refused(probe: ServerProbe) -> None:
    talk = await talk_of(probe)
    evil = {"Origin": f"https://{secrets.token_hex(4)}.invalid"}
    refused_as_foreign("a POST", await talk.post(talk.harmless(), evil), probe.revision)
    if not talk.session.is_modern:
        async with open_talk(probe) as own, own.get(changes=evil) as stream:
            if not stream.is_stream:
                await stream.wait_ended()
            if stream.status != 405:  # there is nothing to protect
                refused_as_foreign("a GET", stream.reply(), probe.revision)


def refused_as_foreign(what: str, reply: HTTPReply, revision: str) -> None:
    expect(not reply.ok, f"{what} with a foreign Origin got {reply.brief()}", "http-2")
    if revision >= FORBIDDEN_SINCE:
        seen = f"{what} with a foreign Origin got {reply.brief()} instead of 403"
        expect(reply.status == 403, seen, "http-3")


@check(
    "rebound-name-is-refused",
    "http-2",
    meaning="A server on this computer refuses a web page whose own name leads here (Host).",
    transports=("http", "sse"),
)
async def rebound_name_is_refused(probe: ServerProbe) -> None:
    target = web_target(probe)
    url = httpx.URL(target.name)
    require(is_local(url), "only servers on this computer can be reached by rebinding a name")
    name = f"{secrets.token_hex(4)}.invalid:{url.port or 80}"
    headers = {"Host": name, "Origin": f"http://{name}"}
    async with target.open_http(probe.exchange) as http:
        if probe.transport == "sse":
            reply = await opened(http, {**LISTENING, **headers})
        else:
            talk = await talk_of(probe)
            reply = await talk.post(talk.harmless(), headers)
    expect(not reply.ok, f"a request for a foreign name with its Origin got {reply.brief()}")


async def opened(http: HTTPClient, headers: dict[str, str]) -> HTTPReply:
    """The answer to a GET; of a stream, its beginning."""
    return await http.request("GET", headers, until=lambda _: True)


@check(
    "listens-at-localhost-only",
    "http-4",
    meaning="A server on this computer is not reachable at its other addresses.",
    transports=("http", "sse"),
)
async def listens_at_localhost_only(probe: ServerProbe) -> None:
    url = httpx.URL(web_target(probe).name)
    require(is_local(url), "the server is not addressed as one of this computer")
    for address in (OTHER_ADDRESS, own_address()):
        if address is not None and await connects(address, url.port or 80):
            raise Failed(f"the server is reachable at {address}, too, and so from elsewhere")


def own_address() -> str | None:
    """An address of this computer in a network; None if it is in none."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(("192.0.2.1", 9))  # sends nothing: it only chooses a way
            address = str(probe.getsockname()[0])
        except OSError:
            return None
    return None if address.startswith("127.") else address


async def connects(address: str, port: int) -> bool:
    with trio.move_on_after(1.0):
        try:
            stream = await trio.open_tcp_stream(address, port)
        except OSError:
            return False
        await stream.aclose()
        return True
    return False


def web_target(probe: ServerProbe) -> WebTarget:
    assert isinstance(probe.target, WebTarget)
    return probe.target


def is_local(url: httpx.URL) -> bool:
    return url.host in ("localhost", "::1") or url.host.startswith("127.")


# The endpoint


@check(
    "endpoint-takes-post",
    "http-1",
    "http-70",
    meaning="The endpoint answers a request that is POSTed.",
    transports=("http",),
    revisions=STREAMABLE,
)
async def endpoint_takes_post(probe: ServerProbe) -> None:
    talk = await talk_of(probe)
    request = talk.harmless()
    reply = await talk.post(request)
    seen = f"{request['method']} by POST got {reply.brief()}"
    level = "http-1" if talk.session.is_modern else "http-70"
    expect(reply.ok and "result" in reply.answer(request["id"]), seen, level)


@check(
    "requests-are-answered-in-json-or-a-stream",
    "http-14",
    meaning="A request gets one JSON object, or a stream of events that hold JSON.",
    transports=("http",),
    revisions=STREAMABLE,
)
async def requests_are_answered_in_json_or_a_stream(probe: ServerProbe) -> None:
    talk = await talk_of(probe)
    for request in some_requests(talk):
        reply = await talk.post(request)
        what = f"{request['method']} got {reply.brief()}"
        if not reply.ok:
            continue  # an error has its status
        kind = reply.media_type
        if kind == "text/event-stream":
            data = [event.data for event in reply.events if event.event == "message" and event.data]
            expect(len(reply.messages) >= len(data), f"{what}, in which not all is JSON")
        else:
            expect(is_json(kind), f"{what} of type {kind or 'unknown'}")
            expect(isinstance(reply.json, dict), f"{what}, which is not one JSON object")


def some_requests(talk: HTTPTalk) -> list[JSONObject]:
    methods = ("tools/list", "resources/list", "prompts/list", "harness/no_such_method")
    return [talk.harmless(), *(talk.message(method) for method in methods)]


async def calls(probe: ServerProbe, talk: HTTPTalk) -> list[JSONObject]:
    """Calls of tools with a token for progress, which is a reason to answer by a stream.

    Those come first that can be asked to take some time, as they do report progress.
    """
    try:
        tried = [tool.call for tool in await tried_tools(probe) if not tool.asks]
    except NotApplicable:
        tried = []
    lengthy = await probe.once("lengthy calls", lambda: lengthy_calls(probe))
    names = [call["name"] for call in lengthy]
    wanted = [*lengthy, *(call for call in tried if call["name"] not in names)][:MOST_CALLS]
    return [
        talk.message("tools/call", call, meta={"progressToken": f"harness-{number}"})
        for number, call in enumerate(wanted)
    ]


async def lengthy_calls(probe: ServerProbe) -> list[JSONObject]:
    """Calls of tools that can be asked to take some time, asked for little; they answer in time."""
    found: list[JSONObject] = []
    try:
        tools = await probe.callable_tools()
    except NotApplicable:
        return found
    async with probe.open_session(capabilities={}) as session:
        for tool in tools:
            arguments = arguments_of(tool, BRIEFLY)
            if arguments != arguments_of(tool, 2 * BRIEFLY):
                call = {"name": tool.get("name"), "arguments": arguments}
                try:
                    await session.request("tools/call", call, timeout=BRIEFLY_AT_MOST)
                except Failed:
                    continue
                if not sent_questions(session):
                    found.append(call)
    return found


@check(
    "stream-ends-after-the-answer",
    "http-18",
    meaning="A stream of events ends when the answer to its request has been sent.",
    transports=("http",),
    revisions=STREAMABLE,
)
async def stream_ends_after_the_answer(probe: ServerProbe) -> None:
    talk = await talk_of(probe)
    streams = 0
    for request in (*some_requests(talk), *await calls(probe, talk)):
        reply = await talk.post(request)
        if reply.events:
            streams += 1
            seen = f"the stream of {request['method']} is still open a second after the answer"
            expect(reply.ended, seen)
    require(streams, "the server answers without streams of events")


@check(
    "messages-are-utf-8",
    "transports-1",
    meaning="Whatever the server sends is UTF-8, and says nothing else of itself.",
    transports=("http",),
    revisions=STREAMABLE,
)
async def messages_are_utf_8(probe: ServerProbe) -> None:
    talk = await talk_of(probe)
    named = {"name": "harness-\u00e9\u4e16\U0001f600", "uri": "harness://\u00e9\u4e16\U0001f600"}
    methods = ("tools/call", "prompts/get", "resources/read", "harness/\u00e9")
    for request in (*some_requests(talk), *(talk.message(m, named) for m in methods)):
        reply = await talk.post(request)
        for data in (reply.body, *(event.data for event in reply.events)):
            if is_json(reply.media_type) or reply.events:
                see_utf_8(str(request["method"]), data, reply)


def see_utf_8(method: str, data: bytes, reply: HTTPReply) -> None:
    try:
        data.decode()
    except UnicodeDecodeError as error:
        raise Failed(f"the answer to {method} is not UTF-8: {error}") from None
    charset = reply.headers.get("content-type", "").lower().partition("charset=")[2].strip(' "')
    named = charset.partition(";")[0].strip(' "')
    expect(named in ("", "utf-8", "utf8", "us-ascii"), f"{method} is said to be in {named}")


# What gets no answer


@check(
    "what-needs-no-answer-gets-202",
    "http-12",
    meaning="A notification, or an answer, that is accepted gets status 202 without a body.",
    transports=("http",),
    revisions=STREAMABLE,
)
async def what_needs_no_answer_gets_202(probe: ServerProbe) -> None:
    talk = await talk_of(probe)
    for what, message in answerless(talk):
        reply = await talk.post(dump(message), like=message)
        if reply.ok:
            expect(reply.status == 202, f"{what} got {reply.brief()} instead of 202")
            body = reply.body or b"".join(event.data for event in reply.events)
            expect(not body, f"{what} got status 202 with a body: {body[:60]!r}")


def answerless(talk: HTTPTalk) -> list[tuple[str, JSONObject]]:
    cancelled = talk.session.message("notifications/cancelled", {"requestId": "harness-none"})
    if talk.session.is_modern:
        return [("a notification", cancelled)]
    answer: JSONObject = {"jsonrpc": "2.0", "id": "harness-none", "result": {}}
    return [("a notification", cancelled), ("an answer", answer)]


@check(
    "what-is-not-accepted-gets-an-error-status",
    "http-13",
    meaning="A POST without a request that is not accepted gets an HTTP error status.",
    transports=("http",),
    revisions=STREAMABLE,
)
async def what_is_not_accepted_gets_an_error_status(probe: ServerProbe) -> None:
    talk = await talk_of(probe)
    notification = talk.session.message("notifications/cancelled", {"requestId": "harness-none"})
    for what, body in (
        ("half a message", dump(notification)[:-3]),
        ("a notification whose params are a text", dump({**notification, "params": "none"})),
        ("a notification of JSON-RPC 1.0", dump({**notification, "jsonrpc": "1.0"})),
        ("an object that is no message", b'{"jsonrpc": "2.0"}'),
        ("a number", b"5"),
    ):
        reply = await talk.post(body, like=notification)
        errors = [message for message in reply.messages if "error" in message]
        expect(not (reply.ok and errors), f"{what} is not accepted, with {reply.brief()}")


# What it has to survive


@check(
    "bad-http-is-survived",
    meaning="After requests that HTTP does not allow, the server answers others.",
    transports=("http",),
    revisions=STREAMABLE,
)
async def bad_http_is_survived(probe: ServerProbe) -> None:
    talk = await talk_of(probe)
    url = httpx.URL(talk.http.url)
    head = f"POST {url.raw_path.decode()} HTTP/1.1\r\nHost: {url.netloc.decode()}\r\n"
    for data in (
        b"\x16\x03\x01\x00\xa5\x01\x00\x00\xa1\x03\x03\r\n\r\n",
        b"POST\r\n\r\n",
        f"{head}Content-Length: minus one\r\n\r\n".encode(),
        f"{head}Content-Length: 5\r\nContent-Length: 9\r\n\r\n{{}}".encode(),
        f"{head}Transfer-Encoding: chunked\r\n\r\nzz\r\n".encode(),
        f"{head}X: {'x' * 100_000}\r\n\r\n".encode(),
    ):
        await sent_raw(talk.http, data)
    request = talk.harmless()
    reply = await talk.post(request)
    expect(reply.ok, f"after requests that are no HTTP, {request['method']} got {reply.brief()}")


async def sent_raw(http: HTTPClient, data: bytes, patience: float = 0.3) -> bytes:
    try:
        return await http.raw(data, timeout=patience)
    except OSError as error:
        raise Failed(f"the server cannot be connected to any more: {error}") from error


@check(
    "slow-body-holds-nobody-up",
    meaning="While one body comes slowly, other requests are answered.",
    transports=("http",),
    revisions=STREAMABLE,
)
async def slow_body_holds_nobody_up(probe: ServerProbe) -> None:
    talk = await talk_of(probe)
    url = httpx.URL(talk.http.url)
    fields = "".join(f"{name}: {value}\r\n" for name, value in POSTING.items())
    head = f"POST {url.raw_path.decode()} HTTP/1.1\r\nHost: {url.netloc.decode()}\r\n{fields}"
    data = f"{head}Content-Length: 100\r\n\r\n{{".encode()
    async with open_private_nursery() as nursery:
        nursery.start_soon(sent_raw, talk.http, data, 2 * probe.options.deadline)
        await trio.sleep(0.05)
        request = talk.harmless()
        try:
            reply = await talk.post(request)
        except Failed as error:
            raise Failed(f"while another body comes slowly: {error.message}") from error
        finally:
            nursery.cancel_scope.cancel()
    expect(reply.ok, f"while another body comes slowly, {request['method']} got {reply.brief()}")


@check(
    "other-content-types-are-not-taken-for-json",
    meaning="A body that says it is a web form is refused: any page may send such a form.",
    transports=("http",),
    revisions=STREAMABLE,
)
async def other_content_types_are_not_taken_for_json(probe: ServerProbe) -> None:
    talk = await talk_of(probe)
    reply = await talk.post(talk.harmless(), {"Content-Type": "text/plain"})
    expect(not reply.ok, f"a request of type text/plain got {reply.brief()}")
