"""Gives a structured result that its own output schema refuses."""

from tests.harness.planted.healthy import Call, Object, Server


class Planted(Server):
    def tool(self, call: Call, name: str, arguments: Object) -> Object:
        found = super().tool(call, name, arguments)
        if name == "add":
            found["structuredContent"] = {"sum": str(found["structuredContent"]["sum"])}
        return found


if __name__ == "__main__":
    Planted().run()
