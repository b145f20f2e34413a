"""One reader for what a client sends and for the news that it has gone.

Whoever answers a request wants to know when nobody waits for the answer any more, and the only
way to hear of that is to read from the connection. Reading all the time takes a second task
that wakes for every request; reading in a nursery around each request costs more still (two
fifths of all requests a second). But a handler that never waits cannot be overtaken by events.
So the connection's own task reads, and only when the handler begins to wait for something does
a second task, the watcher, take over. What it reads beyond the present request is kept for
later, up to a bound.
"""

from __future__ import annotations

import types
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Generator
from typing import Any, TypeVar

import trio

T = TypeVar("T")

#: Bytes that the watcher reads beyond the present request (at most one read more). A client
#: that sends more than that ahead of the answer is no longer watched, nor read, until it comes.
READ_AHEAD = 65_536


class SharedReader(ABC):
    """Lets a connection's task and its watcher take turns in reading from one source.

    `ended` tells whether the client has closed its side, or the connection broke.
    """

    def __init__(self, nursery: trio.Nursery) -> None:
        """The nursery is the connection's. Cancelling it ends a watcher that waits for bytes."""
        self.ended = False
        self.nursery = nursery
        self._ahead = b""
        self._watching = False
        self._reading = False
        self._wanted = False
        self._news = trio.Event()
        self._scopes: list[trio.CancelScope] = []

    @abstractmethod
    async def read(self) -> bytes | None:
        """Wait for the next bytes; None at the end. Cancelling it loses nothing."""

    @property
    def idle(self) -> bool:
        """Whether there is nothing to `take` yet."""
        return not self._ahead and not self.ended

    def take(self) -> bytes:
        """What was read and not taken yet; empty when the end has come."""
        data, self._ahead = self._ahead, b""
        return data

    def more(self) -> Awaitable[None]:
        """To be awaited: something was read. For one task at a time."""
        return self._news.wait() if self._watching else self._read_once()

    def watch(self) -> None:
        """From now on notice the end, until `unwatch`. Cheap if somebody reads already."""
        self._wanted = True
        if self._reading or self._watching or self.ended or len(self._ahead) >= READ_AHEAD:
            return
        self._watching = True
        self.nursery.start_soon(self._watch)

    def unwatch(self) -> None:
        """Forget the scopes that the end would cancel, and read only when asked for `more`."""
        self._wanted = False
        self._scopes.clear()

    def cancel_at_end(self, scope: trio.CancelScope) -> None:
        """Cancel this scope when the end comes, until `unwatch`; at once, if it has come."""
        if self.ended:
            scope.cancel()
        self._scopes.append(scope)

    def end(self) -> None:
        """Nobody is there any more: as read, or as found out by writing."""
        self.ended = True
        for scope in self._scopes:
            scope.cancel()

    async def _watch(self) -> None:
        try:
            while True:  # once in any case: whoever asked for `more` meanwhile waits for this task
                await self._read_once()
                self._news.set()
                self._news = trio.Event()
                if not self._wanted or self.ended or len(self._ahead) >= READ_AHEAD:
                    return
        finally:
            self._watching = False

    async def _read_once(self) -> None:
        self._reading = True
        try:
            data = await self.read()
        finally:
            self._reading = False
        if data is None:
            self.end()
        else:
            self._ahead = self._ahead + data if self._ahead else data


@types.coroutine
def noticing_waits(work: Awaitable[T], on_wait: Callable[[], object]) -> Generator[Any, Any, T]:
    """Await `work`, and call `on_wait` each time before it makes its task wait.

    An event loop runs a task by sending into its coroutine, and a coroutine that has to wait
    yields. Standing in between tells the two apart at a microsecond each, and without a task.
    Waits of other tasks that `work` starts are theirs, and not seen here.
    """
    steps = work.__await__()
    step: Callable[[Any], Any] = steps.send
    argument: Any = None
    while True:
        try:
            wish = step(argument)
        except StopIteration as done:
            result: T = done.value
            return result
        on_wait()
        try:
            step, argument = steps.send, (yield wish)
        except BaseException as exc:  # it is for `work`, and comes back out of it
            step, argument = steps.throw, exc
