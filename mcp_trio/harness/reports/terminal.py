"""A report for a terminal: what was counted, by area, and then each finding with its reasons.

Lines that are there to be copied, links and replays, are never broken. rich is imported by whoever
makes the console.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Final

from mcp_trio.harness.model import LEVELS, Check, Finding, Report, Requirement, Role
from mcp_trio.harness.reports.counts import (
    VERDICTS,
    Counts,
    Reports,
    area_of,
    by_area,
    labels_of,
    listed,
    sentences,
    summary,
)
from mcp_trio.harness.reports.text import one_line, visible
from mcp_trio.harness.requirements import Coverage, load_requirements
from mcp_trio.protocol.revisions import REVISIONS

if TYPE_CHECKING:
    from rich.console import Console, RenderableType
    from rich.table import Table

STYLES: Final = {"passed": "green", "failed": "bold red", "warned": "yellow"}


def print_reports(console: Console, reports: Reports) -> None:
    """Print one report, or several as one."""
    found = listed(reports)
    if len(found) > 1:
        console.print(_targets(found))
    for report in found[: 1 if len(found) == 1 else 0]:
        _facts(console, report)
    areas = by_area(found)
    if areas:
        console.print(_areas(areas, summary(found)))
    requirements = load_requirements()
    findings = [finding for report in found for finding in report.findings]
    for alike in sorted(_alike(findings), key=lambda alike: not alike[0].is_must):
        _finding(console, alike, requirements)
    if not findings:
        _say(console, "Nothing was found to be wrong.", "green")
    for outcome in (outcome for report in found for outcome in report.mistakes):
        where = f"{outcome.check.id} ({outcome.revision} over {outcome.transport})"
        _say(console, f"Please report this mistake of the harness: {where}: {outcome.message}")


def _alike(findings: Sequence[Finding]) -> list[list[Finding]]:
    """Findings that say the same, in whatever revision and over whatever transport, together."""
    groups: dict[object, list[Finding]] = {}
    for finding in findings:
        same = (finding.check, finding.requirements, finding.level, finding.message)
        groups.setdefault(same, []).append(finding)
    return list(groups.values())


def _facts(console: Console, report: Report) -> None:
    facts = ", ".join(f"{name} {value}" for name, value in report.facts)
    _say(console, f"{report.target}: {facts}" if facts else report.target, "bold")


def _targets(reports: Sequence[Report]) -> Table:
    table = _table("target", *VERDICTS, "revisions", "seconds")
    for label, report in zip(labels_of(reports), reports, strict=True):
        facts = dict(report.facts)
        more = (facts.get("revisions", ""), facts.get("seconds", ""))
        table.add_row(_safe(label), *_numbers(summary(report)), *map(_safe, more))
    return table


def _areas(areas: dict[str, Counts], total: Counts) -> Table:
    table = _table("area", *VERDICTS)
    for area, counts in areas.items():
        table.add_row(_safe(area), *_numbers(counts))
    table.add_section()
    table.add_row("all", *_numbers(total))
    return table


def _table(*columns: str) -> Table:
    from rich.box import SIMPLE_HEAD
    from rich.table import Table

    table = Table(box=SIMPLE_HEAD, pad_edge=False)
    for column in columns:
        right = column in VERDICTS or column in ("seconds", "sentences", "observable", "checked")
        table.add_column(column, justify="right" if right else "left", overflow="fold")
    return table


def _numbers(counts: Counts) -> Iterable[RenderableType]:
    from rich.text import Text

    for verdict, number in zip(VERDICTS, counts.row, strict=True):
        yield Text(str(number), STYLES.get(verdict, "") if number else "dim")


def _finding(
    console: Console, alike: Sequence[Finding], requirements: dict[str, Requirement]
) -> None:
    finding = alike[-1]
    head = "FAILED" if finding.is_must else "WARNED"
    places = dict.fromkeys(f"{one.revision} over {one.transport}" for one in alike)
    where = f"{finding.level}, {', '.join(places)}"
    _say(
        console,
        f"\n{head} {one_line(finding.check)} ({where})",
        STYLES[head.lower()],
    )
    for requirement in sentences(finding, requirements):
        _say(console, f"  {requirement.id}: {requirement.says}")
        _say(console, f"    {requirement.link(finding.revision)}", "dim")
    if not finding.requirements:
        _say(console, "  No sentence of the specification asks for this; it is good sense.")
    _say(console, f"  seen: {one_line(finding.message, 2000)}")
    _say(console, f"  replay: {visible(finding.replay)}")


def _say(console: Console, text: str, style: str = "") -> None:
    from rich.text import Text

    console.print(Text(visible(text), style), soft_wrap=True)


def _safe(text: str) -> RenderableType:
    from rich.text import Text

    return Text(visible(text))


# What there is, whoever may be tested


def print_checks(console: Console, checks: Iterable[Check]) -> None:
    """Print all checks: what each asks for, of whom, and in which revisions."""
    table = _table("check", "role", "area", "requirements", "meaning")
    for check in checks:
        cells = (check.id, check.role, area_of(check), ", ".join(check.requirements), check.meaning)
        table.add_row(*map(_safe, cells))
    console.print(table)


def print_requirements(
    console: Console, requirements: Iterable[Requirement], checks: Sequence[Check]
) -> None:
    """Print every sentence, with the checks that test it or the reason why none can."""
    table = _table("id", "level", "binds", "says", "revisions", "checks")
    for requirement in requirements:
        tested = [check.id for check in checks if requirement.id in check.requirements]
        last = ", ".join(tested)
        if requirement.unobservable is not None:
            last = f"not observable: {requirement.unobservable}"
        cells = (
            requirement.id,
            requirement.level,
            ", ".join(requirement.binds),
            requirement.says,
            _span(requirement.revisions),
            last,
        )
        table.add_row(*map(_safe, cells))
    console.print(table)


def _span(revisions: Sequence[str]) -> str:
    """`2024-11-05..2025-06-18`, or the revisions one by one if some between are missing."""
    first, last = REVISIONS.index(revisions[0]), REVISIONS.index(revisions[-1])
    if first == last:
        return revisions[0]
    if last - first + 1 == len(revisions):
        return f"{revisions[0]}..{revisions[-1]}"
    return ", ".join(revisions)


def print_coverage(console: Console, role: Role, rows: Sequence[Coverage]) -> None:
    """Print how much of what binds a role is tested, by revision and level."""
    table = _table("revision", "level", "sentences", "observable", "checked", "of observable")
    for revision in REVISIONS:
        these = [row for row in rows if row.revision == revision]
        for level in LEVELS:
            _coverage_row(table, revision, level, [row for row in these if row.level == level])
        _coverage_row(table, revision, "all", these)
        table.add_section()
    _say(console, f"What binds {role}s, and how much of it is checked", "bold")
    console.print(table)


def _coverage_row(table: Table, revision: str, level: str, rows: Sequence[Coverage]) -> None:
    total = sum(row.total for row in rows)
    if not total:
        return
    seen, checked = sum(row.observable for row in rows), sum(row.checked for row in rows)
    cells = (revision, level, str(total), str(seen), str(checked), percent(checked, seen))
    table.add_row(*map(_safe, cells))


def percent(part: int, whole: int) -> str:
    return f"{100 * part / whole:.0f} %" if whole else "-"
