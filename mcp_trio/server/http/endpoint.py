"""The endpoint of Streamable HTTP: both eras at one address.

The order in which things are judged is part of the protocol. A session comes first, where one is
named: a client whose session is gone has to hear just that, whatever else may be wrong. Then what
the client sends and takes, then the body, and with it the era: a POST is modern if its header or
its message names a modern version, and legacy otherwise.
"""

import inspect
from typing import TYPE_CHECKING, NoReturn

from mcp_trio.protocol import meta as keys
from mcp_trio.protocol.errors import (
    HEADER_MISMATCH,
    INVALID_REQUEST,
    PARSE_ERROR,
    unsupported_version,
)
from mcp_trio.server.http.legacy import LegacyEndpoint
from mcp_trio.server.http.modern import answer_modern
from mcp_trio.server.http.negotiation import JSON_TYPE, SSE_TYPE, accepts, is_json
from mcp_trio.server.http.options import Settings
from mcp_trio.server.http.replies import Refused, logger
from mcp_trio.server.http.sessions import HTTPSession, Sessions
from mcp_trio.server.http.stateless import answer_stateless, answer_stateless_batch
from mcp_trio.server.http.visit import Visit
from mcp_trio.server.session import Session
from mcp_trio.transports.http_exchange import HTTPRequest
from mcp_trio.wire.http_headers import PROTOCOL_VERSION, SESSION_ID
from mcp_trio.wire.jsonrpc import (
    Batch,
    Malformed,
    Noise,
    Notification,
    Received,
    Request,
    RequestId,
    decode,
)

if TYPE_CHECKING:
    from mcp_trio.server.app import Server

#: What a legacy request without a version header is under, where no session says otherwise
#: (MCP 2025-11-25, basic/transports, Protocol Version Header).
UNSTATED_VERSION = "2025-03-26"


class Endpoint:
    """Answers what comes to the endpoint's path.

    Attributes:
        sessions: The legacy sessions.
    """

    def __init__(self, server: "Server", settings: Settings) -> None:
        self.sessions = Sessions(server, settings)
        self._server = server
        self._settings = settings
        self._served_modern = server.dispatcher.modern
        self._served_legacy = server.dispatcher.legacy
        self._with_sessions = bool(self._served_legacy) and not settings.stateless
        self._legacy = LegacyEndpoint(self.sessions, settings.keep_alive)

    async def answer(self, visit: Visit) -> None:
        """Answer one HTTP request.

        Raises:
            Refused: It has to be answered with an error.
            ClientGone: Nobody is there to be answered.
        """
        request = visit.exchange.request
        version = _version(request)
        with_sessions = self._with_sessions and version not in self._served_modern
        session_id = request.headers.get(SESSION_ID) if with_sessions else None
        session = None if session_id is None else self.sessions.find(session_id, visit.principal)
        if request.method == "POST":
            await self._post(visit, version, session)
        elif with_sessions and request.method in ("GET", "DELETE"):
            await self._get_or_delete(visit, version, session)
        else:
            allowed = "GET, POST, DELETE" if with_sessions else "POST"
            text = f"This endpoint does not answer {request.method}."
            raise Refused(405, INVALID_REQUEST, text, headers={"allow": allowed})

    async def _get_or_delete(
        self, visit: Visit, version: str | None, session: HTTPSession | None
    ) -> None:
        request = visit.exchange.request
        if session is None:
            self._refuse_without_session(None)
        self._check_version(version, None)
        if request.method == "DELETE":
            await self._legacy.delete(visit.exchange, session)
        elif accepts(request.headers.get("accept"), SSE_TYPE):
            await self._legacy.get(visit.exchange, session)
        else:
            raise Refused(406, INVALID_REQUEST, f"The answer is {SSE_TYPE}; Accept has to say so.")

    async def _post(self, visit: Visit, version: str | None, session: HTTPSession | None) -> None:
        _check_media_types(visit.exchange.request)
        received = decode(await visit.exchange.body(self._server.line_limit))
        if isinstance(received, Malformed | Noise):
            self._refuse_unreadable(received, session)
        if self._is_modern(version, received):
            await self._post_modern(visit, received)
            return
        begins = isinstance(received, Request) and received.method == "initialize"
        if session is not None or not begins:  # initialize itself says which versions it takes
            self._check_version(version, _id_of(received))
        self._check_has_legacy(version, _id_of(received))
        if self._settings.stateless:
            await self._post_stateless(visit, version or UNSTATED_VERSION, received)
        elif session is not None:
            await self._legacy.post(visit, session, received)
        elif isinstance(received, Request) and begins:
            await self._legacy.initialize(visit, received)
        else:
            self._refuse_without_session(_id_of(received))

    def _is_modern(self, version: str | None, received: Received) -> bool:
        if version in self._served_modern:
            return True
        if not self._served_modern:
            return False
        items = received.items if isinstance(received, Batch) else (received,)
        return any(map(_states_version, items))

    # What each era makes of a message

    async def _post_modern(self, visit: Visit, received: Received) -> None:
        if isinstance(received, Request):
            await answer_modern(self._server, visit, received, self._settings.keep_alive)
        elif isinstance(received, Notification):
            await self._take_notification(visit, received, None)
        else:
            text = "The body has to be one request or one notification."
            raise Refused(400, INVALID_REQUEST, text)

    async def _post_stateless(self, visit: Visit, version: str, received: Received) -> None:
        self._check_version(version, _id_of(received))
        settings = self._settings
        if isinstance(received, Request):
            await answer_stateless(self._server, visit, received, version, settings.keep_alive)
        elif isinstance(received, Batch):
            await answer_stateless_batch(
                self._server, visit, received, version, settings, self._legacy
            )
        elif isinstance(received, Notification):
            await self._take_notification(visit, received, version)
        else:
            await visit.exchange.respond(202)  # an answer to nothing: no harm done

    async def _take_notification(
        self, visit: Visit, notification: Notification, version: str | None
    ) -> None:
        """Handle a notification that belongs to no session."""
        handler = self._server.find_notification_handler(notification.method, version)
        session = Session(visit.nobody, version, stateless=True, principal=visit.principal)
        try:
            if handler is not None:
                handled = handler(notification.params or {}, session)
                if inspect.isawaitable(handled):
                    await handled
        except* Exception:
            logger.exception("the handler of %s failed", notification.method)
        await visit.exchange.respond(202)

    # Refusals

    def _check_version(self, version: str | None, id: RequestId | None) -> None:
        """Refuse a version header, or what stands for a missing one, that is not served."""
        if version is None or version in self._served_legacy:
            return
        if self._served_modern:
            raise Refused.because(unsupported_version(version, self._served_modern), 400, id)
        served = ", ".join(self._served_legacy)
        text = f"Protocol version {version!r} is not served here; these are: {served}."
        raise Refused(400, INVALID_REQUEST, text, id=id)

    def _check_has_legacy(self, version: str | None, id: RequestId | None) -> None:
        if not self._served_legacy:
            served = ", ".join(self._served_modern)
            text = f"{PROTOCOL_VERSION} is missing; this server speaks only {served}."
            raise Refused(400, HEADER_MISMATCH, text, id=id)

    def _refuse_without_session(self, id: RequestId | None) -> NoReturn:
        text = f"{SESSION_ID} is missing: send initialize first, and then the id that it gives."
        raise Refused(400, INVALID_REQUEST, text, id=id)

    def _refuse_unreadable(
        self, received: Malformed | Noise, session: HTTPSession | None
    ) -> NoReturn:
        if isinstance(received, Noise):
            raise Refused(400, PARSE_ERROR, "The body is not JSON.")
        if session is not None and not received.is_request:
            session.peer.feed(received)  # somebody may wait for the answer that it was to be
        id = received.id if received.is_request else None
        raise Refused(400, received.code, received.reason, id=id)


def _version(request: HTTPRequest) -> str | None:
    version = request.headers.get(PROTOCOL_VERSION)
    return None if version is None else version.strip(" \t")


def _states_version(received: Received) -> bool:
    if not isinstance(received, Request | Notification):
        return False
    meta = (received.params or {}).get(keys.META)
    return isinstance(meta, dict) and keys.PROTOCOL_VERSION in meta


def _check_media_types(request: HTTPRequest) -> None:
    if not is_json(request.headers.get("content-type")):
        raise Refused(415, INVALID_REQUEST, f"A message is {JSON_TYPE}; Content-Type has to be so.")
    if not accepts(request.headers.get("accept"), JSON_TYPE, SSE_TYPE):
        text = f"The answer is {JSON_TYPE} or {SSE_TYPE}; Accept has to list both."
        raise Refused(406, INVALID_REQUEST, text)


def _id_of(received: Received) -> RequestId | None:
    return received.id if isinstance(received, Request) else None
