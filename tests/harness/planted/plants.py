"""The planted servers: which there are, and what has to name each fault."""

from __future__ import annotations

import sys
from importlib import import_module
from pathlib import Path

import attrs

from mcp_trio.harness.targets import ServerTarget, command_target
from mcp_trio.transports.parameters import StdioParameters

ROOT = Path(__file__).parents[3]


@attrs.frozen
class Plant:
    """A server with one fault, or with none.

    Attributes:
        name: Its module in `faults`.
        checks: The checks that name the fault: any of them will do.
        oracles: The oracles of the fuzzer that name it: any of them will do.
    """

    name: str
    checks: tuple[str, ...] = ()
    oracles: tuple[str, ...] = ()

    @property
    def module(self) -> str:
        package = __package__ or ""
        return f"{package}.faults.{self.name}" if self.name != "healthy" else f"{package}.healthy"

    @property
    def fault(self) -> str:
        """What is wrong with it, in a line."""
        text = import_module(self.module).__doc__ or ""
        return text.partition("\n")[0].rstrip(".")

    @property
    def command(self) -> list[str]:
        """What starts it, in the root of the repository."""
        return [sys.executable, "-m", self.module]

    def target(self) -> ServerTarget:
        command, *args = self.command
        return command_target(StdioParameters(command, args, cwd=ROOT), self.name)


HEALTHY = Plant("healthy")
SURVIVING_CANCELLATION = (
    "cancelled-call-is-not-answered",
    "cancelled-call-stops",
    "nothing-comes-after-cancel",
    "cancellation-hits-one-request",
)
CUT_IN_PIECES = ("right-id", "within-deadline", "no-answer-to-a-notification")
"""What a server is accused of that answers the pieces of a message one by one."""
PLANTS = (
    Plant("hangs_after_cancel", SURVIVING_CANCELLATION, ("still-answers",)),
    Plant("answers_cancelled", SURVIVING_CANCELLATION[:3], ("no-answer-after-cancel",)),
    Plant("leaks_memory", ("repetition-costs-nothing",), ("bounded-memory",)),
    Plant("leaks_descriptors", ("repetition-costs-nothing",), ("bounded-descriptors",)),
    Plant("strings_for_ids", ("ids-come-back",), ("right-id",)),
    Plant("rounds_big_numbers", ("big-ids-come-back",), ("right-id",)),
    Plant("dies_of_depth", ("deep-nesting-is-survived",), ("no-crash",)),
    Plant("dies_of_bad_utf8", ("bad-characters-are-survived",), ("no-crash",)),
    Plant("splits_at_u2028", ("only-newlines-end-a-message",), CUT_IN_PIECES),
    Plant("takes_a_read_for_a_line", ("messages-may-be-split",), CUT_IN_PIECES),
    Plant("answers_twice", ("each-request-is-answered",), ("no-second-answer",)),
    Plant(
        "answers_notifications",
        ("unknown-notifications-are-ignored", "notifications-get-no-answer"),
        ("no-answer-to-a-notification",),
    ),
    Plant("prints_in_a_tool", ("stdout-is-for-messages",), ("only-protocol-on-stdout",)),
    Plant("progress_goes_back", ("progress-grows",), ("progress-is-in-order",)),
    Plant("progress_after_the_end", ("progress-ends-with-the-call",), ("progress-is-in-order",)),
    Plant(
        "stays_after_the_end",
        ("exits-when-stdin-ends", "legacy-exits-when-stdin-ends"),
        ("ends-with-stdin",),
    ),
    Plant("breaks_its_schema", ("structured-content-fits-the-output-schema",)),
    Plant("pages_without_end", ("lists-come-to-an-end",)),
    Plant("echoes_any_version", ("unknown-version-gets-another",)),
    Plant("wrong_error_code", ("unknown-tool-is-refused",), ("right-error-code",)),
)
