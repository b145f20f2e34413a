"""Fixtures that hand a test its real peer, installing it first where need be."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests import peers
from tests.interop.kit import Kit
from tests.interop.running import free_port, running
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


@pytest.fixture(scope="session")
def origin_of() -> Iterator[Callable[[Kit], str]]:
    """Gives the origin of a common server over HTTP, which runs once for all tests."""
    with ExitStack() as stack:

        @functools.cache
        def start(name: str, argv: Callable[[], list[str]]) -> str:
            port = free_port()
            stack.enter_context(running(argv(), port))
            return f"http://127.0.0.1:{port}"

        yield lambda kit: start(kit.name, kit.argv)
