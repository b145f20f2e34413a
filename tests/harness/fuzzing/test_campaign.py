"""Campaigns: faults are found, grouped, made small, written down, and shown again."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterable
from pathlib import Path

import attrs
import pytest
import trio
from hypothesis.database import InMemoryExampleDatabase
from trio.testing import MockClock

from mcp_trio.harness.fuzzing import NoReplay, Plan, Progress, fuzz_server, read_replay
from mcp_trio.harness.fuzzing.cases import Ask, Case
from mcp_trio.harness.fuzzing.databases import NoDatabase, Shelf, open_database
from mcp_trio.harness.fuzzing.files import Replay
from mcp_trio.harness.fuzzing.replaying import replay_finding
from mcp_trio.harness.fuzzing.subject import Subject
from mcp_trio.harness.mutants.frames import Back, Fault, Frame, frame_mutant
from mcp_trio.harness.probe import Options
from mcp_trio.harness.targets import ServerTarget, server_target
from tests.harness.fuzzing.kit import LEGACY, MODERN, HangsUp, demo

Change = Iterable[Frame | Back]
QUICK = Options(deadline=2.0)


class WrongCode(Fault):
    """Says that its code is to blame for methods that do not exist."""

    def sent(self, frame: Frame) -> Change:
        if isinstance(frame, dict) and frame.get("error", {}).get("code") == -32601:
            yield {**frame, "error": {"code": -32603, "message": "oops"}}
        else:
            yield frame


def files_in(folder: Path) -> list[Path]:
    return list(folder.iterdir())


def plan(*layers: str, examples: int = 25, output: Path | None = None, seed: int = 1) -> Plan:
    return Plan(
        layers=layers,
        seconds=None,
        examples=examples,
        seed=seed,
        revisions=(LEGACY,),
        output=output,
        jobs=1,
    )


async def test_a_fault_is_found_once_and_can_be_replayed(tmp_path: Path) -> None:
    """The whole way: found, minimised, written, read, shown again, and not there when healed."""
    async with frame_mutant("wrong-code", WrongCode, ()).open() as faulty:
        report = await fuzz_server(faulty, plan("jsonrpc", output=tmp_path), options=QUICK)
        (finding,) = report.findings
        assert finding.check == "right-error-code"
        assert finding.level == "MUST"
        assert report.is_bad()
        (path,) = files_in(tmp_path)
        assert str(path) in finding.replay
        replay = read_replay(path)
        (case,) = replay.cases
        assert len(case.steps) == 1
        assert (await replay_finding(faulty, replay)).message == finding.message
    assert (await replay_finding(demo(), replay)).message is None


async def test_the_healthy_demo_server_is_found_to_be_well() -> None:
    """A few cases of each layer, in both eras; long runs are made by hand and at night."""
    seen: list[Progress] = []
    layers = ("bytes", "json", "jsonrpc", "protocol", "arguments", "sequences", "bulk")
    both = Plan(layers=layers, seconds=None, examples=3, seed=2, revisions=(LEGACY, MODERN), jobs=2)
    report = await fuzz_server(demo(), both, options=QUICK, on_progress=seen.append)
    assert report.findings == ()
    assert len(seen) >= 3 * len(layers)
    assert seen[-1].messages > 600  # two hundred of bulk, three times
    facts = dict(report.facts)
    assert facts["unconfirmed"] == "0"
    assert int(facts["cases"]) == len(seen)


@pytest.mark.parametrize("layer", ["jsonrpc", "sequences", "bulk"])
async def test_a_seed_makes_the_same_cases(layer: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Else nobody could say on another machine: try this seed."""
    played: list[Case] = []
    original = Subject.play

    async def play(self: Subject, case: Case) -> object:
        played.append(case)
        return await original(self, case)

    monkeypatch.setattr(Subject, "play", play)
    runs = []
    for seed in (5, 5, 6):
        await fuzz_server(demo(), plan(layer, examples=5, seed=seed), options=QUICK)
        runs.append(list(played))
        played.clear()
    assert runs[0] == runs[1]
    assert runs[0] != runs[2]


async def test_a_crash_does_not_end_the_search(tmp_path: Path) -> None:
    """The peer is started anew, and what comes after is looked at, too."""
    target = server_target(HangsUp(b'"odd"', RuntimeError("no")), "fragile")
    seen: list[Progress] = []
    report = await fuzz_server(
        target, plan("json", "jsonrpc", output=tmp_path), options=QUICK, on_progress=seen.append
    )
    assert {finding.check for finding in report.findings} == {"no-crash"}
    assert seen[-1].layer == "jsonrpc"


async def test_the_thread_ends_with_its_campaign() -> None:
    """Hypothesis works in a thread; one that outlives a Ctrl-C would hold the process up."""
    before = threading.active_count()
    endless = Plan(layers=("jsonrpc", "sequences"), seconds=None, seed=1, jobs=2)
    with trio.move_on_after(2) as scope:
        await fuzz_server(demo(), endless, options=QUICK)
    assert scope.cancelled_caught
    for _ in range(75):  # idle threads of Trio's own end by themselves
        if threading.active_count() <= before:
            return
        await trio.sleep(0.2)
    raise AssertionError("a thread goes on")


async def test_time_is_kept() -> None:
    """`--seconds 1` is for people who have one second."""
    with trio.fail_after(20):
        report = await fuzz_server(demo(), Plan(seconds=1.0, layers=("jsonrpc",)), options=QUICK)
    assert float(dict(report.facts)["seconds"]) < 10


async def test_writing_tools_are_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without --allow-writes only what says that it is read-only is called; with it, all are."""
    called: set[str] = set()
    original = Subject.play

    async def play(self: Subject, case: Case) -> object:
        for step in case.steps:
            if isinstance(step, Ask) and step.method == "tools/call" and step.params:
                called.add(str(step.params.get("name")))
        return await original(self, case)

    monkeypatch.setattr(Subject, "play", play)
    await fuzz_server(demo(), plan("arguments", examples=40), options=QUICK)
    assert "add" in called
    assert "write_note" not in called
    await fuzz_server(
        demo(), plan("arguments", examples=60), options=Options(deadline=2.0, allow_writes=True)
    )
    assert "write_note" in called


class WrongIds(Fault):
    """Answers with the id as a string."""

    def sent(self, frame: Frame) -> Change:
        if isinstance(frame, dict) and isinstance(frame.get("id"), int):
            yield {**frame, "id": str(frame["id"])}
        else:
            yield frame


async def test_a_server_that_cannot_be_met_is_judged_by_its_first_words() -> None:
    """A fault in the handshake is a fault, and not the end of the program."""
    async with frame_mutant("wrong-ids", WrongIds, ()).open() as faulty:
        report = await fuzz_server(faulty, Plan(seconds=5), options=Options(deadline=0.5))
        assert {finding.check for finding in report.findings} == {"right-id"}


class Dumb:
    """Reads, and says nothing."""

    async def serve_frames(self, stream: object) -> object:
        await trio.sleep_forever()


async def test_a_server_that_says_nothing_is_judged_by_that(autojump_clock: MockClock) -> None:
    """Nobody can fuzz it, and it is said why."""
    target: ServerTarget = server_target(Dumb(), "dumb")
    report = await fuzz_server(target, Plan(seconds=5), options=Options(deadline=0.2))
    assert {finding.check for finding in report.findings} == {"still-answers"}


# Files and databases


def replay_of(**changes: object) -> Replay:
    fields = {
        "target": "demo",
        "revision": LEGACY,
        "oracle": "no-crash",
        "cause": "x",
        "level": "SHOULD",
        "message": "x",
        "seed": 1,
        "cases": (Case("test", (Ask(1, "ping"),)),),
        "deadline": 5.0,
        "allow_writes": False,
        **changes,
    }
    return Replay(**fields)  # type: ignore[arg-type]


def test_a_file_comes_back_as_it_was(tmp_path: Path) -> None:
    """And two findings of one oracle have two files."""
    one = replay_of()
    assert read_replay(one.write(tmp_path / "new")) == one
    assert one.name != replay_of(cases=(Case("test", (Ask(2, "ping"),)),)).name


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        "{}",
        '{"mcp-trio-fuzz": 2}',
        json.dumps({**replay_of().to_json(), "cases": []}),
        json.dumps({**replay_of().to_json(), "cases": [{"steps": 5}]}),
        json.dumps({**replay_of().to_json(), "revision": "1"}),
        json.dumps({**replay_of().to_json(), "surplus": 1}),
    ],
)
def test_a_damaged_file_is_told_of(text: str, tmp_path: Path) -> None:
    """In one line, and nothing of it is played."""
    path = tmp_path / "x.json"
    path.write_text(text)
    with pytest.raises(NoReplay, match=r"x\.json"):
        read_replay(path)


def test_a_missing_redis_is_told_of() -> None:
    """By the name of the package, before anything has been done."""
    try:
        import redis  # type: ignore[import-not-found, unused-ignore]  # noqa: F401
    except ImportError:
        with pytest.raises(NoDatabase, match="pip install redis"):
            open_database("redis://user:secret@localhost/0")


async def test_what_failed_is_kept_and_tried_first(tmp_path: Path) -> None:
    """The database is used at all: a seed, which is always set, takes it away if set too late."""
    kept = InMemoryExampleDatabase()
    async with frame_mutant("wrong-code", WrongCode, ()).open() as faulty:
        searching = attrs.evolve(plan("jsonrpc", output=tmp_path), database=kept)
        assert (await fuzz_server(faulty, searching, options=QUICK)).findings
        assert kept.data
        # One example is enough now, whatever the seed.
        again = attrs.evolve(plan("jsonrpc", output=tmp_path, examples=1, seed=2), database=kept)
        assert (await fuzz_server(faulty, again, options=QUICK)).findings


def test_a_redis_that_is_not_there_is_told_of() -> None:
    """At once, in one line, and without the password of the URL."""
    pytest.importorskip("redis")
    with pytest.raises(NoDatabase, match=r"no Redis answers at localhost:1/0") as told:
        open_database("redis://user:secret@localhost:1/0")
    assert "secret" not in str(told.value)


def test_layers_share_a_database_without_mixing(tmp_path: Path) -> None:
    """An example of one layer means nothing to another."""
    database = open_database(str(tmp_path))
    one, other = Shelf(database, "bytes"), Shelf(database, "json")
    one.save(b"key", b"value")
    assert list(one.fetch(b"key")) == [b"value"]
    assert list(other.fetch(b"key")) == []
    one.delete(b"key", b"value")
    assert list(one.fetch(b"key")) == []
