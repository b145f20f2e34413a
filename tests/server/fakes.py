"""Stand-ins for what surrounds a `Context`: a peer that records, a server without handlers."""

from collections.abc import Awaitable, Callable
from typing import Any, cast

import attrs
import trio

from mcp_trio.exceptions import Closed
from mcp_trio.incoming import IncomingRequest
from mcp_trio.protocol import meta as keys
from mcp_trio.protocol.revisions import LATEST, is_modern
from mcp_trio.server.bus import MemoryBus
from mcp_trio.server.context import Context
from mcp_trio.server.session import RequestInfo, Session
from mcp_trio.server.state import StateKeys

JSONObject = dict[str, Any]
Answer = Callable[[str, JSONObject | None], Awaitable[JSONObject]]


async def no_answer(method: str, params: JSONObject | None) -> JSONObject:
    raise AssertionError(f"{method} was asked")


@attrs.define
class FakePeer:
    """Records what is sent; `answer` answers what is asked."""

    answer: Answer = no_answer
    sent: list[tuple[str, JSONObject | None]] = attrs.Factory(list)
    asked: list[tuple[str, JSONObject | None]] = attrs.Factory(list)
    closed: Closed | None = None

    async def notify(
        self, method: str, params: JSONObject | None = None, *, related: Any = None
    ) -> None:
        await trio.lowlevel.checkpoint()
        if self.closed is not None:
            raise self.closed.error()
        self.sent.append((method, params))

    async def request(
        self,
        method: str,
        params: JSONObject | None = None,
        *,
        timeout: float | None = None,
        related: Any = None,
    ) -> JSONObject:
        self.asked.append((method, params))
        return await self.answer(method, params)


class FakeServer:
    """Has what a context needs of a server."""

    def __init__(self) -> None:
        self.bus = MemoryBus()
        self.state_keys = StateKeys()
        self.capabilities: dict[str, Any] = {}
        self.completions = ()


ALL_CAPABILITIES: JSONObject = {
    "elicitation": {"form": {}, "url": {}},
    "sampling": {"tools": {}, "context": {}},
    "roots": {},
}


def make_context(
    method: str = "tools/call",
    params: JSONObject | None = None,
    *,
    version: str = LATEST,
    capabilities: JSONObject = ALL_CAPABILITIES,
    log_level: str | None = None,
    token: Any = None,
    principal: object = None,
    peer: FakePeer | None = None,
    server: Any = None,
    request_id: Any = 1,
    session: Session | None = None,
) -> Context:
    """A context as the dispatcher makes it."""
    peer = peer or FakePeer()
    session = session or Session(cast(Any, peer))
    session.principal = principal
    if not is_modern(version):
        session.version = version
        session.ready.set()
        session.client_capabilities = capabilities
    incoming = IncomingRequest(request_id, method, params or {}, cast(Any, peer))
    info = RequestInfo(
        version=version,
        modern=is_modern(version),
        client_info={"name": "tester", "version": "1"},
        client_capabilities=capabilities,
        log_level=log_level,
        progress_token=token,
        session=session,
    )
    return Context(incoming, info, cast(Any, server or FakeServer()), None)


def peer_of(ctx: Context) -> FakePeer:
    """The fake peer below a context."""
    return cast(FakePeer, ctx.incoming.peer)


def subscription_id(params: JSONObject | None) -> Any:
    """The id that a notification of a subscription carries."""
    return (params or {})["_meta"][keys.SUBSCRIPTION_ID]
