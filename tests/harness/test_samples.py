"""Samples of JSON Schemas: what is given as valid is, and what is given as refused is refused."""

from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from mcp_trio.harness.samples import NoSample, outside, sample
from mcp_trio.protocol.json_schema import compile_schema

SCHEMAS: dict[str, tuple[dict[str, Any], Any]] = {
    "nothing required": ({"type": "object", "properties": {"a": {"type": "string"}}}, {}),
    "required only": (
        {"type": "object", "properties": {"a": {"type": "integer"}, "b": {}}, "required": ["a"]},
        {"a": 0},
    ),
    "bounds": ({"type": "integer", "exclusiveMinimum": 3, "multipleOf": 5}, 5),
    "format": ({"type": "string", "format": "date"}, "2026-01-31"),
    "default first": ({"type": "string", "default": "x", "enum": ["y", "x"]}, "x"),
    "array": (
        {"type": "array", "items": {"enum": [1, 2]}, "minItems": 2, "uniqueItems": True},
        [1, 2],
    ),
    "reference": (
        {"$ref": "#/$defs/A", "$defs": {"A": {"type": "object", "required": ["n"]}}},
        {"n": "example"},
    ),
    "all of": (
        {
            "allOf": [{"required": ["a"]}, {"properties": {"a": {"type": "boolean"}}}],
            "type": "object",
        },
        {"a": False},
    ),
    "union": ({"anyOf": [{"type": "null"}, {"type": "string"}]}, None),
    "long": ({"type": "string", "minLength": 12, "maxLength": 12}, "exampleaaaaa"),
}


@pytest.mark.parametrize(("schema", "expected"), SCHEMAS.values(), ids=SCHEMAS)
def test_sample(schema: dict[str, Any], expected: Any) -> None:
    """The first thing that comes to mind is given, and it is the same each time."""
    assert sample(schema) == expected


@pytest.mark.parametrize(
    "schema", [{"not": {}}, {"type": "string", "pattern": "^(ab){7}$"}, {"type": "nonsense"}]
)
def test_no_sample(schema: dict[str, Any]) -> None:
    """Where nothing is found, that is said, instead of giving what the schema refuses."""
    with pytest.raises(NoSample):
        sample(schema)


def schemas() -> st.SearchStrategy[dict[str, Any]]:
    """Schemas of objects, as tools have them."""
    small = st.integers(-3, 3)
    part = st.one_of(
        st.fixed_dictionaries(
            {"type": st.sampled_from(["integer", "number"])},
            optional={"minimum": small, "maximum": small, "exclusiveMinimum": small},
        ),
        st.fixed_dictionaries(
            {"type": st.just("string")}, optional={"minLength": st.integers(0, 9)}
        ),
        st.fixed_dictionaries({"enum": st.lists(st.sampled_from(["", "x", "no"]), min_size=1)}),
        st.just({"type": "array", "items": {"type": "boolean"}}),
    )
    return st.dictionaries(st.sampled_from("abcd"), part).flatmap(
        lambda properties: st.fixed_dictionaries(
            {
                "type": st.just("object"),
                "properties": st.just(properties),
                "required": st.lists(st.sampled_from(sorted(properties) or ["z"]), unique=True),
            },
            optional={"additionalProperties": st.booleans()},
        )
    )


@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(schemas())
def test_both_sides(schema: dict[str, Any]) -> None:
    """Inside is accepted and outside is refused, by the validator that servers use, too."""
    validator = compile_schema(schema)
    try:
        inside = sample(schema)
    except NoSample:
        return
    assert validator.is_valid(inside)
    for found in outside(schema):
        assert not validator.is_valid(found.value), found
    kinds = {found.kind for found in outside(schema)}
    assert ("missing" in kinds) == bool(schema["required"])
    assert ("unknown" in kinds) == (schema.get("additionalProperties") is False)
