"""Targets that do what nobody thought of do not end a run, and nothing that was found is lost."""

from __future__ import annotations

import json
import signal
import sys
from pathlib import Path

import pytest
import trio
from click.testing import CliRunner

from mcp_trio.cli.commands import cli
from mcp_trio.cli.ending import Stopped
from mcp_trio.harness import checks as checks_module
from mcp_trio.harness.checks import check, load_checks
from mcp_trio.harness.fuzzing.cases import Case
from mcp_trio.harness.fuzzing.files import NoReplay, Replay, read_replay
from mcp_trio.harness.model import MISTAKE
from mcp_trio.harness.probe import Options, ServerProbe, open_probe
from mcp_trio.harness.runner import check_server
from mcp_trio.harness.samples import NoSample, outside, sample
from mcp_trio.harness.targets import command_target
from tests.cli.runs import mcp_trio

HOSTILE = [sys.executable, str(Path(__file__).with_name("hostile_server.py"))]

CIRCLE = {"$ref": "#"}
GREEDY = [
    {"type": "object", "allOf": [CIRCLE, CIRCLE, CIRCLE]},
    {"type": "object", "properties": dict.fromkeys("abcd", CIRCLE), "required": list("abcd")},
    {"type": "object", "properties": {"a": {"type": "string", "minLength": 10**12}}}
    | {"required": ["a"]},
    {
        "type": "object",
        "properties": {"a": {"type": "integer", "minimum": 10**400, "multipleOf": 0.1}},
    }
    | {"required": ["a"]},
]


async def test_wrong_types_everywhere_end_no_run() -> None:
    """Lists that are numbers and methods that are lists are survived, and no check trips up."""
    target, options = command_target(HOSTILE), Options(deadline=2)
    wanted = ("unknown-method-is-refused", "tool-names-are-told-apart-by-case")
    checks = [one for one in load_checks("server") if one.id in wanted]
    report = await check_server(target, checks, options=options, jobs=2)
    assert {outcome.check.id for outcome in report.outcomes} == set(wanted)
    assert not any(outcome.message.startswith(MISTAKE) for outcome in report.outcomes)
    async with open_probe(target, "2025-11-25", options) as probe:
        inventory = await probe.inventory()
    assert inventory.info == {}
    assert inventory.instructions is None
    assert len(inventory.tools) == 2
    assert inventory.resources == inventory.templates == inventory.prompts == ()


@pytest.mark.parametrize("schema", GREEDY)
def test_greedy_schemas_have_no_sample(schema: dict[str, object]) -> None:
    """Schemas in circles, or for what no machine has, take neither all time nor all memory."""
    for made in (sample, outside):
        with pytest.raises(NoSample):
            made(schema)


@pytest.mark.parametrize("url", ["http://", "http://[::1/mcp", "https://host:port/", "ws://:80/"])
def test_half_a_url_is_a_mistake_of_usage(url: str) -> None:
    """What is no URL is said to be none, in one line."""
    ended = mcp_trio("check", url)
    assert ended.status == 2
    assert "no URL with a host" in ended.stderr


def test_a_nested_replay_file_is_a_damaged_one(tmp_path: Path) -> None:
    """A file that is nested too deep for Python is refused like any other that is none."""
    path = tmp_path / "deep.json"
    path.write_text("[" * 100_000)
    with pytest.raises(NoReplay):
        read_replay(path)


def test_a_replay_file_that_cannot_be_written_costs_no_finding(tmp_path: Path) -> None:
    """A full disk ends no campaign: the line says why there is no file."""
    (tmp_path / "file").write_text("")
    replay = Replay(
        target="demo",
        revision="2025-11-25",
        oracle="no-crash",
        cause="",
        level="MUST",
        message="",
        seed=0,
        cases=(Case("json", ()),),
        deadline=1,
        allow_writes=False,
    )
    line = replay.line(tmp_path / "file" / "folder")
    assert line.startswith(f"mcp-trio fuzz --replay {replay.name} demo  # ")
    assert "demo" in replay.line(tmp_path / "other")
    assert (tmp_path / "other" / replay.name).is_file()


@check("is-fine", meaning="Does nothing.")
async def is_fine(probe: ServerProbe) -> None:
    pass


@check("gets-a-signal", meaning="Is still asked when a signal comes.")
async def gets_a_signal(probe: ServerProbe) -> None:
    signal.raise_signal(signal.SIGTERM)
    await trio.sleep_forever()


@pytest.mark.skipif(sys.platform == "win32", reason="no signals there")
def test_what_was_found_before_a_signal_is_printed(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Ctrl-C, or a build server's SIGTERM, ends the checks and loses no outcome."""
    monkeypatch.setattr(checks_module, "load_checks", lambda role=None: (is_fine, gets_a_signal))
    page = tmp_path / "junit.xml"
    words = ["check", "--json", "--junit", str(page), "--jobs", "1", "--revision", "2025-11-25"]
    ended = CliRunner().invoke(cli, [*words, "--", *HOSTILE])
    assert isinstance(ended.exception, Stopped)
    assert ended.exception.status == 128 + signal.SIGTERM
    document = json.loads(ended.stdout)
    assert [outcome["check"] for outcome in document["outcomes"]] == ["is-fine"]
    assert document["runs"][0]["facts"]["ended early"] == "by a signal"
    assert 'name="is-fine"' in page.read_text()
