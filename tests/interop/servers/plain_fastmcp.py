"""A plain server as a user of `fastmcp` 4 writes one, for checking and fuzzing the library.

It runs in that package's own environment: `python plain_fastmcp.py` over stdio,
`python plain_fastmcp.py --http 8000` over Streamable HTTP. There is nothing odd in it, so what a
check finds here is a matter of the library and its defaults.
"""

import sys

import anyio
from fastmcp import Context, FastMCP
from mcp.types import (
    ElicitRequest,
    ElicitRequestFormParams,
    InputRequiredResult,
    PromptReference,
    ToolAnnotations,
)
from pydantic import BaseModel

LANGUAGES = ("perl", "python", "rust")
RECIPES = {"bread": "Flour, water, salt, time.", "soup": "Whatever is left."}
READ_ONLY = ToolAnnotations(read_only_hint=True)

server = FastMCP("plain", version="1.0", instructions="A small cookbook.")


class Weather(BaseModel):
    city: str
    degrees: float


class Guest(BaseModel):
    name: str


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
async def greet(ctx: Context) -> str:
    """Ask who is there and greet them: in the way of clients before 2026."""
    answer = await ctx.elicit("What is your name?", Guest)
    return f"Hello, {answer.data.name}!" if answer.action == "accept" else "Hello!"


@server.tool(annotations=READ_ONLY)
async def welcome(ctx: Context) -> str | InputRequiredResult:
    """Ask who is there and greet them: in the way of clients since 2026."""
    answer = (ctx.input_responses or {}).get("guest")
    if answer is None:
        question = ElicitRequestFormParams(
            message="What is your name?", requested_schema=Guest.model_json_schema()
        )
        return InputRequiredResult(input_requests={"guest": ElicitRequest(params=question)})
    return f"Welcome, {answer.content['name']}!" if answer.action == "accept" else "Welcome!"


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


@server.completion
def complete(ref, argument, context):  # type: ignore[no-untyped-def]  # as the library has it
    known = LANGUAGES if isinstance(ref, PromptReference) else tuple(RECIPES)
    return [value for value in known if value.startswith(argument.value)]


if __name__ == "__main__":
    if sys.argv[1:2] == ["--http"]:
        server.run("http", port=int(sys.argv[2]))
    else:
        server.run()
