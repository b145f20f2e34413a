"""`kill -9` in mid-stream, on every transport that crosses a network, on either side.

Whoever is killed says no goodbye: the other end has nothing to go by but what its operating system
tells of the sockets. It has to know at once all the same, keep neither a task nor a descriptor
(the fixture looks at the latter), and go on with everything else. The exception is by the protocol:
a handler of a legacy HTTP session belongs to that session, which outlives its client's connections.
"""

import json
import os
import signal
import sys
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from functools import partial
from pathlib import Path
from typing import IO

import pytest
import trio

import mcp_trio
from tests.hard_cases.everywhere import (
    WAYS,
    Handlers,
    Places,
    Way,
    make_server,
    serve_everywhere,
)
from tests.hard_cases.programs import LIMIT, NEWS, started

REPOSITORY = Path(__file__).parents[2]
#: Seconds that a session lives without its client.
SESSION_IDLE = 1.5
LARGE = 100_000

each_way = pytest.mark.parametrize("way", WAYS, ids=str)


@contextmanager
def soon(what: str) -> Iterator[None]:
    """A block that may not take long."""
    began = time.monotonic()
    with trio.fail_after(LIMIT):
        yield
    seconds = time.monotonic() - began
    print(f"\n{what} after {seconds * 1000:.0f} ms")
    assert seconds < NEWS


async def until(condition: Callable[[], bool]) -> None:
    with trio.fail_after(LIMIT):
        while not condition():  # noqa: ASYNC110 (some of it is not ours to instrument)
            await trio.sleep(0.005)


def tasks() -> int:
    return trio.lowlevel.current_statistics().tasks_living


async def first_line(stream: IO[bytes] | None) -> bytes:
    assert stream is not None
    with trio.fail_after(LIMIT):
        return await trio.to_thread.run_sync(stream.readline)


async def check_works(client: mcp_trio.Client) -> None:
    result = await client.call_tool("add", {"a": 1, "b": 2})
    assert result.structured_content == {"result": 3}


# The server is killed


@each_way
async def test_server_is_killed(way: Way, tmp_path: Path) -> None:
    """All calls fail at once; the rest of the program and other servers go on."""
    failures: list[Exception] = []
    arrived = {"wait": trio.Event(), "flow": trio.Event()}
    server = [sys.executable, "-m", "tests.hard_cases.everywhere", os.fspath(tmp_path / "socket")]

    async def call(client: mcp_trio.Client, name: str, arguments: dict[str, int]) -> None:
        with pytest.raises((mcp_trio.ConnectionClosed, mcp_trio.TransportError)) as info:
            await client.call_tool(name, arguments, on_progress=lambda _: arrived[name].set())
        failures.append(info.value)

    async with mcp_trio.open_client(make_server(Handlers())) as other:
        await check_works(other)
        before = tasks()
        with started(server, cwd=REPOSITORY) as process:
            places: Places = json.loads(await first_line(process.stdout))
            async with mcp_trio.open_client(way.url.format(**places), mode=way.mode) as client:
                async with trio.open_nursery() as nursery:
                    nursery.start_soon(call, client, "wait", {})
                    nursery.start_soon(call, client, "flow", {"size": LARGE})
                    for event in arrived.values():
                        await event.wait()
                    process.kill()
                    with soon(f"{way}: all calls had failed"):
                        await until(lambda: len(failures) == 2)
                with soon(f"{way}: one more call had failed"):
                    await call(client, "wait", {})
                with soon(f"{way}: a client in the same program was answered"):
                    await check_works(other)
                leaving = time.monotonic()
            assert time.monotonic() - leaving < NEWS
        assert tasks() == before


@each_way
async def test_server_is_killed_while_listened_to(way: Way, tmp_path: Path) -> None:
    """A subscription ends with its connection; one over HTTP waits for the server to return."""
    server = [sys.executable, "-m", "tests.hard_cases.everywhere", os.fspath(tmp_path / "socket")]
    before = tasks()
    with started(server, cwd=REPOSITORY) as process:
        places: Places = json.loads(await first_line(process.stdout))
        url = way.url.format(**places)
        async with (
            mcp_trio.open_client(url, mode=way.mode) as client,
            client.listen(tools=True) as events,
        ):
            process.kill()
            if way.url.endswith("/mcp"):
                with trio.move_on_after(0.5) as waiting:
                    await anext(events)
                assert waiting.cancelled_caught
            else:
                with (
                    soon(f"{way}: a subscription had ended"),
                    pytest.raises(mcp_trio.ConnectionClosed),
                ):
                    await anext(events)
            leaving = time.monotonic()
        assert time.monotonic() - leaving < NEWS
    assert tasks() == before


# The client is killed

#: Calls `wait` and, unless the size is 0, `flow`, and says when each has sent something.
CLIENT = """
import sys, trio, mcp_trio
url, mode, size = sys.argv[1:]
async def main():
    arrived = [trio.Event() for _ in range(1 if size == "0" else 2)]
    async with mcp_trio.open_client(url, mode=mode) as client, trio.open_nursery() as nursery:
        async def call(name, event, **arguments):
            await client.call_tool(name, arguments, on_progress=lambda _: event.set())
        nursery.start_soon(lambda: call("wait", arrived[0]))
        if size != "0":
            nursery.start_soon(lambda: call("flow", arrived[1], size=int(size)))
        for event in arrived:
            await event.wait()
        print("all", flush=True)
trio.run(main)
"""


@asynccontextmanager
async def served(handlers: Handlers, folder: Path) -> AsyncIterator[Places]:
    """A server everywhere, in this program; nothing of any client is left at its end."""
    async with trio.open_nursery() as nursery:
        server = make_server(handlers)
        serve = partial(serve_everywhere, server, os.fspath(folder / "socket"), SESSION_IDLE)
        places: Places = await nursery.start(serve)
        yield places
        nursery.cancel_scope.cancel()


@each_way
@pytest.mark.parametrize("doing", ["waiting", "reading", "stalled"])
async def test_client_is_killed(way: Way, doing: str, tmp_path: Path) -> None:
    """Its handlers are cancelled at once, or with their session; others are served all along.

    To a client that only waits nothing is sent, so no failure to send tells of its death. One that
    has stopped reading leaves full buffers, and a handler that waits for room in them.
    """
    handlers = Handlers()
    calls = 1 if doing == "waiting" else 2
    async with served(handlers, tmp_path) as places:
        url = way.url.format(**places)
        async with mcp_trio.open_client(url, mode=way.mode) as client:
            await check_works(client)
        # A legacy server learns of its clients' sessions and keeps a task to end them, too.
        await until(lambda: handlers.working == 0)
        before = tasks()
        size = 0 if doing == "waiting" else LARGE
        argv = [sys.executable, "-c", CLIENT, url, way.mode, str(size)]
        with started(argv, stderr=None) as process:
            await first_line(process.stdout)
            assert handlers.working == calls
            if doing == "stalled":
                process.send_signal(signal.SIGSTOP)
                await trio.sleep(0.3)  # in which much is sent
            process.kill()
            if way.has_sessions:
                await trio.sleep(SESSION_IDLE / 2)
                assert handlers.working == calls
                with soon(f"{way}: the session had expired"):
                    await until(lambda: handlers.working == 0)
            else:
                with soon(f"{way}: the handlers were cancelled"):
                    await until(lambda: handlers.working == 0)
            assert (handlers.finished, handlers.cancelled) == (0, calls)
        with soon(f"{way}: no task was left"):
            await until(lambda: tasks() <= before)
        async with mcp_trio.open_client(url, mode=way.mode) as client:
            await check_works(client)


async def test_handler_of_a_killed_client_comes_to_its_end(tmp_path: Path) -> None:
    """A legacy HTTP handler does what it was asked for, though nobody waits for it any more."""
    handlers = Handlers()
    async with served(handlers, tmp_path) as places:
        url = WAYS[1].url.format(**places)
        argv = [sys.executable, "-c", CLIENT, url, WAYS[1].mode, str(LARGE)]
        with started(argv, stderr=None) as process:
            await first_line(process.stdout)
            process.kill()
            process.wait()
            await trio.sleep(0.2)
            handlers.release.set()
            with soon("the handlers had finished"):
                await until(lambda: handlers.working == 0)
    assert (handlers.finished, handlers.cancelled) == (2, 0)
