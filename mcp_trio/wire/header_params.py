"""Arguments of a tool that are repeated in HTTP headers: what its input schema asks for.

A property of an input schema may say ``"x-mcp-header": "Region"``. A client that calls the tool
over HTTP then repeats the argument in the header ``Mcp-Param-Region``, where a load balancer can
read it without the body (MCP 2026-07-28, basic/transports/streamable-http, "Custom Headers from
Tool Parameters", and server/tools, "x-mcp-header").

Such a schema comes from a stranger and decides what headers we send, so the rules are strict and
breaking one makes the whole tool unusable over HTTP. A client has to know where the value stands
by reading the schema alone: on the way from the root there may be only ``properties``, nothing that
depends on the value, such as ``anyOf`` or ``items``, and no ``$ref``. An annotation elsewhere is an
error, so all places where JSON Schema has subschemas are searched for one. What is no subschema is
not: ``x-mcp-header`` is an innocent word in a default value, or as the name of a property.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final, TypeAlias

import attrs

from .jsonrpc import JSON, JSONObject

ANNOTATION: Final = "x-mcp-header"
PARAM_PREFIX: Final = "Mcp-Param-"

LARGEST_INTEGER: Final = 2**53 - 1
"""The integers from minus this to this are the same to everyone who reads them as a double."""

MAX_PARAMS: Final = 256
"""How many annotations one schema may hold. The protocol sets no bound; HTTP servers do."""

MAX_PROBLEMS: Final = 20
"""How many faults of one schema are told."""

_TYPES: Final = ("string", "integer", "boolean")
TOKEN = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")

# Keywords of JSON Schema by what they hold: subschemas by name, or one subschema or a list of them.
# Those of older drafts are among them.
_NAMED: Final = (
    "properties",
    "patternProperties",
    "dependentSchemas",
    "dependencies",
    "$defs",
    "definitions",
)
_ONE_OR_LIST: Final = (
    "allOf",
    "anyOf",
    "oneOf",
    "not",
    "if",
    "then",
    "else",
    "items",
    "prefixItems",
    "additionalItems",
    "unevaluatedItems",
    "contains",
    "additionalProperties",
    "unevaluatedProperties",
    "propertyNames",
    "contentSchema",
)

Path: TypeAlias = tuple[str, ...]


@attrs.frozen
class HeaderParam:
    """An argument that a header repeats.

    `path` are the keys that lead to it from the arguments of a call; `name` is the annotation.
    """

    path: Path
    name: str

    @property
    def header(self) -> str:
        """The name of the header: ``Mcp-Param-Region``."""
        return PARAM_PREFIX + self.name

    def value_in(self, arguments: JSON) -> JSON:
        """The value at `path`; None where there is none, which is to say the same as null."""
        value = arguments
        for key in self.path:
            if not isinstance(value, dict):
                return None
            value = value.get(key)
        return value


@attrs.frozen
class Annotations:
    """What an input schema says about headers.

    `params` in the order of the schema, none of them if there are `problems`; `problems` are
    sentences that name the place, at most MAX_PROBLEMS of them.
    """

    params: tuple[HeaderParam, ...] = ()
    problems: tuple[str, ...] = ()


def read_annotations(input_schema: JSON) -> Annotations:
    """Find and check each ``x-mcp-header`` in the input schema of a tool. Never raises.

    A client leaves a tool with `problems` out of its list and says why; a server refuses to
    register it.
    """
    params: dict[str, HeaderParam] = {}
    problems: list[str] = []
    for place in _subschemas(input_schema):
        if ANNOTATION not in place.schema:
            continue
        name = place.schema[ANNOTATION]
        if problem := _problem(place) or _excess(name, params):
            problems.append(f"{_clipped(place.pointer())}: {problem}")
        else:
            params[name.lower()] = HeaderParam(place.path(), name)
        if len(problems) == MAX_PROBLEMS:
            break
    return Annotations((), tuple(problems)) if problems else Annotations(tuple(params.values()))


def _problem(place: _Place) -> str | None:
    """What is wrong with one annotation, taken for itself."""
    name = place.schema[ANNOTATION]
    if not place.reached or place.parent is None:
        return f"{ANNOTATION} is allowed only on properties that are reached through properties"
    if not isinstance(name, str):
        return f"{ANNOTATION} has to be a string"
    if not TOKEN.fullmatch(name):
        return f"{ANNOTATION} has to be the end of a header name, not {_clipped(repr(name))}"
    if place.schema.get("type") not in _TYPES:
        return f'{ANNOTATION} needs a property whose "type" is one of {", ".join(_TYPES)}'
    if any(map(out_of_range, _values_named(place.schema))):
        return f"{ANNOTATION} allows integers of at most {LARGEST_INTEGER} either way"
    return None


def _excess(name: str, params: dict[str, HeaderParam]) -> str | None:
    """What is wrong with one more annotation beside the others."""
    if name.lower() in params:
        return f"{ANNOTATION} {_clipped(name)} stands twice (capitals do not count)"
    return (
        f"{ANNOTATION} stands more than {MAX_PARAMS} times" if len(params) == MAX_PARAMS else None
    )


def out_of_range(value: JSON) -> bool:
    """Whether it is an integer that a header may not carry, 1e300 (no fraction) included."""
    is_integer = isinstance(value, int) or (isinstance(value, float) and value.is_integer())
    return is_integer and abs(value) > LARGEST_INTEGER


def _values_named(schema: JSONObject) -> list[JSON]:
    listed = schema.get("enum")
    return [schema.get("const"), schema.get("default"), *(listed if type(listed) is list else [])]


@attrs.frozen
class _Place:
    """A subschema and where it stands: linked, since spelling out each place could cost gigabytes.

    `reached` says that only properties lead to it.
    """

    schema: JSONObject
    parent: _Place | None = None
    keys: Path = ()
    reached: bool = True

    def _trail(self) -> Iterator[str]:
        place: _Place | None = self
        while place is not None:
            yield from reversed(place.keys)
            place = place.parent

    def pointer(self) -> str:
        return "/".join(["#", *reversed(list(self._trail()))])

    def path(self) -> Path:
        """Without the word "properties" before each name."""
        return tuple(reversed(list(self._trail())[::2]))


def _subschemas(root: JSON) -> Iterator[_Place]:
    """Each subschema in order. Iterative: the depth of a schema must not use up the stack."""
    waiting = [_Place(root)] if isinstance(root, dict) else []
    while waiting:
        place = waiting.pop()
        yield place
        waiting += reversed(list(_children(place)))


def _children(place: _Place) -> Iterator[_Place]:
    for keys, held in _held(place.schema):
        if isinstance(held, dict):
            yield _Place(held, place, keys, place.reached and keys[0] == "properties")


def _held(schema: JSONObject) -> Iterator[tuple[Path, JSON]]:
    for keyword, held in schema.items():
        if keyword in _NAMED and isinstance(held, dict):
            for name, child in held.items():
                yield (keyword, name), child
        elif keyword in _ONE_OR_LIST and isinstance(held, list):
            for index, child in enumerate(held):
                yield (keyword, str(index)), child
        elif keyword in _ONE_OR_LIST:
            yield (keyword,), held


def _clipped(text: str) -> str:
    return text if len(text) <= 100 else f"{text[:100]}..."
