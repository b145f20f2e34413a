"""Replaying: does a finding of a file still show itself?"""

from __future__ import annotations

import attrs

from mcp_trio.harness.exchange import Entry
from mcp_trio.harness.fuzzing.files import Replay
from mcp_trio.harness.fuzzing.guard import Guard
from mcp_trio.harness.fuzzing.inquiry import try_again
from mcp_trio.harness.fuzzing.oracles import Accusation
from mcp_trio.harness.fuzzing.subject import open_subject
from mcp_trio.harness.probe import Options, SharedInventory, open_probe
from mcp_trio.harness.targets import ServerTarget


@attrs.frozen
class Replayed:
    """What came of it.

    Attributes:
        message: What was seen; None if the fault did not show itself.
        exchange: What went over the wire.
    """

    message: str | None
    exchange: tuple[Entry, ...] = attrs.field(default=(), repr=False)


async def replay_finding(target: ServerTarget, replay: Replay) -> Replayed:
    """Play the cases of a replay file to a target.

    Tools that do not say that they are read-only are called only if the run that wrote the file was
    allowed to.

    Raises:
        TargetGone: The target cannot be started or reached.
    """
    accusation = Accusation(replay.oracle, replay.cause, replay.message)
    guard = Guard(await _protected(target, replay))
    opening = open_subject(target, replay.revision, deadline=replay.deadline, guard=guard)
    async with opening as subject:
        proof = await try_again(subject, accusation, replay.cases)
    if proof is None:
        return Replayed(None)
    return Replayed(proof.accusation.message, proof.exchange)


async def _protected(target: ServerTarget, replay: Replay) -> frozenset[str]:
    if replay.allow_writes:
        return frozenset()
    shared = SharedInventory()
    options = Options(deadline=replay.deadline)
    async with open_probe(target, replay.revision, options, shared) as probe:
        tools = (await probe.inventory()).tools
    return frozenset(str(tool.get("name")) for tool in tools if not shared.harmless(tool))
