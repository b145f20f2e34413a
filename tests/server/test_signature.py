"""Tools from functions: parameters as a schema, arguments as keyword arguments."""

from __future__ import annotations

import datetime
import functools
import time
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypedDict, get_type_hints

import attrs
import msgspec
import pytest
from typing_extensions import Unpack

from mcp_trio.protocol.types.content import ImageContent, TextContent
from mcp_trio.protocol.types.tools import CallToolResult
from mcp_trio.server.hints import Alias
from mcp_trio.server.media import Image
from mcp_trio.server.signature import ArgumentsInvalid, FunctionSchema, function_schema

if TYPE_CHECKING:
    from somewhere import Context as Elsewhere  # type: ignore[import-not-found]  # not at run time


class Context:
    """Stands for the server's own."""


@attrs.frozen
class Day:
    date: str
    high: float


class Filters(TypedDict, total=False):
    limit: int


def read(function: Any) -> FunctionSchema:
    return function_schema(function, context_type=Context)


async def forecast(
    city: Annotated[str, "Name of the city"],
    days: Annotated[int, msgspec.Meta(ge=1, le=7)] = 3,
    *,
    ctx: Context,
) -> list[Day]:
    """Forecast the weather.

    In some detail.
    """
    return []


def test_a_tool() -> None:
    """Name, description, input and output of an ordinary tool."""
    schema = read(forecast)
    assert schema.name == "forecast"
    assert schema.description == "Forecast the weather.\n\nIn some detail."
    assert schema.context == "ctx"
    assert schema.input_schema == {
        "type": "object",
        "properties": {
            "city": {"type": "string", "description": "Name of the city"},
            "days": {"type": "integer", "minimum": 1, "maximum": 7, "default": 3},
        },
        "required": ["city"],
        "additionalProperties": False,
    }
    assert schema.output.form == "wrapped"
    assert schema.output.schema == {
        "type": "object",
        "properties": {
            "result": {
                "type": "array",
                "items": {
                    "type": "object",
                    "properties": {"date": {"type": "string"}, "high": {"type": "number"}},
                    "required": ["date", "high"],
                },
            }
        },
        "required": ["result"],
    }


@pytest.mark.parametrize(
    ("arguments", "complaints"),
    [
        ({"city": "x", "days": 9}, {"days: 9 is greater than the maximum of 7"}),
        (
            {"city": 1, "days": "2"},
            {'city: 1 is not of type "string"', 'days: "2" is not of type "integer"'},
        ),
        ({"cty": "x"}, {"cty: is not known here", "city: is required, and missing"}),
        ({"city": "x", "ctx": 1}, {"ctx: is not known here"}),
        ([], {'[] is not of type "object"'}),
        (None, {"city: is required, and missing"}),
    ],
)  # fmt: skip
def test_invalid_arguments_name_the_parameter(arguments: Any, complaints: set[str]) -> None:
    """All that is wrong is told at once, and the context is not the client's to give."""
    with pytest.raises(ArgumentsInvalid) as caught:
        read(forecast).bind(arguments)
    assert {str(violation) for violation in caught.value.violations} == complaints


def test_binding() -> None:
    """Arguments become Python values; what is left out is left to the function's defaults."""
    schema = read(forecast)
    assert schema.bind({"city": "Oslo"}) == {"city": "Oslo"}
    bound = schema.bind({"city": "Oslo", "days": 2.0})
    assert bound == {"city": "Oslo", "days": 2}
    assert type(bound["days"]) is int

    def plan(day: datetime.date | None, steps: list[Day]) -> None: ...

    assert read(plan).bind({"day": "2026-12-31", "steps": [{"date": "x", "high": 1}]}) == {
        "day": datetime.date(2026, 12, 31),
        "steps": [Day("x", 1.0)],
    }


def test_arguments_are_not_changed() -> None:
    """The request's own parameters stay as they came."""
    arguments = {"city": "Oslo", "days": 2.0}
    read(forecast).bind(arguments)
    assert arguments == {"city": "Oslo", "days": 2.0}


def test_any_name_can_be_a_parameter() -> None:
    """`self`, `ctx`, keywords and names with dashes."""

    def odd(
        self: str,
        ctx: int,
        class_: Annotated[str, Alias("class")],
        dry_run: Annotated[bool, Alias("dry-run"), "Only pretend"] = False,
        context: Context | None = None,
    ) -> None: ...

    schema = read(odd)
    assert list(schema.input_schema["properties"]) == ["self", "ctx", "class", "dry-run"]
    assert schema.context == "context"
    assert schema.bind({"self": "a", "ctx": 1, "class": "b", "dry-run": True}) == {
        "self": "a",
        "ctx": 1,
        "class_": "b",
        "dry_run": True,
    }
    with pytest.raises(ArgumentsInvalid, match="class_: is not known here"):
        schema.bind({"self": "a", "ctx": 1, "class_": "b"})


def test_swapped_names() -> None:
    """Names in JSON may be another parameter's variable."""

    def swap(a: Annotated[int, Alias("b")], b: Annotated[int, Alias("a")]) -> None: ...

    assert read(swap).bind({"a": 1, "b": 2}) == {"a": 2, "b": 1}


def test_keyword_arguments() -> None:
    """`**kwargs` takes further arguments, but never the context or a parameter by its variable."""

    def log(
        level_: Annotated[str, Alias("level")], *, ctx: Context, **fields: datetime.date
    ) -> None: ...

    schema = read(log)
    assert schema.input_schema["additionalProperties"] == {"type": "string", "format": "date"}
    bound = schema.bind({"level": "x", "on": "2026-01-01"})
    assert bound == {"level_": "x", "on": datetime.date(2026, 1, 1)}
    for name in ("ctx", "level_"):
        with pytest.raises(ArgumentsInvalid, match=f"{name}: is no name that may stand here"):
            schema.bind({"level": "x", name: "2026-01-01"})


def test_unpacked_keyword_arguments() -> None:
    """`**kwargs: Unpack[TypedDict]` are parameters like others."""

    def search(query: str, **filters: Unpack[Filters]) -> None: ...

    schema = read(search)
    assert list(schema.input_schema["properties"]) == ["query", "limit"]
    assert schema.input_schema["required"] == ["query"]
    assert schema.bind({"query": "x", "limit": 2.0}) == {"query": "x", "limit": 2}


class Tools:
    """Tools as methods."""

    def method(self, a: int) -> None:
        """A method."""

    @classmethod
    def made(cls, a: int) -> None:
        """A class method."""

    @staticmethod
    def plain(a: int) -> None:
        """A static method."""

    def __call__(self, a: int) -> None:
        """A call."""


def decorated(function: Any) -> Any:
    @functools.wraps(function)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        return function(*args, **kwargs)

    return wrapper


@decorated
@decorated
def wrapped(a: int) -> None:
    """Wrapped."""


@pytest.mark.parametrize(
    ("function", "name", "description"),
    [
        (Tools().method, "method", "A method."),
        (Tools.made, "made", "A class method."),
        (Tools.plain, "plain", "A static method."),
        (Tools(), None, "A call."),
        (functools.partial(Tools().method), "method", "A method."),
        (wrapped, "wrapped", "Wrapped."),
        (lambda a: a, None, None),
    ],
)
def test_kinds_of_callables(function: Any, name: str | None, description: str | None) -> None:
    """Whatever can be called can be a tool."""
    schema = read(function)
    assert (schema.name, schema.description) == (name, description)
    assert schema.bind({"a": 5}) == {"a": 5}
    assert schema.input_schema["required"] == ["a"]


def test_what_a_partial_holds_is_not_shown() -> None:
    """Neither its name nor its value: it may be a secret."""

    def fetch(url: str, key: str = "", *, depth: int = 1) -> None: ...

    schema = read(functools.partial(fetch, key="secret"))
    assert list(schema.input_schema["properties"]) == ["url", "depth"]
    assert "secret" not in str(schema)


def test_types_defined_nearby() -> None:
    """Annotations as strings find local classes, closures, and a context only checkers import."""

    @attrs.frozen
    class Local:
        x: int

    def tool(value: Local, ctx: Elsewhere | None = None) -> Local:
        return value

    def context_only(value: int, ctx: Context) -> None: ...

    with pytest.raises(TypeError, match=r"tool cannot be resolved: name 'Elsewhere' is not defi"):
        read(tool)
    tool.__annotations__["ctx"] = Any
    assert read(tool).bind({"value": {"x": 1.0}}) == {"value": Local(1)}
    assert read(context_only).context == "ctx"


def test_a_context_that_only_checkers_import() -> None:
    """The name of the context class is enough, for many import it under TYPE_CHECKING."""
    namespace: dict[str, Any] = {}
    exec("def tool(a: int, ctx: 'Context') -> None: ...", namespace)
    assert read(namespace["tool"]).context == "ctx"


@pytest.mark.parametrize(
    ("function", "complaint"),
    [
        (lambda *args: args, "parameter 'args' of .*<lambda>: arguments in JSON have names"),
        (lambda a, /: a, "parameter 'a' of .*<lambda>: arguments in JSON have names"),
        (lambda ctx: ctx, "parameter 'ctx' of .*<lambda>: annotate it as Context"),
        (dict, "does not tell its parameters"),
    ],
)
def test_what_cannot_be_a_tool(function: Any, complaint: str) -> None:
    """Signatures that JSON's named arguments cannot fill, or not as was meant."""
    with pytest.raises(TypeError, match=complaint):
        read(function)


def test_faults_name_function_and_parameter() -> None:
    """A type without a schema, two contexts, two parameters of one name."""

    def bad_type(a: list[complex]) -> None: ...

    def bad_result() -> complex:
        return 1j

    def two_contexts(a: Context, b: Context) -> None: ...

    def two_names(a: int, b: Annotated[int, Alias("a")]) -> None: ...

    for function, complaint in (
        (bad_type, r"parameter 'a' of .*bad_type: there is no JSON Schema for complex"),
        (two_contexts, r"two_contexts has two context parameters: a and b"),
        (two_names, r"two parameters of .*two_names have the same name"),
    ):
        with pytest.raises(TypeError, match=complaint):
            read(function)
    schema = read(bad_result)  # of a prompt, that is no fault
    with pytest.raises(TypeError, match=r"what .*bad_result returns: there is no JSON Schema for"):
        _ = schema.output


def test_without_annotations() -> None:
    """Anything goes, and defaults are shown."""
    schema = read(lambda x, y=1: x)
    assert schema.input_schema["properties"] == {"x": {}, "y": {"default": 1}}
    assert schema.bind({"x": None, "y": [1]}) == {"x": None, "y": [1]}
    assert schema.output.form == "unknown"


def test_without_parameters() -> None:
    """The schema that the spec recommends."""
    assert read(lambda: 1).input_schema == {"type": "object", "additionalProperties": False}


def test_texts_as_arguments() -> None:
    """Prompts and templates give texts: JSON in them where the parameter is no string."""

    def show(name: str, n: int, on: datetime.date, tags: list[str], ids: list[int]) -> None: ...

    given = {"name": "5", "n": "5", "on": "2026-01-01", "tags": ["1"], "ids": ["1", "2"]}
    assert read(show).bind_text(given) == {
        "name": "5",
        "n": 5,
        "on": datetime.date(2026, 1, 1),
        "tags": ["1"],
        "ids": [1, 2],
    }
    with pytest.raises(ArgumentsInvalid, match='n: "five" is not of type "integer"'):
        read(show).bind_text({**given, "n": "five"})


class Outputs:
    """A return annotation, and what becomes of it."""

    unknown: Any
    text: str
    nothing: None
    raw: bytes
    picture: Image
    pictures: list[Image | str]
    content: list[TextContent | ImageContent]
    maybe_content: TextContent | None
    whole: CallToolResult
    day: Day
    days: list[Day]
    mapping: dict[str, int]
    typed: Filters
    number: int
    choice: Literal["a", "b"]
    maybe: Day | None


FORMS = {
    "unknown": {"unknown"},
    "content": {
        *("text", "nothing", "raw", "picture", "pictures", "content", "maybe_content", "whole")
    },
    "object": {"day", "mapping", "typed"},
    "wrapped": {"days", "number", "choice", "maybe"},
}


@pytest.mark.parametrize("form", FORMS)
def test_forms_of_output(form: str) -> None:
    """Content has no schema, objects are themselves, everything else is wrapped."""
    for name in FORMS[form]:

        def tool() -> None: ...

        tool.__annotations__["return"] = get_type_hints(Outputs)[name]
        output = read(tool).output
        assert output.form == form, name
        assert (output.schema is not None) == (form in ("object", "wrapped"))
        if output.schema is not None:
            assert output.schema["type"] == "object"


def test_binding_is_fast() -> None:
    """Two integers, checked against the schema, cost a few microseconds at most."""

    def add(a: int, b: int) -> int:
        return a + b

    bind = read(add).bind
    bind({"a": 1, "b": 2})
    best = min(_seconds_of(bind) for _ in range(5))
    assert best / 1000 < 20e-6  # measured: 1 to 2 us; the margin is for busy machines


def _seconds_of(bind: Any) -> float:
    before = time.perf_counter()
    for _ in range(1000):
        bind({"a": 1, "b": 2})
    return time.perf_counter() - before


def test_a_refused_argument_keeps_its_place() -> None:
    """What a class's constructor refuses is told with the path to it."""

    @attrs.frozen
    class Even:
        n: int = attrs.field()

        @n.validator
        def _check(self, _: Any, value: int) -> None:
            if value % 2:
                raise ValueError("it is odd")

    def tool(evens: list[Even], one: Annotated[Even | None, Alias("o")] = None) -> None: ...

    with pytest.raises(ArgumentsInvalid) as caught:
        read(tool).bind({"evens": [{"n": 3}]})
    assert str(caught.value) == "evens[0]: Even refuses it: it is odd"
    with pytest.raises(ArgumentsInvalid, match="o: Even refuses it"):
        read(tool).bind({"evens": [], "o": {"n": 3}})
