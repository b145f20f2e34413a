"""Notifications on their way from a server to one client, in order.

They are put here by the task that reads from the server, which must not wait, and sent by a task
that is there as long as there is something to send. So a client that does not read holds up
nobody but itself. What it is too slow for is lost, oldest first; except for news of changes, which
say no more if they are said twice, and so take no more room either.
"""

import logging
from collections import deque
from collections.abc import Awaitable, Callable
from typing import Any, TypeAlias

import trio

from mcp_trio.exceptions import ConnectionClosed
from mcp_trio.protocol.fit import fit_params
from mcp_trio.protocol.methods import METHODS
from mcp_trio.wire.jsonrpc import JSONObject

logger = logging.getLogger("mcp_trio")

#: Notifications that may wait for a slow client.
MOST_WAITING = 256

Send: TypeAlias = Callable[[str, JSONObject | None], Awaitable[Any]]


def is_change(method: str) -> bool:
    """Whether a notification says that something is no longer what it was."""
    return method in METHODS and METHODS[method].filter_field is not None


class Passing:
    """What is on its way to one client, or on behalf of one of its requests.

    Args:
        send: Sends a notification to the client.
        nursery: Where it is sent from.
    """

    def __init__(self, send: Send, nursery: trio.Nursery) -> None:
        self._send = send
        self._nursery = nursery
        self._waiting: deque[tuple[str, JSONObject | None]] = deque()
        self._scope: trio.CancelScope | None = None
        self._idle = trio.lowlevel.ParkingLot()
        self._dropped = 0

    def put(self, method: str, params: JSONObject | None, version: str) -> None:
        """Have a notification sent, as far as the client's revision has it; never waits."""
        row = METHODS.get(method)
        if row is not None and not row.may_send("server", version):
            return
        notification = (method, params and fit_params(method, params, version))
        if is_change(method):
            if notification in self._waiting:
                return
        elif len(self._waiting) >= MOST_WAITING:
            self._drop()
        self._waiting.append(notification)
        if self._scope is None:
            self._scope = trio.CancelScope()
            self._nursery.start_soon(self._run, self._scope)

    def _drop(self) -> None:
        self._dropped += 1
        if self._dropped & (self._dropped - 1) == 0:  # 1, 2, 4, 8: a flood is not logged in full
            logger.warning("a client is too slow: %d notifications dropped", self._dropped)
        for place, (method, _) in enumerate(self._waiting):
            if not is_change(method):
                del self._waiting[place]
                return

    async def drained(self) -> None:
        """Wait until everything that was put here is sent, so that an answer may follow it."""
        await trio.lowlevel.checkpoint()
        while self._scope is not None:
            await self._idle.park()

    def stop(self) -> None:
        """Send nothing more."""
        self._waiting.clear()
        if self._scope is not None:
            self._scope.cancel()

    async def _run(self, scope: trio.CancelScope) -> None:
        try:
            with scope:
                while self._waiting:
                    await self._send(*self._waiting.popleft())
        except ConnectionClosed:
            self._waiting.clear()
        finally:
            self._scope = None
            self._idle.unpark_all()
