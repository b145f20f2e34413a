"""Coming back to a stream: after a cut, after the server hung up, after nothing at all."""

import json
from typing import Any

import pytest
import trio
import trio.testing

from mcp_trio import Context, Server
from mcp_trio.server.http.events import MemoryEventStore
from tests.server.http.web import FakeExchange, LegacyClient, open_web

Clock = trio.testing.MockClock


def make_server() -> Server:
    server = Server("s")

    @server.tool()
    async def count(upto: int, ctx: Context) -> str:
        for n in range(upto):
            await ctx.report_progress(n + 1)
            await trio.sleep(1)
        return "counted"

    @server.tool()
    async def sleep(seconds: float) -> str:
        await trio.sleep(seconds)
        return "slept"

    @server.tool()
    async def hang_up(ctx: Context, retry: float = 2.5) -> str:
        await ctx.close_stream(retry)
        await trio.sleep(10)
        await ctx.report_progress(1)
        return "done"

    return server


async def cut(exchange: FakeExchange, events: int) -> tuple[str, list[float]]:
    """Read some events, then lose the connection; gives the last id and the progress seen."""
    last, seen = "", []
    for _ in range(events):
        event = await exchange.event()
        last = event.id or last
        if event.data:
            seen.append(json.loads(event.data)["params"]["progress"])
    exchange.leave()
    await exchange.done.wait()
    return last, seen


@pytest.mark.parametrize("version", ["2025-03-26", "2025-06-18", "2025-11-25"])
@pytest.mark.parametrize("pause", [0.0, 100.0])
async def test_a_cut_stream_goes_on(version: str, pause: float, autojump_clock: Clock) -> None:
    """After a cut the client gets what it missed, and no more, before or after the answer."""
    async with open_web(make_server()) as web:
        client = await web.initialize(version)
        primed = version == "2025-11-25"
        exchange = client.call("count", {"upto": 5}, token="t")
        last, seen = await cut(exchange, 2 + primed)
        assert seen == [1, 2]
        await trio.sleep(pause)
        *progress, result = await client.get(last).messages()
        assert [message["params"]["progress"] for message in progress] == [3, 4, 5]
        assert result["result"]["content"][0]["text"] == "counted"


async def test_the_first_message_can_be_missed(autojump_clock: Clock) -> None:
    """What made the response a stream is kept as well."""
    async with open_web(make_server()) as web:
        client = await web.initialize()
        last, _ = await cut(client.call("count", {"upto": 2}, token="t"), 1)
        *progress, _result = await client.get(last).messages()
        assert [message["params"]["progress"] for message in progress] == [1, 2]


async def test_an_event_that_was_not_sent_yet(autojump_clock: Clock) -> None:
    """A number that is too large does not make the session deaf."""
    server = make_server()
    async with open_web(server) as web:
        client = await web.initialize()
        exchange = client.get()
        id = (await exchange.event()).id
        assert id is not None
        exchange.leave()
        await exchange.done.wait()
        forged = client.get(id.split("-")[0] + "-999999")
        await forged.head()
        forged.leave()
        await forged.done.wait()
        server.add_tool(lambda: "x", name="new")
        await trio.testing.wait_all_tasks_blocked()
        again = client.get()
        assert (await again.message())["method"] == "notifications/tools/list_changed"
        again.leave()


async def test_a_cut_before_anything_was_sent(autojump_clock: Clock) -> None:
    """An answer that takes long can be fetched by the id that came before it."""
    async with open_web(make_server()) as web:
        client = await web.initialize()
        exchange = client.call("sleep", {"seconds": 50})
        last, _ = await cut(exchange, 1)
        (result,) = await client.get(last).messages()
        assert result["id"] == 1


async def test_coming_back_twice(autojump_clock: Clock) -> None:
    """The same events can be had again from the same id, also when all is complete."""
    async with open_web(make_server()) as web:
        client = await web.initialize()
        last, _ = await cut(client.call("count", {"upto": 3}, token="t"), 2)
        first = await client.get(last).messages()
        assert len(first) == 3
        assert await client.get(last).messages() == first


async def test_only_that_stream_is_replayed(autojump_clock: Clock) -> None:
    """What belongs to other requests, or to none, is never replayed on a stream."""
    server = make_server()
    async with open_web(server) as web:
        client = await web.initialize()
        exchanges = [client.call("count", {"upto": 3}, id=id, token=id) for id in (1, 2)]
        lasts = [(await cut(exchange, 2))[0] for exchange in exchanges]
        server.add_tool(lambda: "x", name="new")
        await trio.sleep(10)
        for id, last in zip((1, 2), lasts, strict=True):
            *progress, result = await client.get(last).messages()
            assert {message["params"]["progressToken"] for message in progress} == {id}
            assert result["id"] == id


async def test_a_listening_stream_goes_on(autojump_clock: Clock) -> None:
    """What was sent to somebody who listened and was cut off is sent again."""
    server = make_server()
    async with open_web(server) as web:
        client = await web.initialize()
        exchange = client.get()
        first = await exchange.event()
        assert first.id is not None
        server.add_tool(lambda: "x", name="one")
        assert await exchange.message()
        exchange.leave()
        server.add_prompt(lambda: "x", name="two")
        await trio.testing.wait_all_tasks_blocked()
        again = client.get(first.id)
        kinds = [(await again.message())["method"].split("/")[1] for _ in range(2)]
        assert kinds == ["tools", "prompts"]
        server.add_resource("memo://x", lambda: "x", name="x")
        assert "resources" in (await again.message())["method"]
        again.leave()


async def test_coming_back_takes_over(autojump_clock: Clock) -> None:
    """A client that comes back while its old connection looks alive is believed."""
    async with open_web(make_server()) as web:
        client = await web.initialize()
        exchange = client.call("count", {"upto": 3}, token="t")
        first = await exchange.event()
        assert first.id is not None
        again = client.get(first.id)
        assert len(await again.messages()) == 4
        old = await exchange.messages()
        assert len(old) <= 1, "the old connection ended"


@pytest.mark.parametrize("event_id", ["99-1", "1", "x-y", "-1--1", "1-1-1", "9" * 40 + "-1", "¹-1"])
async def test_unknown_events(event_id: str) -> None:
    """An event that is not of this session is 400: a client must not wait for what cannot come."""
    async with open_web(make_server()) as web:
        client = await web.initialize()
        client.headers["last-event-id"] = event_id
        exchange = client.get()
        await exchange.done.wait()
        assert exchange.status == 400


async def test_events_of_another_session(autojump_clock: Clock) -> None:
    """Nobody reads what was sent in the session of somebody else."""
    async with open_web(make_server()) as web:
        one, other = await web.initialize(), await web.initialize()
        last, _ = await cut(one.call("count", {"upto": 1}, token="t"), 2)
        exchange = other.get(last)
        await exchange.done.wait()
        assert exchange.status == 400


async def test_the_server_hangs_up(autojump_clock: Clock) -> None:
    """close_stream ends the response with an id and a retry; the work goes on."""
    async with open_web(make_server()) as web:
        client = await web.initialize()
        start = trio.current_time()
        exchange = client.call("hang_up", token=7)
        events = [await exchange.event(), await exchange.event()]
        await exchange.done.wait()
        assert trio.current_time() == start
        assert not exchange.cut
        assert [event.data for event in events] == [b"", b""]
        assert [event.retry for event in events] == [None, 2500]
        assert events[0].id != events[1].id
        progress, result = await client.get(events[1].id).messages()
        assert progress["params"]["progressToken"] == 7
        assert result["result"]["content"][0]["text"] == "done"


@pytest.mark.parametrize("version", ["2025-03-26", "2025-06-18"])
async def test_hanging_up_where_clients_do_not_come_back(
    version: str, autojump_clock: Clock
) -> None:
    """Before 2025-11-25, and in the modern era, close_stream does nothing."""
    async with open_web(make_server()) as web:
        client = await web.initialize(version)
        *_, result = await client.call("hang_up", token=7).messages()
        assert result["result"]["content"][0]["text"] == "done"
        answer = await web.modern("tools/call", {"name": "hang_up"}).answer()
        assert answer["result"]["content"][0]["text"] == "done"


async def test_hanging_up_needs_a_sensible_time(autojump_clock: Clock) -> None:
    """A retry that is negative or no number is the author's error, on every transport."""
    async with open_web(make_server()) as web:
        answer = await web.modern(
            "tools/call", {"name": "hang_up", "arguments": {"retry": -1}}
        ).answer()
        assert "ValueError" in answer["result"]["content"][0]["text"]


async def test_a_full_store_keeps_the_newest(autojump_clock: Clock) -> None:
    """Memory for events is bounded; an answer, which comes last, survives a flood of progress."""
    store = MemoryEventStore(stream_bytes=2_000)
    async with open_web(make_server(), event_store=store, session_idle=9_999) as web:
        client = await web.initialize()
        last, _ = await cut(client.call("count", {"upto": 1000}, token="t"), 2)
        await trio.sleep(2000)
        assert store.size <= 4_000
        *progress, result = await client.get(last).messages()
        assert result["result"]["content"][0]["text"] == "counted"
        assert 0 < len(progress) < 20


async def test_streams_that_are_complete_are_forgotten(autojump_clock: Clock) -> None:
    """A session that has had many streams does not keep them all."""
    store = MemoryEventStore()
    async with open_web(make_server(), event_store=store) as web:
        client = await web.initialize()
        for id in range(200):
            await client.call("count", {"upto": 1}, id=id, token=id).messages()
        assert len(store._streams) <= 65
        await web.fetch("DELETE", headers=client.headers)
        await trio.testing.wait_all_tasks_blocked()
        assert store.size == 0


async def test_json_answers_are_not_stored(autojump_clock: Clock) -> None:
    """What was answered at once, as JSON, takes no memory afterwards."""
    store = MemoryEventStore()
    async with open_web(make_server(), event_store=store) as web:
        client = await web.initialize()
        await client.call("sleep", {"seconds": 0}).answer()
        assert store.size == 0


async def test_a_question_is_asked_again_after_a_cut(autojump_clock: Clock) -> None:
    """A question on a stream that was cut arrives on its resumption, and can be answered."""
    server = make_server()

    @server.tool()
    async def ask(ctx: Context) -> str:
        return (await ctx.elicit("name", "Your name?", {"name": str})).action

    async with open_web(server) as web:
        client: LegacyClient = await web.initialize(capabilities={"elicitation": {}})
        exchange = client.call("ask")
        first = await exchange.event()
        exchange.leave()
        again: Any = client.get(first.id)
        question = await again.message()
        result = {"action": "decline"}
        await client.send({"jsonrpc": "2.0", "id": question["id"], "result": result})
        assert (await again.message())["result"]["content"][0]["text"] == "decline"
