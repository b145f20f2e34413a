"""Our client in the process that is timed: `ours.py memory`, `ours.py stdio COMMAND ARGS...` or
`ours.py URL`.

Each line on stdin is a number of calls to make; each line on stdout the seconds that they took.
Reading stdin blocks the event loop, which is nothing but idle between two rounds.
"""

import sys
import time

import trio

import mcp_trio
from tests.benchmarks.servers.ours import server


async def main(arguments: list[str]) -> None:
    mode, *command = arguments
    target = server if mode == "memory" else command or mode
    async with mcp_trio.open_client(target) as client:
        for line in sys.stdin:
            count = int(line)
            began = time.perf_counter()
            for _ in range(count):
                result = await client.call_tool("add", {"a": 1, "b": 2})
            print(time.perf_counter() - began, flush=True)
            assert result.structured_content == {"result": 3}


if __name__ == "__main__":
    trio.run(main, sys.argv[1:])
