"""The everything-server: what the official suite expects of a server, offered by this library.

The names, the texts and the schemas are the suite's. `python -m tests.conformance.server` serves it
by `Server.serve_http` and prints the URL; `app` is the same for an ASGI server that runs on Trio.
"""

import base64
import json
from collections.abc import Mapping
from typing import Annotated, Any, Literal

import attrs
import trio

from mcp_trio import (
    Accepted,
    Alias,
    Audio,
    BlobResourceContents,
    CacheHint,
    Context,
    Elicit,
    EmbeddedResource,
    Image,
    ListRoots,
    PromptMessage,
    Refused,
    Sample,
    SamplingMessage,
    Server,
    TextContent,
    TextResourceContents,
    ToolError,
)

PIXEL = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8DwHwAFBQIAX8jx0gAAAABJRU5ErkJg"
    "gg=="
)
SILENCE = base64.b64decode("UklGRiYAAABXQVZFZm10IBAAAAABAAEAQB8AAAB9AAACABAAZGF0YQIAAAAAAA==")

PUBLIC = CacheHint(ttl=300, scope="public")
server = Server(
    "everything",
    version="1.0.0",
    cache_hints={
        "tools/list": PUBLIC,
        "prompts/list": PUBLIC,
        "resources/list": PUBLIC,
        "resources/templates/list": PUBLIC,
        "resources/read": CacheHint(ttl=60),
    },
)


# Tools: kinds of content


@server.tool()
async def test_simple_text() -> str:
    """Give a text."""
    return "This is a simple text response for testing."


@server.tool()
async def test_image_content() -> Image:
    """Give an image."""
    return Image(PIXEL)


@server.tool()
async def test_audio_content() -> Audio:
    """Give some sound."""
    return Audio(SILENCE)


@server.tool()
async def test_embedded_resource() -> TextResourceContents:
    """Give a resource within the result."""
    return TextResourceContents(
        "test://embedded-resource",
        text="This is an embedded resource content.",
        mime_type="text/plain",
    )


@server.tool()
async def test_multiple_content_types() -> list[str | Image | TextResourceContents]:
    """Give a text, an image and a resource."""
    resource = TextResourceContents(
        "test://mixed-content-resource",
        text=json.dumps({"test": "data", "value": 123}),
        mime_type="application/json",
    )
    return ["Multiple content types test:", Image(PIXEL), resource]


@server.tool()
async def test_error_handling() -> str:
    """Fail."""
    raise ToolError("This tool intentionally returns an error for testing")


# Tools: arguments

ADDRESS = {
    "$anchor": "addressDef",
    "type": "object",
    "properties": {"street": {"type": "string"}, "city": {"type": "string"}},
}
CONTACT_SCHEMA = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "type": "object",
    "$defs": {"address": ADDRESS},
    "properties": {
        "name": {"type": "string"},
        "address": {"$ref": "#/$defs/address"},
        "contactMethod": {"type": "string", "enum": ["phone", "email"]},
        "phone": {"type": "string"},
        "email": {"type": "string"},
    },
    "allOf": [{"anyOf": [{"required": ["phone"]}, {"required": ["email"]}]}],
    "if": {"properties": {"contactMethod": {"const": "phone"}}, "required": ["contactMethod"]},
    "then": {"required": ["phone"]},
    "else": {"required": ["email"]},
    "additionalProperties": False,
}


@server.tool(input_schema=CONTACT_SCHEMA)
async def json_schema_2020_12_tool(arguments: dict[str, Any]) -> str:
    """Take arguments that only a schema written by hand describes."""
    return json.dumps(arguments)


@server.tool()
async def test_header_argument(region: Annotated[str, {"x-mcp-header": "Region"}]) -> str:
    """Take an argument that a header of the request repeats."""
    return f"In {region}"


# Tools: what is sent before the result


@server.tool()
async def test_tool_with_logging(ctx: Context) -> str:
    """Log three messages."""
    await ctx.log("info", "Tool execution started")
    await trio.sleep(0.05)
    await ctx.log("info", "Tool processing data")
    await trio.sleep(0.05)
    await ctx.log("info", "Tool execution completed")
    return "Logged three messages."


@server.tool()
async def test_logging_tool(ctx: Context) -> str:
    """Log a message, for those who asked for messages."""
    await ctx.log("info", "Diagnostic message")
    return "Logged a message."


@server.tool()
async def test_tool_with_progress(ctx: Context) -> str:
    """Report progress three times."""
    for percent in (0, 50, 100):
        await ctx.report_progress(percent, total=100, message=f"{percent} of 100")
        await trio.sleep(0.05)
    return "Done."


@server.tool()
async def test_reconnection(ctx: Context) -> str:
    """Let the client hang up, and answer when it comes back."""
    await ctx.close_stream(retry=0.1)
    await trio.sleep(0.3)
    return "You came back."


@server.tool()
async def test_streaming_elicitation(ctx: Context) -> str:
    """Report progress, then ask for a confirmation."""
    await ctx.report_progress(50, total=100)
    answer = await ctx.elicit("confirm", "Go on?", {"ok": bool})
    return f"Answered with {answer.action}."


# Tools: questions to the client


def described(answer: Accepted[Any] | Refused) -> str:
    content = answer.content if isinstance(answer.content, dict) else {}
    return f"action={answer.action}, content={json.dumps(content)}"


@server.tool()
async def test_sampling(prompt: Annotated[str, "What to ask the model"], ctx: Context) -> str:
    """Ask the client's model."""
    reply = await ctx.sample("prompt", prompt, max_tokens=100)
    return f"LLM response: {text_of(reply.content)}"


def text_of(content: object) -> str:
    blocks = content if isinstance(content, list) else [content]
    return " ".join(block.text for block in blocks if isinstance(block, TextContent))


@attrs.frozen
class Account:
    username: Annotated[str, "User's response"]
    email: Annotated[str, "User's email address"]


@server.tool()
async def test_elicitation(message: Annotated[str, "What to ask the user"], ctx: Context) -> str:
    """Ask the user to fill in a form."""
    answer = await ctx.elicit("account", message, Account)
    if answer.action != "accept":
        return f"User response: {described(answer)}"
    return f"User response: {answer.content.username} <{answer.content.email}>"


@attrs.frozen
class Profile:
    name: Annotated[str, "User name"] = "John Doe"
    age: Annotated[int, "User age"] = 30
    score: Annotated[float, "User score"] = 95.5
    status: Annotated[Literal["active", "inactive", "pending"], "User status"] = "active"
    verified: Annotated[bool, "Verification status"] = True


@server.tool()
async def test_elicitation_sep1034_defaults(ctx: Context) -> str:
    """Ask the user to fill in a form that has defaults."""
    answer = await ctx.elicit("profile", "Please review these fields", Profile)
    if answer.action != "accept":
        return f"Elicitation completed: {described(answer)}"
    return f"Elicitation completed: {answer.content}"


def titled(*names: str) -> list[dict[str, str]]:
    return [{"const": f"value{n}", "title": name} for n, name in enumerate(names, 1)]


OPTIONS = ["option1", "option2", "option3"]
# Written by hand, since a class has one way to express a choice and here are five.
CHOICES: dict[str, Any] = {
    "type": "object",
    "properties": {
        "untitledSingle": {"type": "string", "enum": OPTIONS},
        "titledSingle": {
            "type": "string",
            "oneOf": titled("First Option", "Second Option", "Third Option"),
        },
        "legacyEnum": {
            "type": "string",
            "enum": ["opt1", "opt2", "opt3"],
            "enumNames": ["Option One", "Option Two", "Option Three"],
        },
        "untitledMulti": {
            "type": "array",
            "minItems": 1,
            "maxItems": 3,
            "items": {"type": "string", "enum": OPTIONS},
        },
        "titledMulti": {
            "type": "array",
            "minItems": 1,
            "maxItems": 3,
            "items": {"anyOf": titled("First Choice", "Second Choice", "Third Choice")},
        },
    },
}


@server.tool()
async def test_elicitation_sep1330_enums(ctx: Context) -> str:
    """Ask the user to choose, in every way there is."""
    answer = await ctx.elicit("choices", "Please select some options", CHOICES)
    return f"Elicitation completed: {described(answer)}"


# Tools: questions as results (2026-07-28)


@server.tool()
async def test_missing_capability(ctx: Context) -> str:
    """Ask the model, whether or not the client has one."""
    reply = await ctx.sample("question", "Are you there?", max_tokens=10)
    return text_of(reply.content)


@server.tool()
async def test_input_required_result_elicitation(ctx: Context) -> str:
    """Ask the user for a name."""
    answer = await ctx.elicit("user_name", "What is your name?", {"name": str})
    return f"Hello, {answer.content['name']}!" if answer.action == "accept" else "Hello!"


@server.tool()
async def test_input_required_result_sampling(ctx: Context) -> str:
    """Ask the model."""
    question = "What is the capital of France?"
    reply = await ctx.sample("capital_question", question, max_tokens=100)
    return text_of(reply.content)


@server.tool()
async def test_input_required_result_list_roots(ctx: Context) -> str:
    """Ask for the roots."""
    roots = await ctx.list_roots("client_roots")
    return f"Found {len(roots)} roots: {', '.join(root.uri for root in roots)}"


@server.tool()
async def test_input_required_result_request_state(ctx: Context) -> str:
    """Ask for a confirmation, and answer if the state came back with it."""
    answer = await ctx.elicit("confirm", "Please confirm", {"ok": bool})
    return f"state-ok: {answer.action}"


@server.tool()
async def test_input_required_result_tampered_state(ctx: Context) -> str:
    """Ask for a confirmation; the state that comes back is checked."""
    answer = await ctx.elicit("confirm", "Please confirm", {"ok": bool})
    return f"integrity-ok: {answer.action}"


@server.tool()
async def test_input_required_result_multiple_inputs(ctx: Context) -> str:
    """Ask the user, the model and for the roots, all at once."""
    greeting = SamplingMessage("user", TextContent("Generate a greeting"))
    answers = await ctx.ask(
        {
            "user_name": Elicit("What is your name?", {"name": str}),
            "greeting": Sample([greeting], max_tokens=50),
            "client_roots": ListRoots(),
        }
    )
    name, reply, roots = answers["user_name"], answers["greeting"], answers["client_roots"]
    return f"{described(name)}; {text_of(reply.content)}; {len(roots)} roots"


@server.tool()
async def test_input_required_result_multi_round(ctx: Context) -> str:
    """Ask one thing after the other."""
    name = await ctx.elicit("step1", "Step 1: What is your name?", {"name": str})
    color = await ctx.elicit("step2", "Step 2: What is your favorite color?", {"color": str})
    return f"{described(name)}; {described(color)}"


@server.tool()
async def test_input_required_result_capabilities(ctx: Context) -> str:
    """Ask for whatever the client can be asked."""
    questions: dict[str, Elicit | Sample] = {}
    if ctx.client_capabilities.elicitation is not None:
        questions["elicit_input"] = Elicit("Elicitation input", {"value": str})
    if ctx.client_capabilities.sampling is not None:
        questions["sample_input"] = Sample("Sample request", max_tokens=50)
    answers = await ctx.ask(questions)
    return f"capabilities-ok: received {', '.join(answers)}"


# Tools: changes of the lists


@server.tool()
async def test_trigger_tool_change() -> str:
    """Add a tool for a moment."""
    server.add_tool(test_simple_text, name="test_passing_tool")
    server.remove_tool("test_passing_tool")
    return "The tools changed."


@server.tool()
async def test_trigger_prompt_change() -> str:
    """Add a prompt for a moment."""
    server.add_prompt(test_simple_prompt, name="test_passing_prompt")
    server.remove_prompt("test_passing_prompt")
    return "The prompts changed."


# Resources


@server.resource("test://static-text", title="Static text")
async def static_text() -> str:
    """A text that never changes."""
    return "This is the content of the static text resource."


@server.resource("test://static-binary", title="Static bytes", mime_type="image/png")
async def static_binary() -> BlobResourceContents:
    """An image that never changes."""
    blob = base64.b64encode(PIXEL).decode()
    return BlobResourceContents("test://static-binary", blob=blob, mime_type="image/png")


@server.resource("test://watched-resource", title="Watched text")
async def watched_resource() -> str:
    """A text to subscribe to."""
    return "Watched resource content"


@server.resource("test://template/{id}/data", title="Data by id", mime_type="application/json")
async def template_data(id: str) -> Mapping[str, Any]:
    """The data of an id."""
    return {"id": id, "templateTest": True, "data": f"Data for ID: {id}"}


# Prompts


@server.prompt()
async def test_simple_prompt() -> str:
    """A prompt without arguments."""
    return "This is a simple prompt for testing."


@server.prompt()
async def test_prompt_with_arguments(
    arg1: Annotated[str, "First test argument"], arg2: Annotated[str, "Second test argument"]
) -> str:
    """A prompt with arguments."""
    return f"Prompt with arguments: arg1='{arg1}', arg2='{arg2}'"


@server.completion(prompt="test_prompt_with_arguments", argument="arg1")
async def first_arguments(typed: str) -> list[str]:
    """Values of an argument that begin with what was typed."""
    return [value for value in ("paris", "park", "party", "testing") if value.startswith(typed)]


@server.prompt()
async def test_prompt_with_embedded_resource(
    resource_uri: Annotated[str, Alias("resourceUri"), "URI of the resource to embed"],
) -> list[PromptMessage | str]:
    """A prompt with a resource in it."""
    text = "Embedded resource content for testing."
    contents = TextResourceContents(resource_uri, text=text, mime_type="text/plain")
    resource = PromptMessage("user", EmbeddedResource(contents))
    return [resource, "Please process the embedded resource above."]


@server.prompt()
async def test_prompt_with_image() -> list[Image | str]:
    """A prompt with an image in it."""
    return [Image(PIXEL), "Please analyze the image above."]


@server.prompt()
async def test_input_required_result_prompt(ctx: Context) -> str:
    """A prompt that asks the user first."""
    answer = await ctx.elicit("user_context", "Which context?", {"context": str})
    return f"In this context: {described(answer)}"


app = server.asgi_app()


async def main() -> None:
    async with trio.open_nursery() as nursery:
        (listener,) = await nursery.start(server.serve_http, 0)
        _host, port = listener.socket.getsockname()
        print(f"Running on http://127.0.0.1:{port}", flush=True)


if __name__ == "__main__":
    trio.run(main)
