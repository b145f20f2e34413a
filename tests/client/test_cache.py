"""Keeping results for as long as a server allows, and not a moment longer."""

from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any

import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

import mcp_trio
from mcp_trio.client.cache import MOST_RESULTS, ResultCache
from mcp_trio.exceptions import MCPError

from .scripted import (
    LEGACY_START,
    Answer,
    JSONObject,
    Scripted,
    Step,
    text_result,
)

HOUR = 3_600_000


def tools(*names: str, **hints: Any) -> JSONObject:
    listed = [{"name": name, "inputSchema": {"type": "object"}} for name in names]
    return {"resultType": "complete", "tools": listed, **hints}


def contents(text: str = "x", **hints: Any) -> JSONObject:
    return {"resultType": "complete", "contents": [{"uri": "a:1", "text": text}], **hints}


async def asked(server: Scripted, method: str, call: Callable[[], Awaitable[object]]) -> bool:
    """Whether a call reaches the server."""
    before = len(server.sent(method))
    await call()
    return len(server.sent(method)) > before


# How long


@pytest.mark.parametrize(
    ("hints", "kept"),
    [
        ({"ttlMs": 60_000}, True),
        ({"ttlMs": 60_000.5}, True),
        ({"ttlMs": 10**400}, True),
        ({"ttlMs": 0}, False),
        ({"ttlMs": -1}, False),
        ({}, False),
        ({"cacheScope": "public"}, False),
        ({"ttlMs": "60000"}, False),
        ({"ttlMs": True}, False),
        ({"ttlMs": None}, False),
    ],
)
async def test_a_result_is_kept_as_long_as_it_says(
    hints: JSONObject, kept: bool, autojump_clock: MockClock
) -> None:
    """ttlMs that is absent, negative or no number is 0: not kept at all."""
    server = Scripted({"tools/list": tools("a", **hints)})
    async with server.connect(cache=True) as client:
        await client.request("tools/list")
        await trio.sleep(59 if kept else 0)
        again = await asked(server, "tools/list", lambda: client.request("tools/list"))
    assert again is not kept


async def test_freshness_ends(autojump_clock: MockClock) -> None:
    """A minute is a minute: fresh before, asked for again after."""
    server = Scripted({"tools/list": tools("a", ttlMs=60_000)})
    async with server.connect(cache=True) as client:
        await client.list_tools()
        await trio.sleep(59.9)
        assert not await asked(server, "tools/list", client.list_tools)
        await trio.sleep(0.2)
        assert await asked(server, "tools/list", client.list_tools)


async def test_nothing_is_kept_unless_asked_for(autojump_clock: MockClock) -> None:
    """The cache is an option."""
    server = Scripted({"tools/list": tools("a", ttlMs=HOUR)})
    async with server.connect() as client:
        await client.list_tools()
        assert await asked(server, "tools/list", client.list_tools)


async def test_legacy_results_are_not_kept(autojump_clock: MockClock) -> None:
    """The legacy era has no such hints, whatever a result may hold."""
    server = Scripted({"tools/list": tools("a", ttlMs=HOUR)}, start=LEGACY_START)
    async with server.connect(cache=True) as client:
        await client.list_tools()
        assert await asked(server, "tools/list", client.list_tools)


# What counts as the same


async def test_the_key_is_method_and_parameters(autojump_clock: MockClock) -> None:
    """Another URI or cursor is another request; so are other `_meta` of the caller's own."""
    server = Scripted(
        {
            "resources/read": contents(ttlMs=HOUR),
            "resources/list": {"resources": [], "ttlMs": HOUR},
        }
    )
    async with server.connect(cache=True) as client:
        for method, params in (
            ("resources/read", {"uri": "a:1"}),
            ("resources/read", {"uri": "a:2"}),
            ("resources/read", {"uri": "a:2", "_meta": {"acme/user": "x"}}),
            ("resources/list", {}),
            ("resources/list", {"cursor": ""}),
            ("resources/list", {"cursor": "x"}),
        ):
            call = partial(client.request, method, params)
            assert await asked(server, method, call)
            assert not await asked(server, method, call)


async def test_the_order_of_parameters_does_not_matter(autojump_clock: MockClock) -> None:
    """Parameters are a JSON object: their order says nothing."""
    server = Scripted({"tools/list": tools("a", ttlMs=HOUR)})
    async with server.connect(cache=True) as client:
        await client.request("tools/list", {"x": 1, "cursor": "c"})
        assert not await asked(
            server, "tools/list", lambda: client.request("tools/list", {"cursor": "c", "x": 1})
        )


def test_results_of_another_authorization_are_not_ours() -> None:
    """A cache stands for one authorization; two of them share nothing."""

    async def check() -> None:
        one, two = ResultCache("alice"), ResultCache("bob")
        ticket, other = one.ticket("tools/list", {}), two.ticket("tools/list", {})
        assert ticket is not None
        assert other is not None
        assert ticket.key != other.key
        one.put(ticket, tools("a", ttlMs=HOUR))
        assert one.get(ticket) is not None
        assert one.get(other) is None

    trio.run(check)


@pytest.mark.parametrize("method", ["tools/call", "prompts/get", "completion/complete", "acme/x"])
async def test_only_cacheable_methods_are_kept(method: str, autojump_clock: MockClock) -> None:
    """A call of a tool is made each time, whatever its result says."""
    server = Scripted({method: text_result(ttlMs=HOUR)})
    async with server.connect(cache=True) as client:
        await client.request(method)
        assert await asked(server, method, lambda: client.request(method))


async def test_a_ping_is_never_answered_from_memory(autojump_clock: MockClock) -> None:
    """It asks whether the server is there now."""
    start: dict[str, Step | list[Step]] = {}
    server = Scripted(start)
    discover = server.steps["server/discover"]
    assert isinstance(discover, dict)
    server.steps["server/discover"] = {**discover, "ttlMs": HOUR}
    async with server.connect(cache=True) as client:
        await client.ping()
        assert await asked(server, "server/discover", client.ping)


async def test_lists_are_kept_page_by_page(autojump_clock: MockClock) -> None:
    """Each page has its own time; a stale one is fetched again by its cursor, and it alone."""

    async def step(server: Scripted, request: JSONObject) -> Answer:
        if request["params"].get("cursor") is None:
            return tools("a", ttlMs=HOUR, nextCursor="2")
        return tools("b", ttlMs=1000)

    server = Scripted({"tools/list": step})
    async with server.connect(cache=True) as client:
        for _ in range(3):
            assert [tool.name for tool in await client.list_tools()] == ["a", "b"]
            await trio.sleep(2)
    cursors = [request["params"].get("cursor") for request in server.sent("tools/list")]
    assert cursors == [None, "2", "2", "2"]


async def test_a_refused_cursor_drops_the_pages_that_led_to_it(autojump_clock: MockClock) -> None:
    """The next list starts from its beginning, since the kept first page led nowhere."""
    pages: list[Step] = [
        tools("a", ttlMs=HOUR, nextCursor="old"),
        MCPError(-32602, "Invalid cursor"),
        tools("b", ttlMs=HOUR),
    ]
    server = Scripted({"tools/list": pages})
    async with server.connect(cache=True) as client:
        with pytest.raises(MCPError, match="Invalid cursor"):
            await client.list_tools()
        assert [tool.name for tool in await client.list_tools()] == ["b"]


# Answers to questions


async def test_results_that_carried_answers_are_not_kept(autojump_clock: MockClock) -> None:
    """They depend on what is not in the key: the answers, or the server's state."""
    form = {"message": "?", "requestedSchema": {"type": "object", "properties": {}}}
    questions = {"q": {"method": "elicitation/create", "params": form}}
    for asking in (
        {"resultType": "input_required", "inputRequests": questions, "ttlMs": HOUR},
        {"resultType": "input_required", "requestState": "s", "ttlMs": HOUR},
    ):
        rounds: list[Step] = [asking, contents("after", ttlMs=HOUR)] * 2
        server = Scripted({"resources/read": rounds})
        async with server.connect(cache=True, on_elicit=lambda _: {}) as client:
            await client.read_resource("a:1")
            await client.read_resource("a:1")
        assert len(server.sent("resources/read")) == 4


@pytest.mark.parametrize("extra", [{"requestState": "s"}, {"inputResponses": {}}])
async def test_nor_are_those_that_the_caller_carried(
    extra: JSONObject, autojump_clock: MockClock
) -> None:
    """Neither looked up nor put there."""
    server = Scripted({"resources/read": contents(ttlMs=HOUR)})
    async with server.connect(cache=True) as client:
        await client.request("resources/read", {"uri": "a:1"})
        for _ in range(2):
            assert await asked(
                server,
                "resources/read",
                lambda: client.request("resources/read", {"uri": "a:1", **extra}),
            )


# Changes

STALE = [
    ("notifications/tools/list_changed", {}, {"tools/list"}),
    ("notifications/prompts/list_changed", {}, {"prompts/list"}),
    (
        "notifications/resources/list_changed",
        {},
        {"resources/list", "resources/templates/list"},
    ),
    ("notifications/resources/updated", {"uri": "a:1"}, {"resources/read a:1"}),
    ("notifications/resources/updated", {"uri": "a:1/deeper"}, {"resources/read a:1"}),
    ("notifications/resources/updated", {"uri": "a:12"}, set()),
    ("notifications/message", {"level": "info", "data": 1}, set()),
]


@pytest.mark.parametrize(("notification", "params", "stale"), STALE)
async def test_a_notification_makes_stale_what_it_is_about(
    notification: str, params: JSONObject, stale: set[str], autojump_clock: MockClock
) -> None:
    """What changed is asked for again, and everything else is as fresh as it was."""
    calls: dict[str, JSONObject] = {
        "tools/list": {},
        "prompts/list": {},
        "resources/list": {},
        "resources/templates/list": {},
        "resources/read a:1": {"uri": "a:1"},
        "resources/read a:2": {"uri": "a:2"},
    }
    server = Scripted({call.split()[0]: {"ttlMs": HOUR} for call in calls})
    async with server.connect(cache=True) as client:
        for call, arguments in calls.items():
            await client.request(call.split()[0], arguments)
        await server.notify(notification, params)
        await wait_all_tasks_blocked()
        again = set()
        for call, arguments in calls.items():
            method = call.split()[0]
            if await asked(server, method, partial(client.request, method, arguments)):
                again.add(call)
    assert again == stale


async def test_a_result_that_a_change_overtakes_is_not_kept(autojump_clock: MockClock) -> None:
    """Answer and notification arrive together, the answer first: it was stale when it was kept."""

    async def step(server: Scripted, request: JSONObject) -> Answer:
        await server.send(
            {"jsonrpc": "2.0", "id": request["id"], "result": tools("old", ttlMs=HOUR)},
            {"jsonrpc": "2.0", "method": "notifications/tools/list_changed"},
        )
        return None

    server = Scripted({"tools/list": [step, tools("new", ttlMs=HOUR)]})
    async with server.connect(cache=True) as client:
        assert [tool.name for tool in await client.list_tools()] == ["old"]
        assert [tool.name for tool in await client.list_tools()] == ["new"]


# Values and bounds


async def test_a_kept_result_cannot_be_changed_from_outside(autojump_clock: MockClock) -> None:
    """Neither by who got it first, nor by who gets it from here."""
    server = Scripted({"tools/list": tools("a", ttlMs=HOUR)})
    async with server.connect(cache=True) as client:
        for _ in range(3):
            result = await client.request("tools/list")
            assert result["tools"][0]["inputSchema"] == {"type": "object"}
            result["tools"][0]["inputSchema"]["type"] = "spoilt"


async def test_any_json_can_be_kept(autojump_clock: MockClock) -> None:
    """The deepest nesting, big integers and what UTF-8 has come back as they were."""
    deep: Any = []
    for _ in range(500):
        deep = [deep]
    result = tools(ttlMs=HOUR, deep=deep, big=10**100, text="\u2028😀\0")
    server = Scripted({"tools/list": result})
    async with server.connect(cache=True) as client:
        for _ in range(2):
            assert await client.request("tools/list") == result
    assert len(server.sent("tools/list")) == 1


async def test_what_cannot_be_sent_is_not_looked_up(autojump_clock: MockClock) -> None:
    """It fails as it does without a cache."""
    async with Scripted({"tools/list": tools(ttlMs=HOUR)}).connect(cache=True) as client:
        with pytest.raises(ValueError, match="cannot be sent as JSON"):
            await client.request("tools/list", {"x": object()})


async def test_the_number_of_results_is_bounded(autojump_clock: MockClock) -> None:
    """Beyond it goes what was used least recently."""
    cache = ResultCache()
    tickets = [cache.ticket("resources/read", {"uri": str(n)}) for n in range(MOST_RESULTS + 1)]
    for ticket in tickets[:-1]:
        assert ticket is not None
        cache.put(ticket, contents(ttlMs=HOUR))
    first, second, last = tickets[0], tickets[1], tickets[-1]
    assert first is not None
    assert second is not None
    assert last is not None
    assert cache.get(first) is not None
    cache.put(last, contents(ttlMs=HOUR))
    assert cache.get(first) is not None
    assert cache.get(second) is None
    assert cache.get(last) is not None


async def test_an_answer_from_memory_is_a_checkpoint(autojump_clock: MockClock) -> None:
    """Cancelled, it does not answer."""
    async with Scripted({"tools/list": tools(ttlMs=HOUR)}).connect(cache=True) as client:
        await client.list_tools()
        with trio.CancelScope() as scope:
            scope.cancel()
            await client.list_tools()
        assert scope.cancelled_caught


async def test_hints_of_our_own_server_are_heeded(autojump_clock: MockClock) -> None:
    """End to end: a server's cache hints spare the client the request."""
    hints = {"resources/read": mcp_trio.CacheHint(ttl=60)}
    server = mcp_trio.Server("kept", cache_hints=hints)
    calls: list[str] = []

    @server.resource("memo://today")
    def today() -> str:
        calls.append("read")
        return "x"

    async with mcp_trio.open_client(server, cache=True) as client:
        await client.read_resource("memo://today")
        await client.read_resource("memo://today")
        assert calls == ["read"]
        await trio.sleep(61)
        await client.read_resource("memo://today")
    assert calls == ["read", "read"]
