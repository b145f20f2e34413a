"""What all types of the protocol have in common.

A type of the protocol is an immutable attrs class that spans all revisions: a field which some
revision lacks is optional. In Python its fields are snake_case; on the wire they have the spec's
names (see `mcp_trio.protocol.convert`). Three rules hold everywhere:

* An optional field that is None is not on the wire. A *required* field that is None is null there.
  Where null and "absent" mean different things, the default is `MISSING`.
* A discriminator such as ``"type": "text"`` is a class constant, written to the wire and checked
  when read.
* Fields that this package does not know stay in ``extra`` and go back on the wire, so that nothing
  that a newer peer says is lost on the way through.
"""

from typing import Any, ClassVar, Final, Literal, TypeAlias, get_args

import attrs

from mcp_trio.protocol import meta as keys
from mcp_trio.wire.jsonrpc import MISSING

JSON: TypeAlias = Any
"""Any JSON value, as Python's own types."""
JSONObject: TypeAlias = dict[str, Any]
"""A JSON object."""

Role: TypeAlias = Literal["user", "assistant"]
ProgressToken: TypeAlias = str | int
RequestId: TypeAlias = str | int
Cursor: TypeAlias = str
CacheScope: TypeAlias = Literal["public", "private"]
LoggingLevel: TypeAlias = Literal[
    "debug", "info", "notice", "warning", "error", "critical", "alert", "emergency"
]
LOGGING_LEVELS: Final[tuple[str, ...]] = get_args(LoggingLevel)
"""The levels, least severe first (RFC 5424)."""


@attrs.frozen(repr=False)
class Record:
    """The base of every type: keeps what it does not know, and prints only what is set."""

    extra: JSONObject = attrs.field(factory=dict, kw_only=True)

    OPTIONAL_CONSTANTS: ClassVar[tuple[str, ...]] = ()
    """Class constants that the wire may leave out."""

    def __repr__(self) -> str:
        names = [field.name for field in attrs.fields(type(self)) if field.name != "extra"]
        shown = [
            f"{name}={value!r}"
            for name in names
            if (value := getattr(self, name)) is not None and value is not MISSING
        ]
        if self.extra:
            shown.append(f"extra={self.extra!r}")
        return f"{type(self).__name__}({', '.join(shown)})"


@attrs.frozen(repr=False)
class Annotations(Record):
    """Who content is for and how much it matters; a hint.

    ``priority`` goes from 0 (least) to 1 (required); ``last_modified`` is an ISO 8601 time.
    """

    audience: list[Role] | None = None
    priority: float | None = None
    last_modified: str | None = None


@attrs.frozen(repr=False)
class Icon(Record):
    """A picture for people: an ``https:`` or ``data:`` URI. Its bytes are not to be trusted."""

    src: str
    mime_type: str | None = None
    sizes: list[str] | None = None
    theme: Literal["light", "dark"] | None = None


@attrs.frozen(repr=False)
class Implementation(Record):
    """The name and version of the program at one end, as it says itself."""

    name: str
    version: str
    title: str | None = None
    description: str | None = None
    website_url: str | None = None
    icons: list[Icon] | None = None


@attrs.frozen(repr=False)
class RequestParams(Record):
    """Parameters of a request that has none of its own."""

    meta: JSONObject | None = attrs.field(default=None, kw_only=True)


@attrs.frozen(repr=False)
class PaginatedRequestParams(RequestParams):
    """Parameters of a list request; ``cursor`` is the ``next_cursor`` of the page before."""

    cursor: Cursor | None = None


@attrs.frozen(repr=False)
class NotificationParams(Record):
    """Parameters of a notification that has none of its own."""

    meta: JSONObject | None = attrs.field(default=None, kw_only=True)


@attrs.frozen(repr=False)
class Result(Record):
    """The result of a request that has nothing to say but "done"; the base of all others.

    ``result_type`` is ``"complete"`` in the modern era, absent before.
    """

    meta: JSONObject | None = attrs.field(default=None, kw_only=True)
    result_type: str | None = attrs.field(default=None, kw_only=True)


EmptyResult: TypeAlias = Result


@attrs.frozen(repr=False)
class CacheableResult(Result):
    """A result that stays fresh for ``ttl_ms`` milliseconds, and says who may share it."""

    ttl_ms: int | None = attrs.field(default=None, kw_only=True)
    cache_scope: CacheScope | None = attrs.field(default=None, kw_only=True)


@attrs.frozen(repr=False)
class PaginatedResult(Result):
    """One page of a list; ``next_cursor`` is None on the last one."""

    next_cursor: Cursor | None = attrs.field(default=None, kw_only=True)


@attrs.frozen(repr=False)
class CacheablePage(CacheableResult):
    """One page of a list that may be cached."""

    next_cursor: Cursor | None = attrs.field(default=None, kw_only=True)


@attrs.frozen(repr=False)
class InputResponseRequestParams(RequestParams):
    """Parameters of a request that may come again with the input that its result asked for.

    ``input_responses`` holds the answers in wire form, by the key of each question;
    ``request_state`` is the server's, echoed exactly (MCP 2026-07-28, basic/patterns/mrtr).
    """

    input_responses: dict[str, JSONObject] | None = attrs.field(default=None, kw_only=True)
    request_state: str | None = attrs.field(default=None, kw_only=True)


def _wire(name: str) -> dict[str, str]:
    return {"wire": name}


@attrs.frozen(repr=False)
class NotificationMetaObject(Record):
    """The ``_meta`` of a modern notification."""

    subscription_id: RequestId | None = attrs.field(
        default=None, metadata=_wire(keys.SUBSCRIPTION_ID)
    )


@attrs.frozen(repr=False)
class ResultMetaObject(Record):
    """The ``_meta`` of a modern result."""

    server_info: Implementation | None = attrs.field(default=None, metadata=_wire(keys.SERVER_INFO))
