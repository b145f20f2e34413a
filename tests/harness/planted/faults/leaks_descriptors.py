"""Opens a file for each resource that is read, and never closes it."""

import os

from tests.harness.planted.healthy import Call, Object, Server


class Planted(Server):
    def resources_read(self, call: Call) -> Object:
        os.open(os.devnull, os.O_RDONLY)
        return super().resources_read(call)


if __name__ == "__main__":
    Planted().run()
