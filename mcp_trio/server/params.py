"""Reading the parameters of a request, with errors that name the field.

Parameters arrive as plain dicts and handlers read the few fields that they need straight from
them. Making typed objects of whole requests would cost more than most handlers do.
"""

from typing import Any, TypeVar

from mcp_trio.protocol.errors import INVALID_PARAMS, MCPError
from mcp_trio.wire.jsonrpc import JSONObject

T = TypeVar("T")

_KINDS = {
    str: "a string",
    dict: "an object",
    list: "a list",
    int: "an integer",
    float: "a number",
    bool: "a boolean",
    type(None): "null",
}


def invalid(field: str, expected: str, value: Any = None) -> MCPError:
    """The error for a parameter that is missing (None) or of a wrong type."""
    found = "missing" if value is None else _KINDS.get(type(value), type(value).__name__)
    return MCPError(INVALID_PARAMS, f"Invalid params: {field!r} must be {expected}; it is {found}.")


def required(params: JSONObject, key: str, kind: type[T], inside: str = "") -> T:
    """The value at `key`, which must be of JSON type `kind`; `inside` names the object it is in.

    Raises:
        MCPError: -32602, the field is missing or of another type.
    """
    value = params.get(key)
    if type(value) is not kind:
        raise invalid(f"{inside}{key}", _KINDS[kind], value)
    return value


def optional(params: JSONObject, key: str, kind: type[T], inside: str = "") -> T | None:
    """Like `required`, but None where the field is missing or null."""
    return None if params.get(key) is None else required(params, key, kind, inside)


def strings(params: JSONObject, key: str, inside: str = "") -> dict[str, str]:
    """The object of strings at `key`; empty where it is missing or null."""
    found = optional(params, key, dict, inside) or {}
    for name, value in found.items():
        if type(value) is not str:
            raise invalid(f"{inside}{key}.{name}", "a string", value)
    return found
