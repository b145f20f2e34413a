"""SDK control: a peer that is reached through somebody else's channel, one message at a time.

An application that already talks to another process (over its own pipe, its own socket) can let
MCP servers over there be used over here without a connection of their own. What it brings is one
function that carries a message to the server of a name and comes back with its response:

    one process                               the other
    Client ── ControlStream ── send(name, message) ──▶ ControlServer.deliver ── Server
                     deliver(message) ◀── send(name, message) ──  (notifications, questions)

That function is the request-and-response half. What a server sends by itself comes the other way,
through a second function. Messages are JSON objects as dicts; how they travel is the
application's business, and so is a failure of it: it ends the connection, with the reason.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Protocol

import attrs
import msgspec
import trio

from mcp_trio.connection import FrameStream, open_private_nursery
from mcp_trio.exceptions import Closed, ConnectionClosed
from mcp_trio.wire.jsonrpc import JSONObject, RequestId

#: Messages that wait to be read before whoever delivers them has to wait too.
WAITING = 64

#: Carries a message to the server of a name; gives its response, or None where none is due.
SendRequest = Callable[[str, JSONObject], Awaitable[JSONObject | None]]
#: Carries a message that is no response from the server of a name to its client.
SendMessage = Callable[[str, JSONObject], Awaitable[object]]


class _Server(Protocol):
    async def serve_frames(self, stream: FrameStream) -> object: ...


class _Mailbox(FrameStream):
    """The receiving half that both ends share: whatever is delivered is received."""

    def __init__(self) -> None:
        self._arriving, self._arrived = trio.open_memory_channel[bytes](WAITING)

    async def receive(self) -> list[bytes]:
        try:
            return [await self._arrived.receive()]
        except trio.EndOfChannel:
            return []

    async def _put(self, message: JSONObject) -> None:
        await self._arriving.send(msgspec.json.encode(message))

    async def aclose(self) -> None:
        self._arriving.close()
        self._arrived.close()
        await trio.lowlevel.checkpoint()


class ControlStream(_Mailbox):
    """The client's end, made by `open_control_stream`; a target for `open_client`."""

    def __init__(self, name: str, send: SendRequest, nursery: trio.Nursery) -> None:
        super().__init__()
        self._name = name
        self._send = send
        self._nursery = nursery
        self._failure = ""
        self.over = False

    async def deliver(self, message: JSONObject) -> None:
        """Take a message that the server sent by itself: a notification or a request.

        Waits while the client is behind. Does nothing once the client is gone.
        """
        try:
            await self._put(message)
        except (trio.BrokenResourceError, trio.ClosedResourceError):
            await trio.lowlevel.checkpoint()

    async def send(self, frames: Sequence[bytes]) -> None:
        # Each in a task of its own: one message is on its way until it is answered.
        if self.over:
            raise trio.ClosedResourceError(f"the way to the server {self._name!r} is closed")
        for frame in frames:
            self._nursery.start_soon(self._exchange, msgspec.json.decode(frame))
        await trio.lowlevel.checkpoint()

    async def obituary(self, reason: str) -> Closed:
        await trio.lowlevel.checkpoint()
        return Closed(self._failure or reason)

    async def _exchange(self, message: JSONObject) -> None:
        try:
            response = await self._send(self._name, message)
        except Exception as exc:
            self._failure = f"the way to the server {self._name!r} failed: {exc!r}"
            self._arriving.close()  # which ends the connection
            return
        if response is not None:
            await self.deliver(response)


@asynccontextmanager
async def open_control_stream(name: str, send: SendRequest) -> AsyncIterator[ControlStream]:
    """The client's end of the way to the server `name`, for the length of a block.

        async with open_control_stream("files", carry) as stream:
            async with mcp_trio.open_client(stream) as client: ...

    Args:
        name: Which of the servers at the other side.
        send: Called with the name and each message, several at a time; comes back with the
            response to a request, and with None for everything else. What it raises ends the
            connection: the client's calls raise `ConnectionClosed` with it as the reason.
    """
    async with open_private_nursery() as nursery:
        stream = ControlStream(name, send, nursery)
        try:
            yield stream
        finally:
            stream.over = True


class _ServedStream(_Mailbox):
    """The server's end of one connection: sorts what the server sends."""

    def __init__(self, name: str, send: SendMessage) -> None:
        super().__init__()
        self._name = name
        self._send = send
        self._waiting: dict[RequestId, _Waiter] = {}
        self.ended = False

    async def exchange(self, message: JSONObject) -> JSONObject | None:
        id = message.get("id")
        if "method" not in message or not isinstance(id, str | int):
            await self._deliver(message)
            return None
        if id in self._waiting:
            raise ValueError(f"request id {id!r} is in use by a request that is not answered yet")
        waiter = self._waiting[id] = _Waiter()
        try:
            await self._deliver(message)
            await waiter.settled.wait()
        finally:
            del self._waiting[id]
        if waiter.response is None:
            raise ConnectionClosed(f"the server {self._name!r} has ended")
        return waiter.response

    async def _deliver(self, message: JSONObject) -> None:
        try:
            await self._put(message)
        except (trio.BrokenResourceError, trio.ClosedResourceError):
            raise ConnectionClosed(f"the server {self._name!r} has ended") from None

    async def send(self, frames: Sequence[bytes]) -> None:
        for frame in frames:
            message = msgspec.json.decode(frame)
            waiter = self._waiting.get(message.get("id")) if "method" not in message else None
            if waiter is None:
                await self._send(self._name, message)
            else:
                waiter.response = message
                waiter.settled.set()
        await trio.lowlevel.checkpoint()

    async def aclose(self) -> None:
        for waiter in self._waiting.values():
            waiter.settled.set()
        await super().aclose()


@attrs.define(eq=False)
class _Waiter:
    response: JSONObject | None = None
    settled: trio.Event = attrs.field(factory=trio.Event)


class ControlServer:
    """The servers' end, made by `open_control_server`."""

    def __init__(self, streams: Mapping[str, _ServedStream]) -> None:
        self._streams = streams

    async def deliver(self, name: str, message: JSONObject) -> JSONObject | None:
        """Hand a client's message to the server `name`; gives the response to a request.

        For everything that is no request it returns None once the server has taken it.
        Cancelling it does not cancel the request at the server: that is a message of its own,
        `notifications/cancelled`, after which no response comes. Whoever carries messages should
        therefore run each delivery in a task and forget those that are cancelled.

        Raises:
            KeyError: There is no server of that name.
            ConnectionClosed: The server has ended.
        """
        if name not in self._streams:
            known = ", ".join(sorted(self._streams)) or "none"
            raise KeyError(f"there is no server {name!r}; there are: {known}")
        return await self._streams[name].exchange(message)


@asynccontextmanager
async def open_control_server(
    servers: Mapping[str, _Server], send: SendMessage
) -> AsyncIterator[ControlServer]:
    """Serve several servers, told apart by name, to one client process, for a block.

    Args:
        servers: By the names that the client process uses.
        send: Called with a server's name and each message that it sends by itself:
            notifications, and requests of legacy servers. One at a time for each server.
    """
    streams = {name: _ServedStream(name, send) for name in servers}
    async with open_private_nursery() as nursery:
        for name, server in servers.items():
            nursery.start_soon(server.serve_frames, streams[name])
        yield ControlServer(streams)
