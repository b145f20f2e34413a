"""The server behind: opened when somebody needs it, and again when it has died.

One task holds the connection, since that is a block that somebody has to be in. Whoever needs the
server says so and waits for what comes of it. A server that cannot be opened, or dies at once, is
tried again for the next request, but not before a pause, which grows with each failure.
"""

import logging
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from typing import TypeAlias

import attrs
import trio

from mcp_trio.client.client import Client
from mcp_trio.connection import open_private_nursery
from mcp_trio.exceptions import (
    AuthorizationRequired,
    ConnectionClosed,
    MCPError,
    ProtocolError,
    RequestTimeout,
    TransportError,
)
from mcp_trio.protocol.errors import INTERNAL_ERROR, INVALID_PARAMS
from mcp_trio.wire.jsonrpc import EncodeError

logger = logging.getLogger("mcp_trio")

#: Seconds before a server is opened again that failed; they double with each failure in a row.
FIRST_PAUSE = 0.25
LONGEST_PAUSE = 10.0
#: Seconds that a server must have lived for the pauses to begin anew.
LASTING = 5.0

Open: TypeAlias = Callable[[], AbstractAsyncContextManager[Client]]
#: Does something for as long as a connection lasts; calls `started` once it is ready for use.
Attend: TypeAlias = Callable[..., Awaitable[None]]


@attrs.define(eq=False)
class _Attempt:
    """One connection to the server, from when somebody needs it to its end.

    Attributes:
        wanted: Set when somebody needs it.
        settled: Set when there is a client, or the failure.
        over: Set when another attempt has taken its place.
    """

    wanted: trio.Event = attrs.field(factory=trio.Event)
    settled: trio.Event = attrs.field(factory=trio.Event)
    over: trio.Event = attrs.field(factory=trio.Event)
    client: Client | None = None
    failure: Exception | None = None


class Upstream:
    """A server, for one client or for many.

    Args:
        open_client: Opens a client of the server.
        attend: A task beside each connection; it must not raise once it has started.
        is_missed: Whether a server that has died is missed though nobody asks it anything.
    """

    def __init__(
        self, open_client: Open, attend: Attend, *, is_missed: Callable[[], bool] = bool
    ) -> None:
        self._open = open_client
        self._attend = attend
        self._is_missed = is_missed
        self._attempt = _Attempt()

    @property
    def current(self) -> Client | None:
        """The connection that there is, if there is one."""
        client = self._attempt.client
        return None if client is None or client.closed else client

    async def connected(self) -> Client:
        """A client that is connected, which may take its time.

        Raises:
            MCPError: There is none to be had; what a client may know of why.
        """
        while True:
            attempt = self._attempt
            attempt.wanted.set()
            await attempt.settled.wait()
            if attempt.client is None:
                assert attempt.failure is not None
                raise answer_for(attempt.failure)
            if not attempt.client.closed:
                return attempt.client
            await attempt.over.wait()

    async def keep(self) -> None:
        """Hold the connection, whenever there has to be one. Runs until it is cancelled."""
        pause = 0.0
        while True:
            await self._attempt.wanted.wait()
            await trio.sleep(pause)
            began = trio.current_time()
            await self._hold(self._attempt)
            if trio.current_time() - began > LASTING:
                pause = 0.0
            pause = min(max(2 * pause, FIRST_PAUSE), LONGEST_PAUSE)

    async def _hold(self, attempt: _Attempt) -> None:
        try:
            async with self._open() as client, open_private_nursery() as nursery:
                await nursery.start(self._attend, client)
                attempt.client = client
                attempt.settled.set()
                closed = await client.peer.wait_closed()
                logger.warning("the server behind the proxy is gone: %s", closed.error())
                self._renew(attempt)
        except Exception as exc:  # a hook of the user's httpx client may raise anything
            logger.warning("the server behind the proxy: %s", exc)
            attempt.failure = exc
        finally:
            self._renew(attempt)

    def _renew(self, attempt: _Attempt) -> None:
        if self._attempt is attempt:
            self._attempt = _Attempt()
            if attempt.client is None and attempt.failure is None:
                attempt.failure = ConnectionClosed("the proxy ends")
            if attempt.client is not None and self._is_missed():
                self._attempt.wanted.set()
            attempt.settled.set()
            attempt.over.set()


def answer_for(failure: Exception) -> MCPError:
    """What a client hears of what went wrong behind; the rest is for our own log.

    Addresses, and what the server wrote to its stderr, are nobody's business downstream.
    """
    match failure:
        case EncodeError():
            return MCPError(INVALID_PARAMS, f"The request cannot be passed on: {failure}")
        case ConnectionClosed(reason=reason, exit_status=status):
            known = reason if status is None else f"{reason} (exit status {status})"
            text = f"is gone: {known}"
        case RequestTimeout():
            text = "does not answer"
        case AuthorizationRequired():
            text = "does not let the proxy in"
        case TransportError(status=None):
            text = "cannot be reached"
        case TransportError(status=status):
            text = f"cannot be reached (HTTP {status})"
        case MCPError(message=message):
            text = f"refuses the proxy: {message}"
        case ProtocolError():
            text = f"does not keep to the protocol: {failure}"
        case OSError(strerror=str(reason)):
            text = f"cannot be started: {reason}"
        case _:
            text = f"cannot be used ({type(failure).__name__})"
    return MCPError(INTERNAL_ERROR, f"The server behind this one {text}.")
