"""Subscriptions and changes: checks of what a server tells its clients without being asked again.

What changes is up to the server. So some of these checks call its tools, and look whether a list is
another afterwards; where none is, there was nothing to tell, and they do not apply.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from typing import Final

from mcp_trio.harness.calling import accept, answered, converse, tried_tools
from mcp_trio.harness.checks import LEGACY, MODERN, check
from mcp_trio.harness.checks.listing import keys_of, offered
from mcp_trio.harness.model import Failed, NotApplicable
from mcp_trio.harness.probe import Inventory, ServerProbe, expect, require
from mcp_trio.harness.session import Received, Reply, Session
from mcp_trio.protocol.errors import METHOD_NOT_FOUND
from mcp_trio.protocol.meta import META, SUBSCRIPTION_ID
from mcp_trio.protocol.methods import METHODS
from mcp_trio.wire.jsonrpc import JSON, JSONObject, RequestId

ACKNOWLEDGED: Final = "notifications/subscriptions/acknowledged"
CHANGES: Final = {
    "tools/list": ("notifications/tools/list_changed", "tools-27", "tools-7"),
    "resources/list": ("notifications/resources/list_changed", "resources-3", "resources-3"),
    "prompts/list": ("notifications/prompts/list_changed", "prompts-13", "prompts-4"),
}
"""Each list, how a change of it is told, and what asks for that: legacy and modern."""
EVERYTHING: Final[JSONObject] = {
    "toolsListChanged": True,
    "promptsListChanged": True,
    "resourcesListChanged": True,
}


def subscription_of(message: JSONObject) -> JSON:
    """The id of the subscription that a message belongs to; None if it says none."""
    body = message.get("params") or message.get("result") or {}
    meta = body.get(META) if isinstance(body, dict) else None
    return meta.get(SUBSCRIPTION_ID) if isinstance(meta, dict) else None


def of_subscription(session: Session, id: RequestId, since: int = 0) -> list[Received]:
    """What came for a subscription, by its id."""
    return [
        received
        for received in session.received[since:]
        if received.method is not None and subscription_of(received.object) == id
    ]


def is_change(received: Received) -> bool:
    """Whether a frame is a notification of a change."""
    row = METHODS.get(received.method or "")
    return row is not None and row.filter_field is not None


@asynccontextmanager
async def listening(
    session: Session, wanted: JSONObject
) -> AsyncIterator[tuple[RequestId, JSONObject]]:
    """Subscribe for the length of a block; gives the id, and what was acknowledged."""
    since = len(session.received)
    id = await session.post("subscriptions/listen", {"notifications": wanted})
    try:
        acknowledged = await acknowledgement(session, id, since)
        yield id, acknowledged
    finally:
        if session.ended is None:
            await end(session, id)


async def acknowledgement(session: Session, id: RequestId, since: int) -> JSONObject:
    """Wait for the acknowledgement of a subscription; what it grants.

    Raises:
        NotApplicable: The server does not know the method.
    """

    def is_it(received: Received) -> bool:
        mine = received.method == ACKNOWLEDGED and subscription_of(received.object) in (id, None)
        return mine or (received.is_answer and received.object.get("id") == id)

    found = await session.wait_for(is_it, f"acknowledgement of subscription {id!r}", since=since)
    if found.is_answer:
        brief = Reply(found).brief()
        require(Reply(found).code != METHOD_NOT_FOUND, f"subscriptions/listen got {brief}")
        raise Failed(f"subscriptions/listen got {brief} before any acknowledgement")
    granted = (found.object.get("params") or {}).get("notifications")
    return granted if isinstance(granted, dict) else {}


async def end(session: Session, id: RequestId) -> None:
    """End a subscription as a client does."""
    await session.notify("notifications/cancelled", {"requestId": id})


# Opening ----------------------------------------------------------------------------------------


@check(
    "subscription-is-acknowledged-first",
    "subscriptions-2",
    "base-53",
    meaning="The first message of a subscription acknowledges it, under the id of its request.",
    revisions=MODERN,
)
async def subscription_is_acknowledged_first(probe: ServerProbe) -> None:
    session = await probe.session()
    for id in (session.next_id(), "harness-subscription"):
        since = len(session.received)
        await session.post("subscriptions/listen", {"notifications": EVERYTHING}, id=id)
        try:
            await acknowledgement(session, id, since)
            first = next(r for r in session.received[since:] if r.method == ACKNOWLEDGED)
            named = subscription_of(first.object)
            expect(named is not None, "the acknowledgement names no subscription", "base-53")
            mine = of_subscription(session, id, since)
            method = mine[0].method if mine else None
            said = f"the first message of subscription {id!r} is {method}"
            expect(method == ACKNOWLEDGED, said, "subscriptions-2")
        finally:
            await end(session, id)
        await session.fence()


@check(
    "declared-changes-can-be-listened-for",
    "tools-7",
    "resources-3",
    "prompts-4",
    meaning="A server that declares `listChanged` or `subscribe` takes subscriptions to that.",
    revisions=MODERN,
)
async def declared_changes_can_be_listened_for(probe: ServerProbe) -> None:
    inventory = await probe.inventory()
    rows = [row for row in METHODS.values() if row.filter_field]
    declared = [row.capability or "" for row in rows if inventory.has(row.capability or "")]
    require(declared, "the server declares no changes of anything")
    session = await probe.session()
    try:
        async with listening(session, EVERYTHING):
            pass
    except NotApplicable as exc:
        raise Failed(f"{', '.join(declared)} is declared, and {exc}") from None


@check(
    "no-more-is-granted-than-asked-for",
    "subscriptions-1",
    meaning="The acknowledgement holds nothing that was not in the request.",
    revisions=MODERN,
)
async def no_more_is_granted_than_asked_for(probe: ServerProbe) -> None:
    session = await probe.session()
    uris = [str(r.get("uri")) for r in (await probe.inventory()).resources[:2]]
    wanted: tuple[JSONObject, ...] = (
        {},
        {"toolsListChanged": True},
        {"toolsListChanged": False, "promptsListChanged": True},
        {"resourceSubscriptions": uris[:1]},
    )
    for asked in wanted:
        async with listening(session, asked) as (_, granted):
            for field, value in granted.items():
                more = value not in (False, [], None) and not within(value, asked.get(field))
                expect(not more, f"asked for {asked}, and was granted {field}: {value!r:.60}")


def within(granted: JSON, asked: JSON) -> bool:
    if isinstance(granted, list):
        return isinstance(asked, list) and all(uri in asked for uri in granted)
    return asked is True


@check(
    "malformed-filter-is-refused",
    meaning="subscriptions/listen without a filter, or with one of the wrong types, gets an error.",
    revisions=MODERN,
)
async def malformed_filter_is_refused(probe: ServerProbe) -> None:
    session = await probe.session()
    wrong: tuple[JSONObject, ...] = (
        {},
        {"notifications": []},
        {"notifications": {"toolsListChanged": "harness"}},
        {"notifications": {"resourceSubscriptions": "demo://harness"}},
    )
    for params in wrong:
        since, id = len(session.received), session.next_id()
        await session.post("subscriptions/listen", params, id=id)
        try:
            reply = await session.reply(id, since=since, what=f"subscriptions/listen with {params}")
        except Failed:
            await end(session, id)
            raise
        require(reply.code != METHOD_NOT_FOUND, f"subscriptions/listen got {reply.brief()}")
        reply.expect_error()


# While it is open -------------------------------------------------------------------------------


async def make_changes(probe: ServerProbe, session: Session) -> None:
    """Call the tools that may change something, or else those that may be called and are quick."""
    tools = await tried_tools(probe)
    writing = [tried for tried in tools if tried.may_write]
    with answered(session, {"elicitation/create": accept}):
        for tried in writing or [tried for tried in tools if tried.is_quick]:
            await converse(session, "tools/call", tried.call)
    await session.fence()


@check(
    "only-what-was-asked-for-is-sent",
    "subscriptions-1",
    "base-53",
    meaning="A client hears only of the kinds of changes that it has subscribed to.",
    revisions=MODERN,
)
async def only_what_was_asked_for_is_sent(probe: ServerProbe) -> None:
    async with probe.open_session() as session:
        await make_changes(probe, session)
        unasked = [r for r in session.received if is_change(r)]
        expect(not unasked, f"{names(unasked)} came, and there is no subscription")
        async with listening(session, {"promptsListChanged": True}) as (id, _):
            since = len(session.received)
            await make_changes(probe, session)
            came = [received for received in session.received[since:] if is_change(received)]
        other = [r for r in came if r.method != "notifications/prompts/list_changed"]
        expect(not other, f"{names(other)} came, and only changes of prompts were asked for")
        stray = [r for r in came if subscription_of(r.object) != id]
        expect(not stray, f"{names(stray)} came without the id of the subscription", "base-53")


def names(received: Iterable[Received]) -> str:
    return ", ".join(sorted({str(r.method) for r in received}))


@check(
    "ended-subscription-is-silent",
    "subscriptions-1",
    meaning="After a client has ended its subscription, nothing more comes for it.",
    revisions=MODERN,
)
async def ended_subscription_is_silent(probe: ServerProbe) -> None:
    async with probe.open_session() as session:
        async with listening(session, await all_kinds(probe)) as (id, _):
            pass
        await session.fence()
        since = len(session.received)
        await make_changes(probe, session)
        late = [r for r in session.received[since:] if is_change(r)]
        expect(not late, f"{names(late)} came after subscription {id!r} was ended")


async def all_kinds(probe: ServerProbe) -> JSONObject:
    """A filter for all that there is."""
    uris = [str(resource.get("uri")) for resource in (await probe.inventory()).resources[:20]]
    return {**EVERYTHING, "resourceSubscriptions": uris}


@check(
    "subscriptions-are-kept-apart",
    "base-53",
    meaning="Each of several subscriptions hears of its own changes, under its own id.",
    revisions=MODERN,
)
async def subscriptions_are_kept_apart(probe: ServerProbe) -> None:
    async with (
        probe.open_session() as session,
        listening(session, {"toolsListChanged": True}) as (one, _),
        listening(session, {"resourcesListChanged": True}) as (two, _),
    ):
        since = len(session.received)
        await make_changes(probe, session)
        kinds = {
            one: "notifications/tools/list_changed",
            two: "notifications/resources/list_changed",
        }
        for received in session.received[since:]:
            if is_change(received):
                id = subscription_of(received.object)
                known = isinstance(id, int | str) and id in kinds
                expect(known, f"{received.method} came for subscription {id!r}")
                expect(kinds.get(id) == received.method, f"{received.method} came for {id!r}")


# Changes ----------------------------------------------------------------------------------------


def told(inventory: Inventory, method: str) -> bool:
    """Whether changes of a list are said to be told."""
    return inventory.has(METHODS[CHANGES[method][0]].capability or "")


async def changed_lists(probe: ServerProbe, session: Session) -> set[str]:
    """The lists that are others after all tools have been called."""
    lists = [name for name in CHANGES if name in await offered(probe)]
    before = {method: await keys_of(session, method) for method in lists}
    await make_changes(probe, session)
    return {
        method for method in lists if set(before[method]) != set(await keys_of(session, method))
    }


async def judge_changes(probe: ServerProbe, session: Session, modern: bool) -> None:
    inventory = await probe.inventory()
    since = len(session.received)
    changed = await changed_lists(probe, session)
    require(changed, "no list changes when the tools that may be called are called")
    for method in sorted(changed):
        name, legacy_id, modern_id = CHANGES[method]
        came = any(received.method == name for received in session.received[since:])
        requirement = modern_id if modern else legacy_id
        if told(inventory, method):
            expect(came, f"{method} has changed, and no {name} came", requirement)


@check(
    "changes-of-lists-are-told",
    "tools-27",
    "resources-3",
    "prompts-13",
    meaning="If a list changes and `listChanged` is declared, the client is told.",
    revisions=LEGACY,
)
async def changes_of_lists_are_told(probe: ServerProbe) -> None:
    async with probe.open_session() as session:
        await judge_changes(probe, session, modern=False)


@check(
    "changes-of-lists-are-told-to-subscribers",
    "tools-7",
    "resources-3",
    "prompts-4",
    meaning="If a list changes and `listChanged` is declared, clients that listen are told.",
    revisions=MODERN,
)
async def changes_of_lists_are_told_to_subscribers(probe: ServerProbe) -> None:
    async with probe.open_session() as session, listening(session, EVERYTHING):
        await judge_changes(probe, session, modern=True)


@check(
    "undeclared-changes-are-not-told",
    "lifecycle-14",
    "lifecycle-18",
    "prompts-11",
    meaning="A server sends no notifications of changes that it has not declared.",
    revisions=LEGACY,
)
async def undeclared_changes_are_not_told(probe: ServerProbe) -> None:
    inventory = await probe.inventory()
    async with probe.open_session() as session:
        await make_changes(probe, session)
        for received in session.received:
            if is_change(received):
                capability = METHODS[received.method or ""].capability or ""
                declared = inventory.has(capability)
                expect(declared, f"{received.method} came, and {capability} is not declared")


# Subscriptions of the legacy era ----------------------------------------------------------------


@check(
    "resources-can-be-subscribed-to",
    meaning="A server that declares `resources.subscribe` takes a subscription, and its end.",
    revisions=LEGACY,
)
async def resources_can_be_subscribed_to(probe: ServerProbe) -> None:
    inventory = await probe.inventory()
    require(inventory.has("resources.subscribe"), "`resources.subscribe` is not declared")
    require(inventory.resources, "the server lists no resources")
    session = await probe.session()
    params = {"uri": inventory.resources[0].get("uri")}
    for method in ("resources/subscribe", "resources/unsubscribe"):
        result = (await session.request(method, params)).expect_result()
        expect(not set(result) - {META}, f"{method} got {result}")
