"""Values made from a JSON Schema: one that it accepts, and some just outside it.

    sample(tool["inputSchema"])       {"a": 0, "b": 0}
    outside(tool["inputSchema"])      without a; a of another type; ...

Both are deterministic, so that a finding can be seen again, and both are judged: `sample` gives
only what the schema accepts, `outside` only what it refuses. Where nothing is found, because a
pattern or a condition asks for too much, that is a `NoSample`.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import lru_cache
from itertools import count, islice, product
from typing import Any, Final, Literal, TypeAlias, TypeGuard

import attrs

from mcp_trio.protocol.json_schema import InvalidSchema, Validator, compile_schema
from mcp_trio.wire.jsonrpc import JSON, JSONObject

__all__ = ["NoSample", "Outside", "outside", "sample"]

Kind: TypeAlias = Literal["missing", "type", "bounds", "choice", "unknown"]

MOST_TRIED: Final = 300
"""Values that are tried for one schema."""
MOST_STEPS: Final = 2_000
"""Parts of one schema that are looked at: references in circles have a part for each way round."""
LONGEST: Final = 100_000
"""Characters of a string."""
TOO_MUCH: Final = (RecursionError, OverflowError, MemoryError)
"""What schemas lead to that go round in circles, or ask for what no machine has."""
DEEPEST: Final = 6
"""Levels of nesting, and of references, that are followed."""

WORDS: Final = (
    "example",
    "Example",
    "EXAMPLE",
    "a",
    "A",
    "1",
    "2026-01-31",
    "1.0.0",
    "example-1",
    "a@example.org",
    "https://example.org/",
    "00000000-0000-4000-8000-000000000000",
    "#aabbcc",
    "/",
    "+15550100",
    "",
)
"""Strings that most patterns have a liking for one of."""

FORMATS: Final = {
    "date": "2026-01-31",
    "date-time": "2026-01-31T10:00:00Z",
    "time": "10:00:00Z",
    "duration": "PT1H",
    "email": "user@example.org",
    "idn-email": "user@example.org",
    "hostname": "example.org",
    "ipv4": "192.0.2.1",
    "ipv6": "2001:db8::1",
    "uri": "https://example.org/",
    "url": "https://example.org/",
    "uri-reference": "/example",
    "iri": "https://example.org/",
    "uuid": "00000000-0000-4000-8000-000000000000",
    "byte": "ZXhhbXBsZQ==",
    "regex": "a+",
    "json-pointer": "/a",
}

STRANGERS: Final[tuple[JSON, ...]] = ({"harness": ["x"]}, ["harness", {}], "harness", 0.5, None)
"""Values of which each type refuses one that nothing could be coerced from."""


class NoSample(ValueError):
    """No value was found that the schema accepts."""


@attrs.frozen
class Outside:
    """A value that a schema refuses, and in what it differs from one that it accepts.

    Attributes:
        kind: What is wrong with it: a required property is missing, something is of another type,
            beyond its bounds or none of its choices, or has a name that is not known.
        words: The same for people, with the name of the property.
    """

    kind: Kind
    words: str
    value: JSON


def sample(schema: JSONObject) -> JSON:
    """A value that the schema accepts: with what is required, and nothing else if that will do.

    Raises:
        NoSample: The schema accepts nothing, is not valid, or asks for more than is tried.
    """
    # Checks ask for the same few schemas again and again, and compiling one takes milliseconds.
    text = _sample(json.dumps(schema, sort_keys=True))
    if text is None:
        raise NoSample("found no value that the schema accepts")
    found: JSON = json.loads(text)
    return found


@lru_cache(maxsize=512)
def _sample(text: str) -> str | None:
    schema = json.loads(text)
    validator = _compiled(schema)
    try:
        for value in islice(_Maker(schema).values(schema), MOST_TRIED):
            if validator.is_valid(value):
                return json.dumps(value)
    except TOO_MUCH:
        return None
    return None


def outside(schema: JSONObject) -> list[Outside]:
    """Values that the schema of an object refuses, each in one way.

    Raises:
        NoSample: No value that it accepts was found, so that none can be changed.
    """
    validator, base = _compiled(schema), sample(schema)
    if not isinstance(base, dict):
        raise NoSample("the schema accepts something else than objects")
    try:
        return [found for found in _changed(schema, base) if not validator.is_valid(found.value)]
    except TOO_MUCH:
        raise NoSample("the schema asks for more than is tried") from None


def _compiled(schema: JSONObject) -> Validator:
    try:
        return compile_schema(schema, formats={})
    except InvalidSchema as exc:
        raise NoSample(str(exc)) from None


# Inside ---------------------------------------------------------------------------------------


@attrs.frozen
class _Maker:
    """Makes values for the parts of one schema, the best guesses first."""

    root: JSONObject
    _steps: Iterator[int] = attrs.field(factory=count, repr=False)

    def values(self, schema: JSON, depth: int = 0) -> Iterator[JSON]:
        if schema is False or depth > DEEPEST or next(self._steps) > MOST_STEPS:
            return
        if not isinstance(schema, dict):
            yield "example"
            return
        schema = self.plain(schema, depth)
        for key in ("anyOf", "oneOf"):
            if isinstance(schema.get(key), list):
                rest = {name: value for name, value in schema.items() if name != key}
                for branch in schema[key]:
                    yield from self.values(_merged(rest, branch), depth + 1)
                return
        yield from self.named(schema)
        types = schema.get("type") or _guessed(schema)
        for name in types if isinstance(types, list) else [types]:
            yield from self.of_type(name, schema, depth)

    def plain(self, schema: JSONObject, depth: int) -> JSONObject:
        """The schema with what it refers to, and all that must hold of it at once, in one."""
        for _ in range(DEEPEST):
            reference, parts = schema.get("$ref"), schema.get("allOf")
            if isinstance(reference, str):
                rest = {key: value for key, value in schema.items() if key != "$ref"}
                schema = _merged(rest, _found(self.root, reference))
            elif isinstance(parts, list):
                rest = {key: value for key, value in schema.items() if key != "allOf"}
                for part in parts:
                    rest = _merged(rest, self.plain(part, depth) if isinstance(part, dict) else {})
                schema = rest
            else:
                break
        return schema

    def named(self, schema: JSONObject) -> Iterator[JSON]:
        """The values that the schema itself names."""
        for key in ("const", "default"):
            if key in schema:
                yield schema[key]
        for key in ("enum", "examples"):
            if isinstance(schema.get(key), list):
                yield from schema[key]

    def of_type(self, name: JSON, schema: JSONObject, depth: int) -> Iterator[JSON]:
        match name:
            case "string":
                yield from _strings(schema)
            case "integer" | "number":
                yield from _numbers(schema)
            case "boolean":
                yield from (False, True)
            case "null":
                yield None
            case "array":
                yield from self.arrays(schema, depth)
            case "object":
                yield from self.objects(schema, depth)

    def arrays(self, schema: JSONObject, depth: int) -> Iterator[list[JSON]]:
        first = schema.get("prefixItems")
        first = first if isinstance(first, list) else []
        least = max(_integer(schema, "minItems", 0), len(first))
        rest = list(islice(self.fitting(schema.get("items", True), depth), 8)) or ["example"]
        start = [next(self.fitting(item, depth), None) for item in first]
        for more in (0, 1):
            missing = least - len(start) + more
            yield start + [rest[index % len(rest)] for index in range(min(missing, 50))]

    def objects(self, schema: JSONObject, depth: int) -> Iterator[JSONObject]:
        properties = schema.get("properties")
        properties = properties if isinstance(properties, dict) else {}
        listed = schema.get("required")
        required = [name for name in listed if isinstance(name, str)] if listed else []
        for names in (required, list(dict.fromkeys([*required, *properties]))):
            choices = [
                list(islice(self.fitting(properties.get(name, True), depth), 3)) for name in names
            ]
            for chosen in islice(product(*choices), 20):
                yield dict(zip(names, chosen, strict=True))
        least = _integer(schema, "minProperties", 0)
        yield {f"example{index}": "example" for index in range(min(least, 20))}

    def fitting(self, schema: JSON, depth: int) -> Iterator[JSON]:
        """Values for a part of the root that the part accepts, as far as it can be asked alone."""
        judge = self._judge(schema)
        for value in islice(self.values(schema, depth + 1), MOST_TRIED):
            if judge is None or judge.is_valid(value):
                yield value

    def _judge(self, schema: JSON) -> Validator | None:
        if not isinstance(schema, dict) or next(self._steps) > MOST_STEPS:
            return None
        around: JSONObject = {
            key: self.root[key] for key in ("$defs", "definitions") if key in self.root
        }
        try:
            return compile_schema({**around, **schema}, formats={})
        except InvalidSchema:
            return None


def _merged(one: JSONObject, other: JSON) -> JSONObject:
    """Two schemas that hold at once, in one, as far as samples need it."""
    if not isinstance(other, dict):
        return one
    merged = {**one, **other}
    for key in ("properties", "$defs"):
        if isinstance(one.get(key), dict) and isinstance(other.get(key), dict):
            merged[key] = {**one[key], **other[key]}
    if isinstance(one.get("required"), list) and isinstance(other.get("required"), list):
        merged["required"] = list(dict.fromkeys([*one["required"], *other["required"]]))
    return merged


def _found(root: JSONObject, reference: str) -> JSON:
    """What a reference within the schema leads to; nothing particular if it leads elsewhere."""
    found: Any = root
    if not reference.startswith("#"):
        return {}
    for step in reference[1:].split("/")[1:]:
        step = step.replace("~1", "/").replace("~0", "~")
        if isinstance(found, list) and step.isdecimal() and int(step) < len(found):
            found = found[int(step)]
        else:
            found = found.get(step, {}) if isinstance(found, dict) else {}
    return found


def _guessed(schema: JSONObject) -> list[str]:
    """The types to try where a schema names none."""
    if "properties" in schema or "required" in schema:
        return ["object"]
    if "items" in schema or "prefixItems" in schema:
        return ["array"]
    return ["string", "integer", "object", "array", "boolean", "null"]


def _integer(schema: JSONObject, key: str, default: int) -> int:
    value = schema.get(key)
    return int(value) if isinstance(value, int | float) and not isinstance(value, bool) else default


def _strings(schema: JSONObject) -> Iterator[str]:
    form = schema.get("format")
    least, most = _integer(schema, "minLength", 0), schema.get("maxLength")
    if least > LONGEST:
        return
    words = [*([FORMATS[form]] if form in FORMATS else []), *WORDS]
    for word in words:
        yield word
    for word in words:
        long = word + "a" * (least - len(word))
        yield long[: int(most)] if isinstance(most, int | float) else long
        if word:
            yield (word * (least // len(word) + 1))[: max(least, 1)]


def _numbers(schema: JSONObject) -> Iterator[int | float]:
    step = schema.get("multipleOf")
    bounds = [schema.get(key) for key in ("minimum", "maximum")]
    numbers = [bound for bound in bounds if _is_number(bound)]
    for key, sign in (("exclusiveMinimum", 1), ("exclusiveMaximum", -1)):
        bound = schema.get(key)
        if _is_number(bound):
            numbers += [bound + sign, bound + sign * 0.5]
    for number in (*numbers, 0, 1, 0.5, -1):
        yield number
        if isinstance(number, float) and number.is_integer():
            yield int(number)
        if _is_number(step) and step > 0:
            yield from (number // step * step, (number // step + 1) * step)


def _is_number(value: JSON) -> TypeGuard[int | float]:
    return isinstance(value, int | float) and not isinstance(value, bool)


# Outside --------------------------------------------------------------------------------------


def _changed(schema: JSONObject, base: JSONObject) -> Iterator[Outside]:
    """The base with one change each; some of them may still be accepted."""
    maker = _Maker(schema)
    plain = maker.plain(schema, 0)
    properties = plain.get("properties")
    for name in list(base):
        without = {key: value for key, value in base.items() if key != name}
        yield Outside("missing", f"without {name!r}", without)
    for name, part in properties.items() if isinstance(properties, dict) else ():
        part = maker.plain(part, 0) if isinstance(part, dict) else {}
        judge = maker._judge(part)
        stranger = next((v for v in STRANGERS if judge and not judge.is_valid(v)), STRANGERS[0])
        yield Outside("type", f"{name!r} of another type", {**base, name: stranger})
        for kind, words, value in _beyond(part):
            yield Outside(kind, f"{name!r} {words}", {**base, name: value})
    unknown = {**base, "harness_unknown": "harness"}
    yield Outside("unknown", "with a property that is not known", unknown)


def _beyond(schema: JSONObject) -> Iterator[tuple[Kind, str, JSON]]:
    """Values of the right type that a part refuses all the same."""
    for key, words, step in (
        ("minimum", "below its minimum", -1),
        ("exclusiveMinimum", "below its minimum", 0),
        ("maximum", "above its maximum", 1),
        ("exclusiveMaximum", "above its maximum", 0),
    ):
        if _is_number(schema.get(key)):
            yield "bounds", words, schema[key] + step
    least, most = _integer(schema, "minLength", 0), _integer(schema, "maxLength", -1)
    if 0 < least <= LONGEST:
        yield "bounds", "too short", "a" * (least - 1)
    if 0 <= most < LONGEST:
        yield "bounds", "too long", "a" * (most + 1)
    if isinstance(schema.get("pattern"), str):
        yield "bounds", "against its pattern", "harness \u2028 \x00"
    if isinstance(schema.get("enum"), list):
        yield "choice", "none of its choices", "harness-none-of-these"
    fewest = _integer(schema, "minItems", 0)
    if fewest > 0:
        yield "bounds", "with too few items", []
