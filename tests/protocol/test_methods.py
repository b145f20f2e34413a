"""The method table against the official schemas."""

import subprocess
import sys
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings

from mcp_trio.protocol.convert import unstructure
from mcp_trio.protocol.methods import METHODS, Method, Side, find_method
from mcp_trio.protocol.revisions import FEATURES, LATEST, REVISIONS
from tests.protocol.instances import values_for
from tests.protocol.official import complaints, definitions, needs_schemas, resolve

SIDES: tuple[Side, ...] = ("client", "server")
SENT = [
    (name, version)
    for name, row in METHODS.items()
    for version in REVISIONS
    if version in row.revisions
]


def methods_in(union: str, version: str) -> set[str]:
    """The methods of a union of messages."""
    union_of = definitions(version).get(union, {"anyOf": []})
    options = [resolve(option, version) for option in union_of.get("anyOf", [union_of])]
    return {option["properties"]["method"]["const"] for option in options}


def definition_of(method: str, version: str) -> str:
    """The name of the definition of one method's messages."""
    for name, definition in definitions(version).items():
        if definition.get("properties", {}).get("method", {}).get("const") == method:
            return name
    raise AssertionError(f"{version} has no {method}")


@needs_schemas
@pytest.mark.parametrize("version", REVISIONS)
@pytest.mark.parametrize("side", SIDES)
@pytest.mark.parametrize("kind", ["request", "notification"])
def test_the_table_has_what_the_schemas_have(version: str, side: Side, kind: str) -> None:
    """A method that is missing in a revision or a direction, or one too many."""
    ours = {r.name for r in METHODS.values() if r.kind == kind and r.may_send(side, version)}
    assert ours == methods_in(f"{side.title()}{kind.title()}", version)


@needs_schemas
def test_input_requests_are_those_of_the_schema() -> None:
    """A question that a modern server may not ask, or one that is missing."""
    for version in REVISIONS:
        ours = {row.name for row in METHODS.values() if version in row.input_request}
        assert ours == methods_in("InputRequest", version)


@needs_schemas
@pytest.mark.parametrize(("name", "version"), SENT)
def test_messages_are_valid(name: str, version: str) -> None:
    """Parameters of the wrong type for their method."""
    row, definition = METHODS[name], definition_of(name, version)
    schema = definitions(version)[definition]["properties"]["params"]

    @settings(max_examples=4, deadline=None, database=None, suppress_health_check=list(HealthCheck))
    @given(values_for(row.params_type(), schema, version))
    def judge(params: Any) -> None:
        message = {"jsonrpc": "2.0", "method": name, "params": unstructure(params)}
        if row.kind == "request":
            message["id"] = 1
        assert complaints(message, definition, version) == [], message

    judge()


@needs_schemas
@pytest.mark.parametrize("row", METHODS.values(), ids=METHODS)
def test_results_are_those_of_the_schema(row: Method) -> None:
    """A method whose result, cache hints, pages or right to ask are not the schema's."""
    if row.kind == "notification":
        assert row.result_type() is None
        return
    assert row.result is not None
    result = row.result.partition(":")[2]
    for version in row.revisions:
        definition = resolve(definitions(version)[result], version)
        properties = definition.get("properties", {})
        paged = row.items is not None
        assert ("nextCursor" in properties) is paged
        assert not paged or properties[row.items]["type"] == "array"
        if version == LATEST:
            assert ("ttlMs" in properties) is row.cacheable
            response = definitions(version).get(f"{result}Response", {})
            assert ("InputRequiredResult" in str(response)) is row.may_ask


def test_capabilities_are_paths_into_the_types() -> None:
    """A capability that nobody can declare."""
    from mcp_trio.protocol.types import ClientCapabilities, ServerCapabilities

    declared = {"client": ClientCapabilities, "server": ServerCapabilities}
    for row in METHODS.values():
        if row.capability is None:
            continue
        holders = [s for s in SIDES if (s in row.senders) == (row.kind == "notification")]
        top = row.capability.partition(".")[0]
        for side in holders or SIDES:
            assert top in declared[side].__annotations__, row.name


def test_rows_refer_to_rows() -> None:
    """A typo in what a notification makes stale, or in a feature."""
    for row in METHODS.values():
        assert all(METHODS[name].cacheable for name in row.stale)
        assert row.capability_feature is None or row.capability_feature in FEATURES
        assert row.revisions


def test_completion_needed_no_capability_at_first() -> None:
    """A 2024-11-05 server that completes without having declared it."""
    row = METHODS["completion/complete"]
    assert row.needs("2024-11-05") is None
    assert row.needs("2025-03-26") == "completions"


def test_a_method_is_found_in_its_revisions_and_directions() -> None:
    """``ping`` with modern ``_meta`` is an unknown method; a client never asks for its roots."""
    assert find_method("ping", "client", "2025-11-25") is METHODS["ping"]
    assert find_method("ping", "client", LATEST) is None
    assert find_method("roots/list", "client", "2025-11-25") is None
    assert find_method("roots/list", "server", LATEST) is None
    assert find_method("acme/x", "client", LATEST) is None
    assert METHODS["ping"].senders == {"client", "server"}


def test_the_table_loads_no_types() -> None:
    """Types load by feature; the table alone must stay cheap."""
    code = (
        "import sys, mcp_trio.protocol.methods;"
        "bad = [m for m in sys.modules if m.startswith('mcp_trio.protocol.types')"
        " or m in ('attrs', 'cattrs', 'trio')]; sys.exit(str(bad) if bad else 0)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
