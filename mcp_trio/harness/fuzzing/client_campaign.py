"""The other role: the harness is the server, and the client under test is what is fuzzed.

Each case is a run of the client of its own: it meets a healthy server that says something odd at
some of its requests, or answers one of them with something else. Then it is judged by what it did:
a client may give up, but not crash; it goes on where it has to; it answers pings; and whatever it
writes itself is valid.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from contextlib import suppress

import attrs
import hypothesis
import trio
from hypothesis import HealthCheck, Phase, Verbosity
from hypothesis.errors import Flaky, Unsatisfiable

from mcp_trio.harness.client_probe import NO_REVISION, newest_of_each_era, record
from mcp_trio.harness.exchange import Entry, Exchange
from mcp_trio.harness.fuzzing.campaign import PURSUIT, OnFinding, OnProgress, Plan, Progress
from mcp_trio.harness.fuzzing.cases import At, Case, Instead, Send
from mcp_trio.harness.fuzzing.files import Replay
from mcp_trio.harness.fuzzing.inquiry import same
from mcp_trio.harness.fuzzing.layers.client_layer import cases as client_cases
from mcp_trio.harness.fuzzing.minimising import smallest
from mcp_trio.harness.fuzzing.oracles import Accusation, params_fit
from mcp_trio.harness.handover import ClientTarget
from mcp_trio.harness.model import Failed, Finding, Report
from mcp_trio.harness.probe import Options
from mcp_trio.harness.requirements import load_requirements
from mcp_trio.harness.runner import strongest
from mcp_trio.harness.scripted import HOLD, Answer, Call, Scene, usual
from mcp_trio.harness.stages import open_scene
from mcp_trio.protocol.methods import METHODS
from mcp_trio.wire import jsonrpc
from mcp_trio.wire.jsonrpc import JSON

EXAMPLES_A_TURN = 25

MEANINGS: dict[str, tuple[str, ...]] = {
    "no-crash": (),
    "goes-on": (),
    "still-answers": ("ping-1",),
    "only-protocol-on-stdout": ("base-2",),
    "right-id": ("base-2",),
}
"""The oracles for clients, and the requirements that they stand for."""


@attrs.define
class ClientTrace:
    """What a client did in one case.

    Attributes:
        gentle: Nothing was sent that a client may mind.
        pings: The ids of the pings that it was sent and must have read.
        scene: What it said.
        usual_status: How it ends when it meets a healthy server.
        requests: How many requests it makes then.
        timely: It did all that it does, or left, within the time that it has.
    """

    case: Case
    gentle: bool
    pings: list[JSON]
    scene: Scene
    usual_status: int | None
    requests: int
    timely: bool = True


def judge_client(trace: ClientTrace) -> list[Accusation]:
    """Every accusation against the client in a case, the gravest first."""
    found: list[Accusation] = []
    scene, running = trace.scene, trace.scene.running
    status = None if running is None else running.status
    if status is not None and status < 0:
        text = f"the client was killed by signal {-status}"
        found.append(Accusation("no-crash", text, text))
    elif trace.gentle and status not in (None, trace.usual_status):
        text = f"the client exited with status {status}"
        message = f"{text}, though it was told nothing that it may mind"
        found.append(Accusation("no-crash", text, message))
    for said in scene.said:
        if isinstance(said.message, jsonrpc.Malformed | jsonrpc.Noise):
            shown = said.raw[:120].decode("utf-8", "replace")
            found.append(
                Accusation("only-protocol-on-stdout", "no message", f"no message: {shown}")
            )
            break
    if trace.gentle and not found:
        answered = [said.object.get("id") for said in scene.responses()]
        missing = [id for id in trace.pings if id not in answered]
        if missing:
            message = f"the ping with id {json.dumps(missing[0])} got no answer"
            found.append(Accusation("still-answers", "a ping is not answered", message))
        if not trace.timely or len(scene.calls) < trace.requests:
            message = (
                f"the client made {len(scene.calls)} of the {trace.requests} requests that it "
                "makes elsewhere, though it was told nothing that it may mind"
            )
            found.append(Accusation("goes-on", "does not go on", message))
    return found


class ClientCampaign:
    """A campaign against a client in one revision after the other."""

    def __init__(
        self, target: ClientTarget, plan: Plan, options: Options, on_progress: OnProgress | None
    ) -> None:
        self.target = target
        self.plan = plan
        self.options = options
        self.findings: list[Finding] = []
        self.unconfirmed = 0
        self.cases = 0
        self.messages = 0
        self.began = trio.current_time()
        self.until = self.began + (float("inf") if plan.seconds is None else plan.seconds)
        self._requirements = load_requirements()
        self._known: list[tuple[str, Accusation]] = []
        self._on_progress = on_progress
        self.on_finding: OnFinding | None = None

    async def fuzz(self, revision: str, until: float) -> None:
        """Fuzz in one revision until a time, or as many examples as the plan says."""
        healthy = await record(self.target, revision, self.options)
        player = Player(self.target, revision, self.options, healthy)
        left = self.plan.examples
        number = 0
        while trio.current_time() < until and (left is None or left > 0):
            size = EXAMPLES_A_TURN if left is None else min(left, EXAMPLES_A_TURN)
            await self._turn(player, until, number, size)
            number += 1
            left = None if left is None else left - size

    async def _turn(self, player: Player, until: float, number: int, size: int) -> None:
        found: list[tuple[Case, Accusation]] = []

        async def examine(case: Case) -> bool:
            if trio.current_time() >= until:
                raise _TurnOver
            accusation = await self._examine(player, case)
            if accusation is not None:
                found.append((case, accusation))
            return accusation is not None

        strategy = client_cases(player.revision, len(player.healthy.calls))
        seed = random.Random(f"{self.plan.seed} {player.revision} {number}").getrandbits(64)
        await trio.to_thread.run_sync(_draw, strategy, examine, seed, size)
        for case, accusation in found[:1]:
            await self._report(player, case, accusation)

    async def _examine(self, player: Player, case: Case) -> Accusation | None:
        trace = await player.play(case)
        self.cases += 1
        self.messages += len(case.steps) + 2 * len(trace.scene.calls)
        if self._on_progress is not None:
            seconds = trio.current_time() - self.began
            progress = Progress(
                "client",
                player.revision,
                self.cases,
                self.messages,
                len(self.findings),
                self.unconfirmed,
                seconds,
            )
            self._on_progress(progress)
        for accusation in judge_client(trace)[:1]:
            if any(rev == player.revision and same(one, accusation) for rev, one in self._known):
                return None
            if await player.fails(case, accusation):
                return accusation
            self.unconfirmed += 1
        return None

    async def _report(self, player: Player, case: Case, accusation: Accusation) -> None:
        until = trio.current_time() + PURSUIT
        small = await smallest(case, lambda one: player.fails(one, accusation), until)
        self._known.append((player.revision, accusation))
        ids = tuple(
            id
            for id in MEANINGS[accusation.oracle]
            if player.revision in self._requirements[id].revisions
        )
        level = strongest(ids, self._requirements, player.revision)
        replay = Replay(
            target=self.target.words,
            role="client",
            revision=player.revision,
            oracle=accusation.oracle,
            cause=accusation.cause,
            level=level,
            message=accusation.message,
            seed=self.plan.seed,
            cases=(small,),
            deadline=self.options.deadline,
            allow_writes=self.options.allow_writes,
        )
        line = await trio.to_thread.run_sync(replay.line, self.plan.output)
        finding = Finding(
            check=accusation.oracle,
            requirements=ids,
            level=level,
            revision=player.revision,
            transport=self.target.transport,
            message=accusation.message,
            replay=line,
            exchange=player.exchange,
        )
        self.findings.append(finding)
        if self.on_finding is not None:
            self.on_finding(finding)


class _Found(Exception):
    """Tells Hypothesis that a case fails."""


class _TurnOver(BaseException):
    """Ends Hypothesis's work."""


def _draw(
    strategy: hypothesis.strategies.SearchStrategy[Case],
    examine: Callable[[Case], object],
    seed: int,
    size: int,
) -> None:
    """Let Hypothesis draw cases until one fails. Runs in a thread.

    It does not shrink: each try is a run of the client, and steps are taken out faster.
    """

    def test(case: Case) -> None:
        if trio.from_thread.run(examine, case):  # type: ignore[arg-type]
            raise _Found

    settings = hypothesis.settings(
        max_examples=size,
        database=None,
        deadline=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
        verbosity=Verbosity.quiet,
        report_multiple_bugs=False,
        print_blob=False,
    )
    with suppress(_Found, _TurnOver, Flaky, Unsatisfiable):
        hypothesis.seed(seed)(settings(hypothesis.given(strategy)(test)))()


class Player:
    """Plays cases to a client, each in a run of its own.

    Attributes:
        healthy: What the client does when it meets a healthy server.
        exchange: What went over the wire in the last run.
    """

    def __init__(
        self, target: ClientTarget, revision: str, options: Options, healthy: Scene
    ) -> None:
        self.target = target
        self.revision = revision
        self.healthy = healthy
        self.exchange: tuple[Entry, ...] = ()
        self._options = options

    async def play(self, case: Case) -> ClientTrace:
        """Let the client meet a server that does what a case says."""
        script = _script(case)
        sends = [step for steps in script.values() for step in steps]
        gentle = all(isinstance(step, Send) and is_gentle(step, self.revision) for step in sends)
        pings: list[JSON] = []

        async def step(call: Call) -> Answer:
            number = call.scene.calls.index(call) + 1
            for one in script.get(number, ()):
                frame = one.frame.replace(b'"$id"', json.dumps(call.id).encode())
                if isinstance(one, Instead):
                    await call.respond(frame)
                    return HOLD
                await call.send(frame)
                sent = jsonrpc.decode(frame)
                if isinstance(sent, jsonrpc.Request) and sent.method == "ping":
                    pings.append(sent.id)
            return await usual(call)

        exchange = Exchange()
        running = self.healthy.running
        answers = {name: step for name, row in METHODS.items() if row.client}
        opening = open_scene(
            self.target,
            self.revision,
            exchange,
            deadline=self._options.deadline,
            answers=answers,
        )
        async with opening as scene:
            trace = ClientTrace(
                case,
                gentle,
                pings,
                scene,
                None if running is None else running.status,
                len(self.healthy.calls),
            )
            try:
                await scene.over()
            except Failed:
                trace.timely = False
        self.exchange = exchange.entries
        return trace

    async def fails(self, case: Case, accusation: Accusation) -> bool:
        """Whether a case is accused of the same once more."""
        return any(same(found, accusation) for found in judge_client(await self.play(case)))


def is_gentle(step: Send, revision: str) -> bool:
    """Whether a frame is one that a client may not mind, still so after it was made plainer."""
    message = jsonrpc.decode(step.frame)
    if isinstance(message, jsonrpc.Request) and message.method != "ping":
        return False
    if not isinstance(message, jsonrpc.Request | jsonrpc.Notification):
        return False
    return step.clear and params_fit(message, "server", revision)


def _script(case: Case) -> dict[int, list[Send | Instead]]:
    """What is sent at which request."""
    found: dict[int, list[Send | Instead]] = {}
    at = 1
    for step in case.steps:
        if isinstance(step, At):
            at = step.request
        elif isinstance(step, Send | Instead):
            found.setdefault(at, []).append(step)
    return found


async def fuzz_client(
    target: ClientTarget,
    plan: Plan | None = None,
    *,
    options: Options | None = None,
    on_progress: OnProgress | None = None,
    on_finding: OnFinding | None = None,
) -> Report:
    """Fuzz a client, for as long as the plan says; its layers and jobs count for servers only.

    Raises:
        Failed: The client speaks no revision that is known here, or does not find the server.
        OSError: It cannot be started.
    """
    plan, options = plan or Plan(), options or Options()
    revisions = plan.revisions or await newest_of_each_era(target, options)
    if not revisions:
        raise Failed(NO_REVISION)
    campaign = ClientCampaign(target, plan, options, on_progress)
    campaign.on_finding = on_finding
    for number, revision in enumerate(revisions):
        now = trio.current_time()
        share = (campaign.until - now) / (len(revisions) - number)
        await campaign.fuzz(revision, now + share)
    seconds = trio.current_time() - campaign.began
    return Report(
        target=target.name,
        kind="fuzz",
        role="client",
        outcomes=(),
        findings=tuple(campaign.findings),
        facts=(
            ("transport", target.transport),
            ("revisions", ", ".join(revisions)),
            ("seed", str(plan.seed)),
            ("cases", str(campaign.cases)),
            ("messages", str(campaign.messages)),
            ("seconds", f"{seconds:.1f}"),
            ("unconfirmed", str(campaign.unconfirmed)),
        ),
    )


async def replay_client_finding(target: ClientTarget, replay: Replay) -> str | None:
    """What is seen when a finding is played again; None if it does not show itself."""
    options = Options(deadline=replay.deadline, allow_writes=replay.allow_writes)
    healthy = await record(target, replay.revision, options)
    player = Player(target, replay.revision, options, healthy)
    accusation = Accusation(replay.oracle, replay.cause, replay.message)
    for found in judge_client(await player.play(replay.cases[-1])):
        if same(found, accusation):
            return found.message
    return None
