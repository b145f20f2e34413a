"""A report as one JSON document, for programs.

Its first three members are a promise; what stands behind them may grow.
"""

from typing import Any

from mcp_trio.harness.model import Finding, Outcome, Report
from mcp_trio.harness.reports.counts import Reports, listed, summary, target_of


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
