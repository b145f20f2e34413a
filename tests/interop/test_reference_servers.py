"""Our client and the reference servers: everything, filesystem and memory, all of 2025-11-25."""

from __future__ import annotations

import base64
import contextlib
import functools
import json
import os
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractAsyncContextManager, ExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import trio

from mcp_trio import (
    BlobResourceContents,
    CallToolResult,
    Client,
    CreateMessageRequestParams,
    CreateMessageResult,
    ElicitRequestFormParams,
    ElicitRequestURLParams,
    ElicitResult,
    EmbeddedResource,
    ImageContent,
    LoggingMessageNotificationParams,
    MCPError,
    PromptReference,
    ProtocolError,
    RequestParams,
    RequestTimeout,
    ResourceLink,
    ResourcesChanged,
    ResourceTemplateReference,
    ResourceUpdated,
    Root,
    StdioParameters,
    TextContent,
    TextResourceContents,
    open_client,
)
from tests import peers
from tests.interop.running import free_port, running

pytestmark = [pytest.mark.interop, pytest.mark.usefixtures("npm_project")]

TEXT_RESOURCE = "demo://resource/dynamic/text/7"


class Person:
    """Whoever sits at the client: answers all questions and remembers them."""

    def __init__(self, answer: ElicitResult | dict[str, Any] | None = None) -> None:
        self.answer = answer
        self.asked: list[object] = []
        self.logs: list[LoggingMessageNotificationParams] = []
        self._logged = trio.Event()

    def on_log(self, message: LoggingMessageNotificationParams) -> None:
        self.logs.append(message)
        self._logged.set()
        self._logged = trio.Event()

    async def has_read(self, text: str) -> None:
        """Wait for a log message with this text in it."""
        while not any(text in str(log.data) for log in self.logs):
            await self._logged.wait()

    def on_elicit(
        self, question: ElicitRequestFormParams | ElicitRequestURLParams
    ) -> ElicitResult | dict[str, Any] | None:
        self.asked.append(question)
        return self.answer

    def on_sample(self, request: CreateMessageRequestParams) -> CreateMessageResult:
        self.asked.append(request)
        return CreateMessageResult(
            role="assistant", content=TextContent("forty-two"), model="deep", stop_reason="endTurn"
        )

    def on_list_roots(self, request: RequestParams) -> list[Root]:
        return [Root("file:///project", name="Project \u2028 \u00e9")]


Everything = Callable[..., AbstractAsyncContextManager[Client]]


@pytest.fixture(scope="module")
def everything_url() -> Iterator[Callable[[str], str]]:
    """Gives the URL of server-everything over a transport, for which it is started once."""
    with ExitStack() as stack:

        @functools.cache
        def start(transport: str) -> str:
            port = free_port()
            argv = [*peers.npm_server("server-everything"), transport]
            stack.enter_context(running(argv, port))
            return f"http://127.0.0.1:{port}/{'sse' if transport == 'sse' else 'mcp'}"

        yield start


@pytest.fixture(params=["stdio", "streamableHttp", "sse"])
def everything(request: pytest.FixtureRequest, everything_url: Callable[[str], str]) -> Everything:
    """Opens a client of server-everything."""

    @asynccontextmanager
    async def opened(person: Person | None = None) -> AsyncIterator[Client]:
        stdio = request.param == "stdio"
        target = peers.npm_server("server-everything") if stdio else everything_url(request.param)
        callbacks: dict[str, Any] = {}
        if person is not None:
            names = ("on_elicit", "on_sample", "on_list_roots", "on_log")
            callbacks = {name: getattr(person, name) for name in names}
        with trio.fail_after(30):
            async with open_client(target, **callbacks) as client:
                yield client

    return opened


def texts(result: CallToolResult) -> list[str]:
    return [block.text for block in result.content if isinstance(block, TextContent)]


async def test_everything_is_listed(everything: Everything) -> None:
    """The handshake falls back to 2025-11-25, and the lists are whole."""
    async with everything(Person()) as client:
        assert client.protocol_version == "2025-11-25"
        assert client.server_info is not None
        assert client.server_info.title == "Everything Reference Server"
        assert client.instructions
        assert client.capabilities.tasks is not None
        tools = {tool.name: tool for tool in await client.list_tools()}
        # These are offered only to clients that declared what they need.
        assert {
            "get-roots-list",
            "trigger-elicitation-request",
            "trigger-sampling-request",
            "trigger-url-elicitation",
        } <= set(tools)
        assert tools["get-structured-content"].output_schema is not None
        annotations = tools["echo"].annotations
        assert annotations is not None
        assert annotations.read_only_hint is True
        assert len(await client.list_resources()) >= 5
        templates = await client.list_resource_templates()
        assert {template.uri_template for template in templates} == {
            "demo://resource/dynamic/text/{resourceId}",
            "demo://resource/dynamic/blob/{resourceId}",
        }
        assert {prompt.name for prompt in await client.list_prompts()} == {
            "simple-prompt",
            "args-prompt",
            "completable-prompt",
            "resource-prompt",
        }


async def test_everything_without_callbacks_offers_no_questions(everything: Everything) -> None:
    """A client without callbacks declares nothing, so that it is not asked."""
    async with everything() as client:
        names = {tool.name for tool in await client.list_tools()}
        assert not names & {"get-roots-list", "trigger-elicitation-request"}
        with pytest.raises(MCPError):
            await client.read_resource("demo://resource/dynamic/text/none")


async def test_everything_calls(everything: Everything) -> None:
    """Each kind of content that there is, and arguments that are refused."""
    async with everything() as client:
        await client.list_tools()
        result = await client.call_tool("echo", {"message": "\u2028 \U0001f600"})
        assert texts(result) == ["Echo: \u2028 \U0001f600"]
        assert texts(await client.call_tool("get-sum", {"a": 2, "b": 3.5}))[0].endswith("5.5.")
        weather = await client.call_tool("get-structured-content", {"location": "Chicago"})
        assert weather.structured_content == json.loads(texts(weather)[0])
        image = await client.call_tool("get-tiny-image")
        (picture,) = (block for block in image.content if isinstance(block, ImageContent))
        assert base64.b64decode(picture.data).startswith(b"\x89PNG")
        links = await client.call_tool("get-resource-links", {"count": 4})
        assert sum(isinstance(block, ResourceLink) for block in links.content) == 4
        reference = await client.call_tool(
            "get-resource-reference", {"resourceType": "Text", "resourceId": 7}
        )
        (embedded,) = (b for b in reference.content if isinstance(b, EmbeddedResource))
        assert embedded.resource.uri == TEXT_RESOURCE
        annotated = await client.call_tool(
            "get-annotated-message", {"messageType": "error", "includeImage": True}
        )
        marks = annotated.content[0]
        assert isinstance(marks, TextContent)
        assert marks.annotations is not None
        assert marks.annotations.priority == 1
        refused = await client.call_tool("get-sum", {"a": "two"})
        assert refused.is_error


async def test_everything_reads_prompts_and_completes(everything: Everything) -> None:
    """Resources of text and bytes, prompts with arguments, completion that depends on others."""
    async with everything() as client:
        (text,) = (await client.read_resource(TEXT_RESOURCE)).contents
        assert isinstance(text, TextResourceContents)
        assert text.text.startswith("Resource 7")
        (blob,) = (await client.read_resource("demo://resource/dynamic/blob/7")).contents
        assert isinstance(blob, BlobResourceContents)
        assert base64.b64decode(blob.blob).startswith(b"Resource 7")

        prompt = await client.get_prompt("args-prompt", {"city": "K\u00f6ln", "state": "NRW"})
        assert isinstance(prompt.messages[0].content, TextContent)
        assert prompt.messages[0].content.text == "What's weather in K\u00f6ln, NRW?"
        resource = await client.get_prompt(
            "resource-prompt", {"resourceType": "Text", "resourceId": "7"}
        )
        assert any(isinstance(m.content, EmbeddedResource) for m in resource.messages)
        with pytest.raises(MCPError) as refused:
            await client.get_prompt("args-prompt")
        assert refused.value.code == -32602

        team = PromptReference("completable-prompt")
        first = await client.complete(team, "department", "S")
        assert first.completion.values == ["Sales", "Support"]
        second = await client.complete(team, "name", "", context={"department": "Sales"})
        assert second.completion.values == ["David", "Eve", "Frank"]
        template = ResourceTemplateReference("demo://resource/dynamic/text/{resourceId}")
        assert (await client.complete(template, "resourceId", "7")).completion.values == ["7"]


async def test_everything_takes_long(everything: Everything) -> None:
    """Progress from a tool that takes a while, which a timeout or cancellation cuts short."""
    async with everything() as client:
        name = "trigger-long-running-operation"
        steps: list[tuple[float, float | None]] = []
        result = await client.call_tool(
            name,
            {"duration": 0.3, "steps": 3},
            on_progress=lambda p: steps.append((p.progress, p.total)),
            timeout=0.25,  # each step starts it anew
        )
        assert steps == [(1, 3), (2, 3), (3, 3)]
        assert "completed" in texts(result)[0]
        with pytest.raises(RequestTimeout):
            await client.call_tool(name, {"duration": 60, "steps": 1}, timeout=0.1)
        with trio.move_on_after(0.1) as scope:
            await client.call_tool(name, {"duration": 60, "steps": 1})
        assert scope.cancelled_caught
        await client.ping()


async def test_everything_asks(everything: Everything) -> None:
    """Elicitation with a form of every field and by URL, sampling, and roots that change."""
    form = {"name": "Ada", "integer": 7, "email": "ada@example.com"}
    person = Person(form)
    async with everything(person) as client:
        raw = texts(await client.call_tool("trigger-elicitation-request"))[-1]
        answer = json.loads(raw.removeprefix("\nRaw result: "))
        assert answer["action"] == "accept"
        content = answer["content"]
        assert {name: content[name] for name in form} == form
        assert content["titledMultipleSelectEnum"] == ["fish-1"], "defaults are filled in"

        for action in ("decline", "cancel"):
            person.answer = ElicitResult(action)
            raw = texts(await client.call_tool("trigger-elicitation-request"))[-1]
            assert json.loads(raw.removeprefix("\nRaw result: "))["action"] == action

        person.answer = ElicitResult("accept")
        url = {"url": "https://example.com/pay", "message": "Pay.", "elicitationId": "e1"}
        result = await client.call_tool("trigger-url-elicitation", url)
        assert "URL: https://example.com/pay" in texts(result)[0]
        assert isinstance(person.asked[-1], ElicitRequestURLParams)
        assert person.asked[-1].elicitation_id == "e1"
        with pytest.raises(MCPError) as required:
            await client.call_tool("trigger-url-elicitation", {**url, "errorPath": True})
        assert required.value.code == -32042
        assert required.value.data["elicitations"][0]["mode"] == "url"

        sampled = await client.call_tool("trigger-sampling-request", {"prompt": "6 x 7?"})
        assert "forty-two" in texts(sampled)[0]
        request = person.asked[-1]
        assert isinstance(request, CreateMessageRequestParams)
        assert request.system_prompt == "You are a helpful test server."

        listed = texts(await client.call_tool("get-roots-list"))[0]
        assert "Project \u2028 \u00e9" in listed
        assert "file:///project" in listed
        await client.notify_roots_changed()
        await person.has_read("Roots updated")


async def test_everything_wrong_answer_is_the_servers_to_refuse(everything: Everything) -> None:
    """What a form would not allow goes to the server, and its complaint comes back as a result."""
    person = Person({"name": "Ada", "integer": "seven"})
    async with everything(person) as client:
        result = await client.call_tool("trigger-elicitation-request")
        assert person.asked
        assert texts(result)


async def test_everything_changes(everything: Everything) -> None:
    """Subscriptions to two resources, one listened to twice, and a list that changes."""
    async with everything() as client:
        other = "demo://resource/dynamic/text/8"
        async with (
            client.listen(uris=[TEXT_RESOURCE]) as first,
            client.listen(uris=[TEXT_RESOURCE, other], resources=True) as second,
        ):
            assert second.granted.uris == {TEXT_RESOURCE, other}
            await client.call_tool("toggle-subscriber-updates")
            assert await anext(first) == ResourceUpdated(TEXT_RESOURCE)
            seen = {await anext(second), await anext(second)}
            assert seen == {ResourceUpdated(TEXT_RESOURCE), ResourceUpdated(other)}
            await client.call_tool("toggle-subscriber-updates")
            data = "data:text/plain;base64," + base64.b64encode(b"hello").decode()
            zipped = await client.call_tool(
                "gzip-file-as-resource",
                {"name": "hello.gz", "data": data, "outputType": "resourceLink"},
            )
            (link,) = (block for block in zipped.content if isinstance(block, ResourceLink))
            assert await anext(second) == ResourcesChanged()
            (contents,) = (await client.read_resource(link.uri)).contents
            assert isinstance(contents, BlobResourceContents)
            assert base64.b64decode(contents.blob).startswith(b"\x1f\x8b")


async def test_everything_logs(everything: Everything) -> None:
    """Only messages of the level that was asked for arrive."""
    person = Person()
    async with everything(person) as client:
        await client.set_log_level("info")
        async with client.listen(uris=[TEXT_RESOURCE]):  # which the server logs at "info"
            pass
        await person.has_read("Subscribe")
        await client.set_log_level("emergency")
        before = len(person.logs)
        async with client.listen(uris=[TEXT_RESOURCE]):
            pass
        await client.ping()
        assert [log.level for log in person.logs[before:] if log.level == "info"] == []


async def test_everything_task(everything: Everything) -> None:
    """A tool of 2025-11-25 that runs as a task is within reach of the general request."""
    async with everything() as client:
        name = "simulate-research-query"
        created = await client.request(
            "tools/call",
            {"name": name, "arguments": {"topic": "trios"}, "task": {"ttl": 60_000}},
        )
        task = created["task"]["taskId"]
        got = await client.request("tasks/get", {"taskId": task})
        assert got["status"] == "working"
        cancelled = await client.request("tasks/cancel", {"taskId": task})
        assert cancelled["status"] == "cancelled"
        with pytest.raises((MCPError, ProtocolError)):
            await client.request("tasks/get", {"taskId": "nonesuch"})


async def test_filesystem(tmp_path: Path) -> None:
    """Files are written, read, edited and listed; a path outside is a tool's error."""
    (tmp_path / "a.txt").write_text("one\u2028two\n", encoding="utf-8")
    with trio.fail_after(30):
        argv = [*peers.npm_server("server-filesystem"), str(tmp_path)]
        async with open_client(argv) as client:
            tools = {tool.name for tool in await client.list_tools()}
            assert {"read_text_file", "write_file", "directory_tree"} <= tools

            async def call(name: str, **arguments: Any) -> str:
                result = await client.call_tool(name, arguments)
                assert not result.is_error
                return texts(result)[0]

            assert await call("read_text_file", path=str(tmp_path / "a.txt")) == "one\u2028two\n"
            large = "x" * 1_000_000
            await call("write_file", path=str(tmp_path / "b.txt"), content=large)
            assert (tmp_path / "b.txt").read_text() == large
            assert await call("read_text_file", path=str(tmp_path / "b.txt")) == large
            edits = [{"oldText": "two", "newText": "three"}]
            await call("edit_file", path=str(tmp_path / "a.txt"), edits=edits)
            assert "three" in (tmp_path / "a.txt").read_text(encoding="utf-8")
            tree = json.loads(await call("directory_tree", path=str(tmp_path)))
            assert {entry["name"] for entry in tree} == {"a.txt", "b.txt"}
            outside = await client.call_tool("read_text_file", {"path": "/etc/hostname"})
            assert outside.is_error
            assert "denied" in texts(outside)[0].lower()


async def test_filesystem_takes_its_folders_from_the_roots(tmp_path: Path) -> None:
    """A server that asks for the roots right after `initialized`, and hears that they change."""
    folders = [tmp_path / "one", tmp_path / "two"]
    for folder in folders:
        folder.mkdir()
    roots = [folders[0]]
    argv = [*peers.npm_server("server-filesystem"), str(tmp_path)]
    with trio.fail_after(30):
        async with open_client(
            argv, on_list_roots=lambda _: [folder.as_uri() for folder in roots]
        ) as client:

            async def allows(folder: Path) -> None:
                found = ""
                while not found.rstrip().endswith(str(folder)):
                    await trio.sleep(0.01)
                    found = texts(await client.call_tool("list_allowed_directories"))[0]

            await allows(folders[0])
            roots[:] = [folders[1]]
            await client.notify_roots_changed()
            await allows(folders[1])


async def test_memory(tmp_path: Path) -> None:
    """A graph is made and found again by the next process; a variable says where it is kept."""
    file = tmp_path / "memory.jsonl"
    command, *args = peers.npm_server("server-memory")
    parameters = StdioParameters(command, args, env={"MEMORY_FILE_PATH": str(file)})
    ada = {"name": "Ada \u2028", "entityType": "person", "observations": ["counts"]}
    with trio.fail_after(30):
        async with open_client(parameters) as client:
            assert len(await client.list_tools()) == 9
            made = await client.call_tool("create_entities", {"entities": [ada]})
            assert made.structured_content == {"entities": [ada]}
        async with open_client(parameters) as client:
            await client.list_tools()
            found = await client.call_tool("search_nodes", {"query": "counts"})
            assert found.structured_content == {"entities": [ada], "relations": []}
            broken = await client.call_tool("create_entities", {"entities": [{"name": 1}]})
            assert broken.is_error


def _processes_with(marker: str) -> set[str]:
    """The ids of processes that have this in their environment."""
    found = set()
    for file in Path("/proc").glob("[0-9]*/environ"):
        with contextlib.suppress(OSError):  # it has ended, or it is somebody else's
            if marker.encode() in file.read_bytes():
                found.add(file.parent.name)
    return found


@pytest.mark.skipif(sys.platform != "linux", reason="looks for processes in /proc")
async def test_npx_starts_a_server_and_takes_it_along(npm_project: Path, tmp_path: Path) -> None:
    """A launcher as in users' configurations: npx starts a shell, and that starts the server."""
    argv = [*peers.npx(), "-y", "@modelcontextprotocol/server-memory"]
    path = os.pathsep.join([str(peers.node().parent), os.environ["PATH"]])
    environment = {"PATH": path, "MEMORY_FILE_PATH": str(tmp_path / "memory.jsonl")}
    parameters = StdioParameters.from_argv(argv, env=environment, cwd=npm_project)
    with trio.fail_after(30):
        async with open_client(parameters) as client:
            assert len(await client.list_tools()) == 9
            assert len(_processes_with(str(tmp_path))) >= 2
    assert _processes_with(str(tmp_path)) == set()
