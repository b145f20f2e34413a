"""How a command ends: well, by a failure that has one line, or by a signal.

Exit status: 0 fine, 1 the tool failed, 2 usage, 3 no connection or a protocol error, and 128 and
the number of a signal where that ended us, as shells count.
"""

import os
import signal
import sys
from collections.abc import Awaitable, Callable
from functools import partial
from typing import IO, Any, TypeVar

import click
import trio

T = TypeVar("T")

TOOL_FAILED = 1
FAILED = 3
BROKEN_PIPE = 13  # SIGPIPE, which Windows does not have


class Failed(click.ClickException):
    """There is no connection, or the server did not do as the protocol says."""

    exit_code = FAILED

    def show(self, file: IO[Any] | None = None) -> None:
        click.echo(f"mcp-trio: {self.message}", file=file or sys.stderr)


class Stopped(Exception):
    """A signal ended the command; everything is tidied up."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.status = 128 + number


def run_until_signal(work: Callable[[], Awaitable[T]]) -> T:
    """Run `work` in Trio; Ctrl-C and its like cancel it, and `Stopped` is raised then."""
    try:
        return trio.run(partial(_until_signal, work))
    except BaseExceptionGroup as group:
        if group.split(KeyboardInterrupt)[1] is not None:
            raise
        raise KeyboardInterrupt from None  # a second Ctrl-C, inside of some nursery


async def _until_signal(work: Callable[[], Awaitable[T]]) -> T:
    caught: int | None = None
    outcome: T | Exception | None = None
    async with trio.open_nursery() as nursery:

        async def watch(task_status: trio.TaskStatus[None]) -> None:
            nonlocal caught
            with trio.open_signal_receiver(*_signals()) as signals:
                task_status.started()
                async for number in signals:
                    caught = number
                    break
            # From here on a second signal does what it always does, should something hang.
            nursery.cancel_scope.cancel()

        await nursery.start(watch)
        try:
            outcome = await work()
        except Exception as exc:
            outcome = exc  # held back: it is no business of this nursery
        nursery.cancel_scope.cancel()
    if caught is not None:
        raise Stopped(caught)
    if isinstance(outcome, Exception):
        raise outcome
    return outcome


def _signals() -> list[signal.Signals]:
    signals = [signal.SIGINT, signal.SIGTERM]
    if sys.platform != "win32" and signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:
        signals.append(signal.SIGHUP)  # the terminal was closed, and nohup did not ask to stay
    return signals


def write_stdout(text: str, encoding: str | None = None) -> None:
    """Write a result.

    Raises:
        Stopped: Nobody reads it, as with `| head`.
        Failed: It cannot be written.
    """
    if sys.stdout is None:
        raise Failed("the result cannot be written: standard output is closed")
    data = text.encode(encoding or sys.stdout.encoding, "replace")
    try:
        sys.stdout.buffer.write(data)
        sys.stdout.flush()
    except OSError as exc:
        # Python flushes once more when it exits, and would complain then.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        if isinstance(exc, BrokenPipeError):
            raise Stopped(BROKEN_PIPE) from None
        raise Failed(f"the result cannot be written: {exc.strerror}") from exc
