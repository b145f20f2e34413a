"""Wires: what a check and its session may do at the same time."""

from __future__ import annotations

import trio
import trio.testing

from mcp_trio.connection import LineStream
from mcp_trio.harness.exchange import Exchange
from mcp_trio.harness.wires import LineWire


async def test_a_check_and_its_session_may_send_at_once(autojump_clock: object) -> None:
    """A session answers the server while a check sends: one waits for the other, neither fails."""
    near, far = trio.testing.memory_stream_pair()
    stream = LineStream(near, near, 1_000)
    wire = LineWire("stream", Exchange(), stream)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(wire.send, b"one")
        nursery.start_soon(wire.send_bytes, b"two\n")
        nursery.start_soon(wire.send_many, [b"three", b"four"])
    await near.send_eof()
    received = b"".join([bytes(chunk) async for chunk in far])
    assert sorted(received.split()) == [b"four", b"one", b"three", b"two"]
    assert b"three\nfour\n" in received
