"""Stages: where scenes are played, one for each transport that a client may be given.

memory   a pair of frame streams in this process
stdio    a socket, to which the relay connects that the client starts as its server
http     Streamable HTTP at a free port of this machine
sse      HTTP+SSE of 2024-11-05 at a free port
"""

from __future__ import annotations

import os
import socket
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from typing import Final

import trio

from mcp_trio.connection import FrameStream, memory_frame_pair
from mcp_trio.harness.exchange import Exchange
from mcp_trio.harness.handover import Address, ClientTarget
from mcp_trio.harness.healthy import HEALTHY
from mcp_trio.harness.http_scripted import (
    CHUNK,
    GONE,
    ClientLeft,
    HTTPReply,
    HTTPRequest,
    open_http,
)
from mcp_trio.harness.model import Transport
from mcp_trio.harness.relay import command
from mcp_trio.harness.scripted import (
    Answers,
    BytesLink,
    HTTPChannel,
    Link,
    OnHTTP,
    Scene,
    read,
)
from mcp_trio.protocol.revisions import supports

MOST_BYTES: Final = 1 << 24
"""What is kept of the raw bytes of one connection."""
ENDPOINT: Final = "/mcp"
TOLD: Final = ("accept", "content-type", "last-event-id", "authorization")
"""Headers that evidence shows, besides those whose names begin with "mcp-"."""


@asynccontextmanager
async def open_scene(
    target: ClientTarget,
    revision: str,
    exchange: Exchange,
    *,
    deadline: float,
    answers: Answers | None = None,
    on_http: OnHTTP | None = None,
    stays: bool = False,
    chatty: bool = False,
) -> AsyncIterator[Scene]:
    """Start a client, and play its server for the length of a block.

    Args:
        target: The client.
        revision: What the server speaks.
        exchange: Where all that goes over the wire is written down.
        deadline: Seconds that the client may take for any one answer.
        answers: What is answered instead of what a healthy server answers, by method.
        on_http: Called with each HTTP request first.
        stays: What the client starts as its server exits neither at the end of its stdin nor
            on SIGTERM.
        chatty: It writes to stderr.

    Raises:
        OSError: The client cannot be started.
    """
    scene = Scene(revision, exchange, deadline, HEALTHY, answers, on_http)
    scene.stays, scene.chatty = stays, chatty
    opening = STAGES[target.transport]
    async with (
        scene.opened() as nursery,
        opening(scene, nursery) as address,
        target.start(address, exchange) as running,
    ):
        scene.running = running
        nursery.start_soon(scene.attend, running)
        yield scene


# Memory


class FrameLink(Link):
    def __init__(self, exchange: Exchange, stream: FrameStream) -> None:
        super().__init__(exchange)
        self.stream = stream

    async def write(self, frame: bytes) -> None:
        try:
            await self.stream.send([frame])
        except GONE as exc:
            raise ClientLeft(str(exc)) from exc

    async def close(self) -> None:
        self.exchange.note("the server closes the connection", self.number)
        await self.stream.aclose()
        self.end()


@asynccontextmanager
async def _open_memory(scene: Scene, nursery: trio.Nursery) -> AsyncIterator[Address]:
    near, far = memory_frame_pair()
    link = FrameLink(scene.exchange, near)
    scene.links.append(link)

    async def listen() -> None:
        with suppress(*GONE):
            while frames := await near.receive():
                for frame in frames:
                    scene.hear(frame, link=link)
        link.end()
        scene.changed()

    nursery.start_soon(listen)
    yield Address(stream=far)


# Stdio


@asynccontextmanager
async def _open_stdio(scene: Scene, nursery: trio.Nursery) -> AsyncIterator[Address]:
    with tempfile.TemporaryDirectory(prefix="mcp-trio-") as folder:
        listener, address = await _listen(folder)

        async def serve(stream: trio.SocketStream) -> None:
            async with stream:
                await _serve_relay(scene, stream)

        await nursery.start(trio.serve_listeners, serve, [listener])
        yield Address(command=command(address, stubborn=scene.stays, chatty=scene.chatty))


async def _listen(folder: str) -> tuple[trio.SocketListener, str]:
    if not hasattr(socket, "AF_UNIX") or os.name == "nt":
        (listener,) = await trio.open_tcp_listeners(0, host="127.0.0.1")
        return listener, f"tcp:127.0.0.1:{listener.socket.getsockname()[1]}"
    path = os.path.join(folder, "relay")
    unix = trio.socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    await unix.bind(path)
    unix.listen(16)
    return trio.SocketListener(unix), f"unix:{path}"


async def _serve_relay(scene: Scene, stream: trio.SocketStream) -> None:
    hello, rest = await _first_line(stream)
    kind, _, pid = hello.partition(b" ")
    if kind == b"signal":
        scene.exchange.note(f"process {int(pid)} got SIGTERM")
        for signaled in scene.links:
            if signaled.pid == int(pid):
                signaled.signaled_at = trio.current_time()
        scene.changed()
    if kind != b"relay":
        return
    link = BytesLink(scene.exchange, stream)
    link.pid = int(pid)
    scene.links.append(link)
    scene.exchange.note(f"the client has started the server, process {link.pid}", link.number)
    with suppress(*GONE):
        await _hear_lines(scene, link, rest)
    scene.exchange.note("the client has closed the server's stdin", link.number)
    link.end()
    scene.changed()
    if scene.stays:
        await trio.sleep_forever()


async def _first_line(stream: trio.SocketStream) -> tuple[bytes, bytes]:
    data = b""
    while b"\n" not in data:
        more = await stream.receive_some(CHUNK)
        if not more:
            return b"", b""
        data += more
    line, _, rest = data.partition(b"\n")
    return line, rest


async def _hear_lines(scene: Scene, link: BytesLink, data: bytes) -> None:
    """Lines as they are: what a library would drop, a check may be looking for."""
    pending = b""
    while True:
        if len(link.raw) < MOST_BYTES:
            link.raw += data
        *lines, pending = (pending + data).split(b"\n")
        for line in lines:
            if line.strip():
                scene.hear(line, link=link)
        data = bytes(await link.stream.receive_some(CHUNK))
        if not data:
            break
    if pending.strip():
        scene.exchange.add("received", pending, "an unfinished line", link.number)


# HTTP


@asynccontextmanager
async def _open_http(scene: Scene, _nursery: trio.Nursery) -> AsyncIterator[Address]:
    async with open_http(_guarded(scene, _streamable), scene.exchange.next_connection) as origin:
        yield Address(url=origin + ENDPOINT)


def _guarded(
    scene: Scene, handle: Callable[[Scene, HTTPRequest], Awaitable[None]]
) -> Callable[[HTTPRequest], Awaitable[None]]:
    async def guarded(request: HTTPRequest) -> None:
        scene.requests.append(request)
        scene.exchange.note(_headers_of(request), request.connection)
        scene.changed()
        try:
            if scene.on_http is None or not await scene.on_http(request):
                await handle(scene, request)
        except ClientLeft:
            pass
        except Exception as exc:
            scene.fail(exc)
            await request.reply.abort()

    return guarded


def _headers_of(request: HTTPRequest) -> str:
    told = [
        f"{name}: {value}"
        for name, value in request.headers
        if name in TOLD or name.startswith("mcp-")
    ]
    return f"{request.method} {request.target} with {', '.join(told)}"


async def _streamable(scene: Scene, request: HTTPRequest) -> None:
    if request.path != ENDPOINT:
        await request.reply.whole(404)
    elif request.method == "POST":
        await post(scene, request)
    elif request.method == "GET" and not scene.is_modern:
        await hold_open(scene, request.reply)
    elif request.method == "DELETE" and not scene.is_modern:
        await request.reply.whole(200)
    else:
        await request.reply.whole(405, headers=[("allow", "POST")])


async def post(scene: Scene, request: HTTPRequest) -> None:
    """Answer a POST as a healthy server does: the messages in it by the script."""
    messages = read(request.body, None, request)
    answers = sum(message.is_request for message in messages)
    channel = HTTPChannel(scene.exchange, request, answers)
    initializes = any(message.method == "initialize" for message in messages)
    if initializes and not scene.is_modern and scene.session_id is not None:
        channel.headers.append(("mcp-session-id", scene.session_id))
    scene.hear(request.body, http=request, channel=channel)
    if not answers:
        await request.reply.whole(202)


async def hold_open(scene: Scene, reply: HTTPReply) -> None:
    """Keep a GET open, for what the server has to say at any time."""
    await reply.begin_events()
    await reply.data(b": hello\n\n")
    scene.listening.append(reply)
    scene.changed()


# HTTP+SSE


class SSELink(Link):
    def __init__(self, exchange: Exchange, reply: HTTPReply) -> None:
        super().__init__(exchange)
        self.reply = reply

    async def write(self, frame: bytes) -> None:
        await self.reply.event(frame, event="message")

    async def close(self) -> None:
        await self.reply.abort()
        self.end()


@asynccontextmanager
async def _open_sse(scene: Scene, nursery: trio.Nursery) -> AsyncIterator[Address]:
    async def handle(scene: Scene, request: HTTPRequest) -> None:
        if request.method == "GET" and request.path == "/sse":
            link = SSELink(scene.exchange, request.reply)
            scene.links.append(link)
            await request.reply.begin_events()
            target = f"/messages?session={link.number}".encode()
            await request.reply.event(target, event="endpoint")
            nursery.start_soon(_watch, link)
        elif request.method == "POST" and request.path == "/messages":
            scene.hear(request.body, link=scene.link, http=request)
            await request.reply.whole(202)
        else:
            await request.reply.whole(405 if request.path == "/sse" else 404)

    async def _watch(link: SSELink) -> None:
        await link.reply.left.wait()
        link.end()
        scene.changed()

    async with open_http(_guarded(scene, handle), scene.exchange.next_connection) as origin:
        yield Address(url=f"{origin}/sse")


Stage = Callable[[Scene, trio.Nursery], AbstractAsyncContextManager[Address]]

STAGES: Final[dict[Transport, Stage]] = {
    "memory": _open_memory,
    "stdio": _open_stdio,
    "http": _open_http,
    "sse": _open_sse,
}


def playable(revision: str, transport: Transport) -> bool:
    """Whether a revision has a transport."""
    if transport == "http":
        return supports("streamable_http", revision)
    if transport == "sse":
        return not supports("streamable_http", revision)
    return True
