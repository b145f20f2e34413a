"""Stops answering anything once a request was cancelled: it waits for itself."""

import threading

from tests.harness.planted.healthy import Call, Server


class Planted(Server):
    def cancel(self, call: Call) -> None:
        super().cancel(call)
        threading.Event().wait()


if __name__ == "__main__":
    Planted().run()
