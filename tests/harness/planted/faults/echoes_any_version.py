"""Agrees to whatever version initialize asks for."""

from tests.harness.planted.healthy import Call, Object, Server


class Planted(Server):
    def initialize(self, call: Call) -> Object:
        found = super().initialize(call)
        return {**found, "protocolVersion": call.params["protocolVersion"]}


if __name__ == "__main__":
    Planted().run()
