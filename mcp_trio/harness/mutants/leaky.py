"""Forgets to give something back: `python -m mcp_trio.harness.mutants.leaky memory`."""

import os
import sys

from mcp_trio import Server

server = Server("leaky")
kept: list[object] = []


@server.tool(read_only=True)
async def use() -> str:
    """Use a megabyte and a file."""
    memory, file = b"x" * 1_000_000, os.open(os.devnull, os.O_RDONLY)
    if "memory" in sys.argv:
        kept.append(memory)
    if "files" not in sys.argv:
        os.close(file)
    return "used"


if __name__ == "__main__":
    server.run()
