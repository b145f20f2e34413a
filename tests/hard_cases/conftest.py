"""Every test here is also a test of lifetimes: nothing may be left of it (I1, I5)."""

import contextlib
import os
import sys
from collections.abc import Iterator

import pytest

from tests.hard_cases.programs import has_children

if not sys.platform.startswith("linux"):
    collect_ignore_glob = ["test_*.py"]


def _descriptors() -> set[tuple[str, str]]:
    found = set()
    for name in os.listdir("/proc/self/fd"):
        with contextlib.suppress(FileNotFoundError):  # the one of listdir itself
            found.add((name, os.readlink(f"/proc/self/fd/{name}")))
    return found


@pytest.fixture(autouse=True)
def nothing_is_left() -> Iterator[None]:
    """No child, running or dead, and no descriptor stays behind."""
    before = _descriptors()
    yield
    assert not has_children()
    assert _descriptors() <= before
