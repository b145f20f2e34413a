"""A dispatcher that answers every method by passing it on.

What holds for every request holds here as well: which revision it is in, what that revision has,
what stands around handlers, what a result of the era has to have. Only the handlers are others.
"""

from typing import TYPE_CHECKING

from mcp_trio.exceptions import MCPError
from mcp_trio.protocol.errors import INTERNAL_ERROR
from mcp_trio.protocol.fit import FitError
from mcp_trio.protocol.methods import METHODS
from mcp_trio.protocol.revisions import REVISIONS
from mcp_trio.server.context import Context
from mcp_trio.server.dispatch import CacheHint, Dispatcher, Route
from mcp_trio.server.session import RequestInfo
from mcp_trio.wire.jsonrpc import JSONObject

if TYPE_CHECKING:
    from mcp_trio.proxy.app import Proxy

_NO_HINT = CacheHint().fields()


class Relay(Dispatcher):
    """Passes on the requests of all connections of one proxy."""

    def __init__(self, proxy: "Proxy") -> None:
        super().__init__(proxy, REVISIONS, {}, {}, {})
        self._stamp = {}  # results speak for the server behind
        self._proxy = proxy

    def find_route(self, method: str, version: str) -> Route | None:
        own = super().find_route(method, version)
        row = METHODS.get(method)
        if own is not None:
            return own
        if row is not None and not row.may_send("client", version):
            return None
        hint = _NO_HINT if row is not None and row.cacheable else {}
        return Route(method, self._pass_on, may_ask=False, can_ask=bool, hint=hint)

    async def _pass_on(self, ctx: Context, params: JSONObject) -> JSONObject:
        return await self._proxy.link_of(ctx).answer(ctx, params)

    def finish(self, route: Route, result: JSONObject, info: RequestInfo) -> JSONObject:
        try:
            return super().finish(route, result, info)
        except FitError as exc:
            raise MCPError(INTERNAL_ERROR, f"The result of {route.method}: {exc}.") from exc
        except (AttributeError, KeyError, TypeError) as exc:
            text = f"The server behind this one gave a malformed result of {route.method}."
            raise MCPError(INTERNAL_ERROR, text) from exc
