"""Legacy sessions: what the server remembers of a client between its HTTP requests.

A session is a peer whose messages arrive by POSTs. It has a task and a nursery of its own, in
which its handlers run: a handler belongs to the session and not to the HTTP request that brought
its request, and so it goes on when that breaks off.

Nothing tells the server that a client will not come back. So a session that nobody uses is ended
after a while, and when there are too many, the one that was unused longest goes first. A client
that comes back after all is told 404, and starts anew.
(MCP 2025-11-25, basic/transports, Session Management)
"""

import secrets
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING

import trio

from mcp_trio.exceptions import Closed
from mcp_trio.incoming import IncomingRequest
from mcp_trio.peer import Peer
from mcp_trio.protocol.errors import INTERNAL_ERROR, INVALID_REQUEST
from mcp_trio.protocol.revisions import supports
from mcp_trio.server.http.options import Settings
from mcp_trio.server.http.replies import Refused, logger
from mcp_trio.server.http.streams import Reader, Streams
from mcp_trio.server.serving import Notifications
from mcp_trio.server.session import Session
from mcp_trio.server.state import principal_name
from mcp_trio.wire.jsonrpc import JSONObject, Received, RequestId

if TYPE_CHECKING:
    from mcp_trio.server.app import Running, Server

#: Random bytes in the id of a session: nobody guesses 256 bits.
ID_BYTES = 32


class HTTPSession:
    """One legacy session.

    Attributes:
        id: As the client has it, in Mcp-Session-Id.
        owner: The name of the principal that opened it.
        streams: Where its messages go.
        peer, session: What it is for handlers, as for any other connection.
    """

    peer: Peer
    session: Session

    def __init__(self, principal: object, settings: Settings) -> None:
        self.id = secrets.token_urlsafe(ID_BYTES)
        self.owner = principal_name(principal)
        self.streams = Streams(self.id, settings.event_store)
        self.users = 0
        self._principal = principal

    async def run(
        self,
        server: "Server",
        running: "Running",
        *,
        task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED,
    ) -> None:
        """The session's task: owns everything that the session does, until it is closed."""
        async with trio.open_nursery() as nursery:
            self.peer = Peer(
                nursery,
                self.streams,
                handle=partial(self._handle, server, running),
                on_notification=lambda notification: notifications.take(notification),
                max_in_flight=server.max_in_flight,
                on_served=lambda incoming: self.streams.served(incoming.id),
            )
            self.session = Session(self.peer, principal=self._principal)
            self.session.close_stream = self.streams.hang_up
            notifications = Notifications(server, self.session, nursery)
            try:
                nursery.start_soon(server.accompany, self.session)
                task_status.started()
                await self.peer.wait_closed()
                nursery.cancel_scope.cancel()
            finally:
                self.peer.close(Closed("the server ended the session"))

    async def _handle(
        self, server: "Server", running: "Running", incoming: IncomingRequest
    ) -> JSONObject:
        result = await server.dispatcher.answer(incoming, self.session, running.value)
        if incoming.method == "initialize":
            self.streams.primed = supports("sse_polling", self.session.version or "")
        return result

    def take(self, received: Received, ids: Collection[RequestId], principal: object) -> Reader:
        """Hand the peer what a POST brought; gives the stream that its requests are answered on."""
        reader = self.streams.for_requests(ids)
        self.peer.feed(received)
        accepted = {incoming.id: incoming for incoming in self.peer.serving}
        for id in ids:
            if id in accepted:
                accepted[id].principal = principal
            else:
                self.streams.served(id)
        return reader


class Sessions:
    """The sessions of one endpoint, by id."""

    def __init__(self, server: "Server", settings: Settings) -> None:
        self._server = server
        self._settings = settings
        self._by_id: dict[str, HTTPSession] = {}
        #: Those that nobody uses, and since when; the one that was used last comes last.
        self._idle: dict[HTTPSession, float] = {}
        self._first_idle = trio.Event()
        self._watched: trio.Nursery | None = None

    def __len__(self) -> int:
        return len(self._by_id)

    async def open(self, running: "Running", principal: object) -> HTTPSession:
        """Start a session.

        Raises:
            Refused: 503, there are too many and all of them are in use.
        """
        if len(self._by_id) >= self._settings.max_sessions:
            self._make_room()
        if self._watched is not running.nursery:
            self._watched = running.nursery
            running.nursery.start_soon(self._expire)
        session = HTTPSession(principal, self._settings)
        self._by_id[session.id] = session
        try:
            await running.nursery.start(self._run, session, running)
        finally:  # nobody may come to use it, as when this is cancelled
            if session.id in self._by_id:
                self._idle[session] = trio.current_time()
                self._first_idle.set()
        return session

    def find(self, id: str, principal: object) -> HTTPSession:
        """The session with this id, if it belongs to this principal.

        Raises:
            Refused: 404, which tells a client to start a new one.
        """
        session = self._by_id.get(id)
        if session is None or session.owner != principal_name(principal):
            text = "There is no such session, or it has ended. Start a new one with initialize."
            raise Refused(404, INVALID_REQUEST, text)
        return session

    def end(self, session: HTTPSession, reason: str) -> None:
        """End a session: its handlers are cancelled, its streams end, its id is forgotten."""
        self._forget(session)
        session.peer.close(Closed(reason))

    def end_listening(self) -> None:
        """End the streams on which clients only listen, as before a shutdown."""
        for session in self._by_id.values():
            session.streams.end_listening()

    @contextmanager
    def used(self, session: HTTPSession) -> Iterator[None]:
        """For the length of a block, the session is in use and does not expire."""
        session.users += 1
        self._idle.pop(session, None)
        try:
            yield
        finally:
            session.users -= 1
            if not session.users and session.id in self._by_id:
                self._idle[session] = trio.current_time()
                self._first_idle.set()

    async def _run(
        self,
        session: HTTPSession,
        running: "Running",
        *,
        task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED,
    ) -> None:
        try:
            await session.run(self._server, running, task_status=task_status)
        except* Exception:  # would end all the others
            logger.exception("a session failed")
        finally:
            self._forget(session)

    def _forget(self, session: HTTPSession) -> None:
        self._by_id.pop(session.id, None)
        self._idle.pop(session, None)

    def _make_room(self) -> None:
        if not self._idle:
            text = "There are too many sessions. Try again later."
            raise Refused(503, INTERNAL_ERROR, text, headers={"retry-after": "10"})
        self.end(next(iter(self._idle)), "it made room for a new session")

    async def _expire(self) -> None:
        """End sessions that nobody has used for too long, as long as the server runs."""
        while True:
            if not self._idle:
                self._first_idle = trio.Event()
                await self._first_idle.wait()
            session, since = next(iter(self._idle.items()), (None, 0.0))
            expiry = since + self._settings.session_idle
            if session is not None and trio.current_time() >= expiry:
                self.end(session, "nobody used the session for too long")
            elif session is not None:
                await trio.sleep_until(expiry)
