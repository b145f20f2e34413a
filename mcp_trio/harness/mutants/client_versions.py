"""How clients meet a server: mutants."""

from typing import Final

from mcp_trio.harness.mutants import Mutant

MUTANTS: Final[tuple[Mutant, ...]] = ()
