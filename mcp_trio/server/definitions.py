"""What a server says of the things it offers, in the spec's names."""

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


def name_of(own: str | None, name: str | None, what: str) -> str:
    """The name to register a function under: as given, else the function's own.

    Raises:
        ValueError: There is none, as for a lambda.
    """
    found = own if name is None else name
    if not found:
        raise ValueError(f"This {what} needs a name; pass name=...")
    return found
