"""Results for people."""

import pytest

from mcp_trio.cli import show
from mcp_trio.cli.inspection import Inspection
from mcp_trio.cli.show import rendered
from mcp_trio.protocol.convert import structure
from mcp_trio.protocol.types import (
    CallToolResult,
    GetPromptResult,
    Implementation,
    Prompt,
    PromptArgument,
    PromptMessage,
    ReadResourceResult,
    ServerCapabilities,
    TextContent,
    TextResourceContents,
    Tool,
)

LONG = "word " * 60


def tool_text(*content: dict[str, object], **fields: object) -> str:
    result = structure({"content": list(content), **fields}, CallToolResult)
    return rendered(show.tool_result, result)


def test_text_is_neither_wrapped_nor_markup() -> None:
    """What is piped into a file is what the server sent."""
    assert tool_text({"type": "text", "text": LONG}) == LONG + "\n"
    assert tool_text({"type": "text", "text": "[bold]:smile: \x1b[1mx"}) == "[bold]:smile: x\n"
    assert tool_text({"type": "text", "text": "ends\n"}) == "ends\n"


def test_other_content_is_described() -> None:
    """Each kind of content says what it is, and how large."""
    shown = tool_text(
        {"type": "image", "data": "aGVsbG8=", "mimeType": "image/png"},
        {"type": "audio", "data": "!", "mimeType": "audio/wav"},
        {"type": "resource_link", "uri": "file:///x", "name": "x", "mimeType": "text/plain"},
        {"type": "resource", "resource": {"uri": "a://b", "text": "inside"}},
        {"type": "resource", "resource": {"uri": "a://c", "blob": "aGk="}},
        {"type": "hologram", "depth": 3},
    )
    assert shown.splitlines()[:7] == [
        "[image, image/png, 5 bytes]",
        "[sound, audio/wav, no valid base64]",
        "[link to file:///x, x, text/plain]",
        "[resource a://b]",
        "inside",
        "[resource a://c]",
        "[bytes of unknown type, 2 bytes; --json has them]",
    ]
    assert '"depth": 3' in shown


@pytest.mark.parametrize(
    ("text", "structured", "once"),
    [
        ('{"a":1}', {"a": 1}, True),
        ("3", {"result": 3}, True),
        ("hello", {"content": "hello"}, True),
        ("something else", {"a": 1}, False),
        ("null", None, True),
    ],
)
def test_structured_content_is_shown_once(text: str, structured: object, once: bool) -> None:
    """Servers send it as text as well, for clients that know only that."""
    shown = tool_text({"type": "text", "text": text}, structuredContent=structured)
    assert (shown == text + "\n") is once


def test_tables_say_what_there_is() -> None:
    """A tool's arguments can be read off the table, whatever its schema looks like."""
    schema = {
        "type": "object",
        "properties": {
            "city": {"type": "string"},
            "days": {"type": "integer", "default": 3},
            "sky": {"enum": ["clear", 1]},
            "all": {"type": "array", "items": {"type": ["string", "null"]}},
            "any": True,
        },
        "required": ["city"],
    }
    found = Inspection(
        protocol_version="2025-11-25",
        server_info=Implementation("weather\x1b[2J", "1.0"),
        capabilities=ServerCapabilities(),
        instructions="Ask [b]kindly[/b].",
        tools=[Tool("forecast", schema, description="Forecast it."), Tool("odd", {"required": 1})],
        resources=[],
        templates=[],
        prompts=[Prompt("advice", arguments=[PromptArgument("city", required=True)])],
    )
    shown = rendered(show.inspection, found)
    assert shown.startswith("weather 1.0, MCP 2025-11-25\nAsk [b]kindly[/b].\n")
    for text in (
        "city: string",
        "days?: integer = 3",
        'sky?: "clear" | 1',
        "all?: array of string | null",
        "any?",
        "Tools (2)",
        "Resources: none",
        "advice",
    ):
        assert text in shown


def test_messages_say_whose_they_are() -> None:
    """A prompt is a conversation."""
    message = PromptMessage("assistant", TextContent("Hello."))
    assert rendered(show.messages, GetPromptResult([message])) == "assistant:\nHello.\n"


def test_several_contents_say_which_they_are() -> None:
    """One resource may have several parts; a single one is printed bare."""
    part = TextResourceContents("a://b", text="x")
    assert rendered(show.contents, ReadResourceResult([part])) == "x\n"
    assert rendered(show.contents, ReadResourceResult([part, part])) == "a://b\nx\n" * 2
