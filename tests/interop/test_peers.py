"""The peers themselves: installed, started, and answering by the rawest of clients.

When these fail, so will everything that has us talk to a peer, and the fault is not ours.
"""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from tests import peers
from tests.benchmarks.client import Era, open_raw_client
from tests.benchmarks.rows import ADD, SERVERS

pytestmark = pytest.mark.interop


@pytest.mark.parametrize(
    ("name", "era"),
    [
        ("mcp", "legacy"),
        ("mcp", "modern"),
        ("ts-1.32", "legacy"),
        ("ts-2.4", "legacy"),
        ("ts-2.4", "modern"),
    ],
)
@pytest.mark.usefixtures("mcp_python", "npm_project")
def test_measured_server_adds(name: str, era: Era) -> None:
    """Each benchmarked server answers in each era that it is measured in."""
    with open_raw_client(SERVERS[name](), era) as client:
        client.timed_calls(ADD, count=5, window=3, check="3".__eq__)


@pytest.mark.parametrize("package", ["server-everything", "server-filesystem", "server-memory"])
def test_npm_server_shakes_hands(package: str, npm_project: Path, tmp_path: Path) -> None:
    """The reference servers start under our Node."""
    with open_raw_client([*peers.npm_server(package), str(tmp_path)]):
        pass


def test_fastmcp_is_the_version_that_was_pinned(fastmcp_python: Path) -> None:
    """The environments hold what the table of pins says."""
    code = "import importlib.metadata as m; print(m.version('fastmcp'), m.version('mcp'))"
    done = subprocess.run([fastmcp_python, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == [pin.split("==")[1] for pin in peers.ENVIRONMENTS["fastmcp"]]


def test_npm_lock_pins_what_package_json_asks_for() -> None:
    """Editing one file and not the other would quietly test another version."""
    package, lock = (json.loads((peers.NPM_PROJECT / name).read_text()) for name in peers.NPM_FILES)
    assert lock["packages"][""]["dependencies"] == package["dependencies"]
    for name, pin in package["dependencies"].items():
        assert lock["packages"][f"node_modules/{name}"]["version"] == pin


@pytest.mark.usefixtures("npm_project")
def test_unreachable_registry_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Without a network the tests that need peers say so instead of failing in odd ways."""
    monkeypatch.setenv("MCP_TRIO_PEERS", str(tmp_path / "peers"))
    monkeypatch.setenv("npm_config_registry", "http://127.0.0.1:9")
    monkeypatch.setenv("npm_config_fetch_retries", "0")
    monkeypatch.setenv("npm_config_cache", str(tmp_path / "npm"))
    peers._installed.cache_clear()
    try:
        with pytest.raises(peers.PeersUnavailable, match="cannot be reached"):
            peers.npm_project()
        assert not list(tmp_path.glob("peers/*/complete"))
    finally:
        peers._installed.cache_clear()
