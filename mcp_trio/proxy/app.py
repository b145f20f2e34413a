"""The proxy as its user sees it: a server like any other, except that it has nothing of its own."""

import logging
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from functools import partial
from typing import TYPE_CHECKING

import trio

from mcp_trio.client.client import Client, open_client
from mcp_trio.client.handshake import offers_of
from mcp_trio.client.options import CONNECT_TIMEOUT
from mcp_trio.client.targets import Target
from mcp_trio.connection import FrameStream, open_private_nursery
from mcp_trio.exceptions import AuthorizationRequired, MCPError, ProtocolError, TransportError
from mcp_trio.protocol.methods import METHODS
from mcp_trio.protocol.revisions import LATEST_LEGACY, is_modern
from mcp_trio.proxy.eras import EVERYTHING, client_capabilities
from mcp_trio.proxy.held import HOLD_TIME
from mcp_trio.proxy.links import Link
from mcp_trio.proxy.relaying import Relay
from mcp_trio.proxy.sessions import SessionLink
from mcp_trio.proxy.shared import SharedLink
from mcp_trio.server.app import Server
from mcp_trio.server.bus import ListKind
from mcp_trio.server.context import Context
from mcp_trio.server.dispatch import Middleware
from mcp_trio.server.session import Session
from mcp_trio.wire.jsonrpc import JSONObject
from mcp_trio.wire.ndjson import SERVER_LINE_LIMIT

if TYPE_CHECKING:
    import httpx

    from mcp_trio.server.low_level import NotificationHandler

logger = logging.getLogger("mcp_trio")

INITIALIZED = "notifications/initialized"


class Proxy(Server):
    """Serves another server again: over any transport, to clients of any revision.

        proxy = Proxy(["npx", "-y", "some-server"])
        await proxy.serve_http(8000)

    Everything that serves a `Server` serves a proxy. What it offers is what the server behind it
    offers: no tools, resources or prompts can be registered with a proxy, but `request` answers a
    method instead of passing it on, and `middleware` stands around all of them. Requests, results
    and notifications pass as they are, as far as the revisions on both sides allow, with whatever
    this package knows nothing of.

    Each legacy session has a connection to the server of its own, opened by its `initialize`; all
    modern clients share one, opened by the first request. What dies is opened again for the next
    request, after a pause if it dies often. A client hears of such things by errors of code
    -32603.

    Args:
        target: What `open_client` takes, except for streams, which can be opened only once.
        mode: The era or revision to speak to the server, as for `open_client`. By default the
            client's own era if the server has it: then most things need no translation.
        http, headers: As for `open_client`.
        connect_timeout: Seconds for connecting to the server.
        hold_time: Seconds that a call to a legacy server waits when it has asked a modern client
            something and the client does not come back.
        state_keys, max_in_flight, line_limit, middleware: As for `Server`. Held calls are in one
            process, so common keys do not make several processes share them.

    Raises:
        TypeError: The target is a stream.
        ValueError: An unknown mode.
    """

    def __init__(
        self,
        target: Target,
        *,
        mode: str = "auto",
        http: "httpx.AsyncClient | None" = None,
        headers: Mapping[str, str] | None = None,
        connect_timeout: float = CONNECT_TIMEOUT,
        hold_time: float = HOLD_TIME,
        state_keys: Sequence[bytes | str] | None = None,
        max_in_flight: int = 1000,
        line_limit: int = SERVER_LINE_LIMIT,
        middleware: Iterable[Middleware] = (),
    ) -> None:
        if isinstance(target, FrameStream | trio.abc.Stream):
            raise TypeError("a proxy opens its server more than once, which no stream allows")
        offers_of(mode)
        super().__init__(
            "mcp-trio-proxy",
            lifespan=lambda _proxy: self._open_shared(),
            state_keys=state_keys,
            max_in_flight=max_in_flight,
            line_limit=line_limit,
        )
        self.dispatcher = Relay(self)
        self.dispatcher.middleware.extend(middleware)
        self._mode = mode
        self._hold_time = hold_time
        self._open = partial(
            open_client,
            target,
            http=http,
            headers=headers,
            connect_timeout=connect_timeout,
            validate_output=False,
        )
        self._modern_only = False
        self._links: dict[Session, SessionLink] = {}

    def __repr__(self) -> str:
        return f"<Proxy in mode {self._mode!r}>"

    def _changed(self, kind: ListKind) -> None:
        """Something was registered with what has nothing of its own."""
        raise TypeError(
            f"a proxy has no {kind} of its own: register them with the server behind it"
        )

    def link_of(self, ctx: Context) -> Link:
        """What a request is passed on by."""
        session = ctx.info.session
        if ctx.info.modern or session.stateless:
            shared: SharedLink = ctx.lifespan
            return shared
        return self._links[session]

    # The seams of Server

    def find_notification_handler(
        self, method: str, version: str | None
    ) -> "NotificationHandler | None":
        own = super().find_notification_handler(method, version)
        row = METHODS.get(method)
        if own is not None or method == INITIALIZED or (row and version not in row.client):
            return own
        return partial(self._pass_notification_on, method)

    async def _pass_notification_on(
        self, method: str, params: JSONObject, session: Session
    ) -> None:
        """Pass on what the server behind can understand, if there is one."""
        run = self.current_run
        shared = None if run is None else run.value
        link: Link | None = shared if session.version is None else self._links.get(session)
        client = None if link is None else link.upstream.current
        row = METHODS.get(method)
        if client is not None and (row is None or row.may_send("client", client.protocol_version)):
            await client.notify(method, params or None)

    async def accompany(self, session: Session) -> None:
        """Keep a server for a client that turns out to be a legacy one."""
        async with trio.open_nursery() as nursery:
            link = self._links[session] = SessionLink(session, nursery)
            try:
                link.open_upstream(partial(self._open_for_session, link))
                await link.upstream.keep()
            finally:
                del self._links[session]

    @asynccontextmanager
    async def _open_shared(self) -> AsyncIterator[SharedLink]:
        async with open_private_nursery() as nursery:
            link = SharedLink(nursery, self.state_keys, self._hold_time)
            link.open_upstream(partial(self._open_for_all, link))
            nursery.start_soon(link.upstream.keep)
            yield link

    # The server behind

    def _open_for_all(self, link: SharedLink) -> AbstractAsyncContextManager[Client]:
        return self._open(
            mode=self._mode,
            capabilities=EVERYTHING,
            on_request=link.asked,
            on_notification=link.told,
        )

    @asynccontextmanager
    async def _open_for_session(self, link: SessionLink) -> AsyncIterator[Client]:
        """Open the server for one client, in the client's own era if that is possible."""
        opening = partial(
            self._open,
            client_info=link.client_info,
            capabilities=client_capabilities(link.client_capabilities, link.version, LATEST_LEGACY),
            on_request=link.asked,
            on_notification=link.told,
        )
        async with AsyncExitStack() as stack:
            if self._mode == "auto" and not self._modern_only:
                try:
                    client = await stack.enter_async_context(opening(mode="legacy"))
                except (MCPError, ProtocolError, TransportError) as exc:
                    unreachable = isinstance(exc, TransportError) and exc.status is None
                    if unreachable or isinstance(exc, AuthorizationRequired):
                        raise
                    logger.info("the server behind the proxy is not legacy: %s", exc)
                else:
                    yield client
                    return
            client = await stack.enter_async_context(opening(mode=self._mode))
            self._modern_only = self._mode == "auto" and is_modern(client.protocol_version)
            yield client
