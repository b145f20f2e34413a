"""Our client and the servers of others: one server, written with each implementation, both eras."""

from __future__ import annotations

import secrets
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import attrs
import pytest
import trio

from mcp_trio import (
    CallToolResult,
    Client,
    ConnectionClosed,
    LoggingMessageNotificationParams,
    MCPError,
    PromptReference,
    RequestTimeout,
    ResourceTemplateReference,
    ResourceUpdated,
    TextContent,
    ToolsChanged,
    open_client,
)
from mcp_trio.client.events import Event
from tests.interop.kit import HTTP_KITS, KITS, SSE_KITS, STATELESS_KITS, TODAY, Kit

pytestmark = [
    pytest.mark.interop,
    pytest.mark.usefixtures("mcp_python", "fastmcp_python", "node", "npm_project"),
]
ASKING = [*KITS, *HTTP_KITS, *SSE_KITS]
each_kit = pytest.mark.parametrize("kit", ASKING, ids=str, indirect=True)
each_simple_kit = pytest.mark.parametrize("kit", [*ASKING, *STATELESS_KITS], ids=str, indirect=True)

TOOLS = ["add", "echo", "big", "steps", "wait", "cancelled", "greet", "think", "roots", "fail"]
UNUSUAL = "U+2028 \u2028, U+0085 \x85, a tab \t, CRLF \r\n, NUL \x00, é and \U0001f600"


@pytest.fixture
def kit(request: pytest.FixtureRequest, origin_of: Callable[[Kit], str]) -> Kit:
    """A kit whose server runs, if that is not the client's business."""
    kit: Kit = request.param
    return kit if kit.path is None else attrs.evolve(kit, origin=origin_of(kit))


@asynccontextmanager
async def connected(kit: Kit, **options: Any) -> AsyncIterator[Client]:
    """A client of the server; everything has to be done in half a minute."""
    noise: list[bytes] = []
    with trio.fail_after(30):
        async with open_client(
            kit.target, mode=kit.mode, on_noise=lambda line, _: noise.append(line), **options
        ) as client:
            yield client
    assert noise == [], "every line that a server wrote made sense"


def text_of(result: CallToolResult) -> str:
    (block,) = result.content
    assert isinstance(block, TextContent)
    return block.text


async def say(client: Client, tool: str, /, **arguments: Any) -> str:
    return text_of(await client.call_tool(tool, arguments))


async def check_stopped(client: Client, times: int) -> None:
    """The server has seen `wait` cancelled so many times, or does so very soon."""
    with trio.fail_after(5):
        while await say(client, "cancelled") != str(times):  # noqa: ASYNC110 (it is elsewhere)
            await trio.sleep(0.01)


@each_simple_kit
async def test_lists_and_gets(kit: Kit) -> None:
    """The handshake, and every list, read, get and completion."""
    async with connected(kit) as client:
        assert client.protocol_version == kit.version
        assert client.server_info is not None
        assert (client.server_info.name, client.server_info.version) == ("kit", "1.0")
        assert client.instructions == "For tests."

        assert [tool.name for tool in await client.list_tools()][:10] == TOOLS
        assert TODAY in [resource.uri for resource in await client.list_resources()]
        templates = await client.list_resource_templates()
        assert [template.uri_template for template in templates] == ["memo://{name}"]
        assert [prompt.name for prompt in await client.list_prompts()] == ["review"]

        for uri, expected in (
            (TODAY, "write more tests"),
            ("memo://a%20b", f"nothing about {kit.variable}"),
        ):
            (contents,) = (await client.read_resource(uri)).contents
            assert contents.uri == uri
            assert getattr(contents, "text", None) == expected
        with pytest.raises(MCPError) as refused:
            await client.read_resource("nowhere://at/all")
        assert refused.value.code == kit.no_such_resource

        (message,) = (await client.get_prompt("review", {"code": "x = 1"})).messages
        assert getattr(message.content, "text", None) == "Review this python: x = 1"
        with pytest.raises(MCPError) as refused:
            await client.get_prompt("review", {})
        assert refused.value.code == kit.missing_argument

        review, memo = PromptReference("review"), ResourceTemplateReference("memo://{name}")
        reverse = {"code": "reversed"}
        for found, expected_values in (
            (await client.complete(review, "language", "p"), ["python", "perl"]),
            (await client.complete(review, "language", "p", context=reverse), ["perl", "python"]),
            (await client.complete(memo, "name", "tom"), ["tomorrow"]),
        ):
            assert found.completion.values == expected_values

        await client.ping()
        with pytest.raises(MCPError) as refused:
            await client.request("example/unknown")
        assert refused.value.code == -32601


@each_simple_kit
async def test_calls(kit: Kit) -> None:
    """Results, structured and not, of any size and any characters, many at a time; failures."""
    async with connected(kit) as client:
        await client.list_tools()  # from here on structured content is checked
        added = await client.call_tool("add", {"a": 2, "b": 3})
        assert (text_of(added), added.structured_content) == ("5", {"result": 5})
        assert await say(client, "echo", text=UNUSUAL) == UNUSUAL
        assert len(await say(client, "big", size=1_000_000)) == 1_000_000
        assert len(await say(client, "echo", text="\u2028" * 300_000)) == 300_000

        sums: dict[int, str] = {}

        async def add(number: int) -> None:
            sums[number] = await say(client, "add", a=number, b=number)

        async with trio.open_nursery() as nursery:
            for number in range(50):
                nursery.start_soon(add, number)
        assert sums == {number: str(2 * number) for number in range(50)}

        failed = await client.call_tool("fail", {"reason": "because"})
        assert (failed.is_error, text_of(failed)) == (True, kit.failure)
        invalid = await client.call_tool("add", {"a": "two"})
        assert invalid.is_error
        if kit.unknown_tool_is_error:
            with pytest.raises(MCPError) as refused:
                await client.call_tool("nonesuch")
            assert refused.value.code == -32602
        else:
            assert (await client.call_tool("nonesuch")).is_error


@each_kit
async def test_progress_and_cancellation(kit: Kit) -> None:
    """Progress comes in order, before the result; the server sees that a call was cancelled."""
    async with connected(kit) as client:
        before = int(await say(client, "cancelled"))
        seen: list[tuple[float, float | None, str | None]] = []
        await client.call_tool(
            "steps",
            {"count": 12},
            on_progress=lambda p: seen.append((p.progress, p.total, p.message)),
        )
        assert seen == [(number, 12, f"step {number}") for number in range(1, 13)]

        with trio.CancelScope() as scope:
            await client.call_tool("wait", on_progress=lambda _: scope.cancel())
        assert scope.cancelled_caught
        await check_stopped(client, before + 1)

        with pytest.raises(RequestTimeout):
            await client.call_tool("wait", timeout=0.2)
        await check_stopped(client, before + 2)

        def stop(_: object) -> None:
            raise InterruptedError("enough")

        with pytest.raises(InterruptedError, match="enough"):
            await client.call_tool("wait", on_progress=stop)
        await check_stopped(client, before + 3)


@each_kit
async def test_questions_and_log(kit: Kit) -> None:
    """The user, the model and the roots are asked, in whichever way the era has; logs arrive."""
    logs: list[LoggingMessageNotificationParams] = []
    asked: list[Any] = []
    last_log = trio.Event()

    def on_log(message: LoggingMessageNotificationParams) -> None:
        logs.append(message)
        if message.level == "error":
            last_log.set()

    async def on_elicit(question: Any) -> dict[str, str]:
        await trio.lowlevel.checkpoint()
        asked.append(question)
        return {"name": "Ada"}

    async with connected(
        kit,
        on_elicit=on_elicit,
        on_sample=lambda request: f"{request.max_tokens} tokens",
        on_list_roots=lambda _: ["file:///project"],
        on_log=on_log,
    ) as client:
        assert await say(client, "greet") == "Hello, Ada!"
        (question,) = asked
        assert question.message == "What is your name?"
        assert "name" in question.requested_schema["properties"]
        assert await say(client, "think", question="Why?") == "50 tokens"
        assert await say(client, "roots") == "file:///project"

        await client.call_tool("log", {"level": "warning", "text": "hi"})
        await client.set_log_level("error")
        await client.call_tool("log", {"level": "warning", "text": "hi"})
        await client.call_tool("log", {"level": "error", "text": "hi"})
        await last_log.wait()  # it may follow the result
        levels = [log.level for log in logs]
        expected = ["warning", "error"] if kit.holds_back_logs else ["warning"] * 2 + ["error"]
        assert levels == expected
        assert [log.data for log in logs] == [kit.logged] * len(logs)


@each_kit
async def test_missing_capability(kit: Kit) -> None:
    """A question that a client does not answer fails the call and nothing else."""
    async with connected(kit) as client:
        if kit.undeclared is None:
            assert (await client.call_tool("greet")).is_error
        elif isinstance(kit.undeclared, int):
            with pytest.raises(MCPError) as refused:
                await client.call_tool("greet")
            assert refused.value.code == kit.undeclared
        else:
            with pytest.raises(kit.undeclared, match="did not declare"):
                await client.call_tool("greet")
        assert await say(client, "add", a=1, b=1) == "2"


@each_kit
async def test_changes(kit: Kit) -> None:
    """What a server agreed to tell of, it tells, and the end of listening does not disturb it."""
    async with connected(kit) as client:
        if kit.grants is None:
            with pytest.raises(MCPError) as refused:
                async with client.listen(tools=True, uris=[TODAY]):
                    pass
            assert refused.value.code == -32601
            return
        # Over HTTP, it is the same server for all tests.
        for name in (f"first-{secrets.token_hex(4)}", f"second-{secrets.token_hex(4)}"):
            expected: set[Event] = {ResourceUpdated(uri) for uri in kit.grants.uris}
            if kit.grants.tools:
                expected.add(ToolsChanged())
            async with client.listen(tools=True, uris=[TODAY]) as events:
                assert events.granted == kit.grants
                await say(client, "touch", uri=TODAY)
                await say(client, "touch", uri="memo://another")
                await say(client, "grow", name=name)
                seen = {await anext(events) for _ in expected}
                assert seen == expected
            assert name in [tool.name for tool in await client.list_tools()]


EARLIER = [
    attrs.evolve(kit, mode=version, version=version)
    for kits, versions in (
        (KITS, ("2024-11-05", "2025-03-26", "2025-06-18")),
        (HTTP_KITS, ("2025-03-26", "2025-06-18")),
        (SSE_KITS, ("2024-11-05",)),
    )
    for kit in kits
    if kit.mode == "legacy" and kit.name in ("ours", "mcp", "ts-1.32")
    for version in versions
]


@pytest.mark.parametrize("kit", EARLIER, ids=str, indirect=True)
async def test_earlier_revisions(kit: Kit) -> None:
    """A server that speaks an earlier revision speaks it with us, questions included."""
    async with connected(
        kit, on_elicit=lambda _: {"name": "Ada"}, on_list_roots=lambda _: ["file:///a"]
    ) as client:
        assert client.protocol_version == kit.version
        await client.list_tools()
        assert await say(client, "add", a=2, b=3) == "5"
        assert await say(client, "roots") == "file:///a"
        await client.ping()
        steps: list[float] = []
        await client.call_tool(
            "steps", {"count": 3}, on_progress=lambda p: steps.append(p.progress)
        )
        assert steps == [1, 2, 3]
        if kit.version >= "2025-06-18":
            assert await say(client, "greet") == "Hello, Ada!"


@pytest.mark.parametrize("kit", KITS, ids=str)
async def test_death(kit: Kit) -> None:
    """A server that dies in the middle of calls fails them all at once, and says how it ended."""
    async with connected(kit) as client:
        failures: list[ConnectionClosed] = []

        async def wait() -> None:
            with pytest.raises(ConnectionClosed) as closed:
                await client.call_tool("wait", on_progress=lambda _: waiting.set())
            failures.append(closed.value)

        waiting = trio.Event()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(wait)
            await waiting.wait()
            with pytest.raises(ConnectionClosed) as closed:
                await client.call_tool("die")
            failures.append(closed.value)
        assert [failure.exit_status for failure in failures] == [3, 3]
        assert client.closed
        with pytest.raises(ConnectionClosed):
            await client.list_tools()
