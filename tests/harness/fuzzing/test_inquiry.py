"""Accusations are shown again, with as little as possible, or they are no findings."""

from __future__ import annotations

from collections.abc import Iterable

import trio

from mcp_trio.harness.fuzzing.cases import Ask, Case, Send, Tell
from mcp_trio.harness.fuzzing.inquiry import Proof, confirm, minimise
from mcp_trio.harness.fuzzing.minimising import fewest, smallest
from mcp_trio.harness.fuzzing.oracles import Accusation, judge
from mcp_trio.harness.mutants.frames import Back, Fault, Frame
from tests.harness.fuzzing.kit import subject

Change = Iterable[Frame | Back]


class LosesThird(Fault):
    """Never answers the third list of tools of a connection."""

    seen = 0

    def received(self, frame: Frame) -> Change:
        if isinstance(frame, dict) and frame.get("method") == "tools/list":
            self.seen += 1
            if self.seen == 3:
                return
        yield frame


class LosesBig(Fault):
    """Never answers a ping with a big number in it."""

    def received(self, frame: Frame) -> Change:
        if not (isinstance(frame, dict) and frame.get("params", {}).get("n", 0) > 100):
            yield frame


def case(*steps: Ask | Send | Tell) -> Case:
    return Case("test", steps)


LIST = case(Ask(1, "tools/list"))
PING = case(Ask(1, "ping"))


async def test_a_fault_that_needs_a_history_is_shown_with_it(autojump_clock: object) -> None:
    """What only happens the third time is no accident; the two times before are part of it."""
    async with subject(LosesThird) as faulty:
        history = []
        for one in [PING, LIST, PING, PING, LIST, PING]:
            assert judge((await faulty.play(one)).trace) == []
            history.append(one)
        accusation, *_ = judge((await faulty.play(LIST)).trace)
        proof = await confirm(faulty, accusation, LIST, history)
        assert proof is not None
        assert proof.cases == (*history, LIST)
        small = await minimise(faulty, proof, trio.current_time() + 1000)
        assert [one.steps for one in small.cases] == [LIST.steps] * 3


async def test_what_cannot_be_shown_again_is_no_finding(autojump_clock: object) -> None:
    """A report of what nobody can see again costs a maintainer a day."""
    async with subject() as healthy:
        accusation = Accusation("within-deadline", "ping is not answered", "no answer")
        assert await confirm(healthy, accusation, LIST, [PING] * 5) is None


async def test_a_case_becomes_as_small_as_can_be(autojump_clock: object) -> None:
    """One step, and nothing in it that does not matter."""
    steps = [Ask(number, "tools/list") for number in range(1, 30)]
    steps.insert(17, Ask(50, "ping", {"n": 1000, "other": {"x": [1, 2, 3]}}, token=True))
    big = case(*steps, Send(b"{}"), Tell("notifications/x", {"y": 1}))
    async with subject(LosesBig) as faulty:
        accusation, *_ = judge((await faulty.play(big)).trace)
        proof = await confirm(faulty, accusation, big, [])
        assert proof is not None
        small = await minimise(faulty, proof, trio.current_time() + 1000)
        assert small.cases == (case(Ask(50, "ping", {"n": 1000})),)
        assert small.exchange


async def test_minimising_has_an_end(autojump_clock: object) -> None:
    """A slow peer must not keep a campaign from going on."""

    async def fails(_: object) -> bool:
        await trio.sleep(1)
        return True

    began = trio.current_time()
    items = list(range(10_000))
    assert await fewest(items, fails, began + 5)
    assert trio.current_time() - began < 7
    await smallest(case(*(Ask(n, "ping", {"a": 1}) for n in range(500))), fails, began + 20)
    assert trio.current_time() - began < 25


async def test_fewest_keeps_what_belongs_together() -> None:
    """Two steps far apart that fail only together."""

    async def fails(items: list[int]) -> bool:
        await trio.lowlevel.checkpoint()
        return 3 in items and 77 in items

    assert await fewest(list(range(100)), fails, trio.current_time() + 60) == [3, 77]


def test_a_proof_of_growth_is_repeated() -> None:
    """So that its replay file says how often."""
    accusation = Accusation("bounded-memory", "grows", "more and more")
    assert Proof(accusation, (LIST,), repeat=16).repeat == 16
