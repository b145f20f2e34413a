"""Takes whatever one read gives for whole lines, so that a request in two writes is lost."""

import os
import sys
from collections.abc import Iterator

from tests.harness.planted.healthy import Server


class Planted(Server):
    def lines(self) -> Iterator[bytes]:
        while chunk := os.read(sys.stdin.fileno(), 65536):
            yield from chunk.splitlines()


if __name__ == "__main__":
    Planted().run()
