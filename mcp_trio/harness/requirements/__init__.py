"""The requirements table: what the specification asks for, sentence by sentence.

One file an area, and in it one table for each sentence with MUST or SHOULD:

    [[requirement]]
    id = "ping-2"
    level = "MUST"
    binds = "server, client"
    says = "Answer a ping promptly, with an empty result."
    places = ["2024-11-05..2025-11-25 basic/utilities/ping#behavior-requirements"]
    marks = "1f2e3d4c"

`unobservable` is there where nothing on the wire can show whether the sentence is kept, and says
why. All others are for checks to test; which check tests which is written at the checks
(`mcp_trio.harness.checks`), and `coverage` brings the two together.
"""

import tomllib
from collections.abc import Iterable, Mapping
from functools import cache
from importlib import resources
from typing import Any

import attrs

from mcp_trio.harness.model import LEVELS, Check, Level, Place, Requirement, Role
from mcp_trio.protocol.revisions import REVISIONS

__all__ = ["Coverage", "coverage", "load_requirements"]


def load_requirements() -> dict[str, Requirement]:
    """All requirements by their ids, area by area."""
    return dict(_load())


@cache
def _load() -> Mapping[str, Requirement]:
    found: dict[str, Requirement] = {}
    folder = resources.files(__name__)
    for file in sorted(folder.iterdir(), key=lambda file: file.name):
        if file.name.endswith(".toml"):
            for row in tomllib.loads(file.read_text(encoding="utf-8"))["requirement"]:
                requirement = _requirement(row)
                if requirement.id in found:
                    raise ValueError(f"{file.name}: two requirements are called {requirement.id}")
                found[requirement.id] = requirement
    return found


def _requirement(row: dict[str, Any]) -> Requirement:
    return Requirement(
        id=row["id"],
        level=row["level"],
        binds=tuple(part.strip() for part in row["binds"].split(",")),
        says=row["says"],
        places=tuple(_place(words) for words in row["places"]),
        marks=tuple(row["marks"].split()),
        unobservable=row.get("unobservable"),
    )


def _place(words: str) -> Place:
    revisions, _, where = words.partition(" ")
    first, _, last = revisions.partition("..")
    page, _, section = where.partition("#")
    start, end = REVISIONS.index(first), REVISIONS.index(last or first)
    return Place(REVISIONS[start : end + 1], page, section)


@attrs.frozen
class Coverage:
    """How much of what one revision says at one level to one role is tested.

    Attributes:
        total: The sentences.
        observable: Those of them that the wire can show to be kept or not.
        checked: Those of these that a check tests.
    """

    revision: str
    role: Role
    level: Level
    total: int
    observable: int
    checked: int


def coverage(
    requirements: Iterable[Requirement], checks: Iterable[Check], role: Role
) -> list[Coverage]:
    """The coverage of what binds `role`: a row for each revision and level, in order."""
    checked: dict[str, set[str]] = {revision: set() for revision in REVISIONS}
    for check in checks:
        if check.role == role:
            for revision in check.revisions:
                checked[revision].update(check.requirements)
    rows = []
    bound = [requirement for requirement in requirements if role in requirement.binds]
    for revision in REVISIONS:
        for level in LEVELS:
            said = [r for r in bound if r.level == level and revision in r.revisions]
            seen = [r for r in said if r.unobservable is None]
            tested = [r for r in seen if r.id in checked[revision]]
            rows.append(Coverage(revision, role, level, len(said), len(seen), len(tested)))
    return rows
