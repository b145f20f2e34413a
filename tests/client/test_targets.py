"""What a client can be opened on, and that whoever owns a stream closes it."""

import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import trio
import trio.testing
from trio import SocketListener
from trio.testing import MockClock

import mcp_trio
from mcp_trio import Server, StdioParameters
from mcp_trio.connection import FrameStream, memory_frame_pair
from mcp_trio.exceptions import ConnectionClosed
from mcp_trio.testing.cancellation import exhaustive_cancellation

from .scripted import LEGACY_START, Scripted, text_of

PROGRAM = """
import sys, mcp_trio
server = mcp_trio.Server("child")
@server.tool()
def hello() -> str:
    print("said to stderr", file=sys.stderr, flush=True)
    return "hello"
server.run()
"""
COMMAND = [sys.executable, "-c", PROGRAM]


def make_server(lifespan: Any = None) -> Server:
    server = Server("here", lifespan=lifespan)

    @server.tool()
    def hello() -> str:
        return "hello"

    @server.tool()
    async def sleep() -> str:
        await trio.sleep_forever()
        raise AssertionError("unreachable")

    return server


async def greet(client: mcp_trio.Client) -> None:
    assert text_of(await client.call_tool("hello")) == "hello"


# Each kind


@pytest.mark.parametrize("mode", ["auto", "legacy"])
async def test_a_server_in_this_process(mode: str, autojump_clock: MockClock) -> None:
    """The server object itself; both eras."""
    async with mcp_trio.open_client(make_server(), mode=mode) as client:
        assert client.server_info is not None
        assert client.server_info.name == "here"
        await greet(client)


async def test_a_byte_stream(autojump_clock: MockClock) -> None:
    """Any Trio stream, with a message a line; it is the client's, and closed by it."""
    near, far = trio.testing.memory_stream_pair()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(make_server().serve_stream, far)
        async with mcp_trio.open_client(near) as client:
            await greet(client)
    with pytest.raises(trio.ClosedResourceError):
        await near.send_all(b"x")


async def test_a_stream_of_frames(autojump_clock: MockClock) -> None:
    """Whatever carries JSON texts."""
    near, far = memory_frame_pair()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(make_server().serve_frames, far)
        async with mcp_trio.open_client(near) as client:
            await greet(client)


@pytest.mark.parametrize("kind", ["list", "tuple", "parameters"])
async def test_a_command(kind: str) -> None:
    """A list of argv or StdioParameters; `on_stderr` hears each line of its stderr."""
    target: Any = {
        "list": COMMAND,
        "tuple": tuple(COMMAND),
        "parameters": StdioParameters(COMMAND[0], COMMAND[1:], stderr="discard"),
    }[kind]
    lines: list[str] = []
    said = trio.Event()

    def on_stderr(line: str) -> None:
        lines.append(line)
        said.set()

    with trio.fail_after(20):
        async with mcp_trio.open_client(target, on_stderr=on_stderr) as client:
            await greet(client)
            await said.wait()
    assert lines == ["said to stderr"]


async def test_urls_of_streams(tmp_path: Path, nursery: trio.Nursery) -> None:
    """`tcp:` and `unix:` have the framing of stdio, `ws:` its own."""
    server = make_server()
    listeners = await nursery.start(partial(trio.serve_tcp, server.serve_stream, 0))
    port = listeners[0].socket.getsockname()[1]
    await greet_at(f"tcp:localhost:{port}")
    [listener] = await nursery.start(server.serve_websocket, 0)
    await greet_at(f"ws://127.0.0.1:{listener.socket.getsockname()[1]}")
    if sys.platform != "win32":
        path = str(tmp_path / "socket")
        with trio.socket.socket(trio.socket.AF_UNIX) as socket:
            await socket.bind(path)
            socket.listen()
            nursery.start_soon(trio.serve_listeners, server.serve_stream, [SocketListener(socket)])
            await greet_at(f"unix:{path}")
            nursery.cancel_scope.cancel()


async def greet_at(url: str) -> None:
    with trio.fail_after(20):
        async with mcp_trio.open_client(url) as client:
            await greet(client)


# What is none


@pytest.mark.parametrize(
    ("target", "error", "text"),
    [
        ("my-server --fast", ValueError, r"did you mean \['my-server', '--fast'\]\?"),
        ("/opt/my server", ValueError, r"did you mean \['/opt/my server'\]\?"),
        ("server", ValueError, r"did you mean \['server'\]\?"),
        ("ftp://example.com", ValueError, "'ftp' is no scheme of a URL"),
        ("tcp:localhost", ValueError, "expected tcp:HOST:PORT"),
        ("ws:nowhere", ValueError, "no ws:// or wss:// URL"),
        ("tcp:127.0.0.1:1", mcp_trio.TransportError, "cannot connect to tcp:127.0.0.1:1"),
        ("unix:/no/such/socket", mcp_trio.TransportError, "cannot connect to unix:/no/such/socket"),
        (5, TypeError, "cannot open a client on int: expected a list of argv"),
        (None, TypeError, "cannot open a client on NoneType"),
        (b"server", TypeError, "cannot open a client on bytes"),
        (Path("server"), TypeError, "cannot open a client on .*Path"),
        ({"command": "server"}, TypeError, "cannot open a client on dict"),
        (Server, TypeError, "cannot open a client on the class Server: make one of it"),
        ([], ValueError, "argv must be a list that starts with the program"),
        ([""], ValueError, "command is empty"),
        ([5], TypeError, "command must be a string"),
    ],
)
async def test_wrong_targets(target: Any, error: type[Exception], text: str) -> None:
    """The error says what was given, and what would do."""
    with pytest.raises(error, match=text):
        async with mcp_trio.open_client(target):
            raise AssertionError("unreachable")


async def test_on_stderr_is_for_commands() -> None:
    """Where there is no stderr, asking for it is a mistake."""
    with pytest.raises(TypeError, match="servers that are started by a command"):
        async with mcp_trio.open_client(make_server(), on_stderr=print):
            raise AssertionError("unreachable")


async def test_a_command_that_does_not_exist() -> None:
    """As itself: what Python's own subprocess would raise."""
    with pytest.raises(FileNotFoundError, match="/no/such/command"):
        async with mcp_trio.open_client(["/no/such/command"]):
            raise AssertionError("unreachable")


# Closing


class Watched(FrameStream):
    """A stream that knows whether it was closed."""

    def __init__(self, inner: FrameStream) -> None:
        self.inner = inner
        self.closed = 0

    async def receive(self) -> list[bytes]:
        return await self.inner.receive()

    async def send(self, frames: Any) -> None:
        await self.inner.send(frames)

    async def aclose(self) -> None:
        self.closed += 1
        await self.inner.aclose()


@asynccontextmanager
async def watched(server: Server) -> AsyncIterator[Watched]:
    near, far = memory_frame_pair()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(server.serve_frames, far)
        yield Watched(near)


async def test_the_stream_is_closed_after_the_block(autojump_clock: MockClock) -> None:
    """Once, and when the block is left, not before."""
    async with watched(make_server()) as stream:
        async with mcp_trio.open_client(stream) as client:
            await greet(client)
            assert stream.closed == 0
        assert stream.closed == 1
        with pytest.raises(ConnectionClosed, match="closed at this end"):
            await client.call_tool("hello")


@pytest.mark.parametrize("how", ["error", "cancelled"])
async def test_the_stream_is_closed_on_every_way_out(how: str, autojump_clock: MockClock) -> None:
    """By an exception as well as by a cancellation."""

    async def use(stream: Watched) -> None:
        async with mcp_trio.open_client(stream) as client:
            if how == "error":
                raise KeyError("mine")
            await client.call_tool("sleep")

    async with watched(make_server()) as stream:
        with pytest.raises(KeyError if how == "error" else trio.TooSlowError), trio.fail_after(5):
            await use(stream)
        assert stream.closed == 1


async def test_the_stream_is_closed_when_connecting_fails(autojump_clock: MockClock) -> None:
    """It belongs to the client from the start."""
    near, far = memory_frame_pair()
    stream = Watched(near)
    with pytest.raises(mcp_trio.RequestTimeout):
        async with mcp_trio.open_client(stream, connect_timeout=1):
            raise AssertionError("unreachable")
    assert stream.closed == 1
    await far.aclose()


# Exceptions of the body


async def outcome(target: str, error: Exception, *, cancelled: bool = False) -> BaseException:
    """What leaves `open_client` when its body raises `error`, in a scope cancelled meanwhile."""
    raised: BaseException = AssertionError("nothing was raised")
    near, far = memory_frame_pair()
    opened: Any = {"server": make_server(), "stream": near, "command": COMMAND}[target]
    async with trio.open_nursery() as nursery:
        nursery.start_soon(make_server().serve_frames, far)
        with trio.CancelScope() as scope:
            try:
                async with mcp_trio.open_client(opened) as client:
                    await greet(client)
                    if cancelled:
                        scope.cancel()
                    raise error
            except BaseException as exc:
                raised = exc
        nursery.cancel_scope.cancel()
    return raised


@pytest.mark.parametrize("target", ["server", "stream", "command"])
@pytest.mark.parametrize("cancelled", [False, True])
@pytest.mark.parametrize(
    "error", [ValueError("mine"), ExceptionGroup("mine", [KeyError("a")])], ids=["error", "group"]
)
async def test_what_the_body_raises_leaves_as_it_is(
    target: str, cancelled: bool, error: Exception
) -> None:
    """The very exception, in no group but its own, also while an outer scope is cancelled (I10)."""
    assert await outcome(target, error, cancelled=cancelled) is error
    assert error.__context__ is None


async def test_an_exception_of_a_cancelled_body(autojump_clock: MockClock) -> None:
    """Cleaning up while cancelled may fail, and that failure is not lost in a group either."""

    async def body() -> None:
        async with mcp_trio.open_client(make_server()) as client:
            try:
                await client.call_tool("sleep")
            finally:
                raise KeyError("cleaning up")

    with pytest.raises(KeyError, match="cleaning up"):
        with trio.move_on_after(5):
            await body()


# A server in this process that fails


@asynccontextmanager
async def broken(server: Server) -> AsyncIterator[None]:
    raise RuntimeError("no database")
    yield


@asynccontextmanager
async def breaks_at_its_end(server: Server) -> AsyncIterator[None]:
    yield
    raise RuntimeError("cannot save")


async def test_a_server_whose_lifespan_fails(
    autojump_clock: MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    """The client hears why, by an exception and not by a cancellation that is nobody's."""
    with pytest.raises(ConnectionClosed, match="the server failed: RuntimeError: no database"):
        async with mcp_trio.open_client(make_server(broken)):
            raise AssertionError("unreachable")
    assert "no database" in caplog.text


async def test_a_server_whose_lifespan_fails_at_its_end(
    autojump_clock: MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    """The client has what it wanted by then; the failure is logged."""
    async with mcp_trio.open_client(make_server(breaks_at_its_end)) as client:
        await greet(client)
    assert "cannot save" in caplog.text


async def test_a_servers_lifespan_ends_in_peace(autojump_clock: MockClock) -> None:
    """When the client leaves, what the lifespan has to put away is not cancelled at once."""
    ended: list[str] = []

    @asynccontextmanager
    async def saves(server: Server) -> AsyncIterator[None]:
        yield
        await trio.sleep(0.5)
        ended.append("saved")

    async with mcp_trio.open_client(make_server(saves)) as client:
        await greet(client)
    assert ended == ["saved"]


async def test_a_lifespan_that_does_not_end_is_cancelled(autojump_clock: MockClock) -> None:
    """The client does not wait for it for ever."""

    @asynccontextmanager
    async def hangs(server: Server) -> AsyncIterator[None]:
        yield
        await trio.sleep_forever()

    began = trio.current_time()
    async with mcp_trio.open_client(make_server(hangs)) as client:
        await greet(client)
    assert trio.current_time() - began < 5


class Crashing:
    """A server of somebody else's, which ends without closing its stream."""

    async def serve_frames(self, stream: FrameStream) -> None:
        await stream.receive()
        raise KeyError("oops")


async def test_a_server_that_crashes_without_closing_its_stream(
    autojump_clock: MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    """Its end is noticed all the same."""
    began = trio.current_time()
    with pytest.raises(ConnectionClosed, match="the server failed: KeyError: 'oops'"):
        async with mcp_trio.open_client(Crashing()):
            raise AssertionError("unreachable")
    assert trio.current_time() - began < 2


async def test_the_death_of_the_server_does_not_cancel_the_body(
    autojump_clock: MockClock,
) -> None:
    """The body goes on, and finds out when it asks."""
    server = Scripted(start=LEGACY_START)
    async with server.connect() as client:
        await server.close()
        await trio.sleep(1000)
        assert client.closed
        with pytest.raises(ConnectionClosed):
            await client.ping()


# Cancellation anywhere


@pytest.mark.parametrize("mode", ["modern", "legacy"])
def test_cancellation_anywhere(mode: str) -> None:
    """Connecting, calling and closing, cancelled at each step, leave nothing behind (I1, I2)."""

    async def scenario() -> None:
        near, far = trio.testing.memory_stream_pair()
        server = make_server()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(server.serve_stream, far)
            async with mcp_trio.open_client(near, mode=mode, on_log=print) as client:
                await greet(client)
        async with mcp_trio.open_client(server, mode=mode) as client:
            with trio.move_on_after(1):
                await client.call_tool("sleep")

    steps = exhaustive_cancellation(scenario)
    print(f"{mode}: {steps} task steps tried")
    assert steps > 50


async def test_what_is_no_server_is_said_to_be_none() -> None:
    """A script that forgot to serve ends well and answers nothing: the error has the idea."""
    with pytest.raises(mcp_trio.ConnectionClosed, match="is it a server") as info:
        async with mcp_trio.open_client([sys.executable, "-S", "-c", "pass"]):
            raise AssertionError("unreachable")
    assert info.value.exit_status == 0


async def test_misuse_is_explained() -> None:
    """What newcomers write first says what to write instead."""
    with pytest.raises(TypeError, match=r"async with mcp_trio.open_client"):
        mcp_trio.Client(["server"])  # type: ignore[arg-type] # the mistake
    async with mcp_trio.open_client(make_server()) as client:
        for wrong in ([1], "text", 5):
            with pytest.raises(TypeError, match="arguments must be a mapping of names"):
                await client.call_tool("echo", wrong)  # type: ignore[arg-type] # the mistake
