"""Tools for testing what is built on mcp_trio, and what speaks the protocol.

- `exhaustive_cancellation`: runs a scenario once for each place where it can be cancelled.
- `memory_pair`: two ends of a byte stream in memory, to put a client and a server on.
- `mcp_trio.testing.strategies`: Hypothesis strategies for valid and invalid messages. It needs
  Hypothesis, and is therefore imported by its own name.
"""

from mcp_trio.testing.cancellation import CancellationLeak, exhaustive_cancellation
from mcp_trio.testing.memory import memory_pair

__all__ = ["CancellationLeak", "exhaustive_cancellation", "memory_pair"]
