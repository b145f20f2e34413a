"""Programs that misbehave, and what is left of them.

A misbehaving server is no `mcp_trio.Server`: it is a script of a few lines that starts in
milliseconds and speaks just enough of the protocol to be trusted. `fake` puts `PRELUDE` in front
of such a script; `genuine` is the command of a program around a real server.
"""

import contextlib
import ctypes
import gc
import os
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

import trio

from mcp_trio import StdioParameters

#: Seconds. Nothing that is waited for here takes so long, unless it is broken.
LIMIT = 20.0
#: Seconds within which a death has to be told: half a second, and what a busy machine adds.
NEWS = 1.5

PRELUDE = """
import json, os, signal, subprocess, sys, time

def write(data):
    data = data if isinstance(data, bytes) else data.encode()
    while data:
        data = data[os.write(1, data):]

def text(message):
    return json.dumps({"jsonrpc": "2.0", **message}) + "\\n"

def answer(request, **result):
    write(text({"id": request["id"], "result": result}))

def say(request, words):
    answer(request, content=[{"type": "text", "text": str(words)}])

def token(request):
    return request["params"]["_meta"]["progressToken"]

def introduce(request):
    version = request["params"]["protocolVersion"]
    abilities = {"tools": {"listChanged": True}}
    answer(request, protocolVersion=version, capabilities=abilities,
           serverInfo={"name": "fake", "version": "1"})

def discover(request):
    answer(request, supportedVersions=["2026-07-28"], capabilities={"tools": {}})

def acknowledge(request):
    params = {"_meta": {"io.modelcontextprotocol/subscriptionId": request["id"]},
              "notifications": request["params"]["notifications"]}
    write(text({"method": "notifications/subscriptions/acknowledged", "params": params}))

ANSWERS = {"initialize": introduce, "subscriptions/listen": acknowledge}

def unknown(request):
    error = {"code": -32601, "message": "unknown"}
    write(text({"id": request["id"], "error": error}))

def serve(tool):
    for line in sys.stdin.buffer:
        message = json.loads(line)
        if "id" not in message or "method" not in message:
            continue
        if message["method"] == "tools/call":
            tool(message, message["params"]["name"])
        else:
            ANSWERS.get(message["method"], unknown)(message)
"""


def fake(script: str, *arguments: str, **options: Any) -> StdioParameters:
    """A server made of `PRELUDE` and a script."""
    options = {"stderr": "capture", "eof_grace": 0.5, "term_grace": 0.5, **options}
    return StdioParameters(
        sys.executable, ["-S", "-E", "-c", PRELUDE + script, *arguments], **options
    )


def genuine(body: str) -> list[str]:
    """A program around a `mcp_trio.Server`, which `body` furnishes and runs."""
    before = "import os, subprocess, sys, time, trio\nimport mcp_trio\n"
    return [sys.executable, "-c", f"{before}server = mcp_trio.Server('genuine')\n{body}"]


@contextmanager
def started(command: list[str], **options: Any) -> Iterator["subprocess.Popen[bytes]"]:
    """A process with three pipes, which does not outlive the block."""
    pipe = subprocess.PIPE
    options = {"stdin": pipe, "stdout": pipe, "stderr": pipe, **options}
    process: subprocess.Popen[bytes]
    with subprocess.Popen(command, **options) as process:
        try:
            yield process
        finally:
            process.kill()
            for file in (process.stdin, process.stdout, process.stderr):
                if file is not None:
                    with contextlib.suppress(BrokenPipeError):  # what was not flushed is lost
                        file.close()


def running(pid: int) -> bool:
    """Whether the process exists and is no zombie."""
    try:
        return Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()[0] != b"Z"
    except OSError:
        return False


async def all_gone(pids: list[int], seconds: float) -> float:
    """Wait until none of the processes runs any more; how long it took."""
    began = time.monotonic()
    try:
        with trio.fail_after(seconds):
            while any(map(running, pids)):  # noqa: ASYNC110 (they are not our children)
                await trio.sleep(0.01)
    finally:
        for pid in filter(running, pids):  # for the sake of whoever runs the tests
            os.kill(pid, signal.SIGKILL)
    return time.monotonic() - began


def has_children() -> bool:
    """Whether a child of ours is left, running or dead."""
    try:
        os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    except ChildProcessError:
        return False
    return True


def memory(pid: int | str = "self") -> float:
    """The resident memory of a process, in megabytes; 0 once it has gone."""
    try:
        pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    except (OSError, IndexError):
        return 0.0
    return pages * os.sysconf("SC_PAGE_SIZE") / 1e6


def _give_back() -> None:
    """Return free memory to the system: in what earlier tests have left, growth would not show."""
    gc.collect()
    with contextlib.suppress(OSError, AttributeError):  # another C library
        ctypes.CDLL("libc.so.6").malloc_trim(0)


@asynccontextmanager
async def memory_bounded(growth: float) -> AsyncIterator[None]:
    """Fails if our own memory grows by more than so many megabytes at any time in the block."""
    _give_back()
    before = peak = memory()
    async with trio.open_nursery() as nursery:

        async def watch() -> None:
            nonlocal peak
            while True:
                peak = max(peak, memory())
                await trio.sleep(0.02)

        nursery.start_soon(watch)
        yield
        nursery.cancel_scope.cancel()
    print(f"\nour memory grew by {peak - before:.1f} MB at most")
    assert peak - before < growth
