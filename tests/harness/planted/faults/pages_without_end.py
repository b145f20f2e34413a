"""Has a next page after the last one, for ever, and takes any cursor."""

from tests.harness.planted.healthy import Call, Object, Server


class Planted(Server):
    def page(self, call: Call, items: str, every: list[Object]) -> Object:
        call.params = {name: value for name, value in call.params.items() if name != "cursor"}
        return {**super().page(call, items, every), "nextCursor": "more"}


if __name__ == "__main__":
    Planted().run()
