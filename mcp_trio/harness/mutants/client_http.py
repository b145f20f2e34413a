"""Clients over HTTP: mutants."""

import base64
import json
from collections.abc import Awaitable, Callable
from typing import Any, Final

import httpx
import trio

from mcp_trio.harness.mutants import ClientMutant
from mcp_trio.harness.mutants.client_faults import (
    HTTPFault,
    body_of,
    http_mutant,
    with_body,
)
from mcp_trio.protocol import meta as keys
from mcp_trio.wire.http_headers import decode_value

Send = Callable[[httpx.Request], Awaitable[httpx.Response]]


class Header(HTTPFault):
    """Sends another value in a header, or none."""

    def __init__(
        self, name: str, change: Callable[[str], str | None], when: str = "POST GET DELETE"
    ) -> None:
        self._name = name
        self._change = change
        self._when = when.split()

    async def request(self, request: httpx.Request, send: Send) -> httpx.Response:
        value = request.headers.get(self._name)
        if value is not None and request.method in self._when:
            changed = self._change(value)
            if changed is None:
                del request.headers[self._name]
            else:
                request.headers[self._name] = changed
        return await send(request)


def header(
    text: str, name: str, change: Callable[[str], str | None], when: str = "POST GET DELETE"
) -> Callable[[], HTTPFault]:
    """A fault of one header."""

    def fault() -> HTTPFault:
        return Header(name, change, when)

    fault.__doc__ = text
    return fault


def no_header(text: str, name: str, when: str = "POST GET DELETE") -> Callable[[], HTTPFault]:
    """A header that is left out."""
    return header(text, name, lambda _: None, when)


class Puts(HTTPFault):
    """Sends messages by PUT, too."""

    async def request(self, request: httpx.Request, send: Send) -> httpx.Response:
        if body_of(request).get("method") == "prompts/list":
            put = with_body(request, body_of(request))
            put.method = "PUT"
            await (await send(put)).aread()
        return await send(request)


class Arrays(HTTPFault):
    """Puts each message into an array."""

    async def request(self, request: httpx.Request, send: Send) -> httpx.Response:
        message = body_of(request)
        if message.get("method") in ("notifications/initialized", "tools/call"):
            return await send(with_body(request, json.dumps([message]).encode()))
        return await send(request)


class Mixes(HTTPFault):
    """Puts an answer beside a request into one POST."""

    async def request(self, request: httpx.Request, send: Send) -> httpx.Response:
        message = body_of(request)
        if message.get("method") == "tools/list":
            answer = {"jsonrpc": "2.0", "id": "x", "result": {}}
            return await send(with_body(request, json.dumps([message, answer]).encode()))
        return await send(request)


class Posts(HTTPFault):
    """POSTs an answer to what a modern server asks."""

    async def request(self, request: httpx.Request, send: Send) -> httpx.Response:
        response = await send(request)
        if body_of(request).get("method") != "tools/list":
            return response
        content = await response.aread()
        if b'"asked"' in content:
            answer = {"jsonrpc": "2.0", "id": "asked", "result": {}}
            await (await send(with_body(request, answer))).aread()
        headers = [(k, v) for k, v in response.headers.items() if k != "transfer-encoding"]
        return httpx.Response(response.status_code, headers=headers, content=content)


class OneKind(HTTPFault):
    """Reads answers of one kind only."""

    def __init__(self, kind: str) -> None:
        self._kind = kind

    async def request(self, request: httpx.Request, send: Send) -> httpx.Response:
        response = await send(request)
        if self._kind in response.headers.get("content-type", "") and body_of(request):
            await response.aclose()
            await trio.sleep_forever()
        return response


def no_events() -> HTTPFault:
    """Does not read streams of events."""
    return OneKind("event-stream")


class LowerCase(HTTPFault):
    """Finds no headers in upper case."""

    async def request(self, request: httpx.Request, send: Send) -> httpx.Response:
        response = await send(request)
        if any(name == b"CONTENT-TYPE" for name, _ in response.headers.raw):
            await response.aclose()
            await trio.sleep_forever()
        return response


class NeedsGet(HTTPFault):
    """Breaks down if there is no stream to listen to."""

    def __init__(self) -> None:
        self._dead = False

    async def request(self, request: httpx.Request, send: Send) -> httpx.Response:
        if self._dead:
            await trio.sleep_forever()
        response = await send(request)
        self._dead = request.method == "GET" and response.status_code == 405
        return response


class KeepsSession(HTTPFault):
    """Keeps to a session that is gone."""

    def __init__(self) -> None:
        self._gone = False

    async def request(self, request: httpx.Request, send: Send) -> httpx.Response:
        if self._gone:
            return httpx.Response(500, request=request)
        response = await send(request)
        self._gone = response.status_code == 404
        return response


class TakesOldSession(HTTPFault):
    """Initializes a new session under the id of the old one."""

    def __init__(self) -> None:
        self._id = ""

    async def request(self, request: httpx.Request, send: Send) -> httpx.Response:
        self._id = request.headers.get("mcp-session-id", self._id)
        if self._id and body_of(request).get("method") == "initialize":
            request.headers["mcp-session-id"] = self._id
        return await send(request)


class NoDelete(HTTPFault):
    """Leaves without a word."""

    async def request(self, request: httpx.Request, send: Send) -> httpx.Response:
        if request.method == "DELETE":
            return httpx.Response(200, request=request)
        return await send(request)


class NoResuming(HTTPFault):
    """Does not resume streams."""

    async def request(self, request: httpx.Request, send: Send) -> httpx.Response:
        if "last-event-id" in request.headers:
            return httpx.Response(405, request=request)
        return await send(request)


class Impatient(HTTPFault):
    """Resumes at once, whatever wait it was asked for."""

    async def request(self, request: httpx.Request, send: Send) -> httpx.Response:
        response = await send(request)
        if "event-stream" not in response.headers.get("content-type", ""):
            return response
        chunks = response.aiter_raw()

        async def hurried() -> Any:
            async for chunk in chunks:
                yield chunk.replace(b"retry: 1500", b"retry: 1")

        return httpx.Response(
            response.status_code,
            headers=response.headers,
            stream=_Stream(hurried(), response),
        )


class _Stream(httpx.AsyncByteStream):
    def __init__(self, chunks: Any, response: httpx.Response) -> None:
        self._chunks = chunks
        self._response = response

    async def __aiter__(self) -> Any:
        async for chunk in self._chunks:
            yield chunk

    async def aclose(self) -> None:
        await self._response.aclose()


def encoded(text: str, prefix: str = "=?base64?") -> str:
    return f"{prefix}{base64.b64encode(text.encode()).decode()}?="


class AnyTool(HTTPFault):
    """Calls tools whose x-mcp-header it cannot obey."""

    async def request(self, request: httpx.Request, send: Send) -> httpx.Response:
        response = await send(request)
        if body_of(request).get("method") != "tools/list":
            return response
        page = json.loads(await response.aread())
        for tool in page["result"]["tools"]:
            for schema in tool["inputSchema"]["properties"].values():
                schema.pop("x-mcp-header", None)
        return httpx.Response(200, json=page)


class Rounds(HTTPFault):
    """Puts integers of any size into headers."""

    def __init__(self) -> None:
        self._any = AnyTool()

    async def request(self, request: httpx.Request, send: Send) -> httpx.Response:
        arguments = body_of(request).get("params", {}).get("arguments") or {}
        if "n" in arguments:
            request.headers["mcp-param-n"] = str(arguments["n"])
        return await self._any.request(request, send)


class GivesUp(HTTPFault):
    """Takes a HeaderMismatch for the end of the matter."""

    async def request(self, request: httpx.Request, send: Send) -> httpx.Response:
        response = await send(request)
        if body_of(request).get("method") == "tools/call" and response.status_code == 400:
            answer = json.loads(await response.aread())
            answer["error"]["code"] = -32603
            return httpx.Response(200, json=answer)
        return response


class Invents(HTTPFault):
    """Sends headers for arguments that are not there."""

    async def request(self, request: httpx.Request, send: Send) -> httpx.Response:
        if body_of(request).get("method") == "tools/call":
            request.headers.setdefault("mcp-param-maybe", "null")
        return await send(request)


class SkipsBody(HTTPFault):
    """Does not look into the body of status 400."""

    async def request(self, request: httpx.Request, send: Send) -> httpx.Response:
        response = await send(request)
        if response.status_code == 400:
            await response.aread()
            return httpx.Response(400, request=request)
        return response


class NoFallback(HTTPFault):
    """Takes a status for the end of the matter."""

    def __init__(self) -> None:
        self._refused = False

    async def request(self, request: httpx.Request, send: Send) -> httpx.Response:
        if self._refused:
            return httpx.Response(503, request=request)
        response = await send(request)
        self._refused = response.status_code in (400, 404, 405) and not response.headers.get(
            "content-type"
        )
        return response


class OtherEndpoint(HTTPFault):
    """POSTs to where the events come from."""

    async def request(self, request: httpx.Request, send: Send) -> httpx.Response:
        if request.method == "POST" and "session" in str(request.url):
            await (await send(with_body(request, body_of(request)))).aread()
            request.url = request.url.copy_with(path="/sse", query=None)
            await send(request)
            return httpx.Response(202, request=request)
        return await send(request)


class LegacyVersion(HTTPFault):
    """Names another revision in the header than in the body."""

    async def request(self, request: httpx.Request, send: Send) -> httpx.Response:
        meta = body_of(request).get("params", {}).get(keys.META, {})
        if keys.PROTOCOL_VERSION in meta:
            request.headers["mcp-protocol-version"] = "2025-11-25"
        return await send(request)


MUTANTS: Final[tuple[ClientMutant, ...]] = (
    http_mutant("client-puts", Puts, ["client-posts-its-messages"]),
    http_mutant(
        "client-accepts-json-only",
        header("Accepts JSON only.", "accept", lambda _: "application/json", "POST"),
        ["client-accepts-both-kinds-of-answers"],
    ),
    http_mutant("client-posts-arrays", Arrays, ["client-posts-one-message"]),
    http_mutant("client-posts-mixtures", Mixes, ["client-posts-messages-or-batches"]),
    http_mutant("client-posts-answers", Posts, ["client-posts-no-answers"]),
    http_mutant("client-reads-no-events", no_events, ["client-reads-both-kinds-of-answers"]),
    http_mutant("client-reads-lower-case", LowerCase, ["client-ignores-the-case-of-headers"]),
    http_mutant("client-needs-get", NeedsGet, ["client-gets-along-without-a-listening-stream"]),
    http_mutant(
        "client-forgets-its-session",
        no_header("Leaves out the session id.", "mcp-session-id", "POST"),
        ["client-returns-the-session-id"],
    ),
    http_mutant(
        "client-forgets-its-version",
        no_header("Leaves out its revision.", "mcp-protocol-version"),
        ["client-sends-its-version", "client-sends-request-headers"],
    ),
    http_mutant(
        "client-listens-for-anything",
        header("GETs anything.", "accept", lambda _: "*/*", "GET"),
        ["client-listens-for-events"],
    ),
    http_mutant("client-keeps-its-session", KeepsSession, ["client-begins-a-new-session"]),
    http_mutant("client-takes-its-old-session", TakesOldSession, ["client-begins-a-new-session"]),
    http_mutant("client-deletes-nothing", NoDelete, ["client-ends-its-session"]),
    http_mutant("client-resumes-nothing", NoResuming, ["client-resumes-broken-streams"]),
    http_mutant("client-resumes-at-once", Impatient, ["client-waits-before-it-resumes"]),
    http_mutant("client-names-an-old-version", LegacyVersion, ["client-sends-request-headers"]),
    http_mutant(
        "client-names-nothing",
        no_header("Leaves out the name.", "mcp-name"),
        ["client-sends-request-headers"],
    ),
    http_mutant(
        "client-encodes-in-upper-case",
        header(
            "Writes the marker of base64 in upper case.",
            "mcp-name",
            lambda value: encoded(decode_value(value), "=?BASE64?"),
        ),
        ["client-encodes-names"],
    ),
    http_mutant(
        "client-mirrors-nothing",
        no_header("Leaves out a marked argument.", "mcp-param-level"),
        ["client-mirrors-arguments"],
    ),
    http_mutant(
        "client-does-not-encode",
        header("Sends what looks encoded as it is.", "mcp-param-odd", decode_value),
        ["client-encodes-arguments"],
    ),
    http_mutant("client-mirrors-what-is-not-there", Invents, ["client-mirrors-nothing-else"]),
    http_mutant("client-calls-any-tool", AnyTool, ["client-leaves-out-invalid-tools"]),
    http_mutant("client-mirrors-any-integer", Rounds, ["client-keeps-integers-in-range"]),
    http_mutant("client-does-not-look-again", GivesUp, ["client-looks-again-after-a-mismatch"]),
    http_mutant("client-skips-the-body", SkipsBody, ["client-reads-the-body-of-400"]),
    http_mutant("client-does-not-fall-back", NoFallback, ["client-falls-back-on-any-status"]),
    http_mutant(
        "client-posts-elsewhere",
        OtherEndpoint,
        ["client-posts-to-the-endpoint"],
        transport="sse",
    ),
)
