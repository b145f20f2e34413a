"""What handlers return, as results of tools, resources and prompts."""

import base64
import datetime
from dataclasses import dataclass
from typing import Any, TypedDict

import attrs
import msgspec
import pytest

from mcp_trio.protocol.types.content import (
    AudioContent,
    BlobResourceContents,
    EmbeddedResource,
    ImageContent,
    ResourceLink,
    TextContent,
    TextResourceContents,
)
from mcp_trio.protocol.types.prompts import GetPromptResult, PromptMessage
from mcp_trio.protocol.types.resources import ReadResourceResult
from mcp_trio.protocol.types.tools import CallToolResult
from mcp_trio.server.jsonable import NotJSONError, to_json
from mcp_trio.server.media import Audio, Image
from mcp_trio.server.outputs import Output, output_of, raw_output
from mcp_trio.server.results import (
    ResultInvalid,
    error_result,
    to_prompt_result,
    to_resource_result,
    to_tool_result,
)
from mcp_trio.wire.jsonrpc import MISSING

PNG = b"\x89PNG\r\n\x1a\n and so on"
WAV = b"RIFF\x01\x02\x03\x04WAVE"


def b64(data: bytes) -> str:
    return base64.b64encode(data).decode()


def text(words: str) -> dict[str, Any]:
    return {"type": "text", "text": words}


def call(value: Any, hint: Any = MISSING) -> dict[str, Any]:
    return to_tool_result(value, output_of(hint, None, "tool"))


@attrs.frozen
class Day:
    date: datetime.date
    high: float | None = None


@dataclass
class Trip:
    days: list[Day]


class Count(TypedDict):
    n: int


DAY = Day(datetime.date(2026, 12, 31), 4.5)
DAY_JSON = {"date": "2026-12-31", "high": 4.5}


@pytest.mark.parametrize(
    ("value", "hint", "structured"),
    [
        (5, int, {"result": 5}),
        (10**30, int, {"result": 10**30}),
        (1.5, float, {"result": 1.5}),
        (True, bool, {"result": True}),
        (None, int | None, {"result": None}),
        ([], list[str], {"result": []}),
        (["a"], list[str], {"result": ["a"]}),
        (("a", 1), tuple[str, int], {"result": ["a", 1]}),
        ([DAY], list[Day], {"result": [DAY_JSON]}),
        (DAY, Day, DAY_JSON),
        (DAY, Day | None, {"result": DAY_JSON}),
        (Trip([DAY]), Trip, {"days": [DAY_JSON]}),
        ({"n": 1}, Count, {"n": 1}),
        ({"a": 1}, dict[str, int], {"a": 1}),
        ({1: "x"}, dict[int, str], {"1": "x"}),
        (5, MISSING, {"result": 5}),
        ([1], MISSING, {"result": [1]}),
        ({"a": DAY}, MISSING, {"a": DAY_JSON}),
        (DAY, Any, DAY_JSON),
    ],
)
def test_structured_results(value: Any, hint: Any, structured: Any) -> None:
    """Structured content fits the schema, and its JSON stands beside it for old clients."""
    result = call(value, hint)
    assert result["structuredContent"] == structured
    (block,) = result["content"]
    wrapped = set(structured) == {"result"} and not isinstance(value, dict)
    assert msgspec.json.decode(block["text"]) == (structured["result"] if wrapped else structured)
    assert result.keys() == {"content", "structuredContent"}


def test_text_in_a_structured_result_is_plain() -> None:
    """A string that may be something else is structured, and readable as it is."""
    assert call("hi", str | int) == {
        "content": [text("hi")],
        "structuredContent": {"result": "hi"},
    }


@pytest.mark.parametrize(
    ("value", "hint", "content"),
    [
        ("hi", str, [text("hi")]),
        ("hi", MISSING, [text("hi")]),
        (None, None, []),
        (None, MISSING, []),
        (PNG, bytes, [{"type": "image", "data": b64(PNG), "mimeType": "image/png"}]),
        (WAV, MISSING, [{"type": "audio", "data": b64(WAV), "mimeType": "audio/wav"}]),
        (
            b"?",
            bytes,
            [
                {
                    "type": "resource",
                    "resource": {
                        "uri": "result://bytes",
                        "mimeType": "application/octet-stream",
                        "blob": b64(b"?"),
                    },
                }
            ],
        ),
        (Image(PNG), Image, [{"type": "image", "data": b64(PNG), "mimeType": "image/png"}]),
        (
            Audio(b"?", "audio/midi"),
            MISSING,
            [{"type": "audio", "data": b64(b"?"), "mimeType": "audio/midi"}],
        ),
        (TextContent("x"), TextContent, [text("x")]),
        (
            ["a", ImageContent("AA==", "image/x"), {"n": 1}, DAY],
            list[Any],
            [
                text("a"),
                {"type": "image", "data": "AA==", "mimeType": "image/x"},
                text('{"n":1}'),
                text('{"date":"2026-12-31","high":4.5}'),
            ],
        ),
        (
            [AudioContent("AA==", "audio/x"), ResourceLink("x:y", "y")],
            MISSING,
            [
                {"type": "audio", "data": "AA==", "mimeType": "audio/x"},
                {"type": "resource_link", "uri": "x:y", "name": "y"},
            ],
        ),
        (
            EmbeddedResource(TextResourceContents("x:y", text="t")),
            MISSING,
            [{"type": "resource", "resource": {"uri": "x:y", "text": "t"}}],
        ),
        (
            TextResourceContents("x:y", text="t"),
            MISSING,
            [{"type": "resource", "resource": {"uri": "x:y", "text": "t"}}],
        ),
        (["a", "b"], list[str | Image], [text("a"), text("b")]),
    ],
)
def test_content(value: Any, hint: Any, content: Any) -> None:
    """Text, bytes, media and content blocks, alone or mixed, are content and nothing else."""
    output = Output("unknown") if hint == list[Any] else output_of(hint, None, "tool")
    assert to_tool_result(value, output) == {"content": content}


def test_a_whole_result_passes() -> None:
    """A CallToolResult goes out as it is; its structured content is held to the schema."""
    whole = CallToolResult([TextContent("x")], structured_content={"n": 1}, meta={"a/b": 1})
    assert call(whole, CallToolResult) == {
        "content": [text("x")],
        "structuredContent": {"n": 1},
        "_meta": {"a/b": 1},
    }
    schema = {"type": "object", "properties": {"n": {"type": "string"}}}
    with pytest.raises(ResultInvalid, match="n: 1 is not of type"):
        to_tool_result(whole, raw_output(schema))
    with pytest.raises(ResultInvalid):
        to_tool_result(CallToolResult([]), raw_output(schema))
    failed = CallToolResult([TextContent("no")], is_error=True)
    assert to_tool_result(failed, raw_output(schema))["isError"] is True


@pytest.mark.parametrize(
    ("value", "hint", "complaint"),
    [
        ("5", int, 'own output schema: result: "5" is not of type "integer"'),
        ([Day("x")], list[Day], r"result\[0\].date: 'x' is not a date"),  # type: ignore[arg-type]
        (None, Day, "null is not of type"),
    ],
)
def test_a_result_that_belies_its_annotation(value: Any, hint: Any, complaint: str) -> None:
    """A server must not send what does not fit its own schema, and says where it would have."""
    with pytest.raises(ResultInvalid, match=complaint):
        call(value, hint)


def test_what_json_cannot_say() -> None:
    """NaN would become null on its way; it is refused instead."""
    with pytest.raises(NotJSONError, match="nan is not in JSON"):
        call(float("nan"), float)
    with pytest.raises(NotJSONError, match="b: objects of the class object cannot"):
        call({"b": object()})


def test_errors() -> None:
    """A failure that the model reads."""
    assert error_result("no") == {"content": [text("no")], "isError": True}


@pytest.mark.parametrize(
    ("value", "mime_type", "contents"),
    [
        ("t", None, {"mimeType": "text/plain", "text": "t"}),
        ("t", "text/x; charset=utf-8", {"mimeType": "text/x; charset=utf-8", "text": "t"}),
        (b"?", None, {"mimeType": "application/octet-stream", "blob": b64(b"?")}),
        (PNG, None, {"mimeType": "image/png", "blob": b64(PNG)}),
        (PNG, "image/x", {"mimeType": "image/x", "blob": b64(PNG)}),
        (Image(PNG), None, {"mimeType": "image/png", "blob": b64(PNG)}),
        (["oslo"], "application/json", {"mimeType": "application/json", "text": '["oslo"]'}),
        (DAY.high, None, {"mimeType": "application/json", "text": "4.5"}),
        (7, None, {"mimeType": "application/json", "text": "7"}),
    ],
)  # fmt: skip
def test_resources(value: Any, mime_type: str | None, contents: dict[str, Any]) -> None:
    """Text is text, bytes are a blob, anything else is JSON."""
    found = to_resource_result(value, "x:y", mime_type)
    assert found == {"contents": [{"uri": "x:y", **contents}]}


def test_whole_resources() -> None:
    """Contents say their own URI; a whole result passes; None is a mistake."""
    parts = [TextResourceContents("x:1", text="a"), BlobResourceContents("x:2", blob="AA==")]
    written = [{"uri": "x:1", "text": "a"}, {"uri": "x:2", "blob": "AA=="}]
    assert to_resource_result(parts, "x:y") == {"contents": written}
    assert to_resource_result(parts[0], "x:y") == {"contents": written[:1]}
    assert to_resource_result(ReadResourceResult(parts), "x:y") == {"contents": written}
    with pytest.raises(TypeError, match="resource x:y returned None"):
        to_resource_result(None, "x:y")


@pytest.mark.parametrize(
    ("value", "messages"),
    [
        ("hi", [("user", text("hi"))]),
        (["a", ("assistant", "b")], [("user", text("a")), ("assistant", text("b"))]),
        (("assistant", "b"), [("assistant", text("b"))]),
        ({"role": "user", "content": "c"}, [("user", text("c"))]),
        (PromptMessage("assistant", TextContent("d")), [("assistant", text("d"))]),
        (
            Image(PNG),
            [("user", {"type": "image", "data": b64(PNG), "mimeType": "image/png"})],
        ),
        ([], []),
    ],
)
def test_prompts(value: Any, messages: list[tuple[str, Any]]) -> None:
    """A string is the user's; pairs and PromptMessage say whose they are."""
    expected = [{"role": role, "content": content} for role, content in messages]
    assert to_prompt_result(value) == {"messages": expected}


def test_whole_prompts() -> None:
    """A GetPromptResult passes; what is no message is refused."""
    whole = GetPromptResult([PromptMessage("user", TextContent("a"))], description="d")
    assert to_prompt_result(whole) == {
        "messages": [{"role": "user", "content": text("a")}],
        "description": "d",
    }
    for wrong in (5, None, [None], {"content": "x"}):
        with pytest.raises(TypeError, match="a prompt cannot return a"):
            to_prompt_result(wrong)
    with pytest.raises(TypeError, match="'user' or 'assistant', not 'system'"):
        to_prompt_result(("system", "x"))


def test_media_know_what_they_are() -> None:
    """The MIME type is found where the bytes tell it, and asked for where not."""
    assert Image(b"RIFF\0\0\0\0WEBP").mime_type == "image/webp"
    assert Image(b"?", "image/avif").mime_type == "image/avif"
    assert "89PNG" not in repr(Image(PNG))
    with pytest.raises(ValueError, match="Image: these bytes do not tell what they are"):
        Image(b"?")


def test_values_that_hold_themselves_are_refused() -> None:
    """What is nested too deeply, or in itself, is an error of that result and no crash."""
    loop: list[object] = []
    loop.append(loop)
    deep: list[object] = []
    for _ in range(100_000):
        deep = [deep]
    for value in (loop, deep, {"a": loop}):
        with pytest.raises(NotJSONError, match="nested too deeply"):
            to_json(value)
