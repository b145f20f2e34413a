"""Answers a call of a tool that does not exist with a code of its own making."""

from tests.harness.planted.healthy import Call, Object, Refused, Server


class Planted(Server):
    def tools_call(self, call: Call) -> Object | None:
        try:
            return super().tools_call(call)
        except Refused as exc:
            exc.error["code"] = 404
            raise


if __name__ == "__main__":
    Planted().run()
