"""Hearing of changes: what one era asks for by subscriptions, the other hears in a session.

For a legacy client of a modern server there is one subscription for the lists, and one for each
resource that it subscribes to. For a modern client of a legacy server its one subscription is many
`resources/subscribe`, which its other clients share. Where both are of one era, there is nothing
to translate, and the notifications pass as they are.
"""

import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import trio

from mcp_trio.client.client import Client
from mcp_trio.client.events import LISTS, Event, Events, Granted, ResourceUpdated
from mcp_trio.connection import open_private_nursery
from mcp_trio.exceptions import ConnectionClosed, MCPError
from mcp_trio.protocol import meta as keys
from mcp_trio.protocol.errors import INVALID_PARAMS, METHOD_NOT_FOUND
from mcp_trio.protocol.revisions import is_modern
from mcp_trio.proxy.calls import FAILURES
from mcp_trio.proxy.passing import Passing
from mcp_trio.proxy.upstream import answer_for
from mcp_trio.server.bus import Interest
from mcp_trio.server.context import Context
from mcp_trio.server.params import invalid, required
from mcp_trio.server.session import Session
from mcp_trio.server.subscriptions import MAX_URIS
from mcp_trio.wire.jsonrpc import JSONObject, RequestId

logger = logging.getLogger("mcp_trio")

LISTEN = "subscriptions/listen"
#: Seconds that a server in place of another has for the subscriptions of a session.
RESTORING_TIME = 5.0
_METHODS = {event: method for method, event in LISTS.items()}


def notification_of(event: Event) -> tuple[str, JSONObject]:
    """The notification that an event was, as far as it says anything."""
    if isinstance(event, ResourceUpdated):
        return "notifications/resources/updated", {"uri": event.uri}
    return _METHODS[event], {}


class SessionChanges:
    """What one legacy client hears of, whatever server is behind.

    A subscription lasts for a session, while the server behind may be replaced: then it is made
    anew.

    Args:
        session: Knows what the client has subscribed to.
        news: Where changes are put for the client.
    """

    def __init__(self, session: Session, news: Passing) -> None:
        self._session = session
        self._news = news
        self._nursery: trio.Nursery | None = None
        self._scopes: dict[str, trio.CancelScope] = {}

    @property
    def wanted(self) -> bool:
        """Whether there is anything that the client would miss without a server."""
        return bool(self._session.subscriptions)

    async def attend(
        self,
        client: Client,
        *,
        task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED,
    ) -> None:
        """Hear of changes by one connection to the server, as long as it lasts."""
        async with trio.open_nursery() as nursery:
            self._nursery = nursery
            self._scopes.clear()
            try:
                if is_modern(client.protocol_version):
                    nursery.start_soon(self._hear_lists, client)
                with trio.move_on_after(RESTORING_TIME):
                    for uri in list(self._session.subscriptions):
                        await self._hear_again(client, uri)
                task_status.started()
                await trio.sleep_forever()
            finally:
                self._nursery = None

    async def subscribe(self, client: Client, uri: str) -> None:
        """Hear of changes of a resource from now on, once more; one such call at a time.

        Raises:
            MCPError: The server has it otherwise.
        """
        subscribed = self._session.subscriptions
        if uri not in subscribed:
            if len(subscribed) >= MAX_URIS:
                text = f"A session can subscribe to {MAX_URIS} resources at most."
                raise MCPError(INVALID_PARAMS, text)
            await self._start_hearing(client, uri)
        subscribed[uri] = subscribed.get(uri, 0) + 1

    def unsubscribe(self, uri: str) -> None:
        """Hear of it once less; one too many does no harm."""
        subscribed = self._session.subscriptions
        if subscribed.get(uri, 0) > 1:
            subscribed[uri] -= 1
            return
        subscribed.pop(uri, None)
        if (scope := self._scopes.pop(uri, None)) is not None:
            scope.cancel()

    async def _start_hearing(self, client: Client, uri: str) -> None:
        if self._nursery is None:
            raise answer_for(ConnectionClosed("it has just ended"))
        try:
            self._scopes[uri] = await self._nursery.start(self._hear, client, uri)
        except FAILURES as failure:
            raise answer_for(failure) from failure

    async def _hear_again(self, client: Client, uri: str) -> None:
        """Subscribe at a server in place of one that died; what changed meanwhile, nobody knows."""
        try:
            await self._start_hearing(client, uri)
        except MCPError as exc:
            logger.warning("a subscription is lost with the server that had it: %s", exc)
        else:
            self._put(ResourceUpdated(uri))

    async def _hear(
        self,
        client: Client,
        uri: str,
        *,
        task_status: trio.TaskStatus[trio.CancelScope] = trio.TASK_STATUS_IGNORED,
    ) -> None:
        started = False
        try:
            with trio.CancelScope() as scope:
                async with client.listen(uris=[uri]) as events:
                    if uri not in events.granted.uris:
                        text = "The server's resources cannot be subscribed to."
                        raise MCPError(METHOD_NOT_FOUND, text)
                    started = True
                    task_status.started(scope)
                    await self._pass_on(client, events)
        except (MCPError, *FAILURES) as exc:
            if not started:
                raise
            logger.info("a subscription has ended: %s", exc)

    async def _hear_lists(self, client: Client) -> None:
        can = client.capabilities
        tools, prompts, resources = (
            capability is not None and capability.list_changed is True
            for capability in (can.tools, can.prompts, can.resources)
        )
        if not (tools or prompts or resources):
            return
        try:
            async with client.listen(tools=tools, prompts=prompts, resources=resources) as events:
                await self._pass_on(client, events)
        except (MCPError, *FAILURES) as exc:
            logger.warning("the server behind the proxy tells of no changes: %s", exc)

    async def _pass_on(self, client: Client, events: Events) -> None:
        """Pass events on; those of a legacy server have passed already, as notifications."""
        async for event in events:
            if is_modern(client.protocol_version):
                self._put(event)

    def _put(self, event: Event) -> None:
        method, params = notification_of(event)
        self._news.put(method, params or None, self._session.version or "")


async def listen(ctx: Context, params: JSONObject, client: Client) -> JSONObject:
    """Answer a modern client's `subscriptions/listen` by what a legacy server tells."""
    asked = Granted.from_filter(required(params, "notifications", dict))
    if len(asked.uris) > MAX_URIS:
        what = f"a list of {MAX_URIS} URIs at most"
        raise invalid("notifications.resourceSubscriptions", what, list(asked.uris))
    tag = tag_of(ctx.request_id)
    try:
        async with (
            _until_shutdown(ctx),
            client.listen(
                tools=asked.tools,
                prompts=asked.prompts,
                resources=asked.resources,
                uris=asked.uris,
            ) as events,
        ):
            granted = {**tag, "notifications": events.granted.to_filter()}
            await ctx.incoming.notify("notifications/subscriptions/acknowledged", granted)
            async for event in events:
                method, details = notification_of(event)
                await ctx.incoming.notify(method, {**tag, **details})
    except FAILURES as failure:
        raise answer_for(failure) from failure
    await say_goodbye(ctx)
    return tag


class Listens:
    """The subscriptions of modern clients of a modern server, by the ids that they have there."""

    def __init__(self, nursery: trio.Nursery) -> None:
        self._nursery = nursery
        self._by_id: dict[RequestId, tuple[Context, Passing]] = {}

    def told(self, id: object, method: str, params: JSONObject) -> None:
        """Pass a notification on to the subscription that it is for, with the client's id."""
        if isinstance(id, str | int) and id in self._by_id:
            ctx, passing = self._by_id[id]
            meta = {**params["_meta"], keys.SUBSCRIPTION_ID: ctx.request_id}
            passing.put(method, {**params, "_meta": meta}, ctx.protocol_version)

    async def listen(self, ctx: Context, params: JSONObject, client: Client) -> JSONObject:
        """Answer a `subscriptions/listen` by passing it on, and all that comes of it."""
        passing = Passing(ctx.incoming.notify, self._nursery)
        result: JSONObject = {}
        try:
            async with _until_shutdown(ctx):
                with client.peer.call(LISTEN, client.dressed(params), endable=True) as call:
                    self._by_id[call.id] = ctx, passing
                    try:
                        await call.send()
                        result = await call.result()
                    finally:
                        del self._by_id[call.id]
            await passing.drained()
        except FAILURES as failure:
            raise answer_for(failure) from failure
        finally:
            passing.stop()
        await say_goodbye(ctx)
        return {**result, "_meta": {**result.get("_meta", {}), **tag_of(ctx.request_id)["_meta"]}}


@asynccontextmanager
async def _until_shutdown(ctx: Context) -> AsyncIterator[None]:
    """Cancel the block when subscriptions to our own bus are ended, as before a shutdown."""
    async with open_private_nursery() as nursery:

        async def watch() -> None:
            with ctx.server.bus.subscribe(Interest(), by=ctx.info.session.peer) as nothing:
                async for _ in nothing:
                    pass
            nursery.cancel_scope.cancel()

        nursery.start_soon(watch)
        yield


async def say_goodbye(ctx: Context) -> None:
    """Tell a client that the server ends its subscription: the response follows."""
    ended = {"requestId": ctx.request_id, "reason": "The server ended the subscription."}
    await ctx.incoming.notify("notifications/cancelled", {**tag_of(ctx.request_id), **ended})


def tag_of(id: RequestId) -> JSONObject:
    """What every message of a subscription says of whose it is."""
    return {"_meta": {keys.SUBSCRIPTION_ID: id}}
