"""Which era a server behind a URL belongs to, and how old its transport is."""

import httpx
import pytest
import trio
from trio.testing import MockClock

import mcp_trio
from tests.client.scripted import discovered, initialized
from tests.transports.web import URL, Events, Legacy, Seen, Web, refused, result, text


async def hello(seen: Seen) -> httpx.Response:
    return result(seen, text("hello"))


LEGACY_ANSWERS = {
    "400 without a body": httpx.Response(400),
    "400 in HTML": httpx.Response(400, html="<title>Bad Request</title>"),
    "404 in words": httpx.Response(404, text="Cannot POST /mcp"),
    "405": httpx.Response(405),
    "406": httpx.Response(406),
    "415": httpx.Response(415),
    "500": httpx.Response(500, text="KeyError: 'server/discover'"),
    "200 in HTML": httpx.Response(200, html="<title>Hello</title>"),
    "200 without a body": httpx.Response(200, headers={"content-type": "application/json"}),
    "202": httpx.Response(202),
}


@pytest.mark.parametrize("answer", LEGACY_ANSWERS)
async def test_any_status_without_a_modern_error_means_legacy(
    answer: str, autojump_clock: MockClock
) -> None:
    """The probe is something that older servers do not understand, each in its way."""
    server = Legacy(hello)

    async def site(seen: Seen) -> httpx.Response:
        if seen.rpc == "server/discover":
            found = LEGACY_ANSWERS[answer]
            return httpx.Response(found.status_code, headers=found.headers, content=found.content)
        return await server(seen)

    web = Web(site)
    async with web.connect() as client:
        assert client.protocol_version == "2025-11-25"
        await client.call_tool("t")
    assert web.rpcs[:2] == ["server/discover", "initialize"]


@pytest.mark.parametrize(
    ("status", "code"), [(200, -32601), (404, -32601), (400, -32000), (400, -32600), (500, -32603)]
)
async def test_any_error_but_a_modern_one_means_legacy(
    status: int, code: int, autojump_clock: MockClock
) -> None:
    """-32601 is no modern error for this method, which each modern server has."""
    server = Legacy(hello)

    async def site(seen: Seen) -> httpx.Response:
        if seen.rpc == "server/discover":
            return refused(seen, status, code, "what is that?")
        return await server(seen)

    async with Web(site).connect() as client:
        assert client.protocol_version == "2025-11-25"


async def test_a_modern_error_in_a_400_keeps_the_client_modern(autojump_clock: MockClock) -> None:
    """It is tried again in a version that the server lists."""

    async def site(seen: Seen) -> httpx.Response:
        if len(web.seen) == 1:
            data = {"supported": ["2026-07-28"], "requested": "2026-07-28"}
            return refused(seen, 400, -32022, "Unsupported protocol version", data)
        return result(seen, discovered())

    web = Web(site)
    async with web.connect() as client:
        assert client.protocol_version == "2026-07-28"
    assert web.rpcs == ["server/discover"] * 2


@pytest.mark.parametrize("code", [-32020, -32021])
async def test_a_modern_server_that_refuses_is_not_asked_for_its_past(
    code: int, autojump_clock: MockClock
) -> None:
    """Its error says what is wrong; `initialize` would only hide that."""

    async def site(seen: Seen) -> httpx.Response:
        return refused(seen, 400, code, "not like this")

    web = Web(site)
    with pytest.raises(mcp_trio.MCPError, match="not like this"):
        async with web.connect():
            pass
    assert web.rpcs == ["server/discover"]


async def test_versions_of_the_past_only_mean_legacy(autojump_clock: MockClock) -> None:
    """-32022 with legacy versions comes from a server that knows the modern error at least."""
    server = Legacy(hello, version="2025-06-18")

    async def site(seen: Seen) -> httpx.Response:
        if seen.rpc == "server/discover":
            data = {"supported": ["2025-06-18"], "requested": "2026-07-28"}
            return refused(seen, 400, -32022, "Unsupported protocol version", data)
        return await server(seen)

    async with Web(site).connect() as client:
        assert client.protocol_version == "2025-06-18"


async def test_silence_means_legacy_and_the_probe_is_closed(autojump_clock: MockClock) -> None:
    """A server that holds the probe open does not hold it open for ever."""
    server = Legacy(hello)
    given_up = trio.Event()

    async def site(seen: Seen) -> httpx.Response:
        if seen.rpc == "server/discover":
            try:
                await trio.sleep_forever()
            finally:
                given_up.set()
        return await server(seen)

    async with Web(site).connect(probe_timeout=3) as client:
        assert client.protocol_version == "2025-11-25"
        with trio.fail_after(1):
            await given_up.wait()


async def test_a_slow_modern_server_is_recognized_after_all(autojump_clock: MockClock) -> None:
    """It refuses `initialize` in its own way; the second probe is not cut short."""

    async def site(seen: Seen) -> httpx.Response:
        if seen.rpc == "initialize":
            data = {"supported": ["2026-07-28"], "requested": None}
            return refused(seen, 400, -32022, "Unsupported protocol version", data)
        await trio.sleep(10)
        return result(seen, discovered())

    async with Web(site).connect() as client:
        assert client.protocol_version == "2026-07-28"


@pytest.mark.parametrize("status", [401, 403])
@pytest.mark.parametrize("mode", ["auto", "modern", "legacy"])
async def test_who_must_be_authorized_is_told_so(
    status: int, mode: str, autojump_clock: MockClock
) -> None:
    """It says nothing about the era; the challenge says how to go on."""

    async def site(seen: Seen) -> httpx.Response:
        headers = {"WWW-Authenticate": 'Bearer resource_metadata="https://server.example/.well"'}
        return httpx.Response(status, headers=headers, json={"error": "invalid_token"})

    web = Web(site)
    with pytest.raises(mcp_trio.AuthorizationRequired) as caught:
        async with web.connect(mode=mode):
            pass
    assert caught.value.status == status
    assert "resource_metadata" in caught.value.challenge
    assert len(web.seen) == 1


async def test_a_client_that_is_modern_only_gets_the_error_as_it_is(
    autojump_clock: MockClock,
) -> None:
    """A missing page is no matter of versions."""

    async def site(seen: Seen) -> httpx.Response:
        return httpx.Response(404, text="nothing here")

    web = Web(site)
    with pytest.raises(mcp_trio.TransportError, match=r"HTTP 404.*nothing here"):
        async with web.connect(mode="modern"):
            pass
    assert web.rpcs == ["server/discover"]


async def test_a_server_that_is_not_there_is_asked_once(autojump_clock: MockClock) -> None:
    """Nothing about eras can be learned from that."""

    async def site(seen: Seen) -> httpx.Response:
        raise httpx.ConnectError("All connection attempts failed")

    web = Web(site)
    with pytest.raises(mcp_trio.TransportError, match=r"cannot connect to http://server\.example"):
        async with web.connect():
            pass
    assert web.rpcs == ["server/discover"]


async def test_a_page_that_is_no_server_ends_in_its_own_words(autojump_clock: MockClock) -> None:
    """All three ways were tried; what is told is the answer to `initialize`."""

    async def site(seen: Seen) -> httpx.Response:
        return httpx.Response(404, html="<html><title>Page not found</title><body>x</body></html>")

    web = Web(site)
    with pytest.raises(mcp_trio.TransportError) as caught:
        async with web.connect():
            pass
    assert str(caught.value) == "HTTP 404 Not Found from http://server.example/mcp: Page not found"
    assert web.rpcs == ["server/discover", "initialize", "GET"]


async def test_versions_that_a_legacy_server_lists_are_tried(autojump_clock: MockClock) -> None:
    """It refuses with 400 and a list; that it might be older still is found out on the way."""
    server = Legacy(hello, version="2025-03-26")

    async def site(seen: Seen) -> httpx.Response:
        if seen.rpc == "initialize" and seen.params["protocolVersion"] != "2025-03-26":
            data = {"supported": ["2025-03-26", "2024-11-05"]}
            return refused(seen, 400, -32602, "Unsupported protocol version", data)
        return await server(seen)

    async with Web(site).connect() as client:
        assert client.protocol_version == "2025-03-26"


@pytest.mark.parametrize("status", [400, 404, 405])
@pytest.mark.parametrize("mode", ["auto", "legacy", "2024-11-05"])
async def test_a_server_of_2024_is_spoken_to_in_its_way(
    status: int, mode: str, autojump_clock: MockClock
) -> None:
    """POST is refused there, and GET says where to post to."""
    stream = Events(b"event: endpoint\ndata: /messages?session=1\n\n")

    async def site(seen: Seen) -> httpx.Response:
        if seen.method == "GET":
            return stream.response()
        if seen.request.url.path != "/messages":
            return httpx.Response(status)
        answers = {"initialize": initialized("2024-11-05"), "tools/call": text("hello")}
        if seen.rpc in answers:
            stream.message({"jsonrpc": "2.0", "id": seen.id, "result": answers[seen.rpc]})
        return httpx.Response(202, text="Accepted")

    web = Web(site)
    async with web.connect(mode=mode) as client:
        assert client.protocol_version == "2024-11-05"
        answer = await client.call_tool("t")
        assert answer.content == [mcp_trio.TextContent("hello")]
        stream.end()
        await client.peer.wait_closed()
        with pytest.raises(mcp_trio.ConnectionClosed):
            await client.call_tool("t")
    assert [seen.rpc for seen in web.seen if seen.request.url.path == "/messages"][:3] == [
        "initialize",
        "notifications/initialized",
        "tools/call",
    ]


async def test_a_stream_that_says_no_endpoint_is_none_of_2024(autojump_clock: MockClock) -> None:
    """A GET may open something else; the wait for an endpoint is bounded."""

    async def site(seen: Seen) -> httpx.Response:
        return Events().response() if seen.method == "GET" else httpx.Response(404)

    with pytest.raises(mcp_trio.TransportError, match="404"):
        async with Web(site).connect():
            pass


async def test_urls_and_headers_are_checked_before_anything_is_sent() -> None:
    """An error that comes later could show the value of a header."""
    bad = [
        ("http://", {}),
        ("https:///mcp", {}),
        ("http://[::1/mcp", {}),
        (URL, {"X Y": "v"}),
        (URL, {"X": "secret\r\nInjected: 1"}),
        (URL, {"X": "sécret"}),
    ]
    for url, headers in bad:
        with pytest.raises(ValueError) as caught:  # noqa: PT011 - what it must not say counts
            async with mcp_trio.open_client(url, headers=headers):
                pass
        assert "cret" not in str(caught.value)
