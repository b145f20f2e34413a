"""`python -m tests.harness.planted`: who finds which of the planted faults, and how fast.

Each server is checked, fuzzed, and given to mcp-fuzzer (`pip install mcp-fuzzer`, if it is there),
each for a minute. It prints a table in Markdown; what it is told on the way goes to stderr.
"""

from __future__ import annotations

import argparse
import shutil
import sys
from functools import partial

import trio

from tests.harness.planted import rival
from tests.harness.planted.finding import Found, by_check, by_fuzz
from tests.harness.planted.plants import HEALTHY, PLANTS, Plant

HEAD = ("Fault", "`mcp-trio check`", "`mcp-trio fuzz`", "mcp-fuzzer")
BASELINES = 2
"""Runs of mcp-fuzzer on the healthy server: what it says is not the same each time."""


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.harness.planted", description=__doc__)
    parser.add_argument("names", nargs="*", help="only these servers")
    parser.add_argument("--seconds", type=float, default=60.0, help="for each server and tool")
    parser.add_argument("--mcp-fuzzer", default=shutil.which("mcp-fuzzer"), metavar="PROGRAM")
    options = parser.parse_args()
    known = {plant.name: plant for plant in (HEALTHY, *PLANTS)}
    if unknown := set(options.names) - known.keys():
        parser.error(f"there is no {', '.join(sorted(unknown))}; there is {', '.join(known)}")
    baseline = None
    if options.mcp_fuzzer:
        runs = [rival.run(options.mcp_fuzzer, HEALTHY, options.seconds) for _ in range(BASELINES)]
        baseline = rival.united(runs)
        say(f"mcp-fuzzer on the healthy server: {runs}")
    rows = [HEAD, tuple("---" for _ in HEAD)]
    for name in options.names or known:
        plant = known[name]
        row = (
            plant.fault,
            harness_cell(plant, trio.run(partial(by_check, plant, options.seconds))),
            harness_cell(plant, trio.run(partial(by_fuzz, plant, options.seconds))),
            rival_cell(plant, options.mcp_fuzzer, options.seconds, baseline),
        )
        say(f"{name}: {row}")
        rows.append(row)
    print("\n".join(f"| {' | '.join(row)} |" for row in rows))


def harness_cell(plant: Plant, found: Found) -> str:
    say(f"{plant.name}: {found}")
    if found.name is not None:
        return f"`{found.name}`, {found.seconds:.1f} s"
    if plant is HEALTHY:
        others = ", ".join(f"`{name}`" for name in found.others)
        return f"{others or 'nothing'}, {found.seconds:.0f} s"
    if "does not begin" in found.others:
        return f"says {found.others['does not begin']!r}, {found.seconds:.1f} s"
    return "—"


def rival_cell(
    plant: Plant, program: str | None, seconds: float, baseline: rival.Verdict | None
) -> str:
    if program is None or baseline is None:
        return "not installed"
    if plant is HEALTHY:
        count = sum(baseline.findings.values()) // BASELINES
        kinds = ", ".join(sorted(baseline.findings))
        return f"{count} findings: {kinds}, {baseline.seconds / BASELINES:.0f} s"
    verdict = rival.run(program, plant, seconds)
    say(f"{plant.name}: mcp-fuzzer: {verdict}")
    more = "; ".join(verdict.beyond(baseline))
    return f"{more}, {verdict.seconds:.0f} s" if more else "—"


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()
