"""Mutants of the framing: the demo server over a stream in memory, and a fault between the bytes.

    checker  ◀── sent ──  ByteFault  ◀──  the demo server
             ── received ▶           ──▶

What `frames` is for messages, this is for what they are made of: lines, and the pieces in which
they come. There is no process, so the time may be virtual.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager

import attrs
import trio

from mcp_trio.client.targets import InProcessServer
from mcp_trio.connection import LineStream, open_private_nursery
from mcp_trio.demo import server as demo
from mcp_trio.harness.exchange import Exchange
from mcp_trio.harness.model import Transport
from mcp_trio.harness.mutants import Mutant
from mcp_trio.harness.targets import ServerTarget
from mcp_trio.harness.wires import LineWire, Wire
from mcp_trio.testing import memory_pair
from mcp_trio.wire.ndjson import CLIENT_LINE_LIMIT


class ByteFault:
    """One fault. The first line of its docstring says what it does wrong."""

    def received(self, data: bytes) -> bytes:
        """What reaches the server in place of bytes of its client."""
        return data

    def sent(self, data: bytes) -> bytes:
        """What reaches the client in place of bytes of the server: whole lines."""
        return data


class _FaultyBytes(trio.abc.Stream):
    def __init__(self, stream: trio.abc.Stream, fault: ByteFault) -> None:
        self._stream = stream
        self._fault = fault

    async def receive_some(self, max_bytes: int | None = None) -> bytes:
        while data := await self._stream.receive_some(max_bytes):
            if changed := self._fault.received(bytes(data)):
                return changed
        return b""

    async def send_all(self, data: bytes | bytearray | memoryview) -> None:
        await self._stream.send_all(self._fault.sent(bytes(data)))

    async def wait_send_all_might_not_block(self) -> None:
        await self._stream.wait_send_all_might_not_block()

    async def aclose(self) -> None:
        await self._stream.aclose()


@attrs.frozen
class _StreamTarget(ServerTarget):
    name: str
    fault: Callable[[], ByteFault]
    words: str = "demo"
    transport: Transport = "stream"

    @asynccontextmanager
    async def open_wire(self, exchange: Exchange) -> AsyncIterator[Wire]:
        near, far = memory_pair()
        async with open_private_nursery() as nursery:
            nursery.start_soon(demo.serve_stream, _FaultyBytes(far, self.fault()))
            yield LineWire("stream", exchange, LineStream(near, near, CLIENT_LINE_LIMIT))

    def for_client(self) -> InProcessServer:
        return demo


def stream_mutant(id: str, fault: Callable[[], ByteFault], catches: Sequence[str]) -> Mutant:
    """A mutant of the demo server, over bytes in memory."""

    @asynccontextmanager
    async def open_faulty() -> AsyncIterator[ServerTarget]:
        yield _StreamTarget(id, fault)

    @asynccontextmanager
    async def open_healthy() -> AsyncIterator[ServerTarget]:
        yield _StreamTarget(f"{id}, healthy", ByteFault)

    text = (fault.__doc__ or "").strip().partition("\n")[0]
    return Mutant(id, text, tuple(catches), open_faulty, open_healthy, virtual=True)
