"""Servers that run by themselves and are reached by a URL, and a way to them that breaks.

All of them are told the port to listen at, most in the variable PORT, so that one can come back
where another one was.
"""

from __future__ import annotations

import os
import random
import socket
import subprocess
import time
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from functools import partial
from typing import IO

import trio

STARTING_TIME = 30.0
LOCALHOST = "127.0.0.1"


def free_port() -> int:
    """A port that nobody uses, and that nobody is given who asks for any port."""
    while True:
        port = random.randrange(20_000, 32_000)
        with socket.socket() as probe:
            try:
                probe.bind((LOCALHOST, port))
            except OSError:
                continue
            return port


@contextmanager
def running(
    argv: Sequence[str],
    port: int,
    *,
    stderr: IO[bytes] | None = None,
) -> Iterator[subprocess.Popen[bytes]]:
    """A server that listens at a port by the time the block begins, and is killed at its end."""
    environment = {**os.environ, "PORT": str(port)}
    nothing = subprocess.DEVNULL
    with subprocess.Popen(
        argv, stdin=nothing, stdout=nothing, stderr=stderr, env=environment
    ) as process:
        try:
            deadline = time.monotonic() + STARTING_TIME
            while not _listens(port):
                assert process.poll() is None, f"{argv} ended with {process.returncode}"
                assert time.monotonic() < deadline, f"{argv} does not listen at port {port}"
                time.sleep(0.02)
            yield process
        finally:
            process.kill()


def _listens(port: int) -> bool:
    try:
        socket.create_connection((LOCALHOST, port)).close()
    except OSError:
        return False
    return True


@asynccontextmanager
async def served(
    argv: Sequence[str], *, port: int | None = None, **environment: str
) -> AsyncIterator[tuple[str, trio.Process]]:
    """An HTTP server in a process of its own: its origin, once it takes connections."""
    port = port or free_port()
    environment = {**os.environ, "PORT": str(port), **environment}
    async with trio.open_nursery() as nursery:
        start = partial(trio.run_process, env=environment, stdin=subprocess.DEVNULL, check=False)
        quiet = partial(start, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        process: trio.Process = await nursery.start(quiet, argv)
        with trio.fail_after(STARTING_TIME):
            while not _listens(port):
                assert process.poll() is None, f"{argv} ended with {process.returncode}"
                await trio.sleep(0.02)
        yield f"http://{LOCALHOST}:{port}", process
        nursery.cancel_scope.cancel()


class CuttingProxy:
    """Carries TCP connections to a port, until they are cut.

    Attributes:
        port, origin: Where to connect to.
        cuts: How often a connection was cut.
    """

    def __init__(self, target: int, cut_after: Sequence[bytes]) -> None:
        self.port = 0
        self.origin = ""
        self.cuts = 0
        self._target = target
        self._cut_after = list(cut_after)
        self._severed = False
        self._connections: set[trio.CancelScope] = set()

    def cut(self) -> None:
        """Break off all connections that there are."""
        self.cuts += len(self._connections)
        for scope in self._connections:
            scope.cancel()

    @contextmanager
    def severed(self) -> Iterator[None]:
        """As long as this lasts, no connection survives."""
        self._severed = True
        self.cut()
        yield
        self._severed = False

    async def carry(self, near: trio.SocketStream) -> None:
        scope = trio.CancelScope()
        async with near:
            if self._severed:
                return
            far = await trio.open_tcp_stream(LOCALHOST, self._target)
            async with far:
                self._connections.add(scope)
                with scope:
                    async with trio.open_nursery() as nursery:
                        nursery.start_soon(self._pump, near, far, lambda _: None)
                        await self._pump(far, near, self._look)
                        nursery.cancel_scope.cancel()
                self._connections.remove(scope)

    async def _pump(
        self, source: trio.SocketStream, sink: trio.SocketStream, look: Callable[[bytes], None]
    ) -> None:
        try:
            async for data in source:
                await sink.send_all(data)
                look(bytes(data))
            await sink.send_eof()
        except trio.BrokenResourceError:
            return

    def _look(self, data: bytes) -> None:
        if self._cut_after and self._cut_after[0] in data:
            del self._cut_after[0]
            self.cut()


@asynccontextmanager
async def cutting_proxy(target: int, *cut_after: bytes) -> AsyncIterator[CuttingProxy]:
    """A way to a port of this computer that can be cut.

    Args:
        target: The port.
        cut_after: What cuts all connections once the server has sent it; each once, in turn.
    """
    proxy = CuttingProxy(target, cut_after)
    async with trio.open_nursery() as nursery:
        serve = partial(trio.serve_tcp, proxy.carry, 0, host=LOCALHOST)
        listeners: list[trio.SocketListener] = await nursery.start(serve)
        proxy.port = listeners[0].socket.getsockname()[1]
        proxy.origin = f"http://{LOCALHOST}:{proxy.port}"
        yield proxy
        nursery.cancel_scope.cancel()
