"""An event loop for one example: its clock jumps, and its tasks run in an order that comes again.

Trio mixes up the order of tasks on purpose, so that programs do not come to rely on one. For
Hypothesis it has a switch that makes the order part of the example; here the switch is on as well
where a seed leads the way, since a fault that cannot be repeated is not found yet.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from random import Random
from typing import TypeVar, TypeVarTuple

import trio
import trio.testing
from trio._core import _run

from fuzz.oracle import nothing_logged

Ts = TypeVarTuple("Ts")
T = TypeVar("T")


def run(main: Callable[[*Ts], Awaitable[T]], *args: *Ts, random: Random | None = None) -> T:
    """Run an async function in virtual time; `random` is where the order of tasks comes from.

    Raises:
        Fault: Our code has logged a failure of its own.
    """
    if random is not None:
        _run._ALLOW_DETERMINISTIC_SCHEDULING = True  # type: ignore[misc] # as Trio does it itself
        _run._r.seed(random.getrandbits(32))
    with nothing_logged():
        return trio.run(main, *args, clock=trio.testing.MockClock(autojump_threshold=0))
