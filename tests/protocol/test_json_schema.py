"""JSON Schema: dialects, references, bounds, and errors that name the field."""

import socket
import time
from pathlib import Path
from typing import Any

import pytest

from mcp_trio.protocol.json_schema import (
    InvalidSchema,
    UnsupportedDialect,
    compile_schema,
)

SELF = {"$ref": "#"}


def told(schema: dict[str, Any], value: Any) -> list[str]:
    return [str(violation) for violation in compile_schema(schema).violations(value)]


def nested(levels: int, leaf: Any) -> Any:
    for _ in range(levels):
        leaf = {"x": leaf}
    return leaf


def doubling(levels: int) -> dict[str, Any]:
    defs: dict[str, Any] = {
        f"a{n}": {"allOf": [{"$ref": f"#/$defs/a{n + 1}"}] * 2} for n in range(levels)
    }
    defs[f"a{levels}"] = {"type": "integer"}
    return {"properties": {"p": {"$ref": "#/$defs/a0"}}, "$defs": defs}


def test_violations_name_the_field() -> None:
    """A model that reads the error can mend its call: field, value and limit are in it."""
    schema = {
        "type": "object",
        "properties": {
            "city": {"type": "string"},
            "days": {"type": "integer", "maximum": 7},
            "route": {"type": "array", "items": {"anyOf": [{"type": "integer"}, {"enum": ["x"]}]}},
        },
        "required": ["city"],
        "additionalProperties": False,
    }
    assert set(told(schema, {"days": 9, "route": [1, "y"], "dys": 1})) == {
        "days: 9 is greater than the maximum of 7",
        'route[1]: "y" is not of type "integer" and "y" is not one of "x"',
        "dys: is not known here",
        "city: is required, and missing",
    }
    assert told(schema, {"city": "Oslo"}) == []
    assert told({"propertyNames": {"pattern": "^a"}}, {"b": 1}) == [
        "b: is no name that may stand here"
    ]


@pytest.mark.parametrize(
    ("value", "fits"),
    [(5, True), (5.0, True), (10**40, True), ("5", False), (True, False), (5.5, False)],
)
def test_integers(value: Any, fits: bool) -> None:
    """ "5" and true are no integers, 5.0 is one, and size does not matter."""
    assert compile_schema({"type": "integer"}).is_valid(value) is fits


def test_big_integers_stay_exact() -> None:
    """Beyond 64 bits, bounds and constants are compared as integers and not as floats."""
    validator = compile_schema({"maximum": 10**30})
    assert validator.is_valid(10**30)
    assert not validator.is_valid(10**30 + 1)


@pytest.mark.parametrize(
    ("dialect", "fits"),
    [
        (None, False),
        ("https://json-schema.org/draft/2020-12/schema", False),
        ("https://json-schema.org/draft/2020-12/schema#", False),
        ("https://json-schema.org/draft/2019-09/schema", True),
        ("http://json-schema.org/draft-07/schema#", True),
        ("https://json-schema.org/draft-07/schema", True),
        ("http://json-schema.org/draft-06/schema#", True),
        ("http://json-schema.org/draft-04/schema#", True),
    ],
)
def test_the_declared_dialect_rules(dialect: str | None, fits: bool) -> None:
    """`prefixItems` means something from 2020-12 on only, which is also the default."""
    schema: dict[str, Any] = {"prefixItems": [{"type": "integer"}]}
    if dialect is not None:
        schema["$schema"] = dialect
    assert compile_schema(schema).is_valid(["x"]) is fits


@pytest.mark.parametrize("declared", ["http://example.com/mine", "", 7, None])
@pytest.mark.parametrize("nested_at", ["#", "#/properties/a"])
def test_an_unknown_dialect_is_refused(declared: Any, nested_at: str) -> None:
    """A schema in another dialect is not read as something it is not, at any depth."""
    schema: dict[str, Any] = {"$schema": declared}
    if nested_at != "#":
        schema = {"properties": {"a": schema}}
    with pytest.raises(UnsupportedDialect, match=f"at {nested_at}"):
        compile_schema(schema)


@pytest.mark.parametrize(
    ("schema", "complaint"),
    [
        ({"$ref": "http://127.0.0.1:1/s.json"}, "'http://127.0.0.1:1/s.json', outside itself"),
        ({"$ref": "file:///etc/passwd"}, "'file:///etc/passwd', outside itself"),
        ({"items": {"$ref": "other.json"}}, "'other.json', outside itself"),
        ({"$ref": "#/$defs/missing"}, "/\\$defs/missing"),
        ({"$ref": "#/allOf/" + "9" * 5000, "allOf": [{}]}, "array index .999"),
        ({"type": "strin"}, '#/type: "strin"'),
        ({"properties": {"a": {"minimum": "3"}}}, '#/properties/a/minimum: "3"'),
        ({"pattern": "["}, "#/pattern"),
        (True, "has to be a JSON object"),
        (None, "has to be a JSON object"),
    ],
)
def test_an_invalid_schema_says_where(schema: Any, complaint: str) -> None:
    """What is wrong with a schema, and where; what leads outside is never fetched."""
    with pytest.raises(InvalidSchema, match=complaint):
        compile_schema(schema)


def test_nothing_is_fetched(tmp_path: Path) -> None:
    """A reference that could be followed is not: neither to a file nor to a listening port."""
    (tmp_path / "schema.json").write_text('{"type": "integer"}')
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        for uri in (f"http://127.0.0.1:{port}/schema.json", (tmp_path / "schema.json").as_uri()):
            for schema in ({"$ref": uri}, {"$id": uri, "items": {"$ref": "schema.json#/no"}}):
                with pytest.raises(InvalidSchema):
                    compile_schema(schema)
        listener.setblocking(False)
        with pytest.raises(BlockingIOError):
            listener.accept()


def test_recursion() -> None:
    """A schema may refer to itself, also without ever getting anywhere."""
    tree = {"type": "object", "properties": {"x": SELF}, "additionalProperties": False}
    assert compile_schema(tree).is_valid(nested(300, {}))
    assert told(tree, nested(2, {"y": 1})) == ["x.x.y: is not known here"]
    assert compile_schema({"$ref": "#"}).is_valid(1)


def test_deep_and_large_schemas_are_refused() -> None:
    """A schema cannot exhaust the stack or memory."""
    deep: dict[str, Any] = {}
    for _ in range(100_000):
        deep = {"not": deep}
    with pytest.raises(InvalidSchema, match="nested deeper than 256"):
        compile_schema(deep)
    with pytest.raises(InvalidSchema, match="more than 20000 subschemas"):
        compile_schema({"anyOf": [{}] * 30_000})
    chain = {f"a{n}": {"$ref": f"#/$defs/a{n + 1}"} for n in range(1000)}
    with pytest.raises(InvalidSchema, match="references nest deeper"):
        compile_schema({"$ref": "#/$defs/a0", "$defs": {**chain, "a1000": {}}})
    with pytest.raises(InvalidSchema, match=r"could meet \d{10} subschemas"):
        compile_schema(doubling(30))
    # A thousand places of one name, and a thousand references to it: a million ways.
    places = {f"a{n}": {"$anchor": "a"} for n in range(1000)}
    with pytest.raises(InvalidSchema, match="apply others more than 200000 times"):
        compile_schema({"$defs": places, "anyOf": [{"$ref": "#a"} for _ in places]})


def test_work_is_bounded() -> None:
    """Doubling references and recursive unions are judged fast, if with fewer details."""
    union = {"anyOf": [{"properties": {"x": SELF}, "type": "object"} for _ in range(3)]}
    union["anyOf"].append({"type": "integer"})
    before = time.perf_counter()
    assert told(doubling(16), {"p": "no"}) == ["p: 'no' does not fit its schema"]
    assert len(told(union, nested(1500, "no"))) == 1
    assert compile_schema(union).is_valid(nested(200, 1))
    backtracks = compile_schema({"pattern": r"^(a*)*\1$"})
    assert not backtracks.is_valid("a" * 40 + "b")
    assert not compile_schema({"pattern": "^(a+)+$"}).is_valid("a" * 100_000 + "b")
    assert time.perf_counter() - before < 2


def test_weird_values_do_not_fit() -> None:
    """Whatever is no JSON, or nests beyond the stack, is a violation and never a crash."""
    lists: Any = []
    for _ in range(100_000):
        lists = [lists]
    validator = compile_schema({})
    for value in (lists, {"a": lists}, "\ud800", {"a": object()}, {1: [2]}, {"a": [object()]}):
        assert not validator.is_valid(value)
        assert validator.violations(value)[0].message.startswith("this is no JSON value")


def test_messages_stay_short() -> None:
    """A megabyte that does not fit is not sent back as a megabyte, nor a thousand complaints."""
    schema = {"type": "array", "items": {"type": "integer"}}
    assert len(told({"type": "integer"}, "x" * 1_000_000)[0]) < 500
    assert len(told(schema, ["x"] * 1_000)) == 20
    assert len(told({"type": "string"}, 10**5000)[0]) < 500


def test_formats_are_checked_on_request() -> None:
    """`format` is an annotation by default; with checks, what is expected is told."""
    schema = {"properties": {"when": {"type": "string", "format": "date"}}}
    assert told(schema, {"when": "tomorrow"}) == []
    checked = compile_schema(schema, formats={})
    assert [str(v) for v in checked.violations({"when": "tomorrow"})] == [
        "when: 'tomorrow' is not a date such as 2026-12-31"
    ]
    assert compile_schema(schema, formats={"date": "tomorrow".__eq__}).is_valid(
        {"when": "tomorrow"}
    )


def test_extension_keywords_pass() -> None:
    """Keywords that no dialect knows are left alone."""
    assert told({"type": "string", "x-mcp-header": "Region"}, "eu") == []
