"""What httpx costs by itself: the requests that our client sends, and nothing made of the answers.

`httpx_alone.py URL`; each line on stdin is a number of requests, each line on stdout the seconds
that they took.
"""

import sys
import time

import httpx
import trio

from tests.benchmarks.client import MODERN_META, MODERN_VERSION

PARAMS = {"name": "add", "arguments": {"a": 1, "b": 2}, "_meta": MODERN_META}
MESSAGE = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": PARAMS}
HEADERS = {
    "Accept": "application/json, text/event-stream",
    "MCP-Protocol-Version": MODERN_VERSION,
    "Mcp-Method": "tools/call",
    "Mcp-Name": "add",
}


async def main(url: str) -> None:
    async with httpx.AsyncClient(headers=HEADERS) as http:
        for line in sys.stdin:
            count = int(line)
            began = time.perf_counter()
            for _ in range(count):
                response = await http.post(url, json=MESSAGE)
            print(time.perf_counter() - began, flush=True)
            assert response.status_code == 200


if __name__ == "__main__":
    trio.run(main, sys.argv[1])
