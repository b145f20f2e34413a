"""Legacy clients through a proxy, on the wire: what passes as it is, and what is translated."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

import mcp_trio
from mcp_trio import Context, MCPError
from mcp_trio.protocol import meta as keys
from mcp_trio.proxy.app import Proxy
from tests.client.scripted import Answer, JSONObject, Scripted, Step, initialized, text_result
from tests.server.raw import Raw, open_raw

from .kit import PATIENCE, Kit, Person, Scripts, text_of

Steps = dict[str, Step | list[Step]]


@asynccontextmanager
async def served(
    up: str,
    steps: Steps | None = None,
    capabilities: JSONObject | None = None,
    version: str = "2025-11-25",
    **start: Any,
) -> AsyncIterator[tuple[Raw, Scripts]]:
    """A legacy client, after its handshake, of a proxy of a scripted server."""
    scripts = Scripts(up, steps, **start)
    with trio.fail_after(PATIENCE):
        async with open_raw(Proxy(scripts, mode=up)) as raw:
            await raw.initialize(version, capabilities)
            await wait_all_tasks_blocked()
            yield raw, scripts


async def test_the_server_sees_the_client(autojump_clock: MockClock) -> None:
    """A legacy server is told the client's own name and capabilities, unknown ones included."""
    capabilities = {"sampling": {}, "experimental": {"x": {}}, "acme": {"y": [1]}}
    async with served("legacy", capabilities=capabilities) as (_, scripts):
        params = scripts.latest.sent("initialize")[0]["params"]
        assert params["capabilities"] == capabilities
        assert params["clientInfo"] == {"name": "raw", "version": "1"}


async def test_messages_pass_as_they_are(autojump_clock: MockClock) -> None:
    """Between two legacy sides requests, results and errors are the same, but for their ids."""
    result = {"content": [{"type": "acme", "x": 1}], "acme": [None], "_meta": {"a/b": 1}}
    failure = MCPError(-1, "no", {"x": {"y": None}})
    steps: Steps = {"tools/call": [result, failure]}
    async with served("legacy", steps) as (raw, scripts):
        params = {"name": "t", "acme": {"deep": [1]}, "_meta": {"acme/x": 1}}
        assert (await raw.request("tools/call", params))["result"] == result
        assert scripts.latest.sent("tools/call")[0]["params"] == params
        error = (await raw.request("tools/call", params))["error"]
        assert error == {"code": -1, "message": "no", "data": {"x": {"y": None}}}


async def test_requests_of_the_server_pass(autojump_clock: MockClock) -> None:
    """What a legacy server asks, known or not, is asked of the client, with its progress."""

    async def asks(server: Scripted, request: JSONObject) -> Answer:
        params = {"messages": [], "maxTokens": 1, "acme": 2, "_meta": {"progressToken": "up"}}
        sampled = await server.answer_to(await server.ask("sampling/createMessage", params))
        other = await server.answer_to(await server.ask("acme/question", {"q": 1}))
        return text_result(str([sampled["result"], other["error"]["code"]]))

    async with served("legacy", {"tools/call": asks}, {"sampling": {}}) as (raw, scripts):
        await raw.send(raw.request_message("tools/call", {"name": "t"}, id="c"))
        question = await raw.receive()
        assert question["method"] == "sampling/createMessage"
        token = question["params"]["_meta"].pop("progressToken")
        assert question["params"] == {"messages": [], "maxTokens": 1, "acme": 2, "_meta": {}}
        progress = {"progressToken": token, "progress": 1, "acme": 3}
        note = {"jsonrpc": "2.0", "method": "notifications/progress", "params": progress}
        sampled = {"role": "assistant", "content": {"type": "acme"}, "model": "m"}
        await raw.send(note, {"jsonrpc": "2.0", "id": question["id"], "result": sampled})
        unknown = await raw.receive()
        assert (unknown["method"], unknown["params"]) == ("acme/question", {"q": 1})
        error = {"code": -32601, "message": "What?"}
        await raw.send({"jsonrpc": "2.0", "id": unknown["id"], "error": error})
        result = (await raw.answer_to("c"))["result"]
        assert result["content"][0]["text"] == str([sampled, -32601])
        passed = scripts.latest.sent("notifications/progress")[0]["params"]
        assert passed == {"progressToken": "up", "progress": 1, "acme": 3}


async def test_a_question_that_is_withdrawn(autojump_clock: MockClock) -> None:
    """A server that cancels its question has it cancelled at the client."""

    async def withdraws(server: Scripted, request: JSONObject) -> Answer:
        id = await server.ask("roots/list")
        await trio.sleep(1)
        await server.notify("notifications/cancelled", {"requestId": id})
        return text_result()

    async with served("legacy", {"tools/call": withdraws}, {"roots": {}}) as (raw, _):
        await raw.send(raw.request_message("tools/call", {"name": "t"}, id="c"))
        question = await raw.receive()
        seen = [await raw.receive() for _ in range(2)]
        cancelled = next(m for m in seen if m.get("method") == "notifications/cancelled")
        assert cancelled["params"]["requestId"] == question["id"]


@pytest.mark.parametrize(
    ("capabilities", "method", "params", "code"),
    [
        ({}, "roots/list", {}, -32601),
        ({}, "elicitation/create", {"message": "x"}, -32601),
        ({"elicitation": {}}, "elicitation/create", {"mode": "url"}, -32602),
        ({"sampling": {}}, "sampling/createMessage", {"tools": [{}]}, -32602),
    ],
)
async def test_undeclared_questions_are_refused(
    capabilities: JSONObject, method: str, params: JSONObject, code: int, autojump_clock: MockClock
) -> None:
    """A server that asks what the client has not declared hears so from the proxy."""
    async with served("legacy", capabilities=capabilities) as (raw, scripts):
        server = scripts.latest
        refused = await server.answer_to(await server.ask(method, params))
        assert refused["error"]["code"] == code
        assert raw.received == []


async def test_nothing_is_asked_before_the_client_is_ready(autojump_clock: MockClock) -> None:
    """A server may be faster than its client's notifications/initialized; its question waits."""
    async with open_raw(Proxy(scripts := Scripts("legacy"), mode="legacy")) as raw:
        params = {
            "protocolVersion": "2025-11-25",
            "capabilities": {"roots": {}},
            "clientInfo": {"name": "raw", "version": "1"},
        }
        await raw.request("initialize", params)
        await scripts.latest.ask("roots/list")
        await scripts.latest.notify("notifications/message", {"level": "info", "data": "early"})
        await scripts.latest.notify("notifications/tools/list_changed")
        assert (await raw.receive())["params"]["data"] == "early"
        await wait_all_tasks_blocked()
        await raw.send({"jsonrpc": "2.0", "method": "notifications/initialized"})
        seen = {(await raw.receive())["method"] for _ in range(2)}
        assert seen == {"roots/list", "notifications/tools/list_changed"}


async def test_notifications_of_the_server_pass(autojump_clock: MockClock) -> None:
    """Between two legacy sides they are the same, and those of a call come before its result."""

    async def tells(server: Scripted, request: JSONObject) -> Answer:
        await server.notify("notifications/message", {"level": "info", "data": 1, "acme": 2})
        await server.notify("notifications/acme", {"x": [None]})
        return text_result()

    async with served("legacy", {"tools/call": tells}) as (raw, scripts):
        await raw.send(raw.request_message("tools/call", {"name": "t"}, id="c"))
        seen = [await raw.receive() for _ in range(3)]
        assert seen[0]["params"] == {"level": "info", "data": 1, "acme": 2}
        assert seen[1] == {
            "jsonrpc": "2.0",
            "method": "notifications/acme",
            "params": {"x": [None]},
        }
        assert seen[2]["id"] == "c"
        updated = {"uri": "x:", "acme": 1}
        await scripts.latest.notify("notifications/resources/updated", updated)
        assert (await raw.receive())["params"] == updated


async def test_notifications_of_the_client_pass(autojump_clock: MockClock) -> None:
    """Those that the server's revision has, or nobody knows; our own handshake is not repeated."""
    notes = ["notifications/roots/list_changed", "notifications/acme"]
    for up, expected in (("legacy", notes), ("modern", notes[1:])):
        async with served(up) as (raw, scripts):
            for method in notes:
                await raw.send({"jsonrpc": "2.0", "method": method, "params": {"x": 1}})
            await wait_all_tasks_blocked()
            sent = [
                method
                for method in scripts.latest.methods
                if method.startswith("notifications/") and not method.endswith("/initialized")
            ]
            assert sent == expected
            assert scripts.latest.methods.count("notifications/initialized") <= 1


async def test_a_modern_server_is_told_of_the_client(autojump_clock: MockClock) -> None:
    """Each request says what the client said once: who it is, what it can do, which logs."""
    result = text_result()
    async with served("modern", {"tools/call": result}, {"sampling": {}}) as (raw, scripts):
        await raw.request("logging/setLevel", {"level": "warning"})
        params = {"name": "t", "acme": 1, "_meta": {"acme/x": 2, "progressToken": "p"}}
        await raw.request("tools/call", params)
        sent = scripts.latest.sent("tools/call")[0]["params"]
        token = sent["_meta"].pop("progressToken")
        assert token != "p"
        assert sent == {
            "name": "t",
            "acme": 1,
            "_meta": {
                "acme/x": 2,
                keys.PROTOCOL_VERSION: "2026-07-28",
                keys.CLIENT_INFO: {"name": "raw", "version": "1"},
                keys.CLIENT_CAPABILITIES: {"sampling": {}},
                keys.LOG_LEVEL: "warning",
            },
        }


QUESTION: JSONObject = {
    "resultType": "input_required",
    "requestState": "opaque",
    "inputRequests": {"k": {"method": "roots/list"}},
}


async def test_rounds(autojump_clock: MockClock) -> None:
    """What a modern server's result asks for is asked as a request, on behalf of the call."""
    steps: Steps = {"tools/call": [QUESTION, text_result("done")]}
    async with served("modern", steps, {"roots": {}}) as (raw, scripts):
        await raw.send(raw.request_message("tools/call", {"name": "t"}, id="c"))
        question = await raw.receive()
        assert question["method"] == "roots/list"
        await raw.send({"jsonrpc": "2.0", "id": question["id"], "result": {"roots": [], "a": 1}})
        assert (await raw.answer_to("c"))["result"]["content"][0]["text"] == "done"
        second = scripts.latest.sent("tools/call")[1]["params"]
        assert second["inputResponses"] == {"k": {"roots": [], "a": 1}}
        assert second["requestState"] == "opaque"


async def test_the_clients_error_is_the_calls(autojump_clock: MockClock) -> None:
    """A client that answers a question with an error has its call fail with it."""
    async with served("modern", {"tools/call": QUESTION}, {"roots": {}}) as (raw, _):
        await raw.send(raw.request_message("tools/call", {"name": "t"}, id="c"))
        question = await raw.receive()
        error = {"code": -5, "message": "leave me alone"}
        await raw.send({"jsonrpc": "2.0", "id": question["id"], "error": error})
        assert (await raw.answer_to("c"))["error"] == error


BAD_RESULTS: list[JSONObject] = [
    QUESTION,  # the client has not declared roots
    {"resultType": "input_required"},
    {"resultType": "input_required", "inputRequests": {"k": {"method": "tools/call"}}},
    {"resultType": "input_required", "inputRequests": {"k": {"method": 5}}},
    {"resultType": "input_required", "inputRequests": {"k": {"method": "roots/list", "params": 1}}},
    {"resultType": "acme"},
]


@pytest.mark.parametrize("result", BAD_RESULTS)
async def test_results_that_make_no_sense(result: JSONObject, autojump_clock: MockClock) -> None:
    """A modern server that breaks the rules fails the call, and the client is not bothered."""
    async with served("modern", {"tools/call": result}) as (raw, _):
        answer = await raw.request("tools/call", {"name": "t"})
        assert answer["error"]["code"] == -32603
        assert raw.received == []


async def test_a_result_that_cannot_be_fitted(autojump_clock: MockClock) -> None:
    """A malformed result passes where it is not looked into, and else fails the call clearly."""
    steps: Steps = {"tools/call": {"content": 5}}
    async with served("legacy", steps) as (raw, _):
        assert (await raw.request("tools/call", {"name": "t"}))["result"] == {"content": 5}
    async with served("legacy", steps, version="2024-11-05") as (raw, _):
        error = (await raw.request("tools/call", {"name": "t"}))["error"]
        assert error["code"] == -32603
        assert "malformed result of tools/call" in error["message"]


async def test_output_schemas_and_outputs_are_wrapped_together(autojump_clock: MockClock) -> None:
    """What a legacy client sees of a modern tool's output fits the schema that it sees."""
    schema = {"anyOf": [{"type": "object"}, {"type": "integer"}]}
    tool = {"name": "t", "inputSchema": {"type": "object"}, "outputSchema": schema}
    steps: Steps = {
        "tools/list": {"resultType": "complete", "tools": [tool], "ttlMs": 0},
        "tools/call": {"resultType": "complete", "content": [], "structuredContent": {"a": 1}},
    }
    async with served("modern", steps) as (raw, _):
        listed = (await raw.request("tools/list"))["result"]["tools"][0]["outputSchema"]
        assert listed["properties"] == {"result": schema}
        called = (await raw.request("tools/call", {"name": "t"}))["result"]
        assert called["structuredContent"] == {"result": {"a": 1}}


async def test_two_sessions_have_two_servers(autojump_clock: MockClock) -> None:
    """What one client asks for, subscribes to, is asked and is told stays with it."""
    kit = Kit()
    asked: list[str] = []
    told: list[str] = []

    @kit.server.tool()
    async def both(ctx: Context) -> str:
        await ctx.log("info", "mine")
        answer = await ctx.elicit("who", "Your name?", Person)
        await trio.sleep(1)
        return answer.content.name if answer.action == "accept" else "?"

    proxy = Proxy(kit.server)

    async def client(name: str) -> None:
        def elicit(_params: object) -> JSONObject:
            asked.append(name)
            return {"name": name}

        async with mcp_trio.open_client(
            proxy, mode="legacy", on_elicit=elicit, on_log=lambda _: told.append(name)
        ) as client:
            assert text_of(await client.call_tool("both")) == name

    async with proxy.running(), trio.open_nursery() as nursery:
        nursery.start_soon(client, "one")
        nursery.start_soon(client, "two")
    assert sorted(asked) == sorted(told) == ["one", "two"]


@pytest.mark.parametrize("up", ["legacy", "modern"])
async def test_subscriptions_are_counted(up: str, autojump_clock: MockClock) -> None:
    """Who subscribed twice is told once, and until it has unsubscribed twice."""
    kit = Kit()
    async with open_raw(Proxy(kit.server, mode=up)) as raw:
        await raw.initialize()
        uri = {"uri": "memo://today"}

        async def updates() -> int:
            await trio.sleep(1)
            kit.server.notify_resource_updated(uri["uri"])
            await trio.sleep(1)
            await raw.request("ping")
            count = len([m for m in raw.received if "updated" in m["method"]])
            raw.received.clear()
            return count

        for subscribed in ("subscribe", "subscribe", "unsubscribe"):
            assert (await raw.request(f"resources/{subscribed}", uri))["result"] == {}
            assert await updates() == 1
        await raw.request("resources/unsubscribe", uri)
        assert await updates() == 0


async def test_a_server_without_subscriptions(autojump_clock: MockClock) -> None:
    """Subscribing fails where the server behind cannot, in either era."""
    for up in ("legacy", "modern"):
        start = {
            "legacy": {"initialize": {"protocolVersion": "2025-11-25", "capabilities": {}}},
            "modern": {},
        }[up]
        if up == "legacy":
            start["initialize"]["serverInfo"] = {"name": "x", "version": "1"}
        async with served(up, None, None, "2025-11-25", **start) as (raw, _):
            answer = await raw.request("resources/subscribe", {"uri": "x:"})
            assert answer["error"]["code"] == -32601


async def test_initialize_fails_with_the_server(autojump_clock: MockClock) -> None:
    """A server that refuses is news for the client, which may try once more."""
    refusal = MCPError(-32000, "closed on Mondays")
    scripts = Scripts("legacy", initialize=refusal)
    async with open_raw(Proxy(scripts, mode="legacy")) as raw:
        params = {
            "protocolVersion": "2025-11-25",
            "capabilities": {},
            "clientInfo": {"name": "raw", "version": "1"},
        }
        failed = await raw.request("initialize", params)
        assert failed["error"]["code"] == -32603
        assert "closed on Mondays" in failed["error"]["message"]
        assert "error" in await raw.request("tools/list")
        del scripts._start["initialize"]
        scripts._start["initialize"] = initialized()
        assert "result" in await raw.request("initialize", params)


async def test_ping_before_initialize(autojump_clock: MockClock) -> None:
    """A legacy client may ping at once; no server is opened for that."""
    async with open_raw(Proxy(scripts := Scripts("legacy"))) as raw:
        assert (await raw.request("ping"))["result"] == {}
        assert scripts.connections == []


async def test_methods_of_its_own(autojump_clock: MockClock) -> None:
    """A proxy can answer a method itself, and look at all of them, but has no tools of its own."""
    proxy = Proxy(Kit().server)
    seen: list[str] = []

    @proxy.request("acme/own")
    async def own(params: JSONObject) -> JSONObject:
        return {"own": params["x"]}

    @proxy.middleware
    async def look(ctx: Context, params: JSONObject, proceed: Any) -> JSONObject:
        seen.append(ctx.method)
        result: JSONObject = await proceed(params)
        return result

    with pytest.raises(TypeError, match="a proxy has no tools of its own"):
        proxy.tool()(own)
    async with mcp_trio.open_client(proxy) as client:
        assert (await client.request("acme/own", {"x": 1}))["own"] == 1
        await client.call_tool("add", {"a": 1, "b": 2})
    assert seen == ["server/discover", "acme/own", "tools/call"]


async def test_a_log_level_that_is_refused(autojump_clock: MockClock) -> None:
    """A level that the server does not set is not remembered for the server after it."""
    refusal = MCPError(-32602, "not that one")
    steps: Steps = {"logging/setLevel": [{}, refusal, {}]}
    async with served("legacy", steps) as (raw, scripts):
        assert (await raw.request("logging/setLevel", {"level": "error"}))["result"] == {}
        failed = await raw.request("logging/setLevel", {"level": "debug"})
        assert failed["error"] == {"code": -32602, "message": "not that one"}
        await scripts.latest.close()
        await trio.sleep(1)
        await raw.request("tools/list")
        (level,) = scripts.latest.sent("logging/setLevel")
        assert level["params"] == {"level": "error"}
