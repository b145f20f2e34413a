"""Roots: the folders that a client lets a server work in."""

import attrs

from mcp_trio.protocol.types.base import JSONObject, Record, Result


@attrs.frozen(repr=False)
class Root(Record):
    """A folder or file: a ``file:`` URI."""

    uri: str
    name: str | None = None
    meta: JSONObject | None = attrs.field(default=None, kw_only=True)


@attrs.frozen(repr=False)
class ListRootsResult(Result):
    """All roots."""

    roots: list[Root]
