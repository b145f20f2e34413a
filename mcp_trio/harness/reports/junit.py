"""A report as JUnit XML, which build servers show as tests.

What one target said in one revision is a suite, and each check in it a test. A broken MUST is a
failure; a broken SHOULD only with `strict`, and else a test that passed with something to say.
"""

from collections.abc import Iterable
from xml.etree import ElementTree

from mcp_trio.harness.model import Finding, Outcome
from mcp_trio.harness.reports.counts import (
    Reports,
    area_of,
    labels_of,
    listed,
    sentences,
    target_of,
)
from mcp_trio.harness.reports.text import one_line, transcript, visible
from mcp_trio.harness.requirements import load_requirements


def to_junit(reports: Reports, *, strict: bool = False) -> str:
    """The XML document.

    Args:
        strict: A broken SHOULD is a failure, too.
    """
    found = listed(reports)
    root = ElementTree.Element("testsuites", name=visible(target_of(found)))
    for label, report in zip(labels_of(found), found, strict=True):
        for revision in dict.fromkeys(outcome.revision for outcome in report.outcomes):
            cases = [
                _check(outcome, strict=strict)
                for outcome in report.outcomes
                if outcome.revision == revision
            ]
            root.append(_suite(label, revision, cases))
        if not report.outcomes and report.findings:
            cases = [_oracle(finding, strict=strict) for finding in report.findings]
            root.append(_suite(label, report.kind, cases))
    ElementTree.indent(root)
    text = ElementTree.tostring(root, encoding="unicode")
    return f'<?xml version="1.0" encoding="utf-8"?>\n{text}\n'


def _suite(label: str, name: str, cases: Iterable[ElementTree.Element]) -> ElementTree.Element:
    suite = ElementTree.Element("testsuite", name=visible(f"{label} {name}"))
    suite.extend(cases)
    suite.set("tests", str(len(suite)))
    suite.set("failures", str(len(suite.findall("testcase/failure"))))
    suite.set("errors", "0")
    suite.set("skipped", str(len(suite.findall("testcase/skipped"))))
    suite.set("time", f"{sum(float(case.get('time', 0)) for case in suite):.3f}")
    return suite


def _check(outcome: Outcome, *, strict: bool) -> ElementTree.Element:
    case = ElementTree.Element(
        "testcase",
        classname=f"{outcome.transport}.{outcome.revision}.{area_of(outcome.check)}",
        name=outcome.check.id,
        time=f"{outcome.seconds:.3f}",
    )
    if outcome.verdict == "not applicable":
        ElementTree.SubElement(case, "skipped", message=one_line(outcome.message))
    if outcome.finding is not None:
        _say(case, outcome.finding, strict=strict)
    return case


def _oracle(finding: Finding, *, strict: bool) -> ElementTree.Element:
    case = ElementTree.Element(
        "testcase",
        classname=f"{finding.transport}.{finding.revision}.fuzz",
        name=visible(finding.check),
        time="0",
    )
    _say(case, finding, strict=strict)
    return case


def _say(case: ElementTree.Element, finding: Finding, *, strict: bool) -> None:
    text = described(finding)
    if finding.is_must or strict:
        failure = ElementTree.SubElement(
            case, "failure", type=finding.level, message=one_line(finding.message)
        )
        failure.text = text
    else:
        ElementTree.SubElement(case, "system-out").text = f"warning: {text}"


def described(finding: Finding) -> str:
    """A finding as plain text: what was seen, the sentences, how to see it again, the wire."""
    lines = [visible(finding.message), ""]
    for requirement in sentences(finding, load_requirements()):
        lines += [
            f"{requirement.id} ({requirement.level}): {requirement.says}",
            f"  {requirement.link(finding.revision)}",
        ]
    lines += [f"replay: {visible(finding.replay)}", "", transcript(finding.exchange)]
    return "\n".join(lines)
