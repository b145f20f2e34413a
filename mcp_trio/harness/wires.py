"""Wires: connections to the peer under test, below everything that the protocol says.

A wire sends what it is given, legal or not, and gives what comes, readable or not, frame by frame.
A frame is what a transport carries at once: a line on stdio, the body of a POST and an event of the
reply on HTTP, a WebSocket message. Who speaks the protocol over a wire is `Session`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import ClassVar

import trio

from mcp_trio.connection import FrameStream, LineStream
from mcp_trio.exceptions import TransportError
from mcp_trio.harness.exchange import Exchange
from mcp_trio.harness.model import NotApplicable, Transport
from mcp_trio.transports.process import ChildProcess
from mcp_trio.wire.jsonrpc import JSON
from mcp_trio.wire.ndjson import LineTooLong

BROKEN = (trio.BrokenResourceError, trio.ClosedResourceError, trio.EndOfChannel, TransportError)


class WireEnded(Exception):
    """Nothing comes or goes any more; the message says why."""


class Wire(ABC):
    """One connection to a peer.

    Attributes:
        transport: What it is made of.
        exchange: Where all that it carries is written down.
        number: Which connection of that exchange it is.
        child: The process at its other end, where there is one that we started.
        revision: What is spoken over it, where that is known before anything is said.
        on_refused: Called where a transport refuses single frames, as HTTP does by its status: with
            the id in the frame (None if it has none) and with what was said. No answer will come.
    """

    transport: Transport
    has_bytes: ClassVar[bool] = False
    """Whether it carries plain bytes, so that framing is a question."""

    def __init__(self, transport: Transport, exchange: Exchange, number: int | None = None) -> None:
        self.transport = transport
        self.exchange = exchange
        self.number = exchange.next_connection() if number is None else number
        self.child: ChildProcess | None = None
        self.revision: str | None = None
        self.on_refused: Callable[[JSON, str], object] = lambda _id, _why: None

    @abstractmethod
    async def send(self, frame: bytes) -> None:
        """Send one frame, whatever is in it.

        Raises:
            WireEnded: The peer takes no more.
        """

    async def send_many(self, frames: Sequence[bytes]) -> None:
        """Send frames one after the other, in one go where the transport can; as `send`."""
        for frame in frames:
            await self.send(frame)

    @abstractmethod
    async def receive(self) -> bytes:
        """Wait for the next frame.

        Raises:
            WireEnded: None will come any more.
        """

    async def negotiated(self, version: str) -> None:
        """Hear which revision both sides have agreed on, as some transports must say it again."""
        await trio.lowlevel.checkpoint()

    async def send_bytes(self, data: bytes) -> None:
        """Send bytes that are not made a frame of: half a line, two lines, a byte-order mark.

        Raises:
            NotApplicable: This transport has no such thing.
            WireEnded: The peer takes no more.
        """
        raise NotApplicable(f"{self.transport} carries no plain bytes")

    async def end_input(self) -> None:
        """Say that nothing more will be sent, and go on receiving.

        Raises:
            NotApplicable: This transport ends in both directions or in none.
        """
        raise NotApplicable(f"{self.transport} cannot be closed in one direction")

    def note(self, text: str) -> None:
        self.exchange.note(text, self.number)


class FrameWire(Wire):
    """A wire over one of the library's own frame streams, which are as indifferent."""

    def __init__(
        self,
        transport: Transport,
        exchange: Exchange,
        stream: FrameStream,
        child: ChildProcess | None = None,
    ) -> None:
        super().__init__(transport, exchange)
        self.child = child
        self._stream = stream
        self._frames: list[bytes] = []
        # A check sends while its session answers what the server asks, and streams allow one only.
        self._sending = trio.Lock()

    async def send(self, frame: bytes) -> None:
        await self.send_many([frame])

    async def send_many(self, frames: Sequence[bytes]) -> None:
        async with self._sending:
            for frame in frames:
                self.exchange.add("sent", frame, connection=self.number)
            try:
                await self._stream.send(frames)
            except BROKEN as exc:
                raise WireEnded(f"the peer takes no more: {exc}") from exc

    async def receive(self) -> bytes:
        if not self._frames:
            self._frames = await self._receive()
        else:
            await trio.lowlevel.checkpoint()
        frame = self._frames.pop(0)
        self.exchange.add("received", frame, connection=self.number)
        return frame

    async def _receive(self) -> list[bytes]:
        try:
            frames = await self._stream.receive()
        except (*BROKEN, LineTooLong) as exc:
            raise WireEnded(str(exc)) from exc
        if not frames:
            raise WireEnded("the peer has closed the connection")
        return frames


class LineWire(FrameWire):
    """A wire of lines over plain bytes: stdio, or a socket with the framing of stdio."""

    has_bytes = True

    def __init__(
        self,
        transport: Transport,
        exchange: Exchange,
        stream: LineStream,
        child: ChildProcess | None = None,
    ) -> None:
        super().__init__(transport, exchange, stream, child)
        self._send_stream = stream.send_stream

    async def send_bytes(self, data: bytes) -> None:
        async with self._sending:
            self.exchange.add("sent", data, label="bytes", connection=self.number)
            try:
                await self._send_stream.send_all(data)
            except BROKEN as exc:
                raise WireEnded(f"the peer takes no more: {exc}") from exc

    async def end_input(self) -> None:
        self.note("the harness closes its side")
        if isinstance(self._send_stream, trio.abc.HalfCloseableStream):
            await self._send_stream.send_eof()
        else:
            await self._send_stream.aclose()
