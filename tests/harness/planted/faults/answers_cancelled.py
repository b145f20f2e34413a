"""Answers a request that was cancelled, with an error that says so."""

from tests.harness.planted.healthy import Call, Server


class Planted(Server):
    def stopped(self, call: Call) -> None:
        self.write({"id": call.id, "error": {"code": -32800, "message": "cancelled"}})


if __name__ == "__main__":
    Planted().run()
