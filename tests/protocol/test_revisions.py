"""The revisions, and the table of what each has."""

import pytest

from mcp_trio.protocol.revisions import (
    FEATURES,
    LATEST,
    LATEST_LEGACY,
    LEGACY,
    MODERN,
    REVISIONS,
    is_legacy,
    is_modern,
    supports,
)


def test_revisions_are_in_order() -> None:
    """Code that takes the newest revision takes the last one."""
    assert tuple(sorted(REVISIONS)) == REVISIONS == LEGACY + MODERN
    assert (LATEST_LEGACY, LATEST) == ("2025-11-25", "2026-07-28")


def test_an_era_is_known_of_known_revisions_only() -> None:
    """A date that is later than ours is not thereby modern."""
    assert [is_modern(v) for v in REVISIONS] == [False] * 4 + [True]
    assert [is_legacy(v) for v in REVISIONS] == [True] * 4 + [False]
    assert not is_modern("2027-01-01")
    assert not is_legacy("2024-01-01")


@pytest.mark.parametrize("name", FEATURES)
def test_features_name_revisions(name: str) -> None:
    """A misspelt date in the table."""
    first, last, what = FEATURES[name]
    assert first in REVISIONS
    assert last is None or (last in REVISIONS and last >= first)
    assert what


def test_supports_reads_the_table() -> None:
    """A feature ends with its last revision, and an unknown revision has none."""
    assert [v for v in REVISIONS if supports("batches", v)] == ["2025-03-26"]
    assert [v for v in REVISIONS if supports("resource_links", v)] == list(REVISIONS[2:])
    assert [v for v in REVISIONS if supports("ping", v)] == list(LEGACY)
    assert not supports("ping", "1999-01-01")


def test_an_unknown_feature_is_an_error() -> None:
    """A typo in a feature's name would switch it off everywhere."""
    with pytest.raises(KeyError):
        supports("piing", LATEST)
