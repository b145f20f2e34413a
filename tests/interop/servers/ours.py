"""The common server, written with this project; and more, for what only some clients can see.

Its one argument, if given, is a file for its process id and, at the end, whether it got there.
"""

import os
import sys
from functools import partial
from pathlib import Path
from typing import Annotated, Literal

import attrs
import msgspec
import trio

from mcp_trio import (
    Audio,
    Context,
    Elicit,
    EmbeddedResource,
    Image,
    ListRoots,
    MCPError,
    ResourceLink,
    Server,
    TextContent,
    TextResourceContents,
    ToolError,
)

LANGUAGES = ("python", "perl", "rust")
NOTES = {"today": "write more tests", "tomorrow": "run them"}
stopped = 0

server = Server("kit", version="1.0", title="Kit", instructions="For tests.", page_size=5)


@attrs.frozen
class Person:
    name: str
    nickname: str | None = None


@attrs.frozen
class Point:
    x: int
    y: float
    label: Annotated[str, msgspec.Meta(max_length=20)] = "here"


@server.tool(title="Add", read_only=True)
async def add(a: int, b: int) -> int:
    """Add two whole numbers."""
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
        await ctx.report_progress(number, total=count, message=f"step {number}")
        await trio.sleep(pause)
    return f"{count} steps"


@server.tool()
async def wait(ctx: Context) -> str:
    global stopped
    try:
        await ctx.report_progress(1)
        await trio.sleep_forever()
    finally:
        stopped += 1


@server.tool()
async def cancelled(at_least: int = 0) -> str:
    """Over HTTP a cancellation may arrive later than the next request: this one waits for it."""
    with trio.move_on_after(5):
        while stopped < at_least:  # noqa: ASYNC110 (it comes from outside)
            await trio.sleep(0.01)
    return str(stopped)


@server.tool()
async def greet(ctx: Context) -> str:
    answer = await ctx.elicit("who", "What is your name?", Person)
    return f"Hello, {answer.content.name}!" if answer.action == "accept" else answer.action


@server.tool()
async def think(question: str, ctx: Context) -> str:
    reply = await ctx.sample("question", question, max_tokens=50)
    assert isinstance(reply.content, TextContent)
    return reply.content.text


@server.tool()
async def roots(ctx: Context) -> str:
    return " ".join(root.uri for root in await ctx.list_roots())


@server.tool()
async def fail(reason: str) -> str:
    raise ToolError(reason)


@server.tool()
async def log(level: str, text: str, ctx: Context) -> str:
    await ctx.log(level, text, logger="kit")  # type: ignore[arg-type]  # as the client wrote it
    return level


@server.tool()
async def touch(uri: str) -> str:
    server.notify_resource_updated(uri)
    return uri


@server.tool()
async def grow(name: str) -> str:
    server.add_tool(echo, name=name)
    return name


@server.tool()
async def die() -> str:
    os._exit(3)


# What the common server does not have


@server.tool()
async def interview(ctx: Context) -> str:
    """Ask three times: two questions at once, then one that depends on the answer."""
    first = await ctx.ask({"who": Elicit("What is your name?", Person), "where": ListRoots()})
    name = first["who"].content.name
    reply = await ctx.sample("poem", f"A poem about {name}", max_tokens=10)
    assert isinstance(reply.content, TextContent)
    page = await ctx.elicit_url("page", "Please sign.", "https://example.com/sign")
    return f"{name}, {first['where'][0].uri}, {reply.content.text}, {page.action}"


@server.tool()
async def crash() -> str:
    raise ZeroDivisionError("by zero")


@server.tool()
async def refuse() -> str:
    raise MCPError(-32050, "Not today.", {"retry": "tomorrow"})


@server.tool()
async def locate(label: str = "here") -> Point:
    """Structured content."""
    return Point(1, 2.5, label)


@server.tool()
async def media() -> list[str | Image | Audio | EmbeddedResource | ResourceLink]:
    """Each kind of content."""
    return [
        "text",
        Image(b"\x89PNG", "image/png"),
        Audio(b"RIFF", "audio/wav"),
        EmbeddedResource(TextResourceContents(uri="memo://today", text=NOTES["today"])),
        ResourceLink(name="today", uri="memo://today"),
    ]


@server.resource("memo://today", title="Today", mime_type="text/plain")
async def today() -> str:
    return NOTES["today"]


@server.resource("memo://pixel", mime_type="image/png")
async def pixel() -> bytes:
    return b"\x89PNG"


@server.resource("memo://mine")
async def mine(ctx: Context) -> str:
    """Reading this asks who wants to know."""
    answer = await ctx.elicit("reader", "Who reads?", Person)
    return f"for {answer.content.name}" if answer.action == "accept" else answer.action


@server.resource("memo://{name}", title="A memo")
async def memo(name: str) -> str:
    return NOTES.get(name, f"nothing about {name}")


@server.completion(resource="memo://{name}", argument="name")
async def memo_names(typed: str) -> list[str]:
    return [name for name in NOTES if name.startswith(typed)]


@server.prompt(title="Review")
async def review(code: str, language: Literal["python", "perl", "rust"] = "python") -> str:
    return f"Review this {language}: {code}"


@server.completion(prompt="review", argument="language")
async def languages(typed: str, arguments: dict[str, str]) -> list[str]:
    known = [language for language in LANGUAGES if language.startswith(typed)]
    return known[::-1] if arguments.get("code") == "reversed" else known


if __name__ == "__main__":
    notes = [Path(argument) for argument in sys.argv[1:]]
    for path in notes:
        path.write_text(str(os.getpid()))
    if port := os.environ.get("PORT"):
        trio.run(partial(server.serve_http, int(port), sse_path="/sse"))
    else:
        server.run()
    for path in notes:
        path.write_text(f"{os.getpid()} ended by itself")
