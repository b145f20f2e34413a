"""WebSocket: both eras over real sockets, who may connect, and how a connection ends."""

import ssl
import traceback
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

import pytest
import trio
import trustme

import mcp_trio
from mcp_trio.testing import exhaustive_cancellation
from mcp_trio.transports.websocket import open_websocket_stream

LIMIT = 1 << 20


def make_server() -> mcp_trio.Server:
    server = mcp_trio.Server("socket", line_limit=100_000)

    @server.tool()
    async def echo(text: str, ctx: mcp_trio.Context) -> str:
        await ctx.report_progress(1, 1)
        return text

    @server.tool()
    async def wait() -> None:
        await trio.sleep_forever()

    @server.tool()
    async def ask(ctx: mcp_trio.Context) -> str:
        return (await ctx.elicit("name", "Name?", {"name": str})).action

    return server


@asynccontextmanager
async def serving(
    server: mcp_trio.Server, *, ping_interval: float | None = None, origins: tuple[str, ...] = ()
) -> AsyncIterator[str]:
    """A server on a free port; gives its URL."""
    async with trio.open_nursery() as nursery:

        async def serve(*, task_status: trio.TaskStatus[list[trio.SocketListener]]) -> None:
            await server.serve_websocket(
                0, ping_interval=ping_interval, origins=origins, task_status=task_status
            )

        listeners = await nursery.start(serve)
        port = listeners[0].socket.getsockname()[1]
        yield f"ws://127.0.0.1:{port}/mcp"
        nursery.cancel_scope.cancel()


@pytest.mark.parametrize("mode", ["modern", "legacy"])
async def test_both_eras_over_a_socket(mode: str) -> None:
    """Calls, progress, questions and text beyond ASCII work as on every other stream."""
    seen: list[float] = []
    async with (
        serving(make_server()) as url,
        open_websocket_stream(url, message_limit=LIMIT) as stream,
        mcp_trio.open_client(stream, mode=mode, on_elicit=lambda request: None) as client,
    ):
        text = "\u2028 d\u00e9j\u00e0 \U0001f40d"
        result = await client.call_tool(
            "echo", {"text": text}, on_progress=lambda p: seen.append(p.progress)
        )
        assert result.content == [mcp_trio.TextContent(text)]
        assert seen == [1]
        assert (await client.call_tool("ask")).content == [mcp_trio.TextContent("cancel")]
        with trio.move_on_after(0.05) as scope:
            await client.call_tool("wait")
        assert scope.cancelled_caught
        await client.ping()


async def test_server_that_goes_away_is_news(nursery: trio.Nursery) -> None:
    """I4: calls in flight fail with a reason, and soon, when the other side closes."""
    server_scope = trio.CancelScope()

    async def serve(*, task_status: trio.TaskStatus[list[trio.SocketListener]]) -> None:
        with server_scope:
            await make_server().serve_websocket(0, task_status=task_status)

    listeners = await nursery.start(serve)
    url = f"ws://127.0.0.1:{listeners[0].socket.getsockname()[1]}"
    async with (
        open_websocket_stream(url, message_limit=LIMIT) as stream,
        mcp_trio.open_client(stream) as client,
    ):
        server_scope.cancel()
        with trio.fail_after(1), pytest.raises(mcp_trio.ConnectionClosed):
            await client.call_tool("wait")


async def test_message_over_the_limit_closes_with_1009() -> None:
    """Size limits: the side that gets too much closes, and the other one is told why."""
    async with (
        serving(make_server()) as url,
        open_websocket_stream(url, message_limit=LIMIT) as stream,
        mcp_trio.open_client(stream) as client,
    ):
        with pytest.raises(mcp_trio.ConnectionClosed, match="1009"):
            await client.call_tool("echo", {"text": "x" * 200_000})


async def test_binary_messages_are_refused() -> None:
    """Messages are text: a binary frame ends the connection with 1003, and only that one."""
    async with serving(make_server()) as url:
        async with open_websocket_stream(url, message_limit=LIMIT) as stream:
            assert stream.websocket.subprotocol == "mcp"
            await stream.websocket.send_message(b"{}")
            with pytest.raises(trio.BrokenResourceError, match="1003"):
                await stream.receive()
        async with (
            open_websocket_stream(url, message_limit=LIMIT) as stream,
            mcp_trio.open_client(stream) as client,
        ):
            await client.ping()


async def test_foreign_web_pages_are_refused() -> None:
    """Pitfall 39: a page of another site cannot connect to a server on localhost."""
    async with serving(make_server(), origins=("https://friend.example",)) as url:
        for origin, allowed in {
            "https://evil.example": False,
            "http://localhost.evil.example": False,
            "null": False,
            "http://localhost:3000": True,
            "http://[::1]:3000": True,
            "https://friend.example": True,
        }.items():
            opening = open_websocket_stream(url, headers={"Origin": origin}, message_limit=LIMIT)
            if allowed:
                async with opening as stream, mcp_trio.open_client(stream) as client:
                    await client.ping()
            else:
                with pytest.raises(mcp_trio.AuthorizationRequired, match="HTTP 403"):
                    async with opening:
                        raise AssertionError("unreachable")


async def test_unreachable_server_is_a_clear_error() -> None:
    """Nobody listens: the error names the place, without the query that may hold a secret."""
    with pytest.raises(mcp_trio.TransportError, match=r"cannot connect to ws://127.0.0.1:1/x") as e:
        async with open_websocket_stream("ws://127.0.0.1:1/x?token=secret", message_limit=LIMIT):
            raise AssertionError("unreachable")
    assert "secret" not in str(e.value)


@pytest.mark.parametrize(
    ("url", "headers"),
    [
        ("ws://localhost", {"X-Token": "s3cret\r\nX: y"}),
        ("ws://localhost", {"X-Token": "s3cret\n"}),
        ("ws://localhost", {"X-Token": "s3cr\u00e9t"}),
        ("ws://localhost", {"Host": "s3cret"}),
        ("ws://localhost", {"sec-websocket-protocol": "s3cret"}),
        ("ws://localhost/\u00e9?s3cret", {}),
        ("ws://localhost/?a b=s3cret", {}),
        ("ws://user:s3cret@localhost/", {}),
        ("ws://localhost:99999/?s3cret", {}),
        ("http://localhost/?s3cret", {}),
    ],
)
async def test_what_cannot_be_sent_is_an_error_at_once(url: str, headers: dict[str, str]) -> None:
    """Nobody is connected to, and the error shows nothing that may be secret."""
    with pytest.raises(ValueError, match=r".") as caught:
        async with open_websocket_stream(url, headers=headers, message_limit=LIMIT):
            raise AssertionError("it was sent")
    assert "s3c" not in "".join(traceback.format_exception(caught.value))


async def test_client_that_answers_no_ping_is_given_up() -> None:
    """A peer that vanished without a word is noticed where pings were asked for."""
    gone = trio.Event()
    server = make_server()

    @server.tool()
    async def watch() -> None:
        try:
            await trio.sleep_forever()
        finally:
            gone.set()

    async with serving(server, ping_interval=0.1) as url:
        port = int(url.rpartition(":")[2].partition("/")[0])
        stream = await trio.open_tcp_stream("127.0.0.1", port)
        # A client that reads nothing after its handshake: it never sees the ping.
        key = b"dGhlIHNhbXBsZSBub25jZQ=="
        await stream.send_all(
            b"GET /mcp HTTP/1.1\r\nHost: x\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
            b"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: " + key + b"\r\n\r\n"
        )
        await stream.receive_some()  # the end of the handshake, and the last that it reads
        body = (
            b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"watch","_meta":{'
            b'"io.modelcontextprotocol/protocolVersion":"2026-07-28",'
            b'"io.modelcontextprotocol/clientCapabilities":{}}}}'
        )
        head = bytes([0x81, 0x80 | 126]) + len(body).to_bytes(2, "big") + bytes(4)
        await stream.send_all(head + body)
        with trio.fail_after(5):
            await gone.wait()
        await stream.aclose()


async def test_garbage_instead_of_a_handshake_hurts_nobody() -> None:
    """What is no WebSocket is dropped, and the next one is served."""
    async with serving(make_server()) as url:
        port = int(url.rpartition(":")[2].partition("/")[0])
        for garbage in (b"", b"\0\1\2", b"GET / HTTP/1.1\r\nHost: x\r\n\r\n", b"x" * 100_000):
            raw = await trio.open_tcp_stream("127.0.0.1", port)
            with suppress(trio.BrokenResourceError):
                await raw.send_all(garbage)
            await raw.aclose()
        async with (
            open_websocket_stream(url, message_limit=LIMIT) as stream,
            mcp_trio.open_client(stream) as client,
        ):
            await client.ping()


async def test_body_exceptions_leave_as_themselves() -> None:
    """I10 holds through the WebSocket's own context manager."""
    async with serving(make_server()) as url:
        with pytest.raises(ValueError, match="mine"):
            async with (
                open_websocket_stream(url, message_limit=LIMIT) as stream,
                mcp_trio.open_client(stream),
            ):
                raise ValueError("mine")


async def test_tls() -> None:
    """wss:// works with a certificate authority of one's own, and refuses an unknown one."""
    authority = trustme.CA()
    theirs = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    authority.issue_cert("localhost").configure_cert(theirs)
    ours = ssl.create_default_context()
    authority.configure_trust(ours)
    async with trio.open_nursery() as nursery:

        async def serve(
            *, task_status: trio.TaskStatus[list[trio.SSLListener[trio.SocketStream]]]
        ) -> None:
            await make_server().serve_websocket(0, ssl_context=theirs, task_status=task_status)

        [listener] = await nursery.start(serve)
        port = listener.transport_listener.socket.getsockname()[1]
        url = f"wss://localhost:{port}"
        async with (
            open_websocket_stream(url, ssl_context=ours, message_limit=LIMIT) as stream,
            mcp_trio.open_client(stream) as client,
        ):
            await client.ping()
        with pytest.raises(mcp_trio.TransportError, match="cannot connect"):
            async with open_websocket_stream(url, message_limit=LIMIT):
                raise AssertionError("unreachable")
        nursery.cancel_scope.cancel()


def test_cancelled_anywhere() -> None:
    """I1 to I3 with real sockets: no task and no descriptor is left, at either end."""

    async def scenario() -> None:
        async with serving(make_server()) as url, mcp_trio.open_client(url) as client:
            await client.call_tool("echo", {"text": "hi"}, on_progress=lambda p: None)
            async with client.listen(tools=True):
                pass

    steps = exhaustive_cancellation(scenario, real_clock=True, time_limit=10)
    print(f"\nWebSocket: {steps} task steps tried")
    assert steps > 50
