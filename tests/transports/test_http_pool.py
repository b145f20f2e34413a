"""The connections that our client keeps: what differs from httpx's own, and what does not."""

import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import httpcore
import httpx
import pytest
import trio

from mcp_trio.exceptions import TransportError
from mcp_trio.transports.http_endpoint import MOST_IDLE, Endpoint, Unreachable, open_endpoint
from mcp_trio.transports.http_pool import MOST_HELD, HoldingStream

OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nOK"


@asynccontextmanager
async def listening(
    handler: Callable[[trio.SocketStream], Awaitable[object]],
) -> AsyncIterator[int]:
    async with trio.open_nursery() as nursery:
        (listener, *_) = await nursery.start(trio.serve_tcp, handler, 0)
        yield listener.socket.getsockname()[1]
        nursery.cancel_scope.cancel()


async def ask(endpoint: Endpoint, content: bytes) -> bytes:
    async with endpoint.open("POST", {"Accept": "*/*"}, content) as reply:
        return await reply.read(1000)


async def test_a_request_is_one_packet() -> None:
    """The server does not wake for a head whose body is still on its way."""
    arrived: list[bytes] = []

    async def answer(stream: trio.SocketStream) -> None:
        while data := await stream.receive_some():
            arrived.append(bytes(data))
            await stream.send_all(OK)

    async with (
        listening(answer) as port,
        open_endpoint(f"http://127.0.0.1:{port}/mcp") as endpoint,
    ):
        for _ in range(3):
            assert await ask(endpoint, b"{...}") == b"OK"
    assert len(arrived) == 3
    assert all(data.startswith(b"POST /mcp ") and data.endswith(b"\r\n{...}") for data in arrived)


async def test_what_is_held_is_bounded() -> None:
    """A large body is not kept a second time until the answer is read."""
    size = 3 * MOST_HELD

    async def answer(stream: trio.SocketStream) -> None:
        received = b""
        while not received.endswith(b"!"):
            received += await stream.receive_some()
        assert len(received.partition(b"\r\n\r\n")[2]) == size
        await stream.send_all(OK)

    async with (
        listening(answer) as port,
        open_endpoint(f"http://127.0.0.1:{port}/mcp") as endpoint,
    ):
        assert await ask(endpoint, b"x" * (size - 1) + b"!") == b"OK"


async def test_a_server_that_stops_reading_may_have_said_why() -> None:
    """An answer that came before the request was sent counts, as it does with httpx."""

    class Broken(httpcore.AsyncNetworkStream):
        async def write(self, buffer: bytes, timeout: float | None = None) -> None:
            raise httpcore.WriteError("broken pipe")

        async def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
            return b"HTTP/1.1 413 Too Large"

    stream = HoldingStream(Broken())
    await stream.write(b"POST /mcp HTTP/1.1")
    assert await stream.read(1000) == b"HTTP/1.1 413 Too Large"


async def test_idle_connections_are_used_again_and_bounded() -> None:
    """However many requests there are at once, a server is not held to so many connections."""
    opened = closed = 0
    together, let_go = trio.Event(), trio.Event()

    async def answer(stream: trio.SocketStream) -> None:
        nonlocal opened, closed
        opened += 1
        while await stream.receive_some():
            if opened == 2 * MOST_IDLE:
                together.set()
            await together.wait()
            await stream.send_all(OK)
        closed += 1
        if closed == MOST_IDLE:
            let_go.set()

    async with (
        listening(answer) as port,
        open_endpoint(f"http://127.0.0.1:{port}/mcp") as endpoint,
    ):
        async with trio.open_nursery() as nursery:
            for _ in range(2 * MOST_IDLE):
                nursery.start_soon(ask, endpoint, b"{}")
        with trio.fail_after(5):
            await let_go.wait()
        for _ in range(3):
            await ask(endpoint, b"{}")
        assert opened == 2 * MOST_IDLE
        assert closed == MOST_IDLE


async def test_a_connection_that_was_closed_meanwhile_is_not_used() -> None:
    """Servers close idle connections when they like, and no request may be lost by it."""
    let_go = trio.Event()

    async def answer_once(stream: trio.SocketStream) -> None:
        await stream.receive_some()
        await stream.send_all(OK)
        await stream.aclose()
        let_go.set()

    async with (
        listening(answer_once) as port,
        open_endpoint(f"http://127.0.0.1:{port}/mcp") as endpoint,
    ):
        for _ in range(3):
            assert await ask(endpoint, b"{}") == b"OK"
            await let_go.wait()
            let_go = trio.Event()


async def test_failures_are_those_of_httpx() -> None:
    """What goes wrong below has the names that the endpoint knows."""

    async def hang_up(stream: trio.SocketStream) -> None:
        await stream.receive_some()
        await stream.aclose()

    async with (
        listening(hang_up) as port,
        open_endpoint(f"http://127.0.0.1:{port}/mcp") as endpoint,
    ):
        with pytest.raises(TransportError, match="broke before an answer came"):
            await ask(endpoint, b"{}")
    async with open_endpoint(f"http://127.0.0.1:{port}/mcp") as endpoint:
        with pytest.raises(Unreachable, match="cannot connect"):
            await ask(endpoint, b"{}")


async def test_sending_has_a_deadline() -> None:
    """What is held is written under the deadline of writing, not under none, as reading is."""

    async def ignore(stream: trio.SocketStream) -> None:
        await trio.sleep_forever()

    async with (
        listening(ignore) as port,
        open_endpoint(f"http://127.0.0.1:{port}/mcp", send_timeout=0.2) as endpoint,
    ):
        with pytest.raises(TransportError, match=r"sending to .* took longer than 0.2 s"):
            await ask(endpoint, b"x" * 100_000_000)


async def test_requests_are_those_of_httpx() -> None:
    """What the URL and the server ask for is sent, and what the user says himself counts more."""
    arrived: list[bytes] = []

    async def answer(stream: trio.SocketStream) -> None:
        while data := await stream.receive_some():
            arrived.append(bytes(data))
            cookie = b"HTTP/1.1 200 OK\r\nSet-Cookie: node=7; Path=/\r\n"
            await stream.send_all(OK.replace(b"HTTP/1.1 200 OK\r\n", cookie))

    async with listening(answer) as port:
        url = f"http://anna:secret@127.0.0.1:{port}/mcp"
        async with open_endpoint(url, headers={"user-agent": "a robot"}) as endpoint:
            await ask(endpoint, b"{}")
            await ask(endpoint, b"{}")
    host = b"\r\nHost: 127.0.0.1:%d\r\n" % port
    assert all(host in request for request in arrived)
    assert all(b"\r\nAuthorization: Basic YW5uYTpzZWNyZXQ=\r\n" in request for request in arrived)
    assert all(b"\r\nuser-agent: a robot\r\n" in request for request in arrived)
    assert not any(b"mcp-trio" in request for request in arrived)
    assert [b"\r\nCookie: node=7\r\n" in request for request in arrived] == [False, True]


async def test_proxies_of_the_environment_are_used(monkeypatch: pytest.MonkeyPatch) -> None:
    """A user behind a proxy need not say so twice."""
    asked: list[bytes] = []

    async def proxy(stream: trio.SocketStream) -> None:
        asked.append(bytes(await stream.receive_some()))
        await stream.send_all(OK)

    async with listening(proxy) as port:
        monkeypatch.setenv("HTTP_PROXY", f"http://127.0.0.1:{port}")
        async with open_endpoint("http://server.example/mcp") as endpoint:
            assert await ask(endpoint, b"{}") == b"OK"
    assert asked[0].startswith(b"POST http://server.example/mcp ")


async def test_certificates_are_checked(monkeypatch: pytest.MonkeyPatch) -> None:
    """https gets the same trust as with httpx: no context of ours, and none at all for http."""
    contexts: list[ssl.SSLContext] = []

    def create() -> ssl.SSLContext:
        contexts.append(ssl.create_default_context())
        return contexts[-1]

    monkeypatch.setattr(httpx, "create_ssl_context", create)
    async with open_endpoint("http://server.example/mcp"):
        assert not contexts
    async with open_endpoint("https://server.example/mcp"):
        assert [context.verify_mode for context in contexts] == [ssl.CERT_REQUIRED]
