"""What an input schema asks to be repeated in headers: every rule, every place, whatever comes."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mcp_trio.testing.strategies import json_values
from mcp_trio.wire.header_params import (
    LARGEST_INTEGER,
    MAX_PARAMS,
    MAX_PROBLEMS,
    Annotations,
    HeaderParam,
    read_annotations,
)

REGION = {"type": "string", "x-mcp-header": "Region"}


def properties(**schemas: Any) -> dict[str, Any]:
    return {"type": "object", "properties": schemas}


def annotated(name: Any, kind: Any = "string", **more: Any) -> dict[str, Any]:
    return properties(value={"type": kind, "x-mcp-header": name, **more})


def test_annotations_are_found_at_any_depth_in_order() -> None:
    """Properties of properties count, and the path leads to the value in a call's arguments."""
    schema = properties(
        b=properties(properties=properties(x=REGION), y={"type": "integer", "x-mcp-header": "Y"}),
        a={"type": "boolean", "x-mcp-header": "a"},
        plain={"type": "string"},
    )
    found = read_annotations(schema)
    paths = [("b", "properties", "x"), ("b", "y"), ("a",)]
    names = ["Region", "Y", "a"]
    assert found == Annotations(tuple(map(HeaderParam, paths, names)))
    assert [param.header for param in found.params] == ["Mcp-Param-" + name for name in names]


@pytest.mark.parametrize(
    "schema",
    [
        None,
        True,
        [],
        {},
        {"properties": None},
        {"properties": [REGION]},
        {"default": REGION, "examples": [REGION], "const": REGION, "enum": [REGION]},
        properties(**{"x-mcp-header": {"type": "string"}}),
        properties(value={"$ref": "#/$defs/value"}),
        {"unheard-of": REGION},
    ],
)
def test_what_is_no_annotation_is_let_be(schema: Any) -> None:
    """The word in data, as a property's name or in unknown keywords, marks nothing."""
    assert read_annotations(schema) == Annotations()


# Keywords of JSON Schema, of all drafts, by what they hold.
KEYWORDS_OF_ONE = [
    *("not", "if", "then", "else", "contains", "items", "additionalItems", "unevaluatedItems"),
    *("additionalProperties", "unevaluatedProperties", "propertyNames", "contentSchema"),
]
KEYWORDS_OF_LISTS = ["allOf", "anyOf", "oneOf", "prefixItems", "items"]
KEYWORDS_OF_NAMES = [
    "patternProperties",
    "dependentSchemas",
    "dependencies",
    "$defs",
    "definitions",
]


@pytest.mark.parametrize(
    "around",
    [REGION]
    + [{keyword: REGION} for keyword in KEYWORDS_OF_ONE]
    + [{keyword: [True, REGION]} for keyword in KEYWORDS_OF_LISTS]
    + [{keyword: {"name": REGION}} for keyword in KEYWORDS_OF_NAMES],
)
def test_only_properties_may_lead_to_an_annotation(around: dict[str, Any]) -> None:
    """An annotation anywhere else spoils the tool, also with properties before and after it."""
    nested = _with_properties(around)
    schemas = [around, {"allOf": [properties(a=around)]}]
    if around is not REGION:
        schemas += [properties(a=around), properties(good=REGION, a=nested)]
    for schema in schemas:
        found = read_annotations(schema)
        assert found.params == ()
        assert "reached through properties" in found.problems[0]


def _with_properties(value: Any) -> Any:
    """The same place, with the annotation one level of properties further down."""
    if value is REGION:
        return properties(b=REGION)
    if isinstance(value, list):
        return [_with_properties(item) for item in value]
    if isinstance(value, dict):
        return {key: _with_properties(item) for key, item in value.items()}
    return value


@pytest.mark.parametrize(
    ("schema", "problem"),
    [
        (annotated(""), "end of a header name"),
        (annotated("My Region"), "end of a header name"),
        (annotated("Region:"), "end of a header name"),
        (annotated("Région"), "end of a header name"),
        (annotated("Region\t"), "end of a header name"),
        (annotated("Region\n"), "end of a header name"),
        (annotated("Region\r\nX-Forged: 1"), "end of a header name"),
        (annotated("R\x00"), "end of a header name"),
        (annotated("İ"), "end of a header name"),
        (annotated(None), "has to be a string"),
        (annotated(7), "has to be a string"),
        (annotated(["Region"]), "has to be a string"),
        (annotated("R", "number"), "string, integer, boolean"),
        (annotated("R", "null"), "string, integer, boolean"),
        (annotated("R", "object"), "string, integer, boolean"),
        (annotated("R", "array", items={"type": "string"}), "string, integer, boolean"),
        (annotated("R", ["string", "null"]), "string, integer, boolean"),
        (annotated("R", None), "string, integer, boolean"),
        (properties(value={"x-mcp-header": "R", "$ref": "#/$defs/a"}), "string, integer, boolean"),
        (annotated("R", "integer", const=LARGEST_INTEGER + 1), "at most 9007199254740991"),
        (annotated("R", "integer", enum=[1, -(2**53)]), "at most 9007199254740991"),
        (annotated("R", "integer", default=1e300), "at most 9007199254740991"),
        (properties(a=REGION, b=REGION), "stands twice"),
        (properties(a=REGION, b=annotated("rEGION")), "stands twice"),
    ],
)
def test_each_rule(schema: dict[str, Any], problem: str) -> None:
    """One breach of any rule is told with its place, and nothing of the schema is used."""
    found = read_annotations(schema)
    assert found.params == ()
    (told,) = found.problems
    assert problem in told
    assert told.startswith("#/properties/")


@pytest.mark.parametrize("name", ["a", "!#$%&'*+-.^_`|~09AZ", "Method"])
@pytest.mark.parametrize("kind", ["string", "integer", "boolean"])
def test_tokens_and_primitive_types_are_allowed(name: str, kind: str) -> None:
    """All that HTTP allows in a name, and integers up to the largest that everyone agrees on."""
    schema = annotated(name, kind, enum=[LARGEST_INTEGER, -LARGEST_INTEGER, True, "x"])
    assert read_annotations(schema) == Annotations((HeaderParam(("value",), name),))


@pytest.mark.parametrize(
    ("arguments", "value"),
    [
        ({"a": {"b": 1}}, 1),
        ({"a": {"b": False}}, False),
        ({"a": {"b": None}}, None),
        ({"a": {}}, None),
        ({"a": None}, None),
        ({"a": [{"b": 1}]}, None),
        ({"a": "b"}, None),
        ({}, None),
        (None, None),
        ([], None),
    ],
)
def test_values_are_read_at_their_exact_path(arguments: Any, value: Any) -> None:
    """Whatever stands in the way, there is a value at the path or there is none."""
    assert HeaderParam(("a", "b"), "B").value_in(arguments) is value


def test_hostile_schemas_are_bounded() -> None:
    """Depth uses no stack, a long chain of long names no memory, and there is an end to both."""
    deep: dict[str, Any] = properties(**{f"p{number}": REGION for number in range(2000)})
    for _ in range(5000):
        deep = properties(**{"n" * 1000: deep})
    found = read_annotations(deep)
    assert len(found.problems) == MAX_PROBLEMS
    assert all(len(problem) < 300 for problem in found.problems)
    many = {f"p{number}": {"type": "string", "x-mcp-header": f"p{number}"} for number in range(257)}
    (problem,) = read_annotations(properties(**many)).problems
    assert f"more than {MAX_PARAMS} times" in problem


def schemas() -> st.SearchStrategy[Any]:
    keywords = ["x-mcp-header", "type", "properties", "items", "anyOf", "$defs", "enum", "a"]
    leaves = json_values(3) | st.sampled_from(["string", "integer", "Region", "region"])
    return st.recursive(
        leaves,
        lambda inner: (
            st.dictionaries(st.sampled_from(keywords), inner, max_size=4)
            | st.lists(inner, max_size=3)
            | st.builds(lambda name, **s: {**s, "x-mcp-header": name}, leaves, type=leaves)
        ),
        max_leaves=12,
    )


@given(schemas())
@settings(max_examples=150)
def test_any_json_is_read(schema: Any) -> None:
    """Whatever a server lists, reading it returns, and what it returns fits in a header's name."""
    found = read_annotations(schema)
    assert not (found.params and found.problems)
    names = [param.header.lower() for param in found.params]
    assert len(names) == len(set(names))
    assert all(name.isascii() and name.isprintable() and " " not in name for name in names)
