"""Feed one long line to `wire` in small pieces: `wire.py MEGABYTES seconds|peak`.

Prints the seconds that framing and decoding took, or the most memory that was held at one time as
a multiple of the line's length (decoded text included).
"""

import sys
import time
import tracemalloc
from collections.abc import Iterator

from mcp_trio.wire import jsonrpc
from mcp_trio.wire.ndjson import LineFramer

PIECE = b"x" * 4096
HEAD = b'{"jsonrpc":"2.0","id":1,"result":{"text":"'
TAIL = b'"}}\n'


def pieces(megabytes: int) -> Iterator[bytes]:
    yield HEAD
    for _ in range(megabytes * 1024 * 1024 // len(PIECE)):
        yield PIECE
    yield TAIL


def feed(megabytes: int) -> None:
    framer = LineFramer((megabytes + 1) * 1024 * 1024)
    for piece in pieces(megabytes):
        for line in framer.feed(piece):
            message = jsonrpc.decode(line)
            assert isinstance(message, jsonrpc.Response)


def seconds(megabytes: int) -> float:
    began = time.perf_counter()
    feed(megabytes)
    return time.perf_counter() - began


def peak(megabytes: int) -> float:
    feed(1)
    tracemalloc.start()
    feed(megabytes)
    return tracemalloc.get_traced_memory()[1] / (megabytes * 1024 * 1024)


if __name__ == "__main__":
    print({"seconds": seconds, "peak": peak}[sys.argv[2]](int(sys.argv[1])))
