"""`mcp-trio check`: exit status, what is printed where, and which target is asked what."""

from __future__ import annotations

import json
import shlex
import socket
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest
from click.testing import CliRunner, Result

from mcp_trio.cli.commands import cli
from mcp_trio.harness import checks as checks_module
from mcp_trio.harness.checks import check
from mcp_trio.harness.model import TRANSPORTS, Check, Role
from mcp_trio.harness.probe import ServerProbe, expect
from tests.cli.runs import mcp_trio

BAD = Path(__file__).with_name("bad_server.py")
BAD_COMMAND = [sys.executable, str(BAD)]
SILENT_MUST = "unknown-method-is-refused"  # which the bad server does not do


@check("says-something", meaning="Answers a request.")
async def says_something(probe: ServerProbe) -> None:
    await (await probe.session()).fence()


@check("has-a-title", meaning="Has what no server has.")
async def has_a_title(probe: ServerProbe) -> None:
    expect(False, "it has no title")


@check("writes-are-allowed", meaning="May be written to.")
async def writes_are_allowed(probe: ServerProbe) -> None:
    expect(probe.options.allow_writes, f"only reading, {probe.options.deadline:g} s")


@check("client-comes", role="client", meaning="Is there.")
async def client_comes(probe: object) -> None:
    pass


FAKES = (says_something, has_a_title, writes_are_allowed, client_comes)


@pytest.fixture
def fakes(monkeypatch: pytest.MonkeyPatch) -> None:
    """The command line knows these checks and no others."""

    def load_checks(role: Role | None = None) -> tuple[Check, ...]:
        return tuple(check for check in FAKES if role in (None, check.role))

    monkeypatch.setattr(checks_module, "load_checks", load_checks)


def run(*words: str) -> Result:
    return CliRunner().invoke(cli, ["check", *words], prog_name="mcp-trio")


# Exit status


def test_a_good_server_is_fine() -> None:
    """The real command, a real process: status 0, and it says so."""
    done = mcp_trio("check", "demo", "--revision", "2025-11-25", "--only", SILENT_MUST)
    assert (done.status, done.stderr) == (0, "")
    assert "Nothing was found to be wrong." in done.stdout


def test_a_broken_must_is_status_1_and_its_replay_shows_it_again() -> None:
    """The line that a maintainer is sent reproduces the finding."""
    done = mcp_trio("check", "--json", "--only", SILENT_MUST, "--", *BAD_COMMAND)
    assert (done.status, done.stderr) == (1, "")
    (finding,) = done.document["findings"]
    assert done.document["summary"]["failed"] == 1
    program, *words = shlex.split(finding["replay"])
    assert program == "mcp-trio"
    again = mcp_trio(*words)
    assert again.status == 1
    assert finding["message"] in again.stdout
    assert "\x1b" not in again.stdout


def test_a_broken_should_counts_if_strict(fakes: None) -> None:
    """What is only recommended breaks nobody's build, unless that is asked for."""
    words = ("--transport", "memory", "--only", "has-a-title")
    assert run(*words).exit_code == 0
    assert "WARNED has-a-title (SHOULD" in run(*words).output
    assert run(*words, "--strict").exit_code == 1


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--only", "says-somthing"], "says-something"),
        (["--area", "nowhere"], "no area 'nowhere'"),
        (["--role", "client", "--only", "says-something"], "of the client role"),
        (["demo", "-t", "demo"], "Two targets"),
        (["demo", "--", "x"], "Two targets"),
        (["demo", "--sse"], "--sse is for http"),
        (["tcp:localhost:1", "--sse"], "--sse is for http"),
        (["demo", "--transport", "http"], "a target has its own"),
        (["--transport", "pigeon"], "--transport is one of stdio, http"),
        (["--hand-over", "file"], "--hand-over is for clients"),
        (["--role", "client", "demo"], "A client is started"),
        (["--env", "A=1"], "for a server that is named"),
        (["--html", "/no/such/folder/report.html"], "there is no folder"),
        (["--revision", "2025-11-26"], "2025-11-25"),
        (["--deadline", "nan"], "nan is no number"),
    ],
    ids=lambda words: " ".join(words) if isinstance(words, list) else None,
)
def test_usage(words: list[str], said: str, fakes: None) -> None:
    """What cannot be meant is refused before anything is started, and with a hint."""
    done = run(*words)
    assert done.exit_code == 2, done.output
    assert said in done.output


def test_nothing_to_ask_is_no_success(fakes: None) -> None:
    """A run without a single outcome must not look like one in which all went well."""
    assert run("--transport", "sse", "--revision", "2026-07-28").exit_code == 2


def test_no_connection_is_status_3(fakes: None) -> None:
    """A server that cannot be started or reached is told from one that is wrong."""
    done = run("--", *BAD_COMMAND, "dead")
    assert done.exit_code == 3
    assert "no licence" in done.output, "what it wrote to its stderr is why"
    assert run("--", "no-such-command-anywhere").exit_code == 3
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    for url in (f"http://127.0.0.1:{port}/mcp", f"ws://127.0.0.1:{port}", f"tcp:127.0.0.1:{port}"):
        done = run(url)
        assert done.exit_code == 3, url
        assert len(done.output.splitlines()) == 1, "one line, no traceback"


# Which target


def test_without_a_target_the_demo_is_checked_everywhere(fakes: None) -> None:
    """All transports and both eras, each transport a report of its own, with replays that work."""
    document = json.loads(run("--only", "has-a-title", "--json").output)
    asked = {(one["transport"], one["revision"]) for one in document["outcomes"]}
    eras = ("2025-11-25", "2026-07-28")
    wanted = {(transport, era) for transport in TRANSPORTS for era in eras}
    wanted -= {("sse", era) for era in eras}
    assert asked == wanted | {("sse", "2024-11-05")}
    assert document["target"] == "demo"
    assert [one["facts"]["transport"] for one in document["runs"]] == list(TRANSPORTS)
    replays = {one["transport"]: one["replay"] for one in document["findings"]}
    for transport, replay in replays.items():
        again = json.loads(run(*shlex.split(replay)[2:], "--json").output)
        assert {one["transport"] for one in again["outcomes"]} == {transport}


def test_revisions_are_those_that_were_asked_for(fakes: None) -> None:
    """By name, or all that the server speaks."""

    def asked(*words: str) -> set[str]:
        done = run("--transport", "memory", "--only", "says-something", "--json", *words)
        return {one["revision"] for one in json.loads(done.output)["outcomes"]}

    assert asked("--revision", "2025-03-26") == {"2025-03-26"}
    assert len(asked("--revision", "all")) == 5


def test_what_a_person_decides_reaches_the_checks(fakes: None) -> None:
    """Tools that write are not called unless somebody said so; the deadline is theirs, too."""
    words = ("--transport", "memory", "--only", "writes-are-allowed")
    assert "only reading, 2 s" in run(*words, "--deadline", "2").output
    done = run(*words, "--allow-writes", "--strict")
    assert done.exit_code == 0


def test_a_client_is_started_and_checked(fakes: None) -> None:
    """The other role: the harness is the server, over each transport that is asked for."""
    command = [sys.executable, "-m", "mcp_trio.harness.demo_client"]
    options = ["--role", "client", "--revision", "2025-11-25", "--json"]
    done = run(*options, "--transport", "stdio", "--transport", "http", "--", *command)
    assert done.exit_code == 0, done.output
    asked = [(one["check"], one["transport"]) for one in json.loads(done.output)["outcomes"]]
    assert asked == [("client-comes", "stdio"), ("client-comes", "http")]


# What is written


def test_reports_for_others_are_written(fakes: None, tmp_path: Path) -> None:
    """Build servers and maintainers get files of their own, from the same run."""
    junit, html = tmp_path / "report.xml", tmp_path / "report.html"
    words = ["--transport", "memory", "--junit", str(junit), "--html", str(html)]
    assert run(*words).exit_code == 0
    assert ElementTree.parse(junit).getroot().find(".//testcase[@name='has-a-title']") is not None
    assert "has-a-title" in html.read_text(encoding="utf-8")


def test_checks_are_listed() -> None:
    """All of them, or those of a role or an area; for people and for programs."""
    found = json.loads(run("--list", "--json").output)["checks"]
    assert {one["role"] for one in found} == {"server", "client"}
    assert SILENT_MUST in run("--list", "--role", "server").output
    assert all(
        one["role"] == "client"
        for one in json.loads(run("--list", "--role", "client", "--json").output)["checks"]
    )


def test_requirements_are_listed_with_their_coverage() -> None:
    """The table says what is tested and how much that is, by revision and level."""
    document = json.loads(run("--requirements", "--json").output)
    row = next(one for one in document["requirements"] if SILENT_MUST in one["checks"])
    assert row["says"]
    assert row["links"][0].startswith("https://modelcontextprotocol.io/specification/")
    assert {one["role"] for one in document["coverage"]} == {"server", "client"}
    text = run("--requirements").output
    assert "What binds clients, and how much of it is checked" in text
    assert row["id"] in text


def test_help_is_quick() -> None:
    """`--help` loads neither the checks nor what they stand on."""
    code = (
        "import sys; from mcp_trio.cli.commands import cli; "
        "cli.main(['check', '--help'], standalone_mode=False); "
        "heavy = {'rich', 'hypothesis', 'httpx'} & set(sys.modules); "
        "heavy |= {name for name in sys.modules if name.startswith('mcp_trio.harness.')}; "
        "print('loaded:', *heavy)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=30)
    assert done.stdout.rstrip().endswith("loaded:"), done.stdout[-300:] + done.stderr
