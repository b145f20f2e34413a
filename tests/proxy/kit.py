"""A server, a proxy in front of it and a client, in each pair of eras; and scripted servers."""

import copy
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any, TypeAlias

import attrs
import pytest
import trio

import mcp_trio
from mcp_trio import Client, Context, MCPError, Server
from mcp_trio.connection import FrameStream, MemoryFrameStream
from mcp_trio.proxy.app import Proxy
from tests.client.scripted import LEGACY_START, MODERN_START, Scripted, Step

JSONObject: TypeAlias = dict[str, Any]

PAIRS = [(up, down) for up in ("legacy", "modern") for down in ("legacy", "modern")]
#: Each pair of eras, as the arguments `up` and `down`.
EACH_PAIR = pytest.mark.parametrize(
    ("up", "down"), PAIRS, ids=[f"{up}-server-{down}-client" for up, down in PAIRS]
)
STARTS: Mapping[str, dict[str, Step | list[Step]]] = {
    "legacy": LEGACY_START,
    "modern": MODERN_START,
}

#: Seconds of virtual time after which a test counts as hanging.
PATIENCE = 100_000


@attrs.frozen
class Person:
    name: str


class Kit:
    """The server behind, and what happened to it."""

    def __init__(self) -> None:
        self.started = trio.Event()
        self.cancelled = trio.Event()
        self.server = _server(self)


def _server(kit: Kit) -> Server:
    server = Server("behind", version="7", instructions="Mind the gap.")

    @server.tool()
    async def add(a: int, b: int) -> int:
        return a + b

    @server.tool()
    async def steps(count: int, ctx: Context) -> str:
        for number in range(1, count + 1):
            await ctx.report_progress(number, count, f"step {number}")
        return "done"

    @server.tool()
    async def wait(ctx: Context) -> str:
        kit.started.set()
        try:
            await trio.sleep_forever()
        finally:
            kit.cancelled.set()

    @server.tool()
    async def greet(ctx: Context) -> str:
        answer = await ctx.elicit("who", "Your name?", Person)
        return f"Hello, {answer.content.name}!" if answer.action == "accept" else answer.action

    @server.tool()
    async def visit(ctx: Context) -> str:
        answer = await ctx.elicit_url("page", "Please sign.", "https://example.com/sign")
        return answer.action

    @server.tool()
    async def think(question: str, ctx: Context) -> str:
        reply = await ctx.sample("question", question, max_tokens=50)
        assert isinstance(reply.content, mcp_trio.TextContent)
        return reply.content.text

    @server.tool()
    async def roots(ctx: Context) -> str:
        return " ".join(root.uri for root in await ctx.list_roots())

    @server.tool()
    async def interview(ctx: Context) -> str:
        """Ask twice, the second time two things at once, and report and log before each."""
        await ctx.report_progress(1)
        await ctx.log("info", "first")
        first = await ctx.elicit("who", "Your name?", Person)
        assert first.action == "accept"
        await ctx.report_progress(2)
        both = await ctx.ask(
            {"where": mcp_trio.ListRoots(), "old": mcp_trio.Elicit("Old?", Person)}
        )
        await ctx.log("info", "last")
        return f"{first.content.name} {both['where'][0].uri} {both['old'].content.name}"

    @server.tool()
    async def log(level: str, text: str, ctx: Context) -> str:
        await ctx.log(level, text)  # type: ignore[arg-type]  # as the client wrote it
        return level

    @server.tool()
    async def refuse() -> str:
        raise MCPError(-32050, "Not today.", {"retry": "tomorrow"})

    @server.tool()
    async def grow(name: str) -> str:
        server.add_tool(add, name=name)
        return name

    @server.tool()
    async def touch(uri: str) -> str:
        server.notify_resource_updated(uri)
        return uri

    @server.resource("memo://today", title="Today", mime_type="text/plain")
    async def today() -> str:
        return "write tests"

    @server.resource("memo://mine")
    async def mine(ctx: Context) -> str:
        answer = await ctx.elicit("reader", "Who reads?", Person)
        return f"for {answer.content.name}" if answer.action == "accept" else answer.action

    @server.resource("memo://{name}")
    async def memo(name: str) -> str:
        return f"about {name}"

    @server.prompt()
    async def review(code: str, language: str = "python") -> str:
        return f"Review this {language}: {code}"

    @server.completion(prompt="review", argument="language")
    async def languages(typed: str) -> list[str]:
        return [name for name in ("python", "perl", "rust") if name.startswith(typed)]

    @server.request("acme/echo")
    async def echo(params: JSONObject) -> JSONObject:
        return {"said": params.get("said"), "acme": {"deep": [1, None]}, "_meta": {"acme/x": 1}}

    return server


ANSWERS: JSONObject = {
    "on_elicit": lambda params: (
        {"name": "Ada"} if hasattr(params, "requested_schema") else mcp_trio.ElicitResult("accept")
    ),
    "on_sample": lambda params: f"{params.max_tokens} tokens",
    "on_list_roots": lambda _params: ["file:///project"],
}


@asynccontextmanager
async def through(
    behind: Any, up: str, down: str, *, proxy: Callable[..., Proxy] = Proxy, **options: Any
) -> AsyncIterator[Client]:
    """A client in one era of a proxy of `behind`, which is spoken to in another."""
    with trio.fail_after(PATIENCE):
        async with mcp_trio.open_client(proxy(behind, mode=up), mode=down, **options) as client:
            yield client


class Scripts:
    """A server of which each connection follows the same script: see `tests.client.scripted`.

    Attributes:
        connections: All there were, the latest last.
        open: How many there are.
    """

    def __init__(
        self, up: str, steps: dict[str, Step | list[Step]] | None = None, **start: Any
    ) -> None:
        self._start: dict[str, Step | list[Step]] = {**STARTS[up], **start}
        self._steps = steps or {}
        self.connections: list[Scripted] = []
        self.open = 0

    @property
    def latest(self) -> Scripted:
        return self.connections[-1]

    async def serve_frames(self, stream: FrameStream) -> None:
        """Serve one connection: a `Scripts` stands for a `Server` as a target."""
        assert isinstance(stream, MemoryFrameStream)
        scripted = Scripted(copy.copy(self._steps), start=self._start)
        scripted._stream = stream
        self.connections.append(scripted)
        self.open += 1
        try:
            async with trio.open_nursery() as nursery:
                await scripted._serve(nursery)
                nursery.cancel_scope.cancel()
        finally:
            self.open -= 1


def text_of(result: Any) -> str:
    """The text of a tool's result."""
    text: str = result.content[0].text
    return text
