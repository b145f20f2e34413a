"""Targets for `mcp_trio.protocol`: what messages mean."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from fuzz.typed import MESSAGE_TYPES, Example, damaged_schemas, nearly_sound, schemas, sound
from mcp_trio.protocol import meta as keys
from mcp_trio.protocol.convert import StructureError, structure, unstructure
from mcp_trio.protocol.correlation import (
    REMEMBERED,
    Answered,
    Asked,
    CancelAsked,
    Correlation,
    Late,
    Progressed,
    Refused,
    Stray,
)
from mcp_trio.protocol.errors import MCPError, UnsupportedProtocolVersion
from mcp_trio.protocol.fit import FitError, fit_params, fit_result
from mcp_trio.protocol.json_schema import InvalidSchema, compile_schema
from mcp_trio.protocol.negotiation import (
    Legacy,
    Modern,
    Retry,
    Unsupported,
    accept_initialize,
    answer_initialize,
    choose_version,
    era_of,
    read_probe,
    read_refusal,
    read_request_meta,
)
from mcp_trio.protocol.negotiation import (
    Refused as RefusedVersion,
)
from mcp_trio.protocol.revisions import LEGACY, MODERN, REVISIONS
from mcp_trio.protocol.schema_bounds import TooComplex, survey
from mcp_trio.testing.strategies import json_objects, json_values, messages, request_ids
from mcp_trio.wire.jsonrpc import ErrorObject, ErrorResponse, Notification, Request, Response

# Conversion -----------------------------------------------------------------------------------


@given(sound())
def test_every_type_reads_and_writes(example: Example) -> None:
    """JSON of a type is read; written it is JSON that reads as the same, and nothing is lost."""
    name, value = example
    cls = MESSAGE_TYPES[name]
    instance = structure(value, cls)
    written = unstructure(instance)
    assert structure(written, cls) == instance
    assert all(key in written or item is None for key, item in value.items())


@given(nearly_sound())
def test_damaged_values_are_refused_by_name(example: Example) -> None:
    """What nearly is of a type is read or refused with a place and a reason, and nothing else."""
    name, value = example
    cls = MESSAGE_TYPES[name]
    try:
        instance = structure(value, cls)
    except StructureError as error:
        assert str(error)
        place = value
        for step in error.path[:-1]:
            place = place[step]
        return
    assert structure(unstructure(instance), cls) == instance


@given(st.sampled_from(sorted(MESSAGE_TYPES)), json_values())
def test_any_json_is_read_or_refused(name: str, value: Any) -> None:
    """JSON that has nothing to do with a type."""
    try:
        structure(value, MESSAGE_TYPES[name])
    except StructureError:
        pass


# Fitting --------------------------------------------------------------------------------------


@given(sound("result"), st.sampled_from(REVISIONS))
def test_results_fit_every_revision(example: Example, version: str) -> None:
    """A result that is fitted is still of its type, fits as it is, and was not changed in place."""
    _check_fit(fit_result, example, version)


@given(sound("params"), st.sampled_from(REVISIONS))
def test_params_fit_every_revision(example: Example, version: str) -> None:
    """The same for what is asked."""
    _check_fit(fit_params, example, version)


def _check_fit(fit: Any, example: Example, version: str) -> None:
    name, value = example
    cls, method = MESSAGE_TYPES[name], name.split(" of ")[1]
    value = unstructure(structure(value, cls))
    before = copy.deepcopy(value)
    try:
        fitted = fit(method, value, version)
    except FitError as error:
        assert version in str(error)
        assert version in LEGACY
        return
    finally:
        assert value == before
    structure(fitted, cls)
    assert fit(method, fitted, version) == fitted
    if version in MODERN:
        assert fitted is value


# Schemas --------------------------------------------------------------------------------------


@given(schemas() | damaged_schemas() | json_objects(), json_values())
def test_schemas_are_bounded_and_judge(schema: Any, value: Any) -> None:
    """A schema is refused by name, or judges any value, the same in short and in detail."""
    if not isinstance(schema, dict):
        return
    try:
        survey(schema)
    except TooComplex:
        with pytest.raises(InvalidSchema):
            compile_schema(schema)
        return
    try:
        validator = compile_schema(schema)
    except InvalidSchema:
        return
    assert validator.is_valid(value) == (not validator.violations(value))


# Negotiation ----------------------------------------------------------------------------------

_VERSIONS = st.lists(st.sampled_from(REVISIONS), unique=True).map(sorted)
_META = st.fixed_dictionaries(
    {},
    optional={
        keys.PROTOCOL_VERSION: st.sampled_from([*REVISIONS, "2099-01-01"]) | json_values(1),
        keys.CLIENT_CAPABILITIES: json_values(3),
        keys.CLIENT_INFO: st.just({"name": "a", "version": "b"}) | json_values(3),
        keys.LOG_LEVEL: st.just("info") | json_values(1),
    },
)


@given(st.fixed_dictionaries({}, optional={"_meta": _META | json_values(2)}), _VERSIONS)
def test_any_meta_is_read_or_refused(params: dict[str, Any], supported: list[str]) -> None:
    """What a modern request says of itself: understood, or answered by an error of the protocol."""
    assert era_of(params) in ("legacy", "modern")
    try:
        meta = read_request_meta(params, supported)
    except MCPError as error:
        assert error.code in (-32602, -32022)
    else:
        assert meta.version in supported
        assert era_of(params) == "modern"


_ERRORS = st.builds(
    MCPError,
    st.sampled_from([-32020, -32021, -32022, -32601, -32602, 1]),
    st.just("no"),
    json_values(2) | st.builds(lambda v: {"supported": v}, json_values(2) | _VERSIONS),
)
_DISCOVERED = st.builds(
    lambda versions, rest: {"supportedVersions": versions, "capabilities": {}, **rest},
    _VERSIONS,
    st.dictionaries(st.sampled_from(["ttlMs", "cacheScope", "capabilities"]), json_values(1)),
)


@given(
    st.none() | json_objects() | _DISCOVERED | _ERRORS,
    st.sampled_from(MODERN),
    _VERSIONS,
    st.booleans(),
)
def test_any_answer_to_a_probe_has_a_verdict(
    answer: Any, requested: str, offers: list[str], retried: bool
) -> None:
    """The client's half is total, and never chooses what was not offered."""
    verdict = read_probe(answer, requested=requested, offers=offers, retried=retried)
    match verdict:
        case Modern(version) | Retry(version):
            assert version in offers
            assert version in MODERN
            assert not (isinstance(verdict, Retry) and retried)
        case Legacy():
            assert any(version in LEGACY for version in offers)
        case Unsupported() | RefusedVersion():
            pass


@given(_VERSIONS.filter(bool), _VERSIONS.filter(bool))
def test_two_peers_find_what_they_have_in_common(offers: list[str], supported: list[str]) -> None:
    """The two halves against each other: the newest modern revision, else the newest legacy one
    of the client that the server speaks too; nothing only where there is nothing in common, or
    where a legacy client would have to ask for a second revision, which the protocol has not.
    """
    common = choose_version(offers, supported)
    modern = [version for version in offers if version in MODERN]
    legacy = [version for version in offers if version in LEGACY]
    found = None
    if modern:
        found = _probe(modern[-1], offers, supported)
    if found is None and legacy:
        found = _initialize(legacy, supported)
    if common in MODERN or common == (legacy[-1] if legacy else None):
        assert found == common
    elif common is None:
        assert found is None
    else:
        assert found is None or found in supported


def _probe(requested: str, offers: list[str], supported: list[str]) -> str | None:
    if not any(version in MODERN for version in supported):
        answer: Any = MCPError(-32601, "Method not found")
    else:
        answer = {"supportedVersions": supported, "capabilities": {}}
    verdict = read_probe(answer, requested=requested, offers=offers, retried=False)
    return verdict.version if isinstance(verdict, Modern) else None


def _initialize(legacy: list[str], supported: list[str]) -> str | None:
    try:
        answered = answer_initialize(legacy[-1], supported)
        return accept_initialize(answered, requested=legacy[-1], offers=legacy)
    except MCPError as error:
        refusal = read_refusal(error, requested=legacy[-1], offers=(), retried=True)
        assert isinstance(refusal, Unsupported)
        return None
    except UnsupportedProtocolVersion:
        return None


# Correlation ----------------------------------------------------------------------------------


class TwoPeers(RuleBasedStateMachine):
    """Two correlations, and between them a wire that loses, repeats and reorders; a plain list of
    who asked what is the model."""

    def __init__(self) -> None:
        super().__init__()
        self.ends = [Correlation(max_in_flight=4), Correlation(max_in_flight=4)]
        self.wires: list[list[Any]] = [[], []]  # what is on its way to end 0, and to end 1
        self.open: list[set[Any]] = [set(), set()]  # requests of end n that have no answer yet
        self.given_up: list[list[Any]] = [[], []]
        self.serving: list[set[Any]] = [set(), set()]  # what end n works on

    @rule(end=st.integers(0, 1), endable=st.booleans())
    def ask(self, end: int, endable: bool) -> None:
        id = self.ends[end].open_outgoing(endable=endable)
        assert id not in self.open[end]
        self.open[end].add(id)
        self.wires[1 - end].append(Request(id, "x"))

    @rule(end=st.integers(0, 1), data=st.data())
    def give_up(self, end: int, data: st.DataObject) -> None:
        if self.open[end]:
            id = data.draw(st.sampled_from(sorted(self.open[end])))
            assert self.ends[end].abandon_outgoing(id)
            self.open[end].discard(id)
            self.given_up[end] = [*self.given_up[end], id][-REMEMBERED:]
            cancelled = Notification("notifications/cancelled", {"requestId": id})
            self.wires[1 - end].append(cancelled)

    @rule(end=st.integers(0, 1), data=st.data(), works=st.booleans())
    def answer(self, end: int, data: st.DataObject, works: bool) -> None:
        if self.serving[end]:
            id = data.draw(st.sampled_from(sorted(self.serving[end], key=repr)))
            assert self.ends[end].close_incoming(id)
            self.serving[end].discard(id)
            error = ErrorResponse(id, ErrorObject(1, "no"))
            self.wires[1 - end].append(Response(id, {"of": id}) if works else error)

    @rule(end=st.integers(0, 1), data=st.data())
    def report(self, end: int, data: st.DataObject) -> None:
        if self.serving[end]:
            id = data.draw(st.sampled_from(sorted(self.serving[end], key=repr)))
            params = {"progressToken": id, "progress": 1}
            self.wires[1 - end].append(Notification("notifications/progress", params))

    @rule(end=st.integers(0, 1), message=messages())
    def say_anything(self, end: int, message: Any) -> None:
        self.wires[end].append(message)

    @rule(end=st.integers(0, 1), data=st.data())
    def lose(self, end: int, data: st.DataObject) -> None:
        self._take(end, data)

    @rule(end=st.integers(0, 1), data=st.data())
    def repeat(self, end: int, data: st.DataObject) -> None:
        message = self._take(end, data)
        if message is not None:
            self.wires[end] += [message, message]

    @rule(end=st.integers(0, 1), data=st.data())
    def deliver(self, end: int, data: st.DataObject) -> None:
        message = self._take(end, data)
        if message is None:
            return
        event = self.ends[end].receive(message)
        match event:
            case Asked(request):
                assert request.id not in self.serving[end]
                assert len(self.serving[end]) < 4
                self.serving[end].add(request.id)
            case Refused(id):
                assert isinstance(message, Request)
                assert id in self.serving[end] or len(self.serving[end]) == 4
            case Answered(id):
                assert id in self.open[end]
                self.open[end].discard(id)
                if isinstance(message, Notification):  # the end of a subscription
                    self.given_up[end] = [*self.given_up[end], id][-REMEMBERED:]
            case Progressed(id):
                assert id in self.open[end]
            case CancelAsked(id):
                assert id in self.serving[end]
            case Late() | Stray():
                if isinstance(message, Response | ErrorResponse):
                    assert message.id not in self.open[end]
                assert not isinstance(message, Request)

    def _take(self, end: int, data: st.DataObject) -> Any:
        if not self.wires[end]:
            return None
        return self.wires[end].pop(data.draw(st.integers(0, len(self.wires[end]) - 1)))

    @invariant()
    def the_tables_are_right(self) -> None:
        for end in (0, 1):
            assert set(self.ends[end].outgoing) == self.open[end]
            assert set(self.ends[end].incoming) == self.serving[end]
            assert len(self.ends[end].incoming) <= 4

    @precondition(lambda self: self.serving[0])
    @rule(id=request_ids())
    def close_what_is_not_open(self, id: Any) -> None:
        if id not in self.serving[0]:
            assert not self.ends[0].close_incoming(id)


TestTwoPeers = TwoPeers.TestCase
