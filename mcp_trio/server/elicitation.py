"""Forms for `Context.elicit`: a flat class as the few kinds of schema that a form may have.

Clients show these schemas to people, so that they are no JSON Schema at large: an object whose
fields are strings, numbers, booleans or choices, and nothing nested. An optional field is one that
may be left out, and is never null. What a choice looks like depends on the revision: from
2025-11-25 its options have titles in ``oneOf``, and several may be chosen; before, the titles stand
beside the values in ``enumNames``. Of defaults, 2025-06-18 has only those of booleans.

MCP 2026-07-28 and 2025-11-25, client/elicitation; MCP 2025-06-18, client/elicitation.
"""

import collections.abc
import datetime
from collections.abc import Callable, Mapping
from enum import Enum
from functools import cached_property
from typing import Any, Literal, get_args, get_origin

import attrs

from mcp_trio.protocol.json_schema import Validator, compile_schema
from mcp_trio.protocol.revisions import supports
from mcp_trio.server.hints import alias_of, annotate, is_union, unwrap
from mcp_trio.server.jsonable import NotJSONError, to_json
from mcp_trio.server.records import Field, fields_of, is_record
from mcp_trio.server.scalars import FORMATS, JSONObject
from mcp_trio.server.schemas import InvalidValue, Shapes, structured
from mcp_trio.wire.jsonrpc import MISSING

PRIMITIVES = (str, int, float, bool, datetime.date, datetime.datetime)
SEVERAL = {
    list: list,
    collections.abc.Sequence: list,
    tuple: tuple,
    set: set,
    frozenset: frozenset,
}
STRING_FORMATS = ("email", "uri", "date", "date-time")
COMMON = {"type", "title", "description", "default"}
KEYWORDS = {
    "string": COMMON | {"minLength", "maxLength", "pattern", "format", "enum", "oneOf"},
    "integer": COMMON | {"minimum", "maximum"},
    "number": COMMON | {"minimum", "maximum"},
    "boolean": COMMON,
    "array": COMMON | {"minItems", "maxItems", "items"},
}

FormSource = type | Mapping[str, Any]


@attrs.define
class Form:
    """A form to be filled in. Made by `form`.

    Attributes:
        schema: The ``requestedSchema`` for the revision that the form was made for.
    """

    schema: JSONObject
    _structure: Callable[[JSONObject], Any]

    @cached_property
    def validator(self) -> Validator:
        return compile_schema(self.schema, formats=FORMATS)

    def structure(self, content: Any) -> Any:
        """What was filled in, as an instance of the class that asked. Raises `InvalidValue`.

        The client has to have checked the content already, and is not trusted to have.
        """
        if violations := self.validator.violations(content):
            raise InvalidValue(violations)
        return structured(self._structure, content)


def form(source: FormSource, version: str) -> Form:
    """The form for an attrs class, a dataclass, a TypedDict or a NamedTuple, as a revision has it.

    A dict of names and types is a form, too, and so is one that is a JSON Schema of the type
    "object": that is taken as it stands. Both give a dict of what was filled in.

    Raises TypeError, naming the field, for what no form can ask (in that revision), and
    `InvalidSchema` for a schema that is not valid.
    """
    if isinstance(source, Mapping) and source.get("type") == "object":
        made = Form(dict(source), lambda content: content)
        _ = made.validator
        return made
    title, make, fields = _read_source(source)
    questions = []
    for field in fields:
        try:
            questions.append(_question(field))
        except TypeError as error:
            raise TypeError(
                f"{title}.{field.attribute} cannot be asked in a form: {error}"
            ) from None
    schema: JSONObject = {
        "type": "object",
        "properties": {q.key: q.schema(version, title) for q in questions},
    }
    if required := [q.key for q in questions if q.required]:
        schema["required"] = required

    def structure(content: JSONObject) -> Any:
        return make(
            **{
                q.argument: q.read(content[q.key]) if q.key in content else None
                for q in questions
                if q.key in content or q.none_if_absent
            }
        )

    return Form(schema, structure)


def _read_source(source: Any) -> tuple[str, Callable[..., Any], list[Field]]:
    if isinstance(source, Mapping):
        fields = [
            Field(name, name, alias_of(hint, name), hint, required=True)
            for name, hint in source.items()
        ]
        return "the form", dict, fields
    if not is_record(source):
        raise TypeError(
            f"a form has fields: give an attrs class, a dataclass, a TypedDict or a dict of names "
            f"and types, not {source!r}"
        )
    cls = get_origin(source) or source
    return cls.__name__, cls, [field for field in fields_of(source) if field.argument]


@attrs.frozen
class _Choice:
    """The options of a choice: the text that stands for each, its title, and its value."""

    options: dict[str, tuple[str, Any]]
    titled: bool

    def schema(self, *, titles_beside: bool, keyword: str) -> JSONObject:
        texts = list(self.options)
        if not self.titled:
            return {"type": "string", "enum": texts}
        if titles_beside:
            names = [title for title, _ in self.options.values()]
            return {"type": "string", "enum": texts, "enumNames": names}
        options = [{"const": text, "title": title} for text, (title, _) in self.options.items()]
        return {keyword: options} if keyword == "anyOf" else {"type": "string", keyword: options}

    def read(self, text: str) -> Any:
        return self.options[text][1]

    def text_of(self, value: Any) -> str:
        return next(
            text
            for text, (_, option) in self.options.items()
            if option == value and type(option) is type(value)
        )


@attrs.frozen
class _Question:
    """One field of a form, before a revision says how it looks."""

    key: str
    argument: str
    required: bool
    none_if_absent: bool
    metadata: tuple[Any, ...]
    base: JSONObject
    read: Callable[[Any], Any]
    default: Any
    choice: _Choice | None = None
    several: bool = False

    def schema(self, version: str, title: str) -> JSONObject:
        """Raises TypeError if the revision has nothing for it."""
        modern = supports("elicitation_enums", version)
        schema = self.base
        if self.choice is not None and self.several:
            if not modern:
                raise TypeError(f"{title}.{self.key}: clients of {version} cannot choose several")
            items = self.choice.schema(titles_beside=False, keyword="anyOf")
            schema = {"type": "array", "items": items}
        elif self.choice is not None:
            schema = self.choice.schema(titles_beside=not modern, keyword="oneOf")
        schema = _flat(annotate(schema, self.metadata))
        if self.default is not MISSING and (
            schema["type"] == "boolean" or supports("elicitation_defaults", version)
        ):
            schema = {**schema, "default": self.default}
        return schema


def _question(field: Field) -> _Question:
    hint, metadata = unwrap(field.hint)
    optional = False
    if is_union(hint):
        rest = [option for option in get_args(hint) if option is not type(None)]
        optional = len(rest) < len(get_args(hint))
        if len(rest) != 1:
            raise TypeError("it is a union; a field has one type")
        hint, inner = unwrap(rest[0])
        metadata = inner + metadata
    choice, several = _choice_of(hint)
    base: JSONObject = {}
    read: Callable[[Any], Any]
    if choice is not None:
        make = SEVERAL[get_origin(hint)] if several else None
        read = _read_several(choice, make) if make else choice.read
    else:
        shape = Shapes().of(hint) if hint in PRIMITIVES else None
        if shape is None:
            raise TypeError(
                f"{_name(hint)} is not flat: forms have str, int, float, bool, date, "
                "datetime, enums and Literals, and lists of the last two"
            )
        base, read = shape.schema, shape.structure or _same
    question = _Question(
        field.key,
        field.argument or field.attribute,
        field.required and not optional,
        optional and field.required,
        metadata,
        base,
        read,
        _default(field.default, choice, several=several),
        choice,
        several,
    )
    question.schema("2025-11-25", "")  # what no revision can ask is found now
    return question


def _choice_of(hint: Any) -> tuple[_Choice | None, bool]:
    """The choice that a hint is, or of which it is a list, and whether it is a list."""
    arguments = get_args(hint)
    if get_origin(hint) in SEVERAL and arguments and arguments[1:] in ((), (...,)):
        inner, _ = unwrap(arguments[0])
        choice, nested = _choice_of(inner)
        return (None, False) if nested else (choice, choice is not None)
    if get_origin(hint) is Literal:
        return _choice([(str(to_json(v)), str(to_json(v)), v) for v in arguments]), False
    if isinstance(hint, type) and issubclass(hint, Enum):
        return _choice([(_text(m), _title(m), m) for m in hint]), False
    return None, False


def _choice(options: list[tuple[str, str, Any]]) -> _Choice:
    texts = [text for text, _, _ in options]
    if len(set(texts)) < len(texts) or not texts:
        raise TypeError(f"its options {', '.join(texts)} cannot be told apart")
    titled = any(text.casefold() != title.casefold() for text, title, _ in options)
    return _Choice({text: (title, value) for text, title, value in options}, titled)


def _text(member: Enum) -> str:
    return member.value if type(member.value) is str else member.name


def _title(member: Enum) -> str:
    return member.name.replace("_", " ").capitalize()


def _read_several(choice: _Choice, make: Callable[[Any], Any]) -> Callable[[Any], Any]:
    return lambda texts: make([choice.read(text) for text in texts])


def _default(default: Any, choice: _Choice | None, *, several: bool) -> Any:
    """A default as JSON, or MISSING if it has none that a form can show."""
    if default is MISSING or default is None:
        return MISSING
    try:
        if choice is None:
            return to_json(default)
        return [choice.text_of(v) for v in default] if several else choice.text_of(default)
    except (NotJSONError, StopIteration, TypeError):
        return MISSING


def _flat(schema: JSONObject) -> JSONObject:
    """The schema of one field, checked to have only what forms have. Raises TypeError."""
    kind = schema["type"]
    if kind == "integer":
        schema = _inclusive(schema)
    known = KEYWORDS[kind] | {"enumNames"}
    if unknown := schema.keys() - known:
        raise TypeError(f"forms have no {', '.join(sorted(unknown))} for the type {kind}")
    if "format" in schema and schema["format"] not in STRING_FORMATS:
        raise TypeError(f"forms have the formats {', '.join(STRING_FORMATS)} only")
    return schema


def _inclusive(schema: JSONObject) -> JSONObject:
    """Integers above 0 are those from 1 on; forms have only the latter."""
    limits = (("exclusiveMinimum", "minimum", 1), ("exclusiveMaximum", "maximum", -1))
    for exclusive, inclusive, step in limits:
        if type(limit := schema.get(exclusive)) is int:
            rest = {key: value for key, value in schema.items() if key != exclusive}
            schema = {**rest, inclusive: limit + step}
    return schema


def _same(value: Any) -> Any:
    return value


def _name(hint: Any) -> str:
    return getattr(hint, "__name__", None) or repr(hint)
