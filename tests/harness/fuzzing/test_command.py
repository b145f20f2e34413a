"""`mcp-trio fuzz`: what people type, and what they get."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from mcp_trio.cli.fuzzing import LAYERS, fuzz
from mcp_trio.harness.fuzzing.cases import Ask, Case, Raw
from mcp_trio.harness.fuzzing.files import Replay
from mcp_trio.harness.fuzzing.layers import LAYERS as ALL_LAYERS

FRAGILE = """
import json, sys
for line in sys.stdin:
    message = json.loads(line)
    if message.get("method") == "initialize":
        result = {"protocolVersion": "2025-11-25", "capabilities": {},
                  "serverInfo": {"name": "x", "version": "1"}}
    else:
        result = {}
    if "id" in message:
        print(json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": result}), flush=True)
"""


def run(*words: str) -> Result:
    return CliRunner().invoke(fuzz, list(words))


def fragile() -> list[str]:
    return ["--", sys.executable, "-c", FRAGILE]


def replay_file(folder: Path, target: str, case: Case) -> Path:
    replay = Replay(
        target=target,
        revision="2025-11-25",
        oracle="no-crash",
        cause="the server exited with status 1, json.decoder.JSONDecodeError",
        level="SHOULD",
        message="it crashed",
        seed=1,
        cases=(case,),
        deadline=5.0,
        allow_writes=False,
    )
    return replay.write(folder)


def test_layers_on_the_command_line_are_those_that_there_are() -> None:
    """They are written twice, so that --help need not load Hypothesis."""
    assert tuple(ALL_LAYERS) == LAYERS


def test_a_clean_run_says_so_as_json(tmp_path: Path) -> None:
    """For programs: the shape that `check --json` has, too."""
    result = run("--examples", "3", "--layer", "jsonrpc", "--seed", "1", "--json",
                 "--output", str(tmp_path / "out"))  # fmt: skip
    assert result.exit_code == 0, result.output
    document = json.loads(result.stdout)
    assert document["findings"] == []
    assert document["runs"][0]["kind"] == "fuzz"
    assert not (tmp_path / "out").exists()


def test_a_finding_is_replayed_by_its_file(tmp_path: Path) -> None:
    """By the file alone, to another target, and when it does not happen any more."""
    bad = Case("bytes", (Raw((b"no JSON\n",)),))
    words = f"-- {sys.executable} -c {json.dumps(FRAGILE)}"
    words = " ".join(["--", sys.executable, "-c", "'" + FRAGILE.replace("'", "'\"'\"'") + "'"])
    path = replay_file(tmp_path, words, bad)
    result = run("--replay", str(path))
    assert result.exit_code == 1, result.output
    assert "it still happens" in result.output
    assert run("--replay", str(path), *fragile()).exit_code == 1
    healed = run("--replay", str(path), "--json", "demo")
    assert healed.exit_code == 0, healed.output
    assert json.loads(healed.stdout)["stillThere"] is False


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--transport", "http", "demo"], "for clients"),
        (["--role", "client", "demo"], "A client is started"),
        (["--role", "client", "--layer", "json"], "for servers"),
        (["--role", "client", "--sse"], "for servers"),
        (["--sse", "demo"], "--sse is for"),
        (["--layer", "none"], "Invalid value"),
        (["--seconds", "0"], "Invalid value"),
        (["--layer", "headers", "--seconds", "5"], "Nothing to send"),
    ],
)
def test_what_makes_no_sense_is_refused(words: list[str], said: str) -> None:
    """In one line, with status 2."""
    result = run(*words)
    assert result.exit_code == 2, result.output
    assert said in result.output


def test_a_damaged_file_is_refused(tmp_path: Path) -> None:
    """In one line, with status 2."""
    path = replay_file(tmp_path, "demo", Case("json", (Ask(1, "ping"),)))
    path.write_text(path.read_text().replace("cases", "boxes"))
    result = run("--replay", str(path))
    assert result.exit_code == 2
    assert "is damaged" in result.output


def test_no_case_at_all_is_no_good_news() -> None:
    """Where starting takes all the time, nothing was tried, and nobody is told that all is well."""
    result = run("--seconds", "0.01")
    assert result.exit_code == 3
    assert "Nothing was found" not in result.stdout
    assert "Raise --seconds" in result.stderr
