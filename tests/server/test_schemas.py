"""Schemas and structuring of types: what a schema accepts can be structured, and nothing else."""

import collections.abc
import datetime
import enum
import re
import uuid
from dataclasses import dataclass, field
from decimal import Decimal
from pathlib import Path
from typing import (
    Annotated,
    Any,
    Generic,
    Literal,
    NamedTuple,
    NewType,
    NotRequired,
    Required,
    TypedDict,
    TypeVar,
    get_args,
    get_origin,
    is_typeddict,
)

import attrs
import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from typing_extensions import TypeAliasType

from mcp_trio.server.hints import Alias, is_union, unwrap
from mcp_trio.server.jsonable import NotJSONError, to_json
from mcp_trio.server.records import fields_of, is_record
from mcp_trio.server.schemas import InvalidValue, type_schema

T = TypeVar("T")


class Colour(enum.Enum):
    """A colour."""

    RED = "red"
    BLUE = 2


class Level(enum.IntEnum):
    LOW = 1
    HIGH = 2


class Access(enum.Flag):
    READ = 1
    WRITE = 2


class Point(enum.Enum):
    ORIGIN = (0, 0)
    UNIT = (1, 0)


@attrs.frozen
class Day:
    """A day's weather."""

    date: datetime.date
    high: float
    sky: Literal["clear", "cloud"] = "clear"
    _hidden: int = attrs.field(default=0, alias="hidden")


@attrs.frozen
class Tree:
    value: int
    children: "tuple[Tree, ...]" = ()
    parent: "Tree | None" = None


@dataclass(frozen=True)
class Stop:
    kind: Literal["stop"]
    at: Annotated[str, Alias("from"), "Where", msgspec.Meta(min_length=1)]
    tags: frozenset[str] = frozenset()
    notes: list[str] = field(default_factory=list, compare=False, hash=False)


@dataclass(frozen=True)
class Leg:
    kind: Literal["leg"]
    length: Annotated[float, msgspec.Meta(ge=0)]


class Options(TypedDict, total=False):
    name: Required[str]
    size: int


class More(Options):
    ready: bool
    extra: NotRequired[None]


class Pair(NamedTuple):
    left: int
    right: "str | datetime.date" = "x"


class Coordinates(msgspec.Struct, frozen=True, rename="camel"):
    how_high: float
    how_deep: int | None = None


@attrs.frozen
class Box(Generic[T]):
    content: T


UserId = NewType("UserId", int)
Json = TypeAliasType("Json", "dict[str, Json] | list[Json] | str | int | bool | None")
Names = TypeAliasType("Names", list[str])

HINTS: list[Any] = [
    str, int, float, bool, None, bytes, uuid.UUID, Decimal, Path, Any, object,
    datetime.datetime, datetime.date, datetime.time, datetime.timedelta,
    Colour, Level, Point, Literal["a", 1, None], Literal[True], UserId, Names,
    list[int], collections.abc.Sequence[float], tuple[int, str], tuple[bool, ...], set[int],
    frozenset[str], dict[str, int], dict[int, bool], dict[datetime.date, str],
    collections.abc.Mapping[Literal["x", "y"], list[str]],
    int | None, str | datetime.date, int | str, float | int, bool | int, Decimal | str,
    list[int] | dict[str, int], Stop | Leg, Day | Options | None, Tree | list[Tree],
    Day, Tree, Stop, Leg, Options, More, Pair, Coordinates, Box[int], Box[list[Day]],
    set[Pair], list[Colour | None],
    Annotated[int, msgspec.Meta(ge=1, le=7)], Annotated[list[int], msgspec.Meta(max_length=1)],
]  # fmt: skip

WORDS = """a x 1 2.5 01 red ORIGIN aGk= a-_8 2026-12-31 2026-02-30 2026-12-31T10:00:00Z 10:00:00
    24:00:00 2026-12-31T10:00:00 P1D P1Y P9W 12345678-1234-5678-1234-567812345678 é"""
STRINGS = st.sampled_from(["", "\n", *WORDS.split()])
NUMBERS = st.sampled_from([0, 1, 2, -1, 9, 1.0, 2.5, 1e300, 10**25, 10**400])
JUNK = STRINGS | NUMBERS | st.sampled_from([None, True, False, [], {}, [1], {"a": 1}])


def around(schema: dict[str, Any], root: dict[str, Any], depth: int = 0) -> st.SearchStrategy[Any]:
    """JSON values that mostly fit a schema, and that fail to in some one place."""
    if depth > 6 or not schema:
        return JUNK
    if "$ref" in schema:
        target = root["$defs"][schema["$ref"].rpartition("/")[2]]
        return st.deferred(lambda: around(target, root, depth + 1))
    if "anyOf" in schema:
        return st.one_of([around(option, root, depth) for option in schema["anyOf"]])
    if "enum" in schema:
        return st.sampled_from(schema["enum"]) | JUNK
    kind = schema.get("type")
    if kind == "array":
        item = around(schema.get("items", {}), root, depth + 1)
        fixed = [around(inner, root, depth + 1) for inner in schema.get("prefixItems", [])]
        return st.tuples(*fixed).map(list) if fixed else st.lists(item, max_size=2)
    if kind != "object":
        return {"string": STRINGS, "integer": NUMBERS, "number": NUMBERS}.get(
            str(kind), JUNK
        ) | JUNK
    properties = {
        name: around(inner, root, depth + 1) for name, inner in schema.get("properties", {}).items()
    }
    required = {name: properties.pop(name) for name in schema.get("required", [])}
    if "properties" in schema:
        return st.fixed_dictionaries(required, optional={**properties, "unknown": JUNK})
    rest = schema.get("additionalProperties", {})
    return st.dictionaries(STRINGS, around(rest or {}, root, depth + 1), max_size=2)


def belongs(value: Any, hint: Any) -> bool:
    """Whether a value is of a type: an independent judge of what structuring made."""
    hint, _ = unwrap(hint)
    origin, arguments = get_origin(hint), get_args(hint)
    if hint is Any or hint is object:
        return True
    if isinstance(hint, TypeAliasType):
        return belongs(value, hint.__value__)
    if is_union(hint):
        return any(belongs(value, option) for option in arguments)
    if origin is Literal:
        return any(value == option and type(value) is type(option) for option in arguments)
    if is_record(hint):
        cls = origin or hint
        if is_typeddict(cls):
            return isinstance(value, dict) and all(
                belongs(value[f.key], f.hint) if f.key in value else not f.required
                for f in fields_of(hint)
            )
        return isinstance(value, cls) and all(
            belongs(getattr(value, f.attribute), f.hint) for f in fields_of(hint)
        )
    if origin is tuple and arguments[-1] is not ...:
        return isinstance(value, tuple) and all(map(belongs, value, arguments))
    if origin in (dict, collections.abc.Mapping):
        return all(belongs(k, arguments[0]) and belongs(v, arguments[1]) for k, v in value.items())
    if origin is not None:
        return isinstance(value, origin) and all(belongs(item, arguments[0]) for item in value)
    if hint in (int, bool, str):
        return type(value) is hint
    if hint is float:  # an integer that no float can hold stays one
        return type(value) in (int, float)
    return value is None if hint is None else isinstance(value, hint)


@pytest.mark.parametrize("hint", HINTS, ids=str)
def test_what_the_schema_accepts_structures(hint: Any) -> None:
    """And what is made is of the type, and is written so that it can be read again."""
    schema = type_schema(hint)

    @settings(max_examples=30, suppress_health_check=[HealthCheck.too_slow])
    @given(around(schema.schema, schema.schema) | JUNK)
    def check(value: Any) -> None:
        if not schema.validator.is_valid(value):
            with pytest.raises(InvalidValue):
                schema.structure(value)
            return
        made = schema.structure(value)
        assert belongs(made, hint)
        assert schema.structure(to_json(made)) == made

    check()


AWARE = st.datetimes(timezones=st.just(datetime.UTC))
TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=5)
DAYS = st.builds(Day, st.dates(), st.floats(allow_nan=False, allow_infinity=False))
INSTANCES: list[tuple[Any, st.SearchStrategy[Any]]] = [
    (str, TEXTS),
    (int, st.integers()),
    (float, st.floats(allow_nan=False, allow_infinity=False)),
    (bytes, st.binary(max_size=9)),
    (datetime.datetime, AWARE),
    (datetime.date, st.dates()),
    (datetime.time, st.times()),
    (datetime.timedelta, st.timedeltas()),
    (uuid.UUID, st.uuids()),
    (Decimal, st.decimals(allow_nan=False, allow_infinity=False)),
    (Colour, st.sampled_from(Colour)),
    (Level, st.sampled_from(Level)),
    (Point, st.sampled_from(Point)),
    (str | datetime.date, st.dates()),
    (list[Day], st.lists(DAYS, max_size=3)),
    (set[int], st.sets(st.integers())),
    (dict[int, bytes], st.dictionaries(st.integers(), st.binary(max_size=3), max_size=3)),
    (tuple[int, str], st.tuples(st.integers(), TEXTS)),
    (Pair, st.builds(Pair, st.integers(), st.dates())),
    (Stop, st.builds(Stop, st.just("stop"), TEXTS.filter(bool), st.frozensets(TEXTS))),
    (Stop | Leg, st.builds(Leg, st.just("leg"), st.floats(0, 1e9))),
    (Coordinates, st.builds(Coordinates, st.floats(0, 1), st.none() | st.integers())),
    (Box[bytes], st.builds(Box, st.binary(max_size=3))),
    (More, st.fixed_dictionaries({"name": TEXTS, "ready": st.booleans()})),
    (
        Tree,
        st.recursive(
            st.builds(Tree, st.integers()),
            lambda inner: st.builds(Tree, st.integers(), st.lists(inner, max_size=2).map(tuple)),
            max_leaves=4,
        ),
    ),
]


@pytest.mark.parametrize(("hint", "instances"), INSTANCES, ids=lambda p: str(p)[:40])
def test_values_of_a_type_come_back(hint: Any, instances: st.SearchStrategy[Any]) -> None:
    """Whatever belongs to a type is accepted as it is written, by both of its schemas."""
    schema, written = type_schema(hint), type_schema(hint, mode="output")

    @settings(max_examples=20, suppress_health_check=[HealthCheck.too_slow])
    @given(instances)
    def check(value: Any) -> None:
        plain = to_json(value)
        assert written.validator.violations(plain) == []
        assert schema.structure(plain) == value

    check()


@pytest.mark.parametrize(
    ("hint", "value"),
    [
        (int, "5"), (int, True), (int, 5.5), (int, None), (bool, "false"), (bool, 0), (bool, 1.0),
        (float, "1"), (float, True), (str, 5), (str, None), (None, 0), (None, ""),
        (bytes, "!!"), (bytes, "a"), (datetime.date, "2026-02-30"), (datetime.date, "20261231"),
        (datetime.datetime, "2026-12-31T10:00:00"), (uuid.UUID, "1234"), (Decimal, "1_0"),
        (Decimal, "NaN"), (datetime.timedelta, "P1Y"), (Level, True), (Level, "1"),
        (Literal[1], True), (Literal[True], 1), (list[int], {}), (list[int], "12"),
        (set[int], [1, 1]),
        (tuple[int, int], [1]), (tuple[int, int], [1, 2, 3]), (dict[int, int], {"01": 1}),
        (Day, {"date": "2026-12-31", "high": 1, "low": 1}), (Day, {"high": 1}), (Options, {}),
        (Pair, [1, "x"]), (int | None, "null"), (int | bool, "1"),
        (Tree, {"value": 1, "children": [1]}),
    ],
)  # fmt: skip
def test_nothing_is_coerced(hint: Any, value: Any) -> None:
    """Near misses that a lenient converter would let through."""
    with pytest.raises(InvalidValue):
        type_schema(hint).structure(value)


@pytest.mark.parametrize(
    ("hint", "value", "made"),
    [
        (int, 5.0, 5),
        (int, 10**30, 10**30),
        (float, 10**400, 10**400),
        (bytes, "aGk\r\n=", b"hi"),
        (bytes, "-_8", b"\xfb\xff"),
        (str | datetime.date, "2026-12-31", datetime.date(2026, 12, 31)),
        (str | datetime.date, "soon", "soon"),
        (datetime.timedelta, "P2W", datetime.timedelta(weeks=2)),
        (Point, "UNIT", Point.UNIT),
        (Stop, {"kind": "stop", "from": "Oslo"}, Stop("stop", "Oslo")),
        (Day, {"date": "2026-01-01", "high": 3}, Day(datetime.date(2026, 1, 1), 3.0)),
    ],
)
def test_what_is_accepted(hint: Any, value: Any, made: Any) -> None:
    """Tolerance where it is meant: 5.0, base64 as people have it, names in JSON."""
    structured = type_schema(hint).structure(value)
    assert structured == made
    assert type(structured) is type(made)


@pytest.mark.parametrize(
    ("hint", "schema"),
    [
        (int | None, {"anyOf": [{"type": "integer"}, {"type": "null"}]}),
        (Literal["a", "b"], {"type": "string", "enum": ["a", "b"]}),
        (Literal["a", 1], {"enum": ["a", 1]}),
        (Colour, {"enum": ["red", 2], "description": "A colour."}),
        (Level, {"type": "integer", "enum": [1, 2]}),
        (Point, {"type": "string", "enum": ["ORIGIN", "UNIT"]}),
        (list, {"type": "array"}),
        (dict, {"type": "object"}),
        (dict[str, Any], {"type": "object"}),
        (dict[str, int], {"type": "object", "additionalProperties": {"type": "integer"}}),
        (bytes, {"type": "string", "format": "byte", "contentEncoding": "base64"}),
        (UserId, {"type": "integer"}),
        (Names, {"type": "array", "items": {"type": "string"}}),
        (
            Annotated[int, msgspec.Meta(gt=0, multiple_of=2, title="T", examples=[2]), "even"],
            {
                "type": "integer",
                "exclusiveMinimum": 0,
                "multipleOf": 2,
                "title": "T",
                "examples": [2],
                "description": "even",
            },
        ),
        (
            Annotated[list[str] | None, msgspec.Meta(min_length=1)],
            {
                "anyOf": [{"type": "array", "items": {"type": "string"}}, {"type": "null"}],
                "minItems": 1,
            },
        ),
        (
            Annotated[str, {"x-mcp-header": "Region"}, msgspec.Meta(extra_json_schema={"x-a": 1})],
            {"type": "string", "x-mcp-header": "Region", "x-a": 1},
        ),
        (
            Day,
            {
                "type": "object",
                "description": "A day's weather.",
                "properties": {
                    "date": {"type": "string", "format": "date"},
                    "high": {"type": "number"},
                    "sky": {"type": "string", "enum": ["clear", "cloud"], "default": "clear"},
                    "hidden": {"type": "integer", "default": 0},
                },
                "required": ["date", "high"],
                "additionalProperties": False,
            },
        ),
    ],
)
def test_schemas(hint: Any, schema: dict[str, Any]) -> None:
    """Schemas as models read them: small, flat, with descriptions and defaults."""
    assert type_schema(hint).schema == schema


def test_a_class_that_contains_itself() -> None:
    """Only it has a definition, and the root is no mere reference."""
    schema = type_schema(Tree).schema
    assert schema["type"] == "object"
    assert schema["properties"]["children"]["items"] == {"$ref": "#/$defs/Tree"}
    assert schema["$defs"]["Tree"]["properties"]["parent"]["anyOf"][0] == {"$ref": "#/$defs/Tree"}
    assert "$defs" not in type_schema(list[Day]).schema


def test_two_classes_of_one_name() -> None:
    """Definitions do not overwrite each other."""

    def tree() -> Any:
        @attrs.define
        class Tree:
            inner: Any = ()

        Tree.__annotations__["inner"] = list[Tree]
        return Tree

    pair: Any = tuple.__class_getitem__((Tree, tree()))
    schema = type_schema(pair).schema
    assert sorted(schema["$defs"]) == ["Tree", "Tree2"]


def test_output_describes_what_is_written() -> None:
    """All fields are there and a subclass may add some; defaults do not matter."""
    schema = type_schema(Day, mode="output").schema
    assert schema["required"] == ["date", "high", "sky", "hidden"]
    assert "additionalProperties" not in schema
    assert "default" not in schema["properties"]["sky"]
    assert type_schema(More, mode="output").schema["required"] == ["name", "ready"]


def test_defaults() -> None:
    """A default that JSON has is shown; another only makes the field optional."""

    @attrs.define
    class Defaults:
        shown: Colour = Colour.RED
        empty: list[int] = attrs.field(factory=list)
        when: datetime.datetime = attrs.field(factory=lambda: pytest.fail("called"))
        nan: float = float("nan")
        unset: int = None
        none: int | None = None

    properties = type_schema(Defaults).schema["properties"]
    shown = {name: found["default"] for name, found in properties.items() if "default" in found}
    assert shown == {"shown": "red", "empty": [], "none": None}
    assert "required" not in type_schema(Defaults).schema


@pytest.mark.parametrize(
    ("hint", "complaint"),
    [
        (complex, "there is no JSON Schema for complex"),
        (collections.abc.Callable[[], int], "there is no JSON Schema for"),
        (type[int], "there is no JSON Schema for"),
        (Access, "a flag or an empty enum"),
        (set[list[int]], "not hashable"),
        (set[Any], "not hashable"),
        (dict[float, int], "keys of an object in JSON are strings"),
        (Box[complex], "Box.content: there is no JSON Schema for complex"),
        (Annotated[str, msgspec.Meta(ge=1)], "ge=1 says nothing about string"),
        (Annotated[bytes, msgspec.Meta(min_length=1)], "min_length=1 says nothing"),
    ],
)
def test_types_without_a_schema(hint: Any, complaint: str) -> None:
    """Refused with the name of the culprit, before anybody calls."""
    with pytest.raises(TypeError, match=complaint):
        type_schema(hint)


def test_what_a_constructor_refuses() -> None:
    """A class's own validation is a violation at its place, and keeps its cause."""

    @attrs.frozen
    class Even:
        n: int = attrs.field()

        @n.validator
        def _check(self, _: Any, value: int) -> None:
            if value % 2:
                raise ValueError("it is odd")

    with pytest.raises(InvalidValue, match=re.escape("[1]: Even refuses it: it is odd")) as caught:
        type_schema(list[Even]).structure([{"n": 2}, {"n": 3}])
    assert isinstance(caught.value.__cause__, ValueError)


def test_recursive_aliases() -> None:
    """A PEP 695 alias that names itself has a definition like a class."""
    value = {"a": [1, {"b": None}]}
    if isinstance(Json.__value__, str):
        with pytest.raises(TypeError, match="the type alias Json has to be a type"):
            type_schema(Json)
    else:
        assert type_schema(Json).structure(value) == value


@pytest.mark.parametrize(
    ("value", "plain"),
    [
        ((1, 2), [1, 2]),
        ({"b", "a"}, ["a", "b"]),
        ({1: {Level.HIGH: None}}, {"1": {"2": None}}),
        (
            Day(datetime.date(2026, 1, 1), 1.0),
            {"date": "2026-01-01", "high": 1.0, "sky": "clear", "hidden": 0},
        ),
        (Pair(1), {"left": 1, "right": "x"}),
        (Coordinates(1.0), {"howHigh": 1.0, "howDeep": None}),
        (Path("a/b"), "a/b"),
        (range(3), [0, 1, 2]),
        (Access.READ | Access.WRITE, 3),
    ],
)  # fmt: skip
def test_writing(value: Any, plain: Any) -> None:
    """Python values as JSON, without a schema."""
    assert to_json(value) == plain


@pytest.mark.parametrize(
    ("value", "complaint"),
    [
        ({"a": [1, float("nan")]}, re.escape("a[1]: nan is not in JSON")),
        (Box(float("inf")), "content: inf is not in JSON"),
        ([object()], re.escape("[0]: objects of the class object cannot be written")),
        ({(1, 2): 3}, "is no string"),
        (Decimal("NaN"), "NaN is not in JSON"),
    ],
)
def test_what_json_cannot_say(value: Any, complaint: str) -> None:
    """NaN and strange objects are refused, with their place."""
    with pytest.raises(NotJSONError, match=complaint):
        to_json(value)


def test_naive_times_are_local() -> None:
    """A date-time on the wire always has an offset."""
    assert type_schema(datetime.datetime).structure(to_json(datetime.datetime(2026, 1, 1))).tzinfo
