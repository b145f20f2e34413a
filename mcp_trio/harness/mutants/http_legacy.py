"""Streamable HTTP with sessions, and HTTP+SSE: mutants."""

from __future__ import annotations

import json
import re
from itertools import count
from typing import Any, Final

import trio

from mcp_trio.harness.mutants import Mutant
from mcp_trio.harness.mutants.http import (
    Fields,
    HTTPFault,
    Seen,
    Setting,
    http_mutant,
    with_headers,
)
from mcp_trio.transports.http_exchange import ClientGone, Exchange, Handle, HTTPRequest

SESSION_ID: Final = "mcp-session-id"
EVENTS: Final = {"content-type": "text/event-stream"}


def event(message: Any, id: str | None = None) -> bytes:
    """One event."""
    return (f"id: {id}\n" if id else "").encode() + f"data: {json.dumps(message)}\n\n".encode()


class _Renamed(HTTPFault):
    """Gives sessions ids of its own."""

    def __init__(self) -> None:
        self._real: dict[str, str] = {}
        self._counted = count(1)

    def name(self, number: int) -> str:
        raise NotImplementedError

    def request(self, seen: Seen) -> HTTPRequest:
        id = seen.request.headers.get(SESSION_ID)
        return with_headers(seen.request, mcp_session_id=self._real.get(id or "", id))

    def head(self, seen: Seen, status: int, fields: Fields) -> tuple[int, Fields]:
        if SESSION_ID not in {name.lower() for name in fields}:
            return status, fields
        (key,) = (name for name in fields if name.lower() == SESSION_ID)
        mine = self.name(next(self._counted))
        self._real[mine] = fields[key]
        return status, {**fields, key: mine}


class SessionIdWithASpace(_Renamed):
    """Has session ids with a space in them."""

    def name(self, number: int) -> str:
        return f"session {number} of this server"


class SessionsAreNumbered(_Renamed):
    """Numbers its sessions."""

    def name(self, number: int) -> str:
        return f"session-number-{number:06}"


class MissingSessionGets401(HTTPFault):
    """Refuses a request without a session id by 401."""

    def head(self, seen: Seen, status: int, fields: Fields) -> tuple[int, Fields]:
        without = SESSION_ID not in seen.request.headers and not seen.is_modern
        return (401 if without and status == 400 else status), fields


class EndedSessionGets400(HTTPFault):
    """Refuses requests of sessions that have ended by 400."""

    def head(self, seen: Seen, status: int, fields: Fields) -> tuple[int, Fields]:
        return (400 if status == 404 else status), fields


class VersionHeaderIsDemanded(HTTPFault):
    """Refuses requests without a version header."""

    def answer(self, seen: Seen) -> tuple[int, bytes] | None:
        free = "mcp-protocol-version" in seen.request.headers or seen.method == "initialize"
        return None if free else (400, b"")


class VersionHeaderIsIgnored(HTTPFault):
    """Does not look at the version header."""

    def request(self, seen: Seen) -> HTTPRequest:
        version = seen.request.headers.get("mcp-protocol-version") or ""
        return (
            seen.request
            if version == "2026-07-28"
            else with_headers(seen.request, mcp_protocol_version=None)
        )


class GetIsNotFound(HTTPFault):
    """Answers a GET with 404."""

    def answer(self, seen: Seen) -> tuple[int, bytes] | None:
        return (404, b"") if seen.request.method == "GET" else None


class _Listening(HTTPFault):
    """Answers a GET itself, and remembers what was answered to others."""

    def __init__(self) -> None:
        self.said: list[bytes] = []
        self.news = trio.lowlevel.ParkingLot()

    def whole(self, seen: Seen, body: bytes) -> bytes:
        self.say(body)
        return body

    def piece(self, seen: Seen, piece: bytes) -> bytes:
        for data in re.findall(rb"^data: (\{.*)$", piece, re.MULTILINE):
            self.say(data)
        return piece

    def say(self, message: bytes) -> None:
        if b'"id"' in message or b"notifications/progress" in message:
            self.said.append(message)
            self.news.unpark_all()

    async def handle(self, exchange: Exchange, serve: Handle) -> None:
        if exchange.request.method != "GET":
            await super().handle(exchange, serve)
            return
        exchange.cancel_with_client()
        async with exchange.stream(200, EVENTS) as send:
            told = len(self.said)
            while True:
                for message in self.said[told:]:
                    if self.wants(message):
                        await send(b"data: " + message + b"\n\n")
                told = len(self.said)
                await self.news.park()

    def wants(self, message: bytes) -> bool:
        """Whether a message goes to the streams to listen on, too."""
        return True


class AnswersComeOnListeningStreams(_Listening):
    """Sends answers on the stream to listen on as well."""

    def wants(self, message: bytes) -> bool:
        return b'"result"' in message


class ProgressComesOnListeningStreams(_Listening):
    """Sends progress on the stream to listen on as well."""

    def wants(self, message: bytes) -> bool:
        return b"notifications/progress" in message


class EverythingIsBroadcast(_Listening):
    """Sends every message on all streams."""


class ListeningStreamIsCut(HTTPFault):
    """Closes a stream to listen on at once."""

    retry = b""

    async def handle(self, exchange: Exchange, serve: Handle) -> None:
        if exchange.request.method != "GET":
            await super().handle(exchange, serve)
            return
        async with exchange.stream(200, EVENTS) as send:
            await send(self.retry + b"id: harness\ndata:\n\n")


class ListeningStreamIsEnded(ListeningStreamIsCut):
    """Closes a stream to listen on and says when to come back, which is allowed."""

    retry = b"retry: 50\n"


class StreamsBeginWithoutAnId(HTTPFault):
    """Begins streams with what it has to say."""

    def piece(self, seen: Seen, piece: bytes) -> bytes:
        return re.sub(rb"\A(id|retry)[^{]*?\n\n", b"", piece) if seen.is_post else piece


class StreamEndsWithoutTheAnswer(HTTPFault):
    """Leaves the answer out of streams with progress, and has no ids to come back with."""

    def piece(self, seen: Seen, piece: bytes) -> bytes:
        if "progressToken" not in seen.params.get("_meta", {}):
            return piece
        kept = [part for part in piece.split(b"\n\n") if part and b'"result"' not in part]
        return b"".join(re.sub(rb"^id: .*\n", b"", part) + b"\n\n" for part in kept)


class StreamIsCut(HTTPFault):
    """Closes each stream after its first events."""

    retry = b""

    def __init__(self) -> None:
        self._begun: set[int] = set()

    def piece(self, seen: Seen, piece: bytes) -> bytes:
        if not seen.is_post or seen.is_modern:
            return piece
        if id(seen) in self._begun:
            raise ClientGone("cut")
        self._begun.add(id(seen))
        return self.retry + re.sub(rb"^retry: .*\n", b"", piece, flags=re.MULTILINE)


class StreamIsLeft(StreamIsCut):
    """Closes each stream after its first events and says when to come back: allowed."""

    retry = b"retry: 50\n"


class ProgressOfOthers(HTTPFault):
    """Sends progress on whatever stream there is."""

    def __init__(self) -> None:
        self._token: bytes | None = None

    def piece(self, seen: Seen, piece: bytes) -> bytes:
        return re.sub(rb'("progressToken":\s*)"[^"]*"', rb'\1"harness-other"', piece)


class EventIdsStartAgain(HTTPFault):
    """Numbers the events of each stream from 1."""

    def piece(self, seen: Seen, piece: bytes) -> bytes:
        return re.sub(rb"^id: .*?([0-9]+)$", rb"id: \1", piece, flags=re.MULTILINE)


class ReplaysEverything(_Listening):
    """Sends all that was ever sent to who comes back."""

    async def handle(self, exchange: Exchange, serve: Handle) -> None:
        if "last-event-id" not in exchange.request.headers:
            await HTTPFault.handle(self, exchange, serve)
            return
        async with exchange.stream(200, EVENTS) as send:
            for message in self.said:
                await send(b"data: " + message + b"\n\n")


class DisconnectionCancels(HTTPFault):
    """Takes a lost connection for a cancellation."""

    def __init__(self) -> None:
        self._last: Any = None

    def request(self, seen: Seen) -> HTTPRequest:
        self._last = seen.id if seen.method == "tools/call" else self._last
        return seen.request

    async def handle(self, exchange: Exchange, serve: Handle) -> None:
        if "last-event-id" not in exchange.request.headers:
            await super().handle(exchange, serve)
            return
        error = {"code": -32800, "message": "cancelled"}
        async with exchange.stream(200, EVENTS) as send:
            await send(event({"jsonrpc": "2.0", "id": self._last, "error": error}))


class AnswersOneOfABatch(HTTPFault):
    """Answers the first request of a batch only."""

    def whole(self, seen: Seen, body: bytes) -> bytes:
        return json.dumps(json.loads(body)[:1]).encode() if body.startswith(b"[") else body


class BatchesGet200(HTTPFault):
    """Answers a batch of notifications with an empty array."""

    def head(self, seen: Seen, status: int, fields: Fields) -> tuple[int, Fields]:
        return (200 if seen.body.startswith(b"[") and status == 202 else status), fields


class _EveryOtherClient(HTTPFault):
    """Is wrong to every other client, so that the harness finds a server there at all."""

    def __init__(self) -> None:
        self._streams: list[Seen] = []

    def is_wrong(self, seen: Seen) -> bool:
        """Whether the stream that was opened by a request is one of the wrong ones."""
        if seen not in self._streams:
            self._streams.append(seen)
        return self._streams.index(seen) % 2 == 1


class FirstEventIsAMessage(_EveryOtherClient):
    """Says something to every other client before it says where messages go."""

    def piece(self, seen: Seen, piece: bytes) -> bytes:
        if not self.is_wrong(seen):
            return piece
        return piece.replace(b"event: endpoint", b"data: {}\n\nevent: endpoint")


class EndpointTakesNoPosts(_EveryOtherClient):
    """Takes what every other client posts, and does nothing with it."""

    def __init__(self) -> None:
        super().__init__()
        self._places: set[bytes] = set()

    def piece(self, seen: Seen, piece: bytes) -> bytes:
        if self.is_wrong(seen) and (named := re.search(rb"event: endpoint\ndata: .*\?(.*)", piece)):
            self._places.add(named[1])
        return piece

    def answer(self, seen: Seen) -> tuple[int, bytes] | None:
        return (202, b"") if seen.request.query.encode() in self._places else None


class AnyOriginOpensAStream(HTTPFault):
    """Opens a stream for web pages of elsewhere."""

    def request(self, seen: Seen) -> HTTPRequest:
        return with_headers(seen.request, origin=None)


OLD: Final = Setting(sse=True)

MUTANTS: Final[tuple[Mutant, ...]] = (
    http_mutant("session-id-with-a-space", SessionIdWithASpace, ["session-id-is-visible-ascii"]),
    http_mutant("sessions-are-numbered", SessionsAreNumbered, ["session-ids-cannot-be-guessed"]),
    http_mutant("missing-session-gets-401", MissingSessionGets401, ["missing-session-id-gets-400"]),
    http_mutant("ended-session-gets-400", EndedSessionGets400, ["ended-session-gets-404"]),
    http_mutant(
        "version-header-is-demanded",
        VersionHeaderIsDemanded,
        ["missing-version-header-is-tolerated"],
    ),
    http_mutant(
        "version-header-is-ignored",
        VersionHeaderIsIgnored,
        ["unsupported-version-header-gets-400"],
    ),
    http_mutant("get-is-not-found", GetIsNotFound, ["get-is-a-stream-or-405"]),
    http_mutant(
        "answers-come-on-listening-streams",
        AnswersComeOnListeningStreams,
        ["listening-streams-bring-no-answers", "messages-are-not-broadcast"],
    ),
    http_mutant(
        "progress-comes-on-listening-streams",
        ProgressComesOnListeningStreams,
        ["listening-streams-are-for-other-things", "messages-are-not-broadcast"],
    ),
    http_mutant("everything-is-broadcast", EverythingIsBroadcast, ["messages-are-not-broadcast"]),
    http_mutant(
        "listening-stream-is-cut",
        ListeningStreamIsCut,
        ["closed-listening-stream-says-when-to-come-back"],
        healthy=Setting(benign=ListeningStreamIsEnded),
    ),
    http_mutant(
        "streams-begin-without-an-id", StreamsBeginWithoutAnId, ["streams-begin-with-an-id"]
    ),
    http_mutant(
        "stream-ends-without-the-answer", StreamEndsWithoutTheAnswer, ["streams-bring-the-answer"]
    ),
    http_mutant(
        "stream-is-cut",
        StreamIsCut,
        ["closed-stream-says-when-to-come-back"],
        healthy=Setting(benign=StreamIsLeft),
    ),
    http_mutant("progress-of-others", ProgressOfOthers, ["streams-carry-their-own-progress"]),
    http_mutant("event-ids-start-again", EventIdsStartAgain, ["event-ids-are-unique"]),
    http_mutant("replays-everything", ReplaysEverything, ["replay-is-of-the-same-stream"]),
    http_mutant(
        "disconnection-cancels", DisconnectionCancels, ["disconnection-is-no-cancellation"]
    ),
    http_mutant("answers-one-of-a-batch", AnswersOneOfABatch, ["batches-are-answered-whole"]),
    http_mutant("batches-get-200", BatchesGet200, ["batches-without-requests-get-202"]),
    http_mutant(
        "first-event-is-a-message", FirstEventIsAMessage, ["endpoint-event-comes-first"], OLD
    ),
    http_mutant(
        "endpoint-takes-no-posts",
        EndpointTakesNoPosts,
        ["posted-messages-are-answered-on-the-stream"],
        OLD,
    ),
    http_mutant(
        "any-origin-opens-a-stream", AnyOriginOpensAStream, ["foreign-origin-opens-no-stream"], OLD
    ),
)
