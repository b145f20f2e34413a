"""Structured output that is wrapped still satisfies the schema that is wrapped with it."""

from typing import Any

import pytest

from mcp_trio.protocol.wrapping import is_object_schema, wrap_schema, wrap_value
from tests.protocol.official import judge_of

TREE = {
    "$defs": {"tree": {"type": "array", "items": {"$ref": "#/$defs/tree"}}},
    "$ref": "#/$defs/tree",
}
RECURSIVE = {"anyOf": [{"type": "null"}, {"type": "array", "items": {"$ref": "#"}}]}
NAMED = {
    "$id": "urn:x:list",
    "type": "array",
    "items": {"$ref": "#/$defs/n"},
    "$defs": {"n": {"type": "integer"}},
}
INNER = {
    "type": "array",
    "items": {"$id": "urn:x:item", "$ref": "#/$defs/n", "$defs": {"n": {"type": "integer"}}},
}
ANCHORED = {
    "$defs": {"n": {"$anchor": "n", "type": "integer"}},
    "type": "array",
    "items": {"$ref": "#n"},
}
ODD_NAMES = {
    "type": "array",
    "items": {
        "type": "object",
        "properties": {"const": {"$ref": "#/$defs/n"}, "$ref": {"type": "string"}},
        "required": ["const"],
    },
    "$defs": {"n": {"type": "integer"}},
}
PLAIN = {"enum": [{"$ref": "#/$defs/x"}, 1], "default": {"$ref": "#"}}


@pytest.mark.parametrize(
    ("schema", "good", "bad"),
    [
        ({"type": "integer"}, [1], ["a", None]),
        (TREE, [[], [[], [[]]]], [1, [[1]]]),
        (RECURSIVE, [None, [None, [None]]], [1, [[1]]]),
        (NAMED, [[1]], [["a"]]),
        (INNER, [[1]], [["a"]]),
        (ANCHORED, [[1]], [["a"]]),
        (ODD_NAMES, [[{"const": 1, "$ref": "a"}]], [[{"const": "a"}], [{"const": 1, "$ref": 1}]]),
        (PLAIN, [{"$ref": "#/$defs/x"}, 1], [{"$ref": "#/properties/result/$defs/x"}]),
    ],
)
def test_wrapping_keeps_what_a_schema_accepts(
    schema: dict[str, Any], good: list[Any], bad: list[Any]
) -> None:
    """References that point to nothing, or to something else, after the schema has moved."""
    before = judge_of(schema)
    after = judge_of(wrap_schema(schema))
    for value in good:
        assert before.is_valid(value)
        assert after.is_valid(wrap_value(value))
        assert not after.is_valid({})
    for value in bad:
        assert not before.is_valid(value)
        assert not after.is_valid(wrap_value(value))


def test_the_dialect_stays_at_the_root() -> None:
    """``$schema`` counts at the root only, and a peer reads it to know the dialect."""
    draft = "http://json-schema.org/draft-07/schema#"
    schema = {"$schema": draft, "type": "integer"}
    wrapped = wrap_schema(schema)
    assert wrapped["$schema"] == draft
    assert wrapped["properties"] == {"result": {"type": "integer"}}
    assert "$schema" in schema


def test_only_a_stated_object_is_one() -> None:
    """Legacy revisions ask for ``"type": "object"`` itself."""
    assert is_object_schema({"type": "object"})
    assert not is_object_schema({"properties": {}})
    assert not is_object_schema({"type": ["object", "null"]})
