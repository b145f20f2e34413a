"""What a run says: the numbers as they come, the budgets at the end, and all of it as JSON."""

from __future__ import annotations

import json
import os
import platform
from collections.abc import Iterator, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

from tests import peers
from tests.benchmarks.measure import Effort
from tests.benchmarks.run import Outcome, Verdict
from tests.benchmarks.web import has_wrk

OUR_LIBRARIES = ("trio", "msgspec", "attrs", "cattrs")


def number(value: float, unit: str) -> str:
    """Format with three digits, which is more than the noise leaves."""
    digits = 0 if value >= 100 else 1 if value >= 10 else 2 if value >= 1 else 3
    return f"{value:,.{digits}f} {unit}"


def numbers(outcome: Outcome) -> str:
    """One row's numbers, each contestant beside the others."""
    unit = outcome.row.unit
    cells = [f"{name} {number(value, unit)}" for name, value in outcome.medians.items()]
    lines = [outcome.row.title, "    " + "   ".join(cells)]
    lines += [f"    {name}: {_first_line(reason)}" for name, reason in outcome.failures.items()]
    return "\n".join(lines)


def table(outcomes: Sequence[Outcome]) -> str:
    """The budgets of all rows, and whether they are met."""
    header = ("work", "compared", "is", "budget", "")
    cells = [header, *(_cells(outcome, verdict) for outcome, verdict in _judged(outcomes))]
    widths = [max(len(line[column]) for line in cells) for column in range(len(header))]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip()
        for line in cells
    )


def as_json(outcomes: Sequence[Outcome], effort: Effort) -> dict[str, Any]:
    """The run as one JSON object: what it ran on, every sample, every verdict."""
    return {
        "machine": {
            "platform": platform.platform(),
            "processors": os.cpu_count(),
            "load": os.getloadavg(),
            "python": platform.python_version(),
            "libraries": {name: version(name) for name in OUR_LIBRARIES},
            "wrk": has_wrk(),
            "peers": [*peers.ENVIRONMENTS.values(), *_npm_pins()],
        },
        "effort": {"rounds": effort.rounds, "share": effort.share},
        "rows": [_row_json(outcome) for outcome in outcomes],
    }


def _judged(outcomes: Sequence[Outcome]) -> Iterator[tuple[Outcome, Verdict]]:
    for outcome in outcomes:
        for verdict in outcome.verdicts():
            if verdict is not None:
                yield outcome, verdict


def _cells(outcome: Outcome, verdict: Verdict) -> tuple[str, str, str, str, str]:
    budget, unit = verdict.budget, outcome.row.unit
    if verdict.against:
        compared = f"{budget.subject} / {verdict.against}"
        ratio, limit = f"{verdict.ratio:.2f}", f"{budget.bound} {budget.factor:g}"
    else:
        compared = budget.subject
        ratio, limit = number(verdict.ratio, unit), f"{budget.bound} {budget.factor:g} {unit}"
    return outcome.row.title, compared, ratio, limit, "met" if verdict.met else "MISSED"


def _row_json(outcome: Outcome) -> dict[str, Any]:
    return {
        "name": outcome.row.name,
        "title": outcome.row.title,
        "unit": outcome.row.unit,
        "medians": outcome.medians,
        "samples": outcome.samples,
        "failures": outcome.failures,
        "budgets": [
            {
                "subject": verdict.budget.subject,
                "against": verdict.against or None,
                "ratio": verdict.ratio,
                "bound": verdict.budget.bound,
                "limit": verdict.budget.factor,
                "met": verdict.met,
            }
            for verdict in outcome.verdicts()
            if verdict is not None
        ],
    }


def _npm_pins() -> list[str]:
    project = json.loads((Path(peers.NPM_PROJECT) / "package.json").read_text(encoding="utf-8"))
    return [f"{name}@{pin}" for name, pin in project["dependencies"].items()]


def _first_line(reason: str) -> str:
    return next(iter(reason.strip().splitlines()[-1:]), "no reason given")
