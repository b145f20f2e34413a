"""Lists: pages, order and how long they may be kept: mutants."""

from typing import Final

from mcp_trio.harness.mutants import Mutant

MUTANTS: Final[tuple[Mutant, ...]] = ()
