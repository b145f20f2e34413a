"""Strategies from a JSON Schema: values that fit it, and values with one thing wrong.

`hypothesis-jsonschema` does this for older drafts of JSON Schema; this protocol has 2020-12, and
here a value just outside is as welcome as one inside. So what cannot be honoured is left out: a
value that does not fit after all is no mistake of a fuzzer.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, Final

from hypothesis import strategies as st
from hypothesis.errors import InvalidArgument

from mcp_trio.testing.strategies import json_text, json_values
from mcp_trio.wire.jsonrpc import JSON, JSONObject

__all__ = ["changed", "fitting", "near", "odd_values"]

DEEPEST: Final = 6
"""Levels of nesting, and of references, that are followed."""
MOST_ITEMS: Final = 5

_ODD: Final[tuple[JSON, ...]] = (
    None,
    True,
    0,
    -1,
    1.5,
    1e308,
    2**53 + 1,
    2**64,
    -(2**63) - 1,
    10**40,
    "",
    "0",
    "null",
    "\x00",
    "\u2028\u2029\x85",
    "\ufeff",
    "\U0001f600" * 5,
    "../../etc/passwd",
    "%00%2e%2e",
    "'\"`$(:){};--",
    "x" * 5_000,
    [],
    [[]],
    [None, 1, "a", {}],
    {},
    {"": None},
    {"__proto__": {"x": 1}},
    {"constructor": None, "toString": 1},
)


def odd_values() -> st.SearchStrategy[JSON]:
    """Values that programs trip over, and any other."""
    return st.sampled_from(_ODD) | json_values(4)


def fitting(schema: JSONObject) -> st.SearchStrategy[JSON]:
    """Values that fit a schema, as far as it can be honoured."""
    return _Maker(schema).values(schema, 0)


def near(schema: JSONObject) -> st.SearchStrategy[JSON]:
    """Values with one thing changed, so that most of them do not fit."""
    return changed(fitting(schema))


class _Maker:
    """Makes strategies for the parts of one schema.

    Args:
        root: What local references lead into.
    """

    def __init__(self, root: JSONObject) -> None:
        self._root = root

    def values(self, schema: JSON, depth: int) -> st.SearchStrategy[JSON]:
        if not isinstance(schema, dict) or depth > DEEPEST:
            return json_values(2) if schema is not False else st.nothing()
        if isinstance(reference := schema.get("$ref"), str):
            rest = {key: value for key, value in schema.items() if key != "$ref"}
            return self.values({**self._found(reference), **rest}, depth + 1)
        if "const" in schema:
            return st.just(schema["const"])
        if isinstance(choices := schema.get("enum"), list) and choices:
            return st.sampled_from(choices)
        for key in ("anyOf", "oneOf"):
            if isinstance(options := schema.get(key), list) and options:
                rest = {name: value for name, value in schema.items() if name != key}
                merged = [{**rest, **o} if isinstance(o, dict) else rest for o in options]
                return st.one_of(*(self.values(option, depth + 1) for option in merged))
        if isinstance(parts := schema.get("allOf"), list):
            whole = {name: value for name, value in schema.items() if name != "allOf"}
            for part in parts:
                whole.update(part if isinstance(part, dict) else {})
            return self.values(whole, depth + 1)
        return self._typed(schema, depth)

    def _found(self, reference: str) -> JSONObject:
        found: JSON = self._root
        for step in reference.removeprefix("#").split("/")[1:]:
            step = step.replace("~1", "/").replace("~0", "~")
            found = found.get(step) if isinstance(found, dict) else None
        return found if isinstance(found, dict) else {}

    def _typed(self, schema: JSONObject, depth: int) -> st.SearchStrategy[JSON]:
        kinds = schema.get("type")
        if isinstance(kinds, str):
            kinds = [kinds]
        if not isinstance(kinds, list) or not kinds:
            kinds = ["object"] if "properties" in schema else []
        makers: dict[str, Callable[[], st.SearchStrategy[JSON]]] = {
            "object": lambda: self._object(schema, depth),
            "array": lambda: self._array(schema, depth),
            "string": lambda: _string(schema),
            "integer": lambda: _integer(schema),
            "number": lambda: _integer(schema) | _number(schema),
            "boolean": st.booleans,
            "null": st.none,
        }
        made = [makers[kind]() for kind in kinds if kind in makers]
        return st.one_of(*made) if made else json_values(3)

    def _object(self, schema: JSONObject, depth: int) -> st.SearchStrategy[JSON]:
        properties = schema.get("properties")
        properties = properties if isinstance(properties, dict) else {}
        required = schema.get("required")
        needed = (
            [name for name in required if isinstance(name, str)]
            if isinstance(required, list)
            else []
        )
        made = {name: self.values(part, depth + 1) for name, part in properties.items()}
        made = {name: made.get(name, json_values(2)) for name in [*made, *needed]}
        optional = {name: values for name, values in made.items() if name not in needed}
        return st.fixed_dictionaries({name: made[name] for name in needed}, optional=optional)

    def _array(self, schema: JSONObject, depth: int) -> st.SearchStrategy[JSON]:
        least = _whole(schema, "minItems", 0)
        most = max(least, min(_whole(schema, "maxItems", MOST_ITEMS), least + MOST_ITEMS))
        first = schema.get("prefixItems")
        if isinstance(first, list) and first:
            return st.tuples(*(self.values(part, depth + 1) for part in first)).map(list)
        items = self.values(schema.get("items", {}), depth + 1)
        values = st.lists(items, min_size=least, max_size=most)
        if schema.get("uniqueItems") is True:
            values = st.lists(items, min_size=least, max_size=most, unique_by=repr)
        return values


_FORMATS: Final = {
    "date": ("2026-01-31", "0001-01-01", "9999-12-31"),
    "date-time": ("2026-01-31T10:00:00Z", "2026-01-31T10:00:00.123456789+23:59"),
    "time": ("10:00:00Z", "23:59:60Z"),
    "duration": ("PT1H", "P1Y2M3DT4H5M6S"),
    "email": ("user@example.org",),
    "uri": ("https://example.org/", "urn:x:y", "file:///etc/hosts"),
    "uuid": ("00000000-0000-4000-8000-000000000000",),
    "ipv4": ("192.0.2.1",),
    "ipv6": ("2001:db8::1",),
    "hostname": ("example.org",),
}


def _string(schema: JSONObject) -> st.SearchStrategy[JSON]:
    least = _whole(schema, "minLength", 0)
    most = _whole(schema, "maxLength", least + 40)
    if isinstance(known := schema.get("format"), str) and known in _FORMATS:
        return st.sampled_from(_FORMATS[known])
    if isinstance(pattern := schema.get("pattern"), str):
        try:
            return st.from_regex(re.compile(pattern)).filter(
                lambda text: least <= len(text) <= most
            )
        except (re.error, InvalidArgument):
            pass  # a regular expression of another language
    bounded = st.text(
        st.characters(exclude_categories=["Cs"]), min_size=least, max_size=min(most, least + 40)
    )
    if most > 200:
        bounded |= st.integers(200, min(most, 20_000)).map(lambda length: "x" * length)
    return bounded | json_text().filter(lambda text: least <= len(text) <= most)


def _integer(schema: JSONObject) -> st.SearchStrategy[JSON]:
    low, high = _bounds(schema)
    lowest = None if low is None else int(-(-low // 1))
    highest = None if high is None else int(high // 1)
    if lowest is not None and highest is not None and lowest > highest:
        return st.integers()
    edges = [edge for edge in (lowest, highest) if edge is not None]
    step = schema.get("multipleOf")
    values = st.integers(lowest, highest)
    if isinstance(step, int) and step > 0:
        values = st.integers(-1000, 1000).map(lambda number: number * step)
    return values | st.sampled_from(edges) if edges else values


def _number(schema: JSONObject) -> st.SearchStrategy[JSON]:
    low, high = _bounds(schema)
    if low is not None and high is not None and low > high:
        low = high = None
    return st.floats(low, high, allow_nan=False, allow_infinity=False)


def _bounds(schema: JSONObject) -> tuple[float | None, float | None]:
    def bound(inclusive: str, exclusive: str, step: int) -> float | None:
        value: Any = schema.get(inclusive)
        beyond: Any = schema.get(exclusive)
        if _is_number(beyond):
            return float(beyond) + step
        return float(value) if _is_number(value) else None

    return bound("minimum", "exclusiveMinimum", 1), bound("maximum", "exclusiveMaximum", -1)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < 1e300


def _whole(schema: JSONObject, key: str, default: int) -> int:
    value = schema.get(key)
    return value if isinstance(value, int) and not isinstance(value, bool) else default


# One thing wrong --------------------------------------------------------------------------------


@st.composite
def changed(draw: Callable[[st.SearchStrategy[Any]], Any], values: st.SearchStrategy[JSON]) -> JSON:
    """A value with one thing changed: left out, put in, replaced, or pushed over an edge."""
    value = draw(values)
    places = list(_places(value, ()))
    path = draw(st.sampled_from(places))
    return _with_change(draw, value, path)


def _places(value: JSON, path: tuple[str | int, ...]) -> list[tuple[str | int, ...]]:
    found = [path]
    items: list[tuple[str | int, JSON]] = []
    if isinstance(value, dict):
        items = list(value.items())[:20]
    elif isinstance(value, list):
        items = [(number, item) for number, item in enumerate(value[:5])]
    for key, item in items:
        found += _places(item, (*path, key))
    return found


def _with_change(
    draw: Callable[[st.SearchStrategy[Any]], Any], value: JSON, path: tuple[str | int, ...]
) -> JSON:
    if path:
        key, rest = path[0], path[1:]
        copy = value.copy()
        if not rest and isinstance(copy, dict) and draw(st.integers(0, 3)) == 0:
            del copy[key]
        else:
            copy[key] = _with_change(draw, value[key], rest)
        return copy
    if isinstance(value, dict) and draw(st.booleans()):
        return {
            **value,
            draw(st.sampled_from(["", "extra", "__proto__", "_meta", "é"])): draw(odd_values()),
        }
    if isinstance(value, int | float) and not isinstance(value, bool) and draw(st.booleans()):
        return draw(st.sampled_from([value + 1, value - 1, -value, str(value), float(value)]))
    if isinstance(value, str) and draw(st.booleans()):
        return draw(
            st.sampled_from([value + " ", value.upper(), value * 100, [value], value + "\x00"])
        )
    return draw(odd_values())
