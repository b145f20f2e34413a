"""The modern era: discovery, versions and capabilities in every request: mutants."""

from typing import Final

from mcp_trio.harness.mutants import Mutant

MUTANTS: Final[tuple[Mutant, ...]] = ()
