"""Cancel a piece of code at every place where it can be cancelled, one after the other.

Cancellation can arrive at any checkpoint, and code that is right at all of them but one hangs
or leaks once a month. There is no need to wait for that month: a scenario has a finite number
of task steps, so it can be run once for each of them and cancelled there.

    def test_connect_and_call() -> None:
        async def scenario() -> None:
            async with mcp_trio.open_client(server) as client:
                await client.call_tool("add", {"a": 1, "b": 2})

        steps = exhaustive_cancellation(scenario)
        print(f"{steps} task steps tried")
"""

import glob
import os
import random
import signal
import sys
import threading
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import Any

import attrs
import trio
import trio.testing

#: More task steps than any sensible scenario has: beyond it, the scenario does not end.
MOST_STEPS = 100_000


class CancellationLeak(AssertionError):
    """A cancelled scenario left something behind, hung, or raised what it should not."""


def exhaustive_cancellation(
    scenario: Callable[[], Awaitable[object]],
    *,
    real_clock: bool = False,
    time_limit: float = 30.0,
    check: Callable[[], object] | None = None,
    every: int = 1,
) -> int:
    """Run `scenario` again and again, cancelled before its first, second, third ... task step.

    It ends with the first run that finishes before its turn to be cancelled comes, so every
    checkpoint of every task of the scenario has been tried. This is a plain function that
    calls `trio.run` itself: call it from an ordinary test, not from an async one.

    After each run it checks that no task of the scenario is alive, that no descriptor is open
    that was not open before, that no child process is left, running or dead, and that nothing
    but the cancellation came out.

    Args:
        scenario: Takes no arguments. It has to set up all that it uses.
        real_clock: False runs under a virtual clock that jumps over all waiting, with the same
            order of tasks each time. True is for real processes and sockets, since a virtual
            clock would fire deadlines while the operating system is still at work.
        time_limit: Seconds that one run may take before it counts as hanging. They are those of
            the clock it runs under: a scenario that sleeps an hour of virtual time needs more.
        check: Called after each run, outside of Trio; raises if it finds something wrong.
        every: Try only each n-th step, for scenarios whose runs are expensive.

    Returns:
        The number of runs that were cancelled.

    Raises:
        CancellationLeak: Something was left behind; says after which step.
        TypeError: `scenario` is what an async function returned instead of the function.
        RuntimeError: This is inside of Trio already.
    """
    if not callable(scenario):
        raise TypeError(f"scenario must be an async function, without parentheses: {scenario!r}")
    if trio.lowlevel.in_trio_run():
        raise RuntimeError("exhaustive_cancellation runs Trio itself: call it from a plain test")
    for tried, step in enumerate(range(1, MOST_STEPS, every)):
        before = _Belongings.now()
        cancelled = _run_once(scenario, step, real_clock=real_clock, time_limit=time_limit)
        where = f"cancelled before task step {step}" if cancelled else "not cancelled"
        before.compare(_Belongings.now(), where)
        if check is not None:
            try:
                check()
            except Exception as exc:
                raise CancellationLeak(f"{where}: {exc}") from exc
        if not cancelled:
            return tried
    raise CancellationLeak(f"the scenario does not end within {MOST_STEPS} task steps")


def _run_once(
    scenario: Callable[[], Awaitable[object]], step: int, *, real_clock: bool, time_limit: float
) -> bool:
    """One run, cancelled before `step`; False if it was over before."""

    async def main() -> bool:
        alive = trio.lowlevel.current_statistics().tasks_living
        with trio.CancelScope() as scope:
            limit = trio.move_on_after(time_limit)
            counter = _StepCounter(step, scope, limit)
            trio.lowlevel.add_instrument(counter)
            try:
                with limit:
                    await scenario()
                if limit.cancel_called:  # a shield may have kept it from being caught
                    raise CancellationLeak(_hung(scope, step, time_limit))
            except CancellationLeak:
                raise
            except Exception as exc:
                when = _when(scope, step)
                raise CancellationLeak(f"{when}, it raised {exc!r}") from exc
            finally:
                trio.lowlevel.remove_instrument(counter)
        left = trio.lowlevel.current_statistics().tasks_living - alive
        if left:
            raise CancellationLeak(f"cancelled before task step {step}: {left} tasks are alive")
        return scope.cancel_called

    with _watchdog(time_limit + 5, step):
        if real_clock:
            return trio.run(main)
        with _same_order():
            return trio.run(main, clock=trio.testing.MockClock(autojump_threshold=0))


def _when(scope: trio.CancelScope, step: int) -> str:
    if scope.cancel_called:
        return f"cancelled before task step {step}"
    return f"not cancelled yet, since step {step} had not come"


def _hung(scope: trio.CancelScope, step: int, time_limit: float) -> str:
    text = f"{_when(scope, step)}, it hung: it was not over after {time_limit:g} seconds"
    return text if scope.cancel_called else f"{text}; if it takes longer, give a time_limit"


@contextmanager
def _watchdog(seconds: float, step: int) -> Iterator[None]:
    """Break off a run that no cancellation can end, because it waits inside a shield.

    Only a signal reaches it there, so this works in the main thread of a POSIX process alone.
    The run is torn down, which Trio calls an internal error; its cause is the finding.
    """
    if sys.platform == "win32":
        yield
        return
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def bark(*_: object) -> None:
        raise CancellationLeak(
            f"to be cancelled before task step {step}, it hung inside a shield or a blocking call"
        )

    previous = signal.signal(signal.SIGALRM, bark)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    except trio.TrioInternalError as exc:
        raise (exc.__cause__ if isinstance(exc.__cause__, CancellationLeak) else exc) from None
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, previous)


class _StepCounter(trio.abc.Instrument):
    """Counts the steps of all tasks, and cancels the scope before one of them.

    Not if the time is over: the cancellation that this is comes from `limit`.
    """

    def __init__(self, step: int, scope: trio.CancelScope, limit: trio.CancelScope) -> None:
        self._left = step
        self._scope = scope
        self._limit = limit

    def before_task_step(self, task: trio.lowlevel.Task) -> None:
        self._left -= 1
        if self._left == 0 and not self._limit.cancel_called:
            self._scope.cancel()


@attrs.frozen
class _Belongings:
    """What a process holds besides memory."""

    descriptors: dict[int, str]
    children: frozenset[int]

    @classmethod
    def now(cls) -> "_Belongings":
        return cls(dict(_open_descriptors()), frozenset(_child_processes()))

    def compare(self, after: "_Belongings", where: str) -> None:
        new = {fd: what for fd, what in after.descriptors.items() if fd not in self.descriptors}
        if new:
            raise CancellationLeak(f"{where}: descriptors are left open: {new}")
        if children := after.children - self.children:
            raise CancellationLeak(
                f"{where}: child processes are left, running or dead: {children}"
            )


def _open_descriptors() -> Iterator[tuple[int, str]]:
    for folder in ("/proc/self/fd", "/dev/fd"):
        if os.path.isdir(folder):
            for name in os.listdir(folder):
                try:
                    yield int(name), os.readlink(f"{folder}/{name}")
                except OSError:
                    continue  # the descriptor that lists the folder, closed by now
            return


def _child_processes() -> Iterator[int]:
    """The children of this process, zombies included; none where there is no Linux /proc."""
    for path in glob.glob("/proc/self/task/*/children"):
        try:
            with open(path) as children:
                yield from map(int, children.read().split())
        except OSError:
            continue  # a thread that has just ended


@contextmanager
def _same_order() -> Iterator[None]:
    """Make Trio run its tasks in the same order each time, so that step k is the same step.

    Trio shuffles on purpose and has no public switch for this; these two names are what its
    own test suite and Hypothesis' support for Trio use.
    """
    run: Any = trio._core._run
    allowed, state = run._ALLOW_DETERMINISTIC_SCHEDULING, run._r.getstate()
    run._ALLOW_DETERMINISTIC_SCHEDULING = True
    run._r.setstate(random.Random(0).getstate())
    try:
        yield
    finally:
        run._ALLOW_DETERMINISTIC_SCHEDULING = allowed
        run._r.setstate(state)
