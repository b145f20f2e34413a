"""Serving over TCP and Unix sockets, with the framing of stdio, to peers of every kind.

Whatever one peer does, `serve_stream` raises nothing, so `trio.serve_tcp` goes on for the others;
and when all have gone, so have their descriptors (the fixture looks).
"""

import contextlib
import json
import math
import os
import socket
import struct
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import trio

import mcp_trio
from mcp_trio import ConnectionClosed
from tests.hard_cases.programs import LIMIT, NEWS, memory_bounded

Connect = Callable[[], Awaitable[trio.SocketStream]]


def make_server() -> mcp_trio.Server:
    server = mcp_trio.Server("sockets")

    @server.tool()
    async def wait() -> None:
        await trio.sleep_forever()

    @server.tool()
    async def wait_badly() -> None:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(trio.sleep_forever)
            try:
                await trio.sleep_forever()
            finally:
                raise ValueError("the cleanup failed")

    @server.tool()
    def large(size: int) -> str:
        return "x" * size

    return server


@asynccontextmanager
async def listening(kind: str, folder: Path) -> AsyncIterator[Connect]:
    """A server on a socket of this kind; gives what connects to it."""
    server = make_server()
    async with trio.open_nursery() as nursery:
        if kind == "tcp":
            serve = partial(trio.serve_tcp, server.serve_stream, 0, host="127.0.0.1")
            listeners: list[trio.SocketListener] = await nursery.start(serve)
            port = listeners[0].socket.getsockname()[1]
            yield partial(trio.open_tcp_stream, "127.0.0.1", port)
        else:
            path = os.fspath(folder / "socket")
            sock = trio.socket.socket(socket.AF_UNIX)
            await sock.bind(path)
            sock.listen()
            listener = trio.SocketListener(sock)
            await nursery.start(trio.serve_listeners, server.serve_stream, [listener])
            yield partial(trio.open_unix_socket, path)
        nursery.cancel_scope.cancel()


def line(method: str, id: int | None = None, **params: Any) -> bytes:
    meta = {
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {},
    }
    message = {"jsonrpc": "2.0", "method": method, "params": {**params, "_meta": meta}}
    return json.dumps(message if id is None else {**message, "id": id}).encode() + b"\n"


def call(id: int, name: str, **arguments: Any) -> bytes:
    return line("tools/call", id, name=name, arguments=arguments)


# Peers. Each gets a fresh stream; closing it is the caller's.


async def come_and_go(stream: trio.SocketStream) -> None:
    """A port scanner, or a load balancer that looks whether we live."""


async def reset(stream: trio.SocketStream) -> None:
    linger = struct.pack("ii", 1, 0)
    stream.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)


async def reset_in_mid_call(stream: trio.SocketStream) -> None:
    await stream.send_all(call(1, "wait") + call(2, "wait_badly") + line("server/discover", 3))
    await stream.receive_some()
    await reset(stream)


async def vanish_in_mid_call(stream: trio.SocketStream) -> None:
    await stream.send_all(call(1, "wait") + call(2, "wait_badly") + line("server/discover", 3))
    await stream.receive_some()


async def vanish_in_mid_frame(stream: trio.SocketStream) -> None:
    await stream.send_all(call(1, "wait") + call(2, "large", size=10)[:-20])


async def vanish_while_written_to(stream: trio.SocketStream) -> None:
    await stream.send_all(call(1, "large", size=8_000_000) + call(2, "large", size=8_000_000))
    await stream.receive_some(1)
    await reset(stream)


async def vanish_in_subscription(stream: trio.SocketStream) -> None:
    wanted = {"toolsListChanged": True}
    await stream.send_all(line("subscriptions/listen", 1, notifications=wanted))
    assert b"acknowledged" in await stream.receive_some()


async def speak_http(stream: trio.SocketStream) -> None:
    await stream.send_all(b"POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Length: 2\r\n\r\n{}")
    await stream.receive_some()


async def speak_tls(stream: trio.SocketStream) -> None:
    await stream.send_all(b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + os.urandom(500))


async def send_garbage(stream: trio.SocketStream) -> None:
    await stream.send_all(
        b'\n\r\n[]\n{}\n[[\nnull\n{\n\x00\xff\xfe\n"x"\n[{\n' + os.urandom(10_000)
    )


async def answer_what_was_never_asked(stream: trio.SocketStream) -> None:
    await stream.send_all(b'{"jsonrpc":"2.0","id":1,"result":{}}\n' * 1000)


async def send_an_endless_line(stream: trio.SocketStream) -> None:
    with contextlib.suppress(trio.BrokenResourceError):
        for _ in range(40):
            await stream.send_all(b"x" * 1_000_000)


async def half_close(stream: trio.SocketStream) -> None:
    await stream.send_all(call(1, "large", size=1_000_000) + call(2, "large", size=3))
    await stream.send_eof()
    data = b""
    with trio.fail_after(LIMIT):
        async for chunk in stream:
            data += chunk
    assert sorted(json.loads(text)["id"] for text in data.splitlines()) == [1, 2]


PEERS = [
    come_and_go,
    reset,
    reset_in_mid_call,
    vanish_in_mid_call,
    vanish_in_mid_frame,
    vanish_while_written_to,
    vanish_in_subscription,
    speak_http,
    speak_tls,
    send_garbage,
    answer_what_was_never_asked,
    send_an_endless_line,
    half_close,
]


@pytest.mark.parametrize("kind", ["tcp", "unix"])
async def test_listener_outlives_every_peer(kind: str, tmp_path: Path) -> None:
    """One peer after the other misbehaves; one who was there first is served all the while."""
    async with (
        listening(kind, tmp_path) as connect,
        mcp_trio.open_client(await connect()) as client,
    ):
        open_before = len(os.listdir("/proc/self/fd"))
        for peer in PEERS:
            for _ in range(3):
                async with await connect() as stream:
                    with trio.fail_after(LIMIT):
                        await peer(stream)
                with trio.fail_after(NEWS):
                    await client.call_tool("large", {"size": 10})
        async with mcp_trio.open_client(await connect(), mode="legacy") as other:
            await other.call_tool("large", {"size": 10})
        with trio.fail_after(LIMIT):  # handlers have a second of grace
            while len(os.listdir("/proc/self/fd")) > open_before:  # noqa: ASYNC110
                await trio.sleep(0.02)


async def test_peers_at_once(tmp_path: Path) -> None:
    """The same, all of them together, some of them cancelled half way."""
    async with listening("tcp", tmp_path) as connect:

        async def misbehave(peer: Callable[[trio.SocketStream], Awaitable[None]], n: int) -> None:
            with trio.move_on_after(math.inf if n % 2 else n / 100):
                async with await connect() as stream:
                    await peer(stream)

        with trio.fail_after(2 * LIMIT):
            async with (
                mcp_trio.open_client(await connect()) as client,
                trio.open_nursery() as nursery,
            ):
                for n, peer in enumerate(PEERS * 3):
                    nursery.start_soon(misbehave, peer, n)
                for _ in range(50):
                    await client.call_tool("large", {"size": 10})


async def test_listener_is_cancelled(tmp_path: Path) -> None:
    """Cancelling the listener ends all connections, whatever their handlers do, at once."""
    began = math.inf
    async with (
        mcp_trio.open_client(make_server()),  # in process, and of no concern
        trio.open_nursery() as nursery,
    ):

        async def lose(connect: Connect, name: str, *, task_status: trio.TaskStatus[None]) -> None:
            async with mcp_trio.open_client(await connect()) as client:
                task_status.started()
                with pytest.raises(ConnectionClosed):
                    await client.call_tool(name)

        async with listening("tcp", tmp_path) as connect:
            for name in ["wait", "wait_badly"] * 5:
                await nursery.start(lose, connect, name)
            await trio.sleep(0.05)
            began = trio.current_time()
    assert trio.current_time() - began < NEWS


async def test_peer_that_reads_nothing(tmp_path: Path) -> None:
    """A peer that asks for much and reads nothing stalls itself only, in bounded memory."""
    async with (
        listening("tcp", tmp_path) as connect,
        await connect() as stalled,
        mcp_trio.open_client(await connect()) as client,
        memory_bounded(80),
    ):
        await stalled.send_all(b"".join(call(n, "large", size=1_000_000) for n in range(30)))
        for _ in range(20):
            with trio.fail_after(NEWS):
                await client.call_tool("large", {"size": 10})


# The same from the client's side


@pytest.mark.parametrize("how", ["close", "reset", "garbage", "never"])
async def test_server_at_the_other_end_of_a_stream_goes(how: str) -> None:
    """A client over TCP whose server goes is told why, or times out, and closes its stream."""

    async def serve(stream: trio.SocketStream) -> None:
        async with stream:
            request = json.loads(await stream.receive_some())
            if how == "garbage":
                await stream.send_all(b"220 mail.example.com ESMTP\r\n")
                await trio.sleep_forever()
            if how == "never":
                await trio.sleep_forever()
            version = request["params"]["protocolVersion"]
            result = {"protocolVersion": version, "capabilities": {}}
            result["serverInfo"] = {"name": "x", "version": "1"}
            answer = {"jsonrpc": "2.0", "id": request["id"], "result": result}
            await stream.send_all(json.dumps(answer).encode() + b"\n")
            while b"tools/call" not in await stream.receive_some():
                pass
            if how == "reset":
                await reset(stream)

    async with trio.open_nursery() as nursery:
        listeners = await nursery.start(
            partial(trio.serve_tcp, serve, 0, host="127.0.0.1", handler_nursery=nursery)
        )
        stream = await trio.testing.open_stream_to_socket_listener(listeners[0])
        noise: list[bytes] = []
        if how in ("garbage", "never"):
            with pytest.raises(mcp_trio.RequestTimeout):
                async with mcp_trio.open_client(
                    stream,
                    mode="legacy",
                    connect_timeout=0.2,
                    on_noise=lambda line, _: noise.append(line),
                ):
                    raise AssertionError
            assert noise == ([b"220 mail.example.com ESMTP"] if how == "garbage" else [])
        else:
            async with mcp_trio.open_client(stream, mode="legacy") as client:
                with trio.fail_after(NEWS), pytest.raises(ConnectionClosed) as info:
                    await client.call_tool("x")
            assert info.value.exit_status is None
            assert ("reset" in str(info.value)) == (how == "reset")
        with pytest.raises(trio.ClosedResourceError):
            await stream.receive_some()
        nursery.cancel_scope.cancel()
