"""Serving one client over one stream of frames, and a whole program as a server.

Everything that lives as long as the connection is in one nursery here: the connection's own
tasks, the notifications of changes that a legacy client gets without asking, and the task that
works through the notifications which the client sends.
"""

import logging
import os
import signal
import sys
import threading
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import TYPE_CHECKING, Any

import trio

from mcp_trio.connection import FrameStream, open_private_nursery, serve_connection
from mcp_trio.exceptions import Closed
from mcp_trio.peer import Peer
from mcp_trio.server.calling import is_coroutine_function
from mcp_trio.server.session import Session
from mcp_trio.wire.jsonrpc import Notification

if TYPE_CHECKING:
    from mcp_trio.server.app import Server
    from mcp_trio.server.low_level import NotificationHandler

logger = logging.getLogger("mcp_trio")

#: Notifications that may wait for a slow handler; beyond it the oldest is dropped.
NOTIFICATION_BUFFER = 256


async def serve_client(
    server: "Server", stream: FrameStream, lifespan: Any, *, principal: object = None
) -> Closed:
    """Serve the client at the other end of `stream` until it is gone; say why it went.

    `principal` is whoever the transport has authenticated.
    """
    session: Session
    notifications: Notifications
    answer = server.dispatcher.answer
    async with open_private_nursery() as nursery:

        def on_open(peer: Peer) -> None:
            nonlocal session, notifications
            session = Session(peer, principal=principal)
            notifications = Notifications(server, session, nursery)
            nursery.start_soon(server.accompany, session)

        closed = await serve_connection(
            stream,
            handle=lambda incoming: answer(incoming, session, lifespan),
            on_notification=lambda notification: notifications.take(notification),
            on_open=on_open,
            max_in_flight=server.max_in_flight,
        )
    logger.info("a connection has ended: %s", closed.reason)
    return closed


class Notifications:
    """The notifications of one client, on their way to their handlers.

    Plain functions are called as the notification arrives. Coroutine functions run in one task,
    in order: there they may ask the client something, which whoever reads messages never could.
    """

    def __init__(self, server: "Server", session: Session, nursery: trio.Nursery) -> None:
        self._server = server
        self._session = session
        self._nursery = nursery
        self._dropped = 0
        self._queue, self._waiting = trio.open_memory_channel[
            tuple["NotificationHandler", Notification]
        ](NOTIFICATION_BUFFER)
        self._working = False

    def take(self, notification: Notification) -> None:
        """Handle a notification, or queue it; never waits."""
        method = notification.method
        if method == "notifications/initialized" and self._introduced():
            self._session.ready.set()
        handler = self._server.find_notification_handler(method, self._session.version)
        if handler is None:
            logger.debug("nobody handles the notification %s", method)
        elif not is_coroutine_function(handler):
            handler(notification.params or {}, self._session)
        else:
            self._enqueue(handler, notification)

    def _introduced(self) -> bool:
        """Whether the client has sent `initialize`, be it answered or not."""
        serving = self._session.peer.serving
        return self._session.version is not None or any(r.method == "initialize" for r in serving)

    def _enqueue(self, handler: "NotificationHandler", notification: Notification) -> None:
        try:
            self._queue.send_nowait((handler, notification))
        except trio.WouldBlock:
            self._dropped += 1
            logger.warning("notifications outrun their handlers: %d are lost", self._dropped)
            self._waiting.receive_nowait()
            self._queue.send_nowait((handler, notification))
        if not self._working:
            self._working = True
            self._nursery.start_soon(self._work)

    async def _work(self) -> None:
        async for handler, notification in self._waiting:
            try:
                await handler(notification.params or {}, self._session)
            except* Exception:  # its nursery may mix its own errors with a cancellation
                logger.exception("the handler of %s failed", notification.method)


async def ended_with_parent(
    serve: Callable[[FrameStream], Awaitable[object]], stream: FrameStream
) -> None:
    """Serve until the client, or the process that started this one, has gone."""
    from mcp_trio.transports.parent import wait_parent_gone

    parent = os.getppid()
    async with trio.open_nursery() as nursery:

        async def watch() -> None:
            await wait_parent_gone(parent)
            logger.info("the process that started this server has gone")
            nursery.cancel_scope.cancel()

        nursery.start_soon(watch)
        await serve(stream)
        nursery.cancel_scope.cancel()


def run(server: "Server") -> None:
    """`Server.run`: own the process, and leave it without a traceback."""
    try:
        caught = trio.run(_run_until_signal, server)
    except BaseException as exc:
        if not _is_interrupt(exc):
            raise
        caught = signal.SIGINT  # before we listened for it, or for the second time
    if caught is not None:
        sys.exit(128 + caught)


async def _run_until_signal(server: "Server") -> int | None:
    """Serve over stdio until the client has gone, or a signal comes; returns that signal."""
    if threading.current_thread() is not threading.main_thread():
        await server.serve_stdio()  # signals belong to the main thread
        return None
    with trio.CancelScope() as scope, _cancelled_by_signals(scope) as caught:
        await server.serve_stdio()
    return caught[0] if caught else None


@contextmanager
def _cancelled_by_signals(scope: trio.CancelScope) -> Iterator[list[int]]:
    """Let SIGINT and SIGTERM cancel a scope; gives the list of those that came.

    Only the first one does. The second does what it always did: it is for a program that hangs
    in its cleanup, or in a function that blocks and never comes back to notice the first.
    """
    caught: list[int] = []
    token = trio.lowlevel.current_trio_token()

    def take(number: int, _frame: FrameType | None) -> None:
        caught.append(number)
        restore()
        token.run_sync_soon(scope.cancel)

    def restore() -> None:
        for number, handler in before.items():
            if handler is not None:  # None: installed by something that is not Python
                signal.signal(number, handler)

    before = {number: signal.signal(number, take) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield caught
    finally:
        restore()


def _is_interrupt(exc: BaseException) -> bool:
    """Whether this is a Ctrl-C, also where nurseries have wrapped it, and nothing else."""
    if isinstance(exc, BaseExceptionGroup):
        return all(map(_is_interrupt, exc.exceptions))
    return isinstance(exc, KeyboardInterrupt)
