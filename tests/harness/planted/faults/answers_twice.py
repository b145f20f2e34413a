"""Answers the first of two requests twice if they come in one write."""

import os
import sys
from collections.abc import Iterator

from tests.harness.planted.healthy import Server


class Planted(Server):
    def lines(self) -> Iterator[bytes]:
        rest = b""
        while chunk := os.read(sys.stdin.fileno(), 65536):
            *lines, rest = (rest + chunk).split(b"\n")
            yield from lines
            if len(lines) > 1:
                yield lines[0]


if __name__ == "__main__":
    Planted().run()
