"""Servers that ask their client: sampling, elicitation, roots, and input_required: mutants."""

from typing import Final

from mcp_trio.harness.mutants import Mutant

MUTANTS: Final[tuple[Mutant, ...]] = ()
