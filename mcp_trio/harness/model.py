"""What the harness talks about: requirements, checks, outcomes, findings, reports.

    requirement   a sentence of the specification that says MUST or SHOULD   (requirements/*.toml)
    check         a small async function that tests some of them             (checks/)
    outcome       what one check said of one target, in one revision, over one transport
    finding       an outcome that a maintainer should hear of, with what was on the wire

Everything here is an immutable value; nothing here does anything.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias

import attrs

from mcp_trio.protocol.revisions import REVISIONS

if TYPE_CHECKING:
    from mcp_trio.harness.exchange import Entry

Level: TypeAlias = Literal["MUST", "MUST NOT", "SHOULD", "SHOULD NOT"]
Role: TypeAlias = Literal["server", "client"]
Transport: TypeAlias = Literal["stdio", "http", "sse", "websocket", "stream", "memory"]
Verdict: TypeAlias = Literal["passed", "failed", "warned", "not applicable"]

LEVELS: Final[tuple[Level, ...]] = ("MUST", "MUST NOT", "SHOULD", "SHOULD NOT")
TRANSPORTS: Final[tuple[Transport, ...]] = (
    "stdio",
    "http",
    "sse",
    "websocket",
    "stream",
    "memory",
)
"""How a peer can be reached: `stream` is a socket with the framing of stdio, `sse` the two
endpoints of 2024-11-05, `memory` a server in this process."""

SPECIFICATION: Final = "https://modelcontextprotocol.io/specification"


@attrs.frozen
class Place:
    """Where a sentence stands: a page and the anchor of a section, in some revisions."""

    revisions: tuple[str, ...]
    page: str
    section: str

    def link(self, revision: str) -> str:
        """The address of the section in `revision`, which has to be one of `revisions`."""
        anchor = f"#{self.section}" if self.section else ""
        return f"{SPECIFICATION}/{revision}/{self.page}{anchor}"


@attrs.frozen
class Requirement:
    """A sentence of the specification, as all revisions say it that say the same.

    Attributes:
        id: The area and a number, such as "tools-14".
        level: How strongly it is meant.
        binds: Who has to keep it: "server", "client", or somebody whom no harness reaches, such
            as "host", "authorization server" or "author of a schema".
        says: What it asks for, in our words.
        places: Where it stands.
        marks: Which sentences it stands for (tests/harness/spec_sentences.py makes the marks).
        unobservable: Why nothing on the wire can show whether it is kept; None where something
            can.
    """

    id: str
    level: Level
    binds: tuple[str, ...]
    says: str
    places: tuple[Place, ...]
    marks: tuple[str, ...]
    unobservable: str | None = None

    @cached_property
    def revisions(self) -> tuple[str, ...]:
        """The revisions that say it, oldest first."""
        named = {revision for place in self.places for revision in place.revisions}
        return tuple(revision for revision in REVISIONS if revision in named)

    @property
    def area(self) -> str:
        return self.id.rpartition("-")[0]

    @property
    def is_must(self) -> bool:
        return self.level.startswith("MUST")

    def link(self, revision: str) -> str:
        """The address of its section in `revision`, or in the newest one that has it."""
        if revision not in self.revisions:
            revision = self.revisions[-1]
        return next(place.link(revision) for place in self.places if revision in place.revisions)


@attrs.frozen
class Check:
    """One question to a peer, and the function that asks it.

    Attributes:
        id: Its name on the command line, such as "unknown-method-is-refused".
        role: Whose behaviour it tests.
        requirements: The ids of the requirements it tests, the most important first.
        meaning: One line: what a peer does that passes.
        revisions: Those it can be asked in.
        transports: Those it can be asked over.
        run: Asks it of a probe (`ServerProbe` or `ClientProbe`). Returns if the peer passes, and
            raises `Failed` or `NotApplicable` if not.
    """

    id: str
    role: Role
    requirements: tuple[str, ...]
    meaning: str
    revisions: tuple[str, ...]
    transports: tuple[Transport, ...]
    run: Callable[[Any], Awaitable[None]] = attrs.field(repr=False)


class Failed(Exception):
    """The peer does not do what a check asks for.

    Args:
        message: What was seen instead, in one line, for the maintainer of the peer.
        requirement: Which of the check's requirements is broken, if not the first.
    """

    def __init__(self, message: str, *, requirement: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.requirement = requirement


class Late(Failed):
    """Something did not come in time. It may be the peer, or a busy computer: it is asked again."""


class NotApplicable(Exception):
    """The peer has nothing that the check could be asked of; the message says what is missing."""

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.message = message


@attrs.frozen
class Finding:
    """Something that a peer does wrong, and how to see it again.

    Attributes:
        check: The id of the check, or the name of the oracle of a fuzzing run.
        requirements: The ids of the broken requirements; empty where an oracle asks for more than
            the specification does (that a peer survives, say).
        level: The strongest level among them; what no sentence asks for is a SHOULD.
        revision: The revision that was spoken.
        transport: The transport it was spoken over.
        message: What was seen, in one line.
        replay: A shell command that shows it again.
        exchange: What went over the wire, in order.
    """

    check: str
    requirements: tuple[str, ...]
    level: Level
    revision: str
    transport: Transport
    message: str
    replay: str
    exchange: tuple[Entry, ...] = attrs.field(default=(), repr=False)

    @property
    def is_must(self) -> bool:
        return self.level.startswith("MUST")


MISTAKE: Final = "the check itself failed: "
"""How the message of an outcome begins that is a mistake of the harness, and says nothing of the
peer."""


@attrs.frozen
class Outcome:
    """What one check said, in one revision over one transport.

    Attributes:
        verdict: "warned" is a failure of what is only a SHOULD.
        message: Why it failed or does not apply; empty if it passed.
        seconds: How long it took.
        finding: Set if it failed or warned.
        late: It failed because something did not come in time.
    """

    check: Check
    revision: str
    transport: Transport
    verdict: Verdict
    message: str
    seconds: float
    finding: Finding | None = None
    late: bool = False


@attrs.frozen
class Report:
    """What a run of checks, or of a fuzzer, found out about one target.

    Attributes:
        target: What people call it.
        kind: Which of the two it was.
        role: Whose part the target plays.
        outcomes: One for each check, revision and transport; empty for a fuzzing run.
        findings: What went wrong; the findings of the outcomes, or those of the fuzzer.
        facts: What else is worth knowing, as pairs of a name and a value, in order: the server's
            name and version, how many messages were sent, how long it took.
    """

    target: str
    kind: Literal["check", "fuzz"]
    role: Role
    outcomes: tuple[Outcome, ...]
    findings: tuple[Finding, ...]
    facts: tuple[tuple[str, str], ...] = ()

    def count(self, verdict: Verdict) -> int:
        return sum(outcome.verdict == verdict for outcome in self.outcomes)

    @property
    def mistakes(self) -> tuple[Outcome, ...]:
        """The outcomes of checks that failed themselves."""
        return tuple(outcome for outcome in self.outcomes if outcome.message.startswith(MISTAKE))

    def is_bad(self, *, strict: bool = False) -> bool:
        """Whether a MUST is broken, or with `strict` a SHOULD."""
        return any(finding.is_must or strict for finding in self.findings)
