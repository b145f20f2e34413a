"""The HTTP requests of legacy sessions: POST to send, GET to listen or come back, DELETE to end.

(MCP 2025-11-25, basic/transports, Streamable HTTP)
"""

from collections.abc import Mapping

from mcp_trio.protocol.errors import INVALID_REQUEST
from mcp_trio.protocol.revisions import supports
from mcp_trio.server.http.replies import JSON_HEADERS, SSE_HEADERS, Refused, pump
from mcp_trio.server.http.sessions import HTTPSession, Sessions
from mcp_trio.server.http.streams import Reader
from mcp_trio.server.http.visit import Visit
from mcp_trio.transports.http_exchange import ClientGone, Exchange
from mcp_trio.wire.http_headers import LAST_EVENT_ID, SESSION_ID
from mcp_trio.wire.jsonrpc import (
    Batch,
    Malformed,
    Message,
    Received,
    Request,
    RequestId,
)

#: Seconds that an answer may take to be JSON. Afterwards it becomes a stream, which does not look
#: dead to proxies, and to which the client can come back when the connection breaks.
PATIENCE = 1.0


class LegacyEndpoint:
    """What an endpoint does for clients with sessions.

    Args:
        sessions: All sessions of this endpoint.
        keep_alive: Seconds of silence after which a stream gets a sign of life.
    """

    def __init__(self, sessions: Sessions, keep_alive: float) -> None:
        self.sessions = sessions
        self._keep_alive = keep_alive

    async def initialize(self, visit: Visit, request: Request) -> None:
        """Answer `initialize` in a new session.

        Raises:
            Refused: 503, there are too many sessions.
            ClientGone: The client went away; so does the session.
        """
        session = await self.sessions.open(visit.running, visit.principal)
        with self.sessions.used(session):
            reader = session.take(request, [request.id], visit.principal)
            try:
                await self._answer(visit.exchange, session, reader, {SESSION_ID: session.id})
            finally:
                if session.session.version is None:
                    self.sessions.end(session, "initialize failed")
                elif not visit.exchange.answered:
                    self.sessions.end(session, "its client left before it knew the session")

    async def post(self, visit: Visit, session: HTTPSession, received: Received) -> None:
        """Take what a client sends, and answer the requests that are in it.

        Raises:
            Refused: 400 for a batch that the revision does not have or that has no message in
                it, or an id that is in use; 404 if the session has ended while this was sent.
            ClientGone: The client went away. Its requests go on.
        """
        if session.peer.closed is not None:
            raise _ended()
        with self.sessions.used(session):
            ids = _request_ids(received)
            if isinstance(received, Batch):
                _check_batch(received, session.session.version)
            for id in ids:
                if session.streams.in_use(id):
                    text = f"Request id {id!r} is in use by a request that is not answered yet."
                    raise Refused(400, INVALID_REQUEST, text, id=id)
            reader = session.take(received, ids, visit.principal)
            if ids:
                await self._answer(visit.exchange, session, reader, {})
            else:
                await visit.exchange.respond(202)

    async def get(self, exchange: Exchange, session: HTTPSession) -> None:
        """Let a client listen: to what belongs to no request, or on where it lost a stream.

        Raises:
            Refused: 400 for an event that is not known, 409 for too many at a time.
            ClientGone: The client went away.
        """
        event_id = exchange.request.headers.get(LAST_EVENT_ID)
        streams = session.streams
        if event_id:
            found = streams.find(event_id.strip(" \t"))
            if found is None:
                text = "There is nothing to come back to after this Last-Event-ID."
                raise Refused(400, INVALID_REQUEST, text)
            reader = found[0].attach(found[1])
        else:
            stream = streams.to_listen()
            if stream is None:
                text = "This session listens on too many streams already."
                raise Refused(409, INVALID_REQUEST, text)
            reader = stream.attach()
        streams.listens(reader.stream)
        with self.sessions.used(session):
            await self._stream(exchange, reader, {})

    async def delete(self, exchange: Exchange, session: HTTPSession) -> None:
        """End a session because its client asks for it."""
        self.sessions.end(session, "its client ended the session")
        await exchange.respond(204)

    async def _answer(
        self,
        exchange: Exchange,
        session: HTTPSession,
        reader: Reader,
        headers: Mapping[str, str],
    ) -> None:
        """Respond with the answer as JSON, or with a stream that brings it."""
        stream = reader.stream
        try:
            with exchange.cancelled_by_disconnect() as watch:
                answer = await stream.single_answer(PATIENCE)
            if watch.cancelled_caught:
                raise ClientGone("the client went away before there was an answer")
            if answer is not None:
                await exchange.respond(200, {**JSON_HEADERS, **headers}, answer)
            elif session.peer.closed is not None:
                raise _ended()
            elif stream.has_nothing:  # cancelled by its client, who is owed no answer
                await exchange.respond(200, {**SSE_HEADERS, **headers})
            else:
                session.streams.make_resumable(stream)
                await self._stream(exchange, reader, headers)
        finally:
            stream.detach(reader)

    async def _stream(self, exchange: Exchange, reader: Reader, headers: Mapping[str, str]) -> None:
        """Respond with the events of a stream, until it ends or its client goes away."""
        try:
            async with exchange.stream(200, {**SSE_HEADERS, **headers}) as send:
                with exchange.cancelled_by_disconnect() as watch:
                    await pump(reader, send, self._keep_alive)
                if watch.cancelled_caught:
                    raise ClientGone("the client went away")
        finally:
            reader.stream.detach(reader)


def _request_ids(received: Received) -> list[RequestId]:
    """The ids of the requests in what a client sent, which all are owed an answer."""
    items = received.items if isinstance(received, Batch) else (received,)
    owed = [
        item.id
        for item in items
        if isinstance(item, Request)
        or (isinstance(item, Malformed) and item.is_request and item.id is not None)
    ]
    return [id for id in dict.fromkeys(owed) if id is not None]


def _check_batch(batch: Batch, version: str | None) -> None:
    if version is None or not supports("batches", version):
        text = f"Protocol version {version} has no batches: send each message by itself."
        raise Refused(400, INVALID_REQUEST, text)
    if any(isinstance(item, Request) and item.method == "initialize" for item in batch.items):
        raise Refused(400, INVALID_REQUEST, "initialize must not be part of a batch.")
    first = batch.items[0]
    if isinstance(first, Malformed) and not any(map(_is_useful, batch.items)):
        raise Refused(400, first.code, first.reason)


def _is_useful(item: Message | Malformed) -> bool:
    """Whether it can be taken in, or at least answered."""
    return not isinstance(item, Malformed) or item.id is not None


def _ended() -> Refused:
    return Refused(404, INVALID_REQUEST, "The session has ended.")
