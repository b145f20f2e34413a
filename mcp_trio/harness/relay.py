"""What a client under test starts as its server: a pipe to the harness, and nothing else.

    the client ──stdin──▶ relay ──socket──▶ the harness, which plays the server
               ◀─stdout──       ◀─socket──

So the server's side of a scripted conversation lives in the process that checks, and the client's
bytes come there as they are. It is run as a file, by an interpreter without site packages
(`command` says how), since it is started for each connection of each check:

    python -I -S relay.py unix:/path/of/a/socket      or tcp:127.0.0.1:PORT

Before the bytes it says "relay PID". A client may also send signals. The harness wants to hear of
these, so SIGTERM makes another connection, which says "signal PID", and ends the relay; with
`--stubborn` it does not, as a server that does not listen. With `--chatty` it writes to stderr what
servers write there.
"""

import os
import signal
import socket
import sys
import threading

CHUNK = 65_536


CHATTER = b"starting\nERROR: this is no error\n" + "r\u00e9ady \u2028\n".encode() + b"\xff\xfe\n"


def command(address: str, *, stubborn: bool = False, chatty: bool = False) -> tuple[str, ...]:
    """The command line that runs it."""
    options = {"--stubborn": stubborn, "--chatty": chatty}
    chosen = [option for option, wanted in options.items() if wanted]
    return (sys.executable, "-I", "-S", __file__, address, *chosen)


def connect(address: str) -> socket.socket:
    """A connection to where the harness listens."""
    kind, _, place = address.partition(":")
    if sys.platform != "win32" and kind == "unix":
        found = socket.socket(socket.AF_UNIX)
        found.connect(place)
        return found
    host, _, port = place.rpartition(":")
    return socket.create_connection((host, int(port)))


def pump_out(stream: socket.socket) -> None:
    """Carry what the client says. At its end the harness hears of that, and may still answer."""
    while data := os.read(0, CHUNK):
        stream.sendall(data)
    stream.shutdown(socket.SHUT_WR)


def pump_in(stream: socket.socket) -> None:
    """Carry what the harness says, until it closes the socket."""
    while data := stream.recv(CHUNK):
        written = 0
        while written < len(data):
            written += os.write(1, data[written:])


def main() -> None:
    """Be the pipe. Returns when the harness has closed it, or when the client takes no more."""
    address, stubborn = sys.argv[1], "--stubborn" in sys.argv[2:]

    def on_term(_number: int, _frame: object) -> None:
        with connect(address) as news:
            news.sendall(b"signal %d\n" % os.getpid())
            news.recv(1)  # closed once it is known, so that it is known before the end is
        if not stubborn:
            os._exit(0)

    if "--chatty" in sys.argv[2:]:
        os.write(2, CHATTER)
    if hasattr(signal, "SIGTERM"):
        signal.signal(signal.SIGTERM, on_term)
    try:
        with connect(address) as stream:
            stream.sendall(b"relay %d\n" % os.getpid())
            # A daemon: it may sit in a read that nobody will ever end, and ends with the process.
            threading.Thread(target=pump_out, args=(stream,), daemon=True).start()
            pump_in(stream)
    except OSError:
        pass  # one of the two has gone, and with it the reason to be here
    os._exit(0)


if __name__ == "__main__":
    main()
