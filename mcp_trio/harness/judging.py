"""Judging: what a check says of a peer becomes an outcome, whatever it raises.

Both roles share this. A check cannot hang a run, since it has a deadline, and cannot end one.
"""

from __future__ import annotations

import traceback
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Final, Protocol

import attrs
import trio

from mcp_trio.exceptions import TransportError
from mcp_trio.harness.exchange import Exchange
from mcp_trio.harness.model import (
    MISTAKE,
    Check,
    Failed,
    Finding,
    Late,
    Level,
    NotApplicable,
    Outcome,
    Requirement,
    Transport,
    Verdict,
)
from mcp_trio.harness.probe import Options

CHECK_TIME: Final = 12.0
"""How many deadlines of a single answer a whole check may take."""

STARTS: Final = 5
"""How often longer that is for a client, which is started anew, by some checks several times."""

PATIENCE: Final = 4.0
"""How much longer a check may wait that is asked once more."""

OnOutcome = Callable[[Outcome], object]


class Target(Protocol):
    """What a run has to know of the peer, of either role."""

    @property
    def transport(self) -> Transport: ...

    @property
    def words(self) -> str: ...


class Probe(Protocol):
    """What a run has to know of a probe."""

    exchange: Exchange

    def forget_session(self) -> None: ...


@attrs.frozen
class Judge:
    """Runs checks of one target in one revision.

    Attributes:
        open_probe: Makes a probe, for each of the workers.
        on_outcome: Called with each outcome as soon as it is there.
        open_patient_probe: Makes a probe that waits `PATIENCE` times as long, for a check in which
            something came too late: it is asked once more, when nothing else goes on.
        is_alive: Asks, after a failure, whether the peer is still there at all. A peer that died
            is one finding, and not one for each check that comes after.
    """

    target: Target
    revision: str
    options: Options
    requirements: Mapping[str, Requirement]
    open_probe: Callable[[], AbstractAsyncContextManager[Probe]]
    on_outcome: OnOutcome | None = None
    open_patient_probe: Callable[[], AbstractAsyncContextManager[Probe]] | None = None
    is_alive: Callable[[], Awaitable[bool]] | None = None

    async def run(self, checks: Sequence[Check], jobs: int) -> list[Outcome]:
        """Run checks, several at a time; their outcomes in the order of the checks."""
        found: dict[str, Outcome] = {}
        waiting = list(reversed(checks))
        fatal: Check | None = None
        late: list[Check] = []

        def tell(outcome: Outcome) -> None:
            found[outcome.check.id] = outcome
            if self.on_outcome is not None:
                self.on_outcome(outcome)

        async def work() -> None:
            nonlocal fatal
            async with self.open_probe() as probe:
                while waiting:
                    check = waiting.pop()
                    if fatal is not None:
                        tell(self._outcome(check, "not applicable", _gone(fatal)))
                        continue
                    outcome = await self.judge(check, probe)
                    if outcome.finding is not None and not await self._alive():
                        fatal = check
                    elif outcome.late and self.open_patient_probe is not None:
                        late.append(check)
                        continue
                    tell(outcome)

        async with trio.open_nursery() as nursery:
            for _ in range(min(jobs, len(checks))):
                nursery.start_soon(work)
        if late and self.open_patient_probe is not None:
            async with self.open_patient_probe() as probe:
                for check in late:
                    tell(await self.judge(check, probe, PATIENCE))
        return [found[check.id] for check in checks]

    async def _alive(self) -> bool:
        return self.is_alive is None or await self.is_alive()

    async def judge(self, check: Check, probe: Probe, patience: float = 1.0) -> Outcome:
        """Run one check; whatever it raises becomes its outcome."""
        began = trio.current_time()
        probe.exchange.clear()
        broken: Failed
        try:
            starts = STARTS if check.role == "client" else 1
            with trio.fail_after(self.options.deadline * CHECK_TIME * starts * patience):
                await check.run(probe)
        except NotApplicable as exc:
            return self._outcome(check, "not applicable", exc.message, began)
        except trio.TooSlowError:
            broken = Late("the check did not come to an end")
        except Failed as exc:
            broken = exc
        except (OSError, TransportError) as exc:
            broken = Failed(f"the {check.role} cannot be reached any more: {exc}")
        except Exception as exc:
            # A mistake of ours, or a peer that does what nobody thought of: the rest is not lost
            # for it, and nobody is accused.
            probe.forget_session()
            where = traceback.extract_tb(exc.__traceback__)[-1]
            text = f"{type(exc).__name__}: {exc} ({where.name}, line {where.lineno})"
            return self._outcome(check, "not applicable", f"{MISTAKE}{text}", began)
        else:
            return self._outcome(check, "passed", "", began)
        probe.forget_session()
        finding = self._finding(check, broken, probe)
        verdict: Verdict = "failed" if finding.is_must else "warned"
        outcome = self._outcome(check, verdict, broken.message, began, finding)
        return attrs.evolve(outcome, late=isinstance(broken, Late))

    def _outcome(
        self,
        check: Check,
        verdict: Verdict,
        message: str,
        began: float | None = None,
        finding: Finding | None = None,
    ) -> Outcome:
        seconds = 0.0 if began is None else trio.current_time() - began
        transport = self.target.transport
        return Outcome(check, self.revision, transport, verdict, message, seconds, finding)

    def _finding(self, check: Check, broken: Failed, probe: Probe) -> Finding:
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


def _gone(fatal: Check) -> str:
    return f"the {fatal.role} is gone since {fatal.id}"


def strongest(ids: Iterable[str], requirements: Mapping[str, Requirement], revision: str) -> Level:
    """The strongest level among requirements, as far as a revision says them."""
    levels = [requirements[id].level for id in ids if revision in requirements[id].revisions]
    return min(levels, key=("MUST", "MUST NOT", "SHOULD", "SHOULD NOT").index, default="SHOULD")


def replay_line(check: Check, revision: str, options: Options, words: str) -> str:
    """The shell command that runs one check again."""
    writes = " --allow-writes" if options.allow_writes else ""
    return f"mcp-trio check --only {check.id} --revision {revision}{writes} {words}"
