"""What a server says of the things it offers, in the spec's names."""

from collections.abc import Mapping
from typing import Any

from mcp_trio.wire.jsonrpc import JSONObject


def described(**fields: Any) -> JSONObject:
    """A definition of the fields that are not None, protocol types in wire form."""
    return {name: _plain(value) for name, value in fields.items() if value is not None}


def _plain(value: Any) -> Any:
    if isinstance(value, str | int | float):
        return value
    from mcp_trio.protocol.convert import unstructure

    return unstructure(list(value) if isinstance(value, tuple) else value)


def check_options(what: str, options: Mapping[str, object], known: type) -> None:
    """Refuse options that are none: of a `TypedDict` of keywords, only type checkers know.

    Raises:
        TypeError: Says which ones there are.
    """
    for name in options:
        if name not in known.__annotations__:
            raise TypeError(f"A {what} has no option {name!r}: {', '.join(known.__annotations__)}.")


def name_of(own: str | None, name: str | None, what: str) -> str:
    """The name to register a function under: as given, else the function's own.

    Raises:
        ValueError: There is none, as for a lambda.
    """
    found = own if name is None else name
    if not found:
        raise ValueError(f"This {what} needs a name; pass name=...")
    return found
