"""Measuring a row: its contestants take turns, round after round, and medians are kept.

Whatever slows the machine down for a while then slows all of them, so the ratios hold where the
numbers do not.
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from contextlib import ExitStack

import attrs

from tests.benchmarks.client import ServerFailed
from tests.benchmarks.measure import Effort, Sampler
from tests.benchmarks.row import Budget, Row
from tests.peers import InstallFailed, PeersUnavailable

FAILURES = (ServerFailed, InstallFailed, PeersUnavailable, OSError)


@attrs.frozen
class Verdict:
    """How a budget came out: `ratio` is the subject's number over what it is compared with."""

    budget: Budget
    against: str
    ratio: float
    met: bool


@attrs.frozen
class Outcome:
    """A row's samples by contestant; a contestant that could not be measured has a reason."""

    row: Row
    samples: dict[str, list[float]]
    failures: dict[str, str]

    @property
    def medians(self) -> dict[str, float]:
        return {name: statistics.median(taken) for name, taken in self.samples.items()}

    def verdicts(self) -> list[Verdict | None]:
        """Judge the row's budgets, in order; None where a number is missing."""
        return [_judged(budget, self.row, self.medians) for budget in self.row.budgets]


def measured(row: Row, effort: Effort) -> Outcome:
    """Open all contestants of `row`, sample them in turns, and close them."""
    outcome = Outcome(row, {}, {})
    with ExitStack() as stack:
        samplers: dict[str, Sampler] = {}
        for name, opener in row.contestants.items():
            try:
                samplers[name] = stack.enter_context(opener(effort))
            except FAILURES as exc:
                outcome.failures[name] = str(exc)
        for _ in range(effort.rounds):
            for name in list(samplers):
                try:
                    outcome.samples.setdefault(name, []).append(samplers[name]())
                except FAILURES as exc:
                    outcome.failures[name] = str(exc)
                    outcome.samples.pop(name, None)
                    del samplers[name]
    return outcome


def _judged(budget: Budget, row: Row, medians: dict[str, float]) -> Verdict | None:
    if not {budget.subject, *budget.of} <= medians.keys():
        return None
    best = max if row.unit == "calls/s" else min
    against = best(budget.of, key=medians.__getitem__, default="")
    ratio = medians[budget.subject] / (medians[against] if against else 1.0)
    met = ratio >= budget.factor if budget.bound == "at least" else ratio <= budget.factor
    return Verdict(budget, against, ratio, met)


def selected(rows: Sequence[Row], names: Sequence[str]) -> list[Row]:
    """Return the rows whose names start with one of `names`; all of them if there is none."""
    return [row for row in rows if not names or row.name.startswith(tuple(names))]
