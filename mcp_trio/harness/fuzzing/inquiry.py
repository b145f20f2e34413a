"""Inquiries: is an accusation true, what does it take, and with how little can it be shown?

An accused case is played again on a new connection. If it fails there, it is all that is needed. If
not, the cases before it may be: they are played, too, and cut down to those that matter. And if
that does not fail either, nobody can show it, and it is no finding.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import attrs
import trio

from mcp_trio.harness.exchange import Entry
from mcp_trio.harness.fuzzing.cases import Case
from mcp_trio.harness.fuzzing.minimising import fewest, smallest
from mcp_trio.harness.fuzzing.oracles import Accusation, judge
from mcp_trio.harness.fuzzing.subject import Played, Subject, TargetGone
from mcp_trio.harness.fuzzing.usage import grows_again

TRIES: Final = 2
"""How often a case is played again before it counts as one that does not fail alone."""
SHORT_DEADLINE: Final = 1.0
"""Seconds to wait for an answer while a case is made smaller that makes a peer hang."""
MOST_ROUNDS: Final = 2_000
GROWTH_TIME: Final = 20.0
"""How often, and for how many seconds, the same cases are repeated to see whether use grows."""
GROWING: Final = ("bounded-memory", "bounded-descriptors")


@attrs.frozen
class Proof:
    """Cases that show a fault when they are played on a new connection.

    Attributes:
        accusation: What was seen when they were played last.
        repeat: How often they have to be played.
        exchange: What went over the wire then.
    """

    accusation: Accusation
    cases: tuple[Case, ...]
    repeat: int = 1
    exchange: tuple[Entry, ...] = attrs.field(default=(), repr=False)


def same(one: Accusation, other: Accusation) -> bool:
    """Whether two accusations are about the same fault."""
    return (one.oracle, one.cause) == (other.oracle, other.cause)


async def confirm(
    subject: Subject, accusation: Accusation, case: Case, history: Sequence[Case]
) -> Proof | None:
    """Proof that an accusation is true; None if it cannot be shown again."""
    for _ in range(TRIES):
        if proof := await try_again(subject, accusation, [case]):
            return proof
    before = [*history, case]
    if len(before) > 1:
        return await try_again(subject, accusation, before)
    return None


async def try_again(
    subject: Subject,
    accusation: Accusation,
    cases: Sequence[Case],
    *,
    deadline: float | None = None,
) -> Proof | None:
    """Play cases on a new connection; proof, if the same is seen again."""
    if accusation.oracle in GROWING:
        return await _grow_again(subject, accusation, cases)
    try:
        played = await subject.play_anew(cases, deadline=deadline)
    except TargetGone as exc:
        if accusation.oracle != "no-crash":
            raise
        return Proof(attrs.evolve(accusation, message=str(exc)), tuple(cases))
    return _proof(accusation, played)


async def _grow_again(
    subject: Subject, accusation: Accusation, cases: Sequence[Case]
) -> Proof | None:
    """Repeat cases until use has grown by a lot, or has had the time to."""
    until = trio.current_time() + GROWTH_TIME

    def grown() -> bool:
        return grows_again(subject.usage_anew, accusation.oracle)

    await subject.play_anew(
        cases,
        repeat=MOST_ROUNDS,
        enough=lambda: grown() or trio.current_time() >= until,
    )
    return Proof(accusation, tuple(cases), len(subject.usage_anew)) if grown() else None


def _proof(accusation: Accusation, played: Sequence[Played]) -> Proof | None:
    for number, one in enumerate(played, 1):
        for found in judge(one.trace):
            if same(found, accusation):
                cases = tuple(each.trace.case for each in played[:number])
                return Proof(found, cases, exchange=one.exchange)
    return None


async def minimise(subject: Subject, proof: Proof, until: float) -> Proof:
    """A smaller proof, as far as that goes until `until`, in Trio's time."""
    best = proof
    hangs = proof.accusation.oracle in ("still-answers", "within-deadline", "ends-with-stdin")
    deadline = min(SHORT_DEADLINE, subject.deadline) if hangs else None

    async def cases_fail(cases: list[Case]) -> bool:
        return await try_again(subject, proof.accusation, cases, deadline=deadline) is not None

    cases = list(proof.cases)
    if len(cases) > 1:
        cases = await fewest(cases, cases_fail, until)
    for number in range(len(cases)) if proof.repeat == 1 else ():

        async def case_fails(case: Case, number: int = number) -> bool:
            return await cases_fail([*cases[:number], case, *cases[number + 1 :]])

        cases[number] = await smallest(cases[number], case_fails, until)
    # Once more, with the whole deadline.
    if tuple(cases) != proof.cases or hangs:
        with trio.move_on_after(GROWTH_TIME + 10 * subject.deadline):
            repeated = await try_again(subject, proof.accusation, cases)
            best = repeated or best
    return best
