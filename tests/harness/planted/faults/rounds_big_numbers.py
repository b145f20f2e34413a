"""Reads every number as a float, so that large ids come back rounded."""

import json

from tests.harness.planted.healthy import Server


class Planted(Server):
    def parse(self, line: bytes) -> object:
        return json.loads(line.decode(), parse_int=rounded)


def rounded(digits: str) -> int:
    return int(float(digits)) if len(digits) < 300 else int(digits)


if __name__ == "__main__":
    Planted().run()
