"""Serving: streams, stdio, lifespans, notifications, and how all of it ends."""

import json
import select
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from functools import partial
from typing import IO, Any

import pytest
import trio
import trio.testing

import mcp_trio
from mcp_trio import Context, Server, Session
from mcp_trio.connection import SERVER_GRACE, memory_frame_pair
from tests.server.raw import MODERN_META, Raw, open_legacy, open_raw

HELLO = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "server/discover",
    "params": {"_meta": MODERN_META},
}


def line(message: Any) -> bytes:
    return json.dumps(message).encode() + b"\n"


async def ask(stream: trio.abc.Stream, message: Any) -> Any:
    """Send one line and read one line."""
    await stream.send_all(line(message))
    data = b""
    while not data.endswith(b"\n"):
        chunk = await stream.receive_some()
        assert chunk, data
        data += chunk
    return json.loads(data)


# Streams


async def test_tcp_server_outlives_its_clients() -> None:
    """serve_stream never raises for what a client does, so the listener goes on."""
    server = Server("s")
    async with trio.open_nursery() as nursery:
        serve = partial(trio.serve_tcp, server.serve_stream, 0, host="127.0.0.1")
        listeners = await nursery.start(serve)
        connect = partial(trio.testing.open_stream_to_socket_listener, listeners[0])
        for rubbish in (b"", b"rubbish\n", b"\xff\xff", b'{"jsonrpc":"2.0"}\n[', line(HELLO)):
            async with await connect() as stream:
                await stream.send_all(rubbish)
        async with await connect() as stream:
            assert (await ask(stream, HELLO))["result"]["resultType"] == "complete"
        nursery.cancel_scope.cancel()


async def test_end_of_input_ends_the_server(autojump_clock: trio.testing.MockClock) -> None:
    """After the last line the answers are still sent; handlers that linger are cancelled."""
    server = Server("s")
    log = []

    @server.tool()
    async def sleep(seconds: float) -> str:
        try:
            await trio.sleep(seconds)
            log.append(f"slept {seconds:g}")
        except trio.Cancelled:
            log.append(f"cancelled {seconds:g}")
            raise
        return "rested"

    near, far = trio.testing.memory_stream_pair()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(server.serve_stream, far)
        raw = Raw(near)  # type: ignore[arg-type]  # only for making messages
        for seconds in (SERVER_GRACE / 2, 1000):
            params = {"name": "sleep", "arguments": {"seconds": seconds}, "_meta": MODERN_META}
            await near.send_all(line(raw.request_message("tools/call", params)))
        await near.send_eof()
        data = b""
        while chunk := await near.receive_some():
            data += chunk
    assert log == ["slept 0.5", "cancelled 1000"]
    assert len(data.splitlines()) == 1
    assert trio.current_time() < 100


async def test_line_over_the_limit(caplog: pytest.LogCaptureFixture) -> None:
    """What is too long is said to the client and to the log, and ends the connection."""
    near, far = trio.testing.memory_stream_pair()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(Server("s", line_limit=1000).serve_stream, far)
        nursery.start_soon(near.send_all, line(HELLO) + b"[" * 1001)
        data = b""
        while chunk := await near.receive_some():
            data += chunk
    answers = {message.get("id"): message for message in map(json.loads, data.splitlines())}
    assert answers[1]["result"]["resultType"] == "complete"
    assert answers[None]["error"]["code"] == -32600
    assert "1000 bytes" in answers[None]["error"]["message"]
    assert "1000 bytes" in caplog.text


async def test_cancelling_closes_the_stream() -> None:
    """A server that is cancelled cancels its handlers and closes what it serves."""
    server = Server("s")
    started = trio.Event()
    ended = trio.Event()

    @server.tool()
    async def wait() -> None:
        started.set()
        try:
            await trio.sleep_forever()
        finally:
            ended.set()

    near, far = trio.testing.memory_stream_pair()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(server.serve_stream, far)
        call = {"name": "wait", "_meta": MODERN_META}
        await near.send_all(line(Raw(None).request_message("tools/call", call)))  # type: ignore[arg-type]
        await started.wait()
        nursery.cancel_scope.cancel()
    assert ended.is_set()
    assert await near.receive_some() == b""


# Lifespan


class Lifespans:
    """Counts how often a lifespan is entered and left."""

    def __init__(self) -> None:
        self.entered = self.left = 0

    @asynccontextmanager
    async def __call__(self, server: Server) -> AsyncIterator[int]:
        self.entered += 1
        try:
            yield self.entered
        finally:
            self.left += 1


def make_living() -> tuple[Server, Lifespans]:
    lifespans = Lifespans()
    server = Server("s", lifespan=lifespans)

    @server.request("acme/lifespan")
    async def lifespan(_params: dict[str, Any], ctx: Context) -> dict[str, Any]:
        return {"value": ctx.lifespan}

    return server, lifespans


async def test_each_stream_has_its_own_lifespan() -> None:
    """Where nobody has opened a lifespan, each stream opens and closes one."""
    server, lifespans = make_living()
    async with open_raw(server) as one, open_raw(server) as two:
        values = [(await raw.result("acme/lifespan"))["value"] for raw in (one, two)]
    assert sorted(values) == [1, 2]
    assert (lifespans.entered, lifespans.left) == (2, 2)


async def test_running_shares_one_lifespan() -> None:
    """Within running(), everything uses the one that is open, and it is left at the end."""
    server, lifespans = make_living()
    async with server.running() as value:
        assert value == 1
        async with open_raw(server) as one, open_raw(server) as two:
            assert (await one.result("acme/lifespan"))["value"] == 1
            assert (await two.result("acme/lifespan"))["value"] == 1
        assert lifespans.left == 0
    assert (lifespans.entered, lifespans.left) == (1, 1)


async def test_running_twice_is_refused() -> None:
    """A second running() is an error that says what to do; a later one is fine."""
    server, lifespans = make_living()
    async with server.running():
        with pytest.raises(RuntimeError, match="running already"):
            async with server.running():
                raise AssertionError("unreachable")
    async with server.running() as value:
        assert value == 2
    assert lifespans.left == 2


async def test_failing_lifespan_is_raised_as_it_is() -> None:
    """What the lifespan raises reaches whoever serves, unwrapped, and nothing was served."""

    @asynccontextmanager
    async def broken(server: Server) -> AsyncIterator[None]:
        raise LookupError("no database")
        yield

    near, far = memory_frame_pair()
    with pytest.raises(LookupError, match="no database"):
        await Server("s", lifespan=broken).serve_frames(far)
    with trio.fail_after(1):
        assert await near.receive() == []  # the stream is closed all the same


# Notifications of the client


def notification(method: str, **params: Any) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "method": method, "params": params}


async def test_notifications_reach_their_handlers() -> None:
    """Plain and coroutine functions get params and session, or as much as they take."""
    server = Server("s")
    seen: list[Any] = []
    done = trio.Event()
    server.notification("acme/plain")(lambda params: seen.append(params["n"]))

    @server.notification("acme/async")
    async def slow(params: dict[str, Any], session: Session) -> None:
        await trio.lowlevel.checkpoint()
        seen.append((params["n"], session.version))
        done.set()

    async with open_legacy(server) as raw:
        await raw.send(notification("acme/async", n=1), notification("acme/plain", n=2))
        await done.wait()
    assert seen == [2, (1, "2025-11-25")]


async def test_notification_handler_may_ask_the_client() -> None:
    """A coroutine handler that sends a request of its own does not deadlock."""
    server = Server("s")

    @server.notification("notifications/roots/list_changed")
    async def roots_changed(_params: dict[str, Any], session: Session) -> None:
        roots = await session.peer.request("roots/list")
        await session.peer.notify("acme/seen", roots)

    async with open_legacy(server) as raw:
        await raw.send(notification("notifications/roots/list_changed"))
        question = await raw.receive()
        assert question["method"] == "roots/list"
        await raw.send({"jsonrpc": "2.0", "id": question["id"], "result": {"roots": []}})
        assert (await raw.receive())["params"] == {"roots": []}


async def test_notification_of_another_revision_is_ignored() -> None:
    """What the session's revision has no notification of reaches nobody."""
    server = Server("s")
    seen: list[Any] = []
    server.notification("notifications/roots/list_changed")(seen.append)
    async with open_raw(server) as raw:
        await raw.send(notification("notifications/roots/list_changed"))
        await raw.result("server/discover")
    assert seen == []


async def test_failing_notification_handlers(caplog: pytest.LogCaptureFixture) -> None:
    """What a handler raises is logged, and the connection and the other handlers go on."""
    server = Server("s")
    done = trio.Event()

    @server.notification("acme/plain")
    def plain() -> None:
        raise ValueError("plain")

    @server.notification("acme/async")
    async def coroutine(params: dict[str, Any]) -> None:
        if params["last"]:
            done.set()
        raise ValueError("coroutine")

    async with open_legacy(server) as raw:
        await raw.send(notification("acme/plain"), notification("acme/async", last=False))
        await raw.send(notification("acme/async", last=True))
        await done.wait()
        assert (await raw.request("ping"))["result"] == {}
    assert "acme/plain" in caplog.text
    assert "acme/async" in caplog.text


async def test_flood_of_notifications_is_bounded(caplog: pytest.LogCaptureFixture) -> None:
    """Notifications that outrun their handler drop the oldest and keep the newest."""
    server = Server("s")
    go = trio.Event()
    seen: list[int] = []

    @server.notification("acme/n")
    async def slow(params: dict[str, Any]) -> None:
        await go.wait()
        seen.append(params["n"])

    async with open_legacy(server) as raw:
        await raw.send(*(notification("acme/n", n=n) for n in range(1000)))
        await raw.request("ping")
        go.set()
        while not seen or seen[-1] != 999:
            await trio.testing.wait_all_tasks_blocked()
    assert 256 <= len(seen) < 300
    assert "lost" in caplog.text


# stdio, with real processes


@contextmanager
def start(body: str, before: str = "") -> Iterator["subprocess.Popen[bytes]"]:
    """A program with a server in it, which does not outlive the block."""
    source = "import sys, time\nfrom mcp_trio import Server\nserver = Server('s')\n"
    command = [sys.executable, "-c", source + body]
    if before:
        command = ["sh", "-c", f'{before} exec "$@"', "sh", *command]
    pipe = subprocess.PIPE
    process = subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe)
    with process:
        try:
            yield process
        finally:
            process.kill()


def tell(process: "subprocess.Popen[bytes]", *messages: Any) -> None:
    assert process.stdin is not None
    process.stdin.write(b"".join(map(line, messages)))
    process.stdin.flush()


def read(pipe: IO[bytes] | None) -> bytes:
    assert pipe is not None
    return pipe.readline()


def call(name: str) -> dict[str, Any]:
    params = {"name": name, "_meta": MODERN_META}
    return {"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": params}


BLOCKING = """
def block():
    print('blocking', file=sys.stderr, flush=True)
    time.sleep(60)
"""


def test_stdio_server_serves_and_ends() -> None:
    """A whole conversation through pipes; the end of input ends the process with status 0."""
    with start("server.add_tool(lambda: print('X') or 'Y', name='shout')\nserver.run()") as process:
        out, err = process.communicate(line(HELLO) + line(call("shout")), timeout=20)
    answers = {message["id"]: message for message in map(json.loads, out.splitlines())}
    assert answers[2]["result"]["content"] == [{"type": "text", "text": "Y"}]
    assert err.decode().split() == ["X"]
    assert process.returncode == 0


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_signals_end_the_program(number: signal.Signals) -> None:
    """A signal cancels what runs, finally blocks included, and leaves no traceback."""
    body = """
from contextlib import asynccontextmanager

@asynccontextmanager
async def life(server):
    try:
        yield
    finally:
        print('left', file=sys.stderr)

Server('s', lifespan=life).run()
"""
    with start(body) as process:
        tell(process, HELLO)
        assert read(process.stdout)
        process.send_signal(number)
        _, err = process.communicate(timeout=20)
    assert err.decode().split() == ["left"]
    assert process.returncode == 128 + number


def test_second_interrupt_ends_what_hangs() -> None:
    """A tool that blocks the event loop survives the first Ctrl-C, but not the second."""
    with start(f"{BLOCKING}\nserver.add_tool(block)\nserver.run()") as process:
        tell(process, call("block"))
        assert read(process.stderr) == b"blocking\n"
        for _ in range(2):
            process.send_signal(signal.SIGINT)
            time.sleep(0.1)  # two signals at the same time are one
        _, err = process.communicate(timeout=20)
    assert process.returncode == 128 + signal.SIGINT
    assert b"Traceback" not in err


def test_thread_that_blocks_does_not_hold_up_the_end() -> None:
    """The end of input ends the process though a tool is stuck in a thread."""
    with start(f"{BLOCKING}\nserver.add_tool(block, thread=True)\nserver.run()") as process:
        tell(process, call("block"))
        assert read(process.stderr) == b"blocking\n"
        process.communicate(timeout=20)
    assert process.returncode == 0


def test_failure_to_start_is_told_plainly() -> None:
    """What goes wrong before serving is raised as itself, not inside a group."""
    with start("server.run()", before="exec <&-;") as process:
        _, err = process.communicate(timeout=20)
    assert process.returncode == 1
    assert b"standard input" in err
    assert b"ExceptionGroup" not in err


def test_broken_output_ends_quietly() -> None:
    """A client that stops reading and goes leaves a server that ends without a word."""
    with start("server.run()") as process:
        assert process.stdout is not None
        process.stdout.close()
        tell(process, HELLO)
        assert process.stderr is not None
        assert process.stderr.read() == b""
        assert process.wait(timeout=20) == 0


@pytest.mark.skipif(sys.platform == "win32", reason="starts its server through a shell")
def test_watched_parent() -> None:
    """With watch_parent, the death of the parent ends a server whose input stays open."""
    body = "trio.run(lambda: server.serve_stdio(watch_parent=True))"
    before = '"$@" <&3 & exec sleep 60;'
    with start(f"import trio\n{body}", before=f"exec 3<&0; {before}") as process:
        tell(process, HELLO)
        assert read(process.stdout)
        process.kill()
        assert process.stdout is not None
        ended, _, _ = select.select([process.stdout], [], [], 20)
        assert ended
        assert read(process.stdout) == b""  # its end: the server held it open


async def test_exit_of_a_tool_keeps_its_status() -> None:
    """`sys.exit(3)` in a tool ends the program as it says, and without a traceback."""
    code = """
import sys, mcp_trio
server = mcp_trio.Server("x")
@server.tool()
async def leave() -> None:
    sys.exit(3)
server.run()
"""
    parameters = mcp_trio.StdioParameters(sys.executable, ["-c", code], stderr="capture")
    with pytest.raises(mcp_trio.ConnectionClosed) as info:
        async with mcp_trio.open_client(parameters) as client:
            await client.call_tool("leave")
    assert info.value.exit_status == 3
    assert "Traceback" not in info.value.stderr_tail
