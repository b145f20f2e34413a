"""What watches the fuzz targets can see: each fault that it is there for makes it fail."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from random import Random
from typing import Any

import pytest
import trio
from trio.testing import MockClock

from fuzz.calling import random_visit
from fuzz.mill import Mill
from fuzz.million import Part, Sample
from fuzz.mutation import mutate_json, mutate_line
from fuzz.oracle import Fault, Witness, nothing_logged
from fuzz.serving import converse
from mcp_trio.connection import FrameStream
from mcp_trio.demo import server
from mcp_trio.exceptions import ProtocolError
from mcp_trio.wire.jsonrpc import Response as Answer
from mcp_trio.wire.jsonrpc import encode

CALL = b'{"jsonrpc":"2.0","id":1,"method":"ping"}'
ANSWER = b'{"jsonrpc":"2.0","id":1,"result":{}}'
CANCELLED = (
    b'{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1,"reason":"x"}}'
)


@pytest.mark.parametrize(
    ("sent", "received", "complaint"),
    [
        ([CALL], [ANSWER, ANSWER], "asked 1 and answered 2 times"),
        ([CALL], [ANSWER.replace(b"1,", b'"1",')], "asked 0 and answered 1 times"),
        ([CALL], [b"Server ready"], "no message"),
        ([CALL], [b'{"jsonrpc":"2.0","id":1.0,"result":{}}'], "no message"),
        ([CALL], [b'{"jsonrpc":"2.0","id":1,"result":{"_meta":5}}'], "not of its type: _meta"),
        ([CALL.replace(b"ping", b"x")], [ANSWER], "x has no result"),
        ([CALL], [b'{"jsonrpc":"2.0","method":"x"}'], "must not send x"),
        ([CALL], [b'{"jsonrpc":"2.0","id":9,"method":"tools/list"}'], "must not send tools/list"),
        (
            [CALL],
            [b'{"jsonrpc":"2.0","method":"notifications/message","params":{}}'],
            "the params of notifications/message",
        ),
        (
            [CALL],
            [b'{"jsonrpc":"2.0","error":{"code":-32700,"message":"?"}}'],
            "complains of what it was not sent",
        ),
        ([CALL], [], "never answered"),
        ([CALL[:-1]], [], "never answered"),
    ],
)
def test_the_witness_sees(sent: list[bytes], received: list[bytes], complaint: str) -> None:
    """Each rule of the oracle by one conversation that breaks it."""
    witness = Witness("server")
    for frame in sent:
        witness.sent(frame)

    def judge() -> None:
        for frame in received:
            witness.received(frame)
        witness.settle()

    with pytest.raises(Fault, match=complaint):
        judge()


@pytest.mark.parametrize(
    ("sent", "received"),
    [
        ([CALL], [ANSWER]),
        ([CALL, CANCELLED], []),
        ([CALL, CANCELLED], [ANSWER]),
        ([CALL, CALL], [ANSWER, ANSWER]),
        ([b"noise"], [b'{"jsonrpc":"2.0","error":{"code":-32700,"message":"?"}}']),
        ([b"noise"], []),
        ([CALL[:-1]], [b'{"jsonrpc":"2.0","id":1,"error":{"code":-32700,"message":"?"}}']),
    ],
)
def test_the_witness_accuses_nobody(sent: list[bytes], received: list[bytes]) -> None:
    """What the protocol allows is no fault."""
    witness = Witness("server")
    for frame in sent:
        witness.sent(frame)
    for frame in received:
        witness.received(frame)
    witness.settle()


class Damaging(FrameStream):
    """A stream whose sender does something to each frame."""

    def __init__(self, stream: FrameStream, damage: Callable[[bytes], list[bytes]]) -> None:
        self._stream = stream
        self._damage = damage

    async def receive(self) -> list[bytes]:
        return await self._stream.receive()

    async def send(self, frames: Sequence[bytes]) -> None:
        await self._stream.send([new for frame in frames for new in self._damage(frame)])

    async def aclose(self) -> None:
        await self._stream.aclose()


@pytest.mark.parametrize(
    "damage",
    [
        lambda frame: [frame, frame],
        lambda frame: [] if b'"tools":' in frame else [frame],
        lambda frame: [frame, b"print()"],
        lambda frame: [frame.replace(b'"type":"text"', b'"type":5')],
    ],
    ids=["twice", "lost", "noise", "malformed"],
)
async def test_broken_servers_are_found(
    damage: Callable[[bytes], list[bytes]], autojump_clock: MockClock
) -> None:
    """A server that breaks a rule now and then does not get through a conversation."""
    mill = Mill(Random(1), modern=0.5)
    frames = [*mill.opening("2025-06-18"), *(mill.from_client() for _ in range(100))]
    with pytest.RaisesGroup(Fault, flatten_subgroups=True):
        await converse(lambda stream: server.serve_frames(Damaging(stream, damage)), frames, mill)


async def test_a_server_that_hangs_up_is_found(autojump_clock: MockClock) -> None:
    """Whatever one client says, the server goes on until the client has gone."""

    async def serve(stream: FrameStream) -> None:
        await stream.receive()
        await stream.aclose()

    with pytest.RaisesGroup(
        pytest.RaisesExc((Fault, trio.BrokenResourceError)), flatten_subgroups=True
    ):
        await converse(serve, [CALL] * 100)


def test_a_logged_failure_is_a_fault() -> None:
    """What the library catches and logs would else go unseen; what the peer did is no failure."""
    logger = logging.getLogger("mcp_trio")

    def fail(error: Exception) -> None:
        try:
            raise error
        except Exception:
            logger.exception("a handler failed")

    with pytest.raises(Fault, match="a handler failed"), nothing_logged():
        fail(KeyError("x"))
    with nothing_logged():
        fail(ProtocolError("the client answered nonsense"))
    assert logger.isEnabledFor(logging.WARNING)  # as before


def test_growth_is_a_fault() -> None:
    """Memory or descriptors that grow without end, and neither a start nor a ripple."""

    def judge(megabytes: Callable[[int], float], descriptors: Callable[[int], int]) -> None:
        samples = [Sample(n, megabytes(n), descriptors(n)) for n in range(40)]
        Part("x", 40, curves=[samples]).judge()

    judge(lambda n: min(60.0, 40 + 5 * n) + n % 2, lambda n: 6)
    with pytest.raises(Fault, match="memory grows"):
        judge(lambda n: 60.0 + n, lambda n: 6)
    with pytest.raises(Fault, match="descriptors grow"):
        judge(lambda n: 60.0, lambda n: 6 + n // 5)


def test_mutations_stay_within_json_and_leave_the_original() -> None:
    """The damage to JSON is done to a copy, and can be written; a line may become anything."""
    random = Random(1)
    original: dict[str, Any] = {"a": [1, {"b": "c"}], "d": None}
    changed = 0
    for _ in range(500):
        mutated = mutate_json(random, original, times=2)
        changed += mutated != original
        encode(Answer(1, {"value": mutated}))
        assert mutate_line(random, CALL, ANSWER) is not None
    assert original == {"a": [1, {"b": "c"}], "d": None}
    assert changed > 400


@pytest.mark.parametrize("seed", range(5))
def test_visits_repeat_themselves(seed: int) -> None:
    """The same seed, the same conversation: what a long run finds can be found again."""
    first, second = (random_visit(Random(seed), length=5) for _ in range(2))
    assert (first.sent_count, first.received_count) == (second.sent_count, second.received_count)
