"""Outcomes, counted: in all, and by the areas of the specification."""

from collections.abc import Mapping, Sequence
from typing import Final, TypeAlias

import attrs

from mcp_trio.harness.model import Check, Finding, Report, Requirement, Verdict

Reports: TypeAlias = Report | Sequence[Report]

VERDICTS: Final[tuple[Verdict, ...]] = ("passed", "failed", "warned", "not applicable")


def listed(reports: Reports) -> tuple[Report, ...]:
    """One report or several, as several."""
    return (reports,) if isinstance(reports, Report) else tuple(reports)


def target_of(reports: Sequence[Report]) -> str:
    """What people call that which was tested."""
    return ", ".join(dict.fromkeys(report.target for report in reports))


def labels_of(reports: Sequence[Report]) -> list[str]:
    """What each of several reports is called: one target may have been reached in several ways."""
    same = len({report.target for report in reports}) < len(reports)
    return [
        f"{report.target} over {dict(report.facts).get('transport', '?')}"
        if same
        else report.target
        for report in reports
    ]


@attrs.define
class Counts:
    """How many outcomes there were of each kind."""

    passed: int = 0
    failed: int = 0
    warned: int = 0
    not_applicable: int = 0

    def add(self, verdict: Verdict) -> None:
        name = verdict.replace(" ", "_")
        setattr(self, name, getattr(self, name) + 1)

    @property
    def total(self) -> int:
        return self.passed + self.failed + self.warned + self.not_applicable

    @property
    def row(self) -> tuple[int, int, int, int]:
        """In the order of `VERDICTS`."""
        return self.passed, self.failed, self.warned, self.not_applicable


def summary(reports: Reports) -> Counts:
    """All outcomes, and the findings of a fuzzer, which has no outcomes."""
    counts = Counts()
    for report in listed(reports):
        for outcome in report.outcomes:
            counts.add(outcome.verdict)
        if not report.outcomes:
            for finding in report.findings:
                counts.add("failed" if finding.is_must else "warned")
    return counts


def area_of(check: Check) -> str:
    """The area of the specification that a check belongs to: that of its first requirement.

    A check of what no sentence asks for belongs to the module that it was written in.
    """
    if check.requirements:
        return check.requirements[0].rpartition("-")[0]
    return check.run.__module__.rpartition(".")[2]


def areas_of(check: Check) -> set[str]:
    """All words by which a person may ask for a check: its areas, and its module."""
    named = {id.rpartition("-")[0] for id in check.requirements}
    return {*named, area_of(check), check.run.__module__.rpartition(".")[2]}


def by_area(reports: Reports) -> dict[str, Counts]:
    """The outcomes of each area, in the order in which they were first seen."""
    found: dict[str, Counts] = {}
    for report in listed(reports):
        for outcome in report.outcomes:
            found.setdefault(area_of(outcome.check), Counts()).add(outcome.verdict)
    return found


def sentences(finding: Finding, requirements: Mapping[str, Requirement]) -> list[Requirement]:
    """The requirements that a finding breaks: those that its revision has."""
    named = [requirements[id] for id in finding.requirements if id in requirements]
    return [one for one in named if finding.revision in one.revisions] or named
