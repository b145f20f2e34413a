"""What clients do with tools, resources and prompts: mutants."""

from typing import Final

from mcp_trio.harness.mutants import ClientMutant

MUTANTS: Final[tuple[ClientMutant, ...]] = ()
