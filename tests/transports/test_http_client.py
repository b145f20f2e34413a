"""The HTTP client in the modern era: one POST for each request, and what comes back."""

import gzip
import json
import logging
from typing import Any

import httpx
import pytest
import trio
import trio.testing
from trio.testing import MockClock

import mcp_trio
from mcp_trio.client.events import ResourceUpdated
from tests.client.scripted import discovered
from tests.transports.web import (
    Events,
    Seen,
    Web,
    error_to,
    event,
    modern,
    progress,
    refused,
    response_to,
    result,
    text,
)


async def test_each_request_is_a_post_of_its_own_with_its_headers(
    autojump_clock: MockClock,
) -> None:
    """Who routes by headers alone sees what the body says; both kinds of answer are accepted."""

    async def site(seen: Seen) -> httpx.Response:
        return result(seen, text("hello"))

    web = Web(modern(site))
    async with web.connect() as client:
        answer = await client.call_tool("grüß", {"name": "you"})
        assert answer.content == [mcp_trio.TextContent("hello")]
    discover, call = web.seen
    assert discover.headers["mcp-method"] == "server/discover"
    assert "mcp-name" not in discover.headers
    assert call.method == "POST"
    assert call.headers["accept"] == "application/json, text/event-stream"
    assert call.headers["content-type"] == "application/json"
    assert call.headers["mcp-protocol-version"] == "2026-07-28"
    assert call.headers["mcp-method"] == "tools/call"
    assert call.headers["mcp-name"] == "=?base64?Z3LDvMOf?="
    assert "mcp-session-id" not in call.headers


async def test_the_users_headers_go_with_each_request_but_not_over_the_protocols(
    autojump_clock: MockClock,
) -> None:
    """A user's Accept would break half of the servers."""

    async def site(seen: Seen) -> httpx.Response:
        return result(seen, {"resultType": "complete", "tools": []})

    web = Web(modern(site))
    async with web.connect(headers={"X-Team": "trio", "ACCEPT": "*/*"}) as client:
        await client.list_tools()
    for seen in web.seen:
        assert seen.headers["x-team"] == "trio"
        assert seen.headers.get_list("accept") == ["application/json, text/event-stream"]


async def test_a_stream_of_events_is_progress_and_then_the_result(
    autojump_clock: MockClock,
) -> None:
    """Both forms of a reply mean the same, and progress comes as it is sent."""

    async def site(seen: Seen) -> httpx.Response:
        events = Events(b"\xef\xbb\xbf: keep-alive\r\n\r\n")
        for value in (1, 2):
            events.message(progress(seen, value))
        events.message(response_to(seen, text("done")), event="message")
        return events.end().response(**{"content-type": "Text/Event-Stream; charset=utf-8"})

    heard: list[float] = []
    async with Web(modern(site)).connect() as client:
        answer = await client.call_tool("t", on_progress=lambda p: heard.append(p.progress))
    assert heard == [1, 2]
    assert answer.content == [mcp_trio.TextContent("done")]


async def test_many_calls_at_once_each_get_their_own_answer(autojump_clock: MockClock) -> None:
    """Requests do not wait for each other, and answers are not mixed up."""

    async def site(seen: Seen) -> httpx.Response:
        await trio.sleep(10 - seen.params["arguments"]["n"])
        return result(seen, text(str(seen.params["arguments"]["n"])))

    answers: dict[int, Any] = {}
    async with Web(modern(site)).connect() as client:

        async def call(n: int) -> None:
            answers[n] = (await client.call_tool("t", {"n": n})).content[0]

        began = trio.current_time()
        async with trio.open_nursery() as nursery:
            for n in range(10):
                nursery.start_soon(call, n)
        assert trio.current_time() - began < 11
    assert answers == {n: mcp_trio.TextContent(str(n)) for n in range(10)}


# Cancellation


@pytest.mark.parametrize("how", ["cancelled", "timeout", "on_progress raises"])
async def test_giving_up_closes_the_stream_and_sends_nothing(
    how: str, autojump_clock: MockClock
) -> None:
    """In this era a closed stream is the cancellation; a notification would be wrong."""
    streams: list[Events] = []

    async def site(seen: Seen) -> httpx.Response:
        streams.append(Events(event(progress(seen, 1))))
        return streams[0].response()

    def heard(progress: object) -> None:
        if how == "on_progress raises":
            raise KeyError("mine")

    web = Web(modern(site))
    async with web.connect() as client:
        with trio.move_on_after(5) as scope:
            try:
                timeout = 2 if how == "timeout" else None
                await client.call_tool("t", on_progress=heard, timeout=timeout)
            except KeyError:
                assert how == "on_progress raises"
            except mcp_trio.RequestTimeout:
                assert how == "timeout"
        assert scope.cancelled_caught == (how == "cancelled")
        with trio.fail_after(1):
            await streams[0].closed.wait()
        assert not client.closed
    assert web.rpcs == ["server/discover", "tools/call"]


async def test_giving_up_before_any_answer_closes_the_connection(autojump_clock: MockClock) -> None:
    """A handler that has not said anything yet is cancelled as well."""
    ended = trio.Event()

    async def site(seen: Seen) -> httpx.Response:
        try:
            await trio.sleep_forever()
        finally:
            ended.set()
        raise AssertionError

    web = Web(modern(site))
    async with web.connect() as client:
        with trio.move_on_after(5):
            await client.call_tool("t")
        with trio.fail_after(1):
            await ended.wait()


async def test_an_answer_on_a_stream_that_stays_open_is_an_answer(
    autojump_clock: MockClock,
) -> None:
    """The stream should end after it; one that does not is closed, and delays nobody."""
    streams: list[Events] = []

    async def site(seen: Seen) -> httpx.Response:
        streams.append(Events(event(response_to(seen, text("done")))))
        return streams[-1].response()

    async with Web(modern(site)).connect() as client:
        began = trio.current_time()
        await client.call_tool("t")
        assert trio.current_time() - began < 0.5
        with trio.fail_after(2):
            await streams[0].closed.wait()


# Streams that break


@pytest.mark.parametrize("broken", [False, True])
@pytest.mark.parametrize("resumable", [False, True])
async def test_a_stream_without_its_answer_fails_the_call_at_once(
    broken: bool, resumable: bool, autojump_clock: MockClock
) -> None:
    """Streams of this era are never resumed: the call fails, and says that it may be repeated."""

    async def site(seen: Seen) -> httpx.Response:
        fields = {"id": "1", "retry": 1000} if resumable else {}
        events = Events(event(progress(seen, 1), **fields))
        return (events.cut() if broken else events.end()).response()

    web = Web(modern(site))
    async with web.connect() as client:
        began = trio.current_time()
        with pytest.raises(mcp_trio.TransportError, match="may be sent again"):
            await client.call_tool("t", on_progress=lambda p: None)
        assert trio.current_time() - began < 0.5
        assert not client.closed
    assert web.rpcs == ["server/discover", "tools/call"]


async def test_a_request_of_the_server_on_a_stream_is_a_stray(autojump_clock: MockClock) -> None:
    """There are none in this era, and nothing could be answered; the call goes on."""

    async def site(seen: Seen) -> httpx.Response:
        ask = {"jsonrpc": "2.0", "id": 9, "method": "roots/list"}
        return Events(event(ask), event(response_to(seen, text("done")))).end().response()

    strays: list[str] = []
    web = Web(modern(site))
    async with web.connect(on_noise=lambda line, reason: strays.append(reason)) as client:
        await client.call_tool("t")
        await trio.testing.wait_all_tasks_blocked()
    assert web.rpcs == ["server/discover", "tools/call"]
    assert "roots/list" in strays[0]


async def test_messages_over_the_limit_fail_their_call_alone(autojump_clock: MockClock) -> None:
    """Memory is bounded, for either form of a reply, and the client stays usable."""

    async def site(seen: Seen) -> httpx.Response:
        answer = response_to(seen, text("x" * 5000))
        if seen.params["name"] == "json":
            return httpx.Response(200, json=answer)
        if seen.params["name"] == "stream":
            return Events(event(answer)).response()
        return result(seen, text("short"))

    web = Web(modern(site))
    async with web.connect(line_limit=4000) as client:
        for name in ("json", "stream"):
            with pytest.raises(mcp_trio.TransportError, match="longer than 4000 bytes"):
                await client.call_tool(name)
        await client.call_tool("short")


async def test_gzip_is_unpacked_and_other_packings_are_refused(autojump_clock: MockClock) -> None:
    """A packing whose worst case has no bound would break every limit."""

    async def site(seen: Seen) -> httpx.Response:
        assert seen.headers["accept-encoding"] == "gzip, deflate"
        body = json.dumps(response_to(seen, text("packed"))).encode()
        packing = seen.params["name"]
        packed = gzip.compress(body) if packing == "gzip" else body
        headers = {"content-type": "application/json", "content-encoding": packing}
        return httpx.Response(200, headers=headers, stream=httpx.ByteStream(packed))

    async with Web(modern(site)).connect() as client:
        assert (await client.call_tool("gzip")).content == [mcp_trio.TextContent("packed")]
        with pytest.raises(mcp_trio.TransportError, match="packed by 'br'"):
            await client.call_tool("br")
        with pytest.raises(mcp_trio.TransportError, match="cannot be unpacked"):
            await client.call_tool("deflate")


# Tools whose arguments are repeated in headers


def tool(name: str, header: object = "Region") -> dict[str, Any]:
    region = {"type": "string", "x-mcp-header": header}
    return {"name": name, "inputSchema": {"type": "object", "properties": {"region": region}}}


async def test_arguments_that_a_tool_asks_for_go_into_headers(autojump_clock: MockClock) -> None:
    """The client learns them from the list, and never sends what no header can say."""

    async def site(seen: Seen) -> httpx.Response:
        if seen.rpc == "tools/list":
            return result(seen, {"resultType": "complete", "tools": [tool("sql"), tool("other")]})
        return result(seen, text("ok"))

    web = Web(modern(site))
    async with web.connect() as client:
        await client.list_tools()
        await client.call_tool("sql", {"region": "eu-west1"})
        await client.call_tool("sql", {"region": None})
        await client.call_tool("unlisted", {"region": "eu-west1"})
    values = [seen.headers.get("mcp-param-region") for seen in web.of("tools/call")]
    assert values == ["eu-west1", None, None]


async def test_a_tool_with_an_unusable_header_is_left_out_with_a_warning(
    caplog: pytest.LogCaptureFixture, autojump_clock: MockClock
) -> None:
    """One malformed definition does not take the others with it."""

    async def site(seen: Seen) -> httpx.Response:
        tools = [
            tool("good"),
            tool("bad", "no good: a colon"),
            {"name": "plain", "inputSchema": {}},
        ]
        return result(seen, {"resultType": "complete", "tools": tools})

    async with Web(modern(site)).connect() as client:
        names = [tool.name for tool in await client.list_tools()]
    assert names == ["good", "plain"]
    (record,) = [r for r in caplog.records if r.levelno == logging.WARNING]
    assert "'bad'" in record.getMessage()


@pytest.mark.parametrize("helps", [True, False])
async def test_a_header_mismatch_lists_the_tools_and_tries_once_more(
    helps: bool, autojump_clock: MockClock
) -> None:
    """The tool may have changed since it was listed; all pages are read, and it ends there."""

    async def site(seen: Seen) -> httpx.Response:
        if seen.rpc == "tools/list":
            if "cursor" not in seen.params:
                page = {"resultType": "complete", "tools": [], "nextCursor": "more"}
                return result(seen, page)
            return result(seen, {"resultType": "complete", "tools": [tool("sql")]})
        if helps and seen.headers.get("mcp-param-region") == "eu":
            return result(seen, text("ok"))
        return refused(seen, 400, -32020, "Mcp-Param-Region is missing")

    web = Web(modern(site))
    async with web.connect() as client:
        if helps:
            await client.call_tool("sql", {"region": "eu"})
        else:
            with pytest.raises(mcp_trio.MCPError) as caught:
                await client.call_tool("sql", {"region": "eu"})
            assert caught.value.code == -32020
    assert web.rpcs[1:] == ["tools/call", "tools/list", "tools/list", "tools/call"]


# Errors


@pytest.mark.parametrize("status", [200, 400, 404, 500])
@pytest.mark.parametrize("with_id", [True, False])
async def test_an_error_is_the_servers_error_whatever_the_status(
    status: int, with_id: bool, autojump_clock: MockClock
) -> None:
    """A JSON-RPC error in the body says more than the status; it can be for nobody else."""

    async def site(seen: Seen) -> httpx.Response:
        body = error_to(seen, -32602, "no such tool")
        if not with_id:
            body["id"] = None
        return httpx.Response(status, json=body)

    async with Web(modern(site)).connect() as client:
        with pytest.raises(mcp_trio.MCPError, match="no such tool"):
            await client.call_tool("t")


async def test_a_notification_of_the_users_own_is_posted_too(autojump_clock: MockClock) -> None:
    """The era has none for this transport, but extensions may."""

    async def site(seen: Seen) -> httpx.Response:
        return httpx.Response(202 if seen.rpc == "notifications/x" else 400, text="no")

    async def modern_site(seen: Seen) -> httpx.Response:
        return result(seen, discovered()) if seen.rpc == "server/discover" else await site(seen)

    web = Web(modern_site)
    async with web.connect() as client:
        await client.notify("notifications/x")
        with pytest.raises(mcp_trio.TransportError, match="HTTP 400"):
            await client.notify("notifications/y")
    assert web.seen[1].headers["mcp-method"] == "notifications/x"
    assert web.seen[1].headers["mcp-protocol-version"] == "2026-07-28"


async def test_what_the_body_raises_leaves_the_client_as_it_is(autojump_clock: MockClock) -> None:
    """No group around it, also while something is on its way."""

    async def site(seen: Seen) -> httpx.Response:
        return Events(event(acknowledged(seen))).response()

    with pytest.raises(ValueError, match="mine"):
        async with Web(modern(site)).connect() as client, client.listen(tools=True):
            raise ValueError("mine")


# Listening


def acknowledged(seen: Seen) -> dict[str, Any]:
    meta = {"io.modelcontextprotocol/subscriptionId": seen.id}
    params = {"notifications": seen.params["notifications"], "_meta": meta}
    return {
        "jsonrpc": "2.0",
        "method": "notifications/subscriptions/acknowledged",
        "params": params,
    }


def changed(seen: Seen, method: str, **params: str) -> dict[str, Any]:
    meta = {"io.modelcontextprotocol/subscriptionId": seen.id}
    return {"jsonrpc": "2.0", "method": method, "params": {**params, "_meta": meta}}


async def test_a_subscription_that_breaks_is_made_again_and_nothing_is_missed(
    autojump_clock: MockClock,
) -> None:
    """What changed while nobody listened counts as changed; attempts are spaced out."""
    streams: list[Events] = []

    async def site(seen: Seen) -> httpx.Response:
        if len(web.of("subscriptions/listen")) in (2, 3):
            return httpx.Response(502, text="Bad Gateway")
        streams.append(Events(event(acknowledged(seen))))
        return streams[-1].response()

    web = Web(modern(site))
    async with (
        web.connect() as client,
        client.listen(tools=True, uris=["memo://a"]) as events,
    ):
        method = "notifications/resources/updated"
        streams[0].message(changed(web.seen[-1], method, uri="memo://a"))
        assert await anext(events) == ResourceUpdated("memo://a")
        streams[0].cut()
        began = trio.current_time()
        assert {await anext(events), await anext(events)} == {
            mcp_trio.ToolsChanged(),
            mcp_trio.ResourceUpdated("memo://a"),
        }
        assert 1 < trio.current_time() - began < 5
        assert len(web.of("subscriptions/listen")) == 4
    assert streams[-1].closed.is_set()


async def test_a_subscription_that_cannot_be_made_says_so(autojump_clock: MockClock) -> None:
    """Only one that was there is made again."""

    async def site(seen: Seen) -> httpx.Response:
        return httpx.Response(503, text="overloaded")

    web = Web(modern(site))
    async with web.connect() as client:
        with pytest.raises(mcp_trio.TransportError, match="503"):
            async with client.listen(tools=True):
                pass
    assert len(web.of("subscriptions/listen")) == 1


async def test_a_subscription_that_the_server_ends_stays_ended(autojump_clock: MockClock) -> None:
    """The answer is the normal end; the iterator ends with it."""

    async def site(seen: Seen) -> httpx.Response:
        end = response_to(seen, {"resultType": "complete"})
        return Events(event(acknowledged(seen)), event(end)).end().response()

    web = Web(modern(site))
    async with web.connect() as client, client.listen(tools=True) as events:
        assert [event async for event in events] == []
    assert len(web.of("subscriptions/listen")) == 1


async def test_leaving_a_subscription_closes_its_stream(autojump_clock: MockClock) -> None:
    """That is how the server hears of it."""
    streams: list[Events] = []

    async def site(seen: Seen) -> httpx.Response:
        streams.append(Events(event(acknowledged(seen))))
        return streams[-1].response()

    async with Web(modern(site)).connect() as client:
        async with client.listen(tools=True):
            pass
        with trio.fail_after(1):
            await streams[0].closed.wait()


# The user's own httpx client


async def test_the_users_client_is_used_with_its_hooks_and_stays_open(
    autojump_clock: MockClock,
) -> None:
    """Its hooks see each request as it is sent, and what they raise leaves the call."""
    hooked: list[str] = []

    async def note(request: httpx.Request) -> None:
        hooked.append(request.headers["mcp-protocol-version"])
        if b"forbidden" in request.content:
            raise PermissionError("not that one")

    async def site(seen: Seen) -> httpx.Response:
        assert seen.headers["x-team"] == "trio"
        assert seen.request.url.params["key"] == "k"
        return result(seen, text("ok"))

    web = Web(modern(site))
    async with httpx.AsyncClient(
        transport=web,
        headers={"X-Team": "trio"},
        params={"key": "k"},
        event_hooks={"request": [note]},
        timeout=0.001,
        follow_redirects=True,
    ) as http:
        async with mcp_trio.open_client("http://server.example/mcp", http=http) as client:
            await client.call_tool("t")
            with pytest.raises(PermissionError, match="not that one"):
                await client.call_tool("forbidden")
            await client.call_tool("t")
        assert not http.is_closed
    assert hooked == ["2026-07-28"] * 4


async def test_waiting_for_an_answer_has_no_limit_of_its_own(autojump_clock: MockClock) -> None:
    """Only what the call itself sets counts, whatever the user's client has by default."""
    timeouts: list[object] = []

    async def site(seen: Seen) -> httpx.Response:
        timeouts.append(seen.request.extensions["timeout"])
        await trio.sleep(3600)
        return result(seen, text("ok"))

    web = Web(modern(site))
    async with web.connect(send_timeout=7) as client:
        await client.call_tool("t")
    assert timeouts == [{"connect": 7, "read": None, "write": 7, "pool": 7}]
