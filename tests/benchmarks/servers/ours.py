"""The benchmarked server, written with mcp-trio."""

from mcp_trio import Server

server = Server("bench")


@server.tool()
async def add(a: int, b: int) -> int:
    return a + b


@server.tool()
async def echo(text: str) -> str:
    return text


@server.tool()
async def blob(size: int) -> str:
    return "x" * size


if __name__ == "__main__":
    server.run()
