"""Our own HTTP server: listeners, the number of connections, and an end with grace.

It serves a handler (see `http_exchange`) over HTTP/1.1, with TLS if asked, in one process. What
happens on a connection is in `http_connection`; for everything else that a web server can be,
there is `asgi`.
"""

from __future__ import annotations

import ssl
from collections.abc import Awaitable, Callable
from functools import partial
from typing import TypeAlias

import trio

from mcp_trio.transports.http_connection import Shared, serve_http_connection
from mcp_trio.transports.http_exchange import Handle
from mcp_trio.transports.http_limits import HTTPLimits

__all__ = ["HTTPLimits", "Listener", "serve_http_connection", "serve_http_exchanges"]

Listener: TypeAlias = trio.SocketListener | trio.SSLListener[trio.SocketStream]

#: Seconds given to a client to take the news that there are too many.
REFUSAL_TIME = 1.0

_TOO_MANY = (
    b"HTTP/1.1 503 Service Unavailable\r\n"
    b"Content-Type: text/plain; charset=utf-8\r\n"
    b"Content-Length: 21\r\n"
    b"Retry-After: 1\r\n"
    b"Connection: close\r\n"
    b"\r\n"
    b"too many connections\n"
)


async def serve_http_exchanges(
    handle: Handle,
    port: int,
    *,
    host: str | None = "127.0.0.1",
    ssl_context: ssl.SSLContext | None = None,
    limits: HTTPLimits | None = None,
    shutdown: Awaitable[object] | Callable[[], Awaitable[object]] | None = None,
    grace: float = 5.0,
    task_status: trio.TaskStatus[list[Listener]] = trio.TASK_STATUS_IGNORED,
) -> None:
    """Call `handle` for each HTTP request, until cancelled or shut down.

    Cancelling is immediate: handlers are cancelled and connections cut. To end with grace,
    let `shutdown` complete. Then no more connections are accepted, those between two requests
    are closed, `Exchange.shutting_down` is set so that streams can end, and what is still
    running `grace` seconds later is cancelled. It returns when all is done.

    Args:
        handle: Called in one task per connection, so its requests are answered in order.
        port: 0 lets the system choose; the listeners that `nursery.start` gives tell which.
        host: A name or an address to listen on; None is every interface of this machine.
        ssl_context: Makes it HTTPS.
        limits: What one client may take; see `HTTPLimits`.
        shutdown: An awaitable, or an async function without arguments (`event.wait`).
        grace: Seconds for running requests after that.
        task_status: `nursery.start` returns when it listens, with the list of listeners.

    Raises:
        OSError: The address cannot be listened on.
    """
    shared = Shared(limits or HTTPLimits())
    serve = partial(_serve, handle, shared, "https" if ssl_context else "http")
    listeners = await _listen(port, host, ssl_context)
    async with trio.open_nursery() as connections:
        async with trio.open_nursery() as accepting:
            await accepting.start(
                partial(trio.serve_listeners, serve, listeners, handler_nursery=connections)
            )
            task_status.started(listeners)
            await _complete(shutdown)
            accepting.cancel_scope.cancel()
        shared.shutting_down.set()
        for connection in list(shared.waiting):
            connection.drop()
        connections.cancel_scope.deadline = trio.current_time() + grace


async def _complete(shutdown: Awaitable[object] | Callable[[], Awaitable[object]] | None) -> None:
    if shutdown is None:
        await trio.sleep_forever()
    else:
        await (shutdown() if callable(shutdown) else shutdown)


async def _listen(
    port: int, host: str | None, ssl_context: ssl.SSLContext | None
) -> list[Listener]:
    if ssl_context is None:
        return [*await trio.open_tcp_listeners(port, host=host)]
    # HTTP says where a message ends: the TLS goodbye, which many clients leave out, adds nothing
    return [
        *await trio.open_ssl_over_tcp_listeners(port, ssl_context, host=host, https_compatible=True)
    ]


async def _serve(
    handle: Handle,
    shared: Shared,
    scheme: str,
    stream: trio.SocketStream | trio.SSLStream[trio.SocketStream],
) -> None:
    """One connection, if there is room for it or can be made."""
    if shared.open >= shared.limits.connections:
        longest = next(iter(shared.waiting), None)
        if longest is None:
            await _refuse(stream)
            return
        longest.drop()
        del shared.waiting[longest]
    shared.open += 1
    try:
        await serve_http_connection(
            handle, stream, shared=shared, scheme=scheme, client=_address(stream)
        )
    finally:
        shared.open -= 1


async def _refuse(stream: trio.abc.Stream) -> None:
    with trio.move_on_after(REFUSAL_TIME):
        try:
            await stream.receive_some(65_536)  # closing with unread bytes would lose the answer
            await stream.send_all(_TOO_MANY)
            await stream.aclose()
        except trio.BrokenResourceError:
            return


def _address(stream: trio.SocketStream | trio.SSLStream[trio.SocketStream]) -> str | None:
    """The client's address; None if it has gone already."""
    transport = stream.transport_stream if isinstance(stream, trio.SSLStream) else stream
    try:
        return str(transport.socket.getpeername()[0])
    except OSError:
        return None
