"""Context, questions and subscriptions, seen from the other end of a connection."""

from typing import Any

import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from mcp_trio import Context, Server
from mcp_trio.protocol import meta as keys
from mcp_trio.server.middleware import RateLimit
from mcp_trio.server.questions import ListRoots
from tests.server.fakes import subscription_id
from tests.server.raw import MODERN_META, Raw, open_legacy, open_raw

ROOTS = {"roots": [{"uri": "file:///a", "name": "a"}]}
CALL = {"name": "count_roots", "arguments": {}}
ROOTS_CAPABILITY: dict[str, Any] = {keys.CLIENT_CAPABILITIES: {"roots": {}}}


def make_server(**options: Any) -> Server:
    server = Server("asking", **options)

    @server.tool()
    async def count_roots(ctx: Context) -> int:
        await ctx.report_progress(1)
        try:
            return len(await ctx.list_roots())
        except Exception:
            return -1

    @server.tool()
    async def ask_in_tasks(ctx: Context) -> list[str]:
        uris = []

        async def ask(key: str) -> None:
            [root] = await ctx.list_roots(key)
            uris.append(root.uri)

        async with trio.open_nursery() as nursery:
            nursery.start_soon(ask, "a")
            nursery.start_soon(ask, "b")
        return uris

    @server.tool()
    async def shielded(ctx: Context) -> int:
        with trio.CancelScope(shield=True):
            roots = await ctx.list_roots()
        return len(roots)

    @server.tool()
    async def insist(ctx: Context) -> int:
        return len((await ctx.ask({"k": ListRoots()}))["k"])

    return server


async def test_a_modern_tool_asks_in_rounds() -> None:
    """Protects the whole way of a question: result, retry with state, result."""
    async with open_raw(make_server()) as raw:
        first = (await raw.modern("tools/call", CALL, **ROOTS_CAPABILITY))["result"]
        assert first["resultType"] == "input_required"
        assert first["inputRequests"] == {"roots": {"method": "roots/list"}}
        assert "ttlMs" not in first
        given = {"inputResponses": {"roots": ROOTS}, "requestState": first["requestState"]}
        second = await raw.modern("tools/call", {**CALL, **given}, **ROOTS_CAPABILITY)
        assert second["result"]["resultType"] == "complete"
        assert second["result"]["structuredContent"] == {"result": 1}


async def test_a_legacy_tool_asks_by_a_request() -> None:
    """Protects the same tool in a session: a request of the server's, and its response."""
    async with open_raw(make_server()) as raw:
        await raw.initialize("2025-06-18", {"roots": {}})
        await raw.send(raw.request_message("tools/call", CALL, id="call"))
        asked = await raw.receive()
        assert asked["method"] == "roots/list"
        await raw.send({"jsonrpc": "2.0", "id": asked["id"], "result": ROOTS})
        answer = await raw.answer_to("call")
        assert answer["result"]["structuredContent"] == {"result": 1}


async def test_tasks_of_a_tool_ask_in_one_result() -> None:
    """Protects nurseries in handlers from losing a question."""
    async with open_raw(make_server()) as raw:
        call = {"name": "ask_in_tasks", "arguments": {}}
        result = (await raw.modern("tools/call", call, **ROOTS_CAPABILITY))["result"]
        assert sorted(result["inputRequests"]) == ["a", "b"]


async def test_a_missing_capability_is_the_error_of_the_call() -> None:
    """Protects the modern rule: -32021 as an error and not as a tool's result."""
    async with open_raw(make_server()) as raw:
        error = await raw.error("tools/call", {"name": "insist", "arguments": {}})
        assert error["code"] == -32021
        assert error["data"] == {"requiredCapabilities": {"roots": {}}}


async def test_a_shielded_question_is_the_tools_error() -> None:
    """Protects the connection: the mistake is told, and the next call works."""
    async with open_raw(make_server()) as raw:
        call = {"name": "shielded", "arguments": {}}
        result = (await raw.modern("tools/call", call, **ROOTS_CAPABILITY))["result"]
        assert result["isError"]
        assert "out of reach" in result["content"][0]["text"]


@pytest.mark.parametrize(
    "given",
    [
        {"requestState": "forged"},
        {"inputResponses": {"roots": {"roots": "none"}}},
        {"inputResponses": 5},
    ],
)
async def test_bad_answers_are_invalid_params(given: dict[str, Any]) -> None:
    """Protects servers from what a client makes up."""
    call = {"name": "insist", "arguments": {}}
    given = {k: {"k": v["roots"]} if isinstance(v, dict) else v for k, v in given.items()}
    async with open_raw(make_server()) as raw:
        answer = await raw.modern("tools/call", {**call, **given}, **ROOTS_CAPABILITY)
        assert answer["error"]["code"] == -32602


async def test_states_open_in_another_worker_with_the_same_keys() -> None:
    """Protects servers behind one address: any of them may see the second round."""
    keys_ = ["k" * 32]
    async with open_raw(make_server(state_keys=keys_)) as raw:
        first = (await raw.modern("tools/call", CALL, **ROOTS_CAPABILITY))["result"]
    given = {"inputResponses": {"roots": ROOTS}, "requestState": first["requestState"]}
    for options, ok in (({"state_keys": keys_}, True), ({}, False)):
        async with open_raw(make_server(**options)) as raw:
            answer = await raw.modern("tools/call", {**CALL, **given}, **ROOTS_CAPABILITY)
            assert ("result" in answer) == ok


# Subscriptions


async def listen(raw: Raw, id: Any, **notifications: Any) -> dict[str, Any]:
    params = {"notifications": notifications, "_meta": MODERN_META}
    await raw.send(raw.request_message("subscriptions/listen", params, id=id))
    ack = await raw.receive()
    assert ack["method"] == "notifications/subscriptions/acknowledged"
    assert subscription_id(ack["params"]) == id
    granted: dict[str, Any] = ack["params"]["notifications"]
    return granted


async def test_listening_hears_of_what_the_server_changes() -> None:
    """Protects `add_tool` and `notify_resource_updated` all the way to the client."""
    server = make_server()
    async with open_raw(server) as raw:
        await listen(raw, "t", toolsListChanged=True)
        await listen(raw, "r", resourceSubscriptions=["memo://a"])
        server.add_tool(lambda: "new", name="new")
        server.notify_resource_updated("memo://a")
        server.notify_resource_updated("memo://b")
        seen = [await raw.receive(), await raw.receive()]
        assert sorted((m["method"], subscription_id(m["params"])) for m in seen) == [
            ("notifications/resources/updated", "r"),
            ("notifications/tools/list_changed", "t"),
        ]


async def test_a_client_ends_a_subscription() -> None:
    """Protects cancellation: no response, no more notifications, and the bus forgets it."""
    server = make_server()
    async with open_raw(server) as raw:
        await listen(raw, 7, toolsListChanged=True)
        cancel = {"method": "notifications/cancelled", "params": {"requestId": 7}}
        await raw.send({"jsonrpc": "2.0", **cancel})
        await wait_all_tasks_blocked()
        assert not server.bus._subscriptions
        server.add_tool(lambda: "new", name="new")
        assert (await raw.modern("tools/list"))["result"]["tools"]
        assert raw.received == []


async def test_a_server_ends_a_subscription() -> None:
    """Protects graceful shutdown: a cancellation, then the response with the same id."""
    server = make_server()
    async with open_raw(server) as raw:
        await listen(raw, 7, toolsListChanged=True)
        server.bus.end_subscriptions()
        cancelled, response = await raw.receive(), await raw.receive()
        assert cancelled["method"] == "notifications/cancelled"
        assert cancelled["params"]["requestId"] == 7
        assert response["id"] == 7
        assert response["result"]["resultType"] == "complete"
        assert subscription_id(response["result"]) == 7
        assert response["result"]["_meta"][keys.SERVER_INFO]["name"] == "asking"


async def test_legacy_clients_subscribe_per_resource() -> None:
    """Protects sessions: list changes for all, updates for who subscribed."""
    server = make_server()
    async with open_legacy(server) as raw:
        assert (await raw.request("resources/subscribe", {"uri": "memo://a"}))["result"] == {}
        server.notify_resource_updated("memo://a")
        server.notify_resource_updated("memo://b")
        server.add_tool(lambda: "new", name="new")
        seen = [await raw.receive(), await raw.receive()]
        assert [message["method"] for message in seen] == [
            "notifications/resources/updated",
            "notifications/tools/list_changed",
        ]
        await raw.request("resources/unsubscribe", {"uri": "memo://a"})
        server.notify_resource_updated("memo://a")
        await raw.request("ping")
        assert raw.received == []


async def test_a_rate_limit_answers_with_an_error(
    autojump_clock: trio.testing.MockClock,
) -> None:
    """Protects the middleware's place: a refused request reaches no handler."""
    async with open_raw(make_server(middleware=[RateLimit(1, burst=2)])) as raw:
        answers = [await raw.modern("tools/list") for _ in range(3)]
        assert ["result" in answer for answer in answers] == [True, True, False]
        assert answers[2]["error"]["code"] == 429
        await trio.sleep(1)
        assert "result" in await raw.modern("tools/list")
