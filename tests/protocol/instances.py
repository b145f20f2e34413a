"""Hypothesis strategies: JSON that an official schema accepts, and instances of our types."""

from functools import cache
from types import UnionType
from typing import Any, Literal, Union, get_args, get_origin

import attrs
from hypothesis import strategies as st

from mcp_trio.protocol.convert import constants_of, is_record, wire_name
from mcp_trio.protocol.types.base import Record
from tests.protocol.official import definitions, resolve

texts = st.text(st.characters(codec="utf-8"), max_size=6)
json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(-1e9, 1e9) | texts,
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(texts, inner, max_size=2),
    max_leaves=3,
)
json_objects = st.dictionaries(texts, json_values, max_size=2)
unknown_fields = st.dictionaries(st.just("x-newer"), json_values, max_size=1)


def json_for(schema: dict[str, Any], revision: str) -> st.SearchStrategy[Any]:
    """JSON that ``schema`` accepts, with an unknown field here and there."""
    name = schema.get("$ref", "").rpartition("/")[2]
    if name in ("JSONObject", "JSONValue"):
        return json_objects if name == "JSONObject" else json_values
    schema = resolve(schema, revision)
    if "const" in schema:
        return st.just(schema["const"])
    if "enum" in schema:
        return st.sampled_from(schema["enum"])
    if "anyOf" in schema:
        return st.one_of([json_for(option, revision) for option in schema["anyOf"]])
    kinds = schema.get("type")
    if isinstance(kinds, list):
        return st.one_of([json_for({**schema, "type": kind}, revision) for kind in kinds])
    match kinds:
        case "object":
            return _objects_for(schema, revision)
        case "array":
            return st.lists(json_for(schema["items"], revision), max_size=2)
        case "string":
            return texts
        case "integer":
            return st.integers(schema.get("minimum"), schema.get("maximum"))
        case "number":
            return _numbers_for(schema)
        case "boolean":
            return st.booleans()
        case "null":
            return st.none()
        case _:
            return json_values


def _numbers_for(schema: dict[str, Any]) -> st.SearchStrategy[float]:
    low, high = schema.get("minimum", -1_000_000), schema.get("maximum", 1_000_000)
    return st.integers(low, high) | st.floats(low, high)


def _objects_for(schema: dict[str, Any], revision: str) -> st.SearchStrategy[Any]:
    properties = schema.get("properties", {})
    required = {
        name
        for name, item in properties.items()
        if name in schema.get("required", []) or "const" in item
    }
    values = {name: json_for(item, revision) for name, item in properties.items()}
    known = st.fixed_dictionaries(
        {name: values[name] for name in sorted(required)},
        optional={name: value for name, value in values.items() if name not in required},
    )
    others = schema.get("additionalProperties")
    if isinstance(others, dict) and others:
        more = st.dictionaries(texts.map("x-".__add__), json_for(others, revision), max_size=2)
    else:
        more = unknown_fields
    return st.builds(lambda a, b: {**b, **a}, known, more)


def instances_of(
    cls: type[Record], schema: dict[str, Any], revision: str
) -> st.SearchStrategy[Record]:
    """Instances of ``cls`` whose fields are those that ``schema`` has."""
    schema = resolve(schema, revision)
    properties = schema.get("properties", {})
    known: dict[str, st.SearchStrategy[Any]] = {"extra": unknown_fields}
    for field in attrs.fields(cls):
        key = wire_name(field)
        if field.name != "extra" and key in properties:
            values = values_for(field.type, properties[key], revision)
            required = field.default is attrs.NOTHING or key in schema.get("required", [])
            known[field.name] = values if required else st.just(field.default) | values
    return st.builds(cls, **known)


def values_for(hint: Any, schema: dict[str, Any], revision: str) -> st.SearchStrategy[Any]:
    """Values of a field whose type hint and whose schema these are."""
    if is_record(hint):
        return instances_of(hint, schema, revision)
    origin, arguments = get_origin(hint), get_args(hint)
    schema = schema if "JSON" in schema.get("$ref", "") else resolve(schema, revision)
    if origin in (Union, UnionType):
        return _members_for(arguments, schema, revision)
    if origin is list:
        return st.lists(values_for(arguments[0], schema["items"], revision), max_size=2)
    if origin is dict and arguments[1] is not Any:
        inner = schema["additionalProperties"]
        return st.dictionaries(texts, values_for(arguments[1], inner, revision), max_size=2)
    if origin is Literal:
        return st.sampled_from(arguments)
    return json_for(schema, revision)


def _members_for(
    members: tuple[Any, ...], schema: dict[str, Any], revision: str
) -> st.SearchStrategy[Any]:
    """Of each member of a union the values that one of the schema's options describes."""
    options = list(_flat_options(schema, revision))
    if not any(_holds_records(member) for member in members):
        return json_for(schema, revision)
    strategies = []
    for member in members:
        for option in options:
            if is_record(member) and _describes(option, member):
                strategies.append(instances_of(member, option, revision))
            elif (get_origin(member) is list and option.get("type") == "array") or (
                get_origin(member) is dict and option.get("type") == "object"
            ):
                strategies.append(values_for(member, option, revision))
    return st.one_of(strategies)


def _holds_records(hint: Any) -> bool:
    return is_record(hint) or any(_holds_records(argument) for argument in get_args(hint))


def _flat_options(schema: dict[str, Any], revision: str) -> Any:
    schema = resolve(schema, revision)
    for option in schema.get("anyOf", [schema]):
        option = resolve(option, revision)
        if "anyOf" in option:
            yield from _flat_options(option, revision)
        else:
            yield option


def _describes(schema: dict[str, Any], cls: type[Record]) -> bool:
    """Whether an option of a union is the one that ``cls`` stands for."""
    properties, constants = schema.get("properties", {}), constants_of(cls)
    fields = {wire_name(field): field for field in attrs.fields(cls)}
    needed = {key for key, field in fields.items() if field.default is attrs.NOTHING}
    said = {key: item["const"] for key, item in properties.items() if "const" in item}
    return (
        needed <= properties.keys()
        and set(schema.get("required", [])) <= fields.keys() | constants.keys()
        and all(constants.get(key) == constant for key, constant in said.items())
    )


@cache
def instances(cls: type[Record], definition: str, revision: str) -> st.SearchStrategy[Record]:
    """Instances of ``cls`` that the definition of a revision should accept."""
    return instances_of(cls, definitions(revision)[definition], revision)


@cache
def valid_json(definition: str, revision: str) -> st.SearchStrategy[Any]:
    """JSON that the definition of a revision accepts."""
    return json_for(definitions(revision)[definition], revision)
