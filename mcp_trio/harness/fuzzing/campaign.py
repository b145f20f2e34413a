"""A campaign: Hypothesis makes cases in a thread, Trio plays them, and what fails is looked into.

    worker ── turn: a layer, a revision ──▶ thread: Hypothesis ── case ──▶ Trio: play, judge
       ▲                                        ◀── fails: raise ──┘
       └── finding: minimised, written, remembered ──┘

A worker takes turns at the layers, each with a seed of its own, so that the cases of a run follow
from its seed. In a turn Hypothesis draws cases until one fails that shows something new, and then
shrinks it; both happen in a thread, as Hypothesis waits for each verdict, and the verdicts come
from Trio. The thread ends when its worker is cancelled: the next case that it asks about raises
`trio.Cancelled` in it.
"""

from __future__ import annotations

import json
import random
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import count
from pathlib import Path
from typing import Final

import attrs
import hypothesis
import trio
from hypothesis import HealthCheck, Phase, Verbosity
from hypothesis.database import ExampleDatabase
from hypothesis.errors import Flaky, Unsatisfiable
from hypothesis.strategies import SearchStrategy

from mcp_trio.harness.fuzzing.cases import Ask, Case
from mcp_trio.harness.fuzzing.databases import Shelf
from mcp_trio.harness.fuzzing.files import Replay
from mcp_trio.harness.fuzzing.guard import Guard
from mcp_trio.harness.fuzzing.inquiry import Proof, confirm, minimise, same, try_again
from mcp_trio.harness.fuzzing.layers import LAYERS, cases_of
from mcp_trio.harness.fuzzing.oracles import ORACLES, Accusation, judge
from mcp_trio.harness.fuzzing.scope import Scope
from mcp_trio.harness.fuzzing.speech import Speech
from mcp_trio.harness.fuzzing.subject import (
    Subject,
    TargetGone,
    needs_its_own,
    open_subject,
)
from mcp_trio.harness.fuzzing.usage import growth
from mcp_trio.harness.model import Failed, Finding, NotApplicable, Report
from mcp_trio.harness.probe import Inventory, Options, SharedInventory, open_probe
from mcp_trio.harness.requirements import load_requirements
from mcp_trio.harness.spoken import newest_of_each_era
from mcp_trio.harness.targets import ServerTarget
from mcp_trio.protocol.revisions import LATEST, LATEST_LEGACY, is_modern

EXAMPLES_A_TURN: Final = 40
LONGEST_TURN: Final = 4.0
SHORTEST_TURN: Final = 0.5
"""Seconds of a turn; in between, so that each layer has several in the time that there is."""
ROUNDS: Final = 3
STARTING: Final = 0.15
"""The share of a timed campaign that each subject may spend on starting its target."""
MOST_ALIKE: Final = 3
"""Findings with the same vague cause, but shown by different steps."""
PURSUIT: Final = 20.0
"""Seconds for making one finding smaller, at most."""
SAMPLE_EVERY: Final = 0.25
"""Seconds between two looks at what a process uses."""
RECENT: Final = 20
"""Cases that are reported when a server is gone for good."""
SUSPECTS: Final = 16
SUSPECT_STEPS: Final = 400
"""Cases, and steps in them, that are repeated to see which of them makes use grow."""
LETHAL: Final = ("no-crash", "still-answers")
TRIED_ANYWAY: Final = 10
"""Of cases that hold what is known to be lethal, every so-many-th is played all the same."""


@attrs.frozen
class Progress:
    """How far a campaign is.

    Attributes:
        layer, revision: What was played last.
        cases, messages: How many there were.
        findings: What was found.
        unconfirmed: How many accusations could not be shown again.
        seconds: How long it took so far.
    """

    layer: str
    revision: str
    cases: int
    messages: int
    findings: int
    unconfirmed: int
    seconds: float


OnProgress = Callable[[Progress], object]
OnFinding = Callable[[Finding], object]


class _Found(Exception):
    """Tells Hypothesis that a case fails."""


class _TurnOver(BaseException):
    """Ends Hypothesis's work, which an `Exception` would be a failing case to."""


@attrs.frozen(kw_only=True)
class Plan:
    """What a campaign does.

    Attributes:
        layers: Those that take turns.
        seconds: How long; None for as long as it takes.
        examples: How many cases of each layer and revision; None for as many as there is time for.
        seed: What all its chances come from.
        revisions: Those that are spoken; by default the newest of each era that the server speaks.
        database: Where Hypothesis keeps its examples.
        output: The folder for replay files; None to write none.
        jobs: How many connections are played to at the same time.
    """

    layers: tuple[str, ...] = tuple(LAYERS)
    seconds: float | None = 60.0
    examples: int | None = None
    seed: int = 0
    revisions: tuple[str, ...] | None = None
    database: ExampleDatabase | None = None
    output: Path | None = None
    jobs: int = 2


@attrs.frozen
class _Turn:
    layer: str
    revision: str
    number: int
    examples: int


@attrs.define
class _Pursuit:
    """What a case has shown, while Hypothesis makes the case smaller."""

    proof: Proof
    until: float

    @property
    def alone(self) -> bool:
        return len(self.proof.cases) == 1 and self.proof.repeat == 1


class Campaign:
    """The state of a run. Made by `fuzz_server`.

    Attributes:
        findings: What was found, in order.
        unconfirmed: What was seen and could not be shown again, with how often.
    """

    def __init__(
        self,
        target: ServerTarget,
        plan: Plan,
        options: Options,
        revisions: Sequence[str],
        on_progress: OnProgress | None,
    ) -> None:
        self.target = target
        self.plan = plan
        self.options = options
        self.findings: list[Finding] = []
        self.unconfirmed: Counter[str] = Counter()
        self.cases: Counter[str] = Counter()
        self.messages = 0
        self.gone: str | None = None
        self.requirements = load_requirements()
        self.began = trio.current_time()
        self.until = self.began + (float("inf") if plan.seconds is None else plan.seconds)
        self.scopes: dict[str, Scope] = {}
        self.turns = self._turns(revisions)
        self.turn_seconds = _turn_seconds(plan, len(revisions))
        self._strategies: dict[tuple[str, str], SearchStrategy[Case] | None] = {}
        self._known: dict[str, list[tuple[Accusation, frozenset[str]]]] = {}
        self._skipped = 0
        self._on_progress = on_progress
        self.on_finding: OnFinding | None = None

    def _turns(self, revisions: Sequence[str]) -> Iterator[_Turn]:
        left = self.plan.examples
        for number in count():
            size = EXAMPLES_A_TURN if left is None else min(left, EXAMPLES_A_TURN)
            if not size:
                return
            for layer in self.plan.layers:
                for revision in revisions:
                    yield _Turn(layer, revision, number, size)
            if left is not None:
                left -= size

    def strategy(self, layer: str, revision: str) -> SearchStrategy[Case] | None:
        """The cases of a layer; building a strategy costs more than drawing from it."""
        key = layer, revision
        if key not in self._strategies:
            self._strategies[key] = cases_of(layer, self.scopes[revision])
        return self._strategies[key]

    # What is known

    def knows(self, accusation: Accusation, case: Case, revision: str) -> bool:
        """Whether an accusation is no news: the case holds what is known to show it."""
        alike = [steps for known, steps in self._known.get(revision, ()) if same(known, accusation)]
        shapes = _shapes(case)
        most = MOST_ALIKE if accusation.vague else 1
        return len(alike) >= most or any(steps <= shapes for steps in alike)

    def avoids(self, case: Case, revision: str) -> bool:
        """Whether a case is better left alone, since it would only kill the peer once more."""
        shapes = _shapes(case)
        for known, steps in self._known.get(revision, ()):
            if known.oracle in LETHAL and steps <= shapes:
                self._skipped += 1
                return self._skipped % TRIED_ANYWAY != 0
        return False

    def remember(self, accusation: Accusation, case: Case, revision: str) -> bool:
        """Remember a finding; False if it turned out to be a known one."""
        shapes = _shapes(case)
        known = self._known.setdefault(revision, [])
        if any(same(one, accusation) and steps == shapes for one, steps in known):
            return False
        known.append((accusation, shapes))
        return True

    # What is told

    def count(self, layer: str, revision: str, messages: int) -> None:
        self.cases[layer] += 1
        self.messages += messages
        if self._on_progress is not None:
            seconds = trio.current_time() - self.began
            progress = Progress(
                layer,
                revision,
                self.cases.total(),
                self.messages,
                len(self.findings),
                self.unconfirmed.total(),
                seconds,
            )
            self._on_progress(progress)

    async def report(self, proof: Proof, revision: str) -> None:
        """Make a finding of a proof, unless it is a known one, and write it to a file."""
        accusation = proof.accusation
        if not self.remember(accusation, proof.cases[-1], revision):
            return
        oracle = ORACLES[accusation.oracle]
        named = accusation.requirements
        level = oracle.level(revision, self.requirements, named)
        replay = Replay(
            target=self.target.words,
            revision=revision,
            oracle=accusation.oracle,
            cause=accusation.cause,
            level=level,
            message=accusation.message,
            seed=self.plan.seed,
            cases=proof.cases,
            repeat=proof.repeat,
            deadline=self.options.deadline,
            allow_writes=self.options.allow_writes,
        )
        line = await trio.to_thread.run_sync(replay.line, self.plan.output)
        finding = Finding(
            check=accusation.oracle,
            requirements=oracle.requirements_in(revision, self.requirements, named),
            level=level,
            revision=revision,
            transport=self.target.transport,
            message=accusation.message,
            replay=line,
            exchange=proof.exchange,
        )
        self.findings.append(finding)
        if self.on_finding is not None:
            self.on_finding(finding)

    # What is done

    async def run(self) -> None:
        """Take turns until there are none, or there is no time."""
        with trio.move_on_at(self.until + PURSUIT):
            async with trio.open_nursery() as nursery:
                for _ in range(self.plan.jobs):
                    nursery.start_soon(_Worker(self).run)


class _Worker:
    """Takes turns, one after the other, with connections of its own."""

    def __init__(self, campaign: Campaign) -> None:
        self._campaign = campaign
        self._subjects: dict[str, Subject] = {}

    async def run(self) -> None:
        campaign = self._campaign
        guards = {rev: Guard(scope.protected) for rev, scope in campaign.scopes.items()}
        async with trio.open_nursery() as nursery:
            for revision, guard in guards.items():
                self._subjects[revision] = await nursery.start(self._hold, revision, guard)
            for turn in campaign.turns:
                if trio.current_time() >= campaign.until or campaign.gone:
                    break
                await self._take(turn)
            nursery.cancel_scope.cancel()

    async def _hold(
        self,
        revision: str,
        guard: Guard,
        task_status: trio.TaskStatus[Subject] = trio.TASK_STATUS_IGNORED,
    ) -> None:
        deadline = self._campaign.options.deadline
        opening = open_subject(self._campaign.target, revision, deadline=deadline, guard=guard)
        async with opening as subject:
            task_status.started(subject)
            await trio.sleep_forever()

    async def _take(self, turn: _Turn) -> None:
        strategy = self._campaign.strategy(turn.layer, turn.revision)
        if strategy is None:
            await trio.lowlevel.checkpoint()
            return
        examiner = _Examiner(self._campaign, self._subjects[turn.revision], turn)
        await trio.to_thread.run_sync(_draw_cases, turn, strategy, examiner, self._campaign.plan)
        try:
            await examiner.finish()
        except TargetGone as exc:
            self._campaign.gone = str(exc)


def _draw_cases(
    turn: _Turn,
    strategy: SearchStrategy[Case],
    examiner: _Examiner,
    plan: Plan,
) -> None:
    """Let Hypothesis draw cases, and shrink the first that fails. Runs in a thread."""

    def test(case: Case) -> None:
        if trio.from_thread.run(examiner.examine, case):
            raise _Found

    database = plan.database and Shelf(plan.database, f"{turn.layer} {turn.revision}")
    shrink = () if turn.layer == "bulk" else (Phase.shrink,)
    reuse = () if database is None or turn.number else (Phase.reuse,)
    settings = hypothesis.settings(
        max_examples=turn.examples,
        database=database,
        deadline=None,
        phases=(*reuse, Phase.generate, *shrink),
        suppress_health_check=list(HealthCheck),
        verbosity=Verbosity.quiet,
        report_multiple_bugs=False,
        print_blob=False,
    )
    seed = random.Random(f"{plan.seed} {turn.layer} {turn.revision} {turn.number}").getrandbits(64)
    # In this order: a seed that is set later takes the database away.
    run = settings(hypothesis.seed(seed)(hypothesis.given(strategy)(test)))
    with suppress(_Found, _TurnOver, Flaky, Unsatisfiable):
        run()  # the examiner knows what was found, and what it is worth


class _Examiner:
    """Plays the cases of one turn and says whether they fail."""

    def __init__(self, campaign: Campaign, subject: Subject, turn: _Turn) -> None:
        self._campaign = campaign
        self._subject = subject
        self._turn = turn
        self._pursuit: _Pursuit | None = None
        self._until = min(campaign.until, trio.current_time() + campaign.turn_seconds)

    async def examine(self, case: Case) -> bool:
        """Whether a case fails in a way that is new, or while one is pursued, in the same way.

        Raises:
            _TurnOver: Hypothesis shall stop.
        """
        try:
            return await (self._search(case) if self._pursuit is None else self._pursue(case))
        except TargetGone as exc:
            await self._target_gone(str(exc), case)
            raise _TurnOver from exc

    async def _search(self, case: Case) -> bool:
        campaign, subject, turn = self._campaign, self._subject, self._turn
        if trio.current_time() >= self._until or campaign.gone:
            raise _TurnOver
        if campaign.avoids(case, turn.revision) or self._too_dear(case):
            return False
        before = subject.messages
        history = list(subject.history)
        played = await subject.play(case)
        campaign.count(turn.layer, turn.revision, subject.messages - before)
        await self._look_at_usage()
        accused = judge(played.trace)
        # What comes after the first accusation of a case may follow from the same cause.
        if not accused or campaign.knows(accused[0], case, turn.revision):
            return False
        proof = await confirm(subject, accused[0], case, history)
        if proof is None:
            campaign.unconfirmed[f"{accused[0].oracle}: {accused[0].message}"] += 1
            return False
        self._pursuit = _Pursuit(proof, trio.current_time() + self._patience())
        return True

    def _too_dear(self, case: Case) -> bool:
        """Whether too much time went into starting processes for a case that needs one."""
        if not needs_its_own(case) or self._campaign.turn_seconds == float("inf"):
            return False
        played = trio.current_time() - self._campaign.began
        return self._subject.starting > STARTING * (played + LONGEST_TURN)

    async def _pursue(self, case: Case) -> bool:
        pursuit = self._pursuit
        assert pursuit is not None
        if trio.current_time() >= pursuit.until or not pursuit.alone:
            raise _TurnOver
        played = await self._subject.play(case)
        accusation = pursuit.proof.accusation
        found = next((one for one in judge(played.trace) if same(one, accusation)), None)
        if found is not None and _size(case) < _size(pursuit.proof.cases[0]):
            pursuit.proof = Proof(found, (case,), exchange=played.exchange)
        return found is not None

    def _patience(self) -> float:
        left = max(0.0, self._campaign.until - trio.current_time())
        return min(PURSUIT, max(2.0, left / 4)) / 2

    async def finish(self) -> None:
        """Make what was found as small as can be, and report it."""
        if self._pursuit is None:
            return
        until = trio.current_time() + self._patience()
        proof = await minimise(self._subject, self._pursuit.proof, until)
        await self._campaign.report(proof, self._turn.revision)
        await self._subject.forget()

    async def _look_at_usage(self) -> None:
        subject, campaign = self._subject, self._campaign
        if not subject.sample(SAMPLE_EVERY):
            return
        for accusation in growth(subject.usage):
            suspects = _shortened(subject.cases_when_it_grew(accusation.oracle, SUSPECTS))
            if not suspects or campaign.knows(accusation, suspects[-1], self._turn.revision):
                continue
            proof = await try_again(subject, accusation, suspects)
            if proof is None:
                campaign.unconfirmed[f"{accusation.oracle}: {accusation.message}"] += 1
            else:
                until = trio.current_time() + self._patience()
                await campaign.report(await minimise(subject, proof, until), self._turn.revision)
            subject.usage.clear()

    async def _target_gone(self, why: str, case: Case) -> None:
        """A target that runs by itself does not come back after what was played last."""
        campaign = self._campaign
        if campaign.gone is None:
            campaign.gone = why
            message = f"the server cannot be reached any more: {why}"
            cases = (*list(self._subject.history)[-RECENT:], case)
            proof = Proof(Accusation("no-crash", "gone for good", message, ()), cases)
            await campaign.report(proof, self._turn.revision)


def _shortened(cases: Sequence[Case]) -> list[Case]:
    """Cases without the ends of long ones, so that they can be repeated often."""
    most = SUSPECT_STEPS // max(1, len(cases))
    return [attrs.evolve(case, steps=case.steps[:most]) for case in cases]


def _turn_seconds(plan: Plan, revisions: int) -> float:
    if plan.seconds is None or plan.examples is not None:
        return float("inf")
    turns = len(plan.layers) * revisions * ROUNDS
    return min(LONGEST_TURN, max(SHORTEST_TURN, plan.seconds * plan.jobs / turns))


def _shapes(case: Case) -> frozenset[str]:
    handshake = () if case.handshake else ("no handshake",)
    return frozenset((*handshake, *(step.shape for step in case.steps)))


def _size(case: Case) -> tuple[int, int]:
    return len(case.steps), len(json.dumps(case.to_json()))


async def fuzz_server(
    target: ServerTarget,
    plan: Plan | None = None,
    *,
    options: Options | None = None,
    on_progress: OnProgress | None = None,
    on_finding: OnFinding | None = None,
) -> Report:
    """Fuzz a server, for as long as the plan says.

    Args:
        target: The server.
        plan: What is done; a minute of everything by default.
        options: Deadlines, and what may be called.
        on_progress: Called after each case.
        on_finding: Called with each finding as soon as it is there.

    Raises:
        Failed: The server speaks no revision that is known here.
        NotApplicable: It does not speak one of the plan's revisions, or has nothing for its layers.
        OSError, TransportError: It cannot be started or reached.
    """
    plan, options = plan or Plan(), options or Options()
    try:
        revisions = plan.revisions or await newest_of_each_era(target, options)
        scopes = await _scopes(target, revisions, options)
    except Failed:
        report = await _judge_first_words(target, plan, options, on_finding)
        if report is None:
            raise
        return report
    offered = (cases_of(layer, scope) for layer in plan.layers for scope in scopes.values())
    if all(strategy is None for strategy in offered):
        raise NotApplicable(f"there is nothing for the layers {', '.join(plan.layers)}")
    campaign = Campaign(target, plan, options, revisions, on_progress)
    campaign.scopes = scopes
    campaign.on_finding = on_finding
    await campaign.run()
    return _report(campaign, scopes)


async def _judge_first_words(
    target: ServerTarget, plan: Plan, options: Options, on_finding: OnFinding | None
) -> Report | None:
    """What is wrong with a server that cannot even be met; None if nobody can say."""
    revisions = plan.revisions or (LATEST_LEGACY, LATEST)
    campaign = Campaign(target, plan, options, revisions, None)
    campaign.on_finding = on_finding
    for revision in revisions:
        opening = open_subject(target, revision, deadline=options.deadline, guard=Guard())
        async with opening as subject:
            played = await subject.play(_first_words(revision))
        for accusation in judge(played.trace)[:1]:
            proof = Proof(accusation, (played.trace.case,), exchange=played.exchange)
            await campaign.report(proof, revision)
    return _report(campaign, dict.fromkeys(revisions)) if campaign.findings else None


def _first_words(revision: str) -> Case:
    """What a client says first, as a case."""
    method = "server/discover" if is_modern(revision) else "initialize"
    params = None if is_modern(revision) else Speech(revision).hello
    return Case("protocol", (Ask(1, method, params),), handshake=False)


async def _scopes(
    target: ServerTarget, revisions: Sequence[str], options: Options
) -> dict[str, Scope]:
    """What the target has, in each revision. Which tools are harmless, the newest one says."""
    inventories: dict[str, Inventory] = {}
    harmless: set[str] = set()
    for revision in revisions:
        shared = SharedInventory()
        async with open_probe(target, revision, options, shared) as probe:
            inventory = inventories[revision] = await probe.inventory()
        harmless |= {str(tool.get("name")) for tool in inventory.tools if shared.harmless(tool)}
    return {
        revision: Scope(
            revision,
            target.transport,
            inventory,
            tuple(
                tool
                for tool in inventory.tools
                if options.allow_writes or str(tool.get("name")) in harmless
            ),
        )
        for revision, inventory in inventories.items()
    }


def _report(campaign: Campaign, scopes: Mapping[str, Scope | None]) -> Report:
    seconds = trio.current_time() - campaign.began
    scope = next(iter(scopes.values()))
    info = {} if scope is None else scope.inventory.info
    facts = [
        ("server", f"{info.get('name', '?')} {info.get('version', '')}".strip()),
        ("transport", campaign.target.transport),
        ("revisions", ", ".join(scopes)),
        ("seed", str(campaign.plan.seed)),
        ("cases", str(campaign.cases.total())),
        ("by layer", ", ".join(f"{name} {number}" for name, number in campaign.cases.items())),
        ("messages", str(campaign.messages)),
        ("messages per second", f"{campaign.messages / max(seconds, 0.001):.0f}"),
        ("seconds", f"{seconds:.1f}"),
        ("unconfirmed", str(campaign.unconfirmed.total())),
    ]
    facts += [("not shown again", text) for text, _ in campaign.unconfirmed.most_common(20)]
    if campaign.gone is not None:
        facts.append(("ended early", campaign.gone))
    return Report(
        target=campaign.target.name,
        kind="fuzz",
        role="server",
        outcomes=(),
        findings=tuple(campaign.findings),
        facts=tuple(facts),
    )
