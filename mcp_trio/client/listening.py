"""Subscriptions: which notification is for whom, in both eras.

A modern client subscribes by a request that stays open, `subscriptions/listen`. Each notification
for it names that request; the server's answer to it is the end of the subscription, and so is its
cancellation by either side (MCP 2026-07-28, basic/patterns/subscriptions). A legacy server tells
of lists without being asked, and of resources after `resources/subscribe`; its notifications name
nobody, so each is for everyone who wants it.
"""

import math
from collections.abc import AsyncIterator, Iterable
from contextlib import AsyncExitStack, asynccontextmanager

import attrs
import trio

from mcp_trio.client.calls import Calls
from mcp_trio.client.events import Event, Events, Granted, read_event
from mcp_trio.exceptions import ConnectionClosed, MCPError, ProtocolError, RequestTimeout
from mcp_trio.peer import Call, Closed
from mcp_trio.protocol import meta as keys
from mcp_trio.protocol.correlation import is_request_id
from mcp_trio.protocol.types.capabilities import (
    PromptsCapability,
    ResourcesCapability,
    ServerCapabilities,
    ToolsCapability,
)
from mcp_trio.wire.jsonrpc import MISSING, JSONObject, RequestId


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
            nursery: Waits for the end of the subscription, for as long as the block lasts.
            timeout: Seconds that the server has to acknowledge it.
        """
        events = Events(asked)
        params = self._calls.dress({"notifications": asked.to_filter()})
        limit = math.inf if timeout is None else timeout
        waiting = trio.CancelScope()
        with self._calls.peer.call("subscriptions/listen", params, endable=True) as call:
            self._by_request[call.id] = events
            try:
                with trio.move_on_after(limit) as scope:
                    await call.send()
                    nursery.start_soon(_wait_end, call, events, waiting)
                    await events.acknowledged()
                if scope.cancelled_caught:
                    raise RequestTimeout("subscriptions/listen", limit)
                yield events
            finally:
                waiting.cancel()
                del self._by_request[call.id]
                events.end()

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

    def _unsubscribe(self, uri: str) -> None:
        self._calls.peer.post("resources/unsubscribe", {"uri": uri})


async def _wait_end(call: Call, events: Events, waiting: trio.CancelScope) -> None:
    """Wait for the answer to a subscription, which is its end."""
    with waiting:
        try:
            result = await call.result()
        except (MCPError, ProtocolError, ConnectionClosed) as error:
            events.end(error)
        else:
            kind = result.get("resultType", "complete")
            unknown = f"subscriptions/listen: the result is of the unknown type {kind!r}"
            events.end(None if kind == "complete" else ProtocolError(unknown))


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
