"""What people see while a command works: progress, log messages, questions. All on stderr.

stdout carries the result and nothing else. rich is imported when there is something to show.
"""

import os
import sys
from collections import deque
from functools import cached_property
from typing import TYPE_CHECKING, Self

import attrs
import msgspec
import trio

from mcp_trio.cli.untrusted import one_line, plain

if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import Progress, TaskID

    from mcp_trio.protocol.types import LoggingMessageNotificationParams as LogMessage
    from mcp_trio.protocol.types import ProgressNotificationParams as ProgressReport

KEPT_LINES = 10  # of a server's stderr, for an error message
NOISE_SHOWN = 20  # lines that are no messages; a program that is no server may write nothing else
LARGEST = 1e15  # a bar cannot show more
ANSWER_BYTES = 4096  # terminals hand over no longer line
SEVERE = ("error", "critical", "alert", "emergency")


@attrs.define(eq=False)
class Screen:
    """The stderr of a command, and the terminal behind it if there is one.

    Args:
        verbose: Show what the server writes to its stderr.
    """

    verbose: bool = False
    stderr_tail: deque[str] = attrs.field(factory=lambda: deque(maxlen=KEPT_LINES), init=False)
    _noise: int = attrs.field(default=0, init=False)
    _bar: "tuple[Progress, TaskID] | None" = attrs.field(default=None, init=False)

    @cached_property
    def console(self) -> "Console":
        from rich.console import Console

        return Console(stderr=True, markup=False, highlight=False, emoji=False)

    @property
    def interactive(self) -> bool:
        """Whether somebody is there to answer questions."""
        return all(stream is not None and stream.isatty() for stream in (sys.stdin, sys.stderr))

    def say(self, text: str, style: str = "") -> None:
        """Show text; what is not ours in it is made harmless."""
        from rich.text import Text

        self.console.print(Text(plain(text), style), soft_wrap=True)

    # Called by the client as things happen; none of these may wait

    def stderr_line(self, line: str) -> None:
        self.stderr_tail.append(line)
        if self.verbose:
            self.say(line, "dim")

    def noise(self, line: bytes, reason: str) -> None:
        self._noise += 1
        if self._noise > NOISE_SHOWN:
            return
        shown = one_line(line[:200].decode("utf-8", "replace"))
        self.say(f"no message: {reason}: {shown}", "yellow")
        if self._noise == NOISE_SHOWN:
            self.say("More of these are not shown.", "yellow")

    def log(self, message: "LogMessage") -> None:
        data = message.data if isinstance(message.data, str) else to_json(message.data)
        source = f" {message.logger}" if message.logger else ""
        self.say(f"[{message.level}{source}] {data}", "red" if message.level in SEVERE else "dim")

    def progress(self, report: "ProgressReport") -> None:
        if not self.console.is_terminal:
            of = "" if report.total is None else f" of {_number(report.total):g}"
            message = f": {report.message}" if report.message else ""
            self.say(f"progress {_number(report.progress):g}{of}{message}")
            return
        if self._bar is None:
            self._bar = self._open_bar()
        bar, task = self._bar
        total = None if report.total is None else _number(report.total)
        description = one_line(report.message or "", 60)
        bar.update(task, completed=_number(report.progress), total=total, description=description)
        bar.refresh()

    def _open_bar(self) -> "tuple[Progress, TaskID]":
        from rich.progress import BarColumn, Progress, TextColumn

        columns = (
            BarColumn(),
            TextColumn("{task.completed:g}", markup=False),
            TextColumn("{task.description}", markup=False),
        )
        # No refreshing by itself: that would take a thread.
        bar = Progress(*columns, console=self.console, auto_refresh=False, transient=True)
        bar.start()
        return bar, bar.add_task("")

    def hide_bar(self) -> None:
        """Take the progress bar away until there is more progress."""
        if self._bar is not None:
            self._bar[0].stop()
            self._bar = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.hide_bar()

    async def ask(self, prompt: str) -> str | None:
        """One line that the user types; None at the end of the input (Ctrl-D).

        It is read from the descriptor: a thread that is stuck in `sys.stdin` holds a lock that
        Python wants when it exits.
        """
        self.console.print(plain(prompt), end="", soft_wrap=True)
        data = await trio.to_thread.run_sync(os.read, 0, ANSWER_BYTES, abandon_on_cancel=True)
        if not data:
            self.say("")
            return None
        return data.decode("utf-8", "replace").rstrip("\r\n")


def to_json(value: object) -> str:
    return msgspec.json.encode(value).decode()


def _number(value: float) -> float:
    return max(-LARGEST, min(LARGEST, value))
