"""What becomes of a test whose peer cannot be installed.

Where the registries cannot be reached it is skipped with that reason, unless
`MCP_TRIO_REQUIRE_PEERS` is set, as `.ci/run` does: there a skip would hide what was not tested.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import TypeVar

import pytest

from tests import peers

T = TypeVar("T")


def or_skip(find: Callable[[], T]) -> T:
    """Return what `find` finds, or skip the test that needs it."""
    try:
        return find()
    except peers.PeersUnavailable as exc:
        if os.environ.get("MCP_TRIO_REQUIRE_PEERS"):
            raise
        pytest.skip(str(exc))
