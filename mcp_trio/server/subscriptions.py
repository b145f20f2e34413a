"""How clients hear of changes: a long request in the modern era, a session in the legacy one.

Both sit on the bus, and both are a loop that takes one change at a time and sends it. The loop
may stall for as long as its client does not read: the bus keeps what is pending in bounded
memory, and nobody else notices.
"""

from collections.abc import Collection

from mcp_trio.exceptions import ConnectionClosed
from mcp_trio.protocol import meta as keys
from mcp_trio.protocol.convert import StructureError, structure
from mcp_trio.protocol.errors import INVALID_PARAMS, METHOD_NOT_FOUND, MCPError
from mcp_trio.protocol.methods import METHODS
from mcp_trio.server.bus import (
    LISTS,
    Change,
    Interest,
    ListChanged,
    ListKind,
    ResourceUpdated,
    SubscriptionBus,
)
from mcp_trio.server.context import Context
from mcp_trio.server.lifecycle import capabilities_of
from mcp_trio.server.params import invalid, required
from mcp_trio.server.session import Session
from mcp_trio.wire.jsonrpc import JSONObject

#: Resources that one subscription, or one legacy session, may name.
MAX_URIS = 10_000

_UPDATED = METHODS["notifications/resources/updated"]
_LIST_CHANGED = {kind: METHODS[f"notifications/{kind}/list_changed"] for kind in LISTS}


async def listen(ctx: Context, params: JSONObject) -> JSONObject:
    """Answer `subscriptions/listen`: send what changes until the client or the server ends it.

    The subscription starts before it is acknowledged, so nothing falls between the two. A client
    that ends it cancels the request. A server ends it by `SubscriptionBus.end_subscriptions`; then
    the client gets what is pending, a cancellation and, in good order, the response.
    (MCP 2026-07-28, basic/patterns/subscriptions and basic/patterns/cancellation)
    """
    granted = _grant(ctx, params)
    lists = [kind for kind, row in _LIST_CHANGED.items() if row.filter_field in granted]
    interest = Interest(lists, frozenset(granted.get(_field(_UPDATED.filter_field), ())))
    tag = {"_meta": {keys.SUBSCRIPTION_ID: ctx.request_id}}
    notify = ctx.incoming.notify
    ctx.incoming.open_ended = True
    with ctx.server.bus.subscribe(interest, by=ctx.info.session.peer) as changes:
        await notify("notifications/subscriptions/acknowledged", {**tag, "notifications": granted})
        async for change in changes:
            method, details = _notification(change)
            await notify(method, {**tag, **details})
    ended = {"requestId": ctx.request_id, "reason": "The server ended the subscription."}
    await notify("notifications/cancelled", {**tag, **ended})
    return tag


async def subscribe(ctx: Context, params: JSONObject) -> JSONObject:
    """Answer `resources/subscribe`.

    Subscriptions are counted: two parts of a client that subscribe to the same resource do not
    end each other's. (MCP 2025-11-25, server/resources, Subscriptions)
    """
    uri = _subscribable(ctx, params)
    subscribed = ctx.info.session.subscriptions
    if uri not in subscribed and len(subscribed) >= MAX_URIS:
        raise MCPError(INVALID_PARAMS, f"A session can subscribe to {MAX_URIS} resources at most.")
    subscribed[uri] = subscribed.get(uri, 0) + 1
    return {}


async def unsubscribe(ctx: Context, params: JSONObject) -> JSONObject:
    """Answer `resources/unsubscribe`; one too many does no harm."""
    uri = _subscribable(ctx, params)
    subscribed = ctx.info.session.subscriptions
    if subscribed.get(uri, 0) > 1:
        subscribed[uri] -= 1
    else:
        subscribed.pop(uri, None)
    return {}


async def serve_changes(
    session: Session, bus: SubscriptionBus, lists: Collection[ListKind] = LISTS
) -> None:
    """Tell a legacy client of changes, for as long as its connection lasts.

    Changes count from the moment in which the client can know what there was before, and are
    sent from the moment in which it says that it is ready. Does nothing for a modern client.
    Returns when the connection is closed, or the bus ends its subscriptions.
    """
    await session.settled.wait()
    with bus.subscribe(Interest(lists, session.subscriptions), by=session.peer) as changes:
        await session.ready.wait()
        try:
            async for change in changes:
                method, details = _notification(change)
                await session.peer.notify(method, details or None)
        except ConnectionClosed:
            return


def _grant(ctx: Context, params: JSONObject) -> JSONObject:
    """What a client asks to hear of and the server can tell, in wire form."""
    from mcp_trio.protocol.types.subscriptions import SubscriptionFilter

    asked = required(params, "notifications", dict)
    try:
        wanted = structure(asked, SubscriptionFilter)
    except StructureError as exc:
        raise MCPError(INVALID_PARAMS, f"Invalid params: {exc.within('notifications')}") from None
    if len(wanted.resource_subscriptions or ()) > MAX_URIS:
        what = f"a list of {MAX_URIS} URIs at most"
        raise invalid("notifications.resourceSubscriptions", what, wanted.resource_subscriptions)
    offered = capabilities_of(ctx.server, ctx.protocol_version)
    granted: JSONObject = {
        _field(row.filter_field): True
        for row in _LIST_CHANGED.values()
        if asked.get(_field(row.filter_field)) and _offers(offered, row.capability)
    }
    if wanted.resource_subscriptions is not None and _offers(offered, _UPDATED.capability):
        granted[_field(_UPDATED.filter_field)] = list(dict.fromkeys(wanted.resource_subscriptions))
    return granted


def _subscribable(ctx: Context, params: JSONObject) -> str:
    row = METHODS[ctx.method]
    if not _offers(capabilities_of(ctx.server, ctx.protocol_version), row.capability):
        raise MCPError(METHOD_NOT_FOUND, "This server's resources cannot be subscribed to.")
    return required(params, "uri", str)


def _offers(capabilities: JSONObject, path: str | None) -> bool:
    """Whether a capability such as "tools.listChanged" is declared."""
    found: object = capabilities
    for step in (path or "").split("."):
        found = found.get(step) if isinstance(found, dict) else None
    return found is not None and found is not False


def _notification(change: Change) -> tuple[str, JSONObject]:
    match change:
        case ListChanged(kind):
            return _LIST_CHANGED[kind].name, {}
        case ResourceUpdated(uri):
            return _UPDATED.name, {"uri": uri}


def _field(name: str | None) -> str:
    assert name is not None  # the method table has it for each of these notifications
    return name
