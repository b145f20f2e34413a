"""Whether, and how fast, the harness finds a fault: its checks, and its fuzzer.

Both go through the library, so that the clock can be stopped at the first finding that names the
fault. Other findings do not count: they may be there without anybody having seen the fault.
"""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from pathlib import Path

import attrs
import trio

from mcp_trio.harness.checks import load_checks
from mcp_trio.harness.fuzzing import Plan, Progress, fuzz_server, read_replay
from mcp_trio.harness.model import Failed, Outcome
from mcp_trio.harness.probe import Options
from mcp_trio.harness.runner import check_server
from tests.harness.planted.plants import Plant

BOTH_ERAS = ("2025-11-25", "2026-07-28")


@attrs.define
class Found:
    """What was found in a server.

    Attributes:
        name: The check or the oracle that named the fault; None if none did.
        message: What it said.
        seconds: When it said so; else, how long it was waited for.
        others: What else was found until then: names and what they said.
    """

    name: str | None = None
    message: str = ""
    seconds: float = 0.0
    others: dict[str, str] = attrs.Factory(dict)

    def take(self, name: str, message: str, naming: Sequence[str]) -> bool:
        """Hear of a finding; whether it names the fault."""
        if name not in naming:
            self.others[name] = message
        elif self.name is None:
            self.name, self.message = name, message
        return name in naming


async def by_check(
    plant: Plant, limit: float = 60.0, *, only: Sequence[str] = (), deadline: float = 5.0
) -> Found:
    """Run checks until one names the fault, for `limit` seconds at most: all, or `only` some."""
    found = Found()
    began = trio.current_time()
    checks = [check for check in load_checks("server") if not only or check.id in only]
    options = Options(deadline=deadline)
    with trio.move_on_after(limit) as scope:

        def on_outcome(outcome: Outcome) -> None:
            if outcome.finding is not None:
                check, message = outcome.finding.check, outcome.message
                if found.take(check, message, plant.checks):
                    scope.cancel()

        try:
            await check_server(plant.target(), checks, options=options, on_outcome=on_outcome)
        except Failed:
            # It seems to speak no revision. Its maintainer knows which, and says so.
            await check_server(
                plant.target(),
                checks,
                revisions=BOTH_ERAS,
                options=options,
                on_outcome=on_outcome,
            )
    found.seconds = trio.current_time() - began
    return found


async def by_fuzz(plant: Plant, limit: float = 60.0, seed: int = 0) -> Found:
    """Fuzz until a finding names the fault, for `limit` seconds at most."""
    found = Found()
    began = trio.current_time()
    seen: set[Path] = set()
    with tempfile.TemporaryDirectory() as folder, trio.move_on_after(limit + 30) as scope:

        def on_progress(progress: Progress) -> None:
            if progress.findings > len(seen):
                look()

        def look() -> None:
            for file in set(Path(folder).glob("*.json")) - seen:
                seen.add(file)
                replay = read_replay(file)
                if found.take(replay.oracle, replay.message, plant.oracles):
                    scope.cancel()

        plan = Plan(seconds=limit, seed=seed, output=Path(folder))
        try:
            await fuzz_server(plant.target(), plan, on_progress=on_progress)
        except Failed as exc:
            found.others["does not begin"] = exc.message
        look()
    found.seconds = trio.current_time() - began
    return found
