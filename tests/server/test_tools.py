"""Tools over the wire: what is listed, what is called, and how calls fail."""

import logging
import threading
from collections.abc import AsyncIterator, Iterator
from functools import partial
from typing import Annotated, Any

import attrs
import pytest
import trio

from mcp_trio import Context, MCPError, Server, ToolError
from mcp_trio.protocol.revisions import LEGACY, REVISIONS
from tests.server.raw import Raw, open_legacy, open_raw


@attrs.frozen
class Point:
    x: int
    y: int = 0


async def call(raw: Raw, name: str, **arguments: Any) -> dict[str, Any]:
    return await raw.result("tools/call", {"name": name, "arguments": arguments})


async def test_definition_says_what_was_registered() -> None:
    """Name, description, schema, title, hints, icons and `_meta` are listed as given."""
    server = Server("s")

    @server.tool(
        title="Add",
        read_only=True,
        destructive=False,
        idempotent=True,
        open_world=False,
        annotations={"title": "Sum", "readOnlyHint": False},
        icons=[{"src": "data:image/png;base64,AA"}],
        meta={"acme.example/x": 1},
    )
    async def add(a: Annotated[int, "The first"], b: int = 2) -> int:
        """Add two numbers."""
        return a + b

    async with open_raw(server) as raw:
        (tool,) = (await raw.result("tools/list"))["tools"]
    assert tool["name"] == "add"
    assert tool["title"] == "Add"
    assert tool["description"] == "Add two numbers."
    assert tool["inputSchema"]["properties"]["a"]["description"] == "The first"
    assert tool["inputSchema"]["required"] == ["a"]
    assert tool["annotations"] == {
        "title": "Sum",
        "readOnlyHint": True,
        "destructiveHint": False,
        "idempotentHint": True,
        "openWorldHint": False,
    }
    assert tool["icons"] == [{"src": "data:image/png;base64,AA"}]
    assert tool["_meta"] == {"acme.example/x": 1}


async def test_every_kind_of_function_is_a_tool() -> None:
    """Coroutine functions, plain ones, lambdas, partials, methods and objects are called."""

    class Adder:
        def method(self, a: int) -> int:
            return a + 2

        async def __call__(self, a: int) -> int:
            return a + 3

    async def coroutine(a: int, b: int) -> int:
        return a + b

    server = Server("s")
    server.add_tool(lambda a: a, name="lambda")
    server.add_tool(partial(coroutine, b=1), name="partial")
    server.add_tool(Adder().method)
    server.add_tool(Adder(), name="object")
    server.add_tool(lambda a: coroutine(a, 4), name="awaitable")
    async with open_raw(server) as raw:
        names = [tool["name"] for tool in (await raw.result("tools/list"))["tools"]]
        assert names == ["lambda", "partial", "method", "object", "awaitable"]
        for number, name in enumerate(names):
            result = await call(raw, name, a=10)
            assert result["structuredContent"] == {"result": 10 + number}


async def test_blocking_function_runs_in_a_thread() -> None:
    """thread=True keeps the event loop free, and a cancelled call does not wait for the thread."""
    server = Server("s")
    entered, leave = threading.Event(), threading.Event()

    @server.tool(thread=True)
    def block() -> str:
        entered.set()
        leave.wait(10)
        return threading.current_thread().name

    async with open_legacy(server) as raw:
        await raw.send(raw.request_message("tools/call", {"name": "block"}, id="b"))
        assert (await raw.request("ping"))["result"] == {}
        await trio.to_thread.run_sync(entered.wait, 5)
        cancel = {"method": "notifications/cancelled", "params": {"requestId": "b"}}
        await raw.send({"jsonrpc": "2.0", **cancel})
        assert (await raw.request("ping"))["result"] == {}
        leave.set()
        assert threading.main_thread().name not in str(await call(raw, "block"))


def test_coroutine_function_in_a_thread_is_refused() -> None:
    """thread=True for a coroutine function is a mistake, and said so when it is made."""
    server = Server("s")

    async def coroutine() -> None: ...

    with pytest.raises(TypeError, match="coroutine"):
        server.add_tool(coroutine, thread=True)


def test_generators_are_refused() -> None:
    """A tool that yields what it should return is found when it is registered, not when called."""
    server = Server("s")

    async def numbers() -> AsyncIterator[int]:
        yield 1

    def letters() -> Iterator[str]:
        yield "a"

    for function in (numbers, letters):
        with pytest.raises(TypeError, match=f"{function.__name__} is a generator"):
            server.add_tool(function)


async def test_unknown_tool_is_a_protocol_error() -> None:
    """An unknown name is -32602 in both eras, and named."""
    async with open_legacy(Server("s")) as raw:
        for error in (
            await raw.error("tools/call", {"name": "nothing"}),
            (await raw.request("tools/call", {"name": "nothing"}))["error"],
        ):
            assert error["code"] == -32602
            assert "nothing" in error["message"]


@pytest.mark.parametrize(
    ("params", "field"),
    [
        ({}, "name"),
        ({"name": 3}, "name"),
        ({"name": None}, "name"),
        ({"name": "add", "arguments": [1]}, "arguments"),
        ({"name": "add", "arguments": "a"}, "arguments"),
    ],
)
async def test_malformed_call_names_the_field(params: dict[str, Any], field: str) -> None:
    """What is no call at all is -32602 and names the field, in every revision."""
    server = Server("s")
    server.add_tool(lambda: None, name="add")
    async with open_legacy(server) as raw:
        for error in (
            await raw.error("tools/call", params),
            (await raw.request("tools/call", params))["error"],
        ):
            assert error["code"] == -32602
            assert f"'{field}'" in error["message"]


@pytest.mark.parametrize("version", REVISIONS)
async def test_invalid_arguments_by_revision(version: str) -> None:
    """They are a result that a model can learn from since 2025-11-25, an error before."""
    server = Server("s")

    @server.tool()
    async def move(to: Point) -> None: ...

    params = {"name": "move", "arguments": {"to": {"x": "1"}}}
    async with open_raw(server) as raw:
        if version in LEGACY:
            await raw.initialize(version)
            answer = await raw.request("tools/call", params)
        else:
            answer = await raw.modern("tools/call", params)
    if version < "2025-11-25":
        assert answer["error"]["code"] == -32602
        text = answer["error"]["message"]
    else:
        assert answer["result"]["isError"] is True
        text = answer["result"]["content"][0]["text"]
    assert "to.x" in text


async def test_arguments_may_be_left_out() -> None:
    """No arguments and null are an empty object."""
    server = Server("s")
    server.add_tool(lambda n=3: n, name="three")
    async with open_raw(server) as raw:
        for params in ({"name": "three"}, {"name": "three", "arguments": None}):
            result = await raw.result("tools/call", params)
            assert result["structuredContent"] == {"result": 3}


async def test_failures_of_tools(caplog: pytest.LogCaptureFixture) -> None:
    """ToolError and other exceptions are results, MCPError an error, also out of nurseries."""
    server = Server("s")
    failures = {
        "expected": ToolError("No such city."),
        "unexpected": KeyError("paris"),
        "silent": RuntimeError(),
        "protocol": MCPError(-32000, "busy", {"retry": 1}),
        "grouped": ExceptionGroup("", [ExceptionGroup("", [ToolError("Inside.")])]),
    }

    @server.tool()
    async def fail(how: str) -> None:
        async with trio.open_nursery():
            raise failures[how]

    async with open_raw(server) as raw:
        texts = {}
        for how in ("expected", "unexpected", "silent", "grouped"):
            result = await call(raw, "fail", how=how)
            assert result["isError"] is True
            (texts[how],) = (block["text"] for block in result["content"])
        error = await raw.error("tools/call", {"name": "fail", "arguments": {"how": "protocol"}})
    assert texts == {
        "expected": "No such city.",
        "unexpected": "KeyError: 'paris'",
        "silent": "RuntimeError",
        "grouped": "Inside.",
    }
    assert error == {"code": -32000, "message": "busy", "data": {"retry": 1}}
    logged = [record for record in caplog.records if record.levelno == logging.ERROR]
    assert len(logged) == 2  # the two that nobody expected, with their tracebacks
    assert all(record.exc_info and "fail" in record.getMessage() for record in logged)


async def test_traceback_only_where_asked_for() -> None:
    """The traceback is in the result if the server says so, and else not."""
    for shown in (False, True):
        server = Server("s", tracebacks=shown)

        @server.tool()
        async def divide(by: int) -> float:
            return 1 / by

        async with open_raw(server) as raw:
            text = (await call(raw, "divide", by=0))["content"][0]["text"]
            assert ("Traceback" in text and __file__ in text) == shown
            assert "ZeroDivisionError" in text


async def test_result_that_is_no_json_is_a_failure(caplog: pytest.LogCaptureFixture) -> None:
    """What cannot be sent is the tool's failure, not the connection's."""
    server = Server("s")
    server.add_tool(lambda: float("nan"), name="nan")
    server.add_tool(object, name="object")
    async with open_raw(server) as raw:
        for name in ("nan", "object"):
            assert (await call(raw, name))["isError"] is True


async def test_structured_output_by_revision() -> None:
    """Text always; structured content and output schema where the revision has them."""
    server = Server("s")

    @server.tool()
    async def points() -> list[Point]:
        return [Point(1)]

    for version in LEGACY:
        async with open_legacy(server, version) as raw:
            (tool,) = (await raw.request("tools/list"))["result"]["tools"]
            result = (await raw.request("tools/call", {"name": "points"}))["result"]
        structured = version >= "2025-06-18"
        assert ("outputSchema" in tool) == ("structuredContent" in result) == structured
        assert "1" in result["content"][0]["text"]
        if structured:
            assert result["structuredContent"] == {"result": [{"x": 1, "y": 0}]}


async def test_own_schemas() -> None:
    """Schemas of the author's own are listed as they are, and both ends are checked."""
    server = Server("s")
    input_schema = {
        "type": "object",
        "properties": {"some-name": {"type": "integer", "x-mcp-header": "Some"}},
        "required": ["some-name"],
    }
    output_schema = {"type": "array", "items": {"type": "integer"}}

    @server.tool(input_schema=input_schema, output_schema=output_schema)
    async def whole(arguments: dict[str, Any], ctx: Context) -> Any:
        return [arguments["some-name"]] if arguments["some-name"] else ["bad"]

    @server.tool(input_schema={"type": "object", "properties": {"a": {}, "b": {}}})
    async def by_name(a: Any = 1, b: Any = 2) -> Any:
        return {"a": a, "b": b}

    async with open_legacy(server, "2025-11-25") as raw:
        tool, _ = (await raw.result("tools/list"))["tools"]
        assert (tool["inputSchema"], tool["outputSchema"]) == (input_schema, output_schema)
        result = await call(raw, "whole", **{"some-name": 4})
        assert result["structuredContent"] == [4]
        assert (await call(raw, "whole", **{"some-name": "4"}))["isError"] is True
        assert (await call(raw, "whole", **{"some-name": 0}))["isError"] is True
        assert (await call(raw, "by_name", a=None))["structuredContent"] == {"a": None, "b": 2}
        # 2025-11-25 has objects only, in the schema and in the result alike
        legacy, _ = (await raw.request("tools/list"))["result"]["tools"]
        assert legacy["outputSchema"]["properties"]["result"] == output_schema
        params = {"name": "whole", "arguments": {"some-name": 4}}
        answer = await raw.request("tools/call", params)
        assert answer["result"]["structuredContent"] == {"result": [4]}


@pytest.mark.parametrize(
    "options",
    [
        {"input_schema": {"type": "array"}},
        {"input_schema": {"type": "object", "properties": {"a": {"type": "strange"}}}},
        {"input_schema": {"type": "object", "properties": {"ctx": {}}}},
        {"output_schema": {"type": 3}},
    ],
)
def test_bad_schemas_are_refused_at_once(options: Any) -> None:
    """A schema that is none is found when the tool is registered, not when it is called."""

    async def tool(ctx: Context, a: int = 1) -> None: ...

    with pytest.raises(ValueError, match=r".+"):
        Server("s").add_tool(tool, **options)


async def test_unstructured_on_request() -> None:
    """structured=False leaves the text."""
    server = Server("s")

    async def point() -> Point:
        return Point(1)

    server.add_tool(point, structured=False)
    async with open_raw(server) as raw:
        (tool,) = (await raw.result("tools/list"))["tools"]
        result = await call(raw, "point")
    assert "outputSchema" not in tool
    assert "structuredContent" not in result


def test_names() -> None:
    """A name that is taken or missing is an error, an unusual one a warning."""
    server = Server("s")
    server.add_tool(lambda: 1, name="a")
    with pytest.raises(ValueError, match="'a' already"):
        server.add_tool(lambda: 2, name="a")
    with pytest.raises(ValueError, match="needs a name"):
        server.add_tool(lambda: 2)
    with pytest.raises(KeyError, match="'b'"):
        server.remove_tool("b")
    with pytest.warns(UserWarning, match="two words"):
        server.add_tool(lambda: 2, name="two words")
    forgetful: list[Any] = [server.tool, server.prompt, server.resource]
    for decorator in (*forgetful, server.request, server.notification):
        with pytest.raises(TypeError, match=rf"@server\.{decorator.__name__}\(.*with parentheses"):
            decorator(lambda: 1)


def test_options_that_are_none_are_refused() -> None:
    """A misspelt option is an error that lists the right ones: it would silently do nothing."""
    server = Server("s")
    with pytest.raises(TypeError, match=r"tool has no option 'readonly'.*read_only"):
        server.tool(readonly=True)(lambda: 1)  # type: ignore[call-arg]  # the point of the test
    with pytest.raises(TypeError, match=r"prompt has no option 'tags'.*title"):
        server.prompt(tags=["a"])(lambda: "")  # type: ignore[call-arg]  # likewise
    with pytest.raises(TypeError, match=r"resource has no option 'mimetype'.*mime_type"):
        server.resource("a://b", mimetype="")(lambda: "")  # type: ignore[call-arg]  # likewise


async def test_tools_come_and_go() -> None:
    """Tools can be added and removed while clients are served; the order stays."""
    server = Server("s")
    for name in ("a", "b", "c"):
        server.add_tool(lambda: 1, name=name)
    async with open_raw(server) as raw:
        server.remove_tool("b")
        server.add_tool(lambda: 2, name="b")
        tools = (await raw.result("tools/list"))["tools"]
        assert [tool["name"] for tool in tools] == ["a", "c", "b"]
        assert (await call(raw, "b"))["structuredContent"] == {"result": 2}
        server.remove_tool("b")
        assert (await raw.error("tools/call", {"name": "b"}))["code"] == -32602


async def test_cancelled_call_is_silent(autojump_clock: trio.testing.MockClock) -> None:
    """A cancelled handler runs its finally blocks and sends nothing more."""
    server = Server("s")
    log = []

    @server.tool()
    async def sleep() -> None:
        try:
            await trio.sleep(60)
        finally:
            log.append("woken")

    async with open_legacy(server) as raw:
        await raw.send(raw.request_message("tools/call", {"name": "sleep"}, id="s"))
        await trio.sleep(1)
        cancel = {"method": "notifications/cancelled", "params": {"requestId": "s"}}
        await raw.send({"jsonrpc": "2.0", **cancel})
        await raw.request("ping")
        await trio.sleep(100)
        assert log == ["woken"]
        assert raw.received == []
