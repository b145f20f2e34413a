"""JSON-RPC: envelopes, ids of every kind, batches, duplicates, answers that nobody asked for."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, Final

from hypothesis import strategies as st

from mcp_trio.harness.fuzzing.cases import Case, Send, Step, Tell
from mcp_trio.harness.fuzzing.scope import Scope
from mcp_trio.harness.fuzzing.speech import Speech
from mcp_trio.testing.strategies import (
    error_responses,
    invalid_envelopes,
    json_text,
    json_values,
    responses,
)
from mcp_trio.wire.jsonrpc import JSON, JSONObject, encode

Draw = Callable[[st.SearchStrategy[Any]], Any]

SURE_IDS: Final[tuple[JSON, ...]] = (
    0, -1, 1, "1", "", "0", "01", "true", "null", 2**31, 2**53 - 1, -(2**53) + 1, "é", "\u2028",
    "a" * 2000, "\x00", "__proto__", "constructor", " 1", "1.0", "\U0001f600",
)  # fmt: skip
"""Ids that everybody has to carry back as they are."""

UNSURE_IDS: Final[tuple[JSON, ...]] = (
    None, True, False, 1.5, 1.0, [], {}, [1], {"id": 1}, 2**53 + 1, 2**64, 10**30, -(10**40), 1e300,
)  # fmt: skip
"""Ids that are none, or that not everybody can carry."""


def cases(scope: Scope) -> st.SearchStrategy[Case]:
    steps = st.one_of(
        _with_id(scope, SURE_IDS, clear=True),
        _with_id(scope, UNSURE_IDS, clear=False),
        _invalid(),
        _unasked(),
        _notification(),
        _unknown(scope),
        _batch(scope),
        _twice(scope),
    )
    flat = st.lists(steps, min_size=1, max_size=10)
    return flat.map(lambda lists: Case("jsonrpc", tuple(step for some in lists for step in some)))


def _request(scope: Scope, id: JSON, method: str | None = None) -> JSONObject:
    speech = Speech(scope.revision)
    method = method or ("server/discover" if scope.is_modern else "ping")
    message: JSONObject = json.loads(speech.request(1, method))
    message["id"] = id
    return message


def _frame(value: JSON) -> bytes:
    return json.dumps(value, separators=(",", ":")).encode()


@st.composite
def _with_id(draw: Draw, scope: Scope, ids: tuple[JSON, ...], *, clear: bool) -> list[Step]:
    id = draw(st.sampled_from(ids))
    if clear and draw(st.booleans()):
        id = draw(json_text() | st.integers(-(2**53) + 1, 2**53 - 1))
    kind = f"id {json.dumps(id)[:30]}" if not clear else "an id of some kind"
    return [Send(_frame(_request(scope, id)), kind, clear)]


def _invalid() -> st.SearchStrategy[list[Step]]:
    return invalid_envelopes().map(
        lambda damaged: [Send(damaged.line, f"an envelope with a {damaged.kind}")]
    )


def _unasked() -> st.SearchStrategy[list[Step]]:
    """Answers to what nobody asked. Nobody may answer them."""
    return st.one_of(responses(), error_responses()).map(
        lambda message: [Send(encode(message), "an answer that nobody asked for")]
    )


@st.composite
def _notification(draw: Draw) -> list[Step]:
    methods = st.sampled_from(
        ["notifications/harness", "harness/nothing", "notifications/", "notifications/cancelled"]
    )
    params = st.none() | st.dictionaries(json_text(), json_values(3), max_size=3)
    return [Tell(draw(methods), draw(params))]


@st.composite
def _unknown(draw: Draw, scope: Scope) -> list[Step]:
    """Requests of methods that nobody has."""
    method = draw(st.sampled_from(["harness/none", "pingg", "rpc.on", "tools/list/"]))
    return [Send(_frame(_request(scope, draw(st.integers(1, 900)), method)), "no method", True)]


@st.composite
def _batch(draw: Draw, scope: Scope) -> list[Step]:
    """An array. Only one revision has them, and there they may hold what is wrong, too."""
    bad = st.sampled_from([1, None, "x", [], {}, {"jsonrpc": "2.0"}, [{"jsonrpc": "2.0"}]])
    good = st.integers(1, 900).map(lambda id: _request(scope, id))
    note = st.just({"jsonrpc": "2.0", "method": "notifications/harness"})
    items = draw(st.lists(st.one_of(good, good, note, bad), max_size=6))
    return [Send(_frame(items), "a batch")]


@st.composite
def _twice(draw: Draw, scope: Scope) -> list[Step]:
    """The same id twice at the same time, which no client may do."""
    id = draw(st.sampled_from([901, "902"]))
    one = Send(_frame(_request(scope, id, "tools/list")), "an id twice")
    return [one, Send(_frame(_request(scope, id)), "an id twice")]
