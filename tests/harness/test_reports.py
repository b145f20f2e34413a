"""Reports: programs can rely on them, people can read them, and peers cannot abuse them."""

from __future__ import annotations

import io
import re
from html.parser import HTMLParser
from xml.etree import ElementTree

import pytest
from rich.console import Console

from mcp_trio.harness.exchange import Entry
from mcp_trio.harness.model import Report
from mcp_trio.harness.reports.counts import area_of, areas_of
from mcp_trio.harness.reports.html import to_html
from mcp_trio.harness.reports.json import to_json
from mcp_trio.harness.reports.junit import to_junit
from mcp_trio.harness.reports.terminal import (
    print_checks,
    print_coverage,
    print_reports,
    print_requirements,
)
from mcp_trio.harness.reports.text import MOST_SHOWN, Left, Step, steps, transcript, visible
from mcp_trio.harness.requirements import coverage
from tests.harness.reported import (
    BROKEN_MUST,
    CLEAN,
    EVIL,
    FREE,
    FUZZED,
    REQUIREMENTS,
    REVISION,
    WITH_ALL,
    entry,
    made_check,
    outcome,
    report,
)

UNSAFE = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\ud800-\udfff]")


def printed(reports: Report | list[Report]) -> str:
    text = io.StringIO()
    console = Console(file=text, width=100, markup=False, highlight=False, emoji=False)
    print_reports(console, reports)
    return text.getvalue()


# JSON


def test_json_has_the_promised_members_first() -> None:
    """Scripts read these names; what else there is stands behind them."""
    document = to_json(WITH_ALL)
    assert list(document)[:3] == ["target", "summary", "findings"]
    assert document["summary"] == {"passed": 1, "failed": 1, "warned": 1, "notApplicable": 1}
    members = ["check", "requirements", "level", "revision", "transport", "message", "replay"]
    assert [list(finding) for finding in document["findings"]] == [members, members]
    assert document["findings"][0]["check"] == "a-must"
    assert document["findings"][0]["requirements"] == list(BROKEN_MUST.requirements)


def test_json_of_several_reports_is_one_document() -> None:
    """Without a target there are several reports, and still one document."""
    document = to_json([WITH_ALL, CLEAN, FUZZED])
    assert document["target"].endswith(", clean, fuzzed")
    assert document["summary"] == {"passed": 2, "failed": 1, "warned": 2, "notApplicable": 1}
    assert [run["kind"] for run in document["runs"]] == ["check", "check", "fuzz"]
    assert len(document["findings"]) == 3
    assert len(document["outcomes"]) == 5


# JUnit


def test_junit_counts_a_should_only_if_strict() -> None:
    """A build breaks for a MUST; for a SHOULD only where somebody asked for that."""
    for strict, failures in ((False, 1), (True, 2)):
        root = ElementTree.fromstring(to_junit(WITH_ALL, strict=strict))
        (suite,) = root
        assert (suite.get("tests"), suite.get("skipped")) == ("4", "1")
        assert suite.get("failures") == str(failures) == str(len(root.findall(".//failure")))
    should = ElementTree.fromstring(to_junit(WITH_ALL)).find(".//testcase[@name='a-should']")
    assert should is not None
    assert "got nothing" in should.findtext("system-out", "")


def test_junit_says_why() -> None:
    """Whoever looks at a build server sees the sentence, the link and the replay."""
    root = ElementTree.fromstring(to_junit([WITH_ALL, FUZZED]))
    said = root.findtext(".//testcase[@name='a-must']/failure", "")
    requirement = REQUIREMENTS[BROKEN_MUST.requirements[0]]
    assert requirement.says in said
    assert requirement.link(REVISION) in said
    assert "replay: mcp-trio check --only a-must" in said
    assert root.find(".//testcase[@name='still-answers']") is not None


# Terminal


def test_terminal_shows_areas_and_reasons() -> None:
    """One look says what broke, which sentence asks for it, and how to see it again."""
    text = printed(WITH_ALL)
    requirement = REQUIREMENTS[BROKEN_MUST.requirements[0]]
    assert re.search(r"tools +0 +1 +1 +0", text)
    assert re.search(r"prompts +0 +0 +0 +1", text)
    assert re.search(r"all +1 +1 +1 +1", text)
    assert f"FAILED a-must (MUST, {REVISION} over stdio)" in text
    assert requirement.says in text
    assert requirement.link(REVISION) in text
    assert text.index("FAILED a-must") < text.index("WARNED a-should")
    assert "Nothing was found" not in text
    assert "Nothing was found" in printed(CLEAN)


def test_replay_lines_are_not_broken() -> None:
    """A line that is to be copied is one line, however narrow the terminal."""
    (line,) = [
        line for line in printed(WITH_ALL).splitlines() if "replay:" in line and "a-must" in line
    ]
    assert line.endswith("'")


def test_several_reports_are_compared() -> None:
    """Each target has its row, whatever else is counted together."""
    text = printed([WITH_ALL, CLEAN])
    assert re.search(r"clean +1 +0 +0 +0", text)
    assert re.search(r"all +2 +1 +1 +1", text)


def test_tables_of_checks_requirements_and_coverage() -> None:
    """What there is can be listed: checks, sentences with their checks or why there are none."""
    text = io.StringIO()
    console = Console(file=text, width=250, markup=False, highlight=False)
    requirements = list(REQUIREMENTS.values())
    print_checks(console, [BROKEN_MUST, FREE])
    print_requirements(console, requirements, [BROKEN_MUST])
    print_coverage(console, "server", coverage(requirements, [BROKEN_MUST], "server"))
    lines = text.getvalue().splitlines()
    (id,) = BROKEN_MUST.requirements
    assert any(re.match(rf" a-must +server +tools +{id} ", line) for line in lines)
    assert any(re.match(rf" {id} +MUST .* a-must", line) for line in lines)
    assert any("not observable: " in line for line in lines)
    assert any(re.match(rf" {REVISION} +MUST +\d+ +\d+ +1 +\d+ %", line) for line in lines)


# What peers may not do


@pytest.mark.parametrize("render", [printed, to_junit, to_html], ids=["terminal", "junit", "html"])
def test_nothing_of_a_peer_is_obeyed(render: object) -> None:
    """A peer that sends escape sequences or markup changes neither a terminal nor a page."""
    assert callable(render)
    text = render(WITH_ALL)
    assert not UNSAFE.search(text.replace("\n", "").replace("\t", ""))
    text.encode()  # a lone surrogate cannot be written to a file
    assert "\\u001b" in text, "and yet it is to be seen"
    if render is to_html:
        assert "<script>alert" not in text
        assert "<img" not in text


class Page(HTMLParser):
    """What a page is made of."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.open: list[str] = []
        self.attributes: list[tuple[str, str, str | None]] = []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += [(tag, name, value) for name, value in attrs]
        if tag not in ("meta", "br"):
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def test_page_is_whole_and_loads_nothing() -> None:
    """It can be sent by mail: no script, style, font or image comes from elsewhere."""
    page = Page(to_html([WITH_ALL, CLEAN, FUZZED]))
    assert not page.open
    assert not {"link", "img", "iframe", "object", "embed", "base"} & set(page.tags)
    assert not [value for _, name, value in page.attributes if name in ("src", "srcset", "style")]
    assert not [name for _, name, _ in page.attributes if name.startswith("on")]
    (policy,) = [v for _, n, v in page.attributes if n == "content" and "default-src" in str(v)]
    assert policy is not None
    assert policy.startswith("default-src 'none'; ")
    links = {v for tag, name, v in page.attributes if (tag, name) == ("a", "href")}
    assert {str(link)[:41] for link in links if not str(link).startswith("#")} <= {
        "https://modelcontextprotocol.io/specificat"[:41]
    }
    ids = [value for _, name, value in page.attributes if name == "id"]
    assert len(ids) == len(set(ids))


def test_page_shows_each_finding_with_its_exchange() -> None:
    """A maintainer who gets the page sees what was asked for, what came, and how to repeat it."""
    text = to_html(WITH_ALL)
    requirement = REQUIREMENTS[BROKEN_MUST.requirements[0]]
    assert f'href="{requirement.link(REVISION)}"' in text
    assert text.count('<article class="finding') == 2
    assert text.count('<button type="button" data-copies=') == 2
    article = text[text.index('<article class="finding must') :]
    for shown in ("tools/list", "POST 200", "error -32700", "the connection ended", "0.005 s"):
        assert shown in article
    assert "25000 bytes in all" in article, "of what is long, the beginning and the length"


# Exchanges as text


def test_steps_of_a_long_exchange_leave_out_the_middle() -> None:
    """A flood of messages does not make a report that no browser opens."""
    flood = [entry(n / 10, "sent", {"jsonrpc": "2.0", "method": f"m{n}"}) for n in range(1_000)]
    shown = list(steps(flood))
    assert len(shown) == MOST_SHOWN + 1
    left = [step for step in shown if isinstance(step, Left)]
    assert left == [Left(1_000 - MOST_SHOWN)]
    assert isinstance(shown[-1], Step)
    assert shown[-1].title == "m999"
    assert "more ..." in transcript(flood)


@pytest.mark.parametrize(
    ("data", "title", "id"),
    [
        (b'{"id":"a","method":"ping"}', "ping", '"a"'),
        (b'{"id":1.0,"result":{}}', "result", "1.0"),
        (b'{"id":null,"error":{"code":-1}}', "error -1", "null"),
        (b'{"error":3}', "error null", ""),
        (b"[]", "batch, 2 bytes", ""),
        (b"", "nothing", ""),
        (b"\xff", "no message, 1 bytes", ""),
        (b"[" * 100_000, "no message, 100000 bytes", ""),
        (b'{"method":["odd"],"id":{"a":[]}}', "['odd']", '{"a": []}'),
        (b"9" * 5_000, "no message, 5000 bytes", ""),
    ],
)
def test_titles_of_frames(data: bytes, title: str, id: str) -> None:
    """Whatever a frame is, its line in the sequence says it, and nothing makes a report fail."""
    step = Step.of(Entry(0.0, "received", data, "", 1, len(data)))
    assert (step.title, step.id) == (title, id)


def test_visible_keeps_what_can_be_seen() -> None:
    """Text in any script stays as it is; only what hides or commands becomes an escape."""
    assert visible("naïve 日本語 🙂\tok\n") == "naïve 日本語 🙂\tok\n"
    assert visible(EVIL).startswith("x\\u001b[2J\\u0007\\u202e\\u0000</pre>")


# Areas


def test_areas_of_checks() -> None:
    """A check is found by the areas of its sentences and by the module that it stands in."""
    check = made_check("some", "tools-1", "prompts-2")
    assert area_of(check) == "tools"
    assert areas_of(check) == {"tools", "prompts", "reported"}
    assert area_of(made_check("free")) == "reported"
    assert report(outcome(check, "passed")).count("passed") == 1
