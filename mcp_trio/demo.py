"""The demo server: a little of everything, to try clients on and to copy from.

`mcp-trio serve demo` runs it, and so does `python -m mcp_trio.demo`. It needs nothing, changes
nothing outside itself, and uses each part of the library once, in the plainest way there is.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from importlib.metadata import version
from typing import Annotated, Literal

import attrs
import msgspec
import trio

from mcp_trio import Context, Icon, Image, ResourceNotFound, Server, TextContent, ToolError

LOGO = (
    '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 32 32">'
    '<path d="M4 28 16 4 28 28Z" fill="none" stroke="#2a7" stroke-width="3"/>'
    "</svg>"
)
AUDIENCES = ("a beginner", "a child", "a colleague", "a manager", "an expert")


@asynccontextmanager
async def open_notes(_server: Server) -> AsyncIterator[dict[str, str]]:
    """What lives as long as the server does; a real one would open its database here."""
    yield {"welcome": "Notes live as long as this server runs.", "trio": "Tasks have parents."}


server = Server(
    "demo",
    version=version("mcp-trio"),
    title="mcp-trio demo",
    description="A little of everything, to try clients on.",
    instructions="Everything here is harmless. Start with the tool `add` or the note `welcome`.",
    icons=[Icon(src=f"data:image/svg+xml,{LOGO.replace('#', '%23')}", mime_type="image/svg+xml")],
    lifespan=open_notes,
)


# Tools: the schema comes from the signature, the description from the docstring.


@server.tool(title="Add", read_only=True, idempotent=True, open_world=False)
async def add(a: int, b: int) -> int:
    """Add two whole numbers."""
    return a + b


@server.tool(title="Echo", read_only=True, idempotent=True, open_world=False)
async def echo(text: Annotated[str, "What to say"]) -> str:
    """Say the same again."""
    return text


@server.tool(title="Count", read_only=True, open_world=False)
async def count(
    to: Annotated[int, "The last number", msgspec.Meta(ge=1, le=1000)] = 5,
    delay: Annotated[float, "Seconds before each number", msgspec.Meta(ge=0, le=60)] = 0.2,
    *,
    ctx: Context,
) -> str:
    """Count slowly, and report progress. Cancel it whenever you like."""
    await ctx.log("info", f"counting to {to}", logger="count")
    for number in range(1, to + 1):
        await trio.sleep(delay)
        await ctx.report_progress(number, total=to, message=f"at {number}")
    return f"Counted to {to}."


@attrs.frozen
class Summary:
    """What `summarize` finds out; an attrs class makes the result structured."""

    count: int
    smallest: float
    mean: float
    largest: float


@server.tool(title="Summarize numbers", read_only=True, idempotent=True, open_world=False)
async def summarize(numbers: Annotated[list[float], msgspec.Meta(min_length=1)]) -> Summary:
    """Describe some numbers by a few others."""
    mean = sum(numbers) / len(numbers)
    return Summary(len(numbers), smallest=min(numbers), mean=mean, largest=max(numbers))


@server.tool(title="Draw the logo", read_only=True, idempotent=True, open_world=False)
async def logo() -> Image:
    """Draw the logo of this server."""
    return Image(LOGO.encode(), "image/svg+xml")


@server.tool(title="Fail", read_only=True, open_world=False)
async def fail(reason: str = "You asked for it.") -> str:
    """Fail, as a tool does that cannot do what it was asked."""
    raise ToolError(reason)


# Tools that ask back. Each question has a key, so that its answer is found again.


@attrs.frozen
class Name:
    """The form that `greet` shows to the user."""

    name: Annotated[str, msgspec.Meta(title="Name", min_length=1)]
    nickname: Annotated[str | None, msgspec.Meta(title="Nickname")] = None


@server.tool(title="Greet", read_only=True)
async def greet(ctx: Context) -> str:
    """Greet the user by name, which has to be asked for."""
    answer = await ctx.elicit("name", "What is your name?", Name)
    if answer.action != "accept":
        return "Hello, whoever you are!"
    return f"Hello, {answer.content.nickname or answer.content.name}!"


@server.tool(title="Ask the model", read_only=True)
async def ask_model(question: str, ctx: Context) -> str:
    """Pass a question on to the client's model."""
    reply = await ctx.sample("question", question, max_tokens=200)
    blocks = reply.content if isinstance(reply.content, list) else [reply.content]
    return "\n".join(block.text for block in blocks if isinstance(block, TextContent))


@server.tool(title="List the roots", read_only=True)
async def roots(ctx: Context) -> list[str]:
    """List the folders that the client lets servers work in."""
    return [root.uri for root in await ctx.list_roots()]


# Resources: one that is fixed, and a template for as many as there are notes.


@server.resource("demo://about", title="About this server", mime_type="text/markdown")
async def about() -> str:
    """What this is."""
    return "# mcp-trio demo\n\nTools, notes and a prompt to try clients on.\n"


@server.resource("demo://notes/{name}", title="A note", mime_type="text/plain")
async def note(name: str, ctx: Context) -> str:
    """A note by its name."""
    if name not in ctx.lifespan:
        raise ResourceNotFound(f"There is no note {name!r}.")
    text: str = ctx.lifespan[name]
    return text


@server.completion(resource="demo://notes/{name}", argument="name")
async def note_names(typed: str, ctx: Context) -> list[str]:
    """The names of notes that begin with what was typed."""
    return [name for name in ctx.lifespan if name.startswith(typed)]


@server.tool(title="Write a note", destructive=True, idempotent=True, open_world=False)
async def write_note(name: str, text: str, ctx: Context) -> str:
    """Write a note, over whatever it said before. Clients that listen for it are told."""
    ctx.lifespan[name] = text
    server.notify_resource_updated(f"demo://notes/{name}")
    return f"Wrote demo://notes/{name}."


# A prompt, with suggestions for one of its arguments.


@server.prompt(title="Explain something")
async def explain(
    topic: Annotated[str, "What to explain"],
    audience: Annotated[str, "To whom"] = "a beginner",
    length: Literal["short", "long"] = "short",
) -> str:
    """Ask a model to explain something."""
    return f"Explain {topic} to {audience}. Keep it {length}."


@server.completion(prompt="explain", argument="audience")
async def audiences(typed: str) -> list[str]:
    """Audiences that contain what was typed."""
    return [audience for audience in AUDIENCES if typed.casefold() in audience]


if __name__ == "__main__":
    server.run()
