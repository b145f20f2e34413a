"""Results that a server allows its client to keep for a while.

A result of the modern era says for how many milliseconds it stays fresh. What counts as the same
request is its method and its parameters; what was asked under another authorization, or with
answers to the server's questions, is another thing (MCP 2026-07-28, server/utilities/caching).
"""

import copy
from collections import OrderedDict
from typing import Any, TypeAlias, TypeGuard

import attrs
import msgspec
import trio

from mcp_trio.protocol.methods import METHODS
from mcp_trio.wire.jsonrpc import JSONObject

#: Results that are kept; beyond them the one that was used least recently goes.
MOST_RESULTS = 512

_Key: TypeAlias = tuple[str, str, bytes]


@attrs.frozen
class _Kept:
    result: JSONObject
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

    def get(self, method: str, params: JSONObject) -> JSONObject | None:
        """A copy of the result that is still fresh, None if there is none."""
        kept = self._kept.get(key := self._key(method, params))
        if kept is None:
            return None
        if trio.current_time() >= kept.fresh_until:
            del self._kept[key]
            return None
        self._kept.move_to_end(key)
        return copy.deepcopy(kept.result)

    def put(self, method: str, params: JSONObject, result: JSONObject) -> None:
        """Keep a result as long as it says, if the request is one whose results may be kept."""
        ttl = result.get("ttlMs")
        if not METHODS[method].cacheable or not _is_number(ttl) or ttl <= 0:
            return
        if "inputResponses" in params or "requestState" in params:
            return
        fresh_until = trio.current_time() + ttl / 1000
        kept = _Kept(copy.deepcopy(result), _bare(params), fresh_until)
        self._kept[self._key(method, params)] = kept
        if len(self._kept) > MOST_RESULTS:
            self._kept.popitem(last=False)

    def forget(self, notification: str, params: JSONObject) -> None:
        """Drop what a notification makes stale: a list, or the contents of one resource."""
        stale = METHODS[notification].stale if notification in METHODS else ()
        uri = params.get("uri")
        for key, kept in list(self._kept.items()):
            if key[1] in stale and (uri is None or kept.params.get("uri") == uri):
                del self._kept[key]

    def _key(self, method: str, params: JSONObject) -> _Key:
        order = msgspec.json.encode(_bare(params), order="deterministic")
        return self._authorization, method, order


def _bare(params: JSONObject) -> JSONObject:
    return {name: value for name, value in params.items() if name != "_meta"}


def _is_number(value: Any) -> TypeGuard[float]:
    return isinstance(value, int | float) and not isinstance(value, bool)
