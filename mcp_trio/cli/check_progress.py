"""How far the checks are: live on a terminal's stderr, and a line now and then in a log."""

import time
from typing import TYPE_CHECKING, Final, Self

import attrs
import click

from mcp_trio.harness.model import Outcome

if TYPE_CHECKING:
    from rich.progress import Progress as Bar
    from rich.progress import TaskID

SHOWN_EVERY: Final = 0.1  # seconds from one picture to the next
TOLD_EVERY: Final = 30.0  # seconds from one line to the next, where there is no terminal


@attrs.define(eq=False)
class Progress:
    """A bar with live counts."""

    _total: int = attrs.field(default=0, init=False)
    _done: int = attrs.field(default=0, init=False)
    _failed: int = attrs.field(default=0, init=False)
    _warned: int = attrs.field(default=0, init=False)
    _shown: float = attrs.field(factory=time.monotonic, init=False)
    _bar: "tuple[Bar, TaskID] | None" = attrs.field(default=None, init=False)

    def __enter__(self) -> Self:
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, TextColumn
        from rich.progress import Progress as Bar

        console = Console(stderr=True, markup=False, highlight=False, emoji=False)
        if console.is_terminal:
            text = TextColumn("{task.description}", markup=False)
            # No refreshing by itself: that would take a thread.
            bar = Bar(
                BarColumn(),
                MofNCompleteColumn(),
                text,
                console=console,
                auto_refresh=False,
                transient=True,
            )
            bar.start()
            self._bar = bar, bar.add_task("starting", total=None)
            bar.refresh()
        return self

    def __exit__(self, *_: object) -> None:
        if self._bar is not None:
            self._bar[0].stop()

    def expect(self, more: int) -> None:
        """So many checks are going to be run, besides those that were named before."""
        self._total += more

    def outcome(self, outcome: Outcome) -> None:
        """One is done."""
        self._done += 1
        self._failed += outcome.verdict == "failed"
        self._warned += outcome.verdict == "warned"
        now = time.monotonic()
        if now - self._shown < (SHOWN_EVERY if self._bar else TOLD_EVERY):
            return
        self._shown = now
        counts = f"{self._failed} failed, {self._warned} warned: {outcome.check.id}"
        if self._bar is None:
            click.echo(f"{self._done} of {self._total} checks, {counts}", err=True)
            return
        bar, task = self._bar
        bar.update(task, completed=self._done, total=self._total, description=counts)
        bar.refresh()
