"""What a server knows of the client: per connection in the legacy era, per request in both.

A legacy client introduces itself once, in `initialize`, and a `Session` remembers it. A modern
client introduces itself with every request and nothing may be remembered. Handlers see neither
difference: each request carries a `RequestInfo`, made of the session or of the request's own
`_meta`.
"""

from collections.abc import Callable
from typing import Any

import attrs
import trio

from mcp_trio.peer import Peer
from mcp_trio.wire.jsonrpc import JSONObject, RequestId


@attrs.define(eq=False)
class Session:
    """One connection, or one legacy HTTP session, as the server sees it.

    Attributes:
        peer: The way to the client: notifications of no request in particular go here.
        version: The legacy revision that `initialize` agreed on; None before it, and for
            good where the client is modern.
        settled: Set once `initialize` has been answered, with whatever outcome. After a failure
            there is a new one, for the next attempt.
        ready: Set once `notifications/initialized` came; before it the server asks the client
            nothing but `ping`.
        client_info, client_capabilities: As in `initialize`, in wire form.
        log_level: As in `logging/setLevel`; None until it is set.
        subscriptions: How often each resource URI is subscribed to (`resources/subscribe`).
        stateless: True where no request can be sent to the client (legacy stateless HTTP).
        principal: Whoever the transport authenticated.
        close_stream: Closes the HTTP response of a request, given its id and the seconds after
            which the client is to come back; None where a client cannot come back.
    """

    peer: Peer
    version: str | None = None
    settled: trio.Event = attrs.field(factory=trio.Event, repr=False)
    ready: trio.Event = attrs.field(factory=trio.Event, repr=False)
    client_info: JSONObject | None = None
    client_capabilities: JSONObject = attrs.field(factory=dict)
    log_level: str | None = None
    subscriptions: dict[str, int] = attrs.field(factory=dict)
    stateless: bool = False
    principal: object = None
    close_stream: Callable[[RequestId, float], None] | None = attrs.field(default=None, repr=False)

    @property
    def initialized(self) -> bool:
        """Whether `notifications/initialized` came."""
        return self.ready.is_set()


@attrs.frozen
class RequestInfo:
    """What one request says of the client that sent it.

    Attributes:
        version: The revision that the request is under.
        modern: True in the era of per-request metadata (2026-07-28 and later).
        client_info, client_capabilities: In wire form.
        log_level: The least severe level the client wants to hear of for this request, or
            None for no log messages at all.
        progress_token: As the client chose it, None if it wants no progress.
        session: The connection that it came by.
    """

    version: str
    modern: bool
    client_info: JSONObject | None
    client_capabilities: JSONObject
    log_level: str | None
    progress_token: Any
    session: Session
