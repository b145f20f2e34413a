"""Calling a user's callback for something that arrived, without ever waiting for it.

Notifications, noise and lines of stderr are handed over by the task that reads them, and a task
that reads must not wait. A plain
function is called there and then: it is quick, and what it sees is in order with everything else.
A coroutine function cannot be: its calls queue up for one task of their own, and when they come
faster than it takes them, the oldest are dropped and counted.
"""

import inspect
import logging
from collections.abc import Awaitable, Callable
from typing import Any, Generic, TypeVarTuple

import trio

logger = logging.getLogger("mcp_trio")
Ts = TypeVarTuple("Ts")

#: Notices that wait for a coroutine callback.
MOST_WAITING = 256


class Callback(Generic[*Ts]):
    """A callback, plain or coroutine function, as something that can be called at any time.

    What it raises is logged.

    Args:
        function: What the user gave.
        name: What the user knows it by, for log messages.
        nursery: Where a coroutine function runs.

    Attributes:
        dropped: How many notices the callback was too slow for.
    """

    def __init__(self, function: Callable[[*Ts], object], name: str, nursery: trio.Nursery) -> None:
        self._function = function
        self._name = name
        self.dropped = 0
        self._queue, self._waiting = trio.open_memory_channel[tuple[*Ts]](MOST_WAITING)
        self._waits = _is_async(function)
        if self._waits:
            nursery.start_soon(self._run)

    def __call__(self, *notice: *Ts) -> None:
        if self._waits:
            self._enqueue(notice)
            return
        try:
            returned = self._function(*notice)
            if inspect.isawaitable(returned):
                _discard(returned)
                raise TypeError(
                    f"{self._name} is a plain function that returned an awaitable, which nobody "
                    "awaits: give a coroutine function (async def)"
                )
        except Exception:
            logger.exception("%s failed", self._name)

    def _enqueue(self, notice: tuple[*Ts]) -> None:
        try:
            self._queue.send_nowait(notice)
        except trio.WouldBlock:
            self.dropped += 1
            if self.dropped & (self.dropped - 1) == 0:  # 1, 2, 4, 8: a flood is not logged in full
                logger.warning("%s is too slow: %d notices dropped", self._name, self.dropped)
            self._waiting.receive_nowait()
            self._queue.send_nowait(notice)

    async def _run(self) -> None:
        async for notice in self._waiting:
            try:
                await _awaited(self._function(*notice))
            except* Exception:  # its nursery may mix its own errors with a cancellation
                logger.exception("%s failed", self._name)


async def _awaited(value: Any) -> None:
    await value


def _discard(value: Awaitable[object]) -> None:
    if inspect.iscoroutine(value):
        value.close()


def _is_async(function: Callable[..., object]) -> bool:
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(
        getattr(function, "__call__", None)  # noqa: B004 - an object whose __call__ is async
    )
