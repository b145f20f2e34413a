"""What a process uses, and whether that grows without end.

One look says nothing: interpreters keep memory, caches fill, requests are under way. Many looks are
a reason to suspect. Who is suspected plays the same cases again and again in a new process, and
use has to grow from round to round there.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from statistics import median
from typing import Final

import attrs

from mcp_trio.harness.fuzzing.oracles import Accusation

FEWEST: Final = 12
"""Looks without which nothing is said."""
MUCH_MEMORY: Final = 24 * 2**20
MANY_DESCRIPTORS: Final = 16
FEWEST_ROUNDS: Final = 6
MUCH_AGAIN: Final = 256 * 2**20
"""A healthy server on Node grew by 144 MiB in 9,000 messages before its collector came to it."""
SHARE: Final = 0.2
"""By what part of it memory has to grow, too."""


@attrs.frozen
class Usage:
    """What the processes of a group used at one moment.

    Attributes:
        messages: How many messages had been sent to it by then.
        cases: In how many cases.
        memory: Bytes that were resident.
        descriptors: Files, sockets and pipes that were open.
    """

    messages: int
    cases: int
    memory: int
    descriptors: int


def measure(group: int, messages: int, cases: int) -> Usage | None:
    """Look at a process group that we started; None if there is no /proc, or no such group."""
    memory = descriptors = 0
    found = False
    for process in _processes(group):
        try:
            resident = int((process / "statm").read_text().split()[1])
            descriptors += len(os.listdir(process / "fd"))
        except (OSError, IndexError):
            continue
        memory += resident * PAGE
        found = True
    return Usage(messages, cases, memory, descriptors) if found else None


PAGE: Final = os.sysconf("SC_PAGE_SIZE") if hasattr(os, "sysconf") else 4096


def _processes(group: int) -> Iterator[Path]:
    """The processes of a group, by what the system says of each."""
    root = Path("/proc")
    if not (root / str(group)).exists():
        return
    for folder in os.listdir(root):
        if folder.isdecimal():
            try:
                stat = (root / folder / "stat").read_text()
            except OSError:
                continue
            if int(stat.rpartition(")")[2].split()[2]) == group:
                yield root / folder


def growth(series: Sequence[Usage]) -> list[Accusation]:
    """What the looks at one process say against it."""
    found = []
    memory = _grows([usage.memory for usage in series], MUCH_MEMORY, SHARE)
    if memory is not None:
        text = f"memory grew from {memory[0] >> 20} to {memory[1] >> 20} MiB"
        found.append(_accusation("bounded-memory", text, series))
    descriptors = _grows([usage.descriptors for usage in series], MANY_DESCRIPTORS, 0)
    if descriptors is not None:
        text = f"open descriptors grew from {descriptors[0]} to {descriptors[1]}"
        found.append(_accusation("bounded-descriptors", text, series))
    return found


def _accusation(oracle: str, text: str, series: Sequence[Usage]) -> Accusation:
    messages = series[-1].messages - series[0].messages
    return Accusation(oracle, "grows", f"{text} over {messages} messages, and kept growing")


def _grows(values: Sequence[int], least: int, share: float) -> tuple[int, int] | None:
    """The level in the first quarter and that in the last, if it rose by enough and stayed up."""
    if len(values) < FEWEST:
        return None
    quarter = len(values) // 4
    before, after = int(median(values[:quarter])), int(median(values[-quarter:]))
    stayed = after >= 0.9 * max(values)
    return (before, after) if stayed and after - before >= max(least, share * before) else None


def when_it_grew(series: Sequence[Usage], oracle: str) -> list[range]:
    """The numbers of the cases between two looks, those first in which use grew most."""
    rises = [
        (_used(after, oracle) - _used(before, oracle), range(before.cases, after.cases))
        for before, after in pairwise(series)
    ]
    return [cases for rise, cases in sorted(rises, key=lambda one: -one[0]) if rise > 0]


def _used(usage: Usage, oracle: str) -> int:
    return usage.memory if oracle == "bounded-memory" else usage.descriptors


def grows_again(series: Sequence[Usage], oracle: str) -> bool:
    """Whether use grew by a lot while the same cases were played again and again to a new process.

    The first third is for warming up. What a collector of garbage has not come to yet looks the
    same for a while, so it takes a lot, and it has to go on.
    """
    of_memory = oracle == "bounded-memory"
    values = [_used(usage, oracle) for usage in series]
    rest = values[len(values) // 3 :]
    if len(values) < FEWEST_ROUNDS:
        return False
    total, late = rest[-1] - rest[0], rest[-1] - rest[len(rest) // 2]
    return total >= (MUCH_AGAIN if of_memory else MANY_DESCRIPTORS) and late >= total / 3
