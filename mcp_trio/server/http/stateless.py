"""The legacy era without sessions: each request is answered for itself.

What a client says in `initialize` is forgotten once that is answered. So nothing can be sent to
it but the answers to its requests and what belongs to those, and it cannot be asked anything; but
any process can answer any request.
"""

from functools import partial
from typing import TYPE_CHECKING

from mcp_trio.connection import open_private_nursery
from mcp_trio.server.http.direct import DirectRequest
from mcp_trio.server.http.legacy import LegacyEndpoint
from mcp_trio.server.http.options import Settings
from mcp_trio.server.http.sessions import HTTPSession
from mcp_trio.server.http.visit import Visit
from mcp_trio.server.session import Session
from mcp_trio.transports.http_exchange import ClientGone
from mcp_trio.wire.jsonrpc import Batch, Request

if TYPE_CHECKING:
    from mcp_trio.server.app import Server


async def answer_stateless(
    server: "Server", visit: Visit, request: Request, version: str, keep_alive: float
) -> None:
    """Answer one legacy request, in the revision that its header names.

    A client that goes away does not cancel the handler, as everywhere in this era.

    Raises:
        ClientGone: The client went away.
    """
    incoming = DirectRequest(
        request.id,
        request.method,
        request.params or {},
        visit.nobody,
        visit.exchange.scope,
        exchange=visit.exchange,
        nursery=visit.running.nursery,
        keep_alive=keep_alive,
        modern=False,
    )
    session = Session(visit.nobody, stateless=True, principal=visit.principal)
    if request.method != "initialize":
        session.version = version
        session.ready.set()
    answer = server.dispatcher.answer
    await incoming.answer(partial(answer, session=session, lifespan=visit.running.value))


async def answer_stateless_batch(
    server: "Server",
    visit: Visit,
    batch: Batch,
    version: str,
    settings: Settings,
    endpoint: LegacyEndpoint,
) -> None:
    """Answer the requests of one batch together, in a session that lasts as long as this.

    Raises:
        Refused: 400, it cannot be taken.
        ClientGone: The client went away; what it asked for has been done all the same.
    """
    async with open_private_nursery() as nursery:
        session = HTTPSession(visit.principal, settings)
        await nursery.start(session.run, server, visit.running)
        session.session.version = version
        session.session.ready.set()
        session.session.stateless, session.session.close_stream = True, None
        session.peer.batches_allowed = True
        session.streams.resumable = False
        try:
            await endpoint.post(visit, session, batch)
        except ClientGone:
            await session.peer.finish()
            raise
