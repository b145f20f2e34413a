"""PyPI's `mcp` client in the process that is timed; the same conversation as `ours.py` has.

It runs in that package's own environment, with the repository's root on its path. Modes: `memory`
(its in-process dispatch without any framing), `memory-legacy` (its client session over memory
streams), `stdio COMMAND ARGS...` and a URL.
"""

import sys
import time

import anyio
from mcp import Client, StdioServerParameters

from tests.benchmarks.servers.mcp_sdk import server


async def main(arguments: list[str]) -> None:
    mode, *command = arguments
    if mode == "stdio":
        target = StdioServerParameters(command=command[0], args=command[1:])
    else:
        target = server if mode.startswith("memory") else mode
    async with Client(target, mode="legacy" if mode == "memory-legacy" else "auto") as client:
        for line in sys.stdin:
            count = int(line)
            began = time.perf_counter()
            for _ in range(count):
                result = await client.call_tool("add", {"a": 1, "b": 2})
            print(time.perf_counter() - began, flush=True)
            assert result.structured_content == {"result": 3}


if __name__ == "__main__":
    anyio.run(main, sys.argv[1:])
