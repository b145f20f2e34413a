"""The common server, written with PyPI's `mcp`; runs in that package's own environment."""

import os
from typing import Annotated

import anyio
import uvicorn
from mcp.server import MCPServer
from mcp.server.mcpserver import Context, Elicit, ListRoots, Resolve, Sample
from mcp.server.streamable_http import EventMessage, EventStore
from mcp.server.subscriptions import InMemorySubscriptionBus
from mcp.types import (
    Completion,
    CreateMessageResult,
    EmptyResult,
    ListRootsResult,
    SamplingMessage,
    SetLevelRequestParams,
    SubscribeRequestParams,
    TextContent,
    UnsubscribeRequestParams,
)
from mcp.types.version import MODERN_PROTOCOL_VERSIONS
from pydantic import BaseModel

LANGUAGES = ("python", "perl", "rust")
NOTES = {"today": "write more tests", "tomorrow": "run them"}
stopped = 0

server = MCPServer(
    "kit",
    version="1.0",
    title="Kit",
    instructions="For tests.",
    log_level="WARNING",
    subscriptions=InMemorySubscriptionBus(),
)


class Person(BaseModel):
    name: str
    nickname: str | None = None


def ask_name() -> Elicit[Person]:
    return Elicit("What is your name?", Person)


def ask_model(question: str) -> Sample:
    message = SamplingMessage(role="user", content=TextContent(type="text", text=question))
    return Sample([message], max_tokens=50)


def ask_roots() -> ListRoots:
    return ListRoots()


@server.tool()
async def add(a: int, b: int) -> int:
    return a + b


@server.tool()
async def echo(text: str) -> str:
    return text


@server.tool()
async def big(size: int) -> str:
    return "x" * size


@server.tool()
async def steps(count: int, ctx: Context, pause: float = 0) -> str:
    for number in range(1, count + 1):
        await ctx.report_progress(number, count, f"step {number}")
        await anyio.sleep(pause)
    return f"{count} steps"


@server.tool()
async def wait(ctx: Context) -> str:
    global stopped
    try:
        await ctx.report_progress(1)
        await anyio.sleep_forever()
    finally:
        stopped += 1


@server.tool()
async def cancelled() -> str:
    return str(stopped)


@server.tool()
async def greet(who: Annotated[Person, Resolve(ask_name)]) -> str:
    return f"Hello, {who.name}!"


@server.tool()
async def think(question: str, reply: Annotated[CreateMessageResult, Resolve(ask_model)]) -> str:
    return str(reply.content.text)


@server.tool()
async def roots(found: Annotated[ListRootsResult, Resolve(ask_roots)]) -> str:
    return " ".join(str(root.uri) for root in found.roots)


@server.tool()
async def fail(reason: str) -> str:
    raise ValueError(reason)


@server.tool()
async def log(level: str, text: str, ctx: Context) -> str:
    await ctx.log(level, text, logger_name="kit")
    return level


@server.tool()
async def touch(uri: str, ctx: Context) -> str:
    if ctx.protocol_version in MODERN_PROTOCOL_VERSIONS:
        await ctx.notify_resource_updated(uri)
    else:
        await ctx.session.send_resource_updated(uri)
    return uri


@server.tool()
async def grow(name: str, ctx: Context) -> str:
    server.add_tool(echo, name=name)
    if ctx.protocol_version in MODERN_PROTOCOL_VERSIONS:
        await ctx.notify_tools_changed()
    else:
        await ctx.session.send_tool_list_changed()
    return name


@server.tool()
async def die() -> str:
    os._exit(3)


@server.resource("memo://today", title="Today", mime_type="text/plain")
async def today() -> str:
    return NOTES["today"]


@server.resource("memo://{name}", title="A memo")
async def memo(name: str) -> str:
    return NOTES.get(name, f"nothing about {name}")


@server.prompt(title="Review")
async def review(code: str, language: str = "python") -> str:
    return f"Review this {language}: {code}"


@server.completion()
async def complete(ref, argument, context):  # type: ignore[no-untyped-def]  # as the library has it
    known = NOTES if argument.name == "name" else LANGUAGES
    values = [value for value in known if value.startswith(argument.value)]
    if context is not None and (context.arguments or {}).get("code") == "reversed":
        values.reverse()
    return Completion(values=values)


async def accept(ctx: object, params: object) -> EmptyResult:
    """Let clients set a level and subscribe: this library leaves both to its user in 2025-11-25."""
    return EmptyResult()


low_level = server._lowlevel_server
low_level.add_request_handler("logging/setLevel", SetLevelRequestParams, accept)
low_level.add_request_handler("resources/subscribe", SubscribeRequestParams, accept)
low_level.add_request_handler("resources/unsubscribe", UnsubscribeRequestParams, accept)


class Events(EventStore):
    """All events of all streams, so that streams can be resumed."""

    def __init__(self) -> None:
        self.stored: list[tuple[str, object]] = []

    async def store_event(self, stream_id, message):  # type: ignore[no-untyped-def]
        self.stored.append((stream_id, message))
        return str(len(self.stored))

    async def replay_events_after(self, last_event_id, send_callback):  # type: ignore[no-untyped-def]
        last = int(last_event_id)
        stream = self.stored[last - 1][0]
        for number, (stream_id, message) in enumerate(self.stored[last:], last + 1):
            if stream_id == stream and message is not None:
                await send_callback(EventMessage(message, str(number)))
        return stream


def serve_http(port: int) -> None:
    idle = float(os.environ.get("SESSION_IDLE", "1800"))
    app = server.streamable_http_app(
        event_store=Events(), retry_interval=100, session_idle_timeout=idle
    )
    app.router.routes.extend(server.sse_app().routes)
    uvicorn.run(app, port=port, log_level="warning")


if __name__ == "__main__":
    if port := os.environ.get("PORT"):
        serve_http(int(port))
    else:
        server.run("stdio")
