"""Tasks (experimental, 2025-11-25): mutants."""

from typing import Final

from mcp_trio.harness.mutants import Mutant

MUTANTS: Final[tuple[Mutant, ...]] = ()
