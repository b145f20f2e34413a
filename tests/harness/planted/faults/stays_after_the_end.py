"""Does not exit when its stdin ends: a thread that nobody stops keeps it alive."""

import threading

from tests.harness.planted.healthy import Server


class Planted(Server):
    def run(self) -> None:
        threading.Thread(target=threading.Event().wait).start()
        super().run()


if __name__ == "__main__":
    Planted().run()
