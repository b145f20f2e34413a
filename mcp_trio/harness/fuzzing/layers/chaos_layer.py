"""Chaos: what happens to connections. Stalls, floods, cuts, signals, input that ends."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from hypothesis import strategies as st

from mcp_trio.harness.fuzzing.cases import (
    Ask,
    Case,
    Cut,
    EndInput,
    Flood,
    Pause,
    Raw,
    Signal,
    Stall,
    Step,
)
from mcp_trio.harness.fuzzing.scope import Scope, numbered
from mcp_trio.harness.fuzzing.speech import Speech

Draw = Callable[[st.SearchStrategy[Any]], Any]


def cases(scope: Scope) -> st.SearchStrategy[Case]:
    kinds = [_flood(scope), _slow_reader(scope)]
    ending = [_cut(scope)]
    if scope.process:
        kinds.append(_stopped(scope))
        ending += [_half_close(scope), _half_close(scope), _terminated(scope)]
    # What ends a connection costs a new one.
    share = 2 if scope.transport == "memory" else 4
    return st.integers(0, share).flatmap(lambda n: st.one_of(*(kinds if n else ending)))


def _work(scope: Scope) -> st.SearchStrategy[tuple[Step, ...]]:
    """A few requests that are under way when it happens."""
    return st.lists(scope.asks, max_size=5).map(numbered)


@st.composite
def _flood(draw: Draw, scope: Scope) -> Case:
    ask: Ask = draw(scope.asks)
    method = draw(st.sampled_from([ask.method, "harness/none"]))
    params = ask.params if method == ask.method else None
    times = draw(st.sampled_from([10, 100, 500]))
    if method in ("tools/call", "subscriptions/listen"):
        times = min(times, 100)
    return Case("chaos", (*draw(_work(scope)), Flood(100, times, method, params)))


@st.composite
def _slow_reader(draw: Draw, scope: Scope) -> Case:
    """A client that asks and asks, and does not read."""
    method = draw(
        st.sampled_from([name for name in scope.questions if name.endswith("/list")] or ["ping"])
    )
    times = draw(st.sampled_from([50, 500, 1_500]))
    seconds = draw(st.sampled_from([0.05, 0.3]))
    return Case("chaos", (Stall(seconds), *draw(_work(scope)), Flood(100, times, method)))


@st.composite
def _stopped(draw: Draw, scope: Scope) -> Case:
    """A process that stands still for a moment while messages come in: as many as a pipe holds.

    With more, it is we who wait, and so nobody lets it go on.
    """
    flood = Flood(
        100, draw(st.sampled_from([1, 10, 40])), "server/discover" if scope.is_modern else "ping"
    )
    pause = Pause(draw(st.sampled_from([0.0, 0.05])))
    return Case("chaos", (*draw(_work(scope)), Signal("STOP"), flood, pause, Signal("CONT")))


@st.composite
def _cut(draw: Draw, scope: Scope) -> Case:
    """The connection ends at once, perhaps in the middle of a line."""
    steps: list[Step] = list(draw(_work(scope)))
    if scope.bytes and draw(st.booleans()):
        frame = Speech(scope.revision).request(7, "tools/list")
        steps.append(Raw((frame[: draw(st.integers(0, len(frame)))],), "half a line"))
    return Case("chaos", (*steps, Cut()))


@st.composite
def _half_close(draw: Draw, scope: Scope) -> Case:
    """The input ends, perhaps while something is under way, perhaps with nobody reading."""
    steps: list[Step] = list(draw(_work(scope)))
    if draw(st.integers(0, 3)) == 0:
        steps.append(Flood(100, 200, "tools/list"))
    return Case("chaos", (*steps, EndInput()))


@st.composite
def _terminated(draw: Draw, scope: Scope) -> Case:
    return Case("chaos", (*draw(_work(scope)), Signal("TERM")))
