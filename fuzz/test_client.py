"""Targets for a client of ours: whatever its server sends, in either era.

It never hangs, raises the documented exceptions only, answers each question once, sends nothing
that is not of its type, and leaves nothing behind; `fuzz.calling` and `fuzz.oracle` say so.
"""

from __future__ import annotations

from random import Random

import trio
import trio.testing
from hypothesis import given
from hypothesis import strategies as st

from fuzz import loop
from fuzz.calling import CALLS, DOCUMENTED, PATIENCE, Call, visit_once
from fuzz.mill import RESULTS, Mill, written
from fuzz.typed import Example, nearly_sound, sound
from mcp_trio import open_client
from mcp_trio.connection import memory_frame_pair
from mcp_trio.protocol.revisions import LEGACY, MODERN
from mcp_trio.testing.strategies import damaged_lines, messages, noise_lines
from mcp_trio.wire.jsonrpc import Request, decode, encode

SEEDS = st.integers(0, 2**32 - 1)
VERSIONS = st.sampled_from([*LEGACY, *MODERN, *MODERN])


@given(st.lists(st.sampled_from(CALLS), min_size=1, max_size=10), VERSIONS, SEEDS)
def test_visits(calls: list[Call], version: str, seed: int) -> None:
    """Calls to a server that answers soundly, or not, and says what nobody asked."""
    mill = Mill(Random(seed), modern=0.9 if version in MODERN else 0.1)
    visit_once(calls, mill, version)


@given(st.sampled_from(CALLS), VERSIONS, st.randoms(use_true_random=False))
def test_one_call(call: Call, version: str, random: Random) -> None:
    """The same with one call, and every choice made by Hypothesis."""
    visit_once([call], Mill(random, modern=0.9 if version in MODERN else 0.1), version)


_LINES = st.one_of(
    messages().map(encode), damaged_lines().map(lambda damaged: damaged.line), noise_lines()
)


@given(st.lists(_LINES, max_size=8), st.sampled_from(["auto", "modern", "legacy"]))
def test_connecting_to_anything(lines: list[bytes], mode: str) -> None:
    """What answers the first request may be no MCP server at all."""

    async def connect() -> None:
        near, far = memory_frame_pair()
        async with trio.open_nursery() as nursery:

            async def answer() -> None:
                while await far.receive():
                    if lines:
                        await far.send([lines.pop()])

            nursery.start_soon(answer)
            with trio.fail_after(PATIENCE):
                try:
                    async with open_client(near, mode=mode, on_noise=lambda _line, _why: None):
                        pass
                except DOCUMENTED:
                    pass
            nursery.cancel_scope.cancel()

    loop.run(connect)


@given(
    sound("result") | nearly_sound(), st.sampled_from(CALLS), st.sampled_from(["modern", "legacy"])
)
def test_results_by_the_types(example: Example, call: Call, mode: str) -> None:
    """Calls whose results are those of some method, nearly: of their own, or of another."""

    async def connect() -> None:
        near, far = memory_frame_pair()
        async with trio.open_nursery() as nursery:

            async def answer() -> None:
                while frames := await far.receive():
                    for request in map(decode, frames):
                        if isinstance(request, Request):
                            greeting = RESULTS.get(request.method, ({},))[0]
                            opens = request.method in ("initialize", "server/discover")
                            result = greeting if opens else example[1]
                            reply = {"jsonrpc": "2.0", "id": request.id, "result": result}
                            await far.send([written(reply)])

            nursery.start_soon(answer)
            with trio.fail_after(PATIENCE):
                async with open_client(near, mode=mode, timeout=5, max_timeout=20) as client:
                    try:
                        await call(client)
                    except DOCUMENTED:
                        pass
            nursery.cancel_scope.cancel()

    loop.run(connect)
