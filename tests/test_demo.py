"""The demo server, in both eras: what it is there to show works."""

from __future__ import annotations

from typing import Any

import pytest
import trio

import mcp_trio
from mcp_trio import PromptReference, ResourceTemplateReference, ResourceUpdated
from mcp_trio.demo import AUDIENCES, server

ERAS = pytest.mark.parametrize("mode", ["legacy", "modern"])
NOTE = "demo://notes/{name}"


def text_of(result: mcp_trio.CallToolResult) -> str:
    (block,) = result.content
    assert isinstance(block, mcp_trio.TextContent)
    return block.text


@ERAS
async def test_tools_that_answer(mode: str) -> None:
    """Whoever copies a tool from the demo copies one that works."""
    async with mcp_trio.open_client(server, mode=mode) as client:
        tools = {tool.name: tool for tool in await client.list_tools()}
        assert all(tool.title and tool.description for tool in tools.values())
        assert text_of(await client.call_tool("add", {"a": 1, "b": 2})) == "3"
        assert text_of(await client.call_tool("echo", {"text": "hello"})) == "hello"
        summary = await client.call_tool("summarize", {"numbers": [1, 2, 6]})
        assert summary.structured_content == {"count": 3, "smallest": 1, "mean": 3, "largest": 6}
        (logo,) = (await client.call_tool("logo")).content
        assert isinstance(logo, mcp_trio.ImageContent)
        failure = await client.call_tool("fail", {"reason": "no paper"})
        assert (failure.is_error, text_of(failure)) == (True, "no paper")
        assert (await client.call_tool("summarize", {"numbers": []})).is_error


@ERAS
async def test_counting_takes_its_time_and_says_so(
    mode: str, autojump_clock: trio.testing.MockClock
) -> None:
    """Progress and a log message, in order, and a call that can be cancelled."""
    heard: list[Any] = []
    async with mcp_trio.open_client(
        server, mode=mode, on_log=lambda message: heard.append(message.data)
    ) as client:
        began = trio.current_time()
        result = await client.call_tool(
            "count",
            {"to": 3, "delay": 10},
            on_progress=lambda report: heard.append((report.progress, report.total)),
        )
        assert text_of(result) == "Counted to 3."
        assert trio.current_time() - began == pytest.approx(30)
        assert heard == ["counting to 3", (1, 3), (2, 3), (3, 3)]
        with trio.move_on_after(15) as scope:
            await client.call_tool("count", {"to": 1000, "delay": 60})
        assert scope.cancelled_caught
        await client.ping()


@ERAS
async def test_tools_that_ask(mode: str) -> None:
    """The user, the model and the roots are asked, and a refusal is taken well."""
    answers: list[Any] = [{"name": "Ada"}, {"name": "Ada", "nickname": "Countess"}, None]
    async with mcp_trio.open_client(
        server,
        mode=mode,
        on_elicit=lambda _: answers.pop(0),
        on_sample=lambda request: f"{request.max_tokens} tokens",
        on_list_roots=lambda _: ["file:///home"],
    ) as client:
        for greeting in ("Hello, Ada!", "Hello, Countess!", "Hello, whoever you are!"):
            assert text_of(await client.call_tool("greet")) == greeting
        assert text_of(await client.call_tool("ask_model", {"question": "?"})) == "200 tokens"
        assert (await client.call_tool("roots")).structured_content == {"result": ["file:///home"]}


@ERAS
async def test_notes(mode: str) -> None:
    """A resource, a template with completion, and news for those who listen."""
    async with mcp_trio.open_client(server, mode=mode) as client:
        (about,) = (await client.read_resource("demo://about")).contents
        assert about.mime_type == "text/markdown"
        names = await client.complete(ResourceTemplateReference(NOTE), "name", "w")
        assert names.completion.values == ["welcome"]
        with pytest.raises(mcp_trio.MCPError):
            await client.read_resource("demo://notes/new")
        async with client.listen(uris=["demo://notes/new"]) as events:
            await client.call_tool("write_note", {"name": "new", "text": "news"})
            assert await anext(events) == ResourceUpdated("demo://notes/new")
        (note,) = (await client.read_resource("demo://notes/new")).contents
        assert isinstance(note, mcp_trio.TextResourceContents)
        assert note.text == "news"


@ERAS
async def test_prompt(mode: str) -> None:
    """A prompt with defaults, and suggestions for an argument of it."""
    async with mcp_trio.open_client(server, mode=mode) as client:
        (prompt,) = await client.list_prompts()
        assert [argument.required for argument in prompt.arguments or ()] == [True, False, False]
        (message,) = (await client.get_prompt("explain", {"topic": "scopes"})).messages
        assert isinstance(message.content, mcp_trio.TextContent)
        assert message.content.text == "Explain scopes to a beginner. Keep it short."
        found = await client.complete(PromptReference("explain"), "audience", "")
        assert found.completion.values == [*AUDIENCES]


async def test_notes_live_as_long_as_the_server() -> None:
    """What one client wrote the next one reads, where the server goes on running."""
    async with server.running():
        async with mcp_trio.open_client(server) as client:
            await client.call_tool("write_note", {"name": "kept", "text": "still here"})
        async with mcp_trio.open_client(server) as client:
            await client.read_resource("demo://notes/kept")
    async with mcp_trio.open_client(server) as client:
        with pytest.raises(mcp_trio.MCPError):
            await client.read_resource("demo://notes/kept")
