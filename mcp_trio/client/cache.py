"""Results that a server allows its client to keep for a while.

A result of the modern era says for how many milliseconds it stays fresh. What counts as the same
request is its method and its parameters; what was asked under another authorization, or with
answers to the server's questions, is another thing (MCP 2026-07-28, server/utilities/caching).

A notification that a list changed makes what is kept of it stale, and also what is on its way: an
answer that arrived just before the notification, but is put here just after it, is stale too. So
every request takes a `Ticket` before it is sent, and a ticket from before the notification is void.
"""

import marshal
from collections import OrderedDict
from typing import Any, TypeAlias, TypeGuard

import attrs
import msgspec
import trio

from mcp_trio.client.events import is_within
from mcp_trio.protocol.methods import METHODS
from mcp_trio.wire.jsonrpc import JSONObject

#: Results that are kept; beyond them the one that was used least recently goes.
MOST_RESULTS = 512
#: Results stay fresh for a year at most, however many digits the server's number has.
LONGEST_TTL = 365 * 24 * 3600 * 1000

_Key: TypeAlias = tuple[str, str, bytes]


@attrs.frozen
class Ticket:
    """Permission to keep the result of one request, taken before the request is sent."""

    key: _Key
    params: JSONObject
    turn: int


@attrs.frozen
class _Kept:
    result: bytes
    params: JSONObject
    fresh_until: float


class ResultCache:
    """Fresh results by request, for one client.

    Args:
        authorization: Stands for the authorization under which this client asks.
    """

    def __init__(self, authorization: str = "") -> None:
        self._authorization = authorization
        self._kept: OrderedDict[_Key, _Kept] = OrderedDict()
        self._turn = 0  # counts what made anything stale

    def ticket(self, method: str, params: JSONObject) -> Ticket | None:
        """What a request needs to look for its result here, and to put it here.

        None for a request whose result may not be kept: by its method, or because it carries
        answers to questions of the server.
        """
        if method not in METHODS or not METHODS[method].cacheable:
            return None
        if "inputResponses" in params or "requestState" in params:
            return None
        try:
            order = msgspec.json.encode(params, order="deterministic")
        except (TypeError, ValueError, RecursionError):
            return None  # what cannot be sent is the sender's to say
        return Ticket((self._authorization, method, order), params, self._turn)

    def get(self, ticket: Ticket) -> JSONObject | None:
        """A copy of the result that is still fresh, None if there is none."""
        kept = self._kept.get(ticket.key)
        if kept is None:
            return None
        if trio.current_time() >= kept.fresh_until:
            del self._kept[ticket.key]
            return None
        self._kept.move_to_end(ticket.key)
        result: JSONObject = marshal.loads(kept.result)
        return result

    def put(self, ticket: Ticket, result: JSONObject) -> None:
        """Keep a complete result as long as it says, unless something made it stale meanwhile."""
        ttl = result.get("ttlMs")
        if ticket.turn != self._turn or not _is_number(ttl) or ttl <= 0:
            return
        if result.get("resultType", "complete") != "complete":
            return
        fresh_until = trio.current_time() + min(ttl, LONGEST_TTL) / 1000
        # Kept as bytes, which nobody who got the result can change. (JSON has no place in this:
        # copying by recursion in Python would end at its stack, far from the deepest JSON.)
        self._kept[ticket.key] = _Kept(marshal.dumps(result), ticket.params, fresh_until)
        self._kept.move_to_end(ticket.key)
        if len(self._kept) > MOST_RESULTS:
            self._kept.popitem(last=False)

    def notified(self, notification: str, params: JSONObject) -> None:
        """Drop what a notification makes stale: a list, or the contents of one resource."""
        if notification in METHODS and (stale := METHODS[notification].stale):
            self._drop(stale, params.get("uri"))

    def forget(self, method: str) -> None:
        """Drop every result of a method, such as all pages of a list."""
        self._drop((method,), None)

    def _drop(self, methods: tuple[str, ...], uri: object) -> None:
        self._turn += 1
        for key, kept in list(self._kept.items()):
            if key[1] in methods and (uri is None or _contains(kept.params.get("uri"), uri)):
                del self._kept[key]


def _contains(resource: object, uri: object) -> bool:
    """Whether contents of `resource` may be those of `uri`: reading one may read what is in it."""
    return isinstance(resource, str) and isinstance(uri, str) and is_within(uri, resource)


def _is_number(value: Any) -> TypeGuard[float]:
    return isinstance(value, int | float) and not isinstance(value, bool)
