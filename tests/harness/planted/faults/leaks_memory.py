"""Keeps a megabyte for each call of a tool."""

from tests.harness.planted.healthy import Call, Object, Server


class Planted(Server):
    def __init__(self) -> None:
        super().__init__()
        self.kept: list[bytes] = []

    def tools_call(self, call: Call) -> Object | None:
        self.kept.append(b"x" * 1_000_000)
        return super().tools_call(call)


if __name__ == "__main__":
    Planted().run()
