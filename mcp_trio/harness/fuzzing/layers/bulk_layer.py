"""Bulk: a hundred messages at a time, for soaking a peer in millions.

Drawing each message from a strategy costs more than sending it. Here one number is drawn, and
chance makes a hundred messages from it: good requests, and frames that were changed in simple ways.
What fails is cut down step by step, as all cases are; the number itself says nothing.
"""

from __future__ import annotations

import json
import random
from typing import Final, TypeVar

import hypothesis
from hypothesis import strategies as st

from mcp_trio.harness.fuzzing.cases import Ask, Cancel, Case, Send, Step, Tell
from mcp_trio.harness.fuzzing.layers.json_layer import LEGAL, UNCLEAR, spelt
from mcp_trio.harness.fuzzing.layers.jsonrpc_layer import SURE_IDS, UNSURE_IDS
from mcp_trio.harness.fuzzing.scope import Scope
from mcp_trio.harness.fuzzing.speech import Speech
from mcp_trio.wire.jsonrpc import JSON, JSONObject

T = TypeVar("T")

EXAMPLES: Final = 8
"""Requests of one method to choose from."""
MESSAGES: Final = 100
"""Messages of a case."""
_LARGEST: Final = 10_000
"""Bytes of an oddity that is worth sending this often."""

_ODD: Final[tuple[JSON, ...]] = (
    None, True, 0, -1, 1.5, 2**53 + 1, 10**30, "", "x", "\u2028", "\x00", [], {}, [[]], {"": None},
)  # fmt: skip


def cases(scope: Scope) -> st.SearchStrategy[Case]:
    maker = Maker(scope)
    return st.integers(0, 2**64 - 1).map(maker.case)


class Maker:
    """Makes cases from numbers.

    Attributes:
        pool: Good requests, of which a few for each method.
    """

    def __init__(self, scope: Scope) -> None:
        self._speech = Speech(scope.revision)
        self._strange = scope.strange_methods[-7:-1]
        self.pool = _examples(scope)
        # A tool may run for as long as it likes, and a hundred at a time are no test of a tool.
        self._quick = [ask for ask in self.pool if ask.method != "tools/call"] or self.pool

    def case(self, seed: int) -> Case:
        chance = random.Random(seed)
        steps = [self._step(number, chance) for number in range(1, MESSAGES + 1)]
        return Case("bulk", tuple(steps))

    def _step(self, number: int, chance: random.Random) -> Step:
        kind = chance.random()
        if kind < 0.55:
            ask = chance.choice(self.pool if kind < 0.08 else self._quick)
            return Ask(number, ask.method, ask.params)
        if kind < 0.62:
            return Tell(
                chance.choice(("notifications/harness", "notifications/progress")), {"a": 1}
            )
        if kind < 0.66:
            return Cancel(chance.randint(1, number))
        if kind < 0.70:
            return Ask(number, chance.choice(self._strange))
        value = self._value(number, chance)
        if kind < 0.76:
            return Send(spelt(value, chance).encode(), "another spelling", clear=True)
        if kind < 0.82:
            id = chance.choice(SURE_IDS + UNSURE_IDS)
            return Send(_frame({**value, "id": id}), "another id")
        if kind < 0.88:
            return Send(_frame(_replaced(value, chance)), "another value")
        frame = _frame(value)
        if kind < 0.94:
            oddity = chance.choice(_ODDITIES)
            return Send(frame[:-1] + b',"odd":' + oddity + b"}", "an oddity")
        return Send(_garbled(frame, chance), "garbled")

    def _value(self, number: int, chance: random.Random) -> JSONObject:
        ask = chance.choice(self._quick)
        frame = self._speech.request(number, ask.method, ask.params)
        value: JSONObject = json.loads(frame)
        return value


_ODDITIES: Final = [text for text in (*LEGAL.values(), *UNCLEAR.values()) if len(text) <= _LARGEST]


def _examples(scope: Scope) -> list[Ask]:
    """A few requests of each method, the same ones every time."""
    found: dict[str, Ask] = {}
    for method, params in scope.questions.items():
        for value in _drawn(params, EXAMPLES):
            ask = Ask(1, method, value)
            found.setdefault(json.dumps(ask.to_json()), ask)
    return list(found.values())


def _drawn(values: st.SearchStrategy[T], number: int) -> list[T]:
    found: list[T] = []

    @hypothesis.seed(0)
    @hypothesis.settings(
        max_examples=number,
        database=None,
        deadline=None,
        phases=[hypothesis.Phase.generate],
        suppress_health_check=list(hypothesis.HealthCheck),
    )
    @hypothesis.given(values)
    def take(value: T) -> None:
        found.append(value)

    take()
    return found


def _frame(value: JSON) -> bytes:
    return json.dumps(value, separators=(",", ":")).encode()


def _replaced(value: JSONObject, chance: random.Random) -> JSON:
    """A message with one member replaced, left out or put in."""
    copy = dict(value)
    key = chance.choice(list(copy))
    if isinstance(copy[key], dict) and copy[key] and chance.random() < 0.6:
        copy[key] = _replaced(copy[key], chance)
    elif chance.random() < 0.3:
        del copy[key]
    else:
        copy[key] = chance.choice(_ODD)
    return copy


def _garbled(frame: bytes, chance: random.Random) -> bytes:
    """A frame with a few bytes changed, cut out or doubled."""
    data = bytearray(frame)
    for _ in range(chance.randint(1, 4)):
        at = chance.randrange(len(data)) if data else 0
        kind = chance.randrange(4)
        if kind == 0:
            data[at : at + 1] = bytes([chance.randrange(256)])
        elif kind == 1:
            del data[at : at + chance.randint(1, 8)]
        elif kind == 2:
            data[at:at] = data[at : at + chance.randint(1, 8)]
        else:
            data[at:at] = chance.choice(
                (b'"', b"{", b"}", b"[", b"\\", b",", b"\x00", b"\xff", b"1")
            )
    return bytes(data)
