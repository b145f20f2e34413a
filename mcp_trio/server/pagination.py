"""Lists that are handed out in pages.

Whatever is registered gets a serial number, and a cursor names the serial number that the last
page ended with. A position counted in entries would shift when an entry before it is removed;
this one does not, so a client that walks through a changing list sees every entry that was there
all the time exactly once. (MCP 2026-07-28, server/utilities/pagination)
"""

from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Callable, Iterator
from typing import Generic, TypeVar

import attrs

from mcp_trio.protocol.errors import INVALID_PARAMS, MCPError
from mcp_trio.wire.jsonrpc import JSONObject

T = TypeVar("T")


@attrs.define
class Registry(Generic[T]):
    """What a server offers of one kind, by name, in the order of registration.

    Args:
        noun: What an entry is called in error messages, such as "tool".
        changed: Called after every change.
    """

    noun: str
    changed: Callable[[], None]
    _entries: dict[str, T] = attrs.field(factory=dict)
    _serials: dict[str, int] = attrs.field(factory=dict)
    _last: int = 0

    def add(self, name: str, entry: T) -> None:
        """Register an entry; a name that is taken is a ValueError."""
        if name in self._entries:
            raise ValueError(f"There is a {self.noun} {name!r} already; remove that one first.")
        self._last += 1
        self._entries[name] = entry
        self._serials[name] = self._last
        self.changed()

    def remove(self, name: str) -> None:
        """Take an entry out; a name that is not there is a KeyError."""
        if name not in self._entries:
            raise KeyError(f"There is no {self.noun} {name!r}.")
        del self._entries[name], self._serials[name]
        self.changed()

    def get(self, name: str) -> T | None:
        return self._entries.get(name)

    def __iter__(self) -> Iterator[T]:
        return iter(self._entries.values())

    def __len__(self) -> int:
        return len(self._entries)

    def page(self, params: JSONObject, size: int | None) -> tuple[list[T], str | None]:
        """The entries after the cursor in `params`, at most `size`, and the next page's cursor.

        Raises:
            MCPError: -32602, the cursor is none that this list gave out.
        """
        cursor = params.get("cursor")
        start = 0 if cursor is None else self._read_cursor(cursor)
        if size is None and not start:
            return list(self._entries.values()), None
        # A copy, since a tool in a thread may just be adding another.
        after = [name for name, serial in list(self._serials.items()) if serial > start]
        shown = after if size is None else after[:size]
        entries = [self._entries[name] for name in shown]
        if len(shown) == len(after):
            return entries, None
        return entries, self._write_cursor(self._serials[shown[-1]])

    def _write_cursor(self, serial: int) -> str:
        return urlsafe_b64encode(f"{self.noun}:{serial}".encode()).decode().rstrip("=")

    def _read_cursor(self, cursor: object) -> int:
        """The serial number in a cursor, which must be one that `_write_cursor` can have made."""
        serial = _serial_in(cursor) if isinstance(cursor, str) else 0
        if not 0 < serial <= self._last or cursor != self._write_cursor(serial):
            text = "Invalid params: 'cursor' is none that this list gave out."
            raise MCPError(INVALID_PARAMS, text)
        return serial


def _serial_in(cursor: str) -> int:
    try:
        text = urlsafe_b64decode(cursor.encode("ascii") + b"===").decode("ascii")
        return int(text.rpartition(":")[2])
    except ValueError:
        return 0
