"""Forms: flat schemas for each revision, and what people fill in, as their class."""

import datetime
from dataclasses import dataclass
from enum import Enum
from typing import Annotated, Any, Literal, NotRequired, TypedDict

import attrs
import msgspec
import pytest

from mcp_trio.protocol.json_schema import InvalidSchema
from mcp_trio.server.elicitation import form
from mcp_trio.server.schemas import InvalidValue
from tests.protocol.official import complaints, needs_schemas

OLD, NEW, MODERN = "2025-06-18", "2025-11-25", "2026-07-28"


class Colour(Enum):
    RED = "#f00"
    SKY_BLUE = "#08f"


class Size(Enum):
    SMALL = 1
    LARGE = 2


@attrs.frozen
class Name:
    name: str
    nickname: str | None = None


@attrs.frozen
class Everything:
    text: Annotated[str, "Any text", msgspec.Meta(min_length=2, max_length=9, title="Text")]
    mail: Annotated[str, {"format": "email"}]
    day: datetime.date
    when: datetime.datetime
    count: Annotated[int, msgspec.Meta(gt=0, le=7)]
    share: Annotated[float, msgspec.Meta(ge=0)]
    sure: bool
    colour: Colour
    size: Size
    mood: Literal["good", "bad"]
    level: Literal[1, 2]
    colours: Annotated[list[Colour], msgspec.Meta(min_length=1)]
    moods: set[Literal["good", "bad"]]
    maybe: int | None
    yes: bool = True
    greeting: str = "hello"
    favourite: Colour = Colour.RED
    also: tuple[Colour, ...] = (Colour.RED,)


def test_a_class_with_an_optional_field() -> None:
    """Optional means not required and never null, in the schema and in the answer."""
    asked = form(Name, MODERN)
    assert asked.schema == {
        "type": "object",
        "properties": {"name": {"type": "string"}, "nickname": {"type": "string"}},
        "required": ["name"],
    }
    assert asked.structure({"name": "Ada", "nickname": "Countess"}) == Name("Ada", "Countess")
    assert asked.structure({"name": "Ada"}) == Name("Ada")
    with pytest.raises(InvalidValue, match='nickname: null is not of type "string"'):
        asked.structure({"name": "Ada", "nickname": None})


def test_every_kind_of_field() -> None:
    """Each type that forms have, as 2025-11-25 and later write it."""
    properties = form(Everything, NEW).schema["properties"]
    titled = [{"const": "#f00", "title": "Red"}, {"const": "#08f", "title": "Sky blue"}]
    assert properties == {
        "text": {
            "type": "string",
            "description": "Any text",
            "title": "Text",
            "minLength": 2,
            "maxLength": 9,
        },
        "mail": {"type": "string", "format": "email"},
        "day": {"type": "string", "format": "date"},
        "when": {"type": "string", "format": "date-time"},
        "count": {"type": "integer", "minimum": 1, "maximum": 7},
        "share": {"type": "number", "minimum": 0},
        "sure": {"type": "boolean"},
        "colour": {"type": "string", "oneOf": titled},
        "size": {"type": "string", "enum": ["SMALL", "LARGE"]},
        "mood": {"type": "string", "enum": ["good", "bad"]},
        "level": {"type": "string", "enum": ["1", "2"]},
        "colours": {"type": "array", "items": {"anyOf": titled}, "minItems": 1},
        "moods": {"type": "array", "items": {"type": "string", "enum": ["good", "bad"]}},
        "maybe": {"type": "integer"},
        "yes": {"type": "boolean", "default": True},
        "greeting": {"type": "string", "default": "hello"},
        "favourite": {"type": "string", "oneOf": titled, "default": "#f00"},
        "also": {"type": "array", "items": {"anyOf": titled}, "default": ["#f00"]},
    }


def test_the_first_revision_with_forms() -> None:
    """2025-06-18: titles beside the values, defaults of booleans only, no choice of several."""

    @attrs.frozen
    class Old:
        colour: Colour = Colour.RED
        yes: bool = True
        greeting: str = "hello"

    assert form(Old, OLD).schema["properties"] == {
        "colour": {"type": "string", "enum": ["#f00", "#08f"], "enumNames": ["Red", "Sky blue"]},
        "yes": {"type": "boolean", "default": True},
        "greeting": {"type": "string"},
    }
    assert form(Old, OLD).structure({"colour": "#08f"}) == Old(Colour.SKY_BLUE)
    with pytest.raises(TypeError, match=r"the form\.cs: clients of 2025-06-18 cannot choose sever"):
        form({"cs": list[Colour]}, OLD)


@needs_schemas
@pytest.mark.parametrize("version", [OLD, NEW, MODERN])
def test_forms_are_what_the_spec_says(version: str) -> None:
    """The official schema of each revision accepts what is generated."""
    several = {} if version == OLD else {"cs": list[Colour], "ms": list[Literal["a", "b"]]}
    kinds = {"c": Colour, "m": Literal["a"], "t": str, "n": int, "f": float, "b": bool, **several}
    params = {"message": "?", "mode": "form", "requestedSchema": form(kinds, version).schema}
    request = {"jsonrpc": "2.0", "id": 1, "method": "elicitation/create", "params": params}
    assert complaints(request, "ElicitRequest", version) == []


def test_what_was_filled_in() -> None:
    """Content becomes an instance: enums, dates, sets, defaults, integers that came as 2.0."""
    content = {
        "text": "some",
        "mail": "a@b.org",
        "day": "2026-12-31",
        "when": "2026-12-31T10:00:00Z",
        "count": 2.0,
        "share": 1,
        "sure": False,
        "colour": "#08f",
        "size": "LARGE",
        "mood": "bad",
        "level": "2",
        "colours": ["#f00"],
        "moods": ["bad", "bad"],
    }
    assert form(Everything, NEW).structure(content) == Everything(
        "some",
        "a@b.org",
        datetime.date(2026, 12, 31),
        datetime.datetime(2026, 12, 31, 10, tzinfo=datetime.UTC),
        2,
        1.0,
        False,
        Colour.SKY_BLUE,
        Size.LARGE,
        "bad",
        2,
        [Colour.RED],
        {"bad"},
        None,
    )


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        ({"count": 8}, "count: 8 is greater than the maximum of 7"),
        ({"count": "2"}, 'count: "2" is not of type "integer"'),
        ({"colour": "green"}, "colour: "),
        ({"colours": []}, "colours: "),
        ({"mail": "nobody"}, "mail: 'nobody' is not an e-mail address"),
        ({"day": "2026-02-30"}, "day: '2026-02-30' is not a date"),
        ({"sure": "yes"}, "sure: "),
    ],
)
def test_content_is_not_trusted(change: dict[str, Any], complaint: str) -> None:
    """A client's answer is checked again, and what is wrong names the field."""
    kinds = {
        "count": Annotated[int, msgspec.Meta(le=7)],
        "colour": Colour,
        "colours": Annotated[list[Colour], msgspec.Meta(min_length=1)],
        "mail": Annotated[str, {"format": "email"}],
        "day": datetime.date,
        "sure": bool,
    }
    with pytest.raises(InvalidValue, match=complaint):
        form({name: kinds[name] for name in change}, NEW).structure(change)
    with pytest.raises(InvalidValue, match="required"):
        form(kinds, NEW).structure({})


def test_other_sources() -> None:
    """Dataclasses, TypedDicts, dicts of types, and schemas that somebody wrote."""

    @dataclass
    class Data:
        a: int
        b: str = "x"

    class Typed(TypedDict):
        a: int
        b: NotRequired[str]

    assert form(Data, NEW).structure({"a": 1}) == Data(1)
    assert form(Typed, NEW).schema["required"] == ["a"]
    assert form(Typed, NEW).structure({"a": 1.0}) == {"a": 1}
    assert form({"a": int, "b": str | None}, NEW).structure({"a": 1}) == {"a": 1, "b": None}
    raw = {"type": "object", "properties": {"type": {"type": "string"}}, "required": ["type"]}
    assert form(raw, OLD).schema == raw
    assert form(raw, OLD).structure({"type": "x"}) == {"type": "x"}
    with pytest.raises(InvalidValue, match="type: is required"):
        form(raw, OLD).structure({})
    with pytest.raises(InvalidSchema):
        form({"type": "object", "required": 7}, OLD)


@pytest.mark.parametrize(
    "hint",
    [
        Name,
        list[str],
        list[Name],
        list[list[Colour]],
        dict[str, int],
        int | str,
        bytes,
        Any,
        Annotated[float, msgspec.Meta(gt=0)],
        Annotated[int, msgspec.Meta(multiple_of=2)],
        Annotated[str, {"format": "ipv4"}],
        Annotated[int, {"x-mine": 1}],
        Annotated[str, msgspec.Meta(ge=1)],
        Literal[1, "1"],
    ],
)
def test_what_forms_cannot_ask(hint: Any) -> None:
    """Nesting and whatever else clients could not show is refused when asked, by field."""
    with pytest.raises(TypeError, match=r"the form\.field cannot be asked in a form"):
        form({"field": hint}, NEW)


def test_a_form_needs_fields() -> None:
    """A bare type is no form."""
    with pytest.raises(TypeError, match="a form has fields"):
        form(int, NEW)


def test_a_refusal_of_the_class_is_a_violation() -> None:
    """What the class's own validator says is told like any other fault."""

    @attrs.frozen
    class Even:
        n: int = attrs.field()

        @n.validator
        def _check(self, _: Any, value: int) -> None:
            if value % 2:
                raise ValueError("it is odd")

    assert form(Even, NEW).structure({"n": 2}) == Even(2)
    with pytest.raises(InvalidValue, match="it is odd"):
        form(Even, NEW).structure({"n": 1})
