"""The normative sentences of the specification's pages, and a short mark for each.

The requirements table names, by its mark, each sentence that a row stands for. So a test can tell
that no sentence was forgotten, and a new revision shows what is new, without the specification's
own words being kept here.
"""

import hashlib
import os
import re
from collections.abc import Iterator
from pathlib import Path

import attrs

from mcp_trio.protocol.revisions import REVISIONS

PARTS = ("basic", "server", "client")
KEYWORD = re.compile(r"\b(MUST NOT|MUST|SHOULD NOT|SHOULD)\b")
#: What says how the words of RFC 2119 are to be read is no requirement.
LEGEND = re.compile(r'The key ?words "MUST"')
FENCE = re.compile(r"^\s*```")
HEADING = re.compile(r"^#{1,6}\s+(.*)")
ITEM = re.compile(r"^\s*(?:[-*]|\d+\.)\s+")
SENTENCE_END = re.compile(r"(?<=[.!?])(?:\*\*)?\s+(?=[A-Z`*\[\"(])")
ABBREVIATION = re.compile(r"(?:e\.g|i\.e|etc|vs)\.$")


@attrs.frozen
class Sentence:
    """One sentence with MUST or SHOULD.

    Attributes:
        revision: The revision whose page it stands on.
        page: The page below the revision, such as "basic/lifecycle".
        section: The anchor of the heading above it, as the specification's site makes it.
        text: The sentence; for one that opens a list, with the items of the list.
        mark: Tells it from all others, the same in each revision that says exactly the same.
    """

    revision: str
    page: str
    section: str
    text: str
    mark: str

    @property
    def level(self) -> str:
        found = KEYWORD.search(self.text)
        assert found is not None
        return found[1]


def specification() -> Path | None:
    """The folder with a folder for each revision, where there is one beside the repository."""
    schemas = os.environ.get("MCP_SPEC_SCHEMAS")
    beside = Path(__file__).parents[3] / "shared" / "spec"
    for folder in (*([Path(schemas).parent] if schemas else []), beside):
        if all((folder / revision).is_dir() for revision in REVISIONS):
            return folder
    return None


def sentences(folder: Path) -> Iterator[Sentence]:
    """Every normative sentence of every revision, in the order of the pages."""
    for revision in REVISIONS:
        for part in PARTS:
            for path in sorted((folder / revision / part).rglob("*.mdx")):
                page = path.relative_to(folder / revision).with_suffix("").as_posix()
                yield from page_sentences(revision, page, path.read_text(encoding="utf-8"))


def page_sentences(revision: str, page: str, source: str) -> Iterator[Sentence]:
    """The normative sentences of one page."""
    seen: dict[str, int] = {}
    for section, text in _blocks(source):
        for sentence in _split(text):
            if not KEYWORD.search(sentence) or LEGEND.search(sentence):
                continue
            plain = re.sub(r"[^a-z0-9]+", " ", _unlinked(sentence).lower()).strip()
            # The same words in two sections are two requirements.
            key = f"{page.removesuffix('/index')}#{section}: {plain}" if seen.get(plain) else plain
            seen[plain] = seen.get(plain, 0) + 1
            mark = hashlib.sha256(key.encode()).hexdigest()[:8]
            yield Sentence(revision, page.removesuffix("/index"), section, sentence, mark)


def _unlinked(text: str) -> str:
    return re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", text)


def _slug(heading: str) -> str:
    text = re.sub(r"[`*]", "", _unlinked(heading)).lower()
    return re.sub(r"[^a-z0-9_]+", "-", text).strip("-")


def _blocks(source: str) -> Iterator[tuple[str, str]]:
    """Paragraphs and list items, each with the anchor of its section."""
    section, block, fenced = "", list[str](), False
    body = re.sub(r"\A---\n.*?\n---\n", "", source, flags=re.DOTALL)
    for line in [*body.split("\n"), ""]:
        if FENCE.match(line):
            fenced = not fenced
            line = ""
        heading = None if fenced else HEADING.match(line)
        ends = heading or not line.strip() or fenced or ITEM.match(line) or line.startswith("|")
        if ends and block:
            yield section, " ".join(part.strip() for part in block)
            block = []
        if heading:
            section = _slug(heading[1])
        elif line.strip() and not fenced:
            block.append(ITEM.sub("", line))


def _split(text: str) -> Iterator[str]:
    pending = ""
    for piece in SENTENCE_END.split(text):
        pending = f"{pending} {piece}".strip()
        if not ABBREVIATION.search(piece):
            yield pending
            pending = ""
    if pending:
        yield pending
