"""Serving at addresses: every transport at once, and a clean end."""

import http.client
import os
import re
import signal
import sys
from pathlib import Path

import pytest

from tests.cli.runs import mcp_trio, started

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="needs Unix sockets and SIGTERM")


def test_one_server_at_every_address(tmp_path: Path) -> None:
    """HTTP, HTTP+SSE, WebSocket and a Unix socket serve the same server, in one process."""
    path = str(tmp_path / "socket")
    words = ["serve", "--http", "0", "--sse", "--websocket", "0", "--unix", path]
    with started(*words) as server:
        assert server.stderr is not None
        said = [server.stderr.readline().decode() for _ in range(3)]
        urls = [found.group() for line in said if (found := re.search(r"\S+:\S+$", line.strip()))]
        http = next(url for url in urls if url.startswith("http"))
        for url in (*urls, http.replace("/mcp", "/sse")):
            run = mcp_trio("call", "--json", "add", "a=1", "b=2", "-t", url)
            assert (run.status, run.stderr) == (0, ""), url
            assert run.document["structuredContent"] == {"result": 3}
        server.send_signal(signal.SIGTERM)
        assert server.wait(10) == 143
        assert server.stderr.read() == b""
    assert not os.path.exists(path)


def test_names_of_a_server_for_others() -> None:
    """Who listens for other computers can say by which names they come; no others are let in."""
    with started("serve", "--http", ":0", "--host", "example.test", "--host", "10.1.2.3:80") as run:
        assert run.stderr is not None
        said = run.stderr.readline().decode()
        port = int(said.rsplit(":", 1)[1].partition("/")[0])
        for host, status in (
            ("example.test:8000", 415),
            ("10.1.2.3:80", 415),
            ("localhost", 415),
            ("10.1.2.3:81", 421),
            ("evil.test", 421),
        ):
            connection = http.client.HTTPConnection("localhost", port)
            connection.request("POST", "/mcp", headers={"Host": host})
            assert connection.getresponse().status == status, host
            connection.close()
    assert mcp_trio("serve", "--host", "example.test").status == 2


def test_a_place_that_is_taken(tmp_path: Path) -> None:
    """One line says which place cannot be had; a socket that a dead server left can be."""
    run = mcp_trio("serve", "--unix", str(tmp_path / "no" / "folder"))
    assert run.status == 3
    assert run.stderr.count("\n") == 1
    assert "--unix: cannot listen at" in run.stderr
    file = tmp_path / "file"
    file.write_text("precious")
    assert mcp_trio("serve", "--unix", str(file)).status == 3
    assert file.read_text() == "precious"


def test_a_url_where_nobody_is() -> None:
    """No connection is status 3 and one line, for every scheme."""
    for url in ("http://127.0.0.1:1/mcp", "ws://127.0.0.1:1", "tcp:127.0.0.1:1", "unix:/no/such"):
        run = mcp_trio("inspect", url)
        assert (run.status, run.stdout) == (3, "")
        assert run.stderr.startswith(f"mcp-trio: no connection to {url}: cannot connect")
        assert run.stderr.count("\n") == 1


DEMO = [sys.executable, "-m", "mcp_trio", "serve"]


def test_a_command_served_again(tmp_path: Path) -> None:
    """What follows -- is started for the clients, and is there at every address, in any era."""
    words = ["serve", "--http", "0", "--unix", str(tmp_path / "socket"), "--", *DEMO]
    with started(*words) as server:
        assert server.stderr is not None
        said = [server.stderr.readline().decode().split()[-1] for _ in range(2)]
        for url in said:
            for mode in ("legacy", "modern"):
                run = mcp_trio("call", "--json", "--mode", mode, "add", "a=1", "b=2", "-t", url)
                assert (run.status, run.stderr) == (0, ""), (url, mode)
                assert run.document["structuredContent"] == {"result": 3}
        server.send_signal(signal.SIGTERM)
        assert server.wait(10) == 143


def test_a_url_served_again() -> None:
    """A server at a URL becomes one over standard input and output, with headers for it."""
    with started("serve", "--http", "0") as server:
        assert server.stderr is not None
        url = server.stderr.readline().decode().split()[-1]
        again = [*DEMO, url, "--header", "Acme: 1"]
        run = mcp_trio("call", "--json", "add", "a=1", "b=2", "--", *again)
        assert (run.status, run.stderr) == (0, "")
        assert run.document["structuredContent"] == {"result": 3}


def test_a_command_that_cannot_be_started() -> None:
    """The client hears which kind of trouble there is, and the command says the rest."""
    run = mcp_trio("inspect", "-v", "--", *DEMO, "--", "/no/such/program")
    assert run.status == 3
    assert "The server behind this one cannot be started" in run.stderr
    assert "/no/such/program" in run.stderr


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (["demo", "--", "x"], "Two targets"),
        (["--"], "no command after --"),
        (["ftp://x"], "starts with http"),
        (["demo", "--mode", "legacy"], "are for a URL"),
        (["--env", "A=1"], "are for a URL"),
        (["demo", "--header", "A: 1"], "are for a URL"),
        (["--header", "A: 1", "--", "x"], "--header is for http"),
        (["http://x", "--env", "A=1"], "--env is for servers that are started"),
        (["http://x", "--sse"], "--sse goes with --http"),
    ],
)
def test_usage_of_serving_again(words: list[str], complaint: str) -> None:
    """Options that make no sense together are named, and nothing is started."""
    run = mcp_trio("serve", *words)
    assert run.status == 2
    assert complaint in run.stderr
