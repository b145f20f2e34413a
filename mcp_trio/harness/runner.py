"""Runs checks: each once for each revision and transport, several at a time.

A worker is a task with a probe of its own, and so with its own connections; the workers of one
target and revision take checks from one queue until it is empty. A check cannot hang the run: what
it waits for has a deadline, and it has one itself.
"""

from __future__ import annotations

import traceback
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final

import attrs
import trio

from mcp_trio.exceptions import TransportError
from mcp_trio.harness.model import (
    Check,
    Failed,
    Finding,
    Level,
    NotApplicable,
    Outcome,
    Report,
    Requirement,
    Verdict,
)
from mcp_trio.harness.probe import Options, ServerProbe, SharedInventory, open_probe
from mcp_trio.harness.requirements import load_requirements
from mcp_trio.harness.spoken import newest_of_each_era
from mcp_trio.harness.targets import ServerTarget

CHECK_TIME: Final = 12.0
"""How many deadlines of a single answer a whole check may take."""

OnOutcome = Callable[[Outcome], object]


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
        run = _Run(target, revision, options, shared, load_requirements(), on_outcome)
        outcomes += await run.run(fitting, jobs)
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
    except (Failed, NotApplicable):
        return {}


@attrs.frozen
class _Run:
    """Checks of one target in one revision."""

    target: ServerTarget
    revision: str
    options: Options
    shared: SharedInventory
    requirements: Mapping[str, Requirement]
    on_outcome: OnOutcome | None

    async def run(self, checks: Sequence[Check], jobs: int) -> list[Outcome]:
        found: dict[str, Outcome] = {}
        waiting = list(reversed(checks))

        async def work() -> None:
            async with open_probe(self.target, self.revision, self.options, self.shared) as probe:
                while waiting:
                    outcome = await self.judge(waiting.pop(), probe)
                    found[outcome.check.id] = outcome
                    if self.on_outcome is not None:
                        self.on_outcome(outcome)

        async with trio.open_nursery() as nursery:
            for _ in range(min(jobs, len(checks))):
                nursery.start_soon(work)
        return [found[check.id] for check in checks]

    async def judge(self, check: Check, probe: ServerProbe) -> Outcome:
        """Run one check; whatever it raises becomes its outcome."""
        began = trio.current_time()
        probe.exchange.clear()
        try:
            with trio.fail_after(self.options.deadline * CHECK_TIME):
                await check.run(probe)
        except NotApplicable as exc:
            return self._outcome(check, "not applicable", exc.message, began)
        except trio.TooSlowError:
            broken = Failed("the check did not come to an end")
        except Failed as exc:
            broken = exc
        except (OSError, TransportError) as exc:
            broken = Failed(f"the server cannot be reached any more: {exc}")
        except Exception as exc:
            # A mistake of ours, or a peer that does what nobody thought of: never lose the rest.
            where = traceback.extract_tb(exc.__traceback__)[-1]
            text = f"{type(exc).__name__}: {exc} ({where.name}, line {where.lineno})"
            broken = Failed(f"the check itself failed: {text}")
        else:
            return self._outcome(check, "passed", "", began)
        probe.forget_session()
        finding = self._finding(check, broken, probe)
        verdict: Verdict = "failed" if finding.is_must else "warned"
        return self._outcome(check, verdict, broken.message, began, finding)

    def _outcome(
        self,
        check: Check,
        verdict: Verdict,
        message: str,
        began: float,
        finding: Finding | None = None,
    ) -> Outcome:
        seconds = trio.current_time() - began
        transport = self.target.transport
        return Outcome(check, self.revision, transport, verdict, message, seconds, finding)

    def _finding(self, check: Check, broken: Failed, probe: ServerProbe) -> Finding:
        ids = (broken.requirement,) if broken.requirement else check.requirements
        return Finding(
            check=check.id,
            requirements=ids,
            level=strongest(ids, self.requirements, self.revision),
            revision=self.revision,
            transport=self.target.transport,
            message=broken.message,
            replay=replay_line(check, self.revision, self.options, self.target.words),
            exchange=probe.exchange.entries,
        )


def strongest(ids: Iterable[str], requirements: Mapping[str, Requirement], revision: str) -> Level:
    """The strongest level among requirements, as far as a revision says them."""
    levels = [requirements[id].level for id in ids if revision in requirements[id].revisions]
    return min(levels, key=("MUST", "MUST NOT", "SHOULD", "SHOULD NOT").index, default="SHOULD")


def replay_line(check: Check, revision: str, options: Options, words: str) -> str:
    """The shell command that runs one check again."""
    writes = " --allow-writes" if options.allow_writes else ""
    return f"mcp-trio check --only {check.id} --revision {revision}{writes} {words}"
