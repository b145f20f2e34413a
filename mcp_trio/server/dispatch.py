"""From a request to its handler and back: the rules that hold for every method.

A server of both eras looks at each request by itself. If its `_meta` names a protocol version, it
is modern and says everything about itself; else it is legacy, and what it does not say was said
in `initialize`. From there on there is one path:

    era and version ─▶ route ─▶ (asking ─▶ (middleware ─▶ (handler))) ─▶ fitted result

What differs between revisions comes from the tables in `mcp_trio.protocol`: which methods there
are, which results may be cached, which may ask back, what a result may carry.
"""

from collections.abc import Awaitable, Callable, Coroutine, Iterable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, Literal

import attrs
import trio

from mcp_trio.incoming import IncomingRequest
from mcp_trio.protocol import meta as keys
from mcp_trio.protocol.correlation import is_request_id
from mcp_trio.protocol.errors import (
    INVALID_PARAMS,
    INVALID_REQUEST,
    METHOD_NOT_FOUND,
    MCPError,
)
from mcp_trio.protocol.fit import fit_result
from mcp_trio.protocol.methods import METHODS, find_method
from mcp_trio.protocol.negotiation import RequestMeta, answer_initialize, read_request_meta
from mcp_trio.protocol.revisions import LEGACY, MODERN, REVISIONS
from mcp_trio.server.asking import run_asking
from mcp_trio.server.context import Context
from mcp_trio.server.params import invalid, optional
from mcp_trio.server.session import RequestInfo, Session
from mcp_trio.wire.jsonrpc import JSONObject

if TYPE_CHECKING:
    from mcp_trio.server.app import Server

#: Answers a request with a result in wire form; raises `MCPError` to answer with an error.
Work = Callable[[Context, JSONObject], Awaitable[JSONObject]]
#: What a middleware calls, with the params, to have the request answered.
Proceed = Callable[[JSONObject], Awaitable[JSONObject]]
#: Stands between every request and its handler.
Middleware = Callable[[Context, JSONObject, Proceed], Awaitable[JSONObject]]

#: Legacy requests that change the session: one after the other, in the order of the wire.
IN_ORDER = frozenset(
    ("initialize", "logging/setLevel", "resources/subscribe", "resources/unsubscribe")
)
#: What a legacy client that has not chosen a level hears of.
DEFAULT_LOG_LEVEL = "info"


@attrs.frozen
class CacheHint:
    """How long a modern client may keep a result, and whether others may see it.

    Attributes:
        ttl: Seconds that the result may be considered fresh; 0 for none at all.
        scope: "private" where the result depends on who asks, "public" where all get the same.
    """

    ttl: float = attrs.field(default=0.0, validator=attrs.validators.ge(0))
    scope: Literal["private", "public"] = attrs.field(
        default="private", validator=attrs.validators.in_(("private", "public"))
    )

    def fields(self) -> JSONObject:
        """The hint as it stands in a result."""
        return {"ttlMs": round(self.ttl * 1000), "cacheScope": self.scope}


@attrs.frozen
class Route:
    """What becomes of one method in one revision.

    Attributes:
        may_ask: Whether the result may be a question, by the protocol.
        can_ask: Whether the handler of a request with these params takes the context, without
            which it cannot ask.
        hint: The fields of the cache hint.
    """

    method: str
    work: Work
    may_ask: bool
    can_ask: Callable[[JSONObject], bool]
    hint: JSONObject


class Dispatcher:
    """Answers the requests of all connections of one server.

    Args:
        server: Handed to handlers inside their `Context`.
        versions: The revisions to serve.
        builtin: What answers the methods of the protocol.
        hints: The cache hints of methods whose results may be cached.
        can_ask: What is known of a method's handlers; see `Route`.
    """

    def __init__(
        self,
        server: "Server",
        versions: Iterable[str],
        builtin: Mapping[str, Work],
        hints: Mapping[str, CacheHint],
        can_ask: Mapping[str, Callable[[JSONObject], bool]],
    ) -> None:
        self.versions = _known(versions)
        self.legacy = tuple(version for version in self.versions if version in LEGACY)
        self.modern = tuple(version for version in self.versions if version in MODERN)
        self.middleware: list[Middleware] = []
        self._server = server
        self._handlers = dict(builtin)
        self._hints = _checked(hints)
        self._can_ask = dict(can_ask)
        self._stamp = {keys.SERVER_INFO: {"name": server.name, "version": server.version}}
        self._routes: dict[str, dict[str, Route]] = {}
        self._route_all()

    def add(self, method: str, work: Work) -> None:
        """Answer `method` from now on; a built-in handler of that method gives way."""
        self._handlers[method] = work
        self._can_ask.pop(method, None)
        self._route_all()

    def _route_all(self) -> None:
        self._routes = {
            version: {
                method: self._route(method, work)
                for method, work in self._handlers.items()
                if method not in METHODS or find_method(method, "client", version)
            }
            for version in self.versions
        }

    def _route(self, method: str, work: Work) -> Route:
        row = METHODS.get(method)
        if row is None:
            return Route(method, work, may_ask=False, can_ask=_can, hint={})
        hint = self._hints.get(method, CacheHint()).fields() if row.cacheable else {}
        return Route(method, work, row.may_ask, self._can_ask.get(method, _can), hint)

    def answer(
        self,
        incoming: IncomingRequest,
        session: Session,
        lifespan: Any,
        *,
        stated: RequestMeta | None = None,
    ) -> Coroutine[Any, Any, JSONObject]:
        """Answer one request with a result that its revision can carry.

        `stated` is what a modern request says of its client, where the transport has looked into
        its `_meta` already: over HTTP it has to agree with the headers.

        Raises:
            MCPError: The answer is this error.
        """
        answering = self._answer(incoming, session, lifespan, stated)
        return _settling(answering, session) if incoming.method == "initialize" else answering

    async def _answer(
        self,
        incoming: IncomingRequest,
        session: Session,
        lifespan: Any,
        stated: RequestMeta | None,
    ) -> JSONObject:
        params = incoming.params
        meta = optional(params, "_meta", dict) or {}
        if stated is None and self.modern and keys.PROTOCOL_VERSION in meta:
            stated = read_request_meta(params, self.modern)
        if stated is not None:
            info = _modern_info(stated, meta, session)
        else:
            info = await self._legacy_info(incoming, meta, session)
            if incoming.method in IN_ORDER:
                await _wait_for_turn(incoming)
        route = self.find_route(incoming.method, info.version)
        if route is None:
            raise MCPError(METHOD_NOT_FOUND, f"Unknown method: {incoming.method}")
        ctx = Context(incoming, info, self._server, lifespan)
        proceed: Proceed = partial(route.work, ctx)
        for middleware in reversed(self.middleware):
            proceed = partial(_pass_through, middleware, ctx, proceed)
        if route.may_ask and info.modern and self._asks(route, params):
            work = partial(proceed, params)
            result = await run_asking(ctx, params, work, self._server.state_keys)
        else:
            result = await proceed(params)
        return self.finish(route, result, info)

    def _asks(self, route: Route, params: JSONObject) -> bool:
        """Whether there may be a question, or what came back of an earlier one.

        Being ready for that costs a fifth of a call to a tool that just computes something.
        """
        returned = "requestState" in params or "inputResponses" in params
        return returned or bool(self.middleware) or route.can_ask(params)

    async def _legacy_info(
        self, incoming: IncomingRequest, meta: JSONObject, session: Session
    ) -> RequestInfo:
        version = session.version
        if incoming.method == "initialize":
            await trio.lowlevel.checkpoint()  # requests that arrived before it go first
            version = answer_initialize(incoming.params.get("protocolVersion"), self.versions)
        elif version is None:
            version = await self._version_before_initialize(incoming, session)
        return RequestInfo(
            version=version,
            modern=False,
            client_info=session.client_info,
            client_capabilities=session.client_capabilities,
            log_level=session.log_level or DEFAULT_LOG_LEVEL,
            progress_token=_progress_token(meta),
            session=session,
        )

    async def _version_before_initialize(self, incoming: IncomingRequest, session: Session) -> str:
        await _wait_for_initialize(incoming, session)
        if session.version is not None:
            return session.version
        row = METHODS.get(incoming.method)
        if row is not None and row.early and self.legacy:
            return self.legacy[-1]
        raise self._not_initialized()

    def _not_initialized(self) -> MCPError:
        need = f"name a protocol version in _meta ({keys.PROTOCOL_VERSION})"
        if not self.legacy:
            return MCPError(INVALID_PARAMS, f"Invalid params: a request must {need}.")
        if not self.modern:
            return MCPError(INVALID_REQUEST, "Send initialize first.")
        return MCPError(INVALID_PARAMS, f"Send initialize first, or {need} in each request.")

    def find_route(self, method: str, version: str) -> Route | None:
        """What becomes of a method in one revision; None where it is not known there."""
        return self._routes[version].get(method)

    def finish(self, route: Route, result: JSONObject, info: RequestInfo) -> JSONObject:
        """A result as its revision can carry it, with what every result of the era has."""
        fitted = fit_result(route.method, result, info.version)
        if not info.modern:
            return fitted
        finished: JSONObject = {"resultType": "complete"}
        if fitted.get("resultType", "complete") == "complete":
            finished.update(route.hint)
        finished.update(fitted)
        meta = fitted.get("_meta")
        finished["_meta"] = {**self._stamp, **meta} if meta else self._stamp
        return finished


def _modern_info(stated: RequestMeta, meta: JSONObject, session: Session) -> RequestInfo:
    """What a modern request says of itself (MCP 2026-07-28, basic/index, `_meta`)."""
    return RequestInfo(
        version=stated.version,
        modern=True,
        client_info=stated.client_info,
        client_capabilities=stated.capabilities,
        log_level=stated.log_level,
        progress_token=_progress_token(meta),
        session=session,
    )


def _can(_params: JSONObject) -> bool:
    return True


def _known(versions: Iterable[str]) -> tuple[str, ...]:
    """The revisions to serve, oldest first; a ValueError for one that there is not, or none."""
    wanted = set(versions)
    if unknown := wanted - set(REVISIONS):
        raise ValueError(f"There are no protocol versions {', '.join(sorted(unknown))}.")
    if not wanted:
        raise ValueError("A server needs at least one protocol version.")
    return tuple(version for version in REVISIONS if version in wanted)


def _checked(hints: Mapping[str, CacheHint]) -> Mapping[str, CacheHint]:
    for method in hints:
        if method not in METHODS or not METHODS[method].cacheable:
            cacheable = [row.name for row in METHODS.values() if row.cacheable]
            raise ValueError(
                f"Results of {method} are not cacheable; those of {', '.join(cacheable)} are."
            )
    return hints


async def _settling(answering: Coroutine[Any, Any, JSONObject], session: Session) -> JSONObject:
    """Answer an `initialize`, and tell who waits for that; where it fails, another may follow."""
    try:
        return await answering
    finally:
        settled = session.settled
        if session.version is None:
            session.settled = trio.Event()
        settled.set()


async def _pass_through(
    middleware: Middleware, ctx: Context, proceed: Proceed, params: JSONObject
) -> JSONObject:
    return await middleware(ctx, params, proceed)


async def _wait_for_initialize(incoming: IncomingRequest, session: Session) -> None:
    """Wait for an `initialize` that arrived before this request and is not answered yet.

    A client may pipe its whole conversation into the server at once. Which of the requests gets
    to run first is up to the scheduler, but the order on the wire is what counts.
    """
    for earlier in incoming.peer.serving:
        if earlier is incoming:
            return
        while earlier.method == "initialize" and not earlier.answered and session.version is None:
            await session.settled.wait()


async def _wait_for_turn(incoming: IncomingRequest) -> None:
    """Wait for the last request before this one that changes the session, too.

    A client that takes back a subscription at once would otherwise keep it every other time.
    """
    before: IncomingRequest | None = None
    for earlier in incoming.peer.serving:
        if earlier is incoming:
            break
        if earlier.method in IN_ORDER:
            before = earlier
    if before is not None:
        await before.wait_over()


def _progress_token(meta: JSONObject) -> Any:
    token = meta.get(keys.PROGRESS_TOKEN)
    if token is not None and not is_request_id(token):
        raise invalid(f"_meta.{keys.PROGRESS_TOKEN}", "a string or an integer", token)
    return token
