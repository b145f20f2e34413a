"""A legacy client: it has a session, and a server of its own behind it.

What a session remembers is the server's business, so each one gets its own: a process of its own
where the server is a process. A legacy server knows the client for what it is, and nearly
everything passes as it is, in both directions. A modern server remembers nothing; what the client
said in its session is added to each request, and what the server asks by its results is asked on as
requests of our own.
"""

from contextlib import nullcontext
from functools import partial

import trio

from mcp_trio.call import ProgressCallback
from mcp_trio.client.client import Client
from mcp_trio.client.questions import BadQuestion
from mcp_trio.client.rounds import ask_in_rounds
from mcp_trio.exceptions import ConnectionClosed, MCPError, ProtocolError
from mcp_trio.incoming import IncomingRequest
from mcp_trio.protocol.convert import structure
from mcp_trio.protocol.errors import INVALID_REQUEST, METHOD_NOT_FOUND
from mcp_trio.protocol.fit import FitError, fit_result
from mcp_trio.protocol.methods import METHODS
from mcp_trio.protocol.revisions import is_modern
from mcp_trio.protocol.types.base import Implementation
from mcp_trio.proxy.calls import FAILURES, PROGRESS, OpenCall
from mcp_trio.proxy.changes import SessionChanges
from mcp_trio.proxy.eras import question_params, refusal_of
from mcp_trio.proxy.links import (
    Link,
    server_info,
    set_log_level,
    subscription_of,
    without_token,
)
from mcp_trio.proxy.passing import Passing, is_change
from mcp_trio.proxy.upstream import answer_for
from mcp_trio.server.context import Context
from mcp_trio.server.lifecycle import begin_session, check_introduction, set_level
from mcp_trio.server.params import required
from mcp_trio.server.session import Session
from mcp_trio.wire.jsonrpc import MISSING, JSONObject, Notification, RequestId

#: How often a modern server may ask before it has to give its result.
MOST_ROUNDS = 10
#: Seconds before a request is sent again that asked for nothing but that.
ROUND_PAUSE = 0.1
#: Notifications of the server that a legacy client may get before it says that it is ready.
_EARLY = frozenset(name for name, row in METHODS.items() if row.early)


class SessionLink(Link):
    """One legacy client and the server behind it.

    Args:
        session: The session with the client.
        nursery: Lasts as long as the session.

    Attributes:
        version: The revision that the client speaks, once it has said so.
        client_info, client_capabilities: What else it has said.
    """

    def __init__(self, session: Session, nursery: trio.Nursery) -> None:
        super().__init__(nursery)
        self.version = ""
        self.client_info: Implementation | None = None
        self.client_capabilities: JSONObject = {}
        self.specials = {
            "initialize": self._initialize,
            "ping": self._ping,
            "logging/setLevel": self._set_level,
            "resources/subscribe": self._subscribe,
            "resources/unsubscribe": self._unsubscribe,
        }
        self._session = session
        self._news = Passing(self._tell, nursery)
        self._changes = SessionChanges(session, self._news)

    async def pass_on(self, ctx: Context, params: JSONObject) -> JSONObject:
        client = await self.upstream.connected()
        if not is_modern(client.protocol_version):
            return await self.exchange(ctx, params, client)
        result = await self._ask_in_rounds(ctx, params)
        return self.translated(ctx, params, result, client)

    async def _ask_in_rounds(self, ctx: Context, params: JSONObject) -> JSONObject:
        """Call a modern server, asking the client whatever its results ask for."""
        call = OpenCall(ctx, self.nursery)
        call.only_rising = True  # a server that is asked again reports from its start

        async def send(attempt: JSONObject) -> JSONObject:
            return await call.exchange(await self.upstream.connected(), attempt)

        try:
            with self.calls.open(call):
                return await ask_in_rounds(
                    send,
                    ctx.method,
                    params,
                    _Rounds(self, ctx),
                    max_rounds=MOST_ROUNDS,
                    backoff=ROUND_PAUSE,
                    while_open=nullcontext,
                )
        except ProtocolError as exc:
            raise answer_for(exc) from exc

    # Methods that are not just passed on

    async def _initialize(self, ctx: Context, params: JSONObject) -> JSONObject:
        """Open the server as this client's, and tell the client what the server says of itself."""
        check_introduction(self._session, params)
        self.version = ctx.protocol_version
        self.client_info = structure(params["clientInfo"], Implementation)
        self.client_capabilities = params["capabilities"]
        client = await self.upstream.connected()
        begin_session(self._session, params, ctx.protocol_version)
        return {
            "protocolVersion": ctx.protocol_version,
            "serverInfo": server_info(client) or ctx.server.info,
            **self.introduce(ctx, client),
        }

    async def _ping(self, ctx: Context, params: JSONObject) -> JSONObject:
        """Pass a ping on; one that comes before `initialize` is for us."""
        if self._session.version is None:
            return {}
        client = await self.upstream.connected()
        if not is_modern(client.protocol_version):
            return await self.exchange(ctx, params, client)
        await self.ping(client)
        return {}

    async def _set_level(self, ctx: Context, params: JSONObject) -> JSONObject:
        """Set the log level: at a legacy server, and for all requests to a modern one."""
        client = await self.upstream.connected()
        if client.capabilities.logging is None and is_modern(client.protocol_version):
            raise MCPError(METHOD_NOT_FOUND, "The server behind this one sends no log messages.")
        before = self._session.log_level
        result = await set_level(ctx, params)
        if not is_modern(client.protocol_version):
            try:
                await client.set_log_level(params["level"])
            except BaseException as exc:
                self._session.log_level = before
                if isinstance(exc, FAILURES):
                    raise answer_for(exc) from exc
                raise
        return result

    async def _subscribe(self, ctx: Context, params: JSONObject) -> JSONObject:
        uri = required(params, "uri", str)
        await self._changes.subscribe(await self.upstream.connected(), uri)
        return {}

    async def _unsubscribe(self, ctx: Context, params: JSONObject) -> JSONObject:
        self._changes.unsubscribe(required(params, "uri", str))
        return {}

    # What the server sends of itself

    def is_missed(self) -> bool:
        return self._changes.wanted

    async def attend(
        self,
        client: Client,
        *,
        task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED,
    ) -> None:
        """Have a server that takes the place of another know what the session had said."""
        await set_log_level(client, self._session.log_level)
        await self._changes.attend(client, task_status=task_status)

    async def asked(self, incoming: IncomingRequest) -> JSONObject:
        """Pass a request of a legacy server on to the client, as one of our own.

        Raises:
            MCPError: The client's error, or that it cannot be asked.
        """
        method, params = incoming.method, incoming.params
        if method == "ping" and self._session.version is None:
            return {}
        refused = refusal_of(method, params, self._session.client_capabilities)
        if refused is not None:
            raise refused
        related = self._related()
        answer = await self.ask(method, params, related, partial(_progressed, incoming))
        client = self.upstream.current
        try:
            return answer if client is None else fit_result(method, answer, client.protocol_version)
        except FitError as exc:
            raise MCPError(INVALID_REQUEST, str(exc)) from exc

    async def ask(
        self,
        method: str,
        params: JSONObject,
        related: RequestId | None,
        on_progress: ProgressCallback | None = None,
    ) -> JSONObject:
        """Ask the client something.

        Raises:
            MCPError: Its error, or that it cannot be asked.
        """
        session = self._session
        if method != "ping":
            await session.ready.wait()
        fitted = question_params(method, params, self.version)
        wanted = fitted is not without_token(fitted)
        try:
            return await session.peer.request(
                method,
                without_token(fitted),
                on_progress=on_progress if wanted else None,
                related=related,
            )
        except ConnectionClosed as exc:
            raise MCPError(INVALID_REQUEST, f"{method}: the client has gone.") from exc
        except RuntimeError as exc:  # the call that it was asked for is over
            raise MCPError(INVALID_REQUEST, f"{method}: {exc}") from exc

    def _related(self) -> RequestId | None:
        """The request that a question belongs to, if there is only one that it can belong to."""
        asking = self.calls.of_one_owner(lambda call: call.may_ask)
        if asking is None or len(asking) != 1 or asking[0].ctx is None:
            return None
        return asking[0].ctx.request_id

    def told(self, notification: Notification) -> None:
        """Pass a notification on: with the call that it must belong to, or by itself."""
        method, params = notification.method, notification.params
        if subscription_of(params) is not MISSING:
            return  # it comes by one of ours, which is listened to elsewhere
        calls = self.calls.of_one_owner(lambda _call: True)
        if calls and not is_change(method):
            calls[0].told(method, params)
        else:
            self._news.put(method, params, self.version)

    async def _tell(self, method: str, params: JSONObject | None) -> None:
        if method not in _EARLY:
            await self._session.ready.wait()
        await self._session.peer.notify(method, params)


class _Rounds:
    """Asks a legacy client what a modern server wants to know; see `client.rounds.Answering`."""

    def __init__(self, link: SessionLink, ctx: Context) -> None:
        self._link = link
        self._ctx = ctx

    def refuse_unknown(self, method: object) -> None:
        row = METHODS.get(method) if isinstance(method, str) else None
        if row is None or not row.input_request:
            raise BadQuestion(METHOD_NOT_FOUND, f"the server asks {method!r}, which is no question")

    async def answer(self, method: str, params: object) -> JSONObject:
        if not isinstance(params, dict):
            raise BadQuestion(INVALID_REQUEST, f"{method}: params must be an object")
        refused = refusal_of(method, params, self._ctx.info.client_capabilities)
        if refused is not None:
            raise BadQuestion(refused.code, refused.message)
        return await self._link.ask(method, params, self._ctx.request_id)


async def _progressed(incoming: IncomingRequest, params: JSONObject) -> None:
    """Pass a client's progress on to the server that asked, under the server's token."""
    token = incoming.meta.get("progressToken", MISSING)
    if token is not MISSING:
        await incoming.notify(PROGRESS, {**params, "progressToken": token})
