"""The HTTP client in the legacy era: sessions, the stream of the server's own, resumption."""

from itertools import pairwise
from typing import Any

import h11
import httpx
import pytest
import trio
import trio.testing
from hypothesis import example, given
from hypothesis import strategies as st
from trio.testing import MockClock

import mcp_trio
from mcp_trio.transports.http_pending import Cursor
from tests.client.scripted import initialized
from tests.transports.web import (
    Events,
    Legacy,
    Seen,
    Web,
    event,
    progress,
    refused,
    response_to,
    result,
    text,
)


async def hello(seen: Seen) -> httpx.Response:
    return result(seen, text("hello"))


def named(seen: Seen) -> tuple[str, str | None, str | None]:
    """What a request says of its session."""
    headers = seen.headers
    return seen.rpc, headers.get("mcp-session-id"), headers.get("mcp-protocol-version")


async def test_a_session_from_its_beginning_to_its_end(autojump_clock: MockClock) -> None:
    """Everything after `initialize` names session and version; the GET comes before any call."""
    web = Web(Legacy(hello))
    async with web.connect(mode="legacy") as client:
        assert client.protocol_version == "2025-11-25"
        await client.call_tool("t")
    assert [named(seen) for seen in web.seen] == [
        ("initialize", None, None),
        ("notifications/initialized", "session-1", "2025-11-25"),
        ("GET", "session-1", "2025-11-25"),
        ("tools/call", "session-1", "2025-11-25"),
        ("DELETE", "session-1", "2025-11-25"),
    ]
    get = web.of("GET")[0]
    assert get.headers["accept"] == "text/event-stream"
    assert "mcp-method" not in web.of("tools/call")[0].headers


async def test_a_server_without_sessions_is_served_without(autojump_clock: MockClock) -> None:
    """No session id, no header of it, no DELETE; a 404 is an error then and nothing else."""

    async def site(seen: Seen) -> httpx.Response:
        if seen.rpc == "initialize":
            return result(seen, initialized("2025-06-18"))
        if seen.rpc == "tools/call":
            return httpx.Response(404)
        return httpx.Response(405 if seen.method == "GET" else 202)

    web = Web(site)
    async with web.connect(mode="legacy") as client:
        with pytest.raises(mcp_trio.TransportError, match="404"):
            await client.call_tool("t")
    assert [named(seen) for seen in web.seen] == [
        ("initialize", None, None),
        ("notifications/initialized", None, "2025-06-18"),
        ("GET", None, "2025-06-18"),
        ("tools/call", None, "2025-06-18"),
    ]


# The server's own stream


async def test_the_servers_own_stream_brings_notifications_and_questions(
    autojump_clock: MockClock,
) -> None:
    """What the server says unasked arrives, and answers to its questions go out by POST."""
    streams: list[Events] = []

    async def get(seen: Seen) -> httpx.Response:
        streams.append(Events())
        return streams[-1].response()

    web = Web(Legacy(hello, get))
    answered = trio.Event()

    async def sample(question: object) -> str:
        answered.set()
        return "sampled"

    async with (
        web.connect(mode="legacy", on_sample=sample) as client,
        client.listen(tools=True) as events,
    ):
        streams[0].message({"jsonrpc": "2.0", "method": "notifications/tools/list_changed"})
        assert await anext(events) == mcp_trio.ToolsChanged()
        params = {"messages": [], "maxTokens": 10}
        streams[0].message(
            {"jsonrpc": "2.0", "id": 1, "method": "sampling/createMessage", "params": params}
        )
        await answered.wait()
        await trio.testing.wait_all_tasks_blocked()
        (answer,) = web.of("answer")
        assert answer.id == 1
        assert answer.message["result"]["content"]["text"] == "sampled"
        assert answer.headers["mcp-session-id"] == "session-1"
    assert streams[0].closed.is_set()


async def test_the_servers_own_stream_is_opened_again_where_it_ended(
    autojump_clock: MockClock,
) -> None:
    """With the last id and after the pause that the server wants; longer after each in vain."""
    streams = [
        Events(b"id: e1\nretry: 3000\ndata:\n\n").end(),
        Events().cut(),
        Events().end(),
        Events(b"id: e2\ndata:\n\n"),
    ]

    async def get(seen: Seen) -> httpx.Response:
        return streams[len(web.of("GET")) - 1].response()

    web = Web(Legacy(hello, get))
    async with web.connect(mode="legacy"):
        await trio.sleep(60)
    gets = web.of("GET")
    assert [seen.headers.get("last-event-id") for seen in gets] == [None, "e1", "e1", "e1"]
    pauses = [round(b.at - a.at) for a, b in pairwise(gets)]
    assert pauses == [3, 6, 12]


async def test_a_message_that_is_too_long_is_skipped(autojump_clock: MockClock) -> None:
    """Resumed after the one before it, the stream would bring it again, and again."""
    changed = {"jsonrpc": "2.0", "method": "notifications/tools/list_changed"}

    async def get(seen: Seen) -> httpx.Response:
        if seen.headers.get("last-event-id") == "1" or len(web.of("GET")) == 1:
            return Events(b"id: 1\ndata:\n\nid: 2\ndata: " + b"x" * 5000).response()
        return Events(event(changed)).response()

    web = Web(Legacy(hello, get))
    async with (
        web.connect(mode="legacy", line_limit=4000) as client,
        client.listen(tools=True) as events,
    ):
        assert await anext(events) == mcp_trio.ToolsChanged()
    assert len(web.of("GET")) == 2


@pytest.mark.parametrize(("status", "attempts"), [(405, 1), (400, 1), (409, 3), (503, 3)])
async def test_a_stream_that_is_refused_for_good_is_not_asked_for_again(
    status: int, attempts: int, autojump_clock: MockClock
) -> None:
    """405 means that there is none; what may pass is tried again, at growing intervals."""

    async def get(seen: Seen) -> httpx.Response:
        return httpx.Response(status)

    web = Web(Legacy(hello, get))
    async with web.connect(mode="legacy") as client:
        await client.call_tool("t")
        await trio.sleep(2)
    assert len(web.of("GET")) == attempts


async def test_a_stream_that_never_opens_delays_nobody_for_long(
    autojump_clock: MockClock,
) -> None:
    """Some servers send no header before the first event."""

    async def get(seen: Seen) -> httpx.Response:
        await trio.sleep_forever()
        raise AssertionError

    web = Web(Legacy(hello, get))
    began = trio.current_time()
    async with web.connect(mode="legacy") as client:
        await client.call_tool("t")
        assert trio.current_time() - began < 2


# Resumption


@pytest.mark.parametrize("broken", [True, False])
async def test_a_stream_with_ids_is_resumed(broken: bool, autojump_clock: MockClock) -> None:
    """The rest comes by a GET that names the last event; the call notices nothing."""

    async def site(seen: Seen) -> httpx.Response:
        events = Events(event(progress(seen, 1), id="a-1"), b"id: lost\ndata: unfinished")
        return (events.cut() if broken else events.end()).response()

    async def get(seen: Seen) -> httpx.Response:
        if "last-event-id" not in seen.headers:
            return Events().response()
        assert seen.headers["last-event-id"] == "a-1"
        (call,) = web.of("tools/call")
        rest = [event(progress(call, 2), id="a-2"), event(response_to(call, text("done")))]
        return Events(*rest).end().response()

    web = Web(Legacy(site, get))
    heard: list[float] = []
    async with web.connect(mode="legacy") as client:
        answer = await client.call_tool("t", on_progress=lambda p: heard.append(p.progress))
    assert answer.content == [mcp_trio.TextContent("done")]
    assert heard == [1, 2]
    assert web.rpcs.count("tools/call") == 1
    assert web.rpcs.count("GET") == 2


async def test_a_server_may_be_polled(autojump_clock: MockClock) -> None:
    """It hands out an id, says how long to wait, and closes: any number of times."""
    rounds = 20

    async def site(seen: Seen) -> httpx.Response:
        return Events(b"id: 0\nretry: 500\ndata: \n\n").end().response()

    async def get(seen: Seen) -> httpx.Response:
        last = seen.headers.get("last-event-id")
        if last is None:
            return Events().response()
        if int(last) < rounds:
            return Events(f"id: {int(last) + 1}\ndata: \n\n".encode()).end().response()
        (call,) = web.of("tools/call")
        return Events(event(response_to(call, text("done")))).end().response()

    web = Web(Legacy(site, get))
    async with web.connect(mode="legacy") as client:
        await client.call_tool("t")
    polls = [seen.at for seen in web.of("GET") if "last-event-id" in seen.headers]
    assert len(polls) == rounds + 1
    assert all(0.5 <= b - a < 0.6 for a, b in pairwise(polls))


async def test_retry_alone_is_an_invitation_too(autojump_clock: MockClock) -> None:
    """Without an id there is nothing to name, but the answer may come on a new stream."""

    async def site(seen: Seen) -> httpx.Response:
        return Events(b"retry: 500\ndata: \n\n").end().response()

    async def get(seen: Seen) -> httpx.Response:
        if not (calls := web.of("tools/call")):
            return httpx.Response(405)
        assert "last-event-id" not in seen.headers
        return Events(event(response_to(calls[0], text("done")))).end().response()

    web = Web(Legacy(site, get))
    async with web.connect(mode="legacy") as client:
        began = trio.current_time()
        await client.call_tool("t")
        assert trio.current_time() - began >= 0.5


async def test_an_answer_on_the_servers_own_stream_counts(autojump_clock: MockClock) -> None:
    """Some servers put it there once the stream of the request has ended; nothing lingers."""
    own = Events()
    resumed = Events()

    async def site(seen: Seen) -> httpx.Response:
        return Events(b"id: 1\ndata:\n\n").end().response()

    async def get(seen: Seen) -> httpx.Response:
        if "last-event-id" not in seen.headers:
            return own.response()
        own.message(response_to(web.of("tools/call")[0], text("done")))
        return resumed.response()

    web = Web(Legacy(site, get))
    async with web.connect(mode="legacy") as client:
        await client.call_tool("t")
        with trio.fail_after(1):
            await resumed.closed.wait()


@pytest.mark.parametrize("broken", [True, False])
async def test_a_stream_without_ids_fails_the_call_at_once(
    broken: bool, autojump_clock: MockClock
) -> None:
    """Nothing can be resumed, so nobody waits."""

    async def site(seen: Seen) -> httpx.Response:
        events = Events(event(progress(seen, 1)))
        return (events.cut() if broken else events.end()).response()

    web = Web(Legacy(site))
    async with web.connect(mode="legacy") as client:
        began = trio.current_time()
        with pytest.raises(mcp_trio.TransportError):
            await client.call_tool("t", on_progress=lambda p: None)
        assert trio.current_time() - began < 0.1
    assert web.rpcs.count("GET") == 1


@pytest.mark.parametrize("answer", ["refused", "nobody there", "not found", "nothing new"])
async def test_resumption_comes_to_an_end(answer: str, autojump_clock: MockClock) -> None:
    """A stream that cannot be resumed fails its call with a reason, and in bounded time."""

    async def site(seen: Seen) -> httpx.Response:
        return Events(b"id: 1\ndata:\n\n").cut().response()

    async def get(seen: Seen) -> httpx.Response:
        if "last-event-id" not in seen.headers:
            return httpx.Response(405)
        if answer == "nobody there":
            raise httpx.ConnectError("All connection attempts failed")
        if answer == "nothing new":
            return Events().end().response()
        return httpx.Response(400 if answer == "refused" else 404)

    web = Web(Legacy(site, get))
    async with web.connect(mode="legacy") as client:
        began = trio.current_time()
        with pytest.raises(mcp_trio.TransportError):
            await client.call_tool("t")
        assert trio.current_time() - began < (1 if answer != "nothing new" else 30)
        assert not client.closed


# Cancellation


async def test_cancelling_a_call_says_so_and_closes_its_stream(autojump_clock: MockClock) -> None:
    """In this era a closed stream alone means nothing."""
    streams: list[Events] = []

    async def site(seen: Seen) -> httpx.Response:
        streams.append(Events())
        return streams[-1].response()

    web = Web(Legacy(site))
    async with web.connect(mode="legacy") as client:
        with trio.move_on_after(5):
            await client.call_tool("t")
        with trio.fail_after(1):
            await streams[0].closed.wait()
        await trio.testing.wait_all_tasks_blocked()
        (cancelled,) = web.of("notifications/cancelled")
        assert cancelled.params["requestId"] == web.of("tools/call")[0].id
        assert cancelled.headers["mcp-session-id"] == "session-1"


async def test_cancelling_between_two_attempts_to_resume(autojump_clock: MockClock) -> None:
    """The call is gone, and with it the attempts."""

    async def site(seen: Seen) -> httpx.Response:
        return Events(b"id: 1\nretry: 5000\ndata:\n\n").end().response()

    web = Web(Legacy(site))
    async with web.connect(mode="legacy") as client:
        with trio.move_on_after(2):
            await client.call_tool("t")
        await trio.sleep(60)
    assert web.rpcs.count("GET") == 1
    assert web.rpcs.count("notifications/cancelled") == 1


# Expiry


@pytest.mark.parametrize("how", ["404", "404 without a body", "400 in words"])
async def test_an_expired_session_is_renewed_and_the_request_sent_once_more(
    how: str, autojump_clock: MockClock
) -> None:
    """The old session refused it, so it cannot have been done; the caller notices nothing."""
    streams: list[Events] = []

    async def get(seen: Seen) -> httpx.Response:
        streams.append(Events())
        return streams[-1].response()

    server = Legacy(hello, get)

    async def site(seen: Seen) -> httpx.Response:
        response = await server(seen)
        if response.status_code == 404 and how == "404 without a body":
            return httpx.Response(404)
        if response.status_code == 404 and how == "400 in words":
            return refused(seen, 400, -32000, "Bad Request: No valid session ID provided")
        return response

    web = Web(site)
    async with web.connect(mode="legacy") as client:
        server.alive.clear()
        answer = await client.call_tool("t", {"n": 1})
        assert answer.content == [mcp_trio.TextContent("hello")]
        await client.call_tool("t")
        assert [stream.closed.is_set() for stream in streams] == [True, False]
    assert [named(seen)[:2] for seen in web.seen[3:]] == [
        ("tools/call", "session-1"),
        ("initialize", None),
        ("notifications/initialized", "session-2"),
        ("GET", "session-2"),
        ("tools/call", "session-2"),
        ("tools/call", "session-2"),
        ("DELETE", "session-2"),
    ]
    first, second = web.of("initialize")
    assert first.params == second.params
    assert web.of("tools/call")[0].content == web.of("tools/call")[1].content


async def test_many_calls_that_find_the_session_expired_renew_it_once(
    autojump_clock: MockClock,
) -> None:
    """One of them begins the new session; each is sent once more."""
    server = Legacy(hello)
    web = Web(server)
    async with web.connect(mode="legacy") as client:
        server.alive.clear()
        async with trio.open_nursery() as nursery:
            for _ in range(20):
                nursery.start_soon(client.call_tool, "t")
    assert web.rpcs.count("initialize") == 2
    assert web.rpcs.count("tools/call") == 40


async def test_a_404_about_the_method_is_about_the_method(autojump_clock: MockClock) -> None:
    """Later revisions say it so, and so do servers that speak both; the session goes on."""

    async def site(seen: Seen) -> httpx.Response:
        return refused(seen, 404, -32601, "Method not found")

    web = Web(Legacy(site))
    async with web.connect(mode="legacy") as client:
        with pytest.raises(mcp_trio.MCPError, match="Method not found"):
            await client.request("example/unknown")
    assert web.rpcs.count("initialize") == 1


async def test_a_session_that_expires_again_at_once_is_an_error(
    autojump_clock: MockClock,
) -> None:
    """Once more is once: a server that forgets everything gets no loop."""
    server = Legacy(hello)

    async def site(seen: Seen) -> httpx.Response:
        if seen.rpc == "tools/call":
            return httpx.Response(404, text="no such session")
        return await server(seen)

    web = Web(site)
    async with web.connect(mode="legacy") as client:
        with pytest.raises(mcp_trio.TransportError, match="no such session") as caught:
            await client.call_tool("t")
        assert caught.value.status == 404
    assert web.rpcs.count("tools/call") == 2


@pytest.mark.parametrize("how", ["refused", "another version", "an error"])
async def test_a_session_that_cannot_be_renewed_is_an_error_of_that_call(
    how: str, autojump_clock: MockClock
) -> None:
    """It says so, and the next call tries again."""
    server = Legacy(hello)
    failing = False

    async def site(seen: Seen) -> httpx.Response:
        if seen.rpc == "initialize" and failing:
            if how == "refused":
                return httpx.Response(503, text="restarting")
            if how == "an error":
                return refused(seen, 200, -32603, "restarting")
            server.version = "2025-03-26"
        return await server(seen)

    web = Web(site)
    async with web.connect(mode="legacy") as client:
        server.alive.clear()
        failing = True
        with pytest.raises(mcp_trio.TransportError, match="no new one could be begun"):
            await client.call_tool("t")
        failing, server.version = False, "2025-11-25"
        await client.call_tool("t")


async def test_cancelling_the_call_that_renews_leaves_the_others_to_it(
    autojump_clock: MockClock,
) -> None:
    """The next in line begins the new session instead."""
    server = Legacy(hello)

    async def site(seen: Seen) -> httpx.Response:
        if seen.rpc == "initialize" and server.begun:
            await trio.sleep(10)
        return await server(seen)

    web = Web(site)
    async with web.connect(mode="legacy") as client:
        server.alive.clear()

        async def impatient() -> None:
            with trio.move_on_after(5):
                await client.call_tool("t")

        async with trio.open_nursery() as nursery:
            nursery.start_soon(impatient)
            await trio.sleep(1)
            answer = await client.call_tool("t")
            assert answer.content == [mcp_trio.TextContent("hello")]


async def test_a_new_session_is_told_what_the_old_one_knew(autojump_clock: MockClock) -> None:
    """The log level and the resources subscribed to; and what was missed counts as changed."""

    async def site(seen: Seen) -> httpx.Response:
        return result(seen, {})

    server = Legacy(site)
    web = Web(server)
    async with (
        web.connect(mode="legacy", on_log=lambda m: None, log_level="error") as client,
        client.listen(tools=True, uris=["memo://a"]) as events,
    ):
        server.alive.clear()
        await client.ping()
        assert {await anext(events), await anext(events)} == {
            mcp_trio.ToolsChanged(),
            mcp_trio.ResourceUpdated("memo://a"),
        }
        for rpc in ("logging/setLevel", "resources/subscribe"):
            sessions = [seen.headers["mcp-session-id"] for seen in web.of(rpc)]
            assert sessions == ["session-1", "session-2"]


async def test_a_stream_that_finds_the_session_expired_renews_it(
    autojump_clock: MockClock,
) -> None:
    """Who only listens is not deaf for ever, also where the server is away for a while."""
    streams: list[Events] = []

    async def get(seen: Seen) -> httpx.Response:
        streams.append(Events())
        return streams[-1].response()

    server = Legacy(hello, get)
    away = False

    async def site(seen: Seen) -> httpx.Response:
        if away:
            raise httpx.ConnectError("refused")
        return await server(seen)

    web = Web(site)
    async with web.connect(mode="legacy") as client, client.listen(tools=True) as events:
        server.alive.clear()
        away = True
        streams[0].cut()
        await trio.sleep(20)
        away = False
        assert await anext(events) == mcp_trio.ToolsChanged()
        streams[-1].message({"jsonrpc": "2.0", "method": "notifications/tools/list_changed"})
        assert await anext(events) == mcp_trio.ToolsChanged()
    assert web.rpcs.count("initialize") == 2


async def test_what_the_old_session_asked_is_not_answered_in_the_new_one(
    autojump_clock: MockClock,
) -> None:
    """Its number may mean another question there."""
    own = Events()

    async def get(seen: Seen) -> httpx.Response:
        return own.response() if len(web.of("GET")) == 1 else httpx.Response(405)

    server = Legacy(hello, get)
    web = Web(server)

    async def sample(question: object) -> str:
        await trio.sleep(30)
        return "too late"

    async with web.connect(mode="legacy", on_sample=sample) as client:
        params: dict[str, Any] = {"messages": [], "maxTokens": 10}
        own.message(
            {"jsonrpc": "2.0", "id": 1, "method": "sampling/createMessage", "params": params}
        )
        await trio.sleep(1)
        server.alive.clear()
        await client.call_tool("t")
        await trio.sleep(60)
    assert not web.of("answer")


# Notifications and the end


async def test_a_notification_that_is_refused_raises(autojump_clock: MockClock) -> None:
    """Nobody else would hear of it."""
    server = Legacy(hello)

    async def site(seen: Seen) -> httpx.Response:
        if seen.rpc == "notifications/custom":
            return httpx.Response(400, text="not that one")
        return await server(seen)

    async with Web(site).connect(mode="legacy") as client:
        with pytest.raises(mcp_trio.TransportError, match="not that one"):
            await client.notify("notifications/custom")
        await client.call_tool("t")


async def test_a_202_with_a_body_is_an_ordinary_confirmation(autojump_clock: MockClock) -> None:
    """Servers do that, though there should be none; however long it is or takes."""
    server = Legacy(hello)
    bodies = {
        "notifications/long": lambda: httpx.Response(202, text="x" * 10**6),
        "notifications/slow": lambda: httpx.Response(202, stream=Events(b"one moment")),
        "notifications/stream": lambda: Events().response(),
    }

    async def site(seen: Seen) -> httpx.Response:
        return bodies[seen.rpc]() if seen.rpc in bodies else await server(seen)

    async with Web(site).connect(mode="legacy") as client:
        for method in bodies:
            began = trio.current_time()
            await client.notify(method)
            assert trio.current_time() - began < 1.1


@pytest.mark.parametrize("answer", ["405", "silence", "broken"])
async def test_the_end_of_a_session_is_bounded(answer: str, autojump_clock: MockClock) -> None:
    """Whatever the server makes of the DELETE, leaving takes a second at most."""
    server = Legacy(hello)

    async def site(seen: Seen) -> httpx.Response:
        if seen.method == "DELETE":
            if answer == "silence":
                await trio.sleep_forever()
            if answer == "broken":
                raise httpx.ReadError("reset")
            return httpx.Response(405)
        return await server(seen)

    web = Web(site)
    async with web.connect(mode="legacy"):
        left = trio.current_time()
    assert trio.current_time() - left < 1.1
    assert web.rpcs[-1] == "DELETE"


@given(st.text(st.characters(exclude_characters="\0\r\n\v\f", codec="utf-8"), max_size=10))
@example(" padded\t")
@example("\t")
def test_any_id_of_an_event_can_be_sent_back(id: str) -> None:
    """A stream is not lost for what its server likes to write into ids."""
    cursor = Cursor(100)
    cursor.last_event_id = id
    fields = [(b"Host", b"x")]
    fields += [(name.encode(), value.encode("latin-1")) for name, value in cursor.headers.items()]
    client, server = h11.Connection(h11.CLIENT), h11.Connection(h11.SERVER)
    server.receive_data(client.send(h11.Request(method="GET", target="/", headers=fields)) or b"")
    request = server.next_event()
    assert isinstance(request, h11.Request)
    assert dict(request.headers).get(b"last-event-id", b"") == id.strip(" \t").encode()
