"""Python values as JSON, by the same rules by which `mcp_trio.server.schemas` describes them."""

from collections import deque
from collections.abc import Callable, Mapping
from enum import Enum, Flag
from functools import lru_cache
from typing import Any

from mcp_trio.protocol.convert import show_path, unstructure
from mcp_trio.protocol.types.base import Record
from mcp_trio.server.records import is_record, written_fields
from mcp_trio.server.scalars import SCALARS, write_bytes, write_float

PLAIN = (str, int, bool, type(None))


class NotJSONError(TypeError):
    """A Python value that JSON has nothing for; says where in the whole it is."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason
        self.path: tuple[str | int, ...] = ()

    def __str__(self) -> str:
        return f"{show_path(self.path)}: {self.reason}" if self.path else self.reason


def to_json(value: Any) -> Any:
    """A value as ``dict``, ``list``, ``str``, ``int``, ``float``, ``bool`` and ``None``.

    Objects become objects of their fields, sets become lists in a fixed order, bytes become base64.
    Raises `NotJSONError` for NaN, infinities, types that are unknown here and values that are
    nested too deeply, or in themselves.
    """
    try:
        return _json(value)
    except RecursionError:
        raise NotJSONError("it is nested too deeply") from None


def _json(value: Any) -> Any:
    kind = value.__class__
    if kind in PLAIN:
        return value
    if kind is list or kind is tuple:
        return _items(value)
    if kind is dict:
        return _members(value)
    try:
        return _writer(kind)(value)
    except (ValueError, OverflowError) as error:
        raise NotJSONError(str(error)) from None


def _items(values: Any) -> list[Any]:
    written: list[Any] = []
    try:
        for item in values:
            written.append(_json(item))
    except NotJSONError as error:
        error.path = (len(written), *error.path)
        raise
    return written


def _members(mapping: Mapping[Any, Any]) -> dict[str, Any]:
    written = {}
    for key, value in mapping.items():
        name = key if type(key) is str else _key(key)
        try:
            written[name] = _json(value)
        except NotJSONError as error:
            error.path = (name, *error.path)
            raise
    return written


def _key(key: Any) -> str:
    name = _json(key)
    if type(name) is int:
        return str(name)
    if type(name) is not str:
        raise NotJSONError(f"the key {key!r} is no string")
    return name


def _set(values: Any) -> list[Any]:
    return sorted(_items(values), key=repr)


def enum_values(kind: type[Enum]) -> dict[Enum, Any]:
    """The members of an enumeration and what stands for them: their values, else their names."""
    members = list(kind)
    plain = all(type(member.value) in (*PLAIN, float) for member in members)
    return {member: member.value if plain else member.name for member in members}


def _enum_writer(kind: type[Enum]) -> Callable[[Any], Any]:
    if issubclass(kind, Flag):
        return lambda value: value.value
    return enum_values(kind).__getitem__


def _record_writer(kind: type) -> Callable[[Any], Any]:
    fields = written_fields(kind)

    def write(value: Any) -> dict[str, Any]:
        return _members({key: getattr(value, name) for name, key in fields if hasattr(value, name)})

    return write


# Looked up from the top for types that are no rows of SCALARS.
FAMILIES: tuple[tuple[type | tuple[type, ...], Callable[[Any], Any]], ...] = (
    (Mapping, _members),
    ((set, frozenset), _set),
    ((list, tuple, deque, range), _items),
    ((bytes, bytearray, memoryview), write_bytes),
    (str, str),
    (int, int),
    (float, lambda value: write_float(float(value))),
)


@lru_cache(maxsize=1024)
def _writer(kind: type) -> Callable[[Any], Any]:
    if issubclass(kind, Record):
        return unstructure
    if issubclass(kind, Enum):
        return _enum_writer(kind)
    if is_record(kind):
        return _record_writer(kind)
    for known in kind.__mro__[:-1]:
        if known in SCALARS and (write := SCALARS[known].write):
            return write
    for family, write in FAMILIES:
        if issubclass(kind, family):
            return write

    def refuse(_: Any) -> Any:
        raise NotJSONError(f"objects of the class {kind.__qualname__} cannot be written as JSON")

    return refuse
