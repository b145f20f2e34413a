"""HTTP requests of a client: what goes wrong, what is said of it, and what is never said."""

import gzip
import logging
import ssl
import time
import traceback
import zlib
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from functools import partial

import h11
import httpx
import pytest
import trio
from hypothesis import given
from hypothesis import strategies as st
from trio.testing import MockClock

import mcp_trio
from mcp_trio.transports.http_endpoint import Endpoint, Unreachable, open_endpoint
from mcp_trio.transports.http_packing import PIECE, BadPacking, Unpacker
from mcp_trio.transports.http_reply import REFUSAL_LIMIT, shown
from tests.transports.web import Events, Seen, Web, modern, result, text

Handler = Callable[[trio.SocketStream], Awaitable[object]]
SECRET = "s3cr3t-t0ken"


async def hello(seen: Seen) -> httpx.Response:
    return result(seen, text("hello"))


@asynccontextmanager
async def endpoint(web: Web, url: str = "http://server.example/mcp") -> AsyncIterator[Endpoint]:
    async with httpx.AsyncClient(transport=web) as http:
        yield Endpoint(http, url, {"Authorization": f"Bearer {SECRET}"})


# Answers that are none


@pytest.mark.parametrize(
    ("response", "says"),
    [
        (httpx.Response(200, html="<h1>Hi</h1><title>Wiki  of\nus</title>"), "Wiki of us"),
        (httpx.Response(200, html="<p>no title"), "text/html is neither JSON nor an event stream"),
        (httpx.Response(200, headers={"content-type": "application/json"}), "it has no body"),
        (httpx.Response(200, json=[1]), "the body is no answer to the request: [1]"),
        (httpx.Response(200, json={"jsonrpc": "2.0", "id": "1", "result": {}}), "no answer"),
        (httpx.Response(200, text="{"), "text/plain is neither JSON"),
        (httpx.Response(202), "it has no body"),
        (httpx.Response(202, text="Accepted"), "text/plain is neither JSON"),
        (httpx.Response(204), "it has no body"),
        (httpx.Response(502, html="<title>502 Bad Gateway</title>"), "502 Bad Gateway"),
        (httpx.Response(503, text="x" * 10**6), "x" * 100),
        (httpx.Response(504), "HTTP 504 Gateway Timeout from http://server.example/mcp"),
        (httpx.Response(304), "HTTP 304"),
    ],
)
async def test_what_is_no_answer_names_url_and_status(
    response: httpx.Response, says: str, autojump_clock: MockClock
) -> None:
    """Whoever reads it can tell whose page that is, and is not shown all of it."""

    async def site(seen: Seen) -> httpx.Response:
        return httpx.Response(
            response.status_code, headers=response.headers, content=response.content
        )

    async with Web(modern(site)).connect() as client:
        with pytest.raises(mcp_trio.TransportError) as caught:
            await client.call_tool("t")
        told = str(caught.value)
        assert told.startswith(f"HTTP {response.status_code} ")
        assert "http://server.example/mcp" in told
        assert says in told
        assert len(told) < 1000
        assert caught.value.status == response.status_code


async def test_an_unreadable_answer_is_a_protocol_error(autojump_clock: MockClock) -> None:
    """JSON-RPC that is not quite right fails the call that it is for."""

    async def site(seen: Seen) -> httpx.Response:
        body = b'{"jsonrpc": "2.0", "id": %d, "result": NaN}' % seen.id
        return httpx.Response(200, headers={"content-type": "application/json"}, content=body)

    async with Web(modern(site)).connect() as client:
        with pytest.raises(mcp_trio.ProtocolError, match="unreadable"):
            await client.call_tool("t")


async def test_a_refusal_whose_body_never_ends_is_told_in_time(autojump_clock: MockClock) -> None:
    """The status is known; the body may drip for ever."""

    async def site(seen: Seen) -> httpx.Response:
        return httpx.Response(500, stream=Events(b"one moment..."))

    async with Web(modern(site)).connect() as client:
        with trio.fail_after(15), pytest.raises(mcp_trio.TransportError, match="one moment"):
            await client.call_tool("t")


# Secrets


async def test_errors_repeat_no_secrets(
    autojump_clock: MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    """Neither ours, from URL and headers, nor as the echo of a server that shows what it got."""

    async def site(seen: Seen) -> httpx.Response:
        lines = [f"{name}: {value}" for name, value in seen.headers.items()]
        return httpx.Response(500, text=f"{seen.request.url}\n" + "\n".join(lines))

    caplog.set_level(logging.DEBUG, logger="mcp_trio")
    url = f"http://user:pa55word@server.example/mcp?key={SECRET}"
    web = Web(site)
    with pytest.raises(mcp_trio.TransportError) as caught:
        async with web.connect(url, mode="modern", headers={"X-Key": f"other-{SECRET}"}):
            pass
    told = str(caught.value) + caplog.text
    assert "HTTP 500" in told
    assert web.seen[0].request.url.params["key"] == SECRET
    assert SECRET not in told
    assert "pa55word" not in told


async def test_the_broken_connection_names_no_query(autojump_clock: MockClock) -> None:
    """The same where there was no answer at all."""
    for error in (
        httpx.ConnectError("refused"),
        httpx.ConnectTimeout(""),
        httpx.PoolTimeout(""),
        httpx.WriteTimeout(""),
        httpx.RemoteProtocolError("Server disconnected without sending a response."),
        httpx.ProxyError("403 Forbidden"),
    ):

        async def site(seen: Seen, error: Exception = error) -> httpx.Response:
            raise error

        with pytest.raises(mcp_trio.TransportError) as caught:
            async with Web(site).connect(f"https://h.example/mcp?key={SECRET}", mode="modern"):
                pass
        assert "https://h.example/mcp" in str(caught.value)
        assert SECRET not in str(caught.value)
        assert caught.value.status is None


async def test_a_header_that_http_does_not_allow_is_not_shown() -> None:
    """A hook may have put it there; it may be a secret with a line ending too many."""

    async def hook(request: httpx.Request) -> None:
        request.headers["Authorization"] = f"Bearer {SECRET}\n"

    async with (
        listening(slow) as url,
        httpx.AsyncClient(event_hooks={"request": [hook]}) as http,
        open_endpoint(url, http=http) as there,
    ):
        with pytest.raises(mcp_trio.TransportError, match="does not allow") as caught:
            async with there.open("POST", {}, b"{}"):
                pass
    assert SECRET not in "".join(traceback.format_exception(caught.value))


async def test_the_servers_own_phrase_is_not_shown() -> None:
    """It may say anything, such as what we sent."""

    async def rude(stream: trio.SocketStream) -> None:
        await stream.receive_some()
        head = f"HTTP/1.1 500 No {SECRET}\r\nContent-Length: 0\r\n\r\n"
        await stream.send_all(head.encode())

    async with (
        listening(rude) as url,
        open_endpoint(url) as there,
        there.open("POST", {}, b"{}") as reply,
    ):
        told = str((await reply.refusal()).error)
    assert told == f"HTTP 500 Internal Server Error from {url}"


async def test_a_message_that_is_never_confirmed_is_an_error(autojump_clock: MockClock) -> None:
    """It is not waited for without end: nothing is computed to confirm a message."""

    async def site(seen: Seen) -> httpx.Response:
        await trio.sleep_forever()
        raise AssertionError

    async with endpoint(Web(site)) as there:
        with pytest.raises(mcp_trio.TransportError, match="did not confirm a message within 60 s"):
            await there.tell({}, b"{}")


def test_a_url_is_shown_without_what_may_be_secret() -> None:
    """Scheme, host, port and path; IPv6 literals stay what they are."""
    assert shown(httpx.URL("https://u:p@h.example:8443/a/b?c=d#e")) == "https://h.example:8443/a/b"
    assert shown(httpx.URL("http://[::1]:8000/mcp")) == "http://[::1]:8000/mcp"


# Redirects


@pytest.mark.parametrize("status", [307, 308])
async def test_redirects_within_the_origin_keep_the_request(
    status: int, autojump_clock: MockClock
) -> None:
    """A missing slash at the end of a path is the usual reason."""

    async def site(seen: Seen) -> httpx.Response:
        if seen.request.url.path == "/mcp":
            return httpx.Response(status, headers={"location": "/mcp/"})
        return await modern(hello)(seen)

    web = Web(site)
    async with web.connect(headers={"Authorization": f"Bearer {SECRET}"}) as client:
        await client.call_tool("t")
    assert web.seen[2].content == web.seen[3].content
    assert web.seen[3].headers["authorization"] == f"Bearer {SECRET}"


@pytest.mark.parametrize(
    ("status", "location"),
    [
        (307, "http://other.example/mcp"),
        (308, "https://server.example/mcp"),
        (307, "http://server.example:81/mcp"),
        (307, "//other.example/mcp"),
        (307, "http://server.example@other.example/mcp"),
        (301, "/elsewhere"),
        (302, "/elsewhere"),
        (303, "/elsewhere"),
        (302, f"http://other.example/login?key={SECRET}"),
        (307, "http://[bad/"),
    ],
)
async def test_other_redirects_are_refused(
    status: int, location: str, autojump_clock: MockClock
) -> None:
    """Neither credentials nor bodies go to another origin; nor is a body dropped on the way."""

    async def site(seen: Seen) -> httpx.Response:
        return httpx.Response(status, headers={"location": location})

    web = Web(site)
    async with endpoint(web) as there:
        for method in ("POST", "GET", "DELETE"):
            with pytest.raises(mcp_trio.TransportError, match=f"HTTP {status}") as caught:
                async with there.open(method, {}, b"{}" if method == "POST" else None):
                    pass
            assert SECRET not in str(caught.value)
    assert {str(seen.request.url) for seen in web.seen} == {"http://server.example/mcp"}


async def test_redirects_in_circles_come_to_an_end(autojump_clock: MockClock) -> None:
    """After five of them nothing better is to be expected."""

    async def site(seen: Seen) -> httpx.Response:
        return httpx.Response(307, headers={"location": "/mcp"})

    web = Web(site)
    async with endpoint(web) as there:
        with pytest.raises(mcp_trio.TransportError, match="more than 5 times"):
            async with there.open("POST", {}, b"{}"):
                pass
    assert len(web.seen) == 6


# Reading


async def test_reading_ends_where_the_reader_wants_it(autojump_clock: MockClock) -> None:
    """Stopping, failing and being cancelled in the middle of a body all let go of it."""
    for how in ("stop", "raise", "cancel"):
        body = Events(b"one", b"two", b"three")

        async def site(seen: Seen, body: Events = body) -> httpx.Response:
            return body.response()

        got: list[bytes] = []
        async with endpoint(Web(site)) as there:
            with trio.CancelScope() as scope:
                async with there.open("GET", {}) as reply:

                    def sink(piece: bytes, got: list[bytes] = got, how: str = how) -> None:
                        got.append(piece)
                        if how == "raise":
                            raise KeyError(how)
                        if how == "stop" and len(got) == 2:
                            reply.stop()
                        if how == "cancel" and len(got) == 3:
                            scope.cancel()

                    try:
                        await reply.pour(sink)
                    except KeyError:
                        assert how == "raise"
            assert scope.cancelled_caught == (how == "cancel")
            assert body.closed.is_set()
            assert got[:1] == [b"one"]


async def test_what_unpacks_to_very_much_holds_nobody_up(autojump_clock: MockClock) -> None:
    """A bomb is unpacked in turn with everything else, and no longer than somebody wants it."""
    plain, turns, got = 4_000_000, 0, 0
    body = Events(gzip.compress(bytes(plain)))

    async def site(seen: Seen) -> httpx.Response:
        return body.response(**{"content-encoding": "gzip"})

    def sink(piece: bytes) -> None:
        nonlocal got
        got += len(piece)

    async def somebody_else(scope: trio.CancelScope) -> None:
        nonlocal turns
        while turns < 10:
            await trio.lowlevel.checkpoint()
            turns += 1
        scope.cancel()

    async with endpoint(Web(site)) as there, trio.open_nursery() as nursery:
        with trio.CancelScope() as scope:
            async with there.open("GET", {}) as reply:
                nursery.start_soon(somebody_else, scope)
                await reply.pour(sink)
    assert scope.cancelled_caught
    assert 0 < got <= 20 * PIECE
    assert body.closed.is_set()


@pytest.mark.parametrize("what", [b"<title>", b"<title", b"<title></t", b"<", b">", b"<title><"])
async def test_no_page_takes_long_to_be_told(what: bytes, autojump_clock: MockClock) -> None:
    """A stranger writes the page of an error, and must not stop the program with it."""

    async def site(seen: Seen) -> httpx.Response:
        page = what * (REFUSAL_LIMIT // len(what))
        return httpx.Response(500, content=page, headers={"content-type": "text/html"})

    async with endpoint(Web(site)) as there:
        start = time.process_time()
        refusal = await there.tell({}, b"{}")
        assert time.process_time() - start < 0.3
    assert refusal is not None
    assert refusal.status == 500


def test_the_packings_that_are_offered_are_understood() -> None:
    """gzip, and deflate both as it is defined and as some servers send it."""
    plain = b"hello " * 50_000
    raw = zlib.compressobj(wbits=-zlib.MAX_WBITS)
    for packing, packed in [
        ("gzip", gzip.compress(plain)),
        ("GZIP", gzip.compress(plain)),
        ("x-gzip", gzip.compress(plain)),
        ("deflate", zlib.compress(plain)),
        ("deflate", raw.compress(plain) + raw.flush()),
        ("identity", plain),
        (None, plain),
    ]:
        unpacker = Unpacker(packing)
        assert b"".join(unpacker.feed(packed)) == plain
        unpacker.end()


@given(st.binary(max_size=300), st.integers(1, 20))
def test_a_packed_body_may_be_cut_anywhere(plain: bytes, size: int) -> None:
    """What comes out does not depend on how it came in."""
    packed = gzip.compress(plain)
    unpacker = Unpacker("gzip")
    pieces = [packed[at : at + size] for at in range(0, len(packed), size)]
    assert b"".join(out for piece in pieces for out in unpacker.feed(piece)) == plain
    unpacker.end()


def test_a_bomb_comes_out_in_small_pieces() -> None:
    """Whoever counts can stop before memory is used up."""
    bomb = gzip.compress(bytes(50_000_000))
    pieces = Unpacker("gzip").feed(bomb)
    assert all(len(next(pieces)) <= PIECE for _ in range(10))


def test_a_damaged_body_is_no_body() -> None:
    """Half of a packed answer must not pass for the whole."""
    packed = gzip.compress(b"hello" * 100)
    cut = Unpacker("gzip")
    list(cut.feed(packed[:-10]))
    with pytest.raises(BadPacking, match="incomplete"):
        cut.end()
    for packing in ("gzip", "deflate"):
        with pytest.raises(BadPacking, match="cannot be unpacked"):
            list(Unpacker(packing).feed(b"\x99" * 100))
    with pytest.raises(BadPacking, match="'br'"):
        Unpacker("br")


# With sockets


@asynccontextmanager
async def listening(handler: Handler) -> AsyncIterator[str]:
    """A TCP server on a free port; its URL."""
    async with trio.open_nursery() as nursery:
        listeners = await nursery.start(partial(trio.serve_tcp, handler, 0, host="127.0.0.1"))
        yield f"http://127.0.0.1:{listeners[0].socket.getsockname()[1]}/mcp"
        nursery.cancel_scope.cancel()


async def slow(stream: trio.SocketStream) -> None:
    """A server that takes requests and does not answer."""
    while await stream.receive_some():
        pass


async def test_a_full_pool_is_a_clear_error() -> None:
    """It says what holds the connections, and is one call's error."""
    limits = httpx.Limits(max_connections=1)
    async with (
        listening(slow) as url,
        httpx.AsyncClient(limits=limits) as http,
        open_endpoint(url, http=http, send_timeout=0.2) as there,
        trio.open_nursery() as nursery,
    ):

        async def hold() -> None:
            async with there.open("POST", {}, b"{}"):
                pass

        nursery.start_soon(hold)
        await trio.sleep(0.1)
        with pytest.raises(mcp_trio.TransportError, match="max_connections"):
            await hold()
        nursery.cancel_scope.cancel()


async def test_sending_has_a_deadline_and_waiting_has_none() -> None:
    """A server that does not read its input is told from one that is only slow."""

    async def deaf(stream: trio.SocketStream) -> None:
        await trio.sleep_forever()

    async with listening(deaf) as url, open_endpoint(url, send_timeout=0.2) as there:
        with pytest.raises(mcp_trio.TransportError, match=r"sending to http.* took longer than"):
            async with there.open("POST", {}, bytes(50_000_000)):
                pass
        with trio.move_on_after(0.6) as scope:
            async with there.open("POST", {}, b"{}"):
                pass
        assert scope.cancelled_caught


async def test_a_server_that_dies_is_news_at_once() -> None:
    """Before the answer and in the middle of it: the call fails, and the next one is tried."""
    connections: list[trio.SocketStream] = []

    async def dying(stream: trio.SocketStream) -> None:
        connections.append(stream)
        await stream.receive_some()
        if len(connections) == 2:
            head = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n"
            chunked = head[:-2] + b"Transfer-Encoding: chunked\r\n\r\n5\r\n: hi\n\r\n"
            await stream.send_all(chunked)

    async with listening(dying) as url, open_endpoint(url) as there:
        with pytest.raises(mcp_trio.TransportError, match="broke before an answer came"):
            async with there.open("POST", {}, b"{}"):
                pass
        async with there.open("POST", {}, b"{}") as reply:
            with pytest.raises(mcp_trio.TransportError, match="the body broke off"):
                await reply.pour(lambda piece: None)
    with pytest.raises(Unreachable, match="cannot connect"):
        async with open_endpoint(url) as there, there.open("POST", {}, b"{}"):
            pass


async def test_connections_are_used_again_also_after_streams() -> None:
    """A new connection for each call would cost a round trip, and with TLS several."""
    connections = 0

    async def serve(stream: trio.SocketStream) -> None:
        nonlocal connections
        connections += 1
        http = h11.Connection(h11.SERVER)
        while True:
            event = http.next_event()
            if event is h11.NEED_DATA:
                http.receive_data(await stream.receive_some())
            elif isinstance(event, h11.EndOfMessage):
                headers = [("content-type", "text/event-stream")]
                head = h11.Response(status_code=200, headers=headers)
                for reply in (head, h11.Data(data=b"data: 1\n\n"), h11.EndOfMessage()):
                    await stream.send_all(http.send(reply) or b"")
                http.start_next_cycle()
            elif isinstance(event, h11.ConnectionClosed):
                return

    async with listening(serve) as url, open_endpoint(url) as there:
        for _ in range(5):
            async with there.open("POST", {}, b"{}") as reply:
                await reply.pour(lambda piece: None)
    assert connections == 1


async def test_a_private_certificate_authority_needs_the_users_client() -> None:
    """TLS is checked by default; the error is one of connecting."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)

    async def refuse(stream: trio.SocketStream) -> None:
        tls = trio.SSLStream(stream, context, server_side=True)
        with pytest.raises(trio.BrokenResourceError):
            await tls.do_handshake()

    async with listening(refuse) as url:
        with pytest.raises(Unreachable, match="cannot connect to https"):
            async with (
                open_endpoint(url.replace("http", "https")) as there,
                there.open("POST", {}, b"{}"),
            ):
                pass
