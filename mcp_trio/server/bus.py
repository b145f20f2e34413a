"""The subscription bus: from whoever changes something to whoever asked to hear of it.

A notification of change says that something has changed, not what it was or how often. So there
is no queue here that could overflow: each subscription holds one flag per list and a set of
URIs, and a change that is pending already is not added twice. That makes three promises
possible at once which no queue can give together:

- `publish` never waits, however slow a subscriber is;
- no change is lost: after the last one, every subscriber is told at least once;
- the memory of a subscription is bounded by what it asked for.

Changes are plain values and publishing is one method, so that a bus between several server
processes is a subclass: its `publish` sends to a broker, and what comes back from there goes
into `deliver`.
"""

from abc import ABC, abstractmethod
from collections.abc import Collection, Container, Iterator
from contextlib import contextmanager, suppress
from typing import Final, Literal, TypeAlias, get_args

import attrs
import trio

ListKind: TypeAlias = Literal["tools", "prompts", "resources"]
LISTS: Final[tuple[ListKind, ...]] = get_args(ListKind)


@attrs.frozen
class ListChanged:
    """The list of tools, prompts or resources (with their templates) is no longer what it was."""

    kind: ListKind


@attrs.frozen
class ResourceUpdated:
    """The resource at ``uri`` should be read again."""

    uri: str


Change: TypeAlias = ListChanged | ResourceUpdated


@attrs.frozen
class Interest:
    """What a subscriber wants to hear of.

    Both members are looked at each time a change comes, so they may be live: a legacy session
    hands in the very dictionary that its subscribe and unsubscribe requests change.
    """

    lists: Collection[ListKind] = ()
    uris: Container[str] = ()

    def __contains__(self, change: Change) -> bool:
        match change:
            case ListChanged(kind):
                return kind in self.lists
            case ResourceUpdated(uri):
                return uri in self.uris


class Subscription:
    """What one subscriber has not heard yet; iterate over it for one change at a time.

    The iteration waits while nothing is pending. When the bus ends its subscriptions, it ends
    after everything that was pending then. Cancelling it loses nothing: a change leaves the set in
    the moment in which it is returned.
    """

    def __init__(self, interest: Interest) -> None:
        self.interest = interest
        self.pending: dict[Change, None] = {}  # a set that remembers the order
        self._ended = False
        self._news = trio.lowlevel.ParkingLot()
        self._home = _current_run()

    def add(self, change: Change) -> None:
        """Make a change pending, if it is of interest and not pending already; in any thread."""
        if self._home is None or self._home is _current_run():
            self._add(change)
        else:  # a tool that blocks has changed something, in a thread where nobody can be woken
            with suppress(trio.RunFinishedError):
                self._home.run_sync_soon(self._add, change, idempotent=True)

    def _add(self, change: Change) -> None:
        if change in self.interest and not self._ended:
            self.pending[change] = None
            self._news.unpark_all()

    def end(self) -> None:
        """Take no more changes; the iteration ends after those that are pending."""
        self._ended = True
        self._news.unpark_all()

    def __aiter__(self) -> "Subscription":
        return self

    async def __anext__(self) -> Change:
        await trio.lowlevel.checkpoint()
        while True:
            while self.pending:
                change = next(iter(self.pending))
                del self.pending[change]
                if change in self.interest:  # it may have been unsubscribed in the meantime
                    return change
            if self._ended:
                raise StopAsyncIteration
            await self._news.park()


def _current_run() -> trio.lowlevel.TrioToken | None:
    """The run of Trio that this thread is in; None for a thread beside it."""
    return trio.lowlevel.current_trio_token() if trio.lowlevel.in_trio_run() else None


class SubscriptionBus(ABC):
    """Takes changes from anywhere in the server and hands them to all subscriptions.

    None of the methods waits. `publish` and `deliver` may be called from any thread; the others
    are for Trio's.
    """

    def __init__(self) -> None:
        self._subscriptions: dict[Subscription, object] = {}  # and whose they are

    @abstractmethod
    def publish(self, change: Change) -> None:
        """Say that something changed. Never blocks, and never fails for what subscribers do."""

    def deliver(self, change: Change) -> None:
        """Hand a change to the subscriptions of this process that are interested."""
        for subscription in list(self._subscriptions):  # a copy: other threads may come and go
            subscription.add(change)

    @contextmanager
    def subscribe(self, interest: Interest, by: object = None) -> Iterator[Subscription]:
        """Collect changes for the length of a block, starting now.

        `by` is whoever has to end it in good order, if need be: see `end_subscriptions`.
        """
        subscription = Subscription(interest)
        self._subscriptions[subscription] = by
        try:
            yield subscription
        finally:
            del self._subscriptions[subscription]

    def end_subscriptions(self, by: object = None) -> None:
        """End the subscriptions that there are in good order, as before a shutdown.

        Each subscriber still gets what is pending; then its iteration ends, and a client that
        listens is told so. This waits for nothing: give the answers time to leave.

        Args:
            by: The peer of those to end, where not the whole server shuts down but one of the
                places at which it serves; by default all are ended.
        """
        for subscription, owner in self._subscriptions.items():
            if by is None or owner is by:
                subscription.end()


class MemoryBus(SubscriptionBus):
    """A bus inside one process."""

    def publish(self, change: Change) -> None:
        self.deliver(change)
