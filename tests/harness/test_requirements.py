"""The requirements table: complete, tidy, in our own words, and counted rightly."""

import re
import tomllib
from collections.abc import Iterator
from functools import cache
from importlib import resources

import attrs
import pytest

from mcp_trio.harness import requirements
from mcp_trio.harness.model import LEVELS, TRANSPORTS, Check, Level, Place, Requirement
from mcp_trio.harness.requirements import Coverage, coverage, load_requirements
from mcp_trio.protocol.revisions import REVISIONS
from tests.harness.spec_sentences import KEYWORD, Sentence, sentences, specification

KEYS = ["id", "level", "binds", "says", "places", "marks", "unobservable"]
LONGEST = 200
#: As many words in a row as the specification has them are no chance any more.
COPIED = 12
#: All who are named in `binds`: a word that is not here is a slip of the pen.
BOUND = {
    "server",
    "client",
    "host",
    "proxy",
    "authorization server",
    "author of an extension",
    "author of an SDK",
    "implementor of a custom transport",
}


@cache
def _files() -> dict[str, str]:
    """The text of each file of the table by the name of its area."""
    folder = resources.files(requirements)
    return {
        file.name.removesuffix(".toml"): file.read_text(encoding="utf-8")
        for file in folder.iterdir()
        if file.name.endswith(".toml")
    }


@cache
def _sentences() -> tuple[Sentence, ...]:
    folder = specification()
    if folder is None:
        pytest.skip("the specification does not lie beside the repository (see MCP_SPEC_SCHEMAS)")
    return tuple(sentences(folder))


@cache
def _standing() -> set[tuple[str, str, str, str]]:
    """Where each sentence stands, with its mark."""
    return {(s.mark, s.revision, s.page, s.section) for s in _sentences()}


def _claims(requirement: Requirement) -> Iterator[tuple[str, str, str, str]]:
    """Each mark of a row at each place of the row."""
    for mark in requirement.marks:
        for place in requirement.places:
            for revision in place.revisions:
                yield mark, revision, place.page, place.section


def _words(text: str) -> list[str]:
    return re.sub(r"[^a-z0-9]+", " ", text.lower()).split()


def _runs(text: str) -> set[tuple[str, ...]]:
    words = _words(text)
    return {tuple(words[i : i + COPIED]) for i in range(len(words) - COPIED + 1)}


def test_every_sentence_has_a_row() -> None:
    """A sentence that no row stands for would never be tested, and nobody would miss it."""
    claimed = {claim for row in load_requirements().values() for claim in _claims(row)}
    assert not sorted(_standing() - claimed)


def test_every_row_stands_for_sentences_that_are_there() -> None:
    """A mark or place that the specification does not have makes a finding lead nowhere."""
    lost: list[tuple[str, ...]] = []
    for row in load_requirements().values():
        there = [claim for claim in _claims(row) if claim in _standing()]
        lost += [(row.id, mark) for mark in row.marks if mark not in {c[0] for c in there}]
        lost += [
            (row.id, revision, place.page, place.section)
            for place in row.places
            for revision in place.revisions
            if (revision, place.page, place.section) not in {c[1:] for c in there}
        ]
    assert not lost


def test_a_row_is_as_strong_as_its_sentences() -> None:
    """A SHOULD that is taken for a MUST accuses peers that are allowed to do what they do."""
    levels = {s.mark: set(KEYWORD.findall(s.text)) for s in _sentences()}
    wrong = [
        (row.id, row.level, levels[mark])
        for row in load_requirements().values()
        for mark in row.marks
        if row.level not in levels[mark]
    ]
    assert not wrong


def test_no_row_is_copied_from_the_specification() -> None:
    """The table is in our own words; what the sentences say word for word is only linked to."""
    theirs = set[tuple[str, ...]]().union(*(_runs(s.text) for s in _sentences()))
    copied = [
        (area, " ".join(run))
        for area, text in _files().items()
        for line in text.splitlines()
        if line.startswith(("#", "says", "unobservable"))
        for run in _runs(line) & theirs
    ]
    assert not copied
    sayings = {" ".join(_words(s.text)) for s in _sentences()}
    assert not [r.id for r in load_requirements().values() if " ".join(_words(r.says)) in sayings]


@pytest.mark.parametrize("area", sorted(_files()))
def test_a_file_is_tidy(area: str) -> None:
    """A slip in the data (an id twice, a misspelt key, an open question) would go unnoticed."""
    text = _files()[area]
    assert text.startswith("# "), "the first line says what the area covers"
    assert [line for line in text.splitlines() if line.startswith("#")] == text.splitlines()[:1]
    assert '"?"' not in text
    seen = set()
    for row in tomllib.loads(text)["requirement"]:
        assert list(row) in (KEYS, KEYS[:-1]), row["id"]
        assert re.fullmatch(rf"{area}-[1-9]\d*", row["id"])
        assert row["id"] not in seen
        seen.add(row["id"])


@pytest.mark.parametrize("requirement", load_requirements().values(), ids=[*load_requirements()])
def test_a_row_can_be_read(requirement: Requirement) -> None:
    """Each row is shown in reports: it has a level and places, and says who shall do what."""
    assert requirement.level in LEVELS
    assert requirement.binds
    assert set(requirement.binds) <= BOUND
    assert requirement.places
    assert requirement.marks
    for text in (requirement.says, requirement.unobservable):
        if text is not None:
            assert re.fullmatch(r"[A-Z`].*[^.]\.", text)
            assert len(text) <= LONGEST


def _row(
    id: str, level: Level, binds: str, revisions: tuple[str, ...], **other: str
) -> Requirement:
    place = Place(revisions, "basic/made-up", "here")
    return Requirement(id, level, (binds,), "Do it.", (place,), ("00000000",), **other)


async def _run(probe: object) -> None:
    """A check that always passes."""


A_CHECK = Check(
    "it-is-done", "server", ("made-1", "made-2"), "It.", REVISIONS[:2], TRANSPORTS, _run
)


def _counts(rows: list[Requirement], *checks: Check) -> dict[tuple[str, str], tuple[int, int, int]]:
    """Total, observable and checked of what is not all zero, by revision and level."""
    return {
        (row.revision, row.level): (row.total, row.observable, row.checked)
        for row in coverage(rows, checks, "server")
        if row.total or row.observable or row.checked
    }


def test_coverage_has_a_row_for_each_revision_and_level() -> None:
    """Reports show a full table, in order, even where the specification says nothing."""
    expected = [Coverage(r, "client", level, 0, 0, 0) for r in REVISIONS for level in LEVELS]
    assert coverage([], [], "client") == expected


def test_coverage_counts_a_row_in_each_revision_that_says_it() -> None:
    """A row counts at its own level, in its own revisions, for those whom it binds."""
    rows = [
        _row("made-1", "MUST", "server", REVISIONS[1:3]),
        _row("made-2", "SHOULD", "server", REVISIONS[2:3]),
        _row("made-3", "MUST", "client", REVISIONS),
    ]
    assert _counts(rows) == {
        (REVISIONS[1], "MUST"): (1, 1, 0),
        (REVISIONS[2], "MUST"): (1, 1, 0),
        (REVISIONS[2], "SHOULD"): (1, 1, 0),
    }


def test_what_cannot_be_seen_is_not_observable_nor_checked() -> None:
    """What nothing on the wire shows counts as said, and as nothing else, even with a check."""
    rows = [
        _row("made-1", "MUST", "server", REVISIONS[:1], unobservable="It is hidden."),
        _row("made-2", "MUST", "server", REVISIONS[:1]),
    ]
    assert _counts(rows, A_CHECK) == {(REVISIONS[0], "MUST"): (2, 1, 1)}


def test_a_check_counts_only_where_it_is_asked() -> None:
    """A check covers its requirements in its own revisions and for its own role, and once."""
    rows = [
        _row("made-1", "MUST", "server", REVISIONS[1:3]),
        _row("made-9", "MUST", "server", REVISIONS[1:3]),
    ]
    unchecked = {(revision, "MUST"): (2, 2, 0) for revision in REVISIONS[1:3]}
    checked = unchecked | {(REVISIONS[1], "MUST"): (2, 2, 1)}
    assert _counts(rows, A_CHECK) == checked
    assert _counts(rows, A_CHECK, attrs.evolve(A_CHECK, id="again")) == checked
    assert _counts(rows, attrs.evolve(A_CHECK, role="client")) == unchecked
