"""The peer under test: a connection that is kept while it is well, and new ones for single cases.

Cases share a connection, because faults may need a history, leaks certainly do, and a process takes
half a second to start. A case that ends its connection, or begins before the handshake, has one of
its own.
"""

from __future__ import annotations

from collections import deque
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Final

import attrs
import trio

from mcp_trio.exceptions import TransportError
from mcp_trio.harness.exchange import Entry, Exchange
from mcp_trio.harness.fuzzing.cases import Case, Signal
from mcp_trio.harness.fuzzing.guard import Guard
from mcp_trio.harness.fuzzing.ledger import Trace
from mcp_trio.harness.fuzzing.talk import DEADLY, Talk, open_talk
from mcp_trio.harness.fuzzing.usage import Usage, measure, when_it_grew
from mcp_trio.harness.http_target import WebTarget
from mcp_trio.harness.model import Failed, NotApplicable
from mcp_trio.harness.targets import ServerTarget
from mcp_trio.harness.wires import WireEnded

HISTORY: Final = 300
"""Cases of the kept connection that are remembered, to be played again."""
WORN_OUT: Final = 300
"""Open requests after which a connection is given up: this many tools that run on and on."""
ATTEMPTS: Final = 3
"""How often a connection is tried before a target counts as gone."""
ATTEMPT_PAUSE: Final = 0.5
CLOSE_TIME: Final = 10.0
"""Seconds for a process to be ended; those who end it take less."""

CANNOT_START = (Failed, NotApplicable, WireEnded, TransportError, OSError)


class TargetGone(Exception):
    """The target cannot be started or reached any more; the message says why."""


@attrs.frozen
class Played:
    """A case, what happened, and what went over the wire."""

    trace: Trace
    exchange: tuple[Entry, ...]


class Subject:
    """A target in one revision, as cases are played to it. Made by `open_subject`.

    Attributes:
        history: The cases that the kept connection has seen, the newest last.
        usage: What its process used, from time to time; see `sample`.
        usage_anew: The same of the last new connection that cases were repeated on.
        messages: How many messages were sent, on all connections.
        connections: How many connections there were.
        starting: Seconds that it took to open them.
    """

    def __init__(
        self,
        target: ServerTarget,
        revision: str,
        deadline: float,
        guard: Guard,
        nursery: trio.Nursery,
    ) -> None:
        self.target = target
        self.revision = revision
        self.deadline = deadline
        self.history: deque[Case] = deque(maxlen=HISTORY)
        self.usage: list[Usage] = []
        self.messages = 0
        self.connections = 0
        self.starting = 0.0
        self._guard = guard
        self._nursery = nursery
        self._kept: Link | None = None
        self._sampled = trio.current_time()
        self.usage_anew: list[Usage] = []

    async def play(self, case: Case) -> Played:
        """Play a case on the kept connection, or on one of its own if it needs one.

        Raises:
            TargetGone: There is no connection to be had.
        """
        if needs_its_own(case):
            return (await self.play_anew([case]))[-1]
        talk = await self._connection()
        played = await self._play(talk, case)
        self.history.append(case)
        if talk.broken or len(talk.ledger.open) > WORN_OUT:
            await self.forget()
        return played

    async def play_anew(
        self,
        cases: Iterable[Case],
        *,
        deadline: float | None = None,
        repeat: int = 1,
        enough: Callable[[], bool] = lambda: False,
    ) -> list[Played]:
        """Play cases on a new connection, as far as it lasts. May give fewer than there are cases.

        Args:
            deadline: Seconds for an answer, if not as many as usual.
            repeat: How often all of it is done; after each time `usage_anew` grows by a look.
            enough: Asked after each time whether that may do.

        Raises:
            TargetGone: There is no connection to be had.
        """
        cases = list(cases)
        found: list[Played] = []
        self.usage_anew.clear()
        link = await self._open(cases[0].handshake, deadline or self.deadline)
        try:
            for _ in range(repeat):
                for case in cases:
                    found.append(await self._play(link.talk, case))
                    if link.talk.broken:
                        return found
                if repeat > 1:
                    del found[:-1]
                    self._measure(link.talk, self.usage_anew)
                    if enough():
                        break
        finally:
            await link.close()
        return found

    async def forget(self) -> None:
        """Close the kept connection."""
        if self._kept is not None:
            await self._kept.close()
        self._kept = None

    def sample(self, every: float) -> bool:
        """Measure what the process of the kept connection uses, unless that was just done."""
        now = trio.current_time()
        if self._kept is None or now - self._sampled < every:
            return False
        self._sampled = now
        self._measure(self._kept.talk, self.usage)
        return True

    def cases_when_it_grew(self, oracle: str, most: int) -> list[Case]:
        """Cases of the kept connection that were played when its process came to use more."""
        played = 0 if self._kept is None else self._kept.talk.played
        first = played - len(self.history)
        numbers = [number for cases in when_it_grew(self.usage, oracle) for number in cases]
        chosen = sorted({number for number in numbers[:most] if number >= first})
        return [self.history[number - first] for number in chosen]

    def _measure(self, talk: Talk, series: list[Usage]) -> None:
        child = talk.wire.child
        if (
            child is not None
            and (usage := measure(child.pid, talk.ledger.frames, talk.played)) is not None
        ):
            series.append(usage)

    async def _play(self, talk: Talk, case: Case) -> Played:
        before = talk.ledger.frames
        trace = await talk.play(case)
        self.messages += talk.ledger.frames - before
        return Played(trace, talk.wire.exchange.entries)

    # Connections

    async def _connection(self) -> Talk:
        if self._kept is None or self._kept.talk.ended is not None:
            await self.forget()
            self.history.clear()
            self.usage.clear()
            self._kept = await self._open(True, self.deadline)
        return self._kept.talk

    async def _open(self, handshake: bool, deadline: float) -> Link:
        # The nursery may be closed already when a cancellation gets here.
        await trio.lowlevel.checkpoint_if_cancelled()
        began = trio.current_time()
        link: Link
        for attempt in range(1, ATTEMPTS + 1):
            try:
                link = await self._nursery.start(self._hold, handshake, deadline)
            except CANNOT_START as exc:
                if attempt == ATTEMPTS:
                    raise TargetGone(str(exc) or type(exc).__name__) from exc
                await trio.sleep(ATTEMPT_PAUSE)
            else:
                break
        self.starting += trio.current_time() - began
        return link

    async def _hold(
        self,
        handshake: bool,
        deadline: float,
        task_status: trio.TaskStatus[Link] = trio.TASK_STATUS_IGNORED,
    ) -> None:
        """Hold a connection until it is closed. Raises only as long as it is not open.

        A target in this process may raise what it likes. That ends its connection, not ours.
        """
        link: Link | None = None
        self.connections += 1
        try:
            with trio.CancelScope() as scope:
                async with self._connect(handshake, deadline) as talk:
                    link = Link(talk, scope)
                    task_status.started(link)
                    await trio.sleep_forever()
        except Exception as exc:
            if link is None:
                raise
            link.talk.crashed(f"the server raised {type(exc).__name__}: {exc}")
        finally:
            if link is not None:
                link.closed.set()

    @asynccontextmanager
    async def _connect(self, handshake: bool, deadline: float) -> AsyncIterator[Talk]:
        exchange = Exchange()
        async with AsyncExitStack() as stack:
            http = None
            if isinstance(self.target, WebTarget):
                http = await stack.enter_async_context(self.target.open_http(exchange))
            wire = await stack.enter_async_context(self.target.open_wire(exchange))
            opening = open_talk(
                wire,
                self.revision,
                deadline=deadline,
                guard=self._guard,
                http=http,
                handshake=handshake,
            )
            yield await stack.enter_async_context(opening)


@attrs.frozen(eq=False)
class Link:
    """An open connection, held by a task of its own.

    Attributes:
        closed: Set when it is closed, its process included.
    """

    talk: Talk
    _scope: trio.CancelScope
    closed: trio.Event = attrs.field(factory=trio.Event)

    async def close(self) -> None:
        """End it and wait until it has ended; that takes as long as a process may be in the way."""
        self._scope.cancel()
        with trio.CancelScope(deadline=trio.current_time() + CLOSE_TIME, shield=True):
            await self.closed.wait()


def needs_its_own(case: Case) -> bool:
    """Whether a case has to have a connection to itself."""
    deadly = any(isinstance(step, Signal) and step.name in DEADLY for step in case.steps)
    return deadly or case.ends_connection or not case.handshake


@asynccontextmanager
async def open_subject(
    target: ServerTarget, revision: str, *, deadline: float, guard: Guard
) -> AsyncIterator[Subject]:
    """A subject for the length of a block."""
    async with trio.open_nursery() as nursery:
        subject = Subject(target, revision, deadline, guard, nursery)
        try:
            yield subject
        finally:
            nursery.cancel_scope.cancel()
