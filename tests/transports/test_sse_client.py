"""The client of HTTP+SSE (2024-11-05) as a stream of frames."""

import json

import httpx
import pytest
import trio
import trio.testing
from trio.testing import MockClock

import mcp_trio
from mcp_trio.transports.sse_client import open_sse
from mcp_trio.wire.ndjson import LineTooLong
from tests.client.scripted import initialized
from tests.transports.web import PATIENCE, Events, Seen, Web, text

URL = "http://server.example/sse"


class Old:
    """A server of 2024-11-05."""

    def __init__(self, endpoint: str = "/messages?session=1") -> None:
        self.stream = Events(f"event: endpoint\ndata: {endpoint}\n\n".encode())

    async def __call__(self, seen: Seen) -> httpx.Response:
        if seen.method == "GET":
            return self.stream.response()
        answers = {"initialize": initialized("2024-11-05"), "tools/call": text("hello")}
        if seen.rpc in answers:
            self.stream.message({"jsonrpc": "2.0", "id": seen.id, "result": answers[seen.rpc]})
        return httpx.Response(202, text="Accepted")


@pytest.mark.parametrize(
    ("endpoint", "posted_to"),
    [
        ("/messages?session=1", "http://server.example/messages?session=1"),
        ("messages/", "http://server.example/messages/"),
        ("?session=1", "http://server.example/sse?session=1"),
        ("http://server.example:80/m", "http://server.example/m"),
        ("HTTP://SERVER.example/m", "http://server.example/m"),
    ],
)
async def test_the_endpoint_may_be_relative_or_absolute(
    endpoint: str, posted_to: str, autojump_clock: MockClock
) -> None:
    """Messages go there and the answers come on the stream."""
    web = Web(Old(endpoint))
    async with httpx.AsyncClient(transport=web) as http:
        opening = open_sse(URL, http=http, headers={"X-Team": "trio"})
        async with opening as stream, mcp_trio.open_client(stream, mode="legacy") as client:
            assert (await client.call_tool("t")).content == [mcp_trio.TextContent("hello")]
    get, *posts = web.seen
    assert get.headers["accept"] == "text/event-stream"
    assert {str(seen.request.url) for seen in posts} == {posted_to}
    assert {seen.headers["x-team"] for seen in web.seen} == {"trio"}
    assert {seen.headers["content-type"] for seen in posts} == {"application/json"}


@pytest.mark.parametrize(
    "endpoint",
    [
        "http://other.example/messages",
        "https://server.example/messages",
        "http://server.example:8080/messages",
        "//other.example/messages",
        "http://server.example@other.example/m",
        "http://[bad/",
        "\xff",
    ],
)
async def test_another_origin_gets_nothing(endpoint: str, autojump_clock: MockClock) -> None:
    """What is posted may carry the user's credentials."""
    web = Web(Old(endpoint))
    async with httpx.AsyncClient(transport=web) as http:
        with pytest.raises(mcp_trio.TransportError, match=r"another origin|no URL"):
            async with open_sse(URL, http=http):
                pass
    assert web.rpcs == ["GET"]


@pytest.mark.parametrize(
    ("response", "says"),
    [
        (httpx.Response(404, text="Cannot GET /sse"), "Cannot GET"),
        (httpx.Response(200, html="<title>Hello</title>"), "no event stream"),
        (Events(b"data: {}\n\n").response(), "first event is not the endpoint"),
        (Events().end().response(), "says where messages go"),
        (Events().cut().response(), "broke off"),
        (Events().response(), "says where messages go"),
        (Events(b"event: endpoint\ndata: " + b"x" * 5000).response(), "longer than 4000"),
    ],
)
async def test_what_is_no_such_server_says_so(
    response: httpx.Response, says: str, autojump_clock: MockClock
) -> None:
    """In bounded time, also where nothing comes at all."""

    async def site(seen: Seen) -> httpx.Response:
        return response

    async with httpx.AsyncClient(transport=Web(site)) as http:
        with trio.fail_after(20), pytest.raises(Exception, match=says) as caught:
            async with open_sse(URL, http=http, limit=4000):
                pass
        assert isinstance(caught.value, mcp_trio.TransportError)


async def test_a_post_that_is_refused_fails_its_call_alone(autojump_clock: MockClock) -> None:
    """The stream goes on; a message that is too large, say, is no reason to end it."""
    old = Old()

    async def site(seen: Seen) -> httpx.Response:
        if seen.params.get("name") == "big":
            return httpx.Response(413, text="too large")
        return await old(seen)

    async with httpx.AsyncClient(transport=Web(site)) as http:
        opening = open_sse(URL, http=http)
        async with opening as stream, mcp_trio.open_client(stream, mode="legacy") as client:
            with pytest.raises(mcp_trio.MCPError, match=r"HTTP 413.*too large"):
                await client.call_tool("big")
            await client.call_tool("t")


async def test_a_post_that_waits_for_its_answer_does_not_hold_up_others(
    autojump_clock: MockClock,
) -> None:
    """Some servers confirm a call once it is done, and ask something meanwhile."""
    old = Old()
    answered = trio.Event()

    async def site(seen: Seen) -> httpx.Response:
        if seen.rpc == "tools/call":
            ask = {"jsonrpc": "2.0", "id": 7, "method": "ping"}
            old.stream.message(ask)
            await answered.wait()
        if seen.rpc == "answer":
            answered.set()
        return await old(seen)

    async with httpx.AsyncClient(transport=Web(site)) as http, open_sse(URL, http=http) as stream:
        with trio.fail_after(PATIENCE):
            async with mcp_trio.open_client(stream, mode="legacy") as client:
                await client.call_tool("t")


async def test_the_end_of_the_stream_is_the_end_of_the_connection(
    autojump_clock: MockClock,
) -> None:
    """There is no resumption in that revision: calls in flight fail at once."""
    old = Old()

    async def site(seen: Seen) -> httpx.Response:
        if seen.rpc == "tools/call":
            old.stream.cut()
            return httpx.Response(202)
        return await old(seen)

    async with (
        httpx.AsyncClient(transport=Web(site)) as http,
        open_sse(URL, http=http) as stream,
        mcp_trio.open_client(stream, mode="legacy") as client,
    ):
        with pytest.raises(mcp_trio.ConnectionClosed, match="reset by peer"):
            await client.call_tool("t")


async def test_a_message_over_the_limit_ends_the_stream(autojump_clock: MockClock) -> None:
    """As on any other stream of frames; what came before it is delivered."""
    old = Old()
    async with (
        httpx.AsyncClient(transport=Web(old)) as http,
        open_sse(URL, http=http, limit=1000) as stream,
    ):
        old.stream.write(b"data: {}\n\ndata: " + b"x" * 2000)
        assert await stream.receive() == [b"{}"]
        with pytest.raises(LineTooLong):
            await stream.receive()


async def test_other_events_are_skipped(autojump_clock: MockClock) -> None:
    """Keep-alives come as comments, or as events of a type of their own."""
    old = Old()
    async with httpx.AsyncClient(transport=Web(old)) as http, open_sse(URL, http=http) as stream:
        old.stream.write(b": hello\n\nevent: ping\ndata: 1\n\nevent: message\ndata: {}\n\n")
        assert await stream.receive() == [b"{}"]
        old.stream.end()
        assert await stream.receive() == []
        assert await stream.receive() == []


async def test_closing_the_stream_does_not_cancel_who_holds_it(autojump_clock: MockClock) -> None:
    """A client closes the stream that it was given; its user goes on."""
    old = Old()
    went_on = False
    async with httpx.AsyncClient(transport=Web(old)) as http, open_sse(URL, http=http) as stream:
        async with mcp_trio.open_client(stream, mode="legacy") as client:
            await client.call_tool("t")
        assert old.stream.closed.is_set()
        await trio.sleep(1)
        went_on = True
    assert went_on


async def test_leaving_closes_the_stream(autojump_clock: MockClock) -> None:
    """That is how the server hears of it."""
    old = Old()
    async with httpx.AsyncClient(transport=Web(old)) as http:
        async with open_sse(URL, http=http) as stream:
            frame = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "x"}).encode()
            await stream.send([frame])
        assert old.stream.closed.is_set()
        with pytest.raises(trio.ClosedResourceError):
            await stream.send([frame])
        assert await stream.receive() == []
