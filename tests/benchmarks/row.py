"""A line of the table of benchmarks: who is compared at what, and what is asked of it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

import attrs

from tests.benchmarks.measure import Opener


@attrs.frozen
class Budget:
    """`subject` is to reach at least, or stay below, `factor` times the best of `of`.

    With nothing in `of`, the factor is an absolute number in the row's unit.
    """

    bound: Literal["at least", "at most"]
    factor: float
    of: tuple[str, ...] = ()
    subject: str = "ours"


@attrs.frozen
class Row:
    """One line of the table. `unit` decides whether more is better: it is, for a rate."""

    name: str
    title: str
    unit: Literal["calls/s", "ms", "MB", "x"]
    contestants: Mapping[str, Opener]
    budgets: tuple[Budget, ...] = ()
