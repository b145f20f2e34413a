"""One HTTP request that was let in."""

import attrs

from mcp_trio.peer import Peer
from mcp_trio.server.app import Running
from mcp_trio.transports.http_exchange import Exchange


@attrs.frozen
class Visit:
    """An HTTP request that was let in, and what it is answered with.

    Attributes:
        exchange: The request, and the way to respond.
        principal: Whoever sent it; None for nobody in particular.
        running: What the server has open.
        nobody: Stands for the client where there is no connection to it.
    """

    exchange: Exchange
    principal: object
    running: Running
    nobody: Peer
