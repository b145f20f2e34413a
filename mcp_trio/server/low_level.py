"""Methods that this package knows nothing of: the params as they came, the result as it leaves."""

from collections.abc import Callable
from typing import Any

from mcp_trio.protocol.convert import unstructure
from mcp_trio.server.calling import as_async, is_coroutine_function, positional
from mcp_trio.server.context import Context
from mcp_trio.server.dispatch import Work
from mcp_trio.server.session import Session
from mcp_trio.wire.jsonrpc import JSONObject

#: Handles a notification of the client; gets its params and the session that it came by.
NotificationHandler = Callable[[JSONObject, Session], Any]

#: Without these the connection would be none.
FIXED = ("initialize", "server/discover", "ping")


def request_work(method: str, function: Callable[..., Any], *, thread: bool) -> Work:
    """What answers `method` with what a user's function returns."""
    if method in FIXED:
        raise ValueError(f"{method!r} cannot be answered otherwise: the connection depends on it.")
    call = as_async(function, thread=thread)
    taken = positional(function, 2)

    async def work(ctx: Context, params: JSONObject) -> JSONObject:
        result = unstructure(await call(*(params, ctx)[:taken]))
        if result is None:
            return {}
        if not isinstance(result, dict):
            raise TypeError(f"The result of {method} must be an object, not {result!r:.80}.")
        return result

    return work


def notification_handler(function: Callable[..., Any]) -> NotificationHandler:
    """A user's function as something that always takes both arguments."""
    taken = positional(function, 2)
    if taken == 2:
        return function
    if is_coroutine_function(function):

        async def handle(params: JSONObject, session: Session) -> Any:
            await function(*(params, session)[:taken])

        return handle
    return lambda params, session: function(*(params, session)[:taken])
