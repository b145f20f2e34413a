"""Takes U+2028, and whatever else `str.splitlines` does, for the end of a line."""

import sys
from collections.abc import Iterator

from tests.harness.planted.healthy import Server


class Planted(Server):
    def lines(self) -> Iterator[bytes]:
        for line in iter(sys.stdin.buffer.readline, b""):
            for part in line.decode(errors="surrogateescape").splitlines():
                yield part.encode(errors="surrogateescape")


if __name__ == "__main__":
    Planted().run()
