"""What the foreign clients that are written in Python have in common."""

from __future__ import annotations

import json
import sys
import time
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable
from typing import Any

import anyio

JSON = Any
Step = dict[str, Any]


class Stepper(ABC):
    """Does steps with a connected client; each method that starts with `do_` is one of them."""

    def __init__(self) -> None:
        self.asked: list[JSON] = []
        self.logs: list[JSON] = []
        self.changes: list[str] = []
        self.changed = anyio.Event()

    @abstractmethod
    def read_error(self, error: Exception) -> JSON | None:
        """The code, message and data of an error that came from the server."""

    async def run(self, steps: list[Step]) -> list[JSON]:
        return [await self.step(step) for step in steps]

    async def step(self, step: Step) -> JSON:
        arguments = {name: value for name, value in step.items() if name != "do"}
        progress: list[JSON] = []
        try:
            with anyio.fail_after(20):
                outcome = await getattr(self, f"do_{step['do']}")(progress=progress, **arguments)
        except Exception as error:
            outcome = {"raised": f"{type(error).__name__}: {error}"}
            answered = self.read_error(error)
            if answered is not None:
                outcome = {"error": answered}
        if progress:
            outcome["progress"] = progress
        return outcome

    async def do_together(self, *, steps: list[Step], progress: list[JSON]) -> JSON:
        """Do several steps at the same time."""
        outcomes: list[JSON] = [None] * len(steps)

        async def put(place: int, step: Step) -> None:
            outcomes[place] = await self.step(step)

        async with anyio.create_task_group() as group:
            for place, step in enumerate(steps):
                group.start_soon(put, place, step)
        return {"steps": outcomes}

    async def do_watch(
        self, *, uris: list[str], tools: bool, steps: list[Step], count: int, progress: list[JSON]
    ) -> JSON:
        """Listen to changes, do steps that cause some, and wait for so many of them."""
        self.changes.clear()
        return await self.watch(uris, tools, lambda: self._cause(steps, count))

    @abstractmethod
    async def watch(
        self, uris: list[str], tools: bool, cause: Callable[[], Awaitable[JSON]]
    ) -> JSON:
        """Call `cause` while subscribed."""

    async def _cause(self, steps: list[Step], count: int) -> JSON:
        outcomes = await self.run(steps)
        while len(self.changes) < count:
            await self.changed.wait()
        return {"steps": outcomes, "events": sorted(self.changes)}

    def change(self, text: str) -> None:
        self.changes.append(text)
        self.changed.set()
        self.changed = anyio.Event()

    async def cancelled_at_first_progress(
        self, call: Callable[[Callable[[], None]], Awaitable[object]]
    ) -> JSON:
        """Call with something that cancels it; None if it came to an end all the same."""
        with anyio.CancelScope() as scope:
            await call(scope.cancel)
        return {"result": "cancelled" if scope.cancelled_caught else "not cancelled"}


def main(run: Callable[[JSON], Awaitable[JSON]]) -> None:
    """Run a plan and print what came of it."""
    plan = json.loads(sys.argv[1])

    async def timed() -> None:
        report = await run(plan)
        report["close"] = time.monotonic() - report["close"]
        print(json.dumps(report))

    anyio.run(timed)
