"""Has a print() in a tool, left from debugging."""

from tests.harness.planted.healthy import Call, Object, Server


class Planted(Server):
    def tool(self, call: Call, name: str, arguments: Object) -> Object:
        print("calling", name, flush=True)
        return super().tool(call, name, arguments)


if __name__ == "__main__":
    Planted().run()
