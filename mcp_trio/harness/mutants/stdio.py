"""The stdio transport: lines, streams and the process: mutants."""

from __future__ import annotations

import json
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final

from mcp_trio.harness.mutants import Mutant
from mcp_trio.harness.mutants.__main__ import FAULTS
from mcp_trio.harness.mutants.streams import ByteFault, stream_mutant
from mcp_trio.harness.targets import ServerTarget, command_target
from mcp_trio.transports.parameters import StdioParameters

# What arrives


class TakesPiecesForMessages(ByteFault):
    """Takes whatever comes at once for a whole message."""

    def received(self, data: bytes) -> bytes:
        return data if data.endswith(b"\n") else data + b"\n"


class ReadsTheFirstLine(ByteFault):
    """Reads one message of what comes at once, and drops the rest."""

    def received(self, data: bytes) -> bytes:
        return data.partition(b"\n")[0] + b"\n"


class SplitsAtSeparators(ByteFault):
    """Ends lines where Unicode has line separators, too."""

    def received(self, data: bytes) -> bytes:
        for separator in ("\u2028", "\u2029", "\u0085"):
            data = data.replace(separator.encode(), b"\n")
        return data


class DropsCarriageReturns(ByteFault):
    """Does not know a message that ends with CR LF."""

    def received(self, data: bytes) -> bytes:
        lines = data.split(b"\n")
        return b"\n".join(b"?" if line.endswith(b"\r") else line for line in lines)


class _Dies(ByteFault):
    """Reads nothing more once it has seen something."""

    dead = False

    def kills(self, data: bytes) -> bool:
        raise NotImplementedError

    def received(self, data: bytes) -> bytes:
        self.dead = self.dead or self.kills(data)
        return b"" if self.dead else data


class DiesOfEmptyLines(_Dies):
    """Ends at an empty line."""

    def kills(self, data: bytes) -> bool:
        return not data.strip()


class DiesOfAMark(_Dies):
    """Ends at a byte-order mark."""

    def kills(self, data: bytes) -> bool:
        return data.startswith(b"\xef\xbb\xbf")


class DiesOfBadCharacters(_Dies):
    """Ends at bytes that are no UTF-8."""

    def kills(self, data: bytes) -> bool:
        return b"\xff" in data


class DiesOfLongLines(_Dies):
    """Ends at a line of more than half a megabyte."""

    def __init__(self) -> None:
        self.length = 0

    def kills(self, data: bytes) -> bool:
        rest = data.rpartition(b"\n")
        self.length = len(data) + (0 if rest[1] else self.length)
        return self.length > 500_000


# What is sent


class Prints(ByteFault):
    """Prints a line for each call of a tool."""

    def sent(self, data: bytes) -> bytes:
        return b"called a tool\n" + data if b'"content"' in data else data


class PrettyPrints(ByteFault):
    """Writes its messages over several lines."""

    def sent(self, data: bytes) -> bytes:
        messages = [json.loads(line) for line in data.splitlines()]
        pretty = [
            json.dumps(m, indent=2 if "tools" in m.get("result", {}) else None) for m in messages
        ]
        return "".join(text + "\n" for text in pretty).encode()


class WritesLatin(ByteFault):
    """Writes in Latin-1."""

    def sent(self, data: bytes) -> bytes:
        return data.decode().encode("latin-1", errors="replace")


class UnescapesNewlines(ByteFault):
    """Does not escape newlines."""

    def sent(self, data: bytes) -> bytes:
        return data.replace(b"\\n", b"\n")


class HearsNoCancellation(ByteFault):
    """Goes on with a call that was cancelled."""

    def received(self, data: bytes) -> bytes:
        lines = data.splitlines(keepends=True)
        return b"".join(line for line in lines if b"notifications/cancelled" not in line)


# The process


def process_mutant(fault: str, *catches: str) -> Mutant:
    """A mutant that is a process; `fault` is a row of `FAULTS`."""

    @asynccontextmanager
    async def open_faulty() -> AsyncIterator[ServerTarget]:
        yield _target(fault)

    @asynccontextmanager
    async def open_healthy() -> AsyncIterator[ServerTarget]:
        yield _target("none")

    text = (FAULTS[fault].__doc__ or "").strip().partition("\n")[0]
    return Mutant(fault, text, catches, open_faulty, open_healthy)


def _target(fault: str) -> ServerTarget:
    command = [sys.executable, "-m", "mcp_trio.harness.mutants", fault]
    return command_target(StdioParameters(command[0], command[1:]))


MUTANTS: Final[tuple[Mutant, ...]] = (
    stream_mutant("takes-pieces-for-messages", TakesPiecesForMessages, ["messages-may-be-split"]),
    stream_mutant("reads-the-first-line", ReadsTheFirstLine, ["messages-may-come-together"]),
    stream_mutant("splits-at-separators", SplitsAtSeparators, ["only-newlines-end-a-message"]),
    stream_mutant("drops-carriage-returns", DropsCarriageReturns, ["carriage-returns-do-no-harm"]),
    stream_mutant("dies-of-empty-lines", DiesOfEmptyLines, ["empty-lines-are-ignored"]),
    stream_mutant("dies-of-a-mark", DiesOfAMark, ["byte-order-mark-is-survived"]),
    stream_mutant("dies-of-bad-characters", DiesOfBadCharacters, ["bad-characters-are-survived"]),
    stream_mutant("dies-of-long-lines", DiesOfLongLines, ["long-messages-are-read"]),
    stream_mutant("prints", Prints, ["stdout-is-for-messages"]),
    stream_mutant("pretty-prints", PrettyPrints, ["stdout-is-for-messages"]),
    stream_mutant("writes-latin", WritesLatin, ["lines-are-utf-8"]),
    stream_mutant("unescapes-newlines", UnescapesNewlines, ["newlines-are-escaped"]),
    stream_mutant("hears-no-cancellation", HearsNoCancellation, ["nothing-comes-after-cancel"]),
    process_mutant("stays-for-ever", "exits-when-stdin-ends", "legacy-exits-when-stdin-ends"),
    process_mutant(
        "stays-for-calls",
        "exits-when-stdin-ends-in-a-call",
        "legacy-exits-when-stdin-ends-in-a-call",
    ),
    process_mutant("stays-if-unused", "exits-though-nothing-was-said"),
    process_mutant("leaves-at-once", "answers-come-before-the-exit"),
    process_mutant("ignores-sigterm", "exits-at-sigterm"),
)
