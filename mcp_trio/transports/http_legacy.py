"""Streamable HTTP as it was from 2025-03-26 to 2025-11-25: sessions, and streams that go on.

`initialize` may begin a session: the server gives it an id, and from then on each request names it.
Three things follow, and fill this module (MCP 2025-11-25, basic/transports).

- **A stream of its own.** What the server says without being asked arrives on a GET that stays
  open. It is opened before the first call, so that nothing is missed, and again when it ends.
- **Resumption.** A stream may end before the answer: because something broke, or because the server
  would rather be polled. If its events had ids, a GET that names the last one continues it.
- **Expiry.** A server forgets sessions, and says so by 404. A new one is begun then, and the
  request is sent once more: the old session refused it, so nothing can happen twice.
"""

import logging
import re
from collections.abc import Awaitable, Callable
from typing import Final

import attrs
import trio

from mcp_trio.exceptions import TransportError
from mcp_trio.peer import Peer
from mcp_trio.protocol.errors import METHOD_NOT_FOUND
from mcp_trio.transports.http_endpoint import Endpoint, Unreachable
from mcp_trio.transports.http_pending import (
    GET_HEADERS,
    POST_HEADERS,
    Cursor,
    Deliver,
    PendingRequest,
    too_long,
)
from mcp_trio.transports.http_reply import Refusal, Reply
from mcp_trio.wire.http_headers import PROTOCOL_VERSION, SESSION_ID
from mcp_trio.wire.jsonrpc import (
    ErrorResponse,
    JSONObject,
    Notification,
    Received,
    Request,
    Response,
    decode,
    encode,
)
from mcp_trio.wire.sse import EventTooLong

logger = logging.getLogger("mcp_trio")

#: Seconds before the first attempt to resume a stream, where the server has said nothing.
FIRST_PAUSE: Final = 0.25
#: The shortest pause, whatever the server says, and the longest, unless it says so.
SHORTEST_PAUSE: Final = 0.01
LONGEST_PAUSE: Final = 30.0
#: Attempts in a row to resume the stream of a request that bring nothing.
MOST_ATTEMPTS: Final = 5
#: Seconds that the first call waits for the standalone stream to open.
OPENING_TIME: Final = 1.0
#: Seconds for ending the session.
GOODBYE_TIME: Final = 1.0

INITIALIZED: Final = "notifications/initialized"
_VISIBLE = re.compile(r"[!-~]+")


@attrs.define(eq=False)
class Session:
    """What `initialize` began; `id` is None if the server keeps no sessions."""

    id: str | None
    version: str
    listening: trio.CancelScope = attrs.field(factory=trio.CancelScope, repr=False)

    @property
    def headers(self) -> dict[str, str]:
        """What each request of the session says."""
        named = {} if self.id is None else {SESSION_ID: self.id}
        return {PROTOCOL_VERSION: self.version, **named}


class Sessions:
    """The session of one client, and those that follow it when it expires.

    Args:
        endpoint: Where everything is sent.
        nursery: Keeps the standalone stream; nothing is raised into it.
        peer: Whose requests and answers these are.
        limit: The most bytes that one message may have.
        deliver: Takes each message that arrives.

    Attributes:
        session: The session in force; None before `initialize` is answered.
        on_renewed: Called when a new session has taken the place of an expired one.
    """

    def __init__(
        self,
        endpoint: Endpoint,
        nursery: trio.Nursery,
        peer: Peer,
        limit: int,
        deliver: Deliver,
    ) -> None:
        self.session: Session | None = None
        self.on_renewed: Callable[[], object] | None = None
        self._endpoint = endpoint
        self._nursery = nursery
        self._peer = peer
        self._limit = limit
        self._deliver = deliver
        self._introduction: JSONObject | None = None
        self._renewing = trio.Lock()
        self._renewals = 0

    # Beginning and end

    async def begin(self, pending: PendingRequest) -> Refusal | None:
        """Send `initialize`; a session begins with the result.

        Returns why it was refused, and then has handed over nothing.
        """

        def adopt(session: Session) -> None:
            self.session = session

        self._introduction = pending.request.params
        return await self._introduce(pending, adopt)

    async def _introduce(
        self, pending: PendingRequest, adopt: Callable[[Session], object]
    ) -> Refusal | None:
        async with self._endpoint.open("POST", POST_HEADERS, pending.frame) as reply:
            if not reply.ok:
                return await reply.refusal()
            session_id = _session_id(reply)

            def begun(answer: Response) -> Response:
                version = answer.result.get("protocolVersion")
                if isinstance(version, str) and _VISIBLE.fullmatch(version):
                    adopt(Session(session_id, version))
                return answer

            pending.amend = begun
            broke = await self._read(pending, reply, Cursor(self._limit), pending.read)
            if not pending.answered:
                raise broke
        return None

    async def renew(self, expired: Session) -> Session:
        """A session in place of one that the server does not know any more.

        However many requests find it expired, one of them begins the new one.

        Raises:
            TransportError: That failed.
        """
        async with self._renewing:
            if self.session is not expired and self.session is not None:
                return self.session
            logger.info("the session has expired at the server: beginning a new one")
            expired.listening.cancel()
            for incoming in self._peer.serving:  # whom should the answer go to?
                incoming.scope.cancel()
            try:
                await self._begin_again(expired)
            except TransportError as error:
                text = f"the session has expired, and no new one could be begun: {error}"
                raise TransportError(text, error.status) from error
        if self.on_renewed is not None:
            self.on_renewed()
        assert self.session is not None
        return self.session

    async def _begin_again(self, expired: Session) -> None:
        self._renewals += 1
        # The peer numbers its requests; this one is none of its, and so is no number.
        request = Request(f"renewal-{self._renewals}", "initialize", self._introduction)
        answer: Received | None = None

        def deliver(received: Received, _: PendingRequest | None) -> None:
            nonlocal answer
            if isinstance(received, Response | ErrorResponse) and received.id == request.id:
                answer = received
            else:
                self._deliver(received, None)

        begun: list[Session] = []
        pending = PendingRequest(request, encode(request), False, self._limit, deliver)
        if (refusal := await self._introduce(pending, begun.append)) is not None:
            raise refusal.error
        if isinstance(answer, ErrorResponse):
            raise TransportError(f"initialize was answered: {answer.error.message}")
        if [session.version for session in begun] != [expired.version]:
            raise TransportError(f"the server does not speak {expired.version} any more")
        notification = Notification(INITIALIZED)
        refusal = await self._notify_once(notification, encode(notification), begun[0])
        if refusal is not None:
            raise refusal.error
        self.session = begun[0]

    async def end(self) -> None:
        """Tell the server that the session is over, if there is one and there is time."""
        session, self.session = self.session, None
        if session is None or session.id is None:
            return
        with trio.move_on_after(GOODBYE_TIME):
            try:
                async with self._endpoint.open("DELETE", session.headers):
                    pass  # 405 means that it cannot be ended, and nothing else matters either
            except TransportError as error:
                logger.debug("the session could not be ended: %s", error)

    # Sending

    async def request(self, pending: PendingRequest) -> None:
        """Send a request, and see to it that its answer arrives.

        Raises:
            TransportError: It will not.
        """
        session = self.session
        refusal = await self._post(pending, session)
        if refusal is not None and session is not None and _expired(session, refusal):
            refusal = await self._post(pending, await self.renew(session))
        if refusal is not None:
            pending.refuse(refusal)

    async def notify(self, notification: Notification, frame: bytes) -> None:
        """Send a notification, and wait until the server has it.

        Raises:
            TransportError: It was refused, or was not confirmed in time.
        """
        session = self.session
        refusal = await self._notify_once(notification, frame, session)
        if refusal is not None and session is not None and _expired(session, refusal):
            refusal = await self._notify_once(notification, frame, await self.renew(session))
        if refusal is not None:
            raise refusal.error

    async def answer(self, frame: bytes) -> None:
        """Send an answer to a request of the server.

        Raises:
            TransportError: It was refused. In a new session nobody would know the question.
        """
        refusal = await self._send(frame, self.session)
        if refusal is not None:
            raise refusal.error

    async def _notify_once(
        self, notification: Notification, frame: bytes, session: Session | None
    ) -> Refusal | None:
        refusal = await self._send(frame, session)
        if refusal is None and session is not None and notification.method == INITIALIZED:
            await self._start_listening(session)
        return refusal

    async def _send(self, frame: bytes, session: Session | None) -> Refusal | None:
        return await self._endpoint.tell({**POST_HEADERS, **_headers(session)}, frame)

    async def _post(self, pending: PendingRequest, session: Session | None) -> Refusal | None:
        """POST a request, and follow the stream that it may lead to through all interruptions."""
        cursor = Cursor(self._limit)
        headers = {**POST_HEADERS, **_headers(session)}
        async with self._endpoint.open("POST", headers, pending.frame) as reply:
            if not reply.ok:
                return await reply.refusal()
            broke = await self._read(pending, reply, cursor, pending.read)
        attempts = 0
        while not pending.answered:
            if not cursor.resumable or attempts == MOST_ATTEMPTS:
                raise broke
            await trio.sleep(_pause(cursor, attempts))
            cursor.moved = False
            broke = await self._resume(pending, session, cursor, broke)
            attempts = 0 if cursor.moved else attempts + 1
        return None

    async def _resume(
        self,
        pending: PendingRequest,
        session: Session | None,
        cursor: Cursor,
        broke: TransportError,
    ) -> TransportError:
        """One attempt to go on with a stream; says why it was not the last one."""
        headers = {**GET_HEADERS, **_headers(session), **cursor.headers}
        try:
            async with self._endpoint.open("GET", headers) as reply:
                if reply.ok and reply.is_stream:
                    return await self._read(pending, reply, cursor, pending.follow)
                refused = (await reply.refusal()).error
        except Unreachable as error:
            raise _unresumed(broke, error) from error
        except TransportError as error:
            return error
        if _may_pass(reply.status):
            return refused
        raise _unresumed(broke, refused)

    async def _read(
        self,
        pending: PendingRequest,
        reply: Reply,
        cursor: Cursor,
        read: Callable[[Reply, Cursor], Awaitable[None]],
    ) -> TransportError:
        """Read a reply; says why, should it turn out not to hold the answer."""
        try:
            await read(reply, cursor)
        except EventTooLong as error:
            raise too_long(reply, error) from error
        except TransportError as error:
            if not reply.is_stream:
                raise
            return error
        return TransportError(f"{reply.name}: the stream ended without the answer")

    # Listening

    async def _start_listening(self, session: Session) -> None:
        """Open the standalone stream, and wait for it a moment: the next message is a call."""
        opened = trio.Event()
        self._nursery.start_soon(self._listen, session, opened)
        with trio.move_on_after(OPENING_TIME):
            await opened.wait()

    async def _listen(self, session: Session, opened: trio.Event) -> None:
        """Keep the standalone stream open, as long as the server has one to offer."""
        try:
            with session.listening:
                if not await self._keep_listening(session, opened):
                    return
            await self._renew_for_listening(session)
        except Exception:  # of a hook of the user's httpx client, say
            logger.exception("the stream for messages of the server failed")
        finally:
            opened.set()

    async def _keep_listening(self, session: Session, opened: trio.Event) -> bool:
        """Follow the stream, however often it is cut; True once the session has expired."""
        cursor = Cursor(self._limit)
        attempts = 0
        while True:
            refusal = await self._listen_once(session, cursor, opened)
            if refusal is not None and _expired(session, refusal):
                return True
            if refusal is not None and not _may_pass(refusal.status):
                return False
            attempts = 0 if cursor.moved else attempts + 1
            cursor.moved = False
            await trio.sleep(_pause(cursor, attempts))

    async def _listen_once(
        self, session: Session, cursor: Cursor, opened: trio.Event
    ) -> Refusal | None:
        """Follow the stream to its end, if it is not refused."""
        headers = {**GET_HEADERS, **session.headers, **cursor.headers}
        try:
            async with self._endpoint.open("GET", headers) as reply:
                if not reply.ok or not reply.is_stream:
                    return await reply.refusal()
                opened.set()
                await cursor.follow(reply, lambda data: self._deliver(decode(data), None))
        except EventTooLong as error:
            logger.warning("skipped a message of the server: %s", error)
            cursor.last_event_id = ""  # or it would come again
        except TransportError as error:
            logger.debug("the stream for messages of the server broke: %s", error)
        finally:
            opened.set()
        return None

    async def _renew_for_listening(self, expired: Session) -> None:
        """Begin a new session, which has a stream of its own, unless a call does so first."""
        attempts = 0
        while self.session is expired:
            try:
                await self.renew(expired)
            except TransportError as error:
                logger.warning("%s", error)
                attempts += 1
                await trio.sleep(_pause(Cursor(self._limit), attempts))


def _headers(session: Session | None) -> dict[str, str]:
    return {} if session is None else session.headers


def _session_id(reply: Reply) -> str | None:
    found = reply.header(SESSION_ID)
    if found is not None and not _VISIBLE.fullmatch(found):
        raise TransportError(f"{reply.name}: the session id holds what no header may hold")
    return found


def _expired(session: Session, refusal: Refusal) -> bool:
    """Whether a server does not know the session any more.

    It says so by 404, whatever the body (often an error -32001; but -32601 means the method, as in
    later revisions). Common servers say it by 400 and
    in words, such as "No valid session ID provided" or "Server not initialized".
    """
    if session.id is None:
        return False
    if refusal.status == 400 and refusal.answer is not None:
        said = refusal.answer.error.message.lower()
        return "session" in said or "not initialized" in said
    unknown_method = refusal.answer is not None and refusal.answer.error.code == METHOD_NOT_FOUND
    return refusal.status == 404 and not unknown_method


def _may_pass(status: int) -> bool:
    """Whether a GET that was refused so may succeed a little later.

    409 is said where the server has not noticed yet that the stream before has broken.
    """
    return status in (408, 409, 425, 429) or status >= 500


def _pause(cursor: Cursor, attempts: int) -> float:
    """Seconds before the next attempt: what the server said, and more after each in vain."""
    first = FIRST_PAUSE if cursor.retry is None else cursor.retry
    pause = min(first * 2.0 ** min(attempts, 16), max(first, LONGEST_PAUSE))
    return max(pause, SHORTEST_PAUSE)


def _unresumed(broke: TransportError, error: TransportError) -> TransportError:
    return TransportError(f"{broke}; it could not be resumed: {error}", error.status)
