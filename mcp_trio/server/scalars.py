"""Types that JSON writes as a single string or number: one row for each.

A row says how the type looks in a schema, how it is read, how it is written, and how eager it is
to be chosen in a union: in ``str | date``, a string that is a date is a date. Reading is also what
checks the ``format`` of a schema, so that a text passes the schema exactly if it can be read.
"""

import base64
import datetime
import math
import pathlib
import re
import uuid
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import attrs
import msgspec

JSONObject = dict[str, Any]

# The order in which the options of a union are tried, where several accept the same value.
EXACT, FORMATTED, WHOLE, FRACTION, CLASS, TEXT, ANYTHING = range(7)


@attrs.frozen
class Scalar:
    """How a type is written in JSON; ``read`` None where the JSON value is the value itself."""

    schema: JSONObject
    rank: int
    read: Callable[[Any], Any] | None = None
    write: Callable[[Any], Any] | None = None


def read_float(value: int | float) -> float:
    try:
        return float(value)
    except OverflowError:  # an integer that no float can hold passes for one, as in Python's typing
        return value


def read_decimal(value: str | int | float) -> Decimal:
    return Decimal(repr(value) if isinstance(value, float) else value)


def read_bytes(text: str) -> bytes:
    """Bytes from base64: in either alphabet, with or without padding and line breaks."""
    compact = "".join(text.split()).translate(str.maketrans("-_", "+/")).rstrip("=")
    return base64.b64decode(compact + "=" * (-len(compact) % 4), validate=True)


def write_bytes(value: bytes | bytearray | memoryview) -> str:
    return base64.b64encode(value).decode("ascii")


def read_datetime(text: str) -> datetime.datetime:
    moment = msgspec.convert(text, datetime.datetime)
    if moment.tzinfo is None:
        raise ValueError("a date-time has to have an offset")
    return moment


def write_datetime(value: datetime.datetime) -> str:
    """RFC 3339; a time without a zone is local, as everywhere in Python."""
    return (value if value.tzinfo else value.astimezone()).isoformat()


def read_duration(text: str) -> datetime.timedelta:
    if weeks := re.fullmatch(r"P([0-9]{1,8})W", text):
        return datetime.timedelta(weeks=int(weeks[1]))
    return msgspec.convert(text, datetime.timedelta)


def _via_msgspec(kind: type) -> Callable[[str], Any]:
    return lambda text: msgspec.convert(text, kind)


def write_decimal(value: Decimal) -> str:
    if not value.is_finite():
        raise ValueError(f"{value} is not in JSON")
    return str(value)


def write_float(value: float) -> float:
    if not math.isfinite(value):
        raise ValueError(f"{value} is not in JSON")
    return value


CLOCK = r"([01][0-9]|2[0-3]):[0-5][0-9]"
TIME = rf"^{CLOCK}:[0-5][0-9](\.[0-9]{{1,9}})?(Z|[+-]{CLOCK})?$"
DECIMAL = r"^[+-]?([0-9]+(\.[0-9]*)?|\.[0-9]+)([eE][+-]?[0-9]{1,6})?$"

SCALARS: dict[Any, Scalar] = {
    type(None): Scalar({"type": "null"}, EXACT),
    bool: Scalar({"type": "boolean"}, EXACT),
    int: Scalar({"type": "integer"}, WHOLE, int),  # JSON Schema has 1.0 for an integer
    float: Scalar({"type": "number"}, FRACTION, read_float, write_float),
    str: Scalar({"type": "string"}, TEXT),
    bytes: Scalar(
        {"type": "string", "format": "byte", "contentEncoding": "base64"},
        TEXT,
        read_bytes,
        write_bytes,
    ),
    datetime.datetime: Scalar(
        {"type": "string", "format": "date-time"}, FORMATTED, read_datetime, write_datetime
    ),
    datetime.date: Scalar(
        {"type": "string", "format": "date"},
        FORMATTED,
        _via_msgspec(datetime.date),
        datetime.date.isoformat,
    ),
    datetime.time: Scalar(
        {"type": "string", "pattern": TIME},
        FORMATTED,
        _via_msgspec(datetime.time),
        datetime.time.isoformat,
    ),
    datetime.timedelta: Scalar(
        {"type": "string", "format": "duration"}, FORMATTED, read_duration, msgspec.to_builtins
    ),
    uuid.UUID: Scalar(
        {"type": "string", "format": "uuid"}, FORMATTED, _via_msgspec(uuid.UUID), str
    ),
    Decimal: Scalar(
        {"type": ["string", "number"], "pattern": DECIMAL}, FRACTION, read_decimal, write_decimal
    ),
    pathlib.Path: Scalar({"type": "string"}, TEXT, pathlib.Path, str),
    pathlib.PurePath: Scalar({"type": "string"}, TEXT, pathlib.PurePath, str),
    pathlib.PurePosixPath: Scalar({"type": "string"}, TEXT, pathlib.PurePosixPath, str),
    Any: Scalar({}, ANYTHING),
    object: Scalar({}, ANYTHING),
}


def _can(read: Callable[[str], Any]) -> Callable[[str], bool]:
    def check(text: str) -> bool:
        try:
            read(text)
        except (ValueError, ArithmeticError, msgspec.MsgspecError):
            return False
        return True

    return check


FORMATS: dict[str, Callable[[str], bool]] = {
    scalar.schema["format"]: _can(scalar.read)
    for scalar in SCALARS.values()
    if "format" in scalar.schema and scalar.read is not None
}
