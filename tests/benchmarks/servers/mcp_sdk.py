"""The benchmarked server, written with PyPI's `mcp`: `mcp_sdk.py`, or with `http PORT` or
`stateless PORT`. It runs in that package's own environment."""

import sys

from mcp.server import MCPServer
from mcp.server.mcpserver import Context

# Its default level writes a log line for every call, which is not what is compared here.
server = MCPServer("bench", log_level="WARNING")


async def add(a: int, b: int) -> int:
    return a + b


async def echo(text: str) -> str:
    return text


async def blob(size: int) -> str:
    return "x" * size


async def touch(uri: str, ctx: Context) -> str:
    await ctx.notify_resource_updated(uri)
    return uri


async def flood(pieces: int, size: int, ctx: Context) -> str:
    text = "x" * size
    for number in range(pieces):
        await ctx.report_progress(number + 1, message=text)
    return "done"


for tool in (add, echo, blob, touch, flood):
    server.add_tool(tool)

if __name__ == "__main__":
    if len(sys.argv) == 1:
        server.run("stdio")
    else:
        kind, port = sys.argv[1:]
        # As JSON where that will do, which is faster than a stream of one event.
        server.run(
            "streamable-http",
            port=int(port),
            stateless_http=kind == "stateless",
            json_response=kind == "stateless",
        )
