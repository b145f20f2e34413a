"""Counts progress down."""

from tests.harness.planted.healthy import Call, Server


class Planted(Server):
    def progress(self, call: Call, step: int, steps: int) -> None:
        super().progress(call, steps - step, steps)


if __name__ == "__main__":
    Planted().run()
