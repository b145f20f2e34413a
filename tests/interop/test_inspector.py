"""The inspector's command line against our demo server over HTTP, as people try servers out."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest

from tests import peers
from tests.interop.running import free_port, running

pytestmark = [pytest.mark.interop, pytest.mark.usefixtures("npm_project")]

CALL = ("--tool-name", "add", "--tool-arg", "a=2", "b=3")
PROMPT = ("--prompt-name", "explain", "--prompt-args", "topic=nurseries", "length=long")


@pytest.fixture(scope="module")
def origin() -> Iterator[str]:
    """The demo server, at /mcp and at /sse."""
    port = free_port()
    words = ["-m", "mcp_trio", "serve", "demo", "--http", f"127.0.0.1:{port}", "--sse"]
    with running([sys.executable, *words], port):
        yield f"http://127.0.0.1:{port}"


def inspect(url: str, method: str, *words: str) -> Any:
    """The result of one request, as the inspector prints it."""
    path = os.pathsep.join([str(peers.node().parent), os.environ["PATH"]])
    done = subprocess.run(
        [*peers.inspector_cli(), url, "--method", method, *words],
        cwd=peers.npm_module_path(),  # somewhere above it has to be a package.json
        env={**os.environ, "PATH": path},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        encoding="utf-8",
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.mark.parametrize("path", ["/mcp", "/sse"])
def test_call(origin: str, path: str) -> None:
    """A tool's result, structured and not."""
    called = inspect(origin + path, "tools/call", *CALL)
    assert called["content"] == [{"type": "text", "text": "5"}]
    assert called["structuredContent"] == {"result": 5}


def test_list(origin: str) -> None:
    """The tools, with schemas."""
    tools = {tool["name"]: tool for tool in inspect(f"{origin}/mcp", "tools/list")["tools"]}
    assert set(tools["add"]["inputSchema"]["properties"]) == {"a", "b"}


def test_read(origin: str) -> None:
    """The contents of a resource."""
    (note,) = inspect(f"{origin}/mcp", "resources/read", "--uri", "demo://notes/trio")["contents"]
    assert note["text"] == "Tasks have parents."


def test_prompt(origin: str) -> None:
    """A prompt that is given arguments."""
    (message,) = inspect(f"{origin}/mcp", "prompts/get", *PROMPT)["messages"]
    assert message["content"]["text"] == "Explain nurseries to a beginner. Keep it long."
