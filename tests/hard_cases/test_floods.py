"""Peers that send without end and read nothing: memory stays flat, and everybody else goes on.

What is measured is the resident memory of the process that is flooded. Each flood is many times
larger than what it may grow by.
"""

import json
import math
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import trio

import mcp_trio
from mcp_trio import ConnectionClosed
from tests.hard_cases.programs import LIMIT, fake, genuine, memory, memory_bounded

# Clients that flood our server

ECHO_SERVER = """
@server.tool()
def echo(text: str, times: int = 1) -> str:
    return text * times

@server.tool()
async def wait() -> None:
    await trio.sleep_forever()

@server.resource("memo://today")
async def today() -> str:
    return "x"

server.run()
"""

COMPLAINING_SERVER = """
import os

@server.tool()
def complain() -> None:
    while True:
        os.write(2, b"x" * 65536)

server.run()
"""


def line(method: str, id: int | None = None, **params: Any) -> bytes:
    message = {"jsonrpc": "2.0", "method": method, "params": params}
    return json.dumps(message if id is None else {**message, "id": id}).encode() + b"\n"


def call(id: int, tool: str, **arguments: Any) -> bytes:
    return line("tools/call", id, name=tool, arguments=arguments)


def initialize(version: str) -> bytes:
    info = {"name": "raw", "version": "1"}
    hello = line("initialize", 0, protocolVersion=version, capabilities={}, clientInfo=info)
    return hello + line("notifications/initialized")


def pings(n: int) -> bytes:
    return line("ping", n)


def calls(n: int) -> bytes:
    return call(n, "echo", text="x" * 1000)


def waits(n: int) -> bytes:
    return call(n, "wait")


def cancelled_waits(n: int) -> bytes:
    return call(n, "wait") + line("notifications/cancelled", requestId=n)


def one_id(n: int) -> bytes:
    return call(1, "wait")


def batches(n: int) -> bytes:
    return b"[" + calls(2 * n).strip() + b"," + calls(2 * n + 1).strip() + b"]\n"


def unending_batches(n: int) -> bytes:
    return b"[" + waits(n).strip() + b"," + b",".join([calls(n).strip()] * 9) + b"]\n"


def notifications(n: int) -> bytes:
    return line("notifications/progress", progressToken=n, progress=1, message="x" * 300)


def subscriptions(n: int) -> bytes:
    return line("resources/subscribe", n, uri=f"memo://{n}/" + "x" * 300)


def garbage(n: int) -> bytes:
    return b"GET / HTTP/1.1 %d\n" % n


def broken(n: int) -> bytes:
    return b'{"jsonrpc":"2.0","id":%d,"method":"ping"\n' % n


def endless_line(n: int) -> bytes:
    return b'{"jsonrpc":"2.0","id":1,"method":"ping","params":{"text":"' if n == 0 else b"x" * 1000


NOT_READING = "does not read the answers"
TOO_LONG = "is longer than"


async def flood(
    process: trio.Process, messages: Callable[[int], bytes], most: int
) -> tuple[int, float]:
    """Send until the server has had enough, or `most` messages; how many, and its peak memory."""
    assert process.stdin is not None
    sent, peak = 0, 0.0
    try:
        while sent < most:
            await process.stdin.send_all(b"".join(map(messages, range(sent, sent + 100))))
            sent += 100
            peak = max(peak, memory(process.pid))
    except trio.BrokenResourceError:
        pass
    return sent, peak


@pytest.mark.parametrize(
    ("messages", "most", "reason"),
    [
        (pings, math.inf, NOT_READING),
        (calls, math.inf, NOT_READING),
        (waits, math.inf, NOT_READING),
        (one_id, math.inf, NOT_READING),
        (batches, math.inf, NOT_READING),
        (unending_batches, math.inf, NOT_READING),
        (garbage, math.inf, NOT_READING),
        (broken, math.inf, NOT_READING),
        (subscriptions, math.inf, NOT_READING),
        (endless_line, math.inf, TOO_LONG),
        (cancelled_waits, 8_000, ""),
        (notifications, 20_000, ""),
    ],
)
async def test_client_that_floods_and_never_reads(
    messages: Callable[[int], bytes], most: int, reason: str, tmp_path: Path
) -> None:
    """A server bears any flood in flat memory, and gives a client up that reads nothing (I7)."""
    version = "2025-03-26" if "batches" in messages.__name__ else "2025-11-25"
    stderr = tmp_path / "stderr"
    began = time.monotonic()
    with stderr.open("wb") as file:
        process = await trio.lowlevel.open_process(
            genuine(ECHO_SERVER), stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=file
        )
    try:
        assert process.stdin is not None
        assert process.stdout is not None
        await process.stdin.send_all(initialize(version))
        assert b"result" in await process.stdout.receive_some()
        idle = memory(process.pid)
        with trio.fail_after(3 * LIMIT):
            sent, peak = await flood(process, messages, most)
            if not reason:
                await process.stdin.aclose()
            assert await process.wait() == 0
    finally:
        with trio.CancelScope(shield=True, deadline=trio.current_time() + LIMIT):
            process.kill()
            await process.wait()
            for pipe in (process.stdin, process.stdout):
                if pipe is not None:
                    await pipe.aclose()
    seconds = time.monotonic() - began
    what = f"{sent} {messages.__name__} in {seconds:.1f} s"
    print(f"\n{what}: {idle:.0f} MB idle, {peak:.0f} MB at most")
    assert peak < 150
    assert reason in stderr.read_text()[-1000:]
    assert "Traceback" not in stderr.read_text()


async def test_client_that_reads_late() -> None:
    """A client that asks slowly and reads nothing for a while gets every answer in the end."""
    size, count = 100_000, 200
    process = await trio.lowlevel.open_process(
        genuine(ECHO_SERVER), stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    try:
        assert process.stdin is not None
        assert process.stdout is not None
        await process.stdin.send_all(initialize("2025-11-25"))
        peak = 0.0
        for id in range(1, count + 1):
            await process.stdin.send_all(call(id, "echo", text="x" * 1000, times=size // 1000))
            await trio.sleep(0.002)
            peak = max(peak, memory(process.pid))
        print(f"\n{size * count / 1e6:.0f} MB of answers unread: {peak:.0f} MB at most")
        assert peak < 150
        await process.stdin.aclose()
        with trio.fail_after(LIMIT):
            data = b"".join([chunk async for chunk in process.stdout])
            assert await process.wait() == 0
    finally:
        with trio.CancelScope(shield=True, deadline=trio.current_time() + LIMIT):
            process.kill()
            await process.wait()
            for pipe in (process.stdin, process.stdout):
                if pipe is not None:
                    await pipe.aclose()
    ids = sorted(json.loads(text)["id"] for text in data.splitlines())
    assert ids == list(range(count + 1))


async def test_client_that_does_not_even_read_stderr() -> None:
    """A server that hangs in writing to stderr ends when its client does."""
    process = await trio.lowlevel.open_process(
        genuine(COMPLAINING_SERVER),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    try:
        assert process.stdin is not None
        await process.stdin.send_all(initialize("2025-11-25") + call(1, "complain"))
        with trio.move_on_after(1.0):
            await process.wait()
        assert process.poll() is None
    finally:
        with trio.CancelScope(shield=True, deadline=trio.current_time() + LIMIT):
            for pipe in (process.stdin, process.stdout, process.stderr):
                if pipe is not None:
                    await pipe.aclose()
            with trio.move_on_after(3.0) as patience:
                await process.wait()
            process.kill()
            await process.wait()
    assert not patience.cancelled_caught


# Servers that flood our client

FLOOD = """
COUNT = 15_000
PAD = "x" * 1000

def logs(n, request):
    params = {"level": "info", "data": PAD}
    return text({"method": "notifications/message", "params": params})

def progress(n, request):
    params = {"progressToken": token(request), "progress": n, "message": PAD}
    return text({"method": "notifications/progress", "params": params})

def strays(n, request):
    params = {"progressToken": n, "progress": n, "message": PAD}
    return text({"method": "notifications/progress", "params": params})

def answers(n, request):
    return text({"id": n + 10**6, "result": {"text": PAD}})

def changes(n, request):
    return text({"method": "notifications/tools/list_changed", "params": {"pad": PAD}})

def cancellations(n, request):
    return text({"method": "notifications/cancelled", "params": {"requestId": n, "pad": PAD}})

def noise(n, request):
    return f"[INFO] {n} {PAD}\\n"

def broken(n, request):
    return f'{{"jsonrpc":"2.0","id":{n + 10**6},"result":{{"{PAD}"\\n'

def tool(request, name):
    make = globals()[name]
    for start in range(0, COUNT, 100):
        write("".join(make(n, request) for n in range(start, start + 100)))
    say(request, "done")

serve(tool)
"""


@pytest.fixture
def slow_world() -> dict[str, Any]:
    """Callbacks for everything, none of which ever gets anything done."""

    async def stall(*_: object) -> None:
        await trio.sleep_forever()

    return {"on_log": stall, "on_notification": stall, "on_noise": lambda *_: None}


@pytest.mark.parametrize(
    "kind",
    ["logs", "strays", "answers", "changes", "cancellations", "noise", "broken"],
)
async def test_server_that_floods(kind: str, slow_world: dict[str, Any]) -> None:
    """15 MB that nobody takes delay no answer and are not kept (I7)."""
    began = time.monotonic()
    async with (
        mcp_trio.open_client(fake(FLOOD), mode="legacy", **slow_world) as client,
        client.listen(tools=True),
        memory_bounded(8),
    ):
        with trio.fail_after(LIMIT):
            result = await client.call_tool(kind)
        assert result.content[0].text == "done"  # type: ignore[union-attr] # a text
    print(f"{kind}: {time.monotonic() - began:.1f} s")


async def test_server_that_floods_with_progress() -> None:
    """A slow on_progress gets the newest progress, and the answer does not wait for the old."""
    seen: list[float] = []

    async def on_progress(progress: Any) -> None:
        seen.append(progress.progress)
        await trio.sleep(0.02)

    async with (
        mcp_trio.open_client(fake(FLOOD), mode="legacy") as client,
        memory_bounded(8),
    ):
        with trio.fail_after(LIMIT):
            await client.call_tool("progress", on_progress=on_progress)
    assert seen == sorted(seen)
    assert seen[-1] == 14_999
    assert len(seen) < 1000


ASKING = """
def tool(request, name):
    n = 0
    while True:
        n += 100
        write("".join(text({"id": i, "method": name, "params": {}}) for i in range(n, n + 100)))
serve(tool)
"""


@pytest.mark.parametrize("method", ["ping", "sampling/createMessage", "no/such"])
async def test_server_that_asks_for_ever_and_never_reads(method: str) -> None:
    """A client gives up a server that keeps asking but does not read, and says so (I7)."""
    began = time.monotonic()
    async with (
        memory_bounded(40),
        mcp_trio.open_client(fake(ASKING), mode="legacy") as client,
    ):
        with trio.fail_after(2 * LIMIT), pytest.raises(ConnectionClosed, match="does not read"):
            await client.call_tool(method)
    print(f"{method}: given up after {time.monotonic() - began:.1f} s")


async def test_server_that_talks_on_stderr_for_ever() -> None:
    """stderr that never ends, while the server answers and after it has been told to go."""
    script = """
import threading
def talk():
    while True:
        os.write(2, b"x" * 50_000 + b"\\n")
threading.Thread(target=talk, daemon=True).start()
serve(lambda request, name: say(request, "done"))
"""
    async with memory_bounded(15), mcp_trio.open_client(fake(script), mode="legacy") as client:
        for _ in range(20):
            with trio.fail_after(LIMIT):
                await client.call_tool("x")
            await trio.sleep(0.02)


async def test_server_that_reads_nothing() -> None:
    """Calls to a server that does not read wait, and can be cancelled, in flat memory."""
    script = """
sys.stdin.buffer.raw.read(1)
introduce({"id": 1, "params": {"protocolVersion": "2025-11-25"}})
time.sleep(60)
"""
    async with (
        memory_bounded(40),
        mcp_trio.open_client(fake(script), mode="legacy") as client,
        trio.open_nursery() as nursery,
    ):
        for _ in range(200):
            nursery.start_soon(client.call_tool, "x", {"text": "x" * 50_000})
        await trio.sleep(0.5)
        began = time.monotonic()
        nursery.cancel_scope.cancel()
    assert time.monotonic() - began < LIMIT
