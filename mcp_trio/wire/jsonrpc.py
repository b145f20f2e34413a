"""JSON-RPC 2.0 as MCP uses it: JSON texts to messages and back.

`decode` turns one JSON text into one immutable value: a request, a notification, a response, an
error, a batch of these, or a statement of what is wrong with the text. It is total: whatever the
bytes are, it returns. `encode` is its inverse for messages and refuses, naming the place, whatever
JSON cannot carry.

What is strict here, and why:

- UTF-8 and JSON. NaN, Infinity and lone surrogates are no JSON, in either direction.
- Integers are exact, up to the 4,300 digits to which Python limits such conversions.
- Nesting is bounded by MAX_DEPTH, whatever stack the caller has left.
- Of duplicate keys in an object the last one wins.
- An id is a string or an integer. null, a boolean, and a number written with a fraction or an
  exponent are refused: to Python True and 1.0 equal 1, and the wrong call would be answered.
- Members that the envelope does not know are ignored.

A text that cannot be decoded may still be the answer to a call that somebody waits for, or a
request whose sender does; `Malformed` carries its id where that can be read for certain. Peers
written in JavaScript do send lone surrogates, so this is no rare case.
"""

from __future__ import annotations

import enum
from itertools import islice
from typing import Any, Final, NoReturn, TypeAlias

import attrs
import msgspec

from .recovery import elements, explain, recover
from .values import MAX_DEPTH, TOO_DEEP, base_value, find_fault, on_fresh_stack, too_deep

__all__ = [
    "INVALID_REQUEST",
    "JSON",
    "MAX_BATCH",
    "MAX_DEPTH",
    "MISSING",
    "PARSE_ERROR",
    "Batch",
    "EncodeError",
    "ErrorObject",
    "ErrorResponse",
    "JSONObject",
    "Malformed",
    "Message",
    "Missing",
    "Noise",
    "Notification",
    "Received",
    "Request",
    "RequestId",
    "Response",
    "decode",
    "encode",
]

RequestId: TypeAlias = str | int
JSON: TypeAlias = Any
"""What JSON can say: dict with str keys, list (or tuple), str, int, float, bool, None."""
JSONObject: TypeAlias = dict[str, JSON]

PARSE_ERROR: Final = -32700
INVALID_REQUEST: Final = -32600

MAX_BATCH: Final = 10_000
"""The most messages in one batch: without a bound a line of zeros makes millions of objects."""


# Messages -------------------------------------------------------------------------------------


class Missing(enum.Enum):
    """The type of MISSING."""

    MISSING = "MISSING"

    def __repr__(self) -> str:
        return "MISSING"

    def __bool__(self) -> bool:
        return False


MISSING: Final = Missing.MISSING
"""Says that an error has no data, where None says that its data is null."""


@attrs.frozen
class Request:
    """A call that expects a response with the same id."""

    id: RequestId
    method: str
    params: JSONObject | None = None


@attrs.frozen
class Notification:
    """A message that nobody answers."""

    method: str
    params: JSONObject | None = None


@attrs.frozen
class Response:
    """The result of the request with this id."""

    id: RequestId
    result: JSONObject


@attrs.frozen
class ErrorObject:
    """What went wrong: a code, a sentence, and anything else in `data` (MISSING if absent)."""

    code: int
    message: str
    data: JSON | Missing = MISSING


@attrs.frozen
class ErrorResponse:
    """The failure of the request with this id; None where the peer could not tell the id."""

    id: RequestId | None
    error: ErrorObject


Message: TypeAlias = Request | Notification | Response | ErrorResponse


def _clipped(line: bytes) -> str:
    return repr(line) if len(line) <= 80 else f"{line[:80]!r}... ({len(line)} bytes)"


@attrs.frozen
class Malformed:
    """A text that was meant as JSON-RPC and is not.

    `code` is PARSE_ERROR where it is no JSON and INVALID_REQUEST where it is JSON but no message.
    `id` is None where there is none, where it is of a wrong kind, and where it could not be
    recovered for certain. `is_request` says that a "method" stands at the top level, so that the
    sender may expect an answer; without one it may itself be the answer to a call. `line` is the
    text; for a bad message in a batch that is sound as JSON it is the whole batch.
    """

    code: int
    reason: str
    id: RequestId | None
    is_request: bool
    line: bytes = attrs.field(repr=_clipped)


@attrs.frozen
class Noise:
    """A line that was never meant as a message: a banner, a log line, a stray print."""

    line: bytes = attrs.field(repr=_clipped)


@attrs.frozen
class Batch:
    """Several messages in one array (legal in MCP 2025-03-26 only; the peer judges that)."""

    items: tuple[Message | Malformed, ...]


Received: TypeAlias = Message | Batch | Malformed | Noise


# Decoding -------------------------------------------------------------------------------------

_load = msgspec.json.Decoder().decode
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
_JSON_SPACE = b" \t\r\n"


def decode(line: bytes) -> Received:
    """Read one JSON text. Returns for any bytes and never raises.

    Noise is what is no JSON and does not start like a message: with `{`, or with `[` and then `{`
    (a bare `[` starts many a log line). A damaged batch is taken apart, so that one bad message in
    it does not cost the others.
    """
    try:
        # Few messages have room for that many brackets, and none need a closer look.
        if len(line) > MAX_DEPTH and too_deep(line):
            return _undecodable(line, TOO_DEEP)
        value = _load(line)
    except RecursionError:
        return _decode_apart(line)
    except (msgspec.MsgspecError, ValueError) as error:
        return _undecodable(line, explain(line, error))
    return _received(value, line)


def _decode_apart(line: bytes) -> Received:
    """Decode for a caller that has used up most of Python's stack."""
    try:
        return _received(on_fresh_stack(_load, line), line)
    except (msgspec.MsgspecError, ValueError) as error:
        return _undecodable(line, explain(line, error))
    except RecursionError:
        return _undecodable(line, "nested too deep for this program's recursion limit")


def _received(value: JSON, line: bytes) -> Received:
    if type(value) is dict:
        return _message(value, line)
    if type(value) is list:
        return _batch(value, line)
    reason = f"a message has to be an object, not {_kind(value)}"
    return Malformed(INVALID_REQUEST, reason, None, False, line)


def _batch(values: list[JSON], line: bytes) -> Batch | Malformed:
    if not 0 < len(values) <= MAX_BATCH:
        reason = f"a batch holds 1 to {MAX_BATCH} messages, not {len(values)}"
        return Malformed(INVALID_REQUEST, reason, None, False, line)
    return Batch(tuple(_batch_item(value, line) for value in values))


def _batch_item(value: JSON, line: bytes) -> Message | Malformed:
    if type(value) is dict:
        return _message(value, line)
    reason = f"a message in a batch has to be an object, not {_kind(value)}"
    return Malformed(INVALID_REQUEST, reason, None, False, line)


def _message(value: JSONObject, line: bytes) -> Message | Malformed:
    if value.get("jsonrpc") != "2.0":
        return _invalid('"jsonrpc" has to be "2.0"', value, line)
    if "method" in value:
        return _request(value, line)
    if value.get("error") is not None:
        return _error_response(value, line)
    if "result" not in value:
        return _invalid('there is no "method", "result" or "error"', value, line)
    identifier, result = value.get("id"), value["result"]
    if type(identifier) is not int and type(identifier) is not str:
        return _invalid(_BAD_ID + _kind_of("id", value), value, line)
    if type(result) is not dict:
        return _invalid(f'"result" has to be an object, not {_kind(result)}', value, line)
    return Response(identifier, result)


_BAD_ID = '"id" has to be a string or an integer, not '


def _request(value: JSONObject, line: bytes) -> Request | Notification | Malformed:
    method, params = value["method"], value.get("params")
    if type(method) is not str:
        return _invalid(f'"method" has to be a string, not {_kind(method)}', value, line)
    if type(params) is not dict and params is not None:
        return _invalid(f'"params" has to be an object, not {_kind(params)}', value, line)
    if value.get("result") is not None or value.get("error") is not None:
        return _invalid('"method" stands beside "result" or "error"', value, line)
    if "id" not in value:
        return Notification(method, params)
    identifier = value["id"]
    if type(identifier) is not int and type(identifier) is not str:
        return _invalid(_BAD_ID + _kind(identifier), value, line)
    return Request(identifier, method, params)


def _error_response(value: JSONObject, line: bytes) -> ErrorResponse | Malformed:
    identifier, error = value.get("id"), value["error"]
    if value.get("result") is not None:
        return _invalid('both "result" and "error" are set', value, line)
    if identifier is not None and type(identifier) is not int and type(identifier) is not str:
        return _invalid(_BAD_ID + _kind(identifier), value, line)
    if type(error) is not dict:
        return _invalid(f'"error" has to be an object, not {_kind(error)}', value, line)
    code, message = error.get("code"), error.get("message")
    if type(code) is not int:
        return _invalid(
            f'"error.code" has to be an integer, not {_kind_of("code", error)}', value, line
        )
    if type(message) is not str:
        return _invalid(
            f'"error.message" has to be a string, not {_kind_of("message", error)}', value, line
        )
    return ErrorResponse(identifier, ErrorObject(code, message, error.get("data", MISSING)))


def _invalid(reason: str, value: JSONObject, line: bytes) -> Malformed:
    identifier = value.get("id")
    if type(identifier) is not int and type(identifier) is not str:
        identifier = None
    return Malformed(INVALID_REQUEST, reason, identifier, "method" in value, line)


def _kind_of(key: str, value: JSONObject) -> str:
    return _kind(value[key]) if key in value else "absent"


def _kind(value: JSON) -> str:
    return _KINDS[type(value)]


_KINDS: dict[type, str] = {
    dict: "an object",
    list: "an array",
    str: "a string",
    int: "an integer",
    float: "a number with a fraction or an exponent",
    bool: "a boolean",
    type(None): "null",
}


def _undecodable(line: bytes, reason: str) -> Received:
    """What to make of a line that is no JSON."""
    if line.startswith(_BYTE_ORDER_MARK) and not line.startswith(_BYTE_ORDER_MARK * 2):
        return decode(line[len(_BYTE_ORDER_MARK) :])
    text = line.lstrip(_JSON_SPACE)
    if text.startswith(b"{"):
        return Malformed(PARSE_ERROR, reason, *recover(text), line)
    if text.startswith(b"[") and text[1:].lstrip(_JSON_SPACE).startswith(b"{"):
        return _damaged_batch(line, reason)
    if text.startswith(b"[") and reason == TOO_DEEP:
        return Malformed(PARSE_ERROR, reason, None, False, line)
    return Noise(line)


def _damaged_batch(line: bytes, reason: str) -> Batch | Malformed:
    pieces = list(islice(elements(line), MAX_BATCH + 1))
    if len(pieces) > MAX_BATCH:
        return Malformed(PARSE_ERROR, reason, None, False, line)
    items: list[Message | Malformed] = []
    for piece in pieces:
        # Only objects are decoded again, so this does not recurse into arrays of arrays.
        item = decode(piece) if piece.startswith(b"{") else None
        if item is None or isinstance(item, Batch | Noise):
            item = Malformed(PARSE_ERROR, reason, None, False, piece)
        items.append(item)
    return Batch(tuple(items))


# Encoding -------------------------------------------------------------------------------------

_dump = msgspec.json.Encoder(enc_hook=base_value).encode


class EncodeError(ValueError):
    """A message holds what JSON cannot carry; the text says where it stands and what it is."""


def encode(message: Message | Batch) -> bytes:
    """Write one message (or batch) as UTF-8 JSON on one line, without a newline at its end.

    Taken are dict (with str keys), list, tuple, str, int, float, bool, None, and subclasses of
    these, which are written as what they extend. Raises EncodeError for anything else, for NaN and
    Infinity, for lone surrogates, for nesting beyond MAX_DEPTH, and for what `decode` would refuse
    in the envelope.
    """
    value: JSONObject | list[JSONObject]
    if isinstance(message, Batch):
        value = [_envelope(item) for item in message.items]
        if not 0 < len(value) <= MAX_BATCH:
            _refuse(f"a batch holds 1 to {MAX_BATCH} messages, not {len(value)}")
    else:
        value = _envelope(message)
    try:
        text, doubtful = _written(value)
    except (TypeError, ValueError, RecursionError) as error:
        fault = find_fault(value)
        if fault or not isinstance(error, RecursionError):
            _refuse(fault or str(error))
        return on_fresh_stack(_written, value)[0]
    if doubtful and (fault := find_fault(value)):
        _refuse(fault)
    return text


def _written(value: JSON) -> tuple[bytes, bool]:
    """The text of `value`, and whether there is reason to doubt that it says what is meant.

    msgspec writes NaN as null, bytes as base64, a set as a list and the key 1 as "1". Reading the
    text back at its speed and comparing costs less than any search for these in Python.
    """
    text = _dump(value)
    return text, _load(text) != value or (len(text) > MAX_DEPTH and too_deep(text))


def _envelope(message: Message | Malformed) -> JSONObject:
    if isinstance(message, Response):
        if not isinstance(message.result, dict):
            _refuse(f"result has to be an object, not {type(message.result).__name__}")
        return {"jsonrpc": "2.0", "id": _checked(message.id), "result": message.result}
    if isinstance(message, ErrorResponse):
        members = _error_members(message.error)
        if message.id is None:  # left out, and not null: no schema of MCP has an id that is null
            return {"jsonrpc": "2.0", "error": members}
        return {"jsonrpc": "2.0", "id": _checked(message.id), "error": members}
    if isinstance(message, Malformed):
        _refuse("a malformed message cannot be sent on")
    envelope: JSONObject = {"jsonrpc": "2.0"}
    if isinstance(message, Request):
        envelope["id"] = _checked(message.id)
    envelope["method"] = message.method
    if message.params is not None:
        if not isinstance(message.params, dict):
            _refuse(f"params has to be an object, not {type(message.params).__name__}")
        envelope["params"] = message.params
    return envelope


def _checked(identifier: RequestId) -> RequestId:
    if type(identifier) is not int and type(identifier) is not str:
        _refuse(f"id has to be a string or an integer, not {type(identifier).__name__}")
    return identifier


def _error_members(error: ErrorObject) -> JSONObject:
    if type(error.code) is not int or not isinstance(error.message, str):
        _refuse("error needs an integer as its code and a string as its message")
    members: JSONObject = {"code": error.code, "message": error.message}
    if error.data is not MISSING:
        members["data"] = error.data
    return members


def _refuse(reason: str) -> NoReturn:
    raise EncodeError(f"cannot be sent as JSON: {reason}") from None
