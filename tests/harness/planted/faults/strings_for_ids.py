"""Answers under the id as a string, even if it was a number."""

from tests.harness.planted.healthy import Object, Server


class Planted(Server):
    def write(self, message: Object) -> None:
        if "id" in message:
            message = {**message, "id": str(message["id"])}
        super().write(message)


if __name__ == "__main__":
    Planted().run()
