"""Clients over Streamable HTTP: mutants."""

from typing import Final

from mcp_trio.harness.mutants import ClientMutant

MUTANTS: Final[tuple[ClientMutant, ...]] = ()
