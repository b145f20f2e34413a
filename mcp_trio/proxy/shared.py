"""Modern clients: all of them share one connection to the server.

A modern request stands for itself, so nothing speaks for one connection per client, and a server
that is a process is started once. A modern server is handed each request with what its client said
of itself. To a legacy server they are all one client that can do everything; what one of them has
not declared is refused when it comes to that, and what the server asks is for whoever's call it
must belong to. Legacy clients over HTTP without sessions are served in the same way, except that
they cannot be asked.
"""

import logging

import trio

from mcp_trio.client.client import Client
from mcp_trio.exceptions import MCPError
from mcp_trio.incoming import IncomingRequest
from mcp_trio.protocol import meta as keys
from mcp_trio.protocol.errors import INVALID_REQUEST, METHOD_NOT_FOUND
from mcp_trio.protocol.fit import FitError, fit_result
from mcp_trio.protocol.methods import METHODS
from mcp_trio.protocol.negotiation import declares
from mcp_trio.protocol.revisions import is_modern
from mcp_trio.proxy.calls import OpenCall
from mcp_trio.proxy.changes import Listens, listen
from mcp_trio.proxy.eras import (
    is_wanted,
    pages_to_visit,
    question_params,
    refusal_of,
    request_params,
)
from mcp_trio.proxy.held import HeldCall, HeldCalls
from mcp_trio.proxy.links import Link, server_info, set_log_level, subscription_of, without_token
from mcp_trio.proxy.passing import is_change
from mcp_trio.server.context import Context
from mcp_trio.server.state import StateKeys
from mcp_trio.wire.jsonrpc import MISSING, JSONObject, Notification

logger = logging.getLogger("mcp_trio")

#: Seconds that a question waits for it to become clear whose call it belongs to.
PATIENCE = 30.0
QUESTIONS = frozenset(("elicitation/create", "sampling/createMessage", "roots/list"))
_ASKABLE = ("elicitation", "sampling", "roots")


class SharedLink(Link):
    """The one server of all modern clients.

    Args:
        nursery: For what outlives single requests.
        keys: Seal the handles of held calls.
        hold_time: Seconds that a held call waits for its client.
    """

    def __init__(self, nursery: trio.Nursery, keys: StateKeys, hold_time: float) -> None:
        super().__init__(nursery)
        self.specials = {
            "initialize": self._initialize,
            "server/discover": self._discover,
            "ping": self._ping,
            "subscriptions/listen": self._listen,
            "logging/setLevel": self._without_session,
            "resources/subscribe": self._without_session,
            "resources/unsubscribe": self._without_session,
        }
        self.held = HeldCalls(nursery, keys, hold_time)
        self._listens = Listens(nursery)

    async def pass_on(self, ctx: Context, params: JSONObject) -> JSONObject:
        client = await self.upstream.connected()
        holds = ctx.info.modern and METHODS.get(ctx.method, METHODS["ping"]).may_ask
        if not holds or is_modern(client.protocol_version):
            return self.translated(ctx, params, await self.exchange(ctx, params, client), client)
        try:
            result = await self._call_holding(ctx, params, client)
        except MCPError as error:
            pages = pages_to_visit(error, ctx.info.client_capabilities, ctx.protocol_version)
            if pages is None:
                raise
            result = pages
        return self.translated(ctx, params, result, client)

    async def _call_holding(self, ctx: Context, params: JSONObject, client: Client) -> JSONObject:
        """Call a legacy server, which may ask in the middle of it."""
        if params.get("requestState") is not None:
            call = self.held.find(ctx, params)
        elif any(declares(ctx.info.client_capabilities, name) for name in _ASKABLE):

            async def work(call: HeldCall) -> JSONObject:
                with self.calls.open(call):
                    return await call.exchange(client, params, progress=True)

            call = self.held.begin(ctx, work)
        else:
            return await self.exchange(ctx, params, client)
        return await self.held.result(call, ctx, params)

    # Methods that are not just passed on

    async def _discover(self, ctx: Context, params: JSONObject) -> JSONObject:
        client = await self.upstream.connected()
        versions = {"supportedVersions": list(ctx.server.dispatcher.modern)}
        if is_modern(client.protocol_version):
            return {**await self.exchange(ctx, params, client), **versions}
        return {**self.introduce(ctx, client), **versions, "_meta": _stamp(client)}

    async def _initialize(self, ctx: Context, params: JSONObject) -> JSONObject:
        """Meet a legacy client that has no session."""
        client = await self.upstream.connected()
        info = server_info(client) or ctx.server.info
        return {
            "protocolVersion": ctx.protocol_version,
            "serverInfo": info,
            **self.introduce(ctx, client),
        }

    async def _ping(self, ctx: Context, params: JSONObject) -> JSONObject:
        await self.ping(await self.upstream.connected())
        return {}

    async def _listen(self, ctx: Context, params: JSONObject) -> JSONObject:
        client = await self.upstream.connected()
        ctx.incoming.open_ended = True
        if is_modern(client.protocol_version):
            sent = request_params(params, ctx.info, client.protocol_version)
            return await self._listens.listen(ctx, sent, client)
        return await listen(ctx, params, client)

    async def _without_session(self, ctx: Context, params: JSONObject) -> JSONObject:
        text = f"{ctx.method} needs a session, and this server is served without."
        raise MCPError(METHOD_NOT_FOUND, text)

    # What the server sends of itself

    async def attend(
        self,
        client: Client,
        *,
        task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED,
    ) -> None:
        """Ask a legacy server for all log messages: what a client wants of them is its request's.

        Whoever wants none gets none, and whoever wants some may be the next to ask.
        """
        await set_log_level(client, "debug")
        task_status.started()

    async def asked(self, incoming: IncomingRequest) -> JSONObject:
        """Answer a request of a legacy server, mostly by asking whose call it belongs to.

        Raises:
            MCPError: It cannot be asked, or that is not clear.
        """
        method, params = incoming.method, incoming.params
        if method == "ping":
            return {}
        if method not in QUESTIONS:
            raise MCPError(METHOD_NOT_FOUND, f"This client does not know {method!r}.")
        calls = await self._whose(method)
        refusals = [refusal_of(method, params, call.info.client_capabilities) for call in calls]
        call = next((calls[n] for n, refused in enumerate(refusals) if refused is None), None)
        if not isinstance(call, HeldCall):
            raise refusals[0] or MCPError(INVALID_REQUEST, f"{method} cannot be asked here.")
        meant = question_params(method, without_token(params), call.info.version)
        answer = await call.ask(method, meant)
        client = self.upstream.current
        try:
            return answer if client is None else fit_result(method, answer, client.protocol_version)
        except FitError as exc:
            raise MCPError(INVALID_REQUEST, str(exc)) from exc

    async def _whose(self, method: str) -> list[OpenCall]:
        """The calls that a question may belong to: all of one client, newest first."""
        with trio.move_on_after(PATIENCE):
            while (calls := self.calls.of_one_owner(lambda call: call.may_ask)) is None:
                await self.calls.changed.park()
            if calls:
                return calls
            text = f"{method}: there is no call that this could be asked for."
            raise MCPError(INVALID_REQUEST, text)
        text = f"{method}: several clients have calls open, and it does not say whose it is for."
        raise MCPError(INVALID_REQUEST, text)

    def told(self, notification: Notification) -> None:
        method, params = notification.method, notification.params
        if (id := subscription_of(params)) is not MISSING:
            self._listens.told(id, method, params or {})
        elif not is_change(method):
            self._told_of_a_call(method, params)

    def _told_of_a_call(self, method: str, params: JSONObject | None) -> None:
        """Pass on what belongs to a call, if it is clear to whose."""
        client = self.upstream.current
        logs = method == "notifications/message"
        # A modern server sends log messages only for requests that ask for them.
        sorted_out = logs and client is not None and is_modern(client.protocol_version)
        calls = self.calls.of_one_owner(
            lambda call: not sorted_out or call.info.log_level is not None
        )
        for call in calls or ():
            if not logs or is_wanted((params or {}).get("level"), call.info.log_level):
                call.told(method, params)
                return
        if calls is None:
            logger.debug("dropped %s: it does not say which client's call it is for", method)


def _stamp(client: Client) -> JSONObject:
    info = server_info(client)
    return {} if info is None else {keys.SERVER_INFO: info}
