"""Serving a server at several places at once, until a signal."""

import os
import socket
import stat
from collections.abc import Collection
from functools import partial
from typing import TYPE_CHECKING, Any

import attrs
import click
import trio

from mcp_trio.cli.ending import Failed, run_until_signal
from mcp_trio.incoming import sole_exception

if TYPE_CHECKING:
    from mcp_trio.server.app import Server

Address = tuple[str | None, int]


@attrs.frozen(kw_only=True)
class Places:
    """Where to serve; None for not there."""

    http: Address | None
    sse_path: str | None
    hosts: Collection[str] = ()
    websocket: Address | None
    unix: str | None


def serve_at(server: "Server", places: Places) -> None:
    """Serve until a signal comes.

    Raises:
        Failed: A place cannot be had.
        Stopped: The signal.
    """
    try:
        run_until_signal(partial(_serve, server, places))
    except ExceptionGroup as group:
        cause = sole_exception(group)  # the nursery around it is ours
        raise cause from cause.__cause__


async def _serve(server: "Server", places: Places) -> None:
    async with server.running(), trio.open_nursery() as nursery:
        if places.http is not None:
            host, port = places.http
            serve_http = partial(
                server.serve_http,
                port,
                host=host,
                hosts=places.hosts,
                **_given(sse_path=places.sse_path),
            )
            _say("http", "/mcp", await _start(nursery, serve_http, "--http"))
        if places.websocket is not None:
            host, port = places.websocket
            serve_websocket = partial(server.serve_websocket, port, host=host)
            _say("ws", "", await _start(nursery, serve_websocket, "--websocket"))
        if places.unix is not None:
            listener = await _unix_listener(places.unix)
            nursery.start_soon(_serve_unix, server, listener, places.unix)
            click.echo(f"Serving at unix:{places.unix}", err=True)


def _given(**options: Any) -> dict[str, Any]:
    return {name: value for name, value in options.items() if value is not None}


async def _start(nursery: trio.Nursery, serve: Any, option: str) -> list[trio.SocketListener]:
    try:
        listeners: list[trio.SocketListener] = await nursery.start(serve)
    except OSError as exc:
        raise Failed(f"{option}: cannot listen there: {exc.strerror or exc}") from exc
    return listeners


def _say(scheme: str, path: str, listeners: list[trio.SocketListener]) -> None:
    for listener in listeners:
        host, port, *_ = listener.socket.getsockname()
        shown = f"[{host}]" if ":" in host else host
        click.echo(f"Serving at {scheme}://{shown}:{port}{path}", err=True)


async def _unix_listener(path: str) -> trio.SocketListener:
    """Listen at a path; one that a server left there when it died is taken over."""
    if not hasattr(socket, "AF_UNIX"):
        raise Failed("--unix: this system has no Unix sockets")
    sock = trio.socket.socket(socket.AF_UNIX)
    try:
        if await _is_abandoned(path):
            os.unlink(path)
        await sock.bind(path)
        sock.listen()
    except OSError as exc:
        sock.close()
        raise Failed(f"--unix: cannot listen at {path}: {exc.strerror or exc}") from exc
    return trio.SocketListener(sock)


async def _is_abandoned(path: str) -> bool:
    """Whether there is a socket at which nobody listens."""
    try:
        if not stat.S_ISSOCK(os.stat(path).st_mode):
            return False
        stream = await trio.open_unix_socket(path)
    except ConnectionRefusedError:
        return True
    except OSError:
        return False
    await trio.aclose_forcefully(stream)
    return False


async def _serve_unix(server: "Server", listener: trio.SocketListener, path: str) -> None:
    try:
        await trio.serve_listeners(server.serve_stream, [listener])
    finally:
        os.unlink(path)
