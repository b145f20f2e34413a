"""Fixtures that hand a test its real peer, installing it first where need be.

Where the registries cannot be reached these tests are skipped with that reason, unless
`MCP_TRIO_REQUIRE_PEERS` is set, as `.ci/run` does: there a skip would hide what was not tested.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import pytest

from tests import peers

T = TypeVar("T")


def _or_skip(find: Callable[[], T]) -> T:
    try:
        return find()
    except peers.PeersUnavailable as exc:
        if os.environ.get("MCP_TRIO_REQUIRE_PEERS"):
            raise
        pytest.skip(str(exc))


@pytest.fixture(scope="session")
def mcp_python() -> Path:
    """The Python that has `mcp` 2.3.0."""
    return _or_skip(peers.mcp_python)


@pytest.fixture(scope="session")
def fastmcp_python() -> Path:
    """The Python that has `fastmcp` 4."""
    return _or_skip(peers.fastmcp_python)


@pytest.fixture(scope="session")
def node() -> Path:
    """A Node executable."""
    return _or_skip(peers.node)


@pytest.fixture(scope="session")
def npm_project() -> Path:
    """The folder in which the npm peers are installed."""
    return _or_skip(peers.npm_project)
