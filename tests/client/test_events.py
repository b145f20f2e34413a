"""Hearing of changes, in both eras."""

from collections.abc import Awaitable, Callable
from typing import Any

import pytest
import trio
from trio.testing import MockClock, assert_checkpoints, wait_all_tasks_blocked

import mcp_trio
from mcp_trio import (
    PromptsChanged,
    ResourcesChanged,
    ResourceUpdated,
    Server,
    ToolsChanged,
)
from mcp_trio.client.events import MOST_PENDING, Event, Events, Granted, is_within
from mcp_trio.exceptions import ConnectionClosed, MCPError, ProtocolError, RequestTimeout
from mcp_trio.protocol import meta as keys
from mcp_trio.testing.cancellation import exhaustive_cancellation

from .scripted import (
    LEGACY_START,
    MODERN_START,
    NOT_FOUND,
    SILENCE,
    Answer,
    JSONObject,
    Scripted,
    Step,
    initialized,
    unsupported,
)

Start = dict[str, Step | list[Step]]
ALL = {"tools": True, "prompts": True, "resources": True}


def tagged(id: Any, params: JSONObject | None = None) -> JSONObject:
    return {**(params or {}), "_meta": {keys.SUBSCRIPTION_ID: id}}


async def acknowledge(server: Scripted, request: JSONObject, granted: Any = ...) -> None:
    """Agree to what was asked, or to something else."""
    if granted is ...:
        granted = request["params"]["notifications"]
    params = tagged(request["id"], {"notifications": granted})
    await server.notify("notifications/subscriptions/acknowledged", params)


async def agree(server: Scripted, request: JSONObject) -> Answer:
    await acknowledge(server, request)
    return SILENCE


async def changed(server: Scripted, what: str, id: Any = None) -> None:
    params = {} if id is None else tagged(id)
    await server.notify(f"notifications/{what}/list_changed", params)


async def updated(server: Scripted, uri: str, id: Any = None) -> None:
    params = {"uri": uri}
    await server.notify(
        "notifications/resources/updated", params if id is None else tagged(id, params)
    )


def modern(step: Step = agree) -> Scripted:
    return Scripted({"subscriptions/listen": step})


def legacy(**steps: Step | list[Step]) -> Scripted:
    ours: Start = {
        "resources/subscribe": {},
        "resources/unsubscribe": {},
        **{name.replace("_", "/"): step for name, step in steps.items()},
    }
    return Scripted(ours, start=LEGACY_START)


async def next_of(events: Events, count: int) -> list[Event]:
    return [await events.__anext__() for _ in range(count)]


# The subscription itself


async def test_a_modern_subscription_is_a_request_that_stays_open(
    autojump_clock: MockClock,
) -> None:
    """The filter holds what was asked, and nothing else; leaving the block cancels it."""
    server = modern()
    async with server.connect() as client:
        async with client.listen(tools=True, uris=["b:2", "a:1"]) as events:
            assert events.granted == Granted(tools=True, uris=frozenset({"a:1", "b:2"}))
            assert server.methods[-1] == "subscriptions/listen"
        cancelled = await server.wait_for("notifications/cancelled")
    (request,) = server.sent("subscriptions/listen")
    assert request["params"]["notifications"] == {
        "toolsListChanged": True,
        "resourceSubscriptions": ["a:1", "b:2"],
    }
    assert request["params"]["_meta"][keys.PROTOCOL_VERSION] == "2026-07-28"
    assert cancelled["params"]["requestId"] == request["id"]


@pytest.mark.parametrize(
    ("answer", "granted"),
    [
        ({"toolsListChanged": True}, Granted(tools=True)),
        ({"resourceSubscriptions": ["a:1"]}, Granted(uris=frozenset({"a:1"}))),
        ({}, Granted()),
        (None, Granted()),
        ("everything", Granted()),
        (
            {"toolsListChanged": "yes", "resourceSubscriptions": [1, "a:1"]},
            Granted(uris=frozenset({"a:1"})),
        ),
    ],
)
async def test_a_server_may_agree_to_less(
    answer: Any, granted: Granted, autojump_clock: MockClock
) -> None:
    """`granted` says what it agreed to; what is malformed in it was not agreed to."""

    async def step(server: Scripted, request: JSONObject) -> Answer:
        await acknowledge(server, request, answer)
        return SILENCE

    async with modern(step).connect() as client, client.listen(**ALL, uris=["a:1"]) as events:
        assert events.granted == granted


@pytest.mark.parametrize(
    ("capabilities", "granted"),
    [
        ({}, Granted()),
        ({"tools": {}, "resources": {"listChanged": True}}, Granted(resources=True)),
        ({"tools": {"listChanged": True}}, Granted(tools=True)),
        ({"resources": {"subscribe": True}}, Granted(uris=frozenset({"a:1"}))),
    ],
)
async def test_a_legacy_server_tells_what_it_declares(
    capabilities: JSONObject, granted: Granted, autojump_clock: MockClock
) -> None:
    """What it does not declare is not granted, nor asked for."""
    server = legacy(initialize=initialized(capabilities=capabilities))
    async with server.connect() as client, client.listen(**ALL, uris=["a:1"]) as events:
        assert events.granted == granted
    assert len(server.sent("resources/subscribe")) == len(granted.uris)


async def test_one_uri_is_no_list_of_characters(autojump_clock: MockClock) -> None:
    """A string where URIs are expected is a mistake that is named."""
    async with modern().connect() as client:
        with pytest.raises(TypeError, match=r"did you mean \['a:1'\]"):
            async with client.listen(uris="a:1"):
                raise AssertionError("unreachable")


@pytest.mark.parametrize("answer", [NOT_FOUND, unsupported("2099-01-01")])
async def test_a_subscription_that_is_refused(answer: MCPError, autojump_clock: MockClock) -> None:
    """The server's error leaves `listen`, and the connection goes on."""
    async with modern(answer).connect() as client:
        with pytest.raises(MCPError) as caught:
            async with client.listen(tools=True):
                raise AssertionError("unreachable")
        assert caught.value.code == answer.code
        assert not client.closed


async def test_a_legacy_subscription_that_is_refused(autojump_clock: MockClock) -> None:
    """It leaves `listen` too; what was subscribed to before it is given back, it is not."""
    server = legacy(resources_subscribe=[{}, MCPError(-32002, "Resource not found")])
    async with server.connect() as client:
        with pytest.raises(MCPError, match="Resource not found"):
            async with client.listen(uris=["a:1", "b:2"]):
                raise AssertionError("unreachable")
        await server.wait_for("resources/unsubscribe")
    assert [r["params"]["uri"] for r in server.sent("resources/unsubscribe")] == ["a:1"]


async def test_waiting_for_the_acknowledgement_has_the_clients_timeout(
    autojump_clock: MockClock,
) -> None:
    """A server that says nothing is given up as with any request, and told so."""
    server = modern(SILENCE)
    async with server.connect(timeout=4) as client:
        with pytest.raises(RequestTimeout, match="subscriptions/listen"):
            async with client.listen(tools=True):
                raise AssertionError("unreachable")
        await server.wait_for("notifications/cancelled")


# Events


async def test_all_kinds_of_events(autojump_clock: MockClock) -> None:
    """Each notification is the event of its kind, in the order in which they came."""

    async def step(server: Scripted, request: JSONObject) -> Answer:
        id = request["id"]
        await acknowledge(server, request)
        await changed(server, "prompts", id)
        await updated(server, "a:1", id)
        await changed(server, "tools", id)
        await changed(server, "resources", id)
        return SILENCE

    async with modern(step).connect() as client, client.listen(**ALL, uris=["a:1"]) as events:
        assert await next_of(events, 4) == [
            PromptsChanged(),
            ResourceUpdated("a:1"),
            ToolsChanged(),
            ResourcesChanged(),
        ]


async def test_equal_events_that_nobody_has_read_are_one(autojump_clock: MockClock) -> None:
    """A reader that is away finds one event for a thousand changes, and none is missed after it."""
    server = modern()
    async with server.connect() as client, client.listen(tools=True, uris=["a:1"]) as events:
        id = server.sent("subscriptions/listen")[0]["id"]
        for _ in range(1000):
            await changed(server, "tools", id)
            await updated(server, "a:1", id)
        await wait_all_tasks_blocked()
        assert await next_of(events, 2) == [ToolsChanged(), ResourceUpdated("a:1")]
        with trio.move_on_after(1) as scope:
            await events.__anext__()
        assert scope.cancelled_caught
        await changed(server, "tools", id)
        assert await events.__anext__() == ToolsChanged()


async def test_events_before_the_acknowledgement_count(autojump_clock: MockClock) -> None:
    """A server in a hurry breaks the order of the protocol, but nothing is lost by it."""

    async def step(server: Scripted, request: JSONObject) -> Answer:
        await changed(server, "tools", request["id"])
        await acknowledge(server, request)
        return SILENCE

    async with modern(step).connect() as client, client.listen(tools=True) as events:
        assert await events.__anext__() == ToolsChanged()


async def test_what_was_not_asked_for_does_not_come(autojump_clock: MockClock) -> None:
    """Whatever a server sends: a subscription has the events that were agreed on."""

    async def step(server: Scripted, request: JSONObject) -> Answer:
        await acknowledge(server, request)
        for what in ("prompts", "resources", "tools"):
            await changed(server, what, request["id"])
        await updated(server, "c:3", request["id"])
        await server.notify("notifications/resources/updated", tagged(request["id"], {"uri": 3}))
        return {}

    async with (
        modern(step).connect() as client,
        client.listen(tools=True, uris=["a:1"]) as events,
    ):
        assert [event async for event in events] == [ToolsChanged()]


async def test_updates_within_a_resource(autojump_clock: MockClock) -> None:
    """A server may name a sub-resource of what was subscribed to."""

    async def step(server: Scripted, request: JSONObject) -> Answer:
        await acknowledge(server, request)
        for uri in ("file:///a/b", "file:///ab", "file:///a#x", "file:///a"):
            await updated(server, uri, request["id"])
        return {}

    async with modern(step).connect() as client, client.listen(uris=["file:///a"]) as events:
        seen = [event async for event in events]
    assert seen == [ResourceUpdated(f"file:///a{rest}") for rest in ("/b", "#x", "")]


def test_what_is_within_what() -> None:
    """By path, query or fragment, not by the mere beginning of a text."""
    assert is_within("a:b/c", "a:b")
    assert is_within("a:b/c", "a:b/")
    assert is_within("a:b?c", "a:b")
    assert is_within("a:b", "a:b")
    assert not is_within("a:bc", "a:b")
    assert not is_within("a:", "a:b")


def test_unread_events_are_bounded() -> None:
    """A server that invents sub-resources without end fills no memory, and no change is lost."""
    events = Events(Granted(tools=True, uris=frozenset({"a:"})))
    for n in range(MOST_PENDING + 50):
        events.put(ResourceUpdated(f"a:/{n}"))
    events.put(ToolsChanged())
    assert len(events._pending) == MOST_PENDING + 2
    assert ResourceUpdated("a:") in events._pending
    assert ToolsChanged() in events._pending


# Several subscriptions


async def test_interleaved_subscriptions(autojump_clock: MockClock) -> None:
    """Modern notifications name their subscription; each finds its own and no other."""
    server = modern()
    async with (
        server.connect() as client,
        client.listen(tools=True, prompts=True) as first,
        client.listen(tools=True, uris=["a:1"]) as second,
    ):
        one, two = (request["id"] for request in server.sent("subscriptions/listen"))
        await changed(server, "tools", two)
        await changed(server, "prompts", one)
        await updated(server, "a:1", two)
        assert await next_of(first, 1) == [PromptsChanged()]
        assert await next_of(second, 2) == [ToolsChanged(), ResourceUpdated("a:1")]
        # One that belongs to neither, and one whose id is like another but not the same.
        await changed(server, "tools", 999)
        await changed(server, "tools", str(one))
        await changed(server, "tools", float(one))
        await wait_all_tasks_blocked()
        assert not first._pending
        await changed(server, "tools", one)
        assert await next_of(first, 1) == [ToolsChanged()]
        assert not second._pending


async def test_acknowledgements_find_their_subscription(autojump_clock: MockClock) -> None:
    """Two are opened at once, and the second is acknowledged first."""
    requests: list[JSONObject] = []

    async def step(server: Scripted, request: JSONObject) -> Answer:
        requests.append(request)
        if len(requests) == 2:
            await acknowledge(server, requests[1], {"promptsListChanged": True})
            await acknowledge(server, requests[0], {"toolsListChanged": True})
        return SILENCE

    granted: list[Granted] = []

    async def listen(client: mcp_trio.Client) -> None:
        async with client.listen(tools=True, prompts=True) as events:
            granted.append(events.granted)

    async with modern(step).connect() as client, trio.open_nursery() as nursery:
        nursery.start_soon(listen, client)
        nursery.start_soon(listen, client)
    assert sorted(granted, key=lambda g: g.tools) == [Granted(prompts=True), Granted(tools=True)]


async def test_a_legacy_notification_is_for_everyone_who_wants_it(
    autojump_clock: MockClock,
) -> None:
    """It names nobody; each subscription takes what it asked for."""
    server = legacy()
    async with (
        server.connect() as client,
        client.listen(tools=True) as first,
        client.listen(tools=True, uris=["a:1"]) as second,
    ):
        await changed(server, "prompts")
        await changed(server, "tools")
        await updated(server, "a:1")
        assert await next_of(second, 2) == [ToolsChanged(), ResourceUpdated("a:1")]
        assert await next_of(first, 1) == [ToolsChanged()]
        assert not first._pending


async def test_legacy_subscriptions_are_shared(autojump_clock: MockClock) -> None:
    """One subscribe and one unsubscribe for a resource, however many listen to it."""
    server = legacy()
    async with server.connect() as client:
        async with client.listen(uris=["a:1"]):
            async with client.listen(uris=["a:1", "b:2"]):
                pass
            await wait_all_tasks_blocked()
            assert [r["params"]["uri"] for r in server.sent("resources/unsubscribe")] == ["b:2"]
        async with client.listen(uris=["a:1"]):
            pass
    assert server.methods[3:] == [
        "resources/subscribe",
        "resources/subscribe",
        "resources/unsubscribe",
        "resources/unsubscribe",
        "resources/subscribe",
        "resources/unsubscribe",
    ]


async def test_a_cancelled_subscription_takes_nobody_elses_away(autojump_clock: MockClock) -> None:
    """Two want one resource; the one that was asking is cancelled: the other asks itself."""

    async def slow(server: Scripted, request: JSONObject) -> Answer:
        await trio.sleep(10)
        return {}

    server = legacy(resources_subscribe=slow)
    heard: list[Event] = []

    async def cancelled(client: mcp_trio.Client) -> None:
        with trio.move_on_after(5):
            async with client.listen(uris=["a:1"]):
                raise AssertionError("unreachable")

    async def listen(client: mcp_trio.Client) -> None:
        await trio.sleep(1)
        async with client.listen(uris=["a:1"]) as events:
            await updated(server, "a:1")
            heard.append(await events.__anext__())

    async with server.connect() as client, trio.open_nursery() as nursery:
        nursery.start_soon(cancelled, client)
        nursery.start_soon(listen, client)
    assert heard == [ResourceUpdated("a:1")]
    assert server.methods[3:] == [
        "resources/subscribe",
        "notifications/cancelled",
        "resources/unsubscribe",  # it may have been subscribed already, and servers count
        "resources/subscribe",
        "resources/unsubscribe",
    ]


async def test_a_refused_subscription_is_asked_for_by_each(autojump_clock: MockClock) -> None:
    """That one was refused does not make the next one think that it is subscribed."""
    server = legacy(resources_subscribe=[MCPError(-32002, "not yet"), {}])
    async with server.connect() as client:
        with pytest.raises(MCPError):
            async with client.listen(uris=["a:1"]):
                raise AssertionError("unreachable")
        async with client.listen(uris=["a:1"]):
            pass
    assert server.methods[3:] == [
        "resources/subscribe",
        "resources/subscribe",
        "resources/unsubscribe",
    ]


# Its end


async def cancelled_by_server(server: Scripted, request: JSONObject) -> Answer:
    await server.notify("notifications/cancelled", {"requestId": request["id"]})
    return SILENCE


async def completed_by_server(server: Scripted, request: JSONObject) -> Answer:
    return tagged(request["id"], {"resultType": "complete"})


async def both_by_server(server: Scripted, request: JSONObject) -> Answer:
    await cancelled_by_server(server, request)
    return {}


@pytest.mark.parametrize("end", [cancelled_by_server, completed_by_server, both_by_server])
async def test_a_server_may_end_a_subscription(
    end: Callable[[Scripted, JSONObject], Awaitable[Answer]], autojump_clock: MockClock
) -> None:
    """By a notification, a response or both: a normal end, after the events that came before."""

    async def step(server: Scripted, request: JSONObject) -> Answer:
        await acknowledge(server, request)
        await changed(server, "tools", request["id"])
        return await end(server, request)

    noise: list[str] = []
    server = modern(step)
    async with server.connect(on_noise=lambda line, why: noise.append(why)) as client:
        async with client.listen(tools=True) as events:
            assert [event async for event in events] == [ToolsChanged()]
            assert [event async for event in events] == []
        await client.ping()
    assert noise == []
    assert server.sent("notifications/cancelled") == []


async def test_a_server_that_ends_a_subscription_before_it_begins(
    autojump_clock: MockClock,
) -> None:
    """Nothing was granted, and nothing comes; that is no error."""
    async with modern({}).connect() as client, client.listen(tools=True) as events:
        assert events.granted == Granted()
        assert [event async for event in events] == []


@pytest.mark.parametrize(
    ("end", "error"),
    [
        (MCPError(-32603, "sorry"), MCPError),
        ({"resultType": "input_required"}, ProtocolError),
        ({"resultType": "novel"}, ProtocolError),
    ],
)
async def test_a_subscription_that_fails(
    end: Answer, error: type[Exception], autojump_clock: MockClock
) -> None:
    """An error, or a result that is none, is raised by the iterator, each time afresh."""

    async def step(server: Scripted, request: JSONObject) -> Answer:
        await acknowledge(server, request)
        return end

    async with modern(step).connect() as client, client.listen(tools=True) as events:
        failures = []
        for _ in range(2):
            with pytest.raises(error) as caught:
                await events.__anext__()
            failures.append(caught.value)
        assert failures[0] is not failures[1]


@pytest.mark.parametrize("start", [MODERN_START, LEGACY_START], ids=["modern", "legacy"])
async def test_death_ends_every_subscription(start: Start, autojump_clock: MockClock) -> None:
    """Events that came before are read first; then each iterator raises, also one that waits."""
    steps: Start = {"subscriptions/listen": agree, "resources/subscribe": {}}
    server = Scripted(steps, start=start)
    waiting = trio.Event()

    async def wait(client: mcp_trio.Client) -> None:
        async with client.listen(prompts=True) as events:
            waiting.set()
            with pytest.raises(ConnectionClosed, match="the peer closed the connection"):
                await events.__anext__()

    async with server.connect() as client, trio.open_nursery() as nursery:
        nursery.start_soon(wait, client)
        await waiting.wait()
        async with client.listen(tools=True, uris=["a:1"]) as events:
            ids = [request["id"] for request in server.sent("subscriptions/listen")]
            await changed(server, "tools", ids[1] if ids else None)
            await server.close()
            await wait_all_tasks_blocked()
            assert client.closed
            assert await events.__anext__() == ToolsChanged()
            for _ in range(2):
                with pytest.raises(ConnectionClosed):
                    await events.__anext__()
        with pytest.raises(ConnectionClosed):
            async with client.listen(tools=True):
                raise AssertionError("unreachable")


@pytest.mark.parametrize("start", [MODERN_START, LEGACY_START], ids=["modern", "legacy"])
async def test_leaving_the_block_ends_the_iterator(start: Start, autojump_clock: MockClock) -> None:
    """A task that still waits for events is let go, and so is one that looks later."""
    server = Scripted({"subscriptions/listen": agree}, start=start)
    seen: list[object] = []

    async def read(events: Events) -> None:
        seen.extend([event async for event in events])
        seen.append("end")

    async with (
        server.connect() as client,
        trio.open_nursery() as nursery,
        client.listen(tools=True) as events,
    ):
        nursery.start_soon(read, events)
        await wait_all_tasks_blocked()
    assert seen == ["end"]
    assert [event async for event in events] == []


@pytest.mark.parametrize("start", [MODERN_START, LEGACY_START], ids=["modern", "legacy"])
async def test_closing_the_client_ends_subscriptions_in_other_tasks(
    start: Start, autojump_clock: MockClock
) -> None:
    """The connection's end at this side is one as well."""
    server = Scripted({"subscriptions/listen": agree}, start=start)

    async def wait(client: mcp_trio.Client, task_status: trio.TaskStatus[None]) -> None:
        async with client.listen(tools=True) as events:
            task_status.started()
            with pytest.raises(ConnectionClosed, match="closed at this end"):
                await events.__anext__()

    async with trio.open_nursery() as nursery, server.connect() as client:
        await nursery.start(wait, client)


# Cancellation


async def test_cancelling_a_reader_loses_no_event(autojump_clock: MockClock) -> None:
    """Whenever the reader is cancelled: what it did not get, the next one does."""
    for moment in range(6):
        events = Events(Granted(tools=True))

        async def read(got: list[Event], events: Events = events) -> None:
            got.append(await events.__anext__())

        got: list[Event] = []
        async with trio.open_nursery() as nursery:
            nursery.start_soon(read, got)
            for step in range(6):
                if step == moment:
                    nursery.cancel_scope.cancel()
                if step == 3:
                    events.put(ToolsChanged())
                with trio.CancelScope(shield=True):
                    await trio.lowlevel.checkpoint()
        if not got:
            events.put(ToolsChanged()) if moment < 3 else None
            with trio.fail_after(1):
                assert await events.__anext__() == ToolsChanged()


async def test_several_tasks_may_share_the_events(autojump_clock: MockClock) -> None:
    """Each event goes to one of them; the one that comes too late waits for the next."""
    events = Events(Granted(tools=True, prompts=True))
    got: list[Event] = []

    async def read() -> None:
        async for event in events:
            got.append(event)

    async with trio.open_nursery() as nursery:
        events.put(ToolsChanged())
        for _ in range(3):
            nursery.start_soon(read)
        await wait_all_tasks_blocked()
        events.put(PromptsChanged())
        await wait_all_tasks_blocked()
        events.end()
    assert got == [ToolsChanged(), PromptsChanged()]


async def test_reading_events_is_a_checkpoint(autojump_clock: MockClock) -> None:
    """Also where one is there already, and it is not lost to a cancellation."""
    events = Events(Granted(tools=True))
    events.put(ToolsChanged())
    with trio.CancelScope() as scope:
        scope.cancel()
        await events.__anext__()
    assert scope.cancelled_caught
    with assert_checkpoints():
        assert await events.__anext__() == ToolsChanged()


async def test_the_first_end_counts(autojump_clock: MockClock) -> None:
    """A subscription that the server ended does not fail later, when the connection ends."""
    events = Events(Granted(tools=True))
    events.end()
    events.end(ConnectionClosed("later"))
    assert [event async for event in events] == []


@pytest.mark.parametrize("mode", ["modern", "legacy"])
def test_cancellation_anywhere(mode: str) -> None:
    """Connecting, listening, hearing and leaving, cancelled at each step, leave nothing behind."""

    async def scenario() -> None:
        server = Server("changing")
        server.add_resource("memo://today", lambda: "x", name="today")
        async with (
            mcp_trio.open_client(server, mode=mode) as client,
            client.listen(tools=True, uris=["memo://today"]) as events,
        ):
            server.add_tool(lambda: "new", name="new")
            server.notify_resource_updated("memo://today")
            await next_of(events, 2)

    steps = exhaustive_cancellation(scenario)
    print(f"{mode}: {steps} task steps tried")
    assert steps > 20
