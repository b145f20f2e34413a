"""Reports the last step of a call after its answer."""

from tests.harness.planted.healthy import Call, Object, Server


class Planted(Server):
    def finish(self, call: Call, result: Object) -> None:
        super().finish(call, result)
        if call.token is not None:
            params = {"progressToken": call.token, "progress": 11, "total": 11}
            self.write({"method": "notifications/progress", "params": params})


if __name__ == "__main__":
    Planted().run()
