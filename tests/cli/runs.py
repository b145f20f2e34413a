"""The real command, run as a person or a script runs it."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import attrs

COMMAND = [sys.executable, "-m", "mcp_trio"]
LIMIT = 30.0  # seconds: a machine that is busy is slow, and a test that hangs must end


@attrs.frozen
class Run:
    """How a run of the command ended."""

    status: int
    stdout: str
    stderr: str
    seconds: float

    @property
    def document(self) -> Any:
        """The one JSON document on stdout."""
        return json.loads(self.stdout)


def mcp_trio(*words: str, cwd: Path | None = None) -> Run:
    began = time.monotonic()
    done = subprocess.run(
        [*COMMAND, *words],
        cwd=cwd,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        encoding="utf-8",
        timeout=LIMIT,
    )
    return Run(done.returncode, done.stdout, done.stderr, time.monotonic() - began)


@contextlib.contextmanager
def started(*words: str) -> Iterator[subprocess.Popen[bytes]]:
    """The command while it runs."""
    process = subprocess.Popen(
        [*COMMAND, *words],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    with process:
        try:
            yield process
        finally:
            process.kill()


def pid_in(file: Path) -> int:
    """The process id that a server wrote, as soon as it has."""
    limit = time.monotonic() + LIMIT
    while time.monotonic() < limit:
        with contextlib.suppress(FileNotFoundError, ValueError):
            return int(file.read_text())
        time.sleep(0.01)
    raise AssertionError(f"nobody wrote {file}")


def alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True
