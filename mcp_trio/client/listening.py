"""Subscriptions: which notification is for whom, in both eras.

A modern client subscribes by a request that stays open, `subscriptions/listen`. Each notification
for it names that request; the server's answer to it is the end of the subscription, and so is its
cancellation by either side (MCP 2026-07-28, basic/patterns/subscriptions). A legacy server tells
of lists without being asked, and of resources after `resources/subscribe`; its notifications name
nobody, so each is for everyone who wants it.

Over HTTP a subscription may break while the connection goes on. It is made again then, and whatever
may have changed meanwhile counts as changed.
"""

import logging
import math
from collections.abc import AsyncIterator, Iterable
from contextlib import AsyncExitStack, asynccontextmanager

import attrs
import trio

from mcp_trio.client.calls import Calls
from mcp_trio.client.events import Event, Events, Granted, read_event
from mcp_trio.exceptions import (
    AuthorizationRequired,
    Closed,
    MCPError,
    ProtocolError,
    RequestTimeout,
    TransportError,
)
from mcp_trio.protocol import meta as keys
from mcp_trio.protocol.correlation import is_request_id
from mcp_trio.protocol.types.capabilities import (
    PromptsCapability,
    ResourcesCapability,
    ServerCapabilities,
    ToolsCapability,
)
from mcp_trio.wire.jsonrpc import MISSING, JSONObject, RequestId

logger = logging.getLogger("mcp_trio")

#: Seconds before a subscription that broke is made again; they double with each one that breaks
#: at once.
FIRST_PAUSE = 0.25
LONGEST_PAUSE = 30.0
#: Seconds that a subscription must have lasted for the pauses to begin anew.
LASTING = 5.0


@attrs.define(eq=False)
class _Subscribed:
    """A resource of a legacy server that some of our subscriptions share."""

    holders: int = 0
    held: bool = False
    turn: trio.Lock = attrs.field(factory=trio.Lock)


class Listening:
    """All subscriptions of one client.

    Args:
        calls: The way to the server.
    """

    def __init__(self, calls: Calls) -> None:
        self._calls = calls
        self._by_request: dict[RequestId, Events] = {}
        self._legacy: list[Events] = []
        self._resources: dict[str, _Subscribed] = {}

    def notified(self, method: str, params: JSONObject) -> Event | None:
        """Put a notification where it belongs; the event that it is, if it is one."""
        id = _subscription_id(params)
        if method == "notifications/subscriptions/acknowledged":
            for events in self._named(id):
                events.acknowledge(Granted.from_filter(params.get("notifications")))
            return None
        event = read_event(method, params)
        if event is not None:
            # One that names no subscription, as all of the legacy era, is for everyone.
            for events in self._all() if id is MISSING else self._named(id):
                events.put(event)
        return event

    def _named(self, id: object) -> Iterable[Events]:
        events = self._by_request.get(id) if is_request_id(id) else None
        return () if events is None else (events,)

    def _all(self) -> Iterable[Events]:
        return (*self._legacy, *self._by_request.values())

    def closed(self, closed: Closed) -> None:
        """The connection has ended: so has everything that listens."""
        for events in self._all():
            events.end(closed.error())

    @asynccontextmanager
    async def modern(
        self, asked: Granted, nursery: trio.Nursery, timeout: float | None
    ) -> AsyncIterator[Events]:
        """Subscribe to a modern server for the length of a block.

        Args:
            asked: What to hear of.
            nursery: Keeps the subscription, for as long as the block lasts.
            timeout: Seconds that the server has to acknowledge it.
        """
        if (closed := self._calls.peer.closed) is not None:
            raise closed.error()
        events = Events(asked)
        limit = math.inf if timeout is None else timeout
        wanted = trio.CancelScope()
        nursery.start_soon(self._keep_subscribed, asked, events, wanted)
        try:
            with trio.move_on_after(limit) as scope:
                await events.acknowledged()
            if scope.cancelled_caught:
                raise RequestTimeout("subscriptions/listen", limit)
            yield events
        finally:
            wanted.cancel()
            events.end()

    async def _keep_subscribed(
        self, asked: Granted, events: Events, wanted: trio.CancelScope
    ) -> None:
        """Subscribe, and again when what carries the notifications breaks. Does not raise."""
        pause = FIRST_PAUSE
        with wanted:
            while True:
                began = trio.current_time()
                try:
                    await self._subscription(asked, events)
                except TransportError as error:
                    if isinstance(error, AuthorizationRequired) or not events.is_acknowledged:
                        return events.end(error)
                    logger.info("a subscription broke, and is made again: %s", error)
                except Exception as error:  # a hook of the user's httpx client may raise anything
                    return events.end(error)
                else:
                    return events.end()
                if trio.current_time() - began > LASTING:
                    pause = FIRST_PAUSE
                await trio.sleep(pause)
                pause = min(2 * pause, LONGEST_PAUSE)

    async def _subscription(self, asked: Granted, events: Events) -> None:
        """Subscribe, and wait for the answer, which is the end of the subscription."""
        params = self._calls.dress({"notifications": asked.to_filter()})
        with self._calls.peer.call("subscriptions/listen", params, endable=True) as call:
            self._by_request[call.id] = events
            try:
                await call.send()
                result = await call.result()
            finally:
                del self._by_request[call.id]
        if (kind := result.get("resultType", "complete")) != "complete":
            raise ProtocolError(f"subscriptions/listen: the result is of the unknown type {kind!r}")

    @asynccontextmanager
    async def legacy(self, asked: Granted) -> AsyncIterator[Events]:
        """Listen to what a legacy server tells, for the length of a block."""
        if (closed := self._calls.peer.closed) is not None:
            raise closed.error()
        events = Events(_tellable(asked, self._calls.agreement.capabilities))
        self._legacy.append(events)
        try:
            async with AsyncExitStack() as stack:
                for uri in sorted(events.granted.uris):
                    await stack.enter_async_context(self._resource(uri))
                await trio.lowlevel.checkpoint()
                yield events
        finally:
            self._legacy.remove(events)
            events.end()

    @asynccontextmanager
    async def _resource(self, uri: str) -> AsyncIterator[None]:
        """Hold the subscription to a resource, which whoever comes first makes.

        Who comes second waits until it is made: were the first one cancelled meanwhile, the
        second would otherwise listen to nothing, and not know it.
        """
        shared = self._resources.setdefault(uri, _Subscribed())
        shared.holders += 1
        try:
            async with shared.turn:
                if not shared.held:
                    await self._subscribe(uri)
                    shared.held = True
            yield
        finally:
            shared.holders -= 1
            if not shared.holders:
                del self._resources[uri]
                if shared.held:
                    self._unsubscribe(uri)

    async def _subscribe(self, uri: str) -> None:
        try:
            await self._calls.request("resources/subscribe", {"uri": uri})
        except MCPError:
            raise  # nothing was subscribed to
        except BaseException:  # the server may have subscribed us all the same
            self._unsubscribe(uri)
            raise

    async def restore(self) -> None:
        """Subscribe to all resources again, in a new session of the same server."""
        for uri in [uri for uri, shared in self._resources.items() if shared.held]:
            await self._calls.request("resources/subscribe", {"uri": uri})
        for events in self._legacy:
            events.missed()

    def _unsubscribe(self, uri: str) -> None:
        self._calls.peer.post("resources/unsubscribe", {"uri": uri})


def _tellable(asked: Granted, can: ServerCapabilities) -> Granted:
    """What a legacy server tells of, by its capabilities."""
    return Granted(
        asked.tools and _tells(can.tools),
        asked.prompts and _tells(can.prompts),
        asked.resources and _tells(can.resources),
        asked.uris if can.resources is not None and can.resources.subscribe else frozenset(),
    )


def _tells(
    capability: ToolsCapability | PromptsCapability | ResourcesCapability | None,
) -> bool:
    return capability is not None and capability.list_changed is True


def _subscription_id(params: JSONObject) -> object:
    """The subscription that a notification names; `MISSING` if it names none."""
    meta = params.get("_meta")
    return meta.get(keys.SUBSCRIPTION_ID, MISSING) if isinstance(meta, dict) else MISSING
