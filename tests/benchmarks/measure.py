"""Ways of measuring: each opens what is measured once, and gives a function that samples it.

Opening warms up with as many calls as a sample has. It is a context manager, so that a row holds
all its contestants open at the same time and takes turns between them: on a noisy machine only
numbers taken side by side can be compared.
"""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Protocol

import attrs

from tests import peers
from tests.benchmarks.client import Call, Era, ServerFailed, open_raw_client

HERE = Path(__file__).parent
ROOT = HERE.parent.parent

SETTLE = 0.3
"""Seconds between a server's handshake and a look at its memory."""


@attrs.frozen
class Effort:
    """How thorough to be: rounds of samples, and the share of a sample's calls to make."""

    rounds: int
    share: float = 1.0

    def calls(self, full: int, window: int = 1) -> int:
        """The calls of one sample that has `full` of them where all the effort is made.

        Everybody makes the same number of calls. With equal time instead, whoever is fast would
        make many more and have its code compiled further by its just-in-time compiler.
        """
        return max(int(full * self.share), 2 * window, 1)


Sampler = Callable[[], float]
Opener = Callable[[Effort], AbstractContextManager[Sampler]]
Argv = Callable[[], list[str]]


def calls_per_second(argv: Argv, call: Call, window: int, era: Era, calls: int) -> Opener:
    """Calls a second, by the raw client, with `window` calls in flight."""

    @contextmanager
    def open_sampler(effort: Effort) -> Iterator[Sampler]:
        count = effort.calls(calls, window)
        with open_raw_client(argv(), era, cwd=ROOT) as client:
            client.timed_calls(call, count, window)
            yield lambda: count / client.timed_calls(call, count, window, _is_three)

    return open_sampler


def _is_three(text: str) -> bool:
    return text == "3"


def milliseconds_per_result(argv: Argv, call: Call, size: int, calls: int) -> Opener:
    """Milliseconds from a request to its whole result of `size` characters, by the raw client."""

    def is_whole(text: str) -> bool:
        return len(text) == size

    @contextmanager
    def open_sampler(effort: Effort) -> Iterator[Sampler]:
        count = effort.calls(calls)
        with open_raw_client(argv(), cwd=ROOT) as client:
            client.timed_calls(call, count, 1)
            yield lambda: client.timed_calls(call, count, 1, is_whole) / count * 1000

    return open_sampler


def driver_milliseconds(calls: int, argv: Argv, server: Argv = list) -> Opener:
    """Milliseconds a call inside a program of `drivers`, which times itself.

    The driver starts `server`, if one is given.
    """

    @contextmanager
    def open_sampler(effort: Effort) -> Iterator[Sampler]:
        count = effort.calls(calls)
        with open_driver([*argv(), *server()]) as seconds:
            seconds(count)
            yield lambda: seconds(count) / count * 1000

    return open_sampler


@contextmanager
def open_driver(argv: list[str]) -> Iterator[Callable[[int], float]]:
    """Start a program of `drivers`; gives what has it make calls, and returns its answer."""
    with subprocess.Popen(
        argv, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdin is not None
        try:
            yield lambda count: _driven(process, count)
            process.stdin.close()  # the driver ends by itself, and with it its server
            process.wait(10)
        finally:
            process.kill()


def _driven(process: subprocess.Popen[str], count: int) -> float:
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        process.stdin.write(f"{count}\n")
        process.stdin.flush()
    except BrokenPipeError:
        raise ServerFailed("the driver exited; what it said stands above") from None
    answer = process.stdout.readline()
    if not answer:
        raise ServerFailed("the driver exited; what it said stands above")
    return float(answer)


def program_output(argv: Argv, scale: float = 1.0) -> Opener:
    """The number that a fresh process prints, times `scale`."""

    def sample() -> float:
        done = subprocess.run(argv(), cwd=ROOT, capture_output=True, text=True, check=False)
        if done.returncode:
            raise ServerFailed(done.stderr.strip()[-500:])
        return float(done.stdout) * scale

    @contextmanager
    def open_sampler(effort: Effort) -> Iterator[Sampler]:
        sample()  # writes the bytecode files that every later start reads
        yield sample

    return open_sampler


def idle_megabytes(argv: Argv) -> Opener:
    """Resident memory of a fresh stdio server after its handshake, in units of 1,000,000 bytes."""

    def sample() -> float:
        with open_raw_client(argv(), cwd=ROOT) as client:
            time.sleep(SETTLE)
            return client.resident_memory() / 1e6

    @contextmanager
    def open_sampler(effort: Effort) -> Iterator[Sampler]:
        yield sample

    return open_sampler


def import_milliseconds(python: Python, statement: str, after: str = "") -> Opener:
    """Milliseconds that `statement` takes in a fresh interpreter that has run `after` already."""
    clock = "import time; began = time.perf_counter()"
    code = f"{after}\n{clock}\n{statement}\nprint(time.perf_counter() - began)"
    return program_output(python(None, code), 1000)


class Python(Protocol):
    """A way to find an interpreter: `our_python` or `mcp_python`."""

    def __call__(self, module: str | None, *arguments: str) -> Argv: ...


def our_python(module: str | None, *arguments: str) -> Argv:
    """The argv of a module of this package (None: of code) under the Python that runs us."""
    return lambda: _python(sys.executable, module, arguments)


def mcp_python(module: str | None, *arguments: str) -> Argv:
    """The argv of a module of this package (None: of code) under the Python that has `mcp`."""
    return lambda: _python(str(peers.mcp_python()), module, arguments)


def _python(executable: str, module: str | None, arguments: tuple[str, ...]) -> list[str]:
    what = ["-c"] if module is None else ["-m", f"tests.benchmarks.{module}"]
    return [executable, *what, *arguments]


def node_script(name: str) -> Argv:
    """The argv of a server for Node."""
    return lambda: peers.node_script(HERE / "servers" / name)
