"""Timeouts and cancellations at every moment, around everything that a client does."""

import signal
import subprocess
import sys
import time

import pytest
import trio

import mcp_trio
from tests.hard_cases.programs import LIMIT, all_gone, fake, has_children, running, started

SERVE = "serve(lambda request, name: say(request, os.getpid()))"


@pytest.mark.parametrize("mode", ["auto", "legacy"])
async def test_timeout_at_every_moment_of_a_short_life(mode: str) -> None:
    """Connect, call, close: wherever a timeout strikes, nothing is left and nothing else raised."""
    finished = tries = 0
    longest = 0.0
    for ms in range(0, 120, 3):
        began = time.monotonic()
        with trio.move_on_after(ms / 1000) as scope:
            async with mcp_trio.open_client(fake(SERVE), mode=mode) as client:
                await client.call_tool("x")
        longest = max(longest, time.monotonic() - began)
        assert not has_children()
        finished += not scope.cancelled_caught
        tries += 1
    print(f"\n{tries} timeouts, {finished} came too late, {longest:.2f} s for the longest")
    assert finished < tries
    assert longest < 2.0


async def test_timeouts_around_a_program_that_never_answers() -> None:
    """A program that is no server is given up at once by a timeout outside (pitfall 1)."""
    for ms in range(0, 60, 6):
        with trio.move_on_after(ms / 1000) as scope:
            async with mcp_trio.open_client(["sleep", "97"]):
                raise AssertionError
        assert scope.cancelled_caught
        assert not has_children()


@pytest.mark.parametrize("kind", ["connect_timeout", "fail_after"])
async def test_own_timeout_and_somebody_elses(kind: str) -> None:
    """Ours is an exception with a reason; the caller's is the caller's (pitfall 2)."""
    expected = mcp_trio.RequestTimeout if kind == "connect_timeout" else trio.TooSlowError
    with pytest.raises(expected) as info, trio.fail_after(0.2 if kind == "fail_after" else LIMIT):
        async with mcp_trio.open_client(["sleep", "97"], mode="modern", connect_timeout=0.2):
            await trio.sleep_forever()
    if kind == "connect_timeout":
        assert info.type is mcp_trio.RequestTimeout


async def test_open_client_in_a_cancelled_scope() -> None:
    """In a cancelled scope nothing is connected, and nothing is left."""
    with trio.CancelScope() as scope:
        scope.cancel()
        async with mcp_trio.open_client(fake(SERVE)):
            raise AssertionError
    assert scope.cancelled_caught


@pytest.mark.parametrize("during", ["calls", "nothing", "listening"])
async def test_cancelled_by_another_task(during: str) -> None:
    """A connection that another task cancels closes in the task that opened it (pitfall 1)."""
    opened = trio.Event()
    pids: list[int] = []
    failures: list[BaseException] = []

    async def hold(*, task_status: trio.TaskStatus[trio.CancelScope]) -> None:
        with trio.CancelScope() as scope:
            async with mcp_trio.open_client(fake(WAITING), mode="legacy") as client:
                result = await client.call_tool("pid")
                pids.append(int(result.content[0].text))  # type: ignore[union-attr] # a text
                opened.set()
                task_status.started(scope)
                async with trio.open_nursery() as nursery:
                    if during == "calls":
                        for _ in range(10):
                            nursery.start_soon(client.call_tool, "wait")
                    elif during == "listening":
                        async with client.listen(tools=True) as events:
                            async for _ in events:
                                pass
                    await trio.sleep_forever()
        if not scope.cancelled_caught:
            failures.append(AssertionError())

    async with trio.open_nursery() as nursery:
        scope = await nursery.start(hold)
        await trio.sleep(0.05)
        scope.cancel()
    assert not failures
    assert not running(pids[0])


WAITING = """
def tool(request, name):
    if name == "pid":
        say(request, os.getpid())
serve(tool)
"""


async def test_client_that_other_tasks_use() -> None:
    """Any task may call while the connection is open, and is told when it no longer is."""
    clients: list[mcp_trio.Client] = []
    outcomes: list[str] = []

    async def hold(*, task_status: trio.TaskStatus[trio.Event]) -> None:
        leave = trio.Event()
        async with mcp_trio.open_client(fake(WAITING), mode="legacy") as client:
            clients.append(client)
            task_status.started(leave)
            await leave.wait()

    async def use() -> None:
        try:
            await clients[0].call_tool("wait")
        except mcp_trio.ConnectionClosed as error:
            outcomes.append(error.reason)

    async with trio.open_nursery() as nursery:
        leave = await nursery.start(hold)
        for _ in range(5):
            nursery.start_soon(use)
        await clients[0].call_tool("pid")
        leave.set()
    with pytest.raises(mcp_trio.ConnectionClosed):
        await clients[0].call_tool("pid")
    assert outcomes == ["the connection was closed at this end"] * 5


@pytest.mark.parametrize("error", [ValueError("mine"), KeyboardInterrupt(), SystemExit(3)])
async def test_exceptions_of_the_body(error: BaseException) -> None:
    """What the body raises leaves the block as itself and not in a group, and all is closed."""
    with pytest.raises(type(error)) as info:  # noqa: PT012
        async with mcp_trio.open_client(fake(SERVE), mode="legacy") as client:
            await client.call_tool("x")
            raise error
    assert info.value is error


async def test_many_at_once_and_a_common_timeout() -> None:
    """A timeout over a nursery full of connections, in every stage, leaves no process."""

    async def live(script: str) -> None:
        async with mcp_trio.open_client(fake(script), mode="auto", probe_timeout=0.05) as client:
            while True:
                await client.call_tool("x")

    stages = [SERVE, "sys.stdin.read()", "time.sleep(0.1)\n" + SERVE, WAITING] * 3
    with trio.move_on_after(0.4) as scope:
        async with trio.open_nursery() as nursery:
            for script in stages:
                nursery.start_soon(live, script)
    assert scope.cancelled_caught
    assert not has_children()


PROGRAM = """
import sys, trio, mcp_trio
async def main():
    command = mcp_trio.StdioParameters(sys.argv[1], sys.argv[2:])
    async with mcp_trio.open_client(command, mode="legacy") as client:
        print((await client.call_tool("pid")).content[0].text, flush=True)
        await client.call_tool("wait")
try:
    trio.run(main)
except BaseExceptionGroup:
    print("a group")
except KeyboardInterrupt:
    print("interrupted")
"""


def test_ctrl_c_in_a_client_program() -> None:
    """Ctrl-C in a program that waits for a server: KeyboardInterrupt itself, and no orphan."""
    server = fake(WAITING)
    command = [sys.executable, "-c", PROGRAM, server.command, *server.args]
    with started(command, stdin=subprocess.DEVNULL) as program:
        assert program.stdout is not None
        pid = int(program.stdout.readline())
        program.send_signal(signal.SIGINT)
        output, errors = program.communicate(timeout=LIMIT)
        assert (output, errors) == (b"interrupted\n", b"")
    trio.run(all_gone, [pid], 0.1)
