"""Fixtures that hand a test its real peer, installing it first where need be."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests import peers
from tests.skipping import or_skip


@pytest.fixture(scope="session")
def mcp_python() -> Path:
    """The Python that has `mcp` 2.3.0."""
    return or_skip(peers.mcp_python)


@pytest.fixture(scope="session")
def fastmcp_python() -> Path:
    """The Python that has `fastmcp` 4."""
    return or_skip(peers.fastmcp_python)


@pytest.fixture(scope="session")
def node() -> Path:
    """A Node executable."""
    return or_skip(peers.node)


@pytest.fixture(scope="session")
def npm_project() -> Path:
    """The folder in which the npm peers are installed."""
    return or_skip(peers.npm_project)
