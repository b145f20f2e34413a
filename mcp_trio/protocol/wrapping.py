"""Structured output that is no object, put into one: ``{"result": value}``.

From 2025-06-18 to 2025-11-25 the structured output of a tool must be a JSON object, and so must
the schema that describes it. Both are wrapped in the same way, so that the value still satisfies
the schema.
"""

from typing import Any, Final

from mcp_trio.wire.jsonrpc import JSON, JSONObject

RESULT: Final = "result"
"""The key of what was wrapped."""

_SCHEMA_MAPS: Final = frozenset(
    ("properties", "patternProperties", "$defs", "definitions", "dependentSchemas")
)
"""Keywords whose value holds schemas under names of the author's choice."""

_PLAIN_VALUES: Final = frozenset(("const", "enum", "default", "examples"))
"""Keywords whose value is JSON of any kind, and no schema even where it looks like one."""


def is_object_schema(schema: JSONObject) -> bool:
    """Whether a schema says at its root that it accepts objects only."""
    return schema.get("type") == "object"


def wrap_value(value: JSON) -> JSONObject:
    """The value, in an object."""
    return {RESULT: value}


def wrap_schema(schema: JSONObject) -> JSONObject:
    """The schema of what `wrap_value` makes of the values that ``schema`` accepts.

    References within the schema go on to mean what they meant: those from the root (``#/$defs/x``)
    are rewritten to the schema's new place.
    """
    inner = schema if "$id" in schema else _moved(schema)
    wrapped: JSONObject = {"type": "object", "properties": {RESULT: inner}, "required": [RESULT]}
    if "$schema" in schema:
        wrapped["$schema"] = schema["$schema"]
        wrapped["properties"] = {RESULT: {k: v for k, v in inner.items() if k != "$schema"}}
    return wrapped


def _moved(schema: Any) -> Any:
    if isinstance(schema, list):
        return [_moved(item) for item in schema]
    if not isinstance(schema, dict) or "$id" in schema:  # an $id makes a root of its own
        return schema
    return {key: _moved_keyword(key, value) for key, value in schema.items()}


def _moved_keyword(key: str, value: Any) -> Any:
    if key in _PLAIN_VALUES:
        return value
    if key in ("$ref", "$dynamicRef") and isinstance(value, str):
        return f"#/properties/{RESULT}{value[1:]}" if value == "#" or value[:2] == "#/" else value
    if key in _SCHEMA_MAPS and isinstance(value, dict):
        return {name: _moved(item) for name, item in value.items()}
    return _moved(value)
