"""Mutants: peers with one fault each, made from healthy ones by small named changes.

A check that cannot fail proves nothing. So each has a mutant here that it must fail on, and the
same check has to pass on the peer that the mutant was made from; `tests/harness/test_mutants.py`
sees to both, and prints who caught whom.

    class OtherId(Fault):
        \"\"\"Answers with the number of the id as a string.\"\"\"

        def sent(self, message):
            yield {**message, "id": str(message["id"])} if "result" in message else message

    MUTANTS = (frame_mutant("other-id", OtherId, catches=("answers-carry-the-id",)),)
"""

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from importlib import import_module

import attrs

from mcp_trio.harness.checks import AREAS
from mcp_trio.harness.handover import ClientTarget
from mcp_trio.harness.targets import ServerTarget

__all__ = ["ClientMutant", "Mutant", "load_mutants"]


@attrs.frozen
class Mutant:
    """A peer with one fault.

    Attributes:
        id: Its name, such as "answers-under-another-id".
        fault: What it does wrong, in one line.
        caught_by: The ids of the checks that must fail on it; others may, too.
        open: The faulty target, for the length of a block.
        open_healthy: The same without the fault, on which those checks have to pass.
        virtual: Everything happens in this process and in memory, so that time may be virtual.
    """

    id: str
    fault: str
    caught_by: tuple[str, ...]
    open: Callable[[], AbstractAsyncContextManager[ServerTarget]] = attrs.field(repr=False)
    open_healthy: Callable[[], AbstractAsyncContextManager[ServerTarget]] = attrs.field(repr=False)
    virtual: bool = False


@attrs.frozen
class ClientMutant:
    """A client with one fault; what else is said of `Mutant` is true of it, too."""

    id: str
    fault: str
    caught_by: tuple[str, ...]
    open: Callable[[], AbstractAsyncContextManager[ClientTarget]] = attrs.field(repr=False)
    open_healthy: Callable[[], AbstractAsyncContextManager[ClientTarget]] = attrs.field(repr=False)
    virtual: bool = False


def load_mutants() -> tuple[Mutant | ClientMutant, ...]:
    """All mutants: each area of checks has a module of the same name here."""
    return tuple(mutant for area in AREAS for mutant in import_module(f"{__name__}.{area}").MUTANTS)
