"""Every pair of eras: what a client sees through a proxy is what it sees without one."""

from typing import Any

import pytest
import trio
from trio.testing import MockClock

import mcp_trio
from mcp_trio import MCPError, PromptReference, ResourceUpdated, ToolsChanged
from mcp_trio.proxy.app import Proxy

from .kit import ANSWERS, EACH_PAIR, PAIRS, Kit, text_of, through

VERSIONS = {"legacy": "2025-11-25", "modern": "2026-07-28"}


@EACH_PAIR
async def test_who_the_server_is(up: str, down: str, autojump_clock: MockClock) -> None:
    """Name, instructions and capabilities are those of the server behind, in the client's era."""
    async with through(Kit().server, up, down) as client:
        assert client.protocol_version == VERSIONS[down]
        assert client.server_info is not None
        assert (client.server_info.name, client.server_info.version) == ("behind", "7")
        assert client.instructions == "Mind the gap."
        assert client.capabilities.tools is not None
        assert client.capabilities.tools.list_changed
        assert client.capabilities.completions == {}
        await client.ping()


@EACH_PAIR
async def test_tools(up: str, down: str, autojump_clock: MockClock) -> None:
    """Tools are listed and called; a failure is a result as it is."""
    async with through(Kit().server, up, down) as client:
        assert "add" in [tool.name for tool in await client.list_tools()]
        result = await client.call_tool("add", {"a": 1, "b": 2})
        assert result.structured_content == {"result": 3}
        bad = await client.call_tool("add", {"a": "x", "b": 2})
        assert bad.is_error


@EACH_PAIR
async def test_resources_prompts_and_completion(
    up: str, down: str, autojump_clock: MockClock
) -> None:
    """The other things that a server has come through as well."""
    async with through(Kit().server, up, down) as client:
        assert "memo://today" in [resource.uri for resource in await client.list_resources()]
        templates = await client.list_resource_templates()
        assert [template.uri_template for template in templates] == ["memo://{name}"]
        read = await client.read_resource("memo://tea")
        assert [part.text for part in read.contents] == ["about tea"]  # type: ignore[union-attr]
        assert [prompt.name for prompt in await client.list_prompts()] == ["review"]
        prompt = await client.get_prompt("review", {"code": "x"})
        assert prompt.messages[0].content.text == "Review this python: x"  # type: ignore[union-attr]
        found = await client.complete(PromptReference("review"), "language", "p")
        assert found.completion.values == ["python", "perl"]


@EACH_PAIR
async def test_progress(up: str, down: str, autojump_clock: MockClock) -> None:
    """Progress arrives in order, before the result, for the call that asked for it."""
    seen: list[Any] = []
    async with through(Kit().server, up, down) as client:
        await client.call_tool("steps", {"count": 3}, on_progress=seen.append)
    assert [(p.progress, p.total, p.message) for p in seen] == [
        (1, 3, "step 1"),
        (2, 3, "step 2"),
        (3, 3, "step 3"),
    ]


@EACH_PAIR
async def test_cancellation_travels(up: str, down: str, autojump_clock: MockClock) -> None:
    """Cancelling a call cancels the handler behind, and the connection goes on."""
    kit = Kit()
    async with through(kit.server, up, down) as client:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(client.call_tool, "wait")
            await kit.started.wait()
            nursery.cancel_scope.cancel()
        with trio.fail_after(1):
            await kit.cancelled.wait()
        assert text_of(await client.call_tool("add", {"a": 1, "b": 2})) == "3"


QUESTIONS = [
    ("greet", {}, "Hello, Ada!"),
    ("visit", {}, "accept"),
    ("think", {"question": "why?"}, "50 tokens"),
    ("roots", {}, "file:///project"),
    ("interview", {}, "Ada file:///project Ada"),
]


@EACH_PAIR
@pytest.mark.parametrize(
    ("tool", "arguments", "expected"), QUESTIONS, ids=[q[0] for q in QUESTIONS]
)
async def test_questions(
    up: str, down: str, tool: str, arguments: Any, expected: str, autojump_clock: MockClock
) -> None:
    """Elicitation by form and page, sampling, roots, several in a row: the client is asked."""
    async with through(Kit().server, up, down, **ANSWERS) as client:
        assert text_of(await client.call_tool(tool, arguments)) == expected


@EACH_PAIR
async def test_a_question_of_a_resource(up: str, down: str, autojump_clock: MockClock) -> None:
    """Not only tools may ask."""
    async with through(Kit().server, up, down, **ANSWERS) as client:
        read = await client.read_resource("memo://mine")
        assert read.contents[0].text == "for Ada"  # type: ignore[union-attr]


@EACH_PAIR
async def test_what_comes_between_questions(up: str, down: str, autojump_clock: MockClock) -> None:
    """Progress only rises in a legacy client's eyes, and no log message comes after the result."""
    progress, logs = [], []
    async with through(
        Kit().server, up, down, **ANSWERS, on_log=lambda m: logs.append(m.data)
    ) as client:
        await client.call_tool("interview", on_progress=lambda p: progress.append(p.progress))
        assert logs[-1] == "last"
    if down == "legacy":
        assert progress == [1, 2]
    else:
        assert set(progress) == {1, 2}


@EACH_PAIR
@pytest.mark.parametrize("tool", ["greet", "think", "roots", "visit"])
async def test_what_the_client_cannot_do_is_refused(
    up: str, down: str, tool: str, autojump_clock: MockClock
) -> None:
    """A client that declared nothing is never asked, and the call fails instead of hanging."""
    async with through(Kit().server, up, down) as client:
        arguments = {"question": "why?"} if tool == "think" else {}
        with pytest.raises(MCPError) as failed:
            await client.call_tool(tool, arguments)
        codes = {"modern-modern": [-32021], "legacy-modern": [-32601, -32602]}
        assert failed.value.code in codes.get(f"{up}-{down}", [-32600])


@EACH_PAIR
async def test_changes(up: str, down: str, autojump_clock: MockClock) -> None:
    """Lists that changed and resources that were updated are told, whatever way each side does."""
    async with (
        through(Kit().server, up, down) as client,
        client.listen(tools=True, uris=["memo://today"]) as events,
    ):
        assert events.granted.tools
        assert events.granted.uris == {"memo://today"}
        await client.call_tool("touch", {"uri": "memo://other"})
        await client.call_tool("touch", {"uri": "memo://today"})
        with trio.fail_after(1):
            assert await anext(events) == ResourceUpdated("memo://today")
        await client.call_tool("grow", {"name": "tall"})
        with trio.fail_after(1):
            assert await anext(events) == ToolsChanged()


@EACH_PAIR
async def test_a_subscription_ends(up: str, down: str, autojump_clock: MockClock) -> None:
    """Who listens no longer hears nothing any more, and may begin again."""
    async with through(Kit().server, up, down) as client:
        for _ in range(2):
            async with client.listen(uris=["memo://today"]) as events:
                await client.call_tool("touch", {"uri": "memo://today"})
                with trio.fail_after(1):
                    assert await anext(events) == ResourceUpdated("memo://today")


@EACH_PAIR
async def test_log_levels(up: str, down: str, autojump_clock: MockClock) -> None:
    """A client hears of the level that it asked for, and of nothing below, when it changes too."""
    logs: list[Any] = []
    async with through(
        Kit().server, up, down, on_log=lambda m: logs.append((m.level, m.data)), log_level="warning"
    ) as client:
        for level in ("info", "warning", "error"):
            await client.call_tool("log", {"level": level, "text": "a"})
        await client.set_log_level("error")
        for level in ("warning", "error"):
            await client.call_tool("log", {"level": level, "text": "b"})
        await trio.sleep(1)
    assert logs == [("warning", "a"), ("error", "a"), ("error", "b")]


@EACH_PAIR
async def test_no_log_messages_unasked(up: str, down: str, autojump_clock: MockClock) -> None:
    """A modern client that names no level gets no messages, whatever the server behind does."""
    logs: list[Any] = []
    async with through(
        Kit().server, up, down, on_notification=lambda n: logs.append(n.method)
    ) as client:
        await client.call_tool("log", {"level": "error", "text": "a"})
    assert logs == ([] if down == "modern" else ["notifications/message"])


ERRORS = [
    # method and params, and the code by the client's era
    ("resources/read", {"uri": "nil:"}, {"legacy": -32002, "modern": -32602}),
    ("tools/call", {"name": "nil"}, {"legacy": -32602, "modern": -32602}),
    ("tools/call", {"name": "refuse"}, {"legacy": -32050, "modern": -32050}),
    ("prompts/get", {"name": "nil"}, {"legacy": -32602, "modern": -32602}),
    ("acme/nothing", {}, {"legacy": -32601, "modern": -32601}),
    ("tasks/list", {}, {"legacy": -32601, "modern": -32601}),
]


@EACH_PAIR
@pytest.mark.parametrize(("method", "params", "codes"), ERRORS)
async def test_errors(
    up: str, down: str, method: str, params: Any, codes: Any, autojump_clock: MockClock
) -> None:
    """Errors pass as they are, with their data, except for what the eras have otherwise."""
    async with through(Kit().server, up, down) as client:
        with pytest.raises(MCPError) as failed:
            await client.request(method, params)
        assert failed.value.code == codes[down]
        if method == "resources/read":
            assert failed.value.data == {"uri": "nil:"}
        if params.get("name") == "refuse":
            assert failed.value.data == {"retry": "tomorrow"}


@EACH_PAIR
async def test_unknown_methods_and_fields(up: str, down: str, autojump_clock: MockClock) -> None:
    """What nobody here knows of passes untouched, in both directions."""
    async with through(Kit().server, up, down) as client:
        result = await client.request("acme/echo", {"said": {"x": [None, 1.5, "\u2028"]}})
        assert result["said"] == {"x": [None, 1.5, "\u2028"]}
        assert result["acme"] == {"deep": [1, None]}
        assert result["_meta"]["acme/x"] == 1


async def test_the_clients_own_era_is_preferred(autojump_clock: MockClock) -> None:
    """In mode "auto" a server of both eras is spoken to in that of its client."""
    kit = Kit()
    versions = []

    @kit.server.tool()
    async def version(ctx: mcp_trio.Context) -> str:
        versions.append(ctx.protocol_version)
        return ctx.protocol_version

    for mode, expected in VERSIONS.items():
        async with mcp_trio.open_client(Proxy(kit.server), mode=mode) as client:
            await client.call_tool("version")
        assert versions[-1] == expected


@pytest.mark.parametrize("version", ["2024-11-05", "2025-03-26", "2025-06-18"])
@pytest.mark.parametrize("up", ["legacy", "modern"])
async def test_older_revisions(version: str, up: str, autojump_clock: MockClock) -> None:
    """Clients of each older revision are served, with what their revision can carry."""
    async with through(Kit().server, up, version) as client:
        assert client.protocol_version == version
        result = await client.call_tool("add", {"a": 1, "b": 2})
        assert (result.structured_content == {"result": 3}) == (version >= "2025-06")


@pytest.mark.parametrize("older", ["2024-11-05", "2025-03-26", "2025-06-18"])
@pytest.mark.parametrize("down", ["legacy", "modern"])
async def test_older_servers(older: str, down: str, autojump_clock: MockClock) -> None:
    """Servers of each older revision are served again, completion included."""
    async with through(Kit().server, older, down, **ANSWERS) as client:
        assert client.protocol_version == VERSIONS[down]
        assert client.capabilities.completions == {}
        assert text_of(await client.call_tool("think", {"question": "why?"})) == "50 tokens"


async def test_a_proxy_of_a_proxy(autojump_clock: MockClock) -> None:
    """Proxies stack: each era change on the way is undone by the next."""
    for first, second in PAIRS:
        behind = Proxy(Kit().server, mode=first)
        async with through(behind, second, "modern", **ANSWERS) as client:
            assert text_of(await client.call_tool("greet")) == "Hello, Ada!"
