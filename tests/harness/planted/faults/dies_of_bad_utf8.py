"""Dies of a byte that is no UTF-8: it decodes a line before it expects anything to go wrong."""

from tests.harness.planted.healthy import Server


class Planted(Server):
    def take(self, line: bytes) -> None:
        super().take(line.decode().encode())


if __name__ == "__main__":
    Planted().run()
