"""A plain server as a user of PyPI's `mcp` 2.3.0 writes one, for checking and fuzzing the library.

It runs in that package's own environment: `python plain_mcp.py` over stdio,
`python plain_mcp.py --http 8000` over Streamable HTTP. There is nothing odd in it, so what a check
finds here is a matter of the library and its defaults.
"""

import sys
from typing import Annotated

import anyio
from mcp.server import MCPServer
from mcp.server.mcpserver import Context, Elicit, Resolve, Sample
from mcp.types import (
    Completion,
    CreateMessageResult,
    PromptReference,
    SamplingMessage,
    TextContent,
    ToolAnnotations,
)
from pydantic import BaseModel

LANGUAGES = ("perl", "python", "rust")
RECIPES = {"bread": "Flour, water, salt, time.", "soup": "Whatever is left."}
READ_ONLY = ToolAnnotations(read_only_hint=True)

server = MCPServer("plain", version="1.0", instructions="A small cookbook.", log_level="WARNING")


class Weather(BaseModel):
    city: str
    degrees: float


class Guest(BaseModel):
    name: str


def ask_guest() -> Elicit[Guest]:
    return Elicit("What is your name?", Guest)


def ask_model(text: str) -> Sample:
    message = SamplingMessage(
        role="user", content=TextContent(type="text", text=f"Shorten: {text}")
    )
    return Sample([message], max_tokens=50)


@server.tool(annotations=READ_ONLY)
def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


@server.tool(annotations=READ_ONLY)
def weather(city: str) -> Weather:
    """Tell the weather of a city."""
    return Weather(city=city, degrees=21.5)


@server.tool(annotations=READ_ONLY)
async def bake(ctx: Context, minutes: int = 4) -> str:
    """Bake a bread slowly and say how far it is."""
    for minute in range(1, minutes + 1):
        await anyio.sleep(0.5)
        await ctx.report_progress(minute, minutes, f"minute {minute}")
    return "A bread."


@server.tool(annotations=READ_ONLY)
async def greet(guest: Annotated[Guest, Resolve(ask_guest)]) -> str:
    """Ask who is there and greet them."""
    return f"Hello, {guest.name}!"


@server.tool(annotations=READ_ONLY)
async def shorten(text: str, reply: Annotated[CreateMessageResult, Resolve(ask_model)]) -> str:
    """Let the client's model shorten a text."""
    return str(reply.content.text)


@server.resource("cookbook://index", title="All recipes", mime_type="text/plain")
def index() -> str:
    return "\n".join(RECIPES)


@server.resource("cookbook://recipes/{name}", title="A recipe", mime_type="text/plain")
def recipe(name: str) -> str:
    return RECIPES.get(name, f"There is no recipe for {name}.")


@server.prompt(title="Review code")
def review(code: str, language: str = "python") -> str:
    """Ask for a review."""
    return f"Review this {language}: {code}"


@server.completion()
async def complete(ref, argument, context):  # type: ignore[no-untyped-def]  # as the library has it
    known = LANGUAGES if isinstance(ref, PromptReference) else tuple(RECIPES)
    return Completion(values=[value for value in known if value.startswith(argument.value)])


if __name__ == "__main__":
    if sys.argv[1:2] == ["--http"]:
        server.run("streamable-http", port=int(sys.argv[2]))
    else:
        server.run("stdio")
