"""The benchmarked server, written with mcp-trio: `ours.py`, or with `http PORT`,
`stateless PORT` or `websocket PORT`."""

import sys
from functools import partial

import trio

from mcp_trio import Context, Server
from mcp_trio.transports.http_limits import HTTPLimits

server = Server("bench")

#: Room for the thousand streams that one row opens, and for who causes their news.
LIMITS = HTTPLimits(connections=2_000)


@server.tool()
async def add(a: int, b: int) -> int:
    return a + b


@server.tool()
async def echo(text: str) -> str:
    return text


@server.tool()
async def blob(size: int) -> str:
    return "x" * size


@server.tool()
async def touch(uri: str) -> str:
    server.notify_resource_updated(uri)
    return uri


@server.tool()
async def flood(pieces: int, size: int, ctx: Context) -> str:
    text = "x" * size
    for number in range(pieces):
        await ctx.report_progress(number + 1, message=text)
    return "done"


if __name__ == "__main__":
    match sys.argv[1:]:
        case []:
            server.run()
        case ["websocket", port]:
            trio.run(server.serve_websocket, int(port))
        case [kind, port]:
            stateless = kind == "stateless"
            trio.run(partial(server.serve_http, int(port), limits=LIMITS, stateless=stateless))
