"""What can be said about serving over HTTP."""

from collections.abc import Awaitable, Callable, Collection
from typing import Any, TypeAlias, TypedDict

import attrs

from mcp_trio.server.http.events import EventStore, MemoryEventStore
from mcp_trio.transports.http_exchange import HTTPRequest

#: Says who sends a request, or raises `AuthorizationRequired`.
Authenticate: TypeAlias = Callable[[HTTPRequest], object | Awaitable[object]]


class HTTPOptions(TypedDict, total=False):
    """Options of `Server.serve_http` and `Server.asgi_app`. Times are in seconds.

    path: Where the endpoint is, with or without a slash at its end; "/mcp" by default.
    hosts: Names by which the server is reached besides those of this computer, such as
        "example.com" (any port) or "example.com:8443"; "*" for any. Requests for other names are
        refused: without that, any web page could talk to a server on localhost.
    origins: Web pages that may connect besides those of this computer, such as
        "https://example.com"; "*" for all. Programs that are no browsers may always.
    authenticate: Called with each `HTTPRequest`, returns (or is awaited for) the principal, which
        is `Context.principal` in handlers; None for nobody in particular. It raises
        `AuthorizationRequired(reason, 401, challenge)`, or with 403, to refuse. Sessions are
        closed to other principals than the one that opened them.
    stateless: Serve legacy clients without sessions, each request for itself. Several processes
        can then share the work, but no client can be asked anything or hear of changes.
    session_idle: How long a legacy session is kept when its client neither sends anything nor
        listens; half an hour by default.
    max_sessions: Legacy sessions at a time, 10,000 by default. Beyond it the one that has been
        idle longest is ended.
    event_store: Keeps what was sent to legacy clients, for those that lost the connection; in
        memory and bounded by default.
    keep_alive: The longest silence on a stream: then a comment is sent; 15 by default.
    sse_path: Where clients of 2024-11-05 connect (HTTP+SSE), usually "/sse"; None, the default,
        for not serving them.
    messages_path: Where those clients post their messages; "/messages" by default.
    """

    path: str
    hosts: Collection[str]
    origins: Collection[str]
    authenticate: Authenticate | None
    stateless: bool
    session_idle: float
    max_sessions: int
    event_store: EventStore
    keep_alive: float
    sse_path: str | None
    messages_path: str


def _route(path: str) -> str:
    if not path.startswith("/"):
        raise ValueError(f"a path has to start with a slash, not {path!r}")
    return path.rstrip("/")


def _optional_route(path: str | None) -> str | None:
    return None if path is None else _route(path)


def _other_route(settings: "Settings", attribute: "attrs.Attribute[Any]", path: str | None) -> None:
    taken = {settings.path} if attribute.name == "sse_path" else {settings.path, settings.sse_path}
    if settings.sse_path is not None and path in taken:
        raise ValueError(f"{attribute.name} has to be a path of its own, not {path!r}")


def _names(names: Collection[str]) -> frozenset[str]:
    if isinstance(names, str):
        raise ValueError(f"hosts and origins are lists, such as [{names!r}]")
    return frozenset(names)


def _positive(_settings: object, attribute: "attrs.Attribute[Any]", value: float) -> None:
    if not value > 0:
        raise ValueError(f"{attribute.name} has to be more than 0, not {value}")


@attrs.frozen(kw_only=True)
class Settings:
    """`HTTPOptions` with their defaults, checked. Paths have no slash at their end here."""

    path: str = attrs.field(default="/mcp", converter=_route)
    hosts: Collection[str] = attrs.field(default=(), converter=_names)
    origins: Collection[str] = attrs.field(default=(), converter=_names)
    authenticate: Authenticate | None = None
    stateless: bool = False
    session_idle: float = attrs.field(default=1800.0, validator=_positive)
    max_sessions: int = attrs.field(default=10_000, validator=_positive)
    event_store: EventStore = attrs.field(factory=MemoryEventStore)
    keep_alive: float = attrs.field(default=15.0, validator=_positive)
    sse_path: str | None = attrs.field(
        default=None, converter=_optional_route, validator=_other_route
    )
    messages_path: str = attrs.field(default="/messages", converter=_route, validator=_other_route)
