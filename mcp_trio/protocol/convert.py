"""Between JSON and the types: `structure` reads what came off the wire, `unstructure` writes it.

One cattrs converter serves all types. Its hooks are made when a type is first used and differ from
cattrs' own in three ways: an error names the place in the message (``tools[3].inputSchema``),
nothing is coerced ("5" is no number, true is no integer), and what a type does not know goes into
its ``extra`` and comes back out.
"""

from collections.abc import Callable, Iterable
from functools import partial
from inspect import get_annotations
from types import NoneType, UnionType
from typing import (
    Any,
    ClassVar,
    Final,
    Literal,
    NamedTuple,
    TypeGuard,
    TypeVar,
    Union,
    get_args,
    get_origin,
    overload,
)

import attrs
from cattrs import Converter

from mcp_trio.protocol.types.base import JSON, JSONObject, Record
from mcp_trio.wire.jsonrpc import MISSING

T = TypeVar("T")
Hook = Callable[[Any, Any], Any]


class StructureError(ValueError):
    """A JSON value that is not of the type it should be.

    ``path`` leads to the place, as keys and list indices; ``reason`` says what is wrong there. The
    message has both.
    """

    def __init__(self, reason: str, path: Iterable[str | int] = ()) -> None:
        super().__init__(reason)
        self.reason = reason
        self.path = tuple(path)

    def within(self, step: str | int) -> "StructureError":
        """This error, seen from one level further out."""
        self.path = (step, *self.path)
        return self

    def __str__(self) -> str:
        where = show_path(self.path)
        return f"{where}: {self.reason}" if where else self.reason


def show_path(path: Iterable[str | int]) -> str:
    """A path as people write it: ``tools[3].inputSchema``, ``_meta["a.b/c"]``."""
    shown = ""
    for step in path:
        if isinstance(step, int):
            shown += f"[{step}]"
        elif step.replace("_", "a").replace("$", "a").isalnum():
            shown += f".{step}" if shown else step
        else:
            shown += f'["{step}"]'
    return shown


@overload
def structure(value: JSON, cls: type[T]) -> T: ...
@overload
def structure(value: JSON, cls: Any) -> Any: ...
def structure(value: JSON, cls: Any) -> Any:
    """An instance of ``cls``, a type or a union of types, made from a JSON value.

    Raises:
        StructureError: the value does not fit, and this is where and why.
    """
    return CONVERTER.get_structure_hook(cls)(value, cls)


def unstructure(value: Any) -> Any:
    """The JSON value, in the spec's names, of an instance or of lists and dicts of instances.

    JSON values within it are not copied.
    """
    kind = value.__class__
    if kind is list or kind is tuple:
        return [unstructure(item) for item in value]
    if kind is dict:
        return {key: unstructure(item) for key, item in value.items()}
    if isinstance(value, Record):
        return CONVERTER.get_unstructure_hook(kind)(value)
    return value


def is_record(hint: Any) -> TypeGuard[type[Record]]:
    """Whether a type hint is one of the types."""
    return isinstance(hint, type) and issubclass(hint, Record)


def wire_name(field: "attrs.Attribute[Any]") -> str:
    """What a field is called on the wire: its own name for it, or the camelCase of ours."""
    return str(field.metadata.get("wire") or _camel_case(field.name))


def _camel_case(name: str) -> str:
    if name == "meta":
        return "_meta"
    first, *rest = name.split("_")
    return first + "".join(word.capitalize() for word in rest)


def constants_of(cls: type) -> dict[str, str]:
    """The discriminators of a type as they are on the wire, such as ``{"type": "text"}``."""
    hints: dict[str, Any] = {}
    for base in reversed(cls.__mro__):
        hints.update(get_annotations(base))
    return {
        _camel_case(name): getattr(cls, name)
        for name, hint in hints.items()
        if get_origin(hint) is ClassVar and get_origin(get_args(hint)[0]) is Literal
    }


# --- Reading -------------------------------------------------------------------------------------

_KINDS: Final = {
    dict: "an object",
    list: "a list",
    str: "a string",
    bool: "a boolean",
    int: "an integer",
    float: "a number",
    NoneType: "null",
}


def _mismatch(expected: str, value: Any) -> StructureError:
    return StructureError(f"expected {expected}, not {_KINDS.get(type(value), type(value))}")


def _read_string(value: Any, _: Any) -> str:
    if type(value) is str:
        return value
    raise _mismatch("a string", value)


def _read_boolean(value: Any, _: Any) -> bool:
    if type(value) is bool:
        return value
    raise _mismatch("a boolean", value)


def _read_integer(value: Any, _: Any) -> int:
    if type(value) is int:
        return value
    if type(value) is float and value.is_integer():  # JSON has one kind of number: 5.0 is 5
        return int(value)
    raise _mismatch("an integer", value)


def _read_number(value: Any, _: Any) -> float:
    if type(value) is int or type(value) is float:
        return value
    raise _mismatch("a number", value)


def _read_anything(value: Any, _: Any) -> Any:
    return value


def _read_null(value: Any, _: Any) -> None:
    if value is not None:
        raise _mismatch("null", value)


def _literal_reader(hint: Any) -> Hook:
    choices = get_args(hint)
    expected = f"expected {' or '.join(map(repr, choices))}"

    def read_literal(value: Any, _: Any) -> Any:
        if type(value) is str and value in choices:
            return value
        raise StructureError(f"{expected}, not {value!r:.60}")

    return read_literal


def _list_reader(hint: Any) -> Hook:
    (item_type,) = get_args(hint)
    read = CONVERTER.get_structure_hook(item_type)

    def read_list(value: Any, _: Any) -> list[Any]:
        if type(value) is not list:
            raise _mismatch("a list", value)
        items: list[Any] = []
        try:
            for item in value:
                items.append(read(item, item_type))
        except StructureError as error:
            raise error.within(len(items)) from None
        return items

    return read_list


def _dict_reader(hint: Any) -> Hook:
    _, item_type = get_args(hint)
    read = CONVERTER.get_structure_hook(item_type)

    def read_dict(value: Any, _: Any) -> dict[str, Any]:
        if type(value) is not dict:
            raise _mismatch("an object", value)
        if item_type is Any:
            return value
        items = {}
        for key, item in value.items():
            try:
                items[key] = read(item, item_type)
            except StructureError as error:
                raise error.within(key) from None
        return items

    return read_dict


class _Field(NamedTuple):
    name: str
    hint: Any
    read: Hook
    optional: bool
    """Null means the same as being left out."""


def _without_null(hint: Any) -> Any:
    members = [member for member in get_args(hint) if member is not NoneType]
    return Union[tuple(members)]  # noqa: UP007 (made from values)


def _field(field: "attrs.Attribute[Any]") -> _Field:
    optional = field.default is None
    hint = _without_null(field.type) if optional else field.type
    return _Field(field.name, hint, CONVERTER.get_structure_hook(hint), optional)


def _own_fields(cls: type[Record]) -> list["attrs.Attribute[Any]"]:
    return [field for field in attrs.fields(cls) if field.name != "extra"]


def _required(cls: type[Record]) -> dict[str, str]:
    """The fields that must be there: wire name -> Python name."""
    return {wire_name(f): f.name for f in _own_fields(cls) if f.default is attrs.NOTHING}


def _record_reader(cls: type[Record]) -> Hook:
    fields = {wire_name(field): _field(field) for field in _own_fields(cls)}
    constants = constants_of(cls)
    required = _required(cls)

    def read_record(value: Any, _: Any) -> Record:
        if type(value) is not dict:
            raise _mismatch("an object", value)
        for key, constant in constants.items():
            if value.get(key, constant) != constant:
                raise StructureError(f"expected {constant!r}, not {value[key]!r:.60}", (key,))
            if key not in value and key not in cls.OPTIONAL_CONSTANTS:
                raise StructureError(f"{key!r} is missing; it must be {constant!r}")
        known: dict[str, Any] = {}
        extra: JSONObject = {}
        for key, item in value.items():
            field = fields.get(key)
            if field is None:
                if key not in constants:
                    extra[key] = item
            elif item is not None or not field.optional:
                try:
                    known[field.name] = field.read(item, field.hint)
                except StructureError as error:
                    raise error.within(key) from None
        for key, name in required.items():
            if name not in known:
                raise StructureError(f"{key!r} is missing")
        return cls(extra=extra, **known)

    return read_record


def _looks_like(cls: type[Record], value: Any) -> bool:
    """Whether the required fields are there, and those of the required fields."""
    return type(value) is dict and all(
        wire_name(field) in value
        and (not is_record(field.type) or _looks_like(field.type, value[wire_name(field)]))
        for field in _own_fields(cls)
        if field.default is attrs.NOTHING
    )


def _record_union_reader(members: list[type[Record]]) -> Hook:
    """Reads whichever member's discriminator is there; of several, whose required fields are there
    and which leaves the fewest fields unknown.

    Members without a discriminator take what no other member claims.
    """
    claims: dict[str, list[type[Record]]] = {}
    unclaimed = [member for member in members if not constants_of(member)]
    tag, unsaid = "", None
    for member in members:
        for tag, constant in constants_of(member).items():
            claims.setdefault(constant, []).append(member)
            unsaid = constant if tag in member.OPTIONAL_CONSTANTS else unsaid
    names = {member: {wire_name(field) for field in _own_fields(member)} for member in members}
    hooks = {member: CONVERTER.get_structure_hook(member) for member in members}

    def read_union(value: dict[str, Any], _: Any) -> Any:
        said = value.get(tag, unsaid)
        options = claims.get(said, unclaimed) if type(said) is str else unclaimed
        if not options:
            known = " or ".join(map(repr, claims))
            if said is None:
                raise StructureError(f"{tag!r} is missing; it must be {known}")
            raise StructureError(f"expected {known}, not {said!r:.60}", (tag,))
        if len(options) > 1:
            likely = [member for member in options if _looks_like(member, value)] or options[-1:]
            options = sorted(likely, key=lambda member: len(value.keys() - names[member]))
        return hooks[options[0]](value, options[0])

    return read_union


def _union_reader(hint: Any) -> Hook:
    """Reads a union by what kind of JSON value is there; objects by their discriminator."""
    members = get_args(hint)
    readers: dict[type, tuple[Hook, Any]] = {}
    records = [member for member in members if is_record(member)]
    if records:
        readers[dict] = (_record_union_reader(records), hint)
    for member in members:
        if member not in records:
            kind = get_origin(member) or member
            kind = str if kind is Literal else kind
            readers[kind] = (CONVERTER.get_structure_hook(member), member)
    for kind, other in ((int, float), (float, int)):  # JSON has one kind of number
        if kind in readers:
            readers.setdefault(other, readers[kind])
    expected = " or ".join(_KINDS[kind] for kind in readers)

    def read_union(value: Any, _: Any) -> Any:
        reader = readers.get(type(value))
        if reader is None:
            raise _mismatch(expected, value)
        read, member = reader
        return read(value, member)

    return read_union


# --- Writing -------------------------------------------------------------------------------------


def _holds_records(hint: Any) -> bool:
    return is_record(hint) or any(_holds_records(argument) for argument in get_args(hint))


def _record_writer(cls: type[Record]) -> Callable[[Any], JSONObject]:
    constants = constants_of(cls)
    fields = [
        (f.name, wire_name(f), _holds_records(f.type), f.default is None) for f in _own_fields(cls)
    ]

    def write_record(record: Record) -> JSONObject:
        written: JSONObject = dict(constants)
        for name, key, nested, optional in fields:
            value = getattr(record, name)
            if value is MISSING or (value is None and optional):
                continue
            written[key] = unstructure(value) if nested else value
        for key, value in record.extra.items():
            written.setdefault(key, value)
        return written

    return write_record


# --- The converter -------------------------------------------------------------------------------


def _has_origin(origins: tuple[Any, ...], hint: Any) -> bool:
    return get_origin(hint) in origins


def _make_converter() -> Converter:
    converter = Converter(detailed_validation=False)
    for primitive, read in (
        (str, _read_string),
        (bool, _read_boolean),
        (int, _read_integer),
        (float, _read_number),
        (NoneType, _read_null),
    ):
        converter.register_structure_hook(primitive, read)
    converter.register_structure_hook_func(lambda hint: hint is Any, _read_anything)
    for origins, factory in (
        ((Literal,), _literal_reader),
        ((list,), _list_reader),
        ((dict,), _dict_reader),
        ((Union, UnionType), _union_reader),
    ):
        converter.register_structure_hook_factory(partial(_has_origin, origins), factory)
    converter.register_structure_hook_factory(is_record, _record_reader)
    converter.register_unstructure_hook_factory(is_record, _record_writer)
    return converter


CONVERTER: Final = _make_converter()
