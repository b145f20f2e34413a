"""Answers a notification that it does not know with an error."""

from tests.harness.planted.healthy import Object, Server


class Planted(Server):
    def notified(self, method: str, params: Object) -> None:
        if method in ("notifications/initialized", "notifications/cancelled"):
            super().notified(method, params)
        else:
            self.write(
                {"id": None, "error": {"code": -32601, "message": "there is no such method"}}
            )


if __name__ == "__main__":
    Planted().run()
