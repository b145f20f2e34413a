"""Targets for a server of ours: whatever one client sends, in either era.

Each says what a client sends; `fuzz.oracle` says what has to hold of what comes back.
"""

from __future__ import annotations

from random import Random
from typing import Any

import trio
import trio.testing
from hypothesis import given
from hypothesis import strategies as st

from fuzz import loop
from fuzz.mill import MODERN_META, Mill, written
from fuzz.serving import LONG, converse, converse_once
from fuzz.typed import MESSAGE_TYPES, wire_values
from mcp_trio.demo import server
from mcp_trio.protocol.methods import METHODS
from mcp_trio.protocol.revisions import LEGACY
from mcp_trio.testing.strategies import (
    batches,
    chunks_of,
    damaged_lines,
    messages,
    noise_lines,
)
from mcp_trio.wire.jsonrpc import encode

SEEDS = st.integers(0, 2**32 - 1)
OPENINGS = st.none() | st.sampled_from(LEGACY)
"""The revision of the legacy session that a conversation begins with, if it begins with one."""


@given(st.lists(SEEDS, min_size=1, max_size=60), OPENINGS, st.sampled_from([0.0, 0.5, 1.0]))
def test_conversations(seeds: list[int], opening: str | None, modern: float) -> None:
    """Frames that are one step from sound ones; questions of the server get such answers."""
    mill = Mill(Random(0), modern=modern)
    frames = [] if opening is None else mill.opening(opening)
    frames += [mill.reseed(seed).from_client() for seed in seeds]
    converse_once(frames, mill.reseed(0))


@given(st.randoms(use_true_random=False), OPENINGS, st.integers(1, 3))
def test_short_conversations(random: Random, opening: str | None, length: int) -> None:
    """The same with every choice made by Hypothesis, which so finds what matters in a frame."""
    mill = Mill(random)
    frames = [] if opening is None else mill.opening(opening)
    converse_once([*frames, *(mill.from_client() for _ in range(length))], mill)


@st.composite
def _typed_requests(draw: Any) -> bytes:
    """Requests with params of their types, in the era in which a client may send them or not."""
    row = METHODS[draw(st.sampled_from(sorted(METHODS)))]
    params = draw(wire_values(MESSAGE_TYPES[f"params of {row.name}"]))
    if draw(st.booleans()):
        params = {**params, "_meta": MODERN_META}
    message = {"jsonrpc": "2.0", "method": row.name, "params": params}
    if row.kind == "request" or draw(st.booleans()):
        message["id"] = draw(st.integers(0, 5) | st.text(max_size=3))
    return written(message)


@given(st.lists(_typed_requests(), min_size=1, max_size=8), OPENINGS)
def test_requests_by_the_types(frames: list[bytes], opening: str | None) -> None:
    """Every method with every kind of params that its type allows, whoever may send it."""
    start = [] if opening is None else Mill(Random(0)).opening(opening)
    converse_once([*start, *(frame.replace(b"\n", b" ") for frame in frames)])


_LINES = st.one_of(
    messages().map(encode),
    batches().map(encode),
    damaged_lines().map(lambda damaged: damaged.line),
    noise_lines(),
    st.binary(max_size=20).map(lambda data: data.replace(b"\n", b"")),
)


@given(st.lists(_LINES, max_size=10), OPENINGS)
def test_anything_json_rpc(frames: list[bytes], opening: str | None) -> None:
    """Messages that have little to do with the protocol, damage and noise."""
    start = [] if opening is None else Mill(Random(0)).opening(opening)
    converse_once([*start, *filter(bytes.strip, frames)])


@given(st.lists(SEEDS, max_size=12), st.data())
def test_streams_of_bytes(seeds: list[int], data: st.DataObject) -> None:
    """A conversation in pieces, cut off anywhere: the server writes whole lines, and ends."""
    mill = Mill(Random(0))
    frames = [mill.reseed(seed).from_client() for seed in seeds]
    stream = b"\n".join([*mill.reseed(0).opening(), *frames])
    end = data.draw(st.integers(0, len(stream)))
    chunks = data.draw(chunks_of(stream[:end]))

    async def talk() -> None:
        near, far = trio.testing.memory_stream_pair()
        written = bytearray()

        async def read() -> None:
            async for piece in near:
                written.extend(piece)

        with trio.fail_after(LONG):
            async with trio.open_nursery() as nursery:
                nursery.start_soon(server.serve_stream, far)
                nursery.start_soon(read)
                for chunk in chunks:
                    if chunk:
                        await near.send_all(chunk)
                await near.send_eof()
        assert not written or written.endswith(b"\n")

    loop.run(talk)


@given(st.lists(st.lists(SEEDS, max_size=8), min_size=2, max_size=3))
def test_clients_do_not_disturb_each_other(conversations: list[list[int]]) -> None:
    """Several clients of one running server at once: each has its own ids and its own answers."""

    async def talk() -> None:
        async with server.running(), trio.open_nursery() as nursery:
            for seeds in conversations:
                mill = Mill(Random(len(seeds)))
                frames = mill.opening() + [mill.reseed(seed).from_client() for seed in seeds]
                nursery.start_soon(converse, server.serve_frames, frames, mill)

    loop.run(talk)
