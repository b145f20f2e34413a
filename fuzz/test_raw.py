"""The targets for raw bytes: every file of the corpora, and bytes that Hypothesis thinks up."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fuzz.raw import RAW
from fuzz.typed import template_values, uri_templates
from mcp_trio.server.uri_template import UriTemplate

CORPORA = Path(__file__).parent / "corpora"


@pytest.mark.parametrize(
    "file", sorted(CORPORA.glob("*/*")), ids=lambda file: f"{file.parent.name}/{file.name}"
)
def test_corpora(file: Path) -> None:
    """What was found once stays found: a crash that is kept as a file fails here until mended."""
    RAW[file.parent.name](file.read_bytes())


def test_every_target_has_a_corpus() -> None:
    assert {folder.name for folder in CORPORA.iterdir()} == RAW.keys()


@given(st.binary(max_size=100))
def test_any_bytes(data: bytes) -> None:
    """All targets but the slow one, with bytes that need not look like anything."""
    for name, target in RAW.items():
        if name != "server":
            target(data)


@given(st.text(max_size=40))
def test_any_text_in_a_header(text: str) -> None:
    RAW["headers"](text.encode(errors="replace"))


@given(uri_templates(), template_values())
def test_templates_match_what_they_expand_to(text: str, values: dict[str, object]) -> None:
    """The rule of `uri_template`: a template that is accepted can be read back."""
    try:
        template = UriTemplate(text)
    except ValueError:
        return
    RAW["uri"](f"{text}\n{template.expand(values)}".encode())
