"""What a healthy scripted server answers, in each revision: the table that checks start from.

It has a little of everything, so that a client which uses all that it finds shows all that it can:
tools on two pages, plain ones and ones that ask back; resources, a template, prompts, completion,
logging, subscriptions. What a tool wants as arguments is said by its schema, with a `const` or an
`examples` where a check depends on the value.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Final, TypeAlias

from mcp_trio.harness.model import Failed
from mcp_trio.harness.scripted import HOLD, Answer, Answers, Call, Refusal, Scene, Step
from mcp_trio.protocol import meta as keys
from mcp_trio.protocol.errors import INVALID_PARAMS, RESOURCE_NOT_FOUND, UNSUPPORTED_VERSION
from mcp_trio.protocol.revisions import is_modern, supports
from mcp_trio.wire.jsonrpc import JSONObject

SERVER_INFO: Final[JSONObject] = {"name": "mcp-trio-harness", "version": "1"}
SECOND_PAGE: Final = "eyJwYWdlIjoyfQ== \u00e9"
"""A cursor that looks as if one could read something in it."""
STATE: Final = 'opaque "state" {"n": 1, "\u00fc": null} ==  '
"""A `requestState` that does not survive being read and written again."""

CAPABILITIES: Final[JSONObject] = {
    "tools": {"listChanged": True},
    "resources": {"listChanged": True, "subscribe": True},
    "prompts": {"listChanged": True},
    "logging": {},
    "completions": {},
}

FORM: Final[JSONObject] = {
    "type": "object",
    "properties": {"name": {"type": "string", "title": "Name", "minLength": 1}},
    "required": ["name"],
}
ELICIT: Final[JSONObject] = {"message": "What is your name?", "requestedSchema": FORM}
SAMPLE: Final[JSONObject] = {
    "messages": [{"role": "user", "content": {"type": "text", "text": "Say a word."}}],
    "maxTokens": 50,
}

ToolAnswer: TypeAlias = JSONObject | Callable[[Call], Answer | Awaitable[Answer]]


def text(words: str, **fields: object) -> JSONObject:
    """The result of a tool that says something."""
    return {"content": [{"type": "text", "text": words}], "isError": False, **fields}


def tool(name: str, properties: JSONObject | None = None, **fields: object) -> JSONObject:
    """A tool, whose properties are all required."""
    schema: JSONObject = {"type": "object", "properties": properties or {}}
    if properties:
        schema["required"] = list(properties)
    return {
        "name": name,
        "description": f"The tool {name} of the harness. It is harmless.",
        "inputSchema": schema,
        "annotations": {"readOnlyHint": True, "openWorldHint": False},
        **fields,
    }


OPTIONAL: Final[JSONObject] = {
    "type": "object",
    "properties": {"maybe": {"type": "string", "x-mcp-header": "Maybe"}},
}

TOOLS: Final[tuple[JSONObject, ...]] = (
    tool("add", {"a": {"type": "integer"}, "b": {"type": "integer"}}),
    tool("echo", {"text": {"type": "string"}}),
    tool("Echo", {"text": {"type": "string"}}),
    tool("fail"),
    tool("count"),
    tool("ask_user"),
    tool("ask_model"),
    tool("ask_roots"),
    tool(
        "mirror",
        {
            "region": {"type": "string", "x-mcp-header": "Region", "const": "eu-west 1"},
            "city": {"type": "string", "x-mcp-header": "City", "const": "Z\u00fcrich"},
            "shy": {"type": "string", "x-mcp-header": "Shy", "const": " spaces "},
            "odd": {"type": "string", "x-mcp-header": "Odd", "const": "=?base64?aGk=?="},
            "level": {"type": "integer", "x-mcp-header": "Level", "const": 7},
            "dry": {"type": "boolean", "x-mcp-header": "Dry", "const": True},
        },
    ),
    tool("mirror_nothing") | {"inputSchema": OPTIONAL},
)
PER_PAGE: Final = 6

RESOURCES: Final[tuple[JSONObject, ...]] = (
    {"uri": "harness://one", "name": "one", "mimeType": "text/plain"},
    {"uri": "harness://two/%C3%BC%20x", "name": "two", "mimeType": "text/plain"},
)
TEMPLATES: Final[tuple[JSONObject, ...]] = (
    {"uriTemplate": "harness://notes/{name}", "name": "note", "mimeType": "text/plain"},
)
PROMPTS: Final[tuple[JSONObject, ...]] = (
    {
        "name": "explain",
        "description": "Asks for an explanation.",
        "arguments": [{"name": "topic", "description": "What to explain", "required": True}],
    },
    {"name": "gr\u00fc\u00dfe", "description": "Has a name that no HTTP header can hold."},
)


def initialize(call: Call) -> Answer:
    revision = call.scene.revision
    if is_modern(revision):
        return Refusal(
            UNSUPPORTED_VERSION,
            "Unsupported protocol version",
            {"supported": [revision], "requested": call.params.get("protocolVersion")},
        )
    return {
        "protocolVersion": revision,
        "capabilities": capabilities(revision),
        "serverInfo": SERVER_INFO,
        "instructions": "Everything here is harmless.",
    }


def capabilities(revision: str) -> JSONObject:
    """What the healthy server declares."""
    known = dict(CAPABILITIES)
    if not supports("completions_capability", revision):
        del known["completions"]
    return known


def discover(call: Call) -> Answer:
    revision = call.scene.revision
    if not is_modern(revision):
        return Refusal(-32601, "Method not found")
    asked = call.meta.get(keys.PROTOCOL_VERSION)
    if asked != revision:
        data = {"supported": [revision], "requested": asked}
        return Refusal(UNSUPPORTED_VERSION, "Unsupported protocol version", data)
    return {
        "supportedVersions": [revision],
        "capabilities": capabilities(revision),
        "instructions": "Everything here is harmless.",
        "ttlMs": 0,
        "cacheScope": "private",
        keys.META: {keys.SERVER_INFO: SERVER_INFO},
    }


def page(field: str, items: Sequence[JSONObject], size: int = PER_PAGE) -> Step:
    """Answers a list: the first items, and the rest for the cursor that came with these."""

    def answer(call: Call) -> Answer:
        cursor = call.params.get("cursor")
        found: JSONObject = {"ttlMs": 0, "cacheScope": "private"} if call.scene.is_modern else {}
        if cursor is None:
            found[field] = list(items[:size])
            if len(items) > size:
                found["nextCursor"] = SECOND_PAGE
        elif cursor == SECOND_PAGE and len(items) > size:
            found[field] = list(items[size:])
        else:
            return Refusal(INVALID_PARAMS, "Invalid cursor")
        return found

    return answer


def read_resource(call: Call) -> Answer:
    uri = call.params.get("uri")
    known = [resource["uri"] for resource in RESOURCES]
    if uri not in known and not str(uri).startswith("harness://notes/"):
        modern = call.scene.is_modern
        return Refusal(INVALID_PARAMS if modern else RESOURCE_NOT_FOUND, "Resource not found")
    found: JSONObject = {"contents": [{"uri": uri, "mimeType": "text/plain", "text": "A note."}]}
    if call.scene.is_modern:
        found |= {"ttlMs": 0, "cacheScope": "private"}
    return found


def get_prompt(call: Call) -> Answer:
    if call.name not in [prompt["name"] for prompt in PROMPTS]:
        return Refusal(INVALID_PARAMS, "No such prompt")
    content = {"type": "text", "text": "Explain it."}
    return {"messages": [{"role": "user", "content": content}]}


async def call_tool(call: Call) -> Answer:
    """Answers a call, by the name of the tool."""
    found = TOOL_ANSWERS.get(call.name)
    if found is None:
        return Refusal(INVALID_PARAMS, f"Unknown tool: {call.name}")
    if isinstance(found, dict):
        return found
    answer = found(call)
    return answer if isinstance(answer, dict | Refusal) or answer is HOLD else await answer


async def count(call: Call) -> Answer:
    for number in (1, 2):
        await call.progress(number, 2)
    return text("counted")


def asks(method: str, params: Callable[[str], JSONObject], capability: str) -> ToolAnswer:
    """A tool that asks its client something, as the revision has it; if the client can tell."""

    async def answer(call: Call) -> Answer:
        scene = call.scene
        if capability not in capabilities_of(call):
            return text(f"{capability} is not declared", isError=True)
        question = params(scene.revision)
        if not scene.is_modern:
            try:
                await call.ask(method, question)
            except Failed as exc:  # it is not what the check is about
                return text(exc.message, isError=True)
            return text("asked")
        if "inputResponses" not in call.params:
            inputs = {"question": {"method": method, "params": question}}
            return {"resultType": "input_required", "inputRequests": inputs, "requestState": STATE}
        return text("asked")

    return answer


def capabilities_of(call: Call) -> JSONObject:
    """What the client says that it can do: with the request, or when it was initialized."""
    scene = call.scene
    if scene.is_modern:
        found = call.meta.get(keys.CLIENT_CAPABILITIES)
    else:
        found = client_capabilities(scene)
    return found if isinstance(found, dict) else {}


def client_capabilities(scene: Scene) -> JSONObject:
    """What the client declared, in `initialize` or in its latest request."""
    place = keys.CLIENT_CAPABILITIES
    for call in reversed(scene.calls):
        found = (
            call.params.get("capabilities")
            if call.method == "initialize"
            else call.meta.get(place)
            if scene.is_modern
            else None
        )
        if isinstance(found, dict):
            return found
    return {}


def elicit_params(revision: str) -> JSONObject:
    """A form, in the words of a revision."""
    return {"mode": "form", **ELICIT} if supports("elicitation_url", revision) else dict(ELICIT)


TOOL_ANSWERS: Final[dict[str, ToolAnswer]] = {
    "add": text("3"),
    "echo": text("echo"),
    "Echo": text("Echo"),
    "fail": text("It failed.", isError=True),
    "count": count,
    "ask_user": asks("elicitation/create", elicit_params, "elicitation"),
    "ask_model": asks("sampling/createMessage", lambda _: SAMPLE, "sampling"),
    "ask_roots": asks("roots/list", lambda _: {}, "roots"),
    "mirror": text("mirrored"),
    "mirror_nothing": text("nothing"),
}


async def listen(call: Call) -> Answer:
    """Agrees to all that is asked for, and then goes on for as long as the client wants it."""
    asked = call.params.get("notifications")
    await call.notify(
        "notifications/subscriptions/acknowledged",
        {"notifications": asked or {}, keys.META: {keys.SUBSCRIPTION_ID: call.id}},
    )
    return HOLD


HEALTHY: Final[Answers] = {
    "initialize": initialize,
    "server/discover": discover,
    "ping": {},
    "logging/setLevel": {},
    "tools/list": page("tools", TOOLS),
    "tools/call": call_tool,
    "resources/list": page("resources", RESOURCES),
    "resources/templates/list": page("resourceTemplates", TEMPLATES),
    "resources/read": read_resource,
    "resources/subscribe": {},
    "resources/unsubscribe": {},
    "prompts/list": page("prompts", PROMPTS),
    "prompts/get": get_prompt,
    "completion/complete": {"completion": {"values": ["one", "two"], "hasMore": False}},
    "subscriptions/listen": listen,
}
"""What is answered where a check says nothing else."""
