"""Every check of clients can fail: on a mutant. And it passes on the client it was made from."""

from collections.abc import Sequence

import pytest
import trio
import trio.testing

from mcp_trio.harness.checks import load_checks
from mcp_trio.harness.client_runner import check_client
from mcp_trio.harness.handover import ClientTarget
from mcp_trio.harness.model import Check, Outcome
from mcp_trio.harness.mutants import ClientMutant, load_mutants
from mcp_trio.harness.probe import Options
from mcp_trio.protocol.revisions import is_modern

CHECKS = {check.id: check for check in load_checks("client")}
MUTANTS = [mutant for mutant in load_mutants() if isinstance(mutant, ClientMutant)]
#: Seconds that an answer may take: virtual ones are free.
PATIENT = Options(deadline=5.0)
HURRIED = Options(deadline=1.0)


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.id)
def test_mutant_is_caught(mutant: ClientMutant) -> None:
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


def run_both(mutant: ClientMutant, checks: Sequence[Check]) -> tuple[list[Outcome], list[Outcome]]:
    """What the checks say of the mutant, and of the same without its fault."""

    async def main() -> tuple[list[Outcome], list[Outcome]]:
        async with mutant.open() as target:
            faulty = await outcomes(target, checks, mutant, PATIENT if mutant.virtual else HURRIED)
        async with mutant.open_healthy() as target:
            return faulty, await outcomes(target, checks, mutant, PATIENT)

    if not mutant.virtual:
        return trio.run(main)
    return trio.run(main, clock=trio.testing.MockClock(autojump_threshold=0))


async def outcomes(
    target: ClientTarget, checks: Sequence[Check], mutant: ClientMutant, options: Options
) -> list[Outcome]:
    """What checks say of a target, each in the newest revision of each era that it is for.

    Where time is real, the newest of all has to do.
    """
    wanted: dict[str, list[Check]] = {}
    for check in checks:
        eras = [
            [revision for revision in check.revisions if is_modern(revision) is modern][-1:]
            for modern in (False, True)
        ]
        newest = [revision for era in eras for revision in era]
        for revision in newest if mutant.virtual else newest[-1:]:
            wanted.setdefault(revision, []).append(check)
    found: list[Outcome] = []
    for revision, these in sorted(wanted.items()):
        report = await check_client(target, these, revisions=[revision], options=options, jobs=1)
        found += report.outcomes
    return found
