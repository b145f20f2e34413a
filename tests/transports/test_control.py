"""SDK control: servers in another process, reached through a callback for each message."""

import copy
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
import trio
import trio.testing

import mcp_trio
from mcp_trio.testing import exhaustive_cancellation
from mcp_trio.transports.control import ControlStream, open_control_server, open_control_stream
from mcp_trio.wire.jsonrpc import JSONObject


def make_server(name: str) -> mcp_trio.Server:
    server = mcp_trio.Server(name)

    @server.tool()
    async def who() -> str:
        return name

    @server.tool()
    async def count(ctx: mcp_trio.Context) -> int:
        for n in (1, 2, 3):
            await ctx.report_progress(n, 3)
        return 3

    @server.tool()
    async def ask(ctx: mcp_trio.Context) -> str:
        return (await ctx.elicit("name", "Name?", {"name": str})).action

    @server.tool()
    async def wait() -> None:
        await trio.sleep_forever()

    return server


@asynccontextmanager
async def bridged(*names: str) -> AsyncIterator[list[ControlStream]]:
    """Servers behind a bridge that copies messages, and the client's ends of it."""
    streams: dict[str, ControlStream] = {}

    async def to_client(name: str, message: JSONObject) -> None:
        await streams[name].deliver(copy.deepcopy(message))

    async with open_control_server({name: make_server(name) for name in names}, to_client) as far:

        async def to_server(name: str, message: JSONObject) -> JSONObject | None:
            return copy.deepcopy(await far.deliver(name, copy.deepcopy(message)))

        async with trio.open_nursery() as nursery:
            for name in names:
                streams[name] = await nursery.start(_hold, name, to_server)
            yield list(streams.values())
            nursery.cancel_scope.cancel()


async def _hold(name: str, send: object, *, task_status: trio.TaskStatus[ControlStream]) -> None:
    async with open_control_stream(name, send) as stream:  # type: ignore[arg-type] # as given
        task_status.started(stream)
        await trio.sleep_forever()


@pytest.mark.parametrize("mode", ["modern", "legacy"])
async def test_several_servers_told_apart_by_name(mode: str) -> None:
    """Calls go to the server of the name; progress and questions come the second way."""
    seen: list[float] = []
    async with (
        bridged("a", "b") as (first, second),
        mcp_trio.open_client(first, mode=mode, on_elicit=lambda r: None) as a,
        mcp_trio.open_client(second, mode=mode) as b,
    ):
        for client, name in ((a, "a"), (b, "b")):
            assert (await client.call_tool("who")).content == [mcp_trio.TextContent(name)]
        await a.call_tool("count", on_progress=lambda p: seen.append(p.progress))
        assert seen == [1, 2, 3]
        assert (await a.call_tool("ask")).content == [mcp_trio.TextContent("cancel")]


async def test_calls_do_not_wait_for_one_another() -> None:
    """One exchange takes until its response; others go on meanwhile, and it can be cancelled."""
    async with bridged("a") as (stream,), mcp_trio.open_client(stream) as client:
        with trio.move_on_after(1) as scope:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(client.call_tool, "wait")
                await trio.testing.wait_all_tasks_blocked()
                assert (await client.call_tool("who")).content
                nursery.cancel_scope.cancel()
        assert not scope.cancelled_caught
        await client.ping()


async def test_failure_of_the_way_ends_the_connection() -> None:
    """What the callback raises is the reason that the calls see."""

    async def broken(name: str, message: JSONObject) -> None:
        raise OSError("the pipe is gone")

    async with open_control_stream("a", broken) as stream:
        with pytest.raises(mcp_trio.ConnectionClosed, match="the pipe is gone"):
            async with mcp_trio.open_client(stream):
                raise AssertionError("unreachable")


async def test_unknown_names_and_duplicate_ids_are_refused() -> None:
    """A message for nobody, or with an id that is in use, is the carrier's error."""

    async def nowhere(name: str, message: JSONObject) -> None:
        raise AssertionError("nothing is sent by itself")

    async with open_control_server({"a": make_server("a")}, nowhere) as far:
        with pytest.raises(KeyError, match="there are: a"):
            await far.deliver("b", {})
        request: JSONObject = {"jsonrpc": "2.0", "id": 1, "method": "ping"}
        assert await far.deliver("a", request) == {"jsonrpc": "2.0", "id": 1, "result": {}}
        assert await far.deliver("a", {"jsonrpc": "2.0", "method": "notifications/x"}) is None


def test_cancelled_anywhere() -> None:
    """I1 to I3 over a bridge."""

    async def scenario() -> None:
        async with bridged("a") as (stream,), mcp_trio.open_client(stream) as client:
            await client.call_tool("count", on_progress=lambda p: None)

    assert exhaustive_cancellation(scenario) > 30
