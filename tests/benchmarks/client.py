"""The raw client: as little as can stand between the clock and a server's pipes.

Requests are bytes made before the clock starts, responses are only counted while it runs and read
after it has stopped, and there is no event loop. Every server is measured by this same client, so
what differs between two numbers is the servers.
"""

from __future__ import annotations

import os
import select
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, Literal

import attrs
import msgspec

Era = Literal["legacy", "modern"]
Call = tuple[str, dict[str, Any]]
"""A tool's name and its arguments."""

LEGACY_VERSION = "2025-11-25"
MODERN_VERSION = "2026-07-28"
CLIENT_INFO = {"name": "raw", "version": "1"}
MODERN_META = {
    "io.modelcontextprotocol/protocolVersion": MODERN_VERSION,
    "io.modelcontextprotocol/clientInfo": CLIENT_INFO,
    "io.modelcontextprotocol/clientCapabilities": {},
}
READ_SIZE = 1 << 16
STALLED = 60.0
"""Seconds without a byte after which a server counts as hanging."""


class ServerFailed(Exception):
    """The measured server died, hung, or answered with something else than a result."""


@attrs.define
class RawClient:
    """One server process and the pipes to it. Not thread-safe, one batch at a time."""

    process: subprocess.Popen[bytes]
    era: Era
    _stderr: IO[bytes]
    _to_server: int
    _from_server: int
    _next_id: int = 1

    def handshake(self) -> None:
        """Do what the era asks for before the first call."""
        if self.era == "modern":
            self._exchange([self._request("server/discover", {})], window=1)
            return
        hello = {
            "protocolVersion": LEGACY_VERSION,
            "capabilities": {},
            "clientInfo": CLIENT_INFO,
        }
        self._exchange([self._request("initialize", hello)], window=1)
        notice = {"jsonrpc": "2.0", "method": "notifications/initialized"}
        os.write(self._to_server, msgspec.json.encode(notice) + b"\n")

    def timed_calls(
        self, call: Call, count: int, window: int, check: Callable[[str], bool] | None = None
    ) -> float:
        """Make `count` calls with `window` of them in flight; return the seconds they took.

        `check` sees the text of each result once the clock has stopped.

        Raises:
            ServerFailed: not every response was a result that `check` accepts.
        """
        name, arguments = call
        requests = [
            self._request("tools/call", {"name": name, "arguments": arguments})
            for _ in range(count)
        ]
        ids = set(range(self._next_id - count, self._next_id))
        began = time.perf_counter()
        received = self._exchange(requests, window)
        seconds = time.perf_counter() - began
        for line in b"".join(received).split(b"\n")[:-1]:
            ids.discard(_verified(line, check))
        if ids:
            raise ServerFailed(f"{len(ids)} requests have no response of their own")
        return seconds

    def resident_memory(self) -> int:
        """Return the server's resident memory in bytes."""
        status = Path(f"/proc/{self.process.pid}/statm")
        if status.exists():
            return int(status.read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
        listing = subprocess.run(
            ["ps", "-o", "rss=", "-p", str(self.process.pid)],
            capture_output=True,
            check=True,
            text=True,
        )
        return int(listing.stdout) * 1024

    def _request(self, method: str, params: dict[str, Any]) -> bytes:
        if self.era == "modern":
            params = {**params, "_meta": MODERN_META}
        message = {"jsonrpc": "2.0", "id": self._next_id, "method": method, "params": params}
        self._next_id += 1
        return msgspec.json.encode(message) + b"\n"

    def _exchange(self, requests: Sequence[bytes], window: int) -> list[bytes]:
        """Send all requests, at most `window` unanswered; return the bytes of as many lines.

        Reading goes on while a write has to wait: a server may stop reading until it is read.
        """
        poll = select.poll()
        poll.register(self._from_server, select.POLLIN)
        poll.register(self._to_server, 0)
        received: list[bytes] = []
        answered = sent = 0
        outgoing = memoryview(b"")
        while answered < len(requests):
            if not outgoing and sent < len(requests) and sent - answered < window:
                batch = requests[sent : answered + window]
                sent += len(batch)
                outgoing = memoryview(b"".join(batch))
            if outgoing:
                outgoing = outgoing[self._write(outgoing) :]
                poll.modify(self._to_server, select.POLLOUT if outgoing else 0)
            if not poll.poll(STALLED * 1000):
                raise ServerFailed(f"nothing came for {STALLED:g} seconds")
            chunk = self._read()
            received.append(chunk)
            answered += chunk.count(b"\n")
        return received

    def _write(self, data: memoryview) -> int:
        try:
            return os.write(self._to_server, data)
        except BlockingIOError:
            return 0
        except BrokenPipeError:
            raise ServerFailed(self._last_words()) from None

    def _read(self) -> bytes:
        try:
            chunk = os.read(self._from_server, READ_SIZE)
        except BlockingIOError:
            return b""
        if not chunk:
            raise ServerFailed(self._last_words())
        return chunk

    def _last_words(self) -> str:
        try:
            status = self.process.wait(5)
        except subprocess.TimeoutExpired:
            return "the server closed its stdout and lives on"
        self._stderr.seek(0)
        said = self._stderr.read().decode(errors="replace").strip()
        return f"the server exited with status {status}: {said[-500:]}"


def _verified(line: bytes, check: Callable[[str], bool] | None) -> int:
    response = msgspec.json.decode(line)
    result = response.get("result")
    if result is None or result.get("isError"):
        raise ServerFailed(f"no result but {line[:300]!r}")
    if check is not None and not check(result["content"][0]["text"]):
        raise ServerFailed(f"a wrong result: {line[:300]!r}")
    number: int = response["id"]
    return number


@contextmanager
def open_raw_client(
    argv: Sequence[str], era: Era = "legacy", cwd: Path | None = None
) -> Iterator[RawClient]:
    """Start a server and shake hands; kill it in the end, as nothing is measured by then."""
    # A file never fills up, as a pipe that nobody drains would.
    with (
        tempfile.TemporaryFile() as stderr,
        subprocess.Popen(
            argv, cwd=cwd, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=stderr
        ) as process,
    ):
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            descriptors = process.stdin.fileno(), process.stdout.fileno()
            for descriptor in descriptors:
                os.set_blocking(descriptor, False)
            client = RawClient(process, era, stderr, *descriptors)
            client.handshake()
            yield client
        finally:
            process.kill()
