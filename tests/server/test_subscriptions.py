"""Hearing of changes: `subscriptions/listen`, and legacy sessions."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, cast

import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from mcp_trio.exceptions import Closed
from mcp_trio.protocol.errors import INVALID_PARAMS, METHOD_NOT_FOUND, MCPError
from mcp_trio.server import subscriptions
from mcp_trio.server.bus import LISTS, ListChanged, ResourceUpdated
from mcp_trio.server.context import Context
from mcp_trio.server.session import Session
from mcp_trio.server.subscriptions import listen, serve_changes, subscribe, unsubscribe
from tests.server.fakes import FakePeer, FakeServer, make_context, peer_of, subscription_id

ACK = "notifications/subscriptions/acknowledged"
EVERYTHING = {
    "toolsListChanged": True,
    "promptsListChanged": True,
    "resourcesListChanged": True,
    "resourceSubscriptions": ["memo://a"],
}


def listening(notifications: Any, **more: Any) -> Context:
    params = {"notifications": notifications}
    return make_context("subscriptions/listen", params, **more)


@asynccontextmanager
async def running(ctx: Context) -> AsyncIterator[list[Any]]:
    """Run `listen`; gives a list that gets its result, should it end."""
    results: list[Any] = []

    async def run() -> None:
        results.append(await listen(ctx, ctx.params))

    async with trio.open_nursery() as nursery:
        nursery.start_soon(run)
        await wait_all_tasks_blocked()
        yield results
        nursery.cancel_scope.cancel()


def methods(ctx: Context) -> list[str]:
    return [method for method, _ in peer_of(ctx).sent]


async def test_the_acknowledgement_comes_first_and_says_what_was_granted() -> None:
    """Protects the order on a subscription, and its id on every message of it."""
    ctx = listening(EVERYTHING, request_id="sub")
    async with running(ctx):
        ctx.server.bus.publish(ListChanged("tools"))
        ctx.server.bus.publish(ResourceUpdated("memo://a"))
        await wait_all_tasks_blocked()
    sent = peer_of(ctx).sent
    assert methods(ctx) == [
        ACK,
        "notifications/tools/list_changed",
        "notifications/resources/updated",
    ]
    assert cast(Any, sent[0][1])["notifications"] == EVERYTHING
    assert cast(Any, sent[2][1])["uri"] == "memo://a"
    assert [subscription_id(params) for _, params in sent] == ["sub"] * 3


async def test_only_what_was_asked_for_is_sent() -> None:
    """Protects clients from notification types and resources that they did not name."""
    ctx = listening({"promptsListChanged": True, "toolsListChanged": False})
    async with running(ctx):
        for kind in LISTS:
            ctx.server.bus.publish(ListChanged(kind))
        ctx.server.bus.publish(ResourceUpdated("memo://a"))
        await wait_all_tasks_blocked()
    assert methods(ctx) == [ACK, "notifications/prompts/list_changed"]


async def test_what_the_server_does_not_offer_is_not_granted() -> None:
    """Protects the acknowledgement: it promises nothing that never comes."""
    server = FakeServer()
    server.capabilities = {"tools": {}, "prompts": None, "resources": {"listChanged": True}}
    ctx = listening(EVERYTHING, server=server)
    async with running(ctx):
        server.bus.publish(ListChanged("tools"))
        await wait_all_tasks_blocked()
    [(method, params)] = peer_of(ctx).sent
    assert method == ACK
    assert cast(Any, params)["notifications"] == {"resourcesListChanged": True}


@pytest.mark.parametrize(
    "notifications",
    [None, [], "all", {"toolsListChanged": "yes"}, {"resourceSubscriptions": ["a", 1]}],
)
async def test_a_malformed_filter_is_refused(notifications: Any) -> None:
    """Protects against guessing; the error names the field."""
    ctx = listening(notifications)
    with pytest.raises(MCPError, match="notifications") as caught:
        await listen(ctx, ctx.params)
    assert caught.value.code == INVALID_PARAMS
    assert peer_of(ctx).sent == []


async def test_a_subscription_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Protects memory from a client that names very many resources, in both eras."""
    monkeypatch.setattr(subscriptions, "MAX_URIS", 2)
    ctx = listening({"resourceSubscriptions": ["a", "b", "c"]})
    with pytest.raises(MCPError, match="2 URIs at most"):
        await listen(ctx, ctx.params)
    session = Session(cast(Any, FakePeer()))
    for uri in ("a", "b", "a"):
        await subscribe(*legacy_request("subscribe", uri, session))
    with pytest.raises(MCPError, match="2 resources at most"):
        await subscribe(*legacy_request("subscribe", "c", session))


async def test_a_change_before_the_acknowledgement_is_not_lost() -> None:
    """Protects the gap between asking and being told that it is granted."""

    class SlowPeer(FakePeer):
        async def notify(self, method: str, params: Any = None, **related: Any) -> None:
            if method == ACK:
                ctx.server.bus.publish(ListChanged("tools"))
            await super().notify(method, params)

    ctx = listening({"toolsListChanged": True}, peer=SlowPeer())
    async with running(ctx):
        await wait_all_tasks_blocked()
    assert methods(ctx) == [ACK, "notifications/tools/list_changed"]


async def test_a_client_that_does_not_read_costs_nothing() -> None:
    """Protects the server: publishing goes on, and what is pending stays bounded."""
    gate = trio.Event()

    class StalledPeer(FakePeer):
        async def notify(self, method: str, params: Any = None, **related: Any) -> None:
            if method != ACK:
                await gate.wait()
            await super().notify(method, params)

    ctx = listening({"toolsListChanged": True}, peer=StalledPeer())
    async with running(ctx):
        for _ in range(100):
            ctx.server.bus.publish(ListChanged("tools"))
            await trio.lowlevel.checkpoint()
        gate.set()
        await wait_all_tasks_blocked()
    assert methods(ctx) == [ACK] + ["notifications/tools/list_changed"] * 2


async def test_the_server_ends_a_subscription_in_good_order() -> None:
    """Protects graceful shutdown: what is pending, then the cancellation, then the response."""
    ctx = listening({"toolsListChanged": True}, request_id=5)
    async with running(ctx) as results:
        ctx.server.bus.publish(ListChanged("tools"))
        ctx.server.bus.end_subscriptions()
        await wait_all_tasks_blocked()
    assert methods(ctx) == [ACK, "notifications/tools/list_changed", "notifications/cancelled"]
    cancelled = cast(Any, peer_of(ctx).sent[-1][1])
    assert cancelled["requestId"] == 5
    assert subscription_id(cancelled) == 5
    assert [subscription_id(result) for result in results] == [5]


async def test_it_ends_with_the_input() -> None:
    """Protects the end of a server: nobody waits for a handler that never ends by itself."""
    ctx = listening({})
    async with running(ctx) as results:
        assert ctx.incoming.open_ended
        assert not results


# Legacy


def legacy_request(
    what: str, uri: Any, session: Session, server: Any = None
) -> tuple[Context, dict[str, Any]]:
    params = {"uri": uri}
    method = f"resources/{what}"
    ctx = make_context(method, params, version="2025-06-18", session=session, server=server)
    return ctx, params


async def test_legacy_subscriptions_are_counted() -> None:
    """Protects two subscribers behind one client from each other."""
    session = Session(cast(Any, FakePeer()))
    for expected, call in ((1, subscribe), (2, subscribe), (1, unsubscribe)):
        name = call.__name__
        assert await call(*legacy_request(name, "memo://a", session)) == {}
        assert session.subscriptions == {"memo://a": expected}
    for _ in range(2):  # the second one too many
        await unsubscribe(*legacy_request("unsubscribe", "memo://a", session))
    assert session.subscriptions == {}


@pytest.mark.parametrize("uri", [None, 5, {}])
async def test_subscribe_needs_a_uri(uri: Any) -> None:
    """Protects the session from what could never be updated."""
    with pytest.raises(MCPError, match="'uri' must be a string"):
        await subscribe(*legacy_request("subscribe", uri, Session(cast(Any, FakePeer()))))


async def test_subscribe_needs_the_capability() -> None:
    """Protects a server that took subscriptions out of what it declares."""
    server = FakeServer()
    server.capabilities = {"resources": {}}
    session = Session(cast(Any, FakePeer()))
    with pytest.raises(MCPError) as caught:
        await subscribe(*legacy_request("subscribe", "memo://a", session, server))
    assert caught.value.code == METHOD_NOT_FOUND


async def test_a_legacy_client_hears_of_changes_once_it_is_ready() -> None:
    """Protects the handshake: silence before `initialized`, and nothing lost by it."""
    peer, server = FakePeer(), FakeServer()
    session = Session(cast(Any, peer))
    async with trio.open_nursery() as nursery:
        nursery.start_soon(serve_changes, session, server.bus)
        await wait_all_tasks_blocked()
        server.bus.publish(ListChanged("prompts"))  # before it could list anything: no news
        session.settled.set()
        await wait_all_tasks_blocked()
        server.bus.publish(ListChanged("tools"))
        server.bus.publish(ResourceUpdated("memo://a"))
        await wait_all_tasks_blocked()
        assert peer.sent == []
        session.ready.set()
        session.subscriptions["memo://b"] = 1
        await wait_all_tasks_blocked()
        server.bus.publish(ResourceUpdated("memo://b"))
        server.bus.publish(ResourceUpdated("memo://c"))
        await wait_all_tasks_blocked()
        nursery.cancel_scope.cancel()
    assert peer.sent == [
        ("notifications/tools/list_changed", None),
        ("notifications/resources/updated", {"uri": "memo://b"}),
    ]


async def test_an_update_that_was_unsubscribed_meanwhile_is_not_sent() -> None:
    """Protects the client: after the answer to unsubscribe there are no updates."""
    gate = trio.Event()

    class StalledPeer(FakePeer):
        async def notify(self, method: str, params: Any = None, **related: Any) -> None:
            await gate.wait()
            await super().notify(method, params)

    peer, server = StalledPeer(), FakeServer()
    session = Session(cast(Any, peer), subscriptions={"memo://a": 1})
    session.ready.set()
    session.settled.set()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(serve_changes, session, server.bus)
        await wait_all_tasks_blocked()
        server.bus.publish(ListChanged("tools"))
        await wait_all_tasks_blocked()
        server.bus.publish(ResourceUpdated("memo://a"))
        await unsubscribe(*legacy_request("unsubscribe", "memo://a", session, server))
        gate.set()
        await wait_all_tasks_blocked()
        nursery.cancel_scope.cancel()
    assert [method for method, _ in peer.sent] == ["notifications/tools/list_changed"]


@pytest.mark.parametrize("end", ["connection", "bus"])
async def test_serving_changes_ends_with_the_connection_or_the_bus(end: str) -> None:
    """Protects siblings in the nursery: a client that is gone raises nothing."""
    peer, server = FakePeer(), FakeServer()
    session = Session(cast(Any, peer))
    session.ready.set()
    session.settled.set()
    with trio.fail_after(5):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(serve_changes, session, server.bus)
            await wait_all_tasks_blocked()
            if end == "bus":
                server.bus.end_subscriptions()
            else:
                peer.closed = Closed("gone")
                server.bus.publish(ListChanged("tools"))
