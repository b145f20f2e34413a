"""Calling what users register: coroutine functions, plain functions, functions that block.

A plain function runs inline, in the handler's task: for most that is the fastest and the simplest.
One that blocks would hold up everybody, so it can be sent to a thread. When such a call is
cancelled, nobody waits for the thread: it goes on to its end (or to its next
`trio.from_thread.check_cancelled`), and what it returns is dropped. Waiting would make
cancellation, timeouts and the end of the server take as long as the slowest blocking call.
"""

import inspect
from collections.abc import Awaitable, Callable
from functools import partial, wraps
from typing import Any

import trio

AsyncFunction = Callable[..., Awaitable[Any]]


def as_async(function: Callable[..., Any], *, thread: bool = False) -> AsyncFunction:
    """`function` as something to await, whatever kind of function it is.

    Args:
        thread: Run it in a worker thread. For plain functions only.
    """
    if not callable(function):
        raise TypeError(f"{function!r} is no function.")
    if inspect.isasyncgenfunction(function) or inspect.isgeneratorfunction(function):
        name = getattr(function, "__name__", function)
        raise TypeError(f"{name} is a generator; it has to return its result, not to yield it.")
    if is_coroutine_function(function):
        if thread:
            name = getattr(function, "__name__", function)
            raise TypeError(f"{name} is a coroutine function; thread=True is for those that block.")
        return function

    if thread:

        @wraps(function, updated=())
        async def call_in_thread(*args: Any, **kwargs: Any) -> Any:
            call = partial(function, *args, **kwargs)
            return await trio.to_thread.run_sync(call, abandon_on_cancel=True)

        return call_in_thread

    @wraps(function, updated=())
    async def call_inline(*args: Any, **kwargs: Any) -> Any:
        value = function(*args, **kwargs)
        return await value if inspect.isawaitable(value) else value

    return call_inline


def is_coroutine_function(function: Callable[..., Any]) -> bool:
    """Whether calling this gives a coroutine, also for partials and for objects with a
    `__call__` that is one."""
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(
        getattr(function, "__call__", None)  # noqa: B004 (its kind is asked for, not whether)
    )


def positional(function: Callable[..., Any], most: int) -> int:
    """How many of `most` positional arguments a function takes, so that it may leave some out."""
    parameters = inspect.signature(function).parameters.values()
    if any(parameter.kind is parameter.VAR_POSITIONAL for parameter in parameters):
        return most
    kinds = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    taken = sum(parameter.kind in kinds for parameter in parameters)
    return min(taken, most)
