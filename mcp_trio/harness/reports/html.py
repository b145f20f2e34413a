"""A report as one page that a person can send to a maintainer, and that needs nothing else.

The page loads nothing and sends nothing: its styles and its script are inside, and its own policy
forbids everything else, so that not even a peer that got markup past the escaping could do harm.
Without the script it is the same page less the buttons that copy. What went over the wire is drawn
as a sequence: the harness at the left, the peer at the right, time going down.
"""

import hashlib
import re
from base64 import b64encode
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from html import escape
from importlib import resources
from importlib.metadata import version
from typing import Final

from mcp_trio.harness.exchange import Entry
from mcp_trio.harness.model import Finding, Outcome, Report, Requirement
from mcp_trio.harness.reports.counts import (
    VERDICTS,
    Counts,
    Reports,
    by_area,
    labels_of,
    listed,
    sentences,
    summary,
    target_of,
)
from mcp_trio.harness.reports.text import Left, Step, one_line, steps, visible
from mcp_trio.harness.requirements import load_requirements

SHORT: Final = 12  # lines of a payload that is shown without being asked for
CLASSES: Final = {"passed": "passed", "failed": "failed", "warned": "warned"}
WORDS: Final = {"passed": "passed", "failed": "failed", "warned": "warnings"}


def to_html(reports: Reports, *, when: datetime | None = None) -> str:
    """The page, as text.

    Args:
        when: The date on it; now by default.
    """
    found = listed(reports)
    style, script = _part("page.css"), _part("page.js")
    digest = b64encode(hashlib.sha256(script.encode()).digest()).decode()
    policy = (
        f"default-src 'none'; style-src 'unsafe-inline'; script-src 'sha256-{digest}'; "
        "base-uri 'none'; form-action 'none'"
    )
    date = (when or datetime.now().astimezone()).strftime("%Y-%m-%d %H:%M %Z").strip()
    title = f"{_kind(found)} of {target_of(found)}"
    body = "\n".join((*_head(found, title), *_findings(found), *_areas(found), *_all(found)))
    return f"""<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{escape(policy)}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="referrer" content="no-referrer">
<title>{_text(title)}</title>
<style>
{style}</style>
</head>
<body>
<main>
{body}
</main>
<footer>Made by mcp-trio {escape(version("mcp-trio"))} on {escape(date)}. The sentences are in its
words; the links lead to those of the specification. The commands that show a finding again need
Python and <code>pip install 'mcp-trio[harness]'</code>.</footer>
<script>{script}</script>
</body>
</html>
"""


def _part(name: str) -> str:
    return resources.files(__package__).joinpath(name).read_text(encoding="utf-8")


def _text(text: str) -> str:
    """What somebody else may have written, as text of a page."""
    return escape(visible(text))


def _line(text: str, limit: int) -> str:
    return escape(one_line(text, limit))


# The beginning: what was tested, and how it went


def _kind(reports: Sequence[Report]) -> str:
    fuzzed = any(report.kind == "fuzz" for report in reports)
    return "Fuzzing" if fuzzed else "Conformance"


def _head(reports: Sequence[Report], title: str) -> Iterator[str]:
    yield f"<h1>{_text(title)}</h1>"
    yield f'<p class="lead">{_verdict(reports)}</p>'
    counts = summary(reports)
    if any(report.outcomes for report in reports):
        yield '<ul class="tiles">'
        for verdict, number in zip(VERDICTS, counts.row, strict=True):
            name = CLASSES.get(verdict, "none")
            yield f'<li class="{name}"><b>{number}</b> {WORDS.get(verdict, verdict)}</li>'
        yield "</ul>"
    yield from _facts(reports)


def _facts(reports: Sequence[Report]) -> Iterator[str]:
    """What is worth knowing of the target, or of each of several."""
    if len(reports) == 1:
        facts = (("role", reports[0].role), *reports[0].facts)
        pairs = (f"<div><dt>{_text(name)}</dt><dd>{_text(said)}</dd></div>" for name, said in facts)
        yield f'<dl class="facts">{"".join(pairs)}</dl>'
        return
    names = list(dict.fromkeys(name for report in reports for name, _ in report.facts))
    yield f'<h2>By target</h2>\n<div class="wide"><table><thead><tr>{_columns("target")}'
    yield "".join(f'<th scope="col">{_text(name)}</th>' for name in names)
    yield "</tr></thead><tbody>"
    for label, report in zip(labels_of(reports), reports, strict=True):
        facts_of = dict(report.facts)
        yield f'<tr><th scope="row">{_text(label)}</th>{_cells(summary(report))}'
        yield "".join(f"<td>{_text(facts_of.get(name, ''))}</td>" for name in names) + "</tr>"
    yield "</tbody></table></div>"


def _verdict(reports: Sequence[Report]) -> str:
    """How it went, in one line."""
    findings = [finding for report in reports for finding in report.findings]
    must = sum(finding.is_must for finding in findings)
    should = len(findings) - must
    parts = [
        f"{_number(count, f'broken {level}')}"
        for level, count in (("MUST", must), ("SHOULD", should))
        if count
    ]
    return f"Found {' and '.join(parts)}." if parts else "Nothing was found to be wrong."


def _number(count: int, word: str) -> str:
    return f"{count} {word}{'' if count == 1 else 's'}"


def _areas(reports: Sequence[Report]) -> Iterator[str]:
    areas = by_area(reports)
    if not areas:
        return
    yield f'<h2>By area</h2>\n<div class="wide"><table><thead><tr>{_columns("area")}'
    yield "</tr></thead><tbody>"
    for area, counts in areas.items():
        yield f'<tr><th scope="row">{_text(area)}</th>{_cells(counts)}</tr>'
    yield f'</tbody><tfoot><tr><th scope="row">all</th>{_cells(summary(reports))}</tr></tfoot>'
    yield "</table></div>"


def _columns(first: str) -> str:
    """The heads of columns with counts; the longest is short where there is no room."""
    heads = [f'<th scope="col">{first}</th>']
    for verdict in VERDICTS:
        name: str = verdict
        if " " in verdict:
            name = f'<span class="long">{verdict}</span><span class="short">n/a</span>'
        heads.append(f'<th scope="col" class="n">{name}</th>')
    return "".join(heads)


def _cells(counts: Counts) -> str:
    cells = []
    for verdict, number in zip(VERDICTS, counts.row, strict=True):
        loud = f" {verdict}" if verdict in ("failed", "warned") and number else ""
        zero = "" if number else " zero"
        cells.append(f'<td class="n{loud}{zero}">{number}</td>')
    return "".join(cells)


# The findings


def _findings(reports: Sequence[Report]) -> Iterator[str]:
    found = [(report, finding) for report in reports for finding in report.findings]
    if not found:
        return
    found.sort(key=lambda pair: not pair[1].is_must)
    yield "<h2>Findings</h2>"
    if len(found) > 3:
        yield '<nav aria-label="Findings"><ol>'
        for number, (_, finding) in enumerate(found, 1):
            where = _text(f"{finding.revision}, {finding.transport}")
            yield f'<li><a href="#f{number}">{_text(finding.check)}</a> '
            yield f'<span class="where">{finding.level}, {where}</span></li>'
        yield "</ol></nav>"
    requirements = load_requirements()
    for number, (report, finding) in enumerate(found, 1):
        yield from _finding(number, report, finding, requirements)


def _finding(
    number: int, report: Report, finding: Finding, requirements: dict[str, Requirement]
) -> Iterator[str]:
    kind, color = ("must", "failed") if finding.is_must else ("should", "warned")
    where = _text(f"{finding.revision}, over {finding.transport}")
    yield f'<article class="finding {kind}" id="f{number}" aria-labelledby="t{number}"><header>'
    yield f'<span class="badge {color}">{finding.level}</span>'
    yield f'<h3 id="t{number}">{_text(finding.check)}</h3>'
    yield f'<span class="where">{where}</span></header>'
    broken = sentences(finding, requirements)
    if broken:
        yield '<h4>What the specification asks for</h4><ul class="sentences">'
        yield from (_sentence(requirement, finding.revision) for requirement in broken)
        yield "</ul>"
    elif not finding.requirements:
        yield "<p>No sentence of the specification asks for this; it is good sense.</p>"
    yield f'<h4>What was seen</h4><p class="seen">{_text(finding.message)}</p>'
    yield "<h4>How to see it again</h4>"
    yield f'<div class="replay"><pre id="r{number}" tabindex="0">{_text(finding.replay)}</pre>'
    yield f'<button type="button" data-copies="r{number}" hidden>Copy</button></div>'
    if finding.exchange:
        yield "<h4>What went over the wire</h4>"
        yield from _exchange(finding.exchange, _peer(report))
    yield "</article>"


def _sentence(requirement: Requirement, revision: str) -> str:
    link = escape(requirement.link(revision))
    return (
        f"<li><b>{requirement.level}</b>: {_marked(requirement.says)} "
        f'<a href="{link}" rel="noopener noreferrer">{_text(requirement.id)}</a></li>'
    )


def _marked(text: str) -> str:
    """Our own wording, in which `names` are marked."""
    return re.sub(r"`([^`]+)`", r"<code>\1</code>", _text(text))


def _peer(report: Report) -> str:
    """What stands above the lifeline of the peer."""
    facts = dict(report.facts)
    return one_line(facts.get(report.role) or report.target, 50)


def _exchange(exchange: Sequence[Entry], peer: str) -> Iterator[str]:
    several = len({entry.connection for entry in exchange if entry.connection}) > 1
    yield '<div class="exchange"><div class="heads" aria-hidden="true">'
    yield f"<span>harness</span><span>{escape(peer)}</span></div><ol>"
    for step in steps(exchange):
        if isinstance(step, Left):
            yield f'<li class="note"><span>{step.count} more are left out here</span></li>'
        elif step.entry.kind in ("sent", "received"):
            yield from _message(step, peer, several=several)
        else:
            said = '<b class="quiet">stderr</b> ' if step.entry.kind == "stderr" else ""
            side = _connection(step, several=several)
            yield f'<li class="{step.entry.kind}"><span>{said}{escape(step.title)} '
            yield f'<small class="quiet">{side}{_time(step)}</small></span></li>'
    yield "</ol></div>"


def _message(step: Step, peer: str, *, several: bool) -> Iterator[str]:
    ends = ("harness", peer) if step.entry.kind == "sent" else (peer, "harness")
    id = f" <small>id {escape(step.id)}</small>" if step.id else ""
    label = f"{_line(step.entry.label, 120)} · " if step.entry.label else ""
    yield f'<li class="{step.entry.kind}"><div class="arrow"><span>'
    yield f'<span class="hidden">{escape(f"{ends[0]} to {ends[1]}: ")}</span>'
    yield f"<b>{escape(step.title)}</b>{id}</span>"
    yield f"<small>{_connection(step, several=several)}{label}{_time(step)}</small></div>"
    if step.payload:
        yield _payload(step)
    yield "</li>"


def _connection(step: Step, *, several: bool) -> str:
    return f"connection {step.entry.connection} · " if several else ""


def _time(step: Step) -> str:
    return f"{step.entry.at:.3f} s"


def _payload(step: Step) -> str:
    """What was in a message: open if it is short, else behind its first line."""
    clipped = f"\n... ({step.clipped} bytes in all)" if step.clipped else ""
    text = f"<pre>{escape(step.payload + clipped)}</pre>"
    if step.payload.count("\n") < SHORT and not step.clipped:
        return text
    lines = step.payload.count("\n") + 1
    return f"<details><summary>{_line(step.payload, 70)} ({lines} lines)</summary>{text}</details>"


# The end: every check


def _all(reports: Sequence[Report]) -> Iterator[str]:
    outcomes = [outcome for report in reports for outcome in report.outcomes]
    if not outcomes:
        return
    yield "<h2>All checks</h2>"
    for verdict in VERDICTS:
        these = [outcome for outcome in outcomes if outcome.verdict == verdict]
        if these:
            yield f"<details><summary>{len(these)} {WORDS.get(verdict, verdict)}</summary>"
            yield from _table(these)
            yield "</details>"


def _table(outcomes: Iterable[Outcome]) -> Iterator[str]:
    yield '<div class="wide"><table class="words"><thead><tr><th scope="col">check</th>'
    yield '<th scope="col">asked in</th><th scope="col">what it means</th></tr></thead><tbody>'
    for outcome in outcomes:
        why = f'<br><span class="quiet">{_text(outcome.message)}</span>' if outcome.message else ""
        yield f"<tr><td>{_text(outcome.check.id)}</td>"
        yield f"<td>{_text(f'{outcome.revision}, {outcome.transport}')}</td>"
        yield f"<td>{_text(outcome.check.meaning)}{why}</td></tr>"
    yield "</tbody></table></div>"
