"""Our client over whatever a URL stands for, and what each of its calls takes.

`links.py STATISTIC URL` has as STATISTIC: `p50` or `p99` (the seconds that half or 99 in 100 of the
calls stay below, one at a time) or `rate` (calls a second, 32 at a time). Each line on stdin is a
number of calls, each line on stdout the statistic of them.
"""

import statistics
import sys
import time

import trio

import mcp_trio

WINDOW = 32


async def call(client: mcp_trio.Client) -> float:
    began = time.perf_counter()
    result = await client.call_tool("add", {"a": 1, "b": 2})
    assert result.structured_content == {"result": 3}
    return time.perf_counter() - began


async def percentile(client: mcp_trio.Client, count: int, percent: int) -> float:
    return statistics.quantiles([await call(client) for _ in range(count)], n=100)[percent - 1]


async def rate(client: mcp_trio.Client, count: int) -> float:
    async def worker() -> None:
        for _ in range(count // WINDOW):
            await call(client)

    began = time.perf_counter()
    async with trio.open_nursery() as nursery:
        for _ in range(WINDOW):
            nursery.start_soon(worker)
    return count // WINDOW * WINDOW / (time.perf_counter() - began)


async def main(statistic: str, url: str) -> None:
    async with mcp_trio.open_client(url) as client:
        for line in sys.stdin:
            if statistic == "rate":
                answer = await rate(client, int(line))
            else:
                answer = await percentile(client, int(line), int(statistic.removeprefix("p")))
            print(answer, flush=True)


if __name__ == "__main__":
    trio.run(main, sys.argv[1], sys.argv[2])
