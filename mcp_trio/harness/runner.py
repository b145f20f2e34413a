"""Runs checks of servers: each once for each revision and transport, several at a time.

A worker is a task with a probe of its own, and so with its own connections; the workers of one
target and revision take checks from one queue until it is empty (`mcp_trio.harness.judging`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial

import attrs
import trio

from mcp_trio.exceptions import TransportError
from mcp_trio.harness.exchange import Exchange
from mcp_trio.harness.judging import PATIENCE, Judge, OnOutcome, replay_line, strongest
from mcp_trio.harness.model import Check, Failed, NotApplicable, Outcome, Report
from mcp_trio.harness.probe import Options, SharedInventory, open_probe
from mcp_trio.harness.requirements import load_requirements
from mcp_trio.harness.session import open_session
from mcp_trio.harness.spoken import newest_of_each_era
from mcp_trio.harness.targets import ServerTarget

__all__ = ["OnOutcome", "check_server", "replay_line", "strongest"]


async def check_server(
    target: ServerTarget,
    checks: Sequence[Check],
    *,
    revisions: Sequence[str] | None = None,
    options: Options | None = None,
    jobs: int = 4,
    on_outcome: OnOutcome | None = None,
) -> Report:
    """Run checks of the server role against a server.

    Args:
        target: The server.
        checks: Those to run; the ones that do not fit a revision or the transport are left out.
        revisions: Those to speak; by default the newest of each era that the server speaks.
        options: Deadlines, and what may be called.
        jobs: How many checks run at a time, each over connections of its own.
        on_outcome: Called with each outcome as soon as it is there.

    Raises:
        Failed: The server speaks no revision.
        OSError, TransportError: It cannot be started or reached.
    """
    options = options or Options()
    began = trio.current_time()
    chosen = await newest_of_each_era(target, options) if revisions is None else tuple(revisions)
    read_only = await _read_only_tools(target, chosen[-1], options)
    outcomes: list[Outcome] = []
    info: Mapping[str, object] = {}
    for revision in chosen:
        shared = SharedInventory(read_only)
        fitting = [
            check
            for check in checks
            if revision in check.revisions and target.transport in check.transports
        ]
        opening = partial(open_probe, target, revision, options, shared)
        patient = attrs.evolve(options, deadline=options.deadline * PATIENCE)
        judge = Judge(
            target,
            revision,
            options,
            load_requirements(),
            opening,
            on_outcome,
            open_patient_probe=partial(open_probe, target, revision, patient, shared),
            is_alive=partial(_is_alive, target, revision, options),
        )
        outcomes += await judge.run(fitting, jobs)
        info = info or await _info(target, revision, options, shared)
    seconds = trio.current_time() - began
    name = f"{info.get('name', '?')} {info.get('version', '')}".strip()
    return Report(
        target=target.name,
        kind="check",
        role="server",
        outcomes=tuple(outcomes),
        findings=tuple(outcome.finding for outcome in outcomes if outcome.finding),
        facts=(
            ("server", name),
            ("transport", target.transport),
            ("revisions", ", ".join(chosen)),
            ("seconds", f"{seconds:.1f}"),
        ),
    )


async def _is_alive(target: ServerTarget, revision: str, options: Options) -> bool:
    """Whether the server can still be reached and answers."""
    try:
        async with (
            target.open_wire(Exchange()) as wire,
            open_session(wire, revision, deadline=options.deadline) as session,
        ):
            await session.fence()
    except (Failed, OSError, TransportError):
        return False
    except NotApplicable:
        return True  # it answers, though not as expected
    return True


async def _read_only_tools(target: ServerTarget, revision: str, options: Options) -> frozenset[str]:
    """Tools that the newest revision marks as read-only; older ones cannot say so."""
    shared = SharedInventory()
    try:
        async with open_probe(target, revision, options, shared) as probe:
            tools = (await probe.inventory()).tools
    except (Failed, NotApplicable):
        return frozenset()
    return frozenset(str(tool.get("name")) for tool in tools if shared.harmless(tool))


async def _info(
    target: ServerTarget, revision: str, options: Options, shared: SharedInventory
) -> Mapping[str, object]:
    try:
        async with open_probe(target, revision, options, shared) as probe:
            return (await probe.inventory()).info
    except (Failed, NotApplicable, OSError, TransportError):
        return {}
