"""Runs checks of clients: each once for each revision, several at a time.

Each check starts the client anew, except for those that are content with the recording of a run
against a healthy server (`mcp_trio.harness.client_probe`).
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from functools import partial

import trio

from mcp_trio.harness.client_probe import (
    NO_REVISION,
    ClientProbe,
    SharedRecording,
    newest_of_each_era,
)
from mcp_trio.harness.handover import ClientTarget
from mcp_trio.harness.judging import Judge, OnOutcome
from mcp_trio.harness.model import Check, Failed, Outcome, Report
from mcp_trio.harness.probe import Options
from mcp_trio.harness.requirements import load_requirements
from mcp_trio.harness.stages import playable


async def check_client(
    target: ClientTarget,
    checks: Sequence[Check],
    *,
    revisions: Sequence[str] | None = None,
    options: Options | None = None,
    jobs: int = 4,
    on_outcome: OnOutcome | None = None,
) -> Report:
    """Run checks of the client role against a client.

    Args:
        target: The client.
        checks: Those to run; the ones that do not fit a revision or the transport are left out.
        revisions: Those that the scripted server speaks; by default the newest of each era that
            the client speaks.
        options: Deadlines.
        jobs: How many checks run at a time, each with a client of its own.
        on_outcome: Called with each outcome as soon as it is there.

    Raises:
        Failed: The client speaks no revision, or does not find the server.
        OSError: It cannot be started.
    """
    options = options or Options()
    began = trio.current_time()
    chosen = await newest_of_each_era(target, options) if revisions is None else tuple(revisions)
    if not chosen:
        raise Failed(NO_REVISION)
    outcomes: list[Outcome] = []
    name = "?"
    for revision in chosen:
        shared = SharedRecording()
        fitting = [
            check
            for check in checks
            if revision in check.revisions
            and target.transport in check.transports
            and playable(revision, target.transport)
        ]
        opening = partial(_open_probe, target, revision, options, shared)
        judge = Judge(target, revision, options, load_requirements(), opening, on_outcome)
        outcomes += await judge.run(fitting, jobs)
        name = shared.name or name
    seconds = trio.current_time() - began
    return Report(
        target=target.name,
        kind="check",
        role="client",
        outcomes=tuple(outcomes),
        findings=tuple(outcome.finding for outcome in outcomes if outcome.finding),
        facts=(
            ("client", name),
            ("transport", target.transport),
            ("revisions", ", ".join(chosen)),
            ("seconds", f"{seconds:.1f}"),
        ),
    )


@asynccontextmanager
async def _open_probe(
    target: ClientTarget, revision: str, options: Options, shared: SharedRecording
) -> AsyncIterator[ClientProbe]:
    yield ClientProbe(target, revision, options, shared)
