"""Every HTTP request that reaches a server: may it come in, whose is it, and in which era.

The order in which things are judged is part of the protocol, and of what an attacker learns:

1. Host and Origin: is this for us, and from a web page that may ask? (421, 403)
2. Authentication: who asks? (401, 403)
3. The session, where one is named: a client whose session is gone has to hear just that, whatever
   else may be wrong with its request. (404)
4. Content-Type and Accept. (415, 406)
5. The body, and with it the era: a request is modern if its header or its body names a modern
   version, else it is legacy. (400)
"""

import inspect
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, TypeAlias, Unpack

import attrs

from mcp_trio.connection import open_private_nursery
from mcp_trio.exceptions import AuthorizationRequired
from mcp_trio.incoming import sole_exception
from mcp_trio.peer import Peer
from mcp_trio.protocol.errors import INVALID_REQUEST
from mcp_trio.server.http.direct import nobody
from mcp_trio.server.http.endpoint import Endpoint
from mcp_trio.server.http.old_sse import OldSSEEndpoints
from mcp_trio.server.http.options import HTTPOptions, Settings
from mcp_trio.server.http.replies import Refused, logger
from mcp_trio.server.http.visit import Visit
from mcp_trio.transports.http_exchange import Exchange, HTTPRequest
from mcp_trio.transports.origins import is_host_allowed, is_origin_allowed

if TYPE_CHECKING:
    from mcp_trio.server.app import Running, Server

_Route: TypeAlias = Callable[[Visit], Awaitable[None]]


class HTTPHandler:
    """Answers HTTP requests for one server: a `Handle` of `transports.http_exchange`.

    Args:
        server: The server.
        names: What it goes by because of where it listens, besides the option `hosts`.
        options: See `HTTPOptions`.
    """

    def __init__(
        self, server: "Server", names: Iterable[str] = (), **options: Unpack[HTTPOptions]
    ) -> None:
        self._server = server
        self._settings = settings = Settings(**options)
        self._hosts = {*settings.hosts, *names}
        self._endpoint = Endpoint(server, settings)
        self._old_sse = OldSSEEndpoints(server, settings)
        self._routes: dict[str, _Route] = {settings.path: self._endpoint.answer}
        if settings.sse_path is not None:
            self._routes[settings.sse_path] = self._old_sse.connect
            self._routes[settings.messages_path] = self._old_sse.post
        self._run: tuple[Running, Peer] | None = None
        self._own_run: Running | None = None

    def __repr__(self) -> str:
        return f"<HTTP handler of {self._server!r}>"

    @property
    def sessions(self) -> int:
        """How many legacy sessions there are."""
        return len(self._endpoint.sessions)

    @asynccontextmanager
    async def serving(self) -> AsyncIterator[None]:
        """Own the sessions, for the length of a block inside of a run of the server.

        The server may run on, and serve elsewhere, when this has been left. Without such a block,
        as in an application that is mounted, sessions last as long as the server runs.
        """
        run = self._server.current_run
        assert run is not None
        async with open_private_nursery() as nursery:
            self._own_run = attrs.evolve(run, nursery=nursery)
            try:
                yield
            finally:
                self._own_run = None

    async def __call__(self, exchange: Exchange) -> None:
        run = self._own_run or self._server.current_run
        if run is None:
            await self._not_running(exchange)
            return
        try:
            request = exchange.request
            self._check_access(request)
            route = self._routes.get(request.path) or self._routes.get(_without_slash(request.path))
            if route is None:
                await exchange.respond(404, {"content-type": "text/plain"}, b"Not Found\n")
                return
            principal = await self._authenticate(request)
            await route(Visit(exchange, principal, run, self._nobody(run)))
        except Refused as refused:
            await refused.answer(exchange)

    async def _not_running(self, exchange: Exchange) -> None:
        text = (
            f"{self._server!r} is not running. Enter `async with server.running():` for as long"
            " as the application serves: one that is mounted is not told when the whole begins."
        )
        logger.error("%s", text)
        await exchange.respond(500, {"content-type": "text/plain"}, f"{text}\n".encode())

    def wind_down(self) -> None:
        """End what would not end by itself: subscriptions, and streams to listen on."""
        if self._run is not None:
            self._server.bus.end_subscriptions(by=self._run[1])
        self._endpoint.sessions.end_listening()
        self._old_sse.end()

    def _nobody(self, run: "Running") -> Peer:
        """What stands for clients without a connection in this run of the server."""
        if self._run is None or self._run[0] is not run:
            self._run = run, nobody(run.nursery)
        return self._run[1]

    def _check_access(self, request: HTTPRequest) -> None:
        host = request.headers.get("host")
        if not is_host_allowed(host or "", self._hosts):
            text = f"This server does not go by the name {host!r}: see its option `hosts`."
            raise Refused(421, INVALID_REQUEST, text)
        origin = request.headers.get("origin")
        if origin is not None and not is_origin_allowed(origin, self._settings.origins):
            text = f"Web pages of {origin} may not connect: see the server's option `origins`."
            raise Refused(403, INVALID_REQUEST, text)

    async def _authenticate(self, request: HTTPRequest) -> object:
        authenticate = self._settings.authenticate
        if authenticate is None:
            return None
        try:
            principal = authenticate(request)
            return await principal if inspect.isawaitable(principal) else principal
        except Exception as exc:
            cause = sole_exception(exc)
            if not isinstance(cause, AuthorizationRequired):
                raise
            status = 403 if cause.status == 403 else 401
            challenge = cause.challenge or ("Bearer" if status == 401 else "")
            headers = {"www-authenticate": challenge} if challenge else {}
            raise Refused(status, INVALID_REQUEST, cause.reason, headers=headers) from None


def _without_slash(path: str) -> str:
    return path.removesuffix("/")
