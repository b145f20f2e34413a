"""Streamable HTTP with mirrored headers: checks."""

from __future__ import annotations

import base64
from collections import Counter
from collections.abc import Iterator
from typing import Any, Final

import attrs
import trio

from mcp_trio.harness.calling import arguments_for, tried_tools
from mcp_trio.harness.checks import MODERN, check
from mcp_trio.harness.checks.http_common import calls, some_requests
from mcp_trio.harness.checks.http_legacy import name, tokens
from mcp_trio.harness.exercise import running_call
from mcp_trio.harness.http_plain import HTTPReply
from mcp_trio.harness.http_talk import HTTPTalk, talk_of
from mcp_trio.harness.model import NotApplicable
from mcp_trio.harness.probe import ServerProbe, expect, require
from mcp_trio.harness.samples import NoSample, sample
from mcp_trio.harness.session import CLIENT_INFO, dump
from mcp_trio.protocol import meta as keys
from mcp_trio.protocol.errors import HEADER_MISMATCH, METHOD_NOT_FOUND, UNSUPPORTED_VERSION
from mcp_trio.protocol.revisions import LATEST_LEGACY
from mcp_trio.wire.header_params import ANNOTATION, PARAM_PREFIX, TOKEN
from mcp_trio.wire.http_headers import LAST_EVENT_ID, METHOD, NAME, PROTOCOL_VERSION, SESSION_ID
from mcp_trio.wire.jsonrpc import JSON, JSONObject

A_WHILE: Final = 0.3
"""Seconds that a tool is asked to take, or to take for each of its steps."""
CHANGES: Final = ("list_changed", "resources/updated")
"""How notifications end that only a subscription brings."""


def mismatch(reply: HTTPReply, what: str, requirement: str) -> None:
    """See to it that headers are refused as HeaderMismatch.

    Raises:
        Failed: They are not.
    """
    expect(not reply.ok, f"{what} got {reply.brief()}", requirement)
    seen = f"{what} got {reply.brief()} instead of status 400 with error {HEADER_MISMATCH}"
    expect(reply.status == 400 and reply.code == HEADER_MISMATCH, seen, "http-62")


# Versions and methods


@check(
    "other-version-in-header-is-refused",
    "http-24",
    "http-60",
    meaning="A request whose version header is not that of its body gets status 400 and -32020.",
    transports=("http",),
    revisions=MODERN,
)
async def other_version_in_header_is_refused(probe: ServerProbe) -> None:
    talk = await talk_of(probe)
    reply = await talk.post(talk.harmless(), {PROTOCOL_VERSION: LATEST_LEGACY})
    what = f"a request with {LATEST_LEGACY} in its header and {probe.revision} in its body"
    expect(reply.status == 400, f"{what} got {reply.brief()} instead of status 400")
    request = talk.message("server/discover", meta={keys.PROTOCOL_VERSION: LATEST_LEGACY})
    reply = await talk.post(request, {PROTOCOL_VERSION: probe.revision})
    what = f"a request with {probe.revision} in its header and {LATEST_LEGACY} in its body"
    fits = reply.status == 400 and reply.code in (HEADER_MISMATCH, UNSUPPORTED_VERSION)
    expect(fits, f"{what} got {reply.brief()} instead of status 400 with {HEADER_MISMATCH}")


@check(
    "unsupported-version-gets-400",
    "http-25",
    meaning="A version that is not supported gets status 400, error -32022 and those that are.",
    transports=("http",),
    revisions=MODERN,
)
async def unsupported_version_gets_400(probe: ServerProbe) -> None:
    talk = await talk_of(probe)
    for version in ("1999-01-01", "9999-12-31"):
        request = talk.message("server/discover", meta={keys.PROTOCOL_VERSION: version})
        reply = await talk.post(request, {PROTOCOL_VERSION: version})
        what = f"a request in version {version} got {reply.brief()}"
        fits = reply.status == 400 and reply.code == UNSUPPORTED_VERSION
        expect(fits, f"{what} instead of status 400 with error {UNSUPPORTED_VERSION}")
        data = reply.answer(request["id"]).get("error", {}).get("data")
        named = data.get("supported") if isinstance(data, dict) else None
        listed = isinstance(named, list) and probe.revision in named
        expect(listed, f"{what}, which does not list the supported {probe.revision}")


@check(
    "unknown-method-gets-404",
    "http-26",
    meaning="A method that does not exist gets status 404 and error -32601.",
    transports=("http",),
    revisions=MODERN,
)
async def unknown_method_gets_404(probe: ServerProbe) -> None:
    talk = await talk_of(probe)
    reply = await talk.post(talk.message("harness/no_such_method"))
    seen = f"an unknown method got {reply.brief()} instead of status 404 with {METHOD_NOT_FOUND}"
    expect(reply.status == 404 and reply.code == METHOD_NOT_FOUND, seen)


@check(
    "missing-version-header-is-refused",
    "http-27",
    meaning="A server without older clients refuses requests without MCP-Protocol-Version.",
    transports=("http",),
    revisions=MODERN,
)
async def missing_version_header_is_refused(probe: ServerProbe) -> None:
    await require_modern_only(probe)
    talk = await talk_of(probe)
    reply = await talk.post(talk.harmless(), {PROTOCOL_VERSION: None})
    mismatch(reply, f"a request without {PROTOCOL_VERSION}", "http-27")


async def require_modern_only(probe: ServerProbe) -> None:
    """Say that a check does not apply if the server speaks a legacy revision, too."""
    if await probe.once("speaks legacy", lambda: speaks_legacy(probe)):
        raise NotApplicable("the server speaks older revisions as well")


async def speaks_legacy(probe: ServerProbe) -> bool:
    talk = await talk_of(probe)
    params = {"protocolVersion": LATEST_LEGACY, "capabilities": {}, "clientInfo": CLIENT_INFO}
    hello = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params}
    reply = await talk.post(hello, {PROTOCOL_VERSION: None, METHOD: None})
    return reply.ok and "result" in reply.answer(1)


@check(
    "legacy-http-gets-405",
    "http-68",
    meaning="A server of this revision alone answers GET and DELETE by 405 and has no sessions.",
    transports=("http",),
    revisions=MODERN,
)
async def legacy_http_gets_405(probe: ServerProbe) -> None:
    await require_modern_only(probe)
    talk = await talk_of(probe)
    for method in ("GET", "DELETE"):
        headers = {"Accept": "text/event-stream", PROTOCOL_VERSION: probe.revision}
        reply = await talk.http.request(method, headers, until=lambda _: True)
        expect(reply.status == 405, f"{method} got {reply.brief()} instead of 405")
    old = {SESSION_ID: "harness", LAST_EVENT_ID: "harness"}
    reply = await talk.post(talk.harmless(), old)
    expect(reply.ok, f"a request with {SESSION_ID} and {LAST_EVENT_ID} got {reply.brief()}")
    expect(SESSION_ID not in reply.headers, f"{SESSION_ID} is sent in this revision")


# Mirrored headers


@check(
    "method-header-is-compared",
    "http-60",
    "http-62",
    meaning="A missing or another Mcp-Method gets status 400 and error -32020.",
    transports=("http",),
    revisions=MODERN,
)
async def method_header_is_compared(probe: ServerProbe) -> None:
    talk = await talk_of(probe)
    mismatch(await talk.post(talk.harmless(), {METHOD: None}), f"a missing {METHOD}", "http-62")
    for value in ("tools/list", "SERVER/DISCOVER", "discover"):
        reply = await talk.post(talk.harmless(), {METHOD: value})
        mismatch(reply, f"server/discover with {METHOD}: {value}", "http-60")


@check(
    "name-header-is-compared",
    "http-60",
    "http-62",
    meaning="A missing or another Mcp-Name gets status 400 and error -32020.",
    transports=("http",),
    revisions=MODERN,
)
async def name_header_is_compared(probe: ServerProbe) -> None:
    talk = await talk_of(probe)
    request = await named_request(probe, talk)
    what = f"{request['method']} with"
    mismatch(await talk.post(request, {NAME: None}), f"{what}out {NAME}", "http-62")
    for value in ("harness", encoded("harness"), "=?base64?***?="):
        reply = await talk.post(fresh(talk, request), {NAME: value})
        mismatch(reply, f"{what} {NAME}: {value}", "http-60")


@check(
    "encoded-name-is-decoded",
    "http-47",
    "http-46",
    "http-63",
    meaning="An Mcp-Name in base64 is decoded before it is compared.",
    transports=("http",),
    revisions=MODERN,
)
async def encoded_name_is_decoded(probe: ServerProbe) -> None:
    talk = await talk_of(probe)
    request = await named_request(probe, talk)
    params = request["params"]
    value = encoded(str(params["uri"] if "uri" in params else params["name"]))
    reply = await talk.post(fresh(talk, request), {NAME: value})
    expect(reply.ok, f"{request['method']} with {NAME}: {value} got {reply.brief()}")


@check(
    "header-names-have-any-case",
    "http-59",
    meaning="The names of headers count in any case.",
    transports=("http",),
    revisions=MODERN,
)
async def header_names_have_any_case(probe: ServerProbe) -> None:
    talk = await talk_of(probe)
    for spelled in (str.upper, str.lower, str.swapcase):
        request = talk.harmless()
        given = {spelled(key): value for key, value in talk.headers(request).items()}
        reply = await talk.post(request, given)
        expect(reply.ok, f"headers called {', '.join(given)} got {reply.brief()}")


def encoded(text: str) -> str:
    return f"=?base64?{base64.b64encode(text.encode()).decode()}?="


async def named_request(probe: ServerProbe, talk: HTTPTalk) -> JSONObject:
    """A request with a name that succeeds, and changes nothing.

    Raises:
        NotApplicable: There is none.
    """
    inventory = await probe.inventory()
    named = [("resources/read", {"uri": found.get("uri")}) for found in inventory.resources[:3]]
    for prompt in inventory.prompts[:3]:
        arguments = {str(a.get("name")): "x" for a in prompt.get("arguments") or ()}
        named.append(("prompts/get", {"name": prompt.get("name"), "arguments": arguments}))
    try:
        tried = [tool for tool in await tried_tools(probe) if tool.worked and not tool.asks]
        named += [("tools/call", tool.call) for tool in tried[:3]]
    except NotApplicable:
        pass
    for method, params in named:
        request = talk.message(method, params)
        if (await talk.post(request)).ok:
            return fresh(talk, request)
    raise NotApplicable("no tool, prompt or resource can be had for sure")


def fresh(talk: HTTPTalk, request: JSONObject) -> JSONObject:
    """The same request with an id of its own."""
    return {**request, "id": talk.session.next_id()}


# Arguments in headers


@attrs.frozen
class Marked:
    """A call of a tool one of whose arguments is repeated in a header.

    Attributes:
        params: Of the call.
        path: Where the argument is.
        header: The header.
        value: The argument.
    """

    params: JSONObject
    path: tuple[str, ...]
    header: str
    value: JSON

    @property
    def text(self) -> str:
        """The argument as the header says it."""
        if isinstance(self.value, bool):
            return str(self.value).lower()
        return str(self.value)

    def with_value(self, value: JSON) -> JSONObject:
        """The params with another value; without one if it is None."""
        arguments = changed(self.params["arguments"], self.path, value)
        return {**self.params, "arguments": arguments}


def changed(arguments: JSONObject, path: tuple[str, ...], value: JSON) -> JSONObject:
    key, *rest = path
    if rest:
        return {**arguments, key: changed(arguments.get(key) or {}, tuple(rest), value)}
    kept = {name: old for name, old in arguments.items() if name != key}
    return kept if value is GONE else {**kept, key: value}


GONE: Final[Any] = object()


async def marked_calls(probe: ServerProbe) -> list[Marked]:
    """Calls of tools that may be called, one for each marked argument.

    Raises:
        NotApplicable: No argument is marked.
    """
    found = []
    for tool in await probe.callable_tools():
        arguments = arguments_for(tool)
        for mark in marks(tool.get("inputSchema")):
            value = mark.example()
            if arguments is None or not mark.reachable or value is None:
                continue
            given = changed(arguments, mark.path, value)
            params = {"name": tool.get("name"), "arguments": given}
            found.append(Marked(params, mark.path, PARAM_PREFIX + str(mark.name), value))
    require(found, "no tool that may be called has an argument with x-mcp-header")
    return found


def marked_headers(talk: HTTPTalk, call: Marked) -> tuple[JSONObject, dict[str, str | None]]:
    request = talk.message("tools/call", call.params)
    return request, talk.headers(request)


@check(
    "argument-header-is-compared",
    "http-53",
    "http-54",
    "http-55",
    meaning="An argument's header that says something else gets status 400 and error -32020.",
    transports=("http",),
    revisions=MODERN,
)
async def argument_header_is_compared(probe: ServerProbe) -> None:
    talk = await talk_of(probe)
    for call in await marked_calls(probe):
        other = "1" if call.text != "1" else "2"
        for value in (other, encoded(other)):
            reply = await talk.post(talk.message("tools/call", call.params), {call.header: value})
            what = f"{call.header}: {value} for the argument {call.value!r}"
            expect(not reply.ok, f"{what} got {reply.brief()}", "http-53")
            fits = reply.status == 400 and reply.code == HEADER_MISMATCH
            expect(fits, f"{what} got {reply.brief()} instead of 400 with -32020", "http-54")


@check(
    "missing-argument-header-is-refused",
    "http-58",
    meaning="A call without the header of an argument that it has is refused.",
    transports=("http",),
    revisions=MODERN,
)
async def missing_argument_header_is_refused(probe: ServerProbe) -> None:
    talk = await talk_of(probe)
    for call in await marked_calls(probe):
        reply = await talk.post(talk.message("tools/call", call.params), {call.header: None})
        expect(not reply.ok, f"a call without {call.header} got {reply.brief()}")


@check(
    "bad-argument-header-is-refused",
    "http-52",
    meaning="An argument's header with characters that it must not hold is refused.",
    transports=("http",),
    revisions=MODERN,
)
async def bad_argument_header_is_refused(probe: ServerProbe) -> None:
    talk = await talk_of(probe)
    for call in await marked_calls(probe):
        for value in ("=?base64?\u00e9?=", f"{call.text}\u00e9", "=?base64?***?="):
            reply = await talk.post(talk.message("tools/call", call.params), {call.header: value})
            expect(not reply.ok, f"{call.header}: {value} got {reply.brief()}")


@check(
    "encoded-argument-is-decoded",
    "http-47",
    "http-46",
    "http-63",
    "http-53",
    meaning="An argument's header in base64 is decoded before it is compared.",
    transports=("http",),
    revisions=MODERN,
)
async def encoded_argument_is_decoded(probe: ServerProbe) -> None:
    talk = await talk_of(probe)
    for call in await marked_calls(probe):
        for value in (call.text, encoded(call.text)):
            reply = await talk.post(talk.message("tools/call", call.params), {call.header: value})
            seen = f"{call.header}: {value} for the argument {call.value!r} got {reply.brief()}"
            expect(reply.code != HEADER_MISMATCH, seen)


@check(
    "absent-argument-needs-no-header",
    "http-57",
    "http-56",
    meaning="For an argument that is null or not there, no header is expected.",
    transports=("http",),
    revisions=MODERN,
)
async def absent_argument_needs_no_header(probe: ServerProbe) -> None:
    talk = await talk_of(probe)
    for call in await marked_calls(probe):
        for value, what, level in ((GONE, "absent", "http-57"), (None, "null", "http-56")):
            request = talk.message("tools/call", call.with_value(value))
            reply = await talk.post(request, {call.header: None})
            seen = f"without {call.header}, of an argument that is {what}, came {reply.brief()}"
            expect(reply.code != HEADER_MISMATCH, seen, level)


@check(
    "integers-are-compared-as-numbers",
    "http-61",
    meaning="In a header, 42.0 is the same integer as 42.",
    transports=("http",),
    revisions=MODERN,
)
async def integers_are_compared_as_numbers(probe: ServerProbe) -> None:
    talk = await talk_of(probe)
    calls = [call for call in await marked_calls(probe) if type(call.value) is int]
    require(calls, "no integer argument has a header")
    for call in calls:
        request = talk.message("tools/call", call.params)
        reply = await talk.post(request, {call.header: f"{call.text}.0"})
        seen = f"{call.header}: {call.text}.0 for the argument {call.text} got {reply.brief()}"
        expect(reply.code != HEADER_MISMATCH, seen)


# What marks arguments


@attrs.frozen
class Mark:
    """An `x-mcp-header` in a schema.

    Attributes:
        name: What it says.
        schema: The schema that it is in.
        path: The keys of `properties` that lead there.
        reachable: Nothing but `properties` leads there.
    """

    name: JSON
    schema: JSONObject
    path: tuple[str, ...]
    reachable: bool

    def example(self) -> JSON:
        """A value of the argument; None if none is found."""
        try:
            return sample(self.schema)
        except NoSample:
            return None


_BRANCHES: Final = ("items", "oneOf", "anyOf", "allOf", "not", "if", "then", "else")
_OTHERS: Final = ("$defs", "definitions", "additionalProperties", "prefixItems")


def marks(schema: Any, path: tuple[str, ...] = (), reachable: bool = True) -> Iterator[Mark]:
    """All marks in a schema, wherever there are subschemas."""
    if not isinstance(schema, dict):
        return
    if ANNOTATION in schema:
        yield Mark(schema[ANNOTATION], schema, path, reachable and bool(path))
    properties = schema.get("properties")
    for key, value in (properties if isinstance(properties, dict) else {}).items():
        yield from marks(value, (*path, key), reachable)
    for keyword in (*_BRANCHES, *_OTHERS):
        below = schema.get(keyword)
        named = isinstance(below, dict) and keyword in ("$defs", "definitions")
        several = list(below.values()) if named and isinstance(below, dict) else below
        for value in several if isinstance(several, list) else [several]:
            yield from marks(value, path, False)


async def marked_tools(probe: ServerProbe) -> list[tuple[str, list[Mark]]]:
    """Tools with marks.

    Raises:
        NotApplicable: There are none.
    """
    tools = (await probe.inventory()).tools
    found = [(str(tool.get("name")), list(marks(tool.get("inputSchema")))) for tool in tools]
    found = [(name, these) for name, these in found if these]
    require(found, "no tool has arguments with x-mcp-header")
    return found


@check(
    "header-marks-are-names",
    "http-32",
    "http-31",
    "http-33",
    meaning="Each x-mcp-header is a name as HTTP has them for headers.",
    revisions=MODERN,
)
async def header_marks_are_names(probe: ServerProbe) -> None:
    for tool, found in await marked_tools(probe):
        for mark in found:
            seen = f"the tool {tool} has the x-mcp-header {mark.name!r}"
            expect(mark.name != "", seen, "http-31")
            if isinstance(mark.name, str):
                expect(mark.name.isprintable(), seen, "http-33")
            expect(isinstance(mark.name, str) and TOKEN.fullmatch(mark.name), seen, "http-32")


@check(
    "header-marks-are-unique",
    "http-34",
    meaning="No two arguments of a tool have the same x-mcp-header, in whatever case.",
    revisions=MODERN,
)
async def header_marks_are_unique(probe: ServerProbe) -> None:
    for tool, found in await marked_tools(probe):
        for mark, times in Counter(str(mark.name).lower() for mark in found).items():
            expect(times == 1, f"the tool {tool} has the x-mcp-header {mark!r} {times} times")


@check(
    "header-marks-are-at-plain-values",
    "http-35",
    meaning="x-mcp-header stands only at integers, strings and booleans.",
    revisions=MODERN,
)
async def header_marks_are_at_plain_values(probe: ServerProbe) -> None:
    for tool, found in await marked_tools(probe):
        for mark in found:
            kind = mark.schema.get("type")
            kinds = kind if isinstance(kind, list) else [kind]
            plain = {"integer", "string", "boolean", "null"}
            seen = f"the tool {tool} has x-mcp-header at {'.'.join(mark.path)} of type {kind!r}"
            expect(kind is not None and set(kinds) <= plain, seen)


@check(
    "header-marks-can-be-found",
    "http-37",
    "http-38",
    meaning="From the root of a schema, only `properties` lead to x-mcp-header.",
    revisions=MODERN,
)
async def header_marks_can_be_found(probe: ServerProbe) -> None:
    for tool, found in await marked_tools(probe):
        for mark in found:
            seen = f"the tool {tool} has the x-mcp-header {mark.name!r} where it cannot be found"
            expect(mark.reachable, seen)


# Streams


@check(
    "streams-bring-no-requests",
    "http-17",
    meaning="The stream of a request brings no request of the server.",
    transports=("http",),
    revisions=MODERN,
)
async def streams_bring_no_requests(probe: ServerProbe) -> None:
    for method, reply in await all_replies(probe):
        asked = [m["method"] for m in reply.messages if "method" in m and "id" in m]
        expect(not asked, f"the answer to {method} brings the request {asked[:1]}")


@check(
    "streams-bring-what-belongs-to-them",
    "http-16",
    meaning="The stream of a request brings notifications of that request only.",
    transports=("http",),
    revisions=MODERN,
)
async def streams_bring_what_belongs_to_them(probe: ServerProbe) -> None:
    talk = await talk_of(probe)
    for request in (*some_requests(talk), *await calls(probe, talk)):
        reply = await talk.post(request)
        own = request["params"]["_meta"].get("progressToken")
        others = [token for token in tokens(reply.messages) if token != own]
        expect(not others, f"progress for {others[:1]} came on the stream of {request['method']}")
        methods = [str(message.get("method")) for message in reply.messages]
        changes = [method for method in methods if method.endswith(CHANGES)]
        expect(not changes, f"{changes[:1]} came on the stream of {request['method']}")


async def all_replies(probe: ServerProbe) -> list[tuple[str, HTTPReply]]:
    """What comes for requests of all kinds, also for calls of tools that ask the client."""
    talk = await talk_of(probe)
    requests = [*some_requests(talk), *await calls(probe, talk)]
    try:
        asking = [tool for tool in await tried_tools(probe) if tool.asks]
    except NotApplicable:
        asking = []
    requests += [talk.message("tools/call", tool.call) for tool in asking]
    return [(str(request["method"]), await talk.post(request)) for request in requests]


@check(
    "streams-are-not-buffered",
    "http-19",
    meaning="A stream of events has the header X-Accel-Buffering: no.",
    transports=("http",),
    revisions=MODERN,
)
async def streams_are_not_buffered(probe: ServerProbe) -> None:
    found = [(what, reply) for what, reply in await all_replies(probe) if reply.events]
    require(found, "the server answers without streams of events")
    for what, reply in found:
        value = reply.headers.get("x-accel-buffering")
        expect(value == "no", f"the stream of {what} has X-Accel-Buffering: {value}")


@check(
    "closed-stream-is-the-end",
    "http-71",
    meaning="Once the client has closed a stream, nothing more is sent for its request.",
    transports=("http",),
    revisions=MODERN,
)
async def closed_stream_is_the_end(probe: ServerProbe) -> None:
    async with probe.open_session() as session:
        slow = await running_call(probe, session, A_WHILE)
    talk = await talk_of(probe)
    params = {"name": slow.tool, "arguments": slow.arguments}
    closed = talk.message("tools/call", params, meta={"progressToken": "harness-closed"})
    with trio.move_on_after(A_WHILE / 2):
        async with talk.http.open("POST", talk.headers(closed), dump(closed)) as stream:
            await stream.wait_ended()
            raise NotApplicable("no call takes long enough")
    for request in (*some_requests(talk), *await calls(probe, talk)):
        reply = await talk.post(request)
        late = [m for m in reply.messages if "method" not in m and m.get("id") == closed["id"]]
        seen = f"on the stream of {request['method']} came {name(late[0]) if late else ''}"
        expect(not late, f"{seen}, whose stream was closed")
        progress = "harness-closed" in tokens(reply.messages)
        expect(not progress, f"on the stream of {request['method']} came progress of a closed one")
