"""A conversation over HTTP, request by request, for checks that are about the requests.

    async with open_talk(probe) as talk:
        message = talk.message("ping")
        reply = await talk.post(message, {"Origin": "https://elsewhere.invalid"})
        expect(reply.status == 403, f"expected 403, got {reply.brief()}")

What is posted has all the headers that it should have, and then those changes that the check wants.
The session below is there for the handshake and as the measure of what is right.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager

import trio

from mcp_trio.exceptions import TransportError
from mcp_trio.harness.http_plain import (
    LISTENING,
    POSTING,
    HeaderChanges,
    HTTPClient,
    HTTPReply,
    HTTPStream,
)
from mcp_trio.harness.http_target import HTTPWire
from mcp_trio.harness.model import Failed, Late
from mcp_trio.harness.probe import ServerProbe
from mcp_trio.harness.session import Session, dump, shake_hands
from mcp_trio.wire.http_headers import LAST_EVENT_ID
from mcp_trio.wire.jsonrpc import JSON, JSONObject
from mcp_trio.wire.sse import ServerSentEvent

LINGER = 1.0
"""Seconds that a stream has to end after its answer has come."""


class HTTPTalk:
    """HTTP requests in a session; made by `open_talk` or `talk_of`.

    Attributes:
        session: The session that they belong to.
        wire: What that one goes over.
    """

    def __init__(self, session: Session) -> None:
        assert isinstance(session.wire, HTTPWire)
        self.session = session
        self.wire = session.wire

    @property
    def http(self) -> HTTPClient:
        return self.wire.http

    def message(
        self,
        method: str,
        params: Mapping[str, JSON] | None = None,
        *,
        meta: Mapping[str, JSON] | None = None,
    ) -> JSONObject:
        """A request with an id of its own."""
        return self.session.message(method, params, id=self.session.next_id(), meta=meta)

    def harmless(self) -> JSONObject:
        """A request that every server answers and that changes nothing."""
        return self.message("server/discover" if self.session.is_modern else "ping")

    def headers(self, message: JSONObject) -> dict[str, str | None]:
        """All that a message should go with."""
        return {**POSTING, **self.wire.headers(message)}

    async def post(
        self,
        message: JSONObject | bytes,
        changes: HeaderChanges | None = None,
        *,
        like: JSONObject | None = None,
    ) -> HTTPReply:
        """POST a message and take all that comes back.

        Args:
            message: It, or the bytes of the body.
            changes: Headers that are to be other than they should; None takes one away.
            like: The message whose headers it goes with, if that is another one.

        Raises:
            Failed: There is no answer.
        """
        readable = message if isinstance(message, dict) else {}
        body = message if isinstance(message, bytes) else dump(message)
        headers = merged(self.headers(readable if like is None else like), changes or {})
        try:
            with trio.fail_after(self.session.deadline):
                async with self.http.open("POST", headers, body) as stream:
                    await _take(stream, readable)
                    return stream.reply()
        except TransportError as error:
            raise Failed(str(error)) from error
        except trio.TooSlowError:
            late = f"{readable.get('method', 'a POST')} got no whole answer"
            raise Late(f"{late} within {self.session.deadline:g} s") from None

    def get(
        self, *, last_event_id: str | None = None, changes: HeaderChanges | None = None
    ) -> AbstractAsyncContextManager[HTTPStream]:
        """Open a stream, to listen on or to resume another one.

        Raises:
            TransportError: There is no answer.
        """
        headers: dict[str, str | None] = {**LISTENING, **self.wire.headers({})}
        if last_event_id is not None:
            headers[LAST_EVENT_ID] = last_event_id
        return self.http.open("GET", merged(headers, changes or {}))

    async def delete(self) -> HTTPReply:
        """End the session."""
        return await self.http.request("DELETE", self.wire.headers({}))


async def _take(stream: HTTPStream, message: JSONObject) -> None:
    if not stream.is_stream or "id" not in message:
        await stream.wait_ended()
        return
    await stream.find(lambda event: answers(event, message["id"]), float("inf"))
    with trio.move_on_after(LINGER):
        await stream.wait_ended()


def answers(event: ServerSentEvent, id: JSON) -> bool:
    """Whether an event holds the answer to a request."""
    return any("method" not in item and item.get("id") == id for item in messages_in(event))


def messages_in(event: ServerSentEvent) -> list[JSONObject]:
    """The messages in an event: one, or those of a batch."""
    try:
        value = json.loads(event.data)
    except (ValueError, RecursionError):
        return []
    items = value if isinstance(value, list) else [value]
    return [item for item in items if isinstance(item, dict)]


def merged(headers: HeaderChanges, changes: HeaderChanges) -> dict[str, str | None]:
    """Headers with changes, whatever the case of their names."""
    changed = {name.lower() for name in changes}
    kept = {name: value for name, value in headers.items() if name.lower() not in changed}
    return {**kept, **changes}


async def talk_of(probe: ServerProbe) -> HTTPTalk:
    """The talk in the session that the probe keeps: for checks that leave it as it was."""
    return HTTPTalk(await probe.session())


@asynccontextmanager
async def open_talk(
    probe: ServerProbe, *, capabilities: JSONObject | None = None
) -> AsyncIterator[HTTPTalk]:
    """A talk in a session of its own, in which nobody listens yet."""
    opening = probe.open_session(capabilities=capabilities, handshake=False)
    async with opening as session:
        talk = HTTPTalk(session)
        talk.wire.listens = False
        await shake_hands(session)
        yield talk
