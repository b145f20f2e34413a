"""Hypothesis strategies for the types of the protocol: JSON that fits a type, and nearly fits."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from random import Random
from types import NoneType, UnionType
from typing import Any, Literal, Union, get_args, get_origin

import attrs
from hypothesis import strategies as st

from fuzz.mutation import mutate_json
from mcp_trio.protocol.convert import constants_of, is_record, wire_name
from mcp_trio.protocol.methods import METHODS
from mcp_trio.testing.strategies import json_text, json_values

_SCALARS: dict[Any, st.SearchStrategy[Any]] = {
    str: json_text(),
    bool: st.booleans(),
    int: st.integers(),
    float: st.floats(allow_nan=False, allow_infinity=False) | st.integers(),
    NoneType: st.none(),
}


@cache
def wire_values(hint: Any) -> st.SearchStrategy[Any]:
    """JSON values that fit a type hint of the protocol's types."""
    if hint is Any:
        return json_values(3)
    if hint in _SCALARS:
        return _SCALARS[hint]
    if is_record(hint):
        cls: Any = hint
        return st.deferred(lambda: _objects(cls))
    origin, arguments = get_origin(hint), get_args(hint)
    if origin is Literal:
        return st.sampled_from(arguments)
    if origin in (Union, UnionType):
        return st.one_of([wire_values(member) for member in arguments])
    if origin is list:
        return st.lists(wire_values(arguments[0]), max_size=2)
    if origin is dict:
        return st.dictionaries(json_text(), wire_values(arguments[1]), max_size=2)
    raise TypeError(f"the types of the protocol have no {hint!r} so far")


@cache
def _objects(cls: Any) -> st.SearchStrategy[Any]:
    required: dict[str, st.SearchStrategy[Any]] = {
        key: st.just(constant) for key, constant in constants_of(cls).items()
    }
    optional: dict[str, st.SearchStrategy[Any]] = {"x-newer": json_values(2)}
    for field in attrs.fields(cls):
        if field.name != "extra":
            fields = required if field.default is attrs.NOTHING else optional
            fields[wire_name(field)] = wire_values(field.type)
    return st.fixed_dictionaries(required, optional=optional)


MESSAGE_TYPES: dict[str, Any] = {
    **{f"params of {row.name}": row.params_type() for row in METHODS.values()},
    **{f"result of {row.name}": row.result_type() for row in METHODS.values() if row.result},
}
"""What stands in the messages of the method table, by what it is."""


Draw = Callable[[st.SearchStrategy[Any]], Any]
Example = tuple[str, Any]
"""A key of MESSAGE_TYPES, and JSON."""


@st.composite
def sound(draw: Draw, kind: str = "") -> Example:
    """JSON that fits a type; `kind` says how the keys of the types begin."""
    names = [name for name in sorted(MESSAGE_TYPES) if name.startswith(kind)]
    name = draw(st.sampled_from(names))
    return name, draw(wire_values(MESSAGE_TYPES[name]))


@st.composite
def nearly_sound(draw: Draw) -> Example:
    """JSON that fitted a type before it was changed in one to three places."""
    name, value = draw(sound())
    return name, damage(value, draw(st.integers(0, 2**32)), draw(st.integers(1, 3)))


def damage(value: Any, seed: int, times: int) -> Any:
    """A JSON value, changed in some places."""
    holder = mutate_json(Random(seed), {"it": value}, times=times)
    return holder.get("it")


# Schemas --------------------------------------------------------------------------------------

_NAMES = st.sampled_from(["a", "b", "$defs", "x-mcp-header", "type"])
_REFERENCES = st.sampled_from(
    [
        "#",
        "",
        "#/$defs/a",
        "#/$defs/b",
        "#/properties/a",
        "#/allOf/0",
        "#a",
        "#/%",
        "a",
        "#/allOf/x",
    ]
)


def _schemas_of(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    several = st.lists(inner, max_size=3)
    named = st.dictionaries(_NAMES, inner, max_size=3)
    return st.fixed_dictionaries(
        {},
        optional={
            "type": st.sampled_from(["object", "array", "string", "integer", ["null", "number"]]),
            "properties": named,
            "patternProperties": st.dictionaries(st.sampled_from(["a", "^b", "."]), inner),
            "additionalProperties": inner,
            "required": st.lists(_NAMES, max_size=2, unique=True),
            "items": inner,
            "prefixItems": st.lists(inner, min_size=1, max_size=2),
            "contains": inner,
            "allOf": several,
            "anyOf": several,
            "oneOf": several,
            "not": inner,
            "if": inner,
            "then": inner,
            "dependentSchemas": named,
            "unevaluatedProperties": inner,
            "$defs": named,
            "$ref": _REFERENCES,
            "$anchor": st.sampled_from(["a", "b"]),
            "x-mcp-header": st.sampled_from(["A", "a", "b c", ""]),
            "enum": st.lists(json_values(1), max_size=2),
            "minimum": st.integers(),
            "pattern": st.sampled_from(["a", "(", "(a+)+$"]),
            "$schema": st.sampled_from(["http://json-schema.org/draft-07/schema#", "x", 1]),
        },
    )


@cache
def schemas() -> st.SearchStrategy[Any]:
    """JSON Schemas, sound and odd: with references in circles, anchors, and every combination."""
    leaves = st.sampled_from([True, False, {}, {"type": "string"}, {"$ref": "#"}])
    return st.recursive(leaves, _schemas_of, max_leaves=12).filter(lambda s: isinstance(s, dict))


@st.composite
def damaged_schemas(draw: Draw) -> Any:
    """Schemas, changed in one to three places."""
    return damage(draw(schemas()), draw(st.integers(0, 2**32)), draw(st.integers(1, 3)))


# Templates ------------------------------------------------------------------------------------

_VARIABLES = st.sampled_from(["a", "b", "c", "a.b", "path", "%41"])
_EXPRESSIONS = st.builds(
    lambda operator, names, suffix: "{" + operator + ",".join(names) + suffix + "}",
    st.sampled_from(["", "+", "#", ".", "/", ";", "?", "&"]),
    st.lists(_VARIABLES, min_size=1, max_size=3),
    st.sampled_from(["", "", "", "*", ":3"]),
)
_LITERALS = st.sampled_from(["a", "/", "demo://", ".", "-", "é", "%2F", "?x=1", "#", "", "~"])


def uri_templates() -> st.SearchStrategy[str]:
    """URI templates of all operators."""
    return st.lists(_LITERALS | _EXPRESSIONS, max_size=6).map("".join)


def template_values() -> st.SearchStrategy[Any]:
    """Values for the variables of `uri_templates`."""
    text = json_text() | st.sampled_from(["x", "x/y", "x.y", "a,b", "%41", "=", "a=b", " "])
    return st.dictionaries(
        _VARIABLES, text | st.lists(text, max_size=3) | st.dictionaries(text, text, max_size=3)
    )
