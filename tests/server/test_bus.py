"""The subscription bus: no change is lost, none is told twice for nothing, nobody waits."""

from contextlib import ExitStack

import pytest
import trio
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, consumes, invariant, rule

from mcp_trio.server.bus import (
    LISTS,
    Change,
    Interest,
    ListChanged,
    MemoryBus,
    ResourceUpdated,
    Subscription,
)

URIS = [f"memo://{n}" for n in range(4)]
CHANGES = st.one_of(
    st.builds(ListChanged, st.sampled_from(LISTS)),
    st.builds(ResourceUpdated, st.sampled_from(URIS)),
)


class BusModel(RuleBasedStateMachine):
    """Subscribers as plain sets: what each must still be told, and what it did ask for."""

    subscribers = Bundle("subscribers")

    def __init__(self) -> None:
        super().__init__()
        self.bus = MemoryBus()
        self.owed: dict[Subscription, set[Change]] = {}
        self.scopes: dict[Subscription, ExitStack] = {}

    @rule(
        target=subscribers,
        lists=st.sets(st.sampled_from(LISTS)),
        uris=st.sets(st.sampled_from(URIS)),
    )
    def subscribe(self, lists: set[str], uris: set[str]) -> Subscription:
        scope = ExitStack()
        interest = Interest(lists, set(uris))  # type: ignore[arg-type]  # sampled from LISTS
        subscription = scope.enter_context(self.bus.subscribe(interest))
        self.scopes[subscription] = scope
        self.owed[subscription] = set()
        return subscription

    @rule(subscription=consumes(subscribers))
    def unsubscribe(self, subscription: Subscription) -> None:
        self.scopes.pop(subscription).close()
        del self.owed[subscription]

    @rule(change=CHANGES)
    def publish(self, change: Change) -> None:
        self.bus.publish(change)
        for subscription, owed in self.owed.items():
            if change in subscription.interest:
                owed.add(change)

    @rule(subscription=subscribers)
    def take(self, subscription: Subscription) -> None:
        if self.owed[subscription]:
            change = trio.run(subscription.__anext__)
            self.owed[subscription].remove(change)

    @rule(subscription=subscribers, uri=st.sampled_from(URIS))
    def lose_interest(self, subscription: Subscription, uri: str) -> None:
        subscription.interest.uris.discard(uri)  # type: ignore[attr-defined]  # a set, here
        self.owed[subscription].discard(ResourceUpdated(uri))

    @invariant()
    def holds_what_is_owed_and_no_more(self) -> None:
        for subscription, owed in self.owed.items():
            assert owed <= set(subscription.pending)
            assert len(subscription.pending) <= len(LISTS) + len(URIS)


TestBusModel = BusModel.TestCase
TestBusModel.settings = settings(max_examples=40, stateful_step_count=25, deadline=None)


async def test_a_waiting_subscriber_is_woken() -> None:
    """Protects liveness: a change wakes whoever waits for it, and nobody else."""
    bus = MemoryBus()
    with bus.subscribe(Interest(["tools"])) as tools, bus.subscribe(Interest(["prompts"])) as other:
        async with trio.open_nursery() as nursery:

            async def wait() -> None:
                assert await anext(tools) == ListChanged("tools")

            nursery.start_soon(wait)
            await trio.testing.wait_all_tasks_blocked()
            bus.publish(ListChanged("tools"))
        assert not other.pending


async def test_changes_coalesce_and_keep_their_order() -> None:
    """Protects bounded memory: a thousand updates of one resource are one."""
    bus = MemoryBus()
    with bus.subscribe(Interest(LISTS, URIS)) as changes:
        for _ in range(1000):
            bus.publish(ResourceUpdated(URIS[0]))
            bus.publish(ListChanged("tools"))
        assert len(changes.pending) == 2
        assert [await anext(changes), await anext(changes)] == [
            ResourceUpdated(URIS[0]),
            ListChanged("tools"),
        ]


async def test_a_change_while_the_last_one_is_told_is_told_again() -> None:
    """Protects against a lost update between taking a change and having sent it."""
    bus = MemoryBus()
    with bus.subscribe(Interest(["tools"])) as changes:
        bus.publish(ListChanged("tools"))
        await anext(changes)
        bus.publish(ListChanged("tools"))
        with trio.fail_after(1):
            assert await anext(changes) == ListChanged("tools")


async def test_cancelling_the_wait_loses_nothing(autojump_clock: trio.testing.MockClock) -> None:
    """Protects invariant I2: a timeout around the iteration costs no change."""
    bus = MemoryBus()
    with bus.subscribe(Interest(["tools"])) as changes:
        bus.publish(ListChanged("tools"))
        with trio.move_on_after(0) as scope:
            await anext(changes)
        assert scope.cancelled_caught
        assert await anext(changes) == ListChanged("tools")


async def test_the_end_comes_after_what_is_pending() -> None:
    """Protects the graceful end: what happened before it is still told, later changes are not."""
    bus = MemoryBus()
    with bus.subscribe(Interest(["tools", "prompts"])) as changes:
        bus.publish(ListChanged("tools"))
        bus.end_subscriptions()
        bus.publish(ListChanged("prompts"))
        assert [change async for change in changes] == [ListChanged("tools")]
    with bus.subscribe(Interest(["tools"])) as later:
        bus.publish(ListChanged("tools"))
        assert await anext(later) == ListChanged("tools")


async def test_an_end_for_some() -> None:
    """Protects everybody else when one place at which a server serves shuts down."""
    bus, one, other = MemoryBus(), object(), object()
    interest = Interest(["tools"])
    with bus.subscribe(interest, by=one) as ended, bus.subscribe(interest, by=other) as goes_on:
        bus.end_subscriptions(by=one)
        bus.publish(ListChanged("tools"))
        assert [change async for change in ended] == []
        assert await anext(goes_on) == ListChanged("tools")


async def test_the_end_wakes_who_waits() -> None:
    """Protects shutdown: an idle subscriber hears of the end at once."""
    bus = MemoryBus()
    with bus.subscribe(Interest(["tools"])) as changes:
        async with trio.open_nursery() as nursery:

            async def listen() -> None:
                assert [change async for change in changes] == []

            nursery.start_soon(listen)
            await trio.testing.wait_all_tasks_blocked()
            bus.end_subscriptions()


async def test_a_subscription_ends_with_its_block() -> None:
    """Protects memory: the bus forgets who has gone, also after an error."""
    bus = MemoryBus()
    with pytest.raises(KeyError), bus.subscribe(Interest(["tools"])) as gone:
        raise KeyError
    bus.publish(ListChanged("tools"))
    assert not gone.pending


async def test_changes_may_come_from_any_thread() -> None:
    """A tool that blocks changes things in its thread; who waits is told, and not lost for good."""
    bus = MemoryBus()
    with bus.subscribe(Interest(["tools"], URIS)) as changes:

        async def publish_soon() -> None:
            await trio.testing.wait_all_tasks_blocked()
            await trio.to_thread.run_sync(bus.publish, ListChanged("tools"))

        for _ in range(3):
            async with trio.open_nursery() as nursery:
                nursery.start_soon(publish_soon)
                assert await anext(changes) == ListChanged("tools")

        def publish_many() -> None:
            for number in range(4000):
                bus.publish(ResourceUpdated(URIS[number % 4]))

        await trio.to_thread.run_sync(publish_many)
        assert {await anext(changes) for _ in URIS} == {ResourceUpdated(uri) for uri in URIS}


async def test_a_thread_that_outlives_the_run_hurts_nobody() -> None:
    """Publishing when nobody can be left to tell is no error."""
    bus = MemoryBus()
    scope = ExitStack()

    async def listen() -> None:
        scope.enter_context(bus.subscribe(Interest(["tools"])))

    await trio.to_thread.run_sync(trio.run, listen)
    bus.publish(ListChanged("tools"))
    scope.close()
