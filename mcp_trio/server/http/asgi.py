"""A server as an ASGI application."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Unpack

from mcp_trio.server.http.handler import HTTPHandler
from mcp_trio.server.http.options import HTTPOptions
from mcp_trio.transports.asgi import ASGIApp

if TYPE_CHECKING:
    from mcp_trio.server.app import Server


class ServerApp(ASGIApp):
    """One server, by itself or mounted somewhere; made by `Server.asgi_app`."""

    def __init__(self, server: "Server", **options: Unpack[HTTPOptions]) -> None:
        handler = HTTPHandler(server, **options)

        @asynccontextmanager
        async def lifespan() -> AsyncIterator[None]:
            async with server.open_run(shared=False), handler.serving():
                yield

        super().__init__(handler, lifespan=lifespan)

    def _check_running(self) -> None:
        """The handler asks the server itself: its `running` may have been entered elsewhere."""
