"""Cancel everything everywhere: connect, call, callback, listen and close, step by step.

Each scenario is run once for every task step that it has, cancelled just before it, and checked
for what it leaves behind (invariants I1 to I5). How many steps were tried is printed: `pytest -s`.
"""

import os
import sys
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
import trio

import mcp_trio
from mcp_trio.testing import exhaustive_cancellation, memory_pair

ERAS = ["modern", "legacy"]


def make_server() -> mcp_trio.Server:
    server = mcp_trio.Server("exhausted")

    @server.tool()
    async def count(upto: int, ctx: mcp_trio.Context) -> int:
        for n in range(upto):
            await ctx.report_progress(n + 1, upto)
            await trio.sleep(1)
        return upto

    @server.tool()
    async def greet(ctx: mcp_trio.Context) -> str:
        answer = await ctx.elicit("name", "Your name?", {"name": str})
        assert answer.content is not None
        return f"Hello, {answer.content['name']}!"

    @server.resource("memo://today")
    async def today() -> str:
        return "write more tests"

    return server


async def answer(request: object) -> dict[str, Any]:
    await trio.sleep(1)
    return {"name": "Ada"}


async def use(client: mcp_trio.Client) -> None:
    """A little of everything that a client does."""
    progress: list[float] = []
    result = await client.call_tool(
        "count", {"upto": 3}, on_progress=lambda p: progress.append(p.progress), timeout=100
    )
    assert result.structured_content == {"result": 3}
    assert progress == [1, 2, 3]
    assert (await client.call_tool("greet")).content[0].text == "Hello, Ada!"  # type: ignore[union-attr] # a text
    assert (await client.read_resource("memo://today")).contents


def in_process(mode: str) -> Callable[[], Awaitable[None]]:
    async def scenario() -> None:
        server = make_server()
        async with mcp_trio.open_client(server, mode=mode, on_elicit=answer) as client:
            await use(client)

    return scenario


def listening(mode: str) -> Callable[[], Awaitable[None]]:
    async def scenario() -> None:
        server = make_server()
        async with mcp_trio.open_client(server, mode=mode) as client:
            listen = client.listen(tools=True, uris=["memo://today"])
            async with listen as events, client.listen(resources=True, uris=["memo://today"]):
                server.add_tool(lambda: "new", name="new")
                server.notify_resource_updated("memo://today")
                seen = {type(await anext(events)), type(await anext(events))}
            assert seen == {mcp_trio.ToolsChanged, mcp_trio.ResourceUpdated}

    return scenario


def over_a_stream(mode: str) -> Callable[[], Awaitable[None]]:
    async def scenario() -> None:
        near, far = memory_pair()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(make_server().serve_stream, far)
            async with mcp_trio.open_client(near, mode=mode, on_elicit=answer) as client:
                await use(client)

    return scenario


def many_calls(mode: str) -> Callable[[], Awaitable[None]]:
    async def scenario() -> None:
        async with (
            mcp_trio.open_client(make_server(), mode=mode) as client,
            trio.open_nursery() as nursery,
        ):
            for n in (1, 2, 3):
                nursery.start_soon(client.call_tool, "count", {"upto": n})
            with trio.move_on_after(1.5):
                await client.call_tool("count", {"upto": 100})

    return scenario


@pytest.mark.parametrize("mode", ERAS)
@pytest.mark.parametrize("make", [in_process, listening, over_a_stream, many_calls])
def test_in_process(make: Callable[[str], Callable[[], Awaitable[None]]], mode: str) -> None:
    """I1 to I3: cancelled anywhere, nothing is left and nothing but the cancellation comes out."""
    steps = exhaustive_cancellation(make(mode))
    print(f"\n{make.__name__}, {mode}: {steps} task steps tried")
    assert steps > 30


#: A server that starts in a few milliseconds: the process is what is tested, not the protocol.
TINY_SERVER = """
import json, os, signal, sys
if "stubborn" in sys.argv:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
if "family" in sys.argv and os.fork() == 0:
    signal.pause()
for line in sys.stdin:
    message = json.loads(line)
    if "id" not in message:
        continue
    if message["method"] == "initialize":
        result = {"protocolVersion": message["params"]["protocolVersion"], "capabilities": {},
                  "serverInfo": {"name": "tiny", "version": "1"}}
    else:
        result = {"echo": message["method"]}
    print(json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": result}), flush=True)
    print("noted", message["method"], file=sys.stderr, flush=True)
if "stubborn" in sys.argv:
    while True: signal.pause()
"""


@pytest.mark.skipif(sys.platform == "win32", reason="needs os.fork and signals")
@pytest.mark.parametrize("kind", ["plain", "family", "stubborn"])
def test_stdio(kind: str) -> None:
    """I1, I5: cancelled anywhere, no process of the server's is left, nor any of its group."""
    argv = [sys.executable, "-S", "-E", "-c", TINY_SERVER, kind]
    parameters = mcp_trio.StdioParameters(
        argv[0], argv[1:], stderr="capture", eof_grace=0.2, term_grace=0.2
    )

    async def scenario() -> None:
        async with mcp_trio.open_client(parameters, mode="legacy") as client:
            assert await client.request("a/b") == {"echo": "a/b"}

    def nobody_is_left() -> None:
        left = [pid for pid in _processes_with(TINY_SERVER) if pid != os.getpid()]
        assert not left, f"processes {left} are left"

    # A run of the stubborn kind takes half a second and more: try every fifth step of it.
    every = {"plain": 1, "family": 2, "stubborn": 5}[kind]
    steps = exhaustive_cancellation(
        scenario, real_clock=True, time_limit=20, check=nobody_is_left, every=every
    )
    print(f"\nstdio, {kind}: {steps} task steps tried")
    assert steps > 5


def _processes_with(argument: str) -> list[int]:
    found = []
    for name in os.listdir("/proc") if os.path.isdir("/proc") else ():
        try:
            with open(f"/proc/{name}/cmdline", "rb") as file:
                arguments = file.read().split(b"\0")
            with open(f"/proc/{name}/stat") as stat:
                zombie = stat.read().rpartition(")")[2].split()[0] == "Z"
        except (OSError, ValueError):
            continue
        if name.isdecimal() and argument.encode() in arguments and not zombie:
            found.append(int(name))
    return found
