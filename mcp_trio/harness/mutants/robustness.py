"""Robustness: mutants of servers. What a process keeps can only be seen on one of its own."""

import sys
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Final

from mcp_trio.harness.mutants import Mutant
from mcp_trio.harness.targets import ServerTarget, command_target
from mcp_trio.transports.parameters import StdioParameters


def leaking(what: str) -> Callable[[], AbstractAsyncContextManager[ServerTarget]]:
    """Opens a server that keeps `what` of each call."""

    @asynccontextmanager
    async def open_target() -> AsyncIterator[ServerTarget]:
        args = ["-m", "mcp_trio.harness.mutants.leaky", what]
        yield command_target(StdioParameters(sys.executable, args), f"leaks {what}")

    return open_target


MUTANTS: Final[tuple[Mutant, ...]] = tuple(
    Mutant(id, fault, ("repetition-costs-nothing",), leaking(what), leaking("nothing"))
    for id, fault, what in (
        ("keeps-memory", "Keeps a megabyte of each call.", "memory"),
        ("keeps-files-open", "Leaves a file open after each call.", "files"),
    )
)
