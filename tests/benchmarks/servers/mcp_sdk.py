"""The benchmarked server, written with PyPI's `mcp`; runs in that package's own environment."""

from mcp.server import MCPServer

# Its default level writes a log line for every call, which is not what is compared here.
server = MCPServer("bench", log_level="WARNING")


async def add(a: int, b: int) -> int:
    return a + b


async def echo(text: str) -> str:
    return text


async def blob(size: int) -> str:
    return "x" * size


for tool in (add, echo, blob):
    server.add_tool(tool)

if __name__ == "__main__":
    server.run("stdio")
