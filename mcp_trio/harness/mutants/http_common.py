"""Streamable HTTP: what both eras ask for: mutants."""

from __future__ import annotations

from typing import Final

import trio

from mcp_trio.harness.mutants import Mutant
from mcp_trio.harness.mutants.http import (
    Fields,
    HTTPFault,
    Seen,
    Setting,
    http_mutant,
    refusal,
    with_headers,
)
from mcp_trio.transports.http_exchange import Exchange, Handle, HTTPRequest


class AnyOriginMayCome(HTTPFault):
    """Does not look at Origin."""

    def request(self, seen: Seen) -> HTTPRequest:
        return with_headers(seen.request, origin=None)


class OriginIsRefusedBy400(HTTPFault):
    """Refuses a foreign Origin with status 400."""

    def head(self, seen: Seen, status: int, fields: Fields) -> tuple[int, Fields]:
        return (400 if status == 403 else status), fields


class OriginOfHostMayCome(HTTPFault):
    """Takes an Origin for its own if it is what the request names as Host."""

    def request(self, seen: Seen) -> HTTPRequest:
        host = seen.request.headers.get("host")
        if seen.request.headers.get("origin") == f"http://{host}":
            return with_headers(seen.request, origin=None, host="127.0.0.1")
        return seen.request


class ListensEverywhere(HTTPFault):
    """Listens at all addresses of its computer."""


class PostsAreNotTaken(HTTPFault):
    """Answers a harmless POST with 405."""

    def answer(self, seen: Seen) -> tuple[int, bytes] | None:
        return (405, b"") if seen.method in ("ping", "server/discover") else None


class AnswersAsText(HTTPFault):
    """Sends its JSON as text/plain."""

    def head(self, seen: Seen, status: int, fields: Fields) -> tuple[int, Fields]:
        if seen.method and seen.method.endswith("/list"):
            fields = {**fields, "content-type": "text/plain"}
        return status, fields


class StreamStaysOpen(HTTPFault):
    """Does not end a stream when the answer has been sent."""

    async def linger(self, seen: Seen) -> None:
        await trio.sleep(3 if seen.is_post else 0)


class AnswersInLatin1(HTTPFault):
    """Sends text in Latin-1."""

    def whole(self, seen: Seen, body: bytes) -> bytes:
        return body.decode().encode("latin-1", "replace")


class NotificationsGet200(HTTPFault):
    """Answers a notification with 200."""

    def head(self, seen: Seen, status: int, fields: Fields) -> tuple[int, Fields]:
        return (200 if status == 202 else status), fields


class NotificationsGetABody(HTTPFault):
    """Answers an accepted notification with a body."""

    def whole(self, seen: Seen, body: bytes) -> bytes:
        return body or b"Accepted"


class ErrorsHaveStatus200(HTTPFault):
    """Says in JSON that it cannot read a body, with status 200."""

    def answer(self, seen: Seen) -> tuple[int, bytes] | None:
        unreadable = seen.is_post and not seen.message
        return (200, refusal(-32700, "I cannot read this.")) if unreadable else None


class BadHTTPIsTheEnd(HTTPFault):
    """Answers nothing any more once a request had an endless header."""

    def __init__(self) -> None:
        self._seen_bad = False

    async def handle(self, exchange: Exchange, serve: Handle) -> None:
        self._seen_bad = self._seen_bad or "content-length" not in exchange.request.headers
        if self._seen_bad and exchange.request.method == "POST":
            await exchange.respond(503)
        else:
            await super().handle(exchange, serve)


class OneBodyAtATime(HTTPFault):
    """Reads one body at a time, however long that one takes."""

    def __init__(self) -> None:
        self._lock = trio.Lock()

    async def handle(self, exchange: Exchange, serve: Handle) -> None:
        if exchange.request.method != "POST":
            await super().handle(exchange, serve)
            return
        async with self._lock:
            await super().handle(exchange, serve)


class AnyContentTypeWillDo(HTTPFault):
    """Takes a body for JSON whatever its type says."""

    def request(self, seen: Seen) -> HTTPRequest:
        if not seen.is_post:
            return seen.request
        return with_headers(seen.request, content_type="application/json")


MUTANTS: Final[tuple[Mutant, ...]] = (
    http_mutant("any-origin-may-come", AnyOriginMayCome, ["foreign-origin-is-refused"]),
    http_mutant("origin-is-refused-by-400", OriginIsRefusedBy400, ["foreign-origin-is-refused"]),
    http_mutant("origin-of-host-may-come", OriginOfHostMayCome, ["rebound-name-is-refused"]),
    http_mutant(
        "listens-everywhere",
        ListensEverywhere,
        ["listens-at-localhost-only"],
        setting=Setting(host="0.0.0.0"),
        healthy=Setting(),
    ),
    http_mutant("posts-are-not-taken", PostsAreNotTaken, ["endpoint-takes-post"]),
    http_mutant("answers-as-text", AnswersAsText, ["requests-are-answered-in-json-or-a-stream"]),
    http_mutant("stream-stays-open", StreamStaysOpen, ["stream-ends-after-the-answer"]),
    http_mutant("answers-in-latin-1", AnswersInLatin1, ["messages-are-utf-8"]),
    http_mutant("notifications-get-200", NotificationsGet200, ["what-needs-no-answer-gets-202"]),
    http_mutant(
        "notifications-get-a-body", NotificationsGetABody, ["what-needs-no-answer-gets-202"]
    ),
    http_mutant(
        "errors-have-status-200",
        ErrorsHaveStatus200,
        ["what-is-not-accepted-gets-an-error-status"],
    ),
    http_mutant("bad-http-is-the-end", BadHTTPIsTheEnd, ["bad-http-is-survived"]),
    http_mutant("one-body-at-a-time", OneBodyAtATime, ["slow-body-holds-nobody-up"]),
    http_mutant(
        "any-content-type-will-do",
        AnyContentTypeWillDo,
        ["other-content-types-are-not-taken-for-json"],
    ),
)
