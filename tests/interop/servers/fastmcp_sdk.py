"""The common server, written with `fastmcp` 4; runs in that package's own environment."""

import os

import anyio
import uvicorn
from fastmcp import Context, FastMCP
from fastmcp.exceptions import ToolError
from fastmcp.server.event_store import EventStore
from mcp.types import (
    Completion,
    CreateMessageRequest,
    CreateMessageRequestParams,
    ElicitRequest,
    ElicitRequestFormParams,
    InputRequiredResult,
    ListRootsRequest,
    ResourceUpdatedNotification,
    ResourceUpdatedNotificationParams,
    SamplingMessage,
    TextContent,
    ToolListChangedNotification,
)

LANGUAGES = ("python", "perl", "rust")
NOTES = {"today": "write more tests", "tomorrow": "run them"}
WHO = {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}
stopped = 0

server = FastMCP("kit", version="1.0", instructions="For tests.")


def modern(ctx: Context) -> bool:
    return ctx.request_context.protocol_version >= "2026"


def answer_to(ctx: Context, key: str):  # type: ignore[no-untyped-def]
    return (ctx.input_responses or {}).get(key)


@server.tool
async def add(a: int, b: int) -> int:
    return a + b


@server.tool
async def echo(text: str) -> str:
    return text


@server.tool
async def big(size: int) -> str:
    return "x" * size


@server.tool
async def steps(count: int, ctx: Context, pause: float = 0) -> str:
    for number in range(1, count + 1):
        await ctx.report_progress(number, count, f"step {number}")
        await anyio.sleep(pause)
    return f"{count} steps"


@server.tool
async def wait(ctx: Context) -> str:
    global stopped
    try:
        await ctx.report_progress(1)
        await anyio.sleep_forever()
    finally:
        stopped += 1


@server.tool
async def cancelled() -> str:
    return str(stopped)


@server.tool
async def greet(ctx: Context) -> str | InputRequiredResult:
    question = ElicitRequestFormParams(message="What is your name?", requested_schema=WHO)
    if modern(ctx):
        answer = answer_to(ctx, "who")
        if answer is None:
            return InputRequiredResult(input_requests={"who": ElicitRequest(params=question)})
    else:
        answer = await ctx.session.elicit(
            message=question.message, requested_schema=WHO, related_request_id=ctx.request_id
        )
    return f"Hello, {answer.content['name']}!" if answer.action == "accept" else answer.action


@server.tool
async def think(question: str, ctx: Context) -> str | InputRequiredResult:
    message = SamplingMessage(role="user", content=TextContent(type="text", text=question))
    if modern(ctx):
        answer = answer_to(ctx, "model")
        if answer is None:
            params = CreateMessageRequestParams(messages=[message], max_tokens=50)
            return InputRequiredResult(
                input_requests={"model": CreateMessageRequest(params=params)}
            )
    else:
        answer = await ctx.session.create_message([message], max_tokens=50)
    return answer.content.text


@server.tool
async def roots(ctx: Context) -> str | InputRequiredResult:
    if modern(ctx):
        answer = answer_to(ctx, "roots")
        if answer is None:
            return InputRequiredResult(input_requests={"roots": ListRootsRequest()})
    else:
        answer = await ctx.session.list_roots()
    return " ".join(str(root.uri) for root in answer.roots)


@server.tool
async def fail(reason: str) -> str:
    raise ToolError(reason)


@server.tool
async def log(level: str, text: str, ctx: Context) -> str:
    await ctx.log(text, level=level, logger_name="kit")
    return level


@server.tool
async def touch(uri: str, ctx: Context) -> str:
    params = ResourceUpdatedNotificationParams(uri=uri)
    await ctx.send_notification(ResourceUpdatedNotification(params=params))
    return uri


@server.tool
async def grow(name: str, ctx: Context) -> str:
    server.tool(echo, name=name)
    await ctx.send_notification(ToolListChangedNotification())
    return name


@server.tool
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


@server.completion
async def complete(ref, argument, context):  # type: ignore[no-untyped-def]  # as the library has it
    known = NOTES if argument.name == "name" else LANGUAGES
    values = [value for value in known if value.startswith(argument.value)]
    if context is not None and (context.arguments or {}).get("code") == "reversed":
        values.reverse()
    return Completion(values=values)


def serve_http(port: int) -> None:
    app = server.http_app(event_store=EventStore(), retry_interval=100)
    app.router.routes.extend(server.http_app("/sse", transport="sse").routes)
    uvicorn.run(app, port=port, log_level="warning")


if __name__ == "__main__":
    if port := os.environ.get("PORT"):
        serve_http(int(port))
    else:
        server.run(show_banner=False)
