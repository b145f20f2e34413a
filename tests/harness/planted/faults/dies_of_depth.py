"""Dies of a deeply nested array: only what is no JSON is expected to go wrong."""

from tests.harness.planted.healthy import Server


class Planted(Server):
    def take(self, line: bytes) -> None:
        try:
            message = self.parse(line)
        except ValueError:
            self.write({"error": {"code": -32700, "message": "this is not JSON"}})
        else:
            self.handle(message)


if __name__ == "__main__":
    Planted().run()
