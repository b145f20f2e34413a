"""What is being passed on right now, and whose it is what comes in the meantime.

A request is sent on under an id of our own, and so are its progress and its answer told apart. But
a question of a legacy server, or a log message over stdio, does not say which request it belongs
to. Where a server has one client that does not matter much. Where clients share one, it must not
be guessed: what belongs to one client is never shown to another. So such a message is for the
client whose calls are the only ones that it could belong to, and if there are several, for nobody.
"""

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import trio

from mcp_trio.client.client import Client
from mcp_trio.exceptions import (
    ConnectionClosed,
    MCPError,
    ProtocolError,
    RequestTimeout,
    TransportError,
)
from mcp_trio.protocol.errors import METHOD_NOT_FOUND
from mcp_trio.protocol.fit import fit_params
from mcp_trio.protocol.methods import METHODS
from mcp_trio.proxy.eras import client_error, request_params
from mcp_trio.proxy.passing import Passing
from mcp_trio.proxy.upstream import answer_for
from mcp_trio.server.context import Context
from mcp_trio.server.state import principal_name
from mcp_trio.wire.jsonrpc import EncodeError, JSONObject

#: What can go wrong with a server besides that it answers with an error.
FAILURES = (ConnectionClosed, EncodeError, ProtocolError, RequestTimeout, TransportError)
PROGRESS = "notifications/progress"


class OpenCall:
    """A request of a client that is being passed on.

    Attributes:
        ctx: The request; None while it is held and nobody waits for it.
        owner: Whose it is: equal for two calls only if they are surely of the same client.
        info: What the client says of itself.
        method: The method.
        only_rising: Drop progress that does not increase, as where the server begins anew.
    """

    ctx: Context | None

    def __init__(self, ctx: Context, nursery: trio.Nursery) -> None:
        self.ctx = ctx
        self.owner = owner_of(ctx)
        self.info = ctx.info
        self.method = ctx.method
        self.passing = Passing(self._send, nursery)
        self.only_rising = False
        self._progress = -math.inf

    @property
    def may_ask(self) -> bool:
        """Whether the server may have a question while it works on this."""
        return self.method in METHODS and METHODS[self.method].may_ask

    def told(self, method: str, params: JSONObject | None) -> None:
        """Pass a notification on, if the client's revision has it; for the task that reads."""
        if self.ctx is not None:
            self.passing.put(method, params, self.info.version)

    async def progressed(self, params: JSONObject) -> None:
        """Pass progress on, under the client's own token, if it wants to hear of it."""
        token = None if self.ctx is None else self.ctx.info.progress_token
        if self.ctx is not None and token is not None and self._rises(params.get("progress")):
            fitted = fit_params(PROGRESS, params, self.info.version)
            await self.ctx.incoming.notify(PROGRESS, {**fitted, "progressToken": token})

    def _rises(self, progress: object) -> bool:
        if not self.only_rising or not isinstance(progress, int | float):
            return True
        rises = progress > self._progress
        self._progress = max(progress, self._progress)
        return rises

    async def _send(self, method: str, params: JSONObject | None) -> None:
        if self.ctx is not None:
            await self.ctx.incoming.notify(method, params)

    async def exchange(
        self, client: Client, params: JSONObject, *, progress: bool | None = None
    ) -> JSONObject:
        """Send the request on, and wait for what comes back; all that came before it is sent first.

        Args:
            progress: Whether to ask for progress; by default, if the client does.

        Raises:
            MCPError: The server's error, or what became of the server.
        """
        spoken, wanted = client.protocol_version, self.info.version
        row = METHODS.get(self.method)
        if row is not None and not row.may_send("client", spoken):
            text = f"The server behind this one speaks {spoken}, which has no {self.method}."
            raise MCPError(METHOD_NOT_FOUND, text)
        if progress is None:
            progress = self.info.progress_token is not None
        outcome: JSONObject | MCPError
        try:
            outcome = await client.exchange(
                self.method,
                request_params(params, self.info, spoken),
                on_progress=self.progressed if progress else None,
            )
        except MCPError as error:
            outcome = client_error(error, params, spoken, wanted)
        except FAILURES as failure:
            outcome = answer_for(failure)
        await self.passing.drained()
        if isinstance(outcome, MCPError):
            raise outcome
        return outcome


class OpenCalls:
    """All calls to one server."""

    def __init__(self) -> None:
        self.changed = trio.lowlevel.ParkingLot()
        self._calls: dict[OpenCall, None] = {}

    @contextmanager
    def open(self, call: OpenCall) -> Iterator[None]:
        """For the length of a block, a call is being passed on."""
        self._calls[call] = None
        try:
            yield
        finally:
            del self._calls[call]
            call.passing.stop()
            self.changed.unpark_all()

    def of_one_owner(self, fits: Callable[[OpenCall], bool]) -> list[OpenCall] | None:
        """The calls that something may belong to, newest first; None if they are not of one."""
        found = [call for call in self._calls if fits(call)]
        return found[::-1] if len({call.owner for call in found}) <= 1 else None


def owner_of(ctx: Context) -> object:
    """Whose a request is: a principal's, a connection's, or nobody knows whose."""
    if ctx.principal is not None:
        return ("principal", principal_name(ctx.principal))
    if ctx.incoming.peer.closed is None:
        return ctx.incoming.peer
    return ctx.incoming  # one exchange over HTTP says nothing of who makes the next
