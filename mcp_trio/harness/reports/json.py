"""A report as one JSON document, for programs.

Its first three members are a promise; what stands behind them may grow.
"""

from collections.abc import Iterable, Sequence
from typing import Any

from mcp_trio.harness.model import Check, Finding, Outcome, Report, Requirement
from mcp_trio.harness.reports.counts import Reports, area_of, listed, summary, target_of
from mcp_trio.harness.requirements import Coverage


def to_json(reports: Reports) -> dict[str, Any]:
    """The document: what `--json` prints.

    Returns:
        "target", "summary" and "findings"; behind them "runs", what is worth knowing of each
        target, and "outcomes", one for each check, revision and transport.
    """
    found = listed(reports)
    counts = summary(found)
    return {
        "target": target_of(found),
        "summary": {
            "passed": counts.passed,
            "failed": counts.failed,
            "warned": counts.warned,
            "notApplicable": counts.not_applicable,
        },
        "findings": [_finding(finding) for report in found for finding in report.findings],
        "runs": [_run(report) for report in found],
        "outcomes": [_outcome(outcome) for report in found for outcome in report.outcomes],
    }


def _finding(finding: Finding) -> dict[str, Any]:
    return {
        "check": finding.check,
        "requirements": list(finding.requirements),
        "level": finding.level,
        "revision": finding.revision,
        "transport": finding.transport,
        "message": finding.message,
        "replay": finding.replay,
    }


def _run(report: Report) -> dict[str, Any]:
    return {
        "target": report.target,
        "kind": report.kind,
        "role": report.role,
        "facts": dict(report.facts),
    }


def _outcome(outcome: Outcome) -> dict[str, Any]:
    return {
        "check": outcome.check.id,
        "revision": outcome.revision,
        "transport": outcome.transport,
        "verdict": outcome.verdict,
        "message": outcome.message,
        "seconds": round(outcome.seconds, 3),
    }


def checks_to_json(checks: Iterable[Check]) -> list[dict[str, Any]]:
    """All checks: what `check --list --json` prints."""
    return [
        {
            "id": check.id,
            "role": check.role,
            "area": area_of(check),
            "requirements": list(check.requirements),
            "meaning": check.meaning,
            "revisions": list(check.revisions),
            "transports": list(check.transports),
        }
        for check in checks
    ]


def requirements_to_json(
    requirements: Iterable[Requirement], checks: Sequence[Check]
) -> list[dict[str, Any]]:
    """All requirements with their checks: what `check --requirements --json` prints."""
    return [
        {
            "id": requirement.id,
            "level": requirement.level,
            "binds": list(requirement.binds),
            "says": requirement.says,
            "revisions": list(requirement.revisions),
            "links": [requirement.link(revision) for revision in requirement.revisions],
            "checks": [check.id for check in checks if requirement.id in check.requirements],
            "unobservable": requirement.unobservable,
        }
        for requirement in requirements
    ]


def coverage_to_json(rows: Iterable[Coverage]) -> list[dict[str, Any]]:
    """The coverage of each role, revision and level."""
    return [
        {
            "role": row.role,
            "revision": row.revision,
            "level": row.level,
            "sentences": row.total,
            "observable": row.observable,
            "checked": row.checked,
        }
        for row in rows
    ]
