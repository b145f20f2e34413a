"""A million fuzzed messages against our own server and client: `python -m fuzz million`.

Half of them go to the demo server in memory, a fifth to the same server as a process of its own
over stdio, and the rest to a client. After each batch the oracle judges what came back: nothing
crashes, hangs or sends what is not valid, every request has its one answer. Memory is the resident
set size of the process under test, and it has to be flat, as has the number of its descriptors.
"""

from __future__ import annotations

import argparse
import gc
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from random import Random

import attrs
import trio

from fuzz.calling import random_visit
from fuzz.mill import Mill
from fuzz.oracle import Fault
from fuzz.serving import AT_ONCE, Client, converse_once
from mcp_trio.protocol.revisions import LEGACY
from mcp_trio.transports.parameters import StdioParameters
from mcp_trio.transports.process import ChildProcess
from mcp_trio.transports.stdio import open_stdio
from mcp_trio.wire.ndjson import CLIENT_LINE_LIMIT

BATCH = 2_500
"""Messages of one connection in memory; over stdio, between two judgements."""
PROCESS = 50_000
"""Messages of one server process."""
SLOW = 20.0
"""Real seconds in which all but what waits by itself has to be answered, on a busy machine too."""
WARM = 0.25
"""How much of a run may pass before its memory has to be flat."""
GROWTH = 1.05, 4.0
"""How much more memory the last quarter may take than the second one: a factor, or megabytes."""
TOLD = 50_000
"""Messages between two lines of progress."""
SHOWN = 12
"""Points of a curve that are printed."""


@attrs.frozen
class Sample:
    """How much the process under test takes, after so many messages."""

    messages: int
    megabytes: float
    descriptors: int


@attrs.define
class Part:
    """One part of the run.

    Attributes:
        curves: The samples of each process.
    """

    name: str
    wanted: int
    sent: int = 0
    received: int = 0
    seconds: float = 0.0
    curves: list[list[Sample]] = attrs.field(factory=lambda: [[]])
    _told: int = 0

    def sample(self, pid: int) -> None:
        sample = Sample(self.sent, megabytes_of(pid), descriptors_of(pid))
        if self.sent // TOLD > self._told:
            self._told = self.sent // TOLD
            print(f"{self.name}: {self.sent:,} messages, {sample.megabytes:.1f} MB", flush=True)
        self.curves[-1].append(sample)

    def judge(self) -> None:
        """Raises:
        Fault: Memory or descriptors are not flat.
        """
        for curve in self.curves:
            warm = curve[int(len(curve) * WARM) :]
            if len(warm) < 8:
                continue
            third = len(warm) // 3
            before, after = _mean(warm[:third]), _mean(warm[-third:])
            if after > max(before * GROWTH[0], before + GROWTH[1]):
                raise Fault(f"{self.name}: memory grows from {before:.1f} to {after:.1f} MB")
            counts = [sample.descriptors for sample in warm]
            if max(counts) > counts[0] + 2:
                raise Fault(f"{self.name}: descriptors grow: {counts}")

    def tell(self) -> None:
        rate = self.sent / self.seconds if self.seconds else 0
        print(
            f"\n{self.name}: {self.sent:,} messages sent, {self.received:,} came back, "
            f"{self.seconds:.0f} s, {rate:,.0f} a second"
        )
        for curve in self.curves:
            step = max(1, len(curve) // SHOWN)
            shown = [*curve[:-1:step], *curve[-1:]]
            print("  messages   " + " ".join(f"{s.messages // 1000:>5}k" for s in shown))
            print("  megabytes  " + " ".join(f"{s.megabytes:>6.1f}" for s in shown))
            print("  descriptors" + " ".join(f"{s.descriptors:>6}" for s in shown))


def _mean(samples: list[Sample]) -> float:
    return sum(sample.megabytes for sample in samples) / len(samples)


def megabytes_of(pid: int) -> float:
    """Resident memory of a process (Linux)."""
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 1e6


def descriptors_of(pid: int) -> int:
    return len(os.listdir(f"/proc/{pid}/fd"))


# In memory ------------------------------------------------------------------------------------


def server_in_memory(part: Part, seed: int) -> None:
    """One connection after the other, of both eras and all revisions."""
    number = 0
    while part.sent < part.wanted:
        number += 1
        mill = Mill(Random(f"{seed} memory {number}"), modern=(number % 3) / 2)
        start = mill.opening(LEGACY[number % len(LEGACY)]) if number % 4 else []
        size = min(BATCH, part.wanted - part.sent)
        witness = converse_once([*start, *(mill.from_client() for _ in range(size))], mill)
        _count(part, witness.sent_count, witness.received_count)


def client_in_memory(part: Part, seed: int) -> None:
    """One client after the other, each with a wild server of its own."""
    number = since = 0
    while part.sent < part.wanted:
        number += 1
        witness = random_visit(Random(f"{seed} client {number}"), length=30)
        part.sent += witness.sent_count
        part.received += witness.received_count
        since += witness.sent_count
        if since > BATCH or part.sent >= part.wanted:
            since = 0
            _count(part, 0, 0)


def _count(part: Part, sent: int, received: int) -> None:
    part.sent += sent
    part.received += received
    gc.collect()  # exceptions and their frames hold each other until somebody looks
    part.sample(os.getpid())


# Over stdio -----------------------------------------------------------------------------------


def server_over_stdio(part: Part, seed: int) -> None:
    """One process after the other, each with a long conversation."""
    part.curves.clear()
    while part.sent < part.wanted:
        part.curves.append([])
        trio.run(_one_process, part, seed)


async def _one_process(part: Part, seed: int) -> None:
    number = len(part.curves)
    mill = Mill(Random(f"{seed} stdio {number}"), modern=(number % 3) / 2)
    parameters = StdioParameters(sys.executable, ["-m", "mcp_trio.demo"], stderr="discard")
    enough = min(part.wanted, part.sent + PROCESS)
    async with (
        open_stdio(parameters, line_limit=CLIENT_LINE_LIMIT) as (stream, child),
        trio.open_nursery() as nursery,
    ):
        client = Client(stream, mill)
        nursery.start_soon(client.read)
        await client.send(mill.opening(LEGACY[number % len(LEGACY)]))
        while part.sent < enough:
            before = client.witness.sent_count, client.witness.received_count
            for _ in range(BATCH // AT_ONCE):
                await client.send([mill.from_client() for _ in range(AT_ONCE)])
            await _come_to_rest(client)
            part.sent += client.witness.sent_count - before[0]
            part.received += client.witness.received_count - before[1]
            part.sample(child.pid)
        await _end(client, child, stream.send_stream)


#: Methods whose requests may wait: for seconds that they were told, or for an end that never comes.
WAITING = frozenset({"tools/call", "subscriptions/listen"})


async def _come_to_rest(client: Client) -> None:
    """Wait for every answer that has to come, and cancel what only waits.

    Raises:
        Fault: Something else has no answer in time.
    """
    with trio.move_on_after(SLOW):
        while any(not asked & WAITING for asked in client.witness.unanswered.values()):
            await client.refuse_questions()
            await trio.sleep(0.02)
        # Those that do compute something are done by now, or within a moment.
        await client.refuse_questions()
        await trio.sleep(0.1)
        await client.cancel(WAITING)
        return
    client.witness.settle()


async def _end(client: Client, child: ChildProcess, stdin: trio.abc.SendStream) -> None:
    """Close the server's input: it has to end by itself, and say that all is well."""
    await stdin.aclose()
    with trio.move_on_after(SLOW):
        await client.ended.wait()
        status = await child.wait()
        if status != 0:
            raise Fault(f"the server ended with status {status}")
        return
    raise Fault("the server goes on though its input has ended")


# All of it ------------------------------------------------------------------------------------

Runner = Callable[[Part, int], None]
PARTS: dict[str, tuple[Runner, float]] = {
    "server in memory": (server_in_memory, 0.5),
    "server over stdio": (server_over_stdio, 0.2),
    "client in memory": (client_in_memory, 0.3),
}
"""What runs, and its share of the messages."""


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser("python -m fuzz million", description=__doc__)
    parser.add_argument("--messages", type=int, default=1_000_000)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args(arguments)
    sent, started = 0, time.monotonic()
    for name, (run, share) in PARTS.items():
        part = Part(name, int(options.messages * share))
        began = time.monotonic()
        try:
            run(part, options.seed)
            part.seconds = time.monotonic() - began
            part.tell()
            part.judge()
        except Exception:
            print(f"\nFAILED: {name}, after {part.sent:,} messages with seed {options.seed}")
            raise
        sent += part.sent
    seconds = time.monotonic() - started
    print(f"\n{sent:,} messages, {seconds:.0f} s, {sent / seconds:,.0f} a second: no fault")
    return 0
