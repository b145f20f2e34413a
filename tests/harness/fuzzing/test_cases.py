"""Cases are values: what a replay file holds is what was played."""

from __future__ import annotations

import json
from functools import cache
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from mcp_trio.harness.fuzzing.cases import (
    Ask,
    Case,
    Cut,
    Flood,
    Post,
    Raw,
    Send,
    Signal,
    Stall,
    step_from_json,
)
from mcp_trio.harness.fuzzing.layers import LAYERS, cases_of
from mcp_trio.harness.fuzzing.scope import Scope
from mcp_trio.harness.model import Transport
from mcp_trio.harness.probe import Inventory
from tests.harness.fuzzing.kit import ERAS, LEGACY

SCHEMA = {
    "type": "object",
    "properties": {
        "a": {"type": "integer", "minimum": 1, "maximum": 5},
        "b": {"$ref": "#/$defs/b"},
        "c": {"anyOf": [{"type": "string", "pattern": "^[a-z]+$"}, {"type": "null"}]},
        "d": {"enum": ["x", "y"]},
        "e": {"type": ["number", "boolean"]},
        "f": {"prefixItems": [{"const": 1}, {"type": "string", "maxLength": 3}]},
    },
    "required": ["a"],
    "$defs": {"b": {"type": "array", "items": {"type": "object"}, "maxItems": 3}},
}
INVENTORY = Inventory(
    info={"name": "x", "version": "1"},
    capabilities={
        "tools": {},
        "resources": {"subscribe": True},
        "prompts": {},
        "completions": {},
        "logging": {},
    },
    instructions=None,
    tools=(
        {"name": "look", "inputSchema": SCHEMA},
        {"name": "erase", "inputSchema": {"type": "object"}},
    ),
    resources=({"uri": "x://1", "name": "one"},),
    templates=({"uriTemplate": "x://{name}", "name": "all"},),
    prompts=({"name": "p", "arguments": [{"name": "topic", "required": True}]},),
)


@cache
def strategy(layer: str, revision: str, transport: Transport) -> st.SearchStrategy[Case] | None:
    return cases_of(layer, Scope(revision, transport, INVENTORY, INVENTORY.tools[:1]))


def of_all_layers(transport: Transport = "stdio") -> st.SearchStrategy[Case]:
    found = [strategy(layer, revision, transport) for layer in LAYERS for revision in ERAS]
    return st.one_of(*(one for one in found if one is not None))


STEPS = (
    Ask(1, "tools/call", {"name": "x"}, {"y": None}, token=True),
    Send(b"\xff\x00{", "bytes"),
    Send('{"a":"\u2028"}'.encode(), "text", clear=True),
    Raw((b"{", b"", b"\xe2\x80", b"\xa8}\r\n"), "pieces"),
    Post("POST", {"accept": None, "x": "é"}, b"\xff"),
    Flood(3, 1000, "ping"),
    Stall(0.25),
    Signal("STOP"),
    Cut(),
)


@pytest.mark.parametrize("step", STEPS, ids=lambda step: step.do)
def test_a_step_comes_back_as_it_was(step: Any) -> None:
    """Bytes that are no text have to survive a text file."""
    assert step_from_json(json.loads(json.dumps(step.to_json()))) == step


@settings(max_examples=100, deadline=None, suppress_health_check=list(HealthCheck))
@given(of_all_layers())
def test_every_case_comes_back_as_it_was(case: Case) -> None:
    """Also those that strategies make: a replay file that plays something else is worth nothing."""
    assert Case.from_json(json.loads(json.dumps(case.to_json()))) == case
    assert "ask" not in case.to_json()


@settings(max_examples=200, deadline=None, suppress_health_check=list(HealthCheck))
@given(of_all_layers())
def test_protected_tools_are_not_called(case: Case) -> None:
    """A fuzzer that deletes somebody's files because a strategy made up a call is not run twice."""
    text = json.dumps(case.to_json())
    assert '"erase"' not in text
    assert '\\"erase\\"' not in text


def test_each_layer_says_where_it_works() -> None:
    """HTTP headers need HTTP, arguments need something that takes some."""
    assert strategy("headers", LEGACY, "stdio") is None
    assert strategy("headers", LEGACY, "http") is not None
    bare = Inventory(
        info={},
        capabilities={},
        instructions=None,
        tools=(),
        resources=(),
        templates=(),
        prompts=(),
    )
    for layer in LAYERS:
        found = cases_of(layer, Scope(LEGACY, "stdio", bare, ()))
        assert (found is None) == (layer in ("headers", "arguments"))


@pytest.mark.parametrize("text", ["{}", '{"do":"dance"}', '{"do":"ask","id":1}', '{"do":"send"}'])
def test_what_is_no_step_is_refused(text: str) -> None:
    """A damaged file is told of, and no half of it is played."""
    with pytest.raises(ValueError, match="is no step"):
        step_from_json(json.loads(text))
