"""HTTP by hand, for measuring servers: requests made beforehand, responses hardly looked at.

Where a rate of many connections is measured, `wrk` asks instead of us. This is for what it cannot
do, hold streams open, and for machines that do not have it.
"""

from __future__ import annotations

import re
import select
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import attrs
import msgspec

from tests.benchmarks.client import (
    CLIENT_INFO,
    LEGACY_VERSION,
    MODERN_META,
    MODERN_VERSION,
    READ_SIZE,
    STALLED,
    Call,
    Era,
    ServerFailed,
)

HERE = Path(__file__).parent

START_TIME = 30.0
"""Seconds that a server may take until it listens."""

_LENGTH = re.compile(rb"\r\ncontent-length: *(\d+)", re.IGNORECASE)
_SESSION = re.compile(rb"\r\nmcp-session-id: *([!-~]+)", re.IGNORECASE)


# What is sent ------------------------------------------------------------------------------------


def post(
    method: str, params: Mapping[str, Any], id: int, era: Era, session: str | None = None
) -> bytes:
    """The bytes of one HTTP request with a JSON-RPC request in it."""
    headers = {"Mcp-Session-Id": session} if session else {}
    if era == "modern":
        params = {**params, "_meta": {**MODERN_META, **params.get("_meta", {})}}
        headers |= {"MCP-Protocol-Version": MODERN_VERSION, "Mcp-Method": method}
        if "name" in params:
            headers["Mcp-Name"] = params["name"]
    elif method != "initialize":
        headers["MCP-Protocol-Version"] = LEGACY_VERSION
    message = {"jsonrpc": "2.0", "id": id, "method": method, "params": params}
    body = msgspec.json.encode(message)
    head = (
        "POST /mcp HTTP/1.1",
        "Host: localhost:80",
        "Content-Type: application/json",
        "Accept: application/json, text/event-stream",
        *(f"{name}: {value}" for name, value in headers.items()),
        f"Content-Length: {len(body)}",
    )
    return "\r\n".join([*head, "", ""]).encode() + body


def post_call(call: Call, id: int, era: Era, session: str | None = None) -> bytes:
    """The bytes of one HTTP request that calls a tool."""
    name, arguments = call
    params = {"name": name, "arguments": arguments, "_meta": {"progressToken": id}}
    return post("tools/call", params, id, era, session)


HELLO = {"protocolVersion": LEGACY_VERSION, "capabilities": {}, "clientInfo": CLIENT_INFO}


# What comes back ---------------------------------------------------------------------------------


def whole_length(data: bytes | bytearray) -> int | None:
    """How many bytes of `data` are the first response; None while it is not all there."""
    end_of_head = data.find(b"\r\n\r\n")
    if end_of_head < 0:
        return None
    if length := _LENGTH.search(data, 0, end_of_head):
        whole = end_of_head + 4 + int(length[1])
        return whole if len(data) >= whole else None
    last_chunk = data.find(b"\r\n0\r\n\r\n", end_of_head)
    return None if last_chunk < 0 else last_chunk + 7


class Connection:
    """One connection to a server on this machine, which blocks, and counts as dead after a while.

    Attributes:
        received: What came and was not taken yet.
    """

    def __init__(self, port: int) -> None:
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=STALLED)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.received = bytearray()

    def send(self, request: bytes) -> None:
        self.socket.sendall(request)

    def receive(self) -> None:
        """Wait for more."""
        data = self.socket.recv(READ_SIZE)
        if not data:
            raise ServerFailed(f"the server closed the connection after {bytes(self.received)!r}")
        self.received += data

    def response(self) -> bytes:
        """Wait for a whole response and take it, head and all."""
        while (length := whole_length(self.received)) is None:
            self.receive()
        response = bytes(self.received[:length])
        del self.received[:length]
        if not response.startswith(b"HTTP/1.1 200"):
            raise ServerFailed(f"no result but {response[:300]!r}")
        return response

    def ask(self, request: bytes) -> bytes:
        self.send(request)
        return self.response()

    def close(self) -> None:
        self.socket.close()


# Servers -----------------------------------------------------------------------------------------


@attrs.frozen
class WebServer:
    """A server that listens."""

    port: int

    @contextmanager
    def connected(self, count: int = 1) -> Iterator[list[Connection]]:
        """Connections to it for the length of a block."""
        connections: list[Connection] = []
        try:
            for _ in range(count):
                connections.append(Connection(self.port))
            yield connections
        finally:
            for connection in connections:
                connection.close()


@contextmanager
def open_web_server(argv: Sequence[str], cwd: Path | None = None) -> Iterator[WebServer]:
    """Start a server whose last argument is its port; kill it in the end."""
    with socket.create_server(("127.0.0.1", 0)) as placeholder:
        port = placeholder.getsockname()[1]
    with (
        tempfile.TemporaryFile() as said,
        subprocess.Popen([*argv, str(port)], cwd=cwd, stdout=said, stderr=said) as process,
    ):
        try:
            give_up = time.monotonic() + START_TIME
            while True:
                try:
                    socket.create_connection(("127.0.0.1", port)).close()
                    break
                except OSError:
                    if process.poll() is not None or time.monotonic() > give_up:
                        said.seek(0)
                        text = said.read().decode(errors="replace").strip()
                        raise ServerFailed(f"it does not listen: {text[-500:]}") from None
                    time.sleep(0.05)
            yield WebServer(port)
        finally:
            process.kill()


def start_sessions(server: WebServer, count: int) -> list[str]:
    """Start so many legacy sessions, on a few connections; their ids."""
    request = post("initialize", HELLO, 0, "legacy")
    ids: list[str] = []
    with server.connected(min(count, 32)) as connections:
        while len(ids) < count:
            for connection in connections:
                connection.send(request)
            for connection in connections:
                found = _SESSION.search(connection.response())
                if found is None:
                    raise ServerFailed("initialize was answered without a session")
                ids.append(found[1].decode())
    return ids


# Load --------------------------------------------------------------------------------------------


@attrs.frozen
class Load:
    """What many connections ask for, all of them at once and again and again.

    Attributes:
        connections: How many there are, with one request in flight on each.
        session: The legacy session that they belong to, if any.
    """

    era: Era
    connections: int = 32
    session: str | None = None


ADD: Call = ("add", {"a": 1, "b": 2})
_IS_THREE = b'"text":"3"'


def has_wrk() -> bool:
    return shutil.which("wrk") is not None


def rate(server: WebServer, load: Load, seconds: int) -> float:
    """Calls a second of a tool that adds two integers, by wrk or else by ourselves."""
    with server.connected() as (connection,):
        answer = connection.ask(post_call(ADD, 1, load.era, load.session))
        if _IS_THREE not in answer.replace(b'"text": "', b'"text":"'):
            raise ServerFailed(f"a wrong result: {answer[-300:]!r}")
    return _rate_by_wrk(server, load, seconds) if has_wrk() else _own_rate(server, load, seconds)


def _rate_by_wrk(server: WebServer, load: Load, seconds: int) -> float:
    era = "modern" if load.era == "modern" else LEGACY_VERSION
    done = subprocess.run(
        [
            *("wrk", "-t1", f"-c{load.connections}", f"-d{seconds}s", "--timeout", "30s"),
            *("-s", str(HERE / "call.lua"), f"http://127.0.0.1:{server.port}/mcp"),
            *("--", era, *([load.session] if load.session else [])),
        ],
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise ServerFailed(f"wrk failed: {done.stderr.strip()[-500:]}")
    requests, microseconds, errors = map(int, done.stdout.split()[-3:])
    if errors or not requests:
        raise ServerFailed(f"{errors} of {requests} requests failed: {done.stdout[-500:]}")
    return requests / microseconds * 1e6


def _own_rate(server: WebServer, load: Load, seconds: int) -> float:
    """The same without wrk: it may itself be what is slow."""
    id = count = 0
    poll = select.poll()
    with server.connected(load.connections) as connections:
        by_descriptor = {connection.socket.fileno(): connection for connection in connections}
        for id, (descriptor, connection) in enumerate(by_descriptor.items(), 1):
            poll.register(descriptor, select.POLLIN)
            connection.send(post_call(ADD, id, load.era, load.session))
        began = time.perf_counter()
        while time.perf_counter() < began + seconds:
            for descriptor, _ in poll.poll(STALLED * 1000):
                connection = by_descriptor[descriptor]
                connection.receive()
                if whole_length(connection.received) is not None:
                    connection.response()
                    id, count = id + 1, count + 1
                    connection.send(post_call(ADD, id, load.era, load.session))
        return count / (time.perf_counter() - began)


# Streams -----------------------------------------------------------------------------------------

URI = "bench://changing"
_GRANTED = b"notifications/subscriptions/acknowledged"
_CHANGED = b"notifications/resources/updated"


@contextmanager
def listening(server: WebServer, count: int) -> Iterator[Callable[[], float]]:
    """Streams that listen for a change; gives a function that makes one.

    It returns the seconds from asking for the change until the last stream has heard of it.
    """
    wanted = {"notifications": {"resourceSubscriptions": [URI]}}
    poll = select.poll()
    with server.connected(count) as streams, server.connected() as (caller,):
        by_descriptor = {stream.socket.fileno(): stream for stream in streams}
        for descriptor, stream in by_descriptor.items():
            stream.send(post("subscriptions/listen", wanted, 1, "modern"))
            poll.register(descriptor, select.POLLIN)
        for stream in streams:
            while _GRANTED not in stream.received:
                stream.receive()

        def change() -> float:
            for stream in streams:
                stream.received.clear()
            silent = set(by_descriptor)
            began = time.perf_counter()
            caller.send(post_call(("touch", {"uri": URI}), 2, "modern"))
            while silent:
                if not (ready := poll.poll(STALLED * 1000)):
                    raise ServerFailed(f"{len(silent)} streams have not heard of the change")
                for descriptor, _ in ready:
                    stream = by_descriptor[descriptor]
                    stream.receive()
                    if _CHANGED in stream.received:
                        silent.discard(descriptor)
            seconds = time.perf_counter() - began
            caller.response()
            return seconds

        yield change


def streamed_seconds(server: WebServer, pieces: int, size: int) -> float:
    """The seconds that one stream takes to bring so many notifications of so many characters."""
    with server.connected() as (connection,):
        connection.send(post_call(("flood", {"pieces": pieces, "size": size}), 1, "modern"))
        began = time.perf_counter()
        total, tail = 0, b""
        while not tail.endswith(b"0\r\n\r\n"):
            data = connection.socket.recv(1 << 20)
            if not data:
                raise ServerFailed(f"the stream broke off after {total} bytes: {tail!r}")
            total += len(data)
            tail = (tail + data)[-1000:]
        seconds = time.perf_counter() - began
    if total < pieces * size or b'"done"' not in tail:
        raise ServerFailed(f"the stream ended after {total} bytes: {tail!r}")
    return seconds
