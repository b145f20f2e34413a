"""Sequences: long conversations by the rules, with a model of what is going on.

Each rule may be played when the model allows it, and says what it changes: a call is open until it
is cancelled or waited for, what is subscribed can be unsubscribed. So what is sent is what a good
client could send, only faster and in stranger order than one would; every request in it has to be
answered, and every cancellation kept.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import attrs
from hypothesis import strategies as st

from mcp_trio.harness.fuzzing.cases import Ask, Await, Cancel, Case, Pause, Step, Tell
from mcp_trio.harness.fuzzing.schema_values import fitting
from mcp_trio.harness.fuzzing.scope import Scope
from mcp_trio.wire.jsonrpc import JSONObject

Draw = Callable[[st.SearchStrategy[Any]], Any]
LONGEST: Final = 40
"""Steps of a conversation."""


@attrs.define
class Model:
    """What a client knows of a conversation. Each method is a rule: a step, and what it changes.

    Attributes:
        open: The requests that it has not waited for.
        cancelled: Those of them that it has cancelled.
        subscribed: The resources whose changes it hears of.
    """

    scope: Scope
    draw: Draw
    number: int = 0
    open: list[int] = attrs.field(factory=list)
    cancelled: list[int] = attrs.field(factory=list)
    subscribed: list[str] = attrs.field(factory=list)

    def next(self) -> int:
        self.number += 1
        return self.number

    def ask(self) -> Step:
        ask: Ask = attrs.evolve(self.draw(self.scope.asks), id=self.next())
        self.open.append(ask.id)
        return ask

    def call(self) -> Step:
        params = self.draw(self.scope.questions["tools/call"])
        number = self.next()
        self.open.append(number)
        return Ask(number, "tools/call", params, token=self.draw(st.booleans()))

    def cancel(self) -> Step:
        number = self.draw(st.sampled_from(self.open))
        self.open.remove(number)
        self.cancelled.append(number)
        return Cancel(number)

    def cancel_again(self) -> Step:
        return Cancel(self.draw(st.sampled_from(self.cancelled)))

    def cancel_nothing(self) -> Step:
        return Cancel(self.number + 500)

    def wait(self) -> Step:
        return Await(self.draw(st.sampled_from(self.open)), 0.05)

    def subscribe(self) -> Step:
        uri = self.draw(st.sampled_from(self.scope.uris))
        self.subscribed.append(uri)
        return Ask(self.next(), "resources/subscribe", {"uri": uri})

    def unsubscribe(self) -> Step:
        uri = self.draw(st.sampled_from(self.subscribed))
        return Ask(self.next(), "resources/unsubscribe", {"uri": uri})

    def change_roots(self) -> Step:
        return Tell("notifications/roots/list_changed")

    def report_progress(self) -> Step:
        return Tell("notifications/progress", {"progressToken": "none", "progress": 1})

    def ping(self) -> Step:
        return Ask(self.next(), "server/discover" if self.scope.is_modern else "ping")

    def pause(self) -> Step:
        return Pause(self.draw(st.sampled_from([0.0, 0.001, 0.01, 0.15])))


@attrs.frozen
class Rule:
    """Something that a client may do.

    Attributes:
        play: Does it in the model; the step.
        weight: How often, compared to others.
        when: Whether it may.
    """

    play: Callable[[Model], Step]
    weight: int = 1
    when: Callable[[Model], object] = lambda _: True


def _legacy(model: Model) -> bool:
    return not model.scope.is_modern


RULES: Final = (
    Rule(Model.ask, 3),
    Rule(Model.call, 4, when=lambda model: "tools/call" in model.scope.questions),
    Rule(Model.cancel, 3, when=lambda model: model.open),
    Rule(Model.cancel_again, when=lambda model: model.cancelled),
    Rule(Model.cancel_nothing),
    Rule(Model.wait, 2, when=lambda model: model.open),
    Rule(Model.subscribe, when=lambda model: "resources/subscribe" in model.scope.questions),
    Rule(Model.unsubscribe, when=lambda model: model.subscribed),
    Rule(Model.change_roots, when=_legacy),
    Rule(Model.report_progress, when=_legacy),
    Rule(Model.ping, 2),
    Rule(Model.pause),
)


def cases(scope: Scope) -> st.SearchStrategy[Case]:
    if "tools/call" not in scope.questions:
        return _conversation(scope)
    usual = _conversation(scope)
    return st.integers(0, 2).flatmap(lambda n: usual if n else _cancellations(scope))


@st.composite
def _cancellations(draw: Draw, scope: Scope) -> Case:
    """The same call several times, cancelled after one time and another: if it is answered each
    time just then, it is no accident."""
    params = draw(st.one_of(*map(_long_call, scope.tools)))
    steps: list[Step] = []
    for number, seconds in enumerate(draw(st.sampled_from([(0.11, 0.2), (0.15, 0.3)])), 1):
        call = Ask(number, "tools/call", params, token=draw(st.booleans()))
        steps += [call, Pause(seconds), Cancel(number), Pause(0.06)]
    return Case("sequences", tuple(steps))


def _long_call(tool: JSONObject) -> st.SearchStrategy[JSONObject]:
    """A call that takes long, as far as its schema lets one guess: numbers are as large as can be,
    and what may be left out is."""
    schema = tool.get("inputSchema")
    schema = schema if isinstance(schema, dict) else {}
    parts = schema.get("properties")
    parts = parts if isinstance(parts, dict) else {}
    largest = {
        name: part["maximum"]
        for name, part in parts.items()
        if isinstance(part, dict) and isinstance(part.get("maximum"), int | float)
    }
    required = schema.get("required")
    needed = required if isinstance(required, list) else []
    least = {"properties": {name: parts.get(name, {}) for name in needed}, "required": needed}
    rest = fitting({**schema, **least})
    return st.fixed_dictionaries({"name": st.just(tool.get("name")), "arguments": rest}).map(
        lambda params: {**params, "arguments": {**params["arguments"], **largest}}
    )


@st.composite
def _conversation(draw: Draw, scope: Scope) -> Case:
    model = Model(scope, draw)
    steps = []
    for _ in range(draw(st.integers(1, LONGEST))):
        allowed = [rule for rule in RULES if rule.when(model) for _ in range(rule.weight)]
        steps.append(draw(st.sampled_from(allowed)).play(model))
    if model.cancelled:
        steps += [model.ping(), Pause(0.15)]
    return Case("sequences", tuple(steps))
