"""Real peers: the reference server served again to the clients of others, and SDK servers too."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import trio

import mcp_trio
from mcp_trio import Client, MCPError, StdioParameters
from mcp_trio.proxy.app import Proxy
from tests import interop, peers
from tests.interop.running import served
from tests.skipping import or_skip

from .kit import ANSWERS, text_of

pytestmark = pytest.mark.interop

INTEROP = Path(interop.__file__).parent
CLIENTS = INTEROP / "clients"
MCP_SERVER = INTEROP / "servers" / "mcp_sdk.py"
MODES = pytest.mark.parametrize("mode", ["legacy", "modern"])


@pytest.fixture(scope="module")
def everything() -> list[str]:
    """The command of the reference server, which is legacy."""
    return or_skip(partial(peers.npm_server, "server-everything"))


@asynccontextmanager
async def at_url(proxy: Proxy) -> AsyncIterator[str]:
    with trio.fail_after(60):
        async with trio.open_nursery() as nursery:
            (listener,) = await nursery.start(partial(proxy.serve_http, 0))
            yield f"http://127.0.0.1:{listener.socket.getsockname()[1]}/mcp"
            nursery.cancel_scope.cancel()


async def wait_for(holds: Callable[[], bool]) -> None:
    while not holds():  # noqa: ASYNC110 (it happens in another process)
        await trio.sleep(0.01)


@MODES
async def test_everything_over_http(mode: str, everything: list[str]) -> None:
    """stdio to HTTP: tools, questions of every kind, progress, resources, prompts, completion."""
    progress: list[float] = []
    parameters = StdioParameters.from_argv(everything, stderr="discard")
    async with (
        at_url(Proxy(parameters)) as url,
        mcp_trio.open_client(url, mode=mode, **ANSWERS) as client,
    ):
        assert client.server_info is not None
        assert client.server_info.title == "Everything Reference Server"
        names = {tool.name for tool in await client.list_tools()}
        assert {"echo", "trigger-elicitation-request", "trigger-sampling-request"} <= names
        assert text_of(await client.call_tool("echo", {"message": "hi"})) == "Echo: hi"
        sampled = await client.call_tool("trigger-sampling-request", {"prompt": "why?"})
        assert "100 tokens" in text_of(sampled)
        asked = await client.call_tool("trigger-elicitation-request")
        assert "Ada" in str(asked.content)
        roots = await client.call_tool("get-roots-list")
        assert mode == "modern" or "file:///project" in text_of(roots)
        await client.call_tool(
            "trigger-long-running-operation",
            {"duration": 0.1, "steps": 3},
            on_progress=lambda report: progress.append(report.progress),
        )
        assert progress == [1, 2, 3]
        read = await client.read_resource("demo://resource/dynamic/text/7")
        assert "7" in read.contents[0].text  # type: ignore[union-attr]
        with pytest.raises(MCPError) as failed:
            await client.read_resource("demo://nothing")
        assert failed.value.code == -32602  # which it answers in its own era, too
        assert (await client.get_prompt("simple-prompt")).messages


@pytest.mark.parametrize(("mode", "version"), [("auto", "2026-07-28"), ("legacy", "2025-11-25")])
async def test_everything_and_the_typescript_client(
    mode: str, version: str, everything: list[str]
) -> None:
    """The client of npm (2.4) finds in a proxy what it finds in the server."""
    program = or_skip(partial(peers.node_script, CLIENTS / "ts_sdk_v2.mjs"))
    calls = [
        ("echo", {"message": "hi"}, "Echo: hi"),
        ("trigger-sampling-request", {"prompt": "why?", "maxTokens": 9}, "9 tokens"),
        ("trigger-elicitation-request", {}, "Ada"),
        ("trigger-long-running-operation", {"duration": 0.1, "steps": 2}, "2"),
    ]
    steps = [{"do": "call", "name": name, "arguments": args} for name, args, _ in calls]
    parameters = StdioParameters.from_argv(everything, stderr="discard")
    async with at_url(Proxy(parameters)) as url:
        plan = {
            "mode": mode,
            "url": url,
            "steps": [{"do": "tools"}, {"do": "resources"}, *steps],
            "log_level": "debug",
            "library": str(CLIENTS / "steps.mjs"),
        }
        done = await trio.run_process(
            [*program, json.dumps(plan)], capture_stdout=True, stdin=subprocess.DEVNULL
        )
    report: Any = json.loads(done.stdout)
    assert report["version"] == version
    assert report["server"]["title"] == "Everything Reference Server"
    tools, resources, *called = report["outcomes"]
    assert len(tools["result"]) > 10
    assert len(resources["result"]) > 5
    for (_, _, expected), outcome in zip(calls, called, strict=True):
        assert expected in json.dumps(outcome["result"]["content"])
    assert [step[0] for step in called[-1]["progress"]] == [1, 2]


@asynccontextmanager
async def mcp_server_over_stdio(mode: str, **options: Any) -> AsyncIterator[Client]:
    """The server of PyPI's `mcp` over HTTP, served again by the command over stdio."""
    python = or_skip(peers.mcp_python)
    with trio.fail_after(60):
        async with served([str(python), str(MCP_SERVER)]) as (origin, _):
            command = [sys.executable, "-m", "mcp_trio", "serve", f"{origin}/mcp"]
            async with mcp_trio.open_client(command, mode=mode, **options) as client:
                yield client


@MODES
async def test_the_python_sdk_over_stdio(mode: str) -> None:
    """HTTP to stdio: a server of both eras is spoken to in its client's, and asks its client."""
    logs: list[Any] = []
    progress: list[float] = []
    async with mcp_server_over_stdio(
        mode, **ANSWERS, on_log=lambda message: logs.append(message.data)
    ) as client:
        assert client.server_info is not None
        assert client.server_info.name == "kit"
        assert text_of(await client.call_tool("add", {"a": 1, "b": 2})) == "3"
        assert text_of(await client.call_tool("greet")) == "Hello, Ada!"
        assert text_of(await client.call_tool("think", {"question": "?"})) == "50 tokens"
        assert text_of(await client.call_tool("roots")) == "file:///project"
        await client.call_tool(
            "steps", {"count": 3}, on_progress=lambda report: progress.append(report.progress)
        )
        assert progress == [1, 2, 3]
        await client.call_tool("log", {"level": "error", "text": "hi"})
        await wait_for(lambda: "hi" in logs)
        async with client.listen(uris=["memo://today"]) as events:
            await client.call_tool("touch", {"uri": "memo://today"})
            assert await anext(events) == mcp_trio.ResourceUpdated("memo://today")


@MODES
async def test_cancelling_reaches_the_python_sdk(mode: str) -> None:
    """A call that is cancelled here is cancelled there, two connections away."""
    async with mcp_server_over_stdio(mode) as client:
        started = trio.Event()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(
                partial(client.call_tool, "wait", on_progress=lambda _: started.set())
            )
            await started.wait()
            nursery.cancel_scope.cancel()
        while text_of(await client.call_tool("cancelled")) != "1":  # noqa: ASYNC110
            await trio.sleep(0.05)


@MODES
async def test_a_process_that_dies(mode: str) -> None:
    """A child that exits in mid-call is an error with its exit status; the next call has a new."""
    program = [sys.executable, "-m", "tests.interop.servers.ours"]
    with trio.fail_after(30):
        async with mcp_trio.open_client(Proxy(program), mode=mode) as client:
            with pytest.raises(MCPError, match=r"is gone: .* \(exit status 3\)"):
                await client.call_tool("die")
            assert text_of(await client.call_tool("add", {"a": 1, "b": 2})) == "3"
