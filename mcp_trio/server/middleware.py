"""Middleware: what stands between every request and its handler.

A middleware is an async callable ``async def mw(ctx, params, proceed)``. It returns a result in
wire form, normally that of ``await proceed(params)``; it may change the params, change the
result, raise an `MCPError` to refuse, or do something before and after. The first one registered
is the outermost. As everywhere, a cancellation passes through it: of a request that the client
gave up, and in the modern era of one that ends in a question.

`RateLimit` is the one that servers ask for most, and an example of how little it takes.
"""

import math
from collections.abc import Callable, Collection, Hashable
from typing import TYPE_CHECKING, Final

import attrs
import trio

from mcp_trio.protocol.errors import MCPError
from mcp_trio.server.state import principal_name
from mcp_trio.wire.jsonrpc import JSONObject

if TYPE_CHECKING:
    from mcp_trio.server.context import Context
    from mcp_trio.server.dispatch import Proceed

#: The error code for too many requests. The protocol has none, so this is an application's.
RATE_LIMITED: Final = 429
#: Whoever sends requests under this many names at once gets new buckets sooner than deserved.
MAX_BUCKETS: Final = 10_000


@attrs.define
class _Bucket:
    """Tokens that refill with time; each request takes one."""

    tokens: float
    at: float


def caller(ctx: "Context") -> Hashable:
    """Who sent a request: the principal, or where nobody was authenticated, the session.

    A modern request over HTTP without a principal is a session of its own. Limit those by
    something else, or all together (``key=lambda ctx: None``).
    """
    name = principal_name(ctx.principal)
    return ctx.info.session if name is None else name


class RateLimit:
    """Refuses requests of those who send too many: a token bucket for each caller.

    Add it to a server with ``Server(..., middleware=[RateLimit(5, burst=20)])``. A refused
    request is answered by error 429, whose ``data.retryAfter`` is the number of seconds after
    which the next one is going to be accepted. Nothing waits: a queue of refused requests would
    be one more thing to overflow.

    Args:
        rate: Requests a second, in the long run.
        burst: Requests that may come at once after a pause.
        methods: What to count, such as ``{"tools/call"}``; everything but `ping` by default.
        key: What has a bucket of its own; `caller` by default.
    """

    def __init__(
        self,
        rate: float,
        burst: int,
        *,
        methods: Collection[str] | None = None,
        key: "Callable[[Context], Hashable]" = caller,
    ) -> None:
        if not (0 < rate < math.inf and burst >= 1):
            raise ValueError(f"rate must be above 0 and burst at least 1, not {rate} and {burst}")
        self.rate = rate
        self.burst = burst
        self.methods = methods
        self._key = key
        self._buckets: dict[Hashable, _Bucket] = {}
        self._next_sweep = -math.inf
        self._latest = -math.inf

    async def __call__(self, ctx: "Context", params: JSONObject, proceed: "Proceed") -> JSONObject:
        if self._counts(ctx.method):
            wait = self._take(self._key(ctx), trio.current_time())
            if wait > 0:
                text = f"Too many requests; try again in {wait:.3g} s."
                raise MCPError(RATE_LIMITED, text, {"retryAfter": wait})
        return await proceed(params)

    def _counts(self, method: str) -> bool:
        return method != "ping" if self.methods is None else method in self.methods

    def _take(self, key: Hashable, now: float) -> float:
        """Take a token and return 0, or the seconds until there is one."""
        if now < self._latest:  # another run of Trio, and each has a clock of its own
            self._buckets.clear()
            self._next_sweep = -math.inf
        self._latest = now
        bucket = self._buckets.get(key)
        if bucket is None:
            self._sweep(now)
            bucket = self._buckets[key] = _Bucket(self.burst, now)
        bucket.tokens = self._tokens(bucket, now)
        bucket.at = now
        if bucket.tokens < 1:
            return (1 - bucket.tokens) / self.rate
        bucket.tokens -= 1
        return 0.0

    def _tokens(self, bucket: _Bucket, now: float) -> float:
        return min(self.burst, bucket.tokens + (now - bucket.at) * self.rate)

    def _sweep(self, now: float) -> None:
        """Forget full buckets, which are as good as none, once in the time that one takes."""
        if now >= self._next_sweep:
            self._next_sweep = now + self.burst / self.rate
            kept = {k: b for k, b in self._buckets.items() if self._tokens(b, now) < self.burst}
            self._buckets = kept
        if len(self._buckets) >= MAX_BUCKETS:
            del self._buckets[next(iter(self._buckets))]
