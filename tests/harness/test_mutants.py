"""Every check can fail: on a mutant. And it passes on the peer that the mutant was made from.

`pytest -s tests/harness/test_mutants.py -k matrix` prints who catches whom.
"""

from collections.abc import Sequence

import pytest
import trio
import trio.testing

from mcp_trio.harness.checks import load_checks
from mcp_trio.harness.model import Check, Outcome
from mcp_trio.harness.mutants import Mutant, load_mutants
from mcp_trio.harness.probe import Options
from mcp_trio.harness.runner import check_server
from mcp_trio.harness.targets import ServerTarget

CHECKS = {check.id: check for check in load_checks("server")}
MUTANTS = [mutant for mutant in load_mutants() if isinstance(mutant, Mutant)]
#: Seconds that an answer may take: virtual ones are free.
PATIENT = Options(deadline=5.0, allow_writes=True)
HURRIED = Options(deadline=1.0, allow_writes=True)


def test_every_check_has_a_mutant() -> None:
    """A check that no mutant fails has never been seen to fail, and proves nothing."""
    caught = {check for mutant in load_mutants() for check in mutant.caught_by}
    every = {check.id for check in load_checks()}
    assert every - caught == set(), "checks without a mutant"
    assert caught - every == set(), "checks that mutants name and nobody has"


def test_names_are_unique() -> None:
    """An id names one check, or one mutant, on the command line and in reports."""
    for ids in ([check.id for check in load_checks()], [m.id for m in load_mutants()]):
        assert sorted(ids) == sorted(set(ids))


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.id)
def test_mutant_is_caught(mutant: Mutant) -> None:
    """Each check that a mutant names fails on it, and passes where the fault is not."""
    checks = [CHECKS[id] for id in mutant.caught_by]
    faulty, healthy = run_both(mutant, checks)
    for check in checks:
        said = {o.revision: (o.verdict, o.message) for o in faulty if o.check is check}
        assert {"failed", "warned"} & {verdict for verdict, _ in said.values()}, (
            f"{check.id} does not catch {mutant.id}: {said}"
        )
        said = {o.revision: (o.verdict, o.message) for o in healthy if o.check is check}
        verdicts = {verdict for verdict, _ in said.values()}
        assert "passed" in verdicts, f"{check.id} never passes where {mutant.id} is healthy: {said}"
        assert not {"failed", "warned"} & verdicts, f"{check.id} fails on a healthy peer: {said}"
    assert not [o for o in faulty if "the check itself failed" in o.message]


def run_both(mutant: Mutant, checks: Sequence[Check]) -> tuple[list[Outcome], list[Outcome]]:
    """What the checks say of the mutant, and of the same without its fault."""

    async def main() -> tuple[list[Outcome], list[Outcome]]:
        async with mutant.open() as target:
            faulty = await outcomes(target, checks, PATIENT if mutant.virtual else HURRIED)
        async with mutant.open_healthy() as target:
            return faulty, await outcomes(target, checks, PATIENT)

    if not mutant.virtual:
        return trio.run(main)
    return trio.run(main, clock=trio.testing.MockClock(autojump_threshold=0))


async def outcomes(
    target: ServerTarget, checks: Sequence[Check], options: Options
) -> list[Outcome]:
    """What checks say of a target, in the newest revision of each era that any of them is for."""
    for_checks = sorted({revision for check in checks for revision in check.revisions})
    modern = [revision for revision in for_checks if revision == "2026-07-28"]
    legacy = [revision for revision in for_checks if revision != "2026-07-28"]
    # A check that is not for the newest legacy revision is asked in the newest it is for.
    wanted = {
        max(r for r in c.revisions if r in legacy) for c in checks if set(c.revisions) & set(legacy)
    }
    found: list[Outcome] = []
    report = await check_server(
        target, checks, revisions=[*sorted(wanted), *modern], options=options, jobs=1
    )
    found.extend(report.outcomes)
    return found


def test_matrix(capsys: pytest.CaptureFixture[str]) -> None:
    """Prints each check with the mutants that it catches."""
    rows = [
        (check.id, [mutant.id for mutant in load_mutants() if check.id in mutant.caught_by])
        for check in load_checks()
    ]
    with capsys.disabled():
        print()
        for check_id, mutants in rows:
            print(f"{check_id:<50} {', '.join(mutants)}")
    assert rows
