"""Every type against the official schema of every revision that has it."""

import inspect
from importlib import import_module
from typing import Any, get_args

import attrs
import pytest
from hypothesis import HealthCheck, given, settings

from mcp_trio.protocol import types
from mcp_trio.protocol.convert import (
    constants_of,
    is_record,
    structure,
    unstructure,
    wire_name,
)
from mcp_trio.protocol.methods import METHODS
from mcp_trio.protocol.revisions import REVISIONS
from mcp_trio.protocol.types.base import Record
from tests.protocol.instances import instances, valid_json
from tests.protocol.official import (
    ERRATA,
    Erratum,
    complaints,
    definitions,
    judge_of,
    needs_schemas,
    places,
    raw_schema,
    reference,
    resolve,
)

quick = settings(
    max_examples=5, deadline=None, database=None, suppress_health_check=list(HealthCheck)
)


def typed(name: str) -> Any:
    """What this package calls ``name``, or None."""
    return getattr(types, name, None) if name in dir(types) else None


JUDGED = [
    (name, revision)
    for name, revision in places()
    if is_record(typed(name)) and "jsonrpc" not in definitions(revision)[name].get("properties", {})
]
READ = [
    (name, revision)
    for name, revision in places()
    if is_record(typed(name)) or any(is_record(member) for member in get_args(typed(name)))
]

ENVELOPE = "an envelope: wire.jsonrpc has it, and test_methods.py judges what stands inside"
UNION = "a union of messages: test_methods.py compares it with the method table"
ERROR = "an error: test_errors.py judges it"
JSON = "plain JSON: a Python type"
MIXIN = "fields that other types share; no message has it by itself"

NO_CLASS = {
    "Annotated": MIXIN,
    "BaseMetadata": MIXIN,
    "Icons": MIXIN,
    "ClientNotification": UNION,
    "ClientRequest": UNION,
    "ClientResult": UNION,
    "ServerNotification": UNION,
    "ServerRequest": UNION,
    "ServerResult": UNION,
    "Error": ERROR,
    "HeaderMismatchError": ERROR,
    "InternalError": ERROR,
    "InvalidParamsError": ERROR,
    "InvalidRequestError": ERROR,
    "MethodNotFoundError": ERROR,
    "MissingRequiredClientCapabilityError": ERROR,
    "ParseError": ERROR,
    "URLElicitationRequiredError": ERROR,
    "UnsupportedProtocolVersionError": ERROR,
    "JSONArray": JSON,
    "JSONValue": JSON,
    "MetaObject": JSON,
    "ResultType": JSON,
    "JSONRPCBatchRequest": ENVELOPE,
    "JSONRPCBatchResponse": ENVELOPE,
    "JSONRPCError": ENVELOPE,
    "JSONRPCErrorResponse": ENVELOPE,
    "JSONRPCMessage": ENVELOPE,
    "JSONRPCNotification": ENVELOPE,
    "JSONRPCRequest": ENVELOPE,
    "JSONRPCResponse": ENVELOPE,
    "JSONRPCResultResponse": ENVELOPE,
    "Notification": ENVELOPE,
    "PaginatedRequest": ENVELOPE,
    "Request": ENVELOPE,
}
"""Definitions that are no type of ours, and why."""


def is_message(definition: dict[str, Any]) -> bool:
    """Whether a definition is the envelope of one method, or of its response."""
    properties = definition.get("properties", {})
    response = {"id", "jsonrpc", "result"} == properties.keys()
    return response or properties.get("method", {}).get("const") in METHODS


@needs_schemas
def test_every_definition_is_covered() -> None:
    """A type that this package forgot."""
    for name, revision in places():
        excused = name in NO_CLASS or is_message(definitions(revision)[name])
        assert excused or typed(name) is not None, (name, revision)
        assert typed(name) is None or name not in NO_CLASS


@needs_schemas
def test_no_definition_is_excused_in_vain() -> None:
    """A list of excuses that outlives what it excused."""
    assert NO_CLASS.keys() <= {name for name, _ in places()}


@needs_schemas
@pytest.mark.parametrize("erratum", ERRATA, ids=lambda erratum: erratum.name)
def test_errata_are_still_wrong(erratum: Erratum) -> None:
    """An erratum that hides a fault of ours once the schema is mended upstream."""
    for revision in erratum.revisions:
        published = {**raw_schema(revision), "$ref": reference(erratum.definition, revision)}
        assert not judge_of(published).is_valid(erratum.refused), revision
        assert complaints(erratum.refused, erratum.definition, revision) == [], revision


@needs_schemas
@pytest.mark.parametrize(("name", "revision"), JUDGED)
def test_what_we_write_is_valid(name: str, revision: str) -> None:
    """A field with a wrong name, a wrong type, or missing where the revision requires it."""

    @quick
    @given(instances(typed(name), name, revision))
    def judge(instance: Record) -> None:
        written = unstructure(instance)
        assert complaints(written, name, revision) == [], written
        assert structure(written, type(instance)) == instance

    judge()


SAID_IN_PROSE = {"InputRequiredResult": {"resultType": "input_required"}}
"""Constants that a schema leaves open; the type insists on them."""

WRITES_MORE = {("ElicitRequest", "2025-06-18"): "the mode of a form, which `fit_params` removes"}
"""Where a type writes what the message that it was read from left out."""


@needs_schemas
@pytest.mark.parametrize(("name", "revision"), READ)
def test_what_is_valid_we_read_and_write_back(name: str, revision: str) -> None:
    """A valid message that is refused, or that loses something on the way through."""

    @quick
    @given(valid_json(name, revision))
    def judge(value: Any) -> None:
        value |= SAID_IN_PROSE.get(name, {})
        instance = structure(value, typed(name))
        assert unstructure(instance) == value or (name, revision) in WRITES_MORE

    judge()


def unknown_properties(cls: Any, schema: dict[str, Any], revision: str) -> list[str]:
    """The properties of a schema, and of the objects within it, that are no fields of ours."""
    fields = {wire_name(field): field for field in attrs.fields(cls)}
    unknown = []
    for key, item in resolve(schema, revision).get("properties", {}).items():
        hints = [fields[key].type, *get_args(fields[key].type)] if key in fields else []
        if key not in fields and key not in constants_of(cls):
            unknown.append(f"{cls.__name__}.{key}")
        elif len(inner := [hint for hint in hints if is_record(hint)]) == 1:
            unknown += unknown_properties(inner[0], item, revision)
    return unknown


@needs_schemas
def test_every_property_is_a_field() -> None:
    """A field with a misspelt name, whose value would hide in ``extra``."""
    for name, revision in JUDGED:
        assert unknown_properties(typed(name), definitions(revision)[name], revision) == []


@needs_schemas
def test_every_parameter_is_a_field() -> None:
    """The same for parameters that the older revisions define within their messages."""
    for revision in REVISIONS:
        for definition in definitions(revision).values():
            properties = definition.get("properties", {})
            method = METHODS.get(properties.get("method", {}).get("const"))
            if method is not None and len(get_args(method.params_type())) == 0:
                params = properties["params"]
                assert unknown_properties(method.params_type(), params, revision) == []


@needs_schemas
def test_every_field_is_a_property() -> None:
    """A field that no revision has."""
    had: dict[str, set[str]] = {}
    for name, revision in JUDGED:
        schema = resolve(definitions(revision)[name], revision)
        had.setdefault(name, set()).update(schema.get("properties", {}))
    for name, properties in had.items():
        fields = {wire_name(field) for field in attrs.fields(typed(name))}
        in_every_result = {"resultType"}  # legacy results too, for want of a second base class
        assert fields - properties - in_every_result == {"extra"}, name


def test_names_are_those_of_the_modules() -> None:
    """A new type that nobody can import from the package."""
    for module, names in types.NAMES.items():
        loaded = import_module(f"mcp_trio.protocol.types.{module}")
        own = {
            name
            for name, value in vars(loaded).items()
            if inspect.isclass(value) and is_record(value) and value.__module__ == loaded.__name__
        }
        assert own <= set(names.split()), module
        for name in names.split():
            assert getattr(types, name) is getattr(loaded, name)


def test_an_unknown_name_is_an_attribute_error() -> None:
    """hasattr and typos work as on any module."""
    assert not hasattr(types, "Toool")


def test_reprs_show_what_is_set() -> None:
    """Types print readably, without the fields that nobody set."""
    block = types.TextContent("hi", extra={"x": 1})
    assert repr(block) == "TextContent(text='hi', extra={'x': 1})"
    assert repr(types.CallToolResult([])) == "CallToolResult(content=[])"


def test_main_fields_are_positional() -> None:
    """The order in which people write the main fields is an interface."""
    assert types.ElicitResult("accept", {"a": 1}).content == {"a": 1}
    assert types.Tool("add", {"type": "object"}, "Adds.").description == "Adds."
    assert types.ImageContent("aGk=", "image/png").mime_type == "image/png"
    assert types.Resource("memo://1", "memo").uri == "memo://1"
    assert types.Implementation("me", "1").version == "1"
    assert types.CreateMessageResult(types.TextContent("hi"), "model").role == "assistant"


def test_types_are_values() -> None:
    """A result that is shared, as from a cache, must not be changed by one of its readers."""
    block = types.TextContent("hi")
    with pytest.raises(attrs.exceptions.FrozenInstanceError):
        block.text = "ho"  # type: ignore[misc]  # that is the point
    assert attrs.evolve(block, text="ho") == types.TextContent("ho")
