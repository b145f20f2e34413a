"""Classes with fields: attrs, dataclasses, TypedDicts, NamedTuples and msgspec Structs as one.

Whatever kind of class it is, what matters here is a list of `Field`s. A field's name in JSON is
its `Alias`, or else the name under which the class's constructor takes it.
"""

import dataclasses
import typing
from collections.abc import Callable, Mapping
from functools import lru_cache
from inspect import cleandoc
from typing import Any, NotRequired, Required, get_args, get_origin, is_typeddict

import attrs
import msgspec

from mcp_trio.server.hints import alias_of, class_hints
from mcp_trio.wire.jsonrpc import MISSING


@attrs.frozen
class Field:
    """One field of a class.

    Attributes:
        attribute: The name that reads it from an instance.
        argument: The name under which the constructor takes it; None if it does not.
        key: Its name in JSON.
        hint: Its type.
        required: Whether JSON has to have it.
        default: What it is otherwise, `MISSING` where that cannot be known beforehand.
    """

    attribute: str
    argument: str | None
    key: str
    hint: Any
    required: bool
    default: Any = MISSING


Hints = Mapping[str, Any]


def _default(default: Any, factory: Any) -> Any:
    """A default value; a factory is not called, for it may have effects or give the time of day."""
    return factory() if factory in (list, dict) else default


def _attrs_fields(cls: Any, hints: Hints) -> list[Field]:
    found = []
    for a in attrs.fields(cls):
        made = isinstance(a.default, attrs.Factory)  # type: ignore[arg-type]  # a class at run time
        hint = hints.get(a.name, Any if a.type is None else a.type)
        plain = MISSING if a.default is attrs.NOTHING else a.default
        default = _default(MISSING, a.default.factory) if made else plain
        alias = a.alias or a.name
        found.append(
            Field(
                a.name,
                alias if a.init else None,
                alias_of(hint, alias),
                hint,
                a.default is attrs.NOTHING,
                default,
            )
        )
    return found


def _dataclass_fields(cls: Any, hints: Hints) -> list[Field]:
    found = []
    for f in dataclasses.fields(cls):
        hint = hints[f.name]
        default = MISSING if f.default is dataclasses.MISSING else f.default
        required = default is MISSING and f.default_factory is dataclasses.MISSING
        found.append(
            Field(
                f.name,
                f.name if f.init else None,
                alias_of(hint, f.name),
                hint,
                required,
                _default(default, f.default_factory),
            )
        )
    return found


def _typed_dict_fields(cls: Any, hints: Hints) -> list[Field]:
    found = []
    for name, hint in hints.items():
        required = name in cls.__required_keys__
        # With annotations that are strings, __required_keys__ has not seen these.
        qualifier: Any
        while (qualifier := get_origin(hint)) in QUALIFIERS:
            required = qualifier is Required or (required and qualifier is not NotRequired)
            hint = get_args(hint)[0]
        found.append(Field(name, name, alias_of(hint, name), hint, required))
    return found


def _named_tuple_fields(cls: Any, hints: Hints) -> list[Field]:
    return [
        Field(
            name,
            name,
            alias_of(hints.get(name, Any), name),
            hints.get(name, Any),
            name not in cls._field_defaults,
            cls._field_defaults.get(name, MISSING),
        )
        for name in cls._fields
    ]


def _struct_fields(cls: Any, hints: Hints) -> list[Field]:
    found = []
    for f in msgspec.structs.fields(cls):
        default = MISSING if f.default is msgspec.NODEFAULT else f.default
        key = alias_of(hints[f.name], f.encode_name)
        default = _default(default, f.default_factory)
        found.append(Field(f.name, f.name, key, hints[f.name], f.required, default))
    return found


# ReadOnly is newer than the oldest Python supported.
QUALIFIERS = (Required, NotRequired, getattr(typing, "ReadOnly", Required))


def is_named_tuple(cls: Any) -> bool:
    return isinstance(cls, type) and issubclass(cls, tuple) and hasattr(cls, "_fields")


def _is_dataclass(cls: Any) -> bool:
    return isinstance(cls, type) and dataclasses.is_dataclass(cls)


def _is_attrs(cls: Any) -> bool:
    return isinstance(cls, type) and attrs.has(cls)


KINDS: tuple[tuple[Callable[[Any], bool], Callable[[Any, Hints], list[Field]]], ...] = (
    (_is_attrs, _attrs_fields),
    (_is_dataclass, _dataclass_fields),
    (is_typeddict, _typed_dict_fields),
    (is_named_tuple, _named_tuple_fields),
    (lambda cls: hasattr(cls, "__struct_fields__"), _struct_fields),
)


def is_record(cls: Any) -> bool:
    """Whether a class, or the generic class of an alias such as ``Box[int]``, has fields."""
    cls = get_origin(cls) or cls
    return any(matches(cls) for matches, _ in KINDS)


def fields_of(cls: Any, local: Mapping[str, Any] | None = None) -> list[Field]:
    """The fields of a class for which `is_record` holds; ``local`` are names for its annotations.

    Raises TypeError if an annotation cannot be resolved or two fields have one name in JSON.
    """
    hints = class_hints(cls, local)
    generic = get_origin(cls) or cls
    fields = next(read for matches, read in KINDS if matches(generic))(generic, hints)
    keys = [field.key for field in fields]
    if doubled := {key for key in keys if keys.count(key) > 1}:
        raise TypeError(f"{generic.__qualname__} has two fields that are {doubled.pop()!r} in JSON")
    return fields


@lru_cache(maxsize=1024)
def written_fields(cls: Any) -> tuple[tuple[str, str], ...]:
    """How instances of a class are written: attribute and key of each field."""
    try:
        fields = fields_of(cls)
    except TypeError:
        # Its annotations need names that only its definition could see. Without an Alias the
        # names are the same, and writing needs no types.
        generic = get_origin(cls) or cls
        read = next(read for matches, read in KINDS if matches(generic))
        fields = read(generic, _Anything())
    return tuple((field.attribute, field.key) for field in fields)


class _Anything(dict[str, Any]):
    def __missing__(self, name: str) -> Any:
        return Any


def description_of(cls: Any) -> str | None:
    """A class's docstring, unless it was made by machine."""
    doc = cls.__dict__.get("__doc__")
    if not isinstance(doc, str) or doc.startswith(f"{cls.__name__}("):
        return None
    return cleandoc(doc) or None
