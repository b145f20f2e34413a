"""Several processes that serve the same clients: Hypercorn with two Trio workers."""

import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import trio

import mcp_trio

APP = """
import os
import mcp_trio

server = mcp_trio.Server("workers", state_keys=["a key that all workers have"])

@server.tool()
async def pid() -> int:
    return os.getpid()

@server.tool()
async def greet(ctx: mcp_trio.Context) -> str:
    answer = await ctx.elicit("name", "Name?", {"name": str})
    return f"Hello, {answer.content['name']}!"

app = server.asgi_app(stateless=True)
"""


@contextmanager
def workers(folder: Path) -> Iterator[str]:
    (folder / "several_workers.py").write_text(APP)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{free.getsockname()[1]}"
    argv = [sys.executable, "-m", "hypercorn", "-k", "trio", "-w", "2", "-b", address]
    process = subprocess.Popen(
        [*argv, "several_workers:app"],
        cwd=folder,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        start_new_session=True,
    )
    with process:
        try:
            yield f"http://{address}/mcp"
        finally:
            os.killpg(process.pid, 9)


async def _wait_for(url: str) -> None:
    host, _, port = url.removeprefix("http://").removesuffix("/mcp").partition(":")
    until = time.monotonic() + 30
    while True:
        try:
            return await (await trio.open_tcp_stream(host, int(port))).aclose()
        except OSError:
            assert time.monotonic() < until, "the workers do not start"
            await trio.sleep(0.05)


@pytest.mark.skipif(sys.platform == "win32", reason="needs process groups")
async def test_any_worker_answers_any_request(tmp_path: Path) -> None:
    """Modern and stateless legacy clients may meet another worker with each request, also in the
    rounds of one call that asks its user: its state is sealed with a key that all workers have."""
    pids: set[int] = set()
    with workers(tmp_path) as url, trio.fail_after(60):
        await _wait_for(url)
        for _ in range(20):
            for mode in ("modern", "legacy"):
                async with mcp_trio.open_client(
                    url, mode=mode, on_elicit=lambda request: {"name": "Ada"}
                ) as client:
                    result = await client.call_tool("pid")
                    assert isinstance(result.structured_content, dict)
                    pids.add(result.structured_content["result"])
                    if mode == "modern":
                        greeting = await client.call_tool("greet")
                        assert greeting.content == [mcp_trio.TextContent("Hello, Ada!")]
            if len(pids) > 1:
                break
    assert len(pids) > 1, "one worker answered everything"
