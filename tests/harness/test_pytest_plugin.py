"""The pytest plugin: checks as tests, and nothing at all for everybody else."""

from __future__ import annotations

import shlex
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from mcp_trio.harness import checks as checks_module
from mcp_trio.harness import pytest_plugin, runner
from mcp_trio.harness.checks import check
from mcp_trio.harness.model import Check, Failed, NotApplicable, Report, Role
from mcp_trio.harness.probe import ServerProbe
from mcp_trio.harness.runner import check_server
from mcp_trio.harness.targets import ServerTarget
from tests.cli.runs import started
from tests.harness.reported import BROKEN_MUST, REQUIREMENTS, REVISION

pytest_plugins = "pytester"

BAD = Path(__file__).with_name("bad_server.py")
#: The plugin is given by its module, whether or not it is installed: see `test_pytest_finds_it`.
WITHOUT = ("-p", "no:mcp-trio", "-p", "no:cacheprovider")
EVIL = "it said \x1b[2J"


@check("is-there", meaning="Answers.")
async def is_there(probe: ServerProbe) -> None:
    await (await probe.session()).fence()


@check("breaks-a-must", *BROKEN_MUST.requirements, meaning="Does what it must.")
async def breaks_a_must(probe: ServerProbe) -> None:
    await (await probe.session()).fence()
    raise Failed(EVIL)


@check("breaks-a-should", meaning="Does what it should.")
async def breaks_a_should(probe: ServerProbe) -> None:
    raise Failed("it did not")


@check("is-elsewhere", meaning="Has what it has not.")
async def is_elsewhere(probe: ServerProbe) -> None:
    raise NotApplicable("it has none")


@check("is-for-http", meaning="Is not asked over stdio.", transports=["http"])
async def is_for_http(probe: ServerProbe) -> None:
    raise AssertionError


FAKES = (is_there, breaks_a_must, breaks_a_should, is_elsewhere, is_for_http)


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The demo server at a socket: one process for all tests."""
    path = tmp_path_factory.mktemp("demo") / "socket"
    with started("serve", "demo", "--unix", str(path)) as process:
        assert process.stderr is not None
        assert b"Serving" in process.stderr.readline()
        yield f"unix:{path}"


@pytest.fixture(autouse=True)
def _fakes(monkeypatch: pytest.MonkeyPatch, pytester: pytest.Pytester) -> None:
    """The plugin knows these checks; the tests of its user are strict about warnings."""

    def load_checks(role: Role | None = None) -> tuple[Check, ...]:
        return FAKES

    monkeypatch.setattr(checks_module, "load_checks", load_checks)
    pytester.makeini(
        "[pytest]\naddopts = --strict-config --strict-markers\nfilterwarnings = error\n"
    )
    pytester.makepyfile("def test_of_the_user(): pass")


def checked(pytester: pytest.Pytester, target: str, *words: str) -> pytest.RunResult:
    return pytester.runpytest_inprocess(
        *WITHOUT, "--mcp-target", target, *words, plugins=[pytest_plugin]
    )


def test_each_check_in_each_revision_is_a_test(pytester: pytest.Pytester, demo: str) -> None:
    """Both eras by default, beside the user's own tests, each by a name to select it by."""
    done = checked(pytester, demo, "-v")
    done.assert_outcomes(passed=5, failed=2, skipped=2, warnings=2)
    for revision in ("2025-11-25", "2026-07-28"):
        done.stdout.fnmatch_lines([f"mcp::is-there[[]{revision}[]] PASSED*"])
        done.stdout.fnmatch_lines([f"mcp::is-elsewhere[[]{revision}[]] SKIPPED (it has none)*"])
    done.stdout.no_fnmatch_line("*is-for-http*")


def test_a_failure_says_what_a_maintainer_needs(pytester: pytest.Pytester, demo: str) -> None:
    """The sentence, its link, the replay and the exchange; no traceback of ours, no escapes."""
    done = checked(pytester, demo, "-k", "breaks-a-must", "--mcp-revision", REVISION)
    done.assert_outcomes(failed=1, deselected=4)
    text = done.stdout.str()
    requirement = REQUIREMENTS[BROKEN_MUST.requirements[0]]
    assert requirement.says in text
    assert requirement.link(REVISION) in text
    assert f"replay: mcp-trio check --only breaks-a-must --revision {REVISION} {demo}" in text
    assert '> {"jsonrpc":"2.0","id":1,"method":"initialize"' in text
    assert "it said \\u001b[2J" in text
    assert "Traceback" not in text
    assert "raise Failed" not in text


def test_a_should_is_a_failure_only_if_strict(pytester: pytest.Pytester, demo: str) -> None:
    """Strictness about a server has its own option: a project's filters are about itself."""
    words = ("-k", "breaks-a-should", "--mcp-revision", REVISION)
    done = checked(pytester, demo, *words)
    done.assert_outcomes(passed=1, warnings=1, deselected=4)
    done.stdout.fnmatch_lines(["*BrokenShould: breaks-a-should*it did not*"])
    checked(pytester, demo, *words, "--mcp-strict").assert_outcomes(failed=1, deselected=4)


def test_checks_are_selected_by_their_marker(pytester: pytest.Pytester, demo: str) -> None:
    """`-m mcp` runs the checks alone, and `-m 'not mcp'` the rest, which starts no checks."""
    checked(pytester, demo, "-m", "mcp", "-k", "is-there").assert_outcomes(passed=2, deselected=7)
    checked(pytester, demo, "-m", "not mcp").assert_outcomes(passed=1, deselected=8)


def test_checks_of_a_revision_are_run_at_once(
    pytester: pytest.Pytester, demo: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is slow is starting servers: a run each for hundreds of checks would take minutes."""
    runs: list[list[str]] = []

    async def counted(target: ServerTarget, checks: list[Check], **options: Any) -> Report:
        runs.append([check.id for check in checks])
        return await check_server(target, checks, **options)

    monkeypatch.setattr(runner, "check_server", counted)
    checked(pytester, demo, "-k", "is-there or breaks")
    assert runs == [["is-there", "breaks-a-must", "breaks-a-should"]] * 2


@pytest.mark.parametrize(
    ("target", "said"),
    [
        (shlex.join([sys.executable, str(BAD), "dead"]), "*no connection to *no licence*"),
        ("no-such-command-anywhere", "*no connection to no-such-command-anywhere: *"),
        ("tcp:127.0.0.1:1", "*no connection to tcp:127.0.0.1:1: *"),
    ],
)
def test_a_server_that_does_not_start_is_an_error(
    pytester: pytest.Pytester, target: str, said: str
) -> None:
    """A run without its server must not look like one in which all went well."""
    done = checked(pytester, target)
    assert done.ret == pytest.ExitCode.INTERRUPTED
    done.stdout.fnmatch_lines([said])
    done.stdout.no_fnmatch_line("*Traceback*")


def test_a_server_that_dies_between_is_one_failure_each(pytester: pytest.Pytester) -> None:
    """It is not tried again for each of hundreds of checks."""
    done = checked(pytester, "tcp:127.0.0.1:1", "--mcp-revision", REVISION)
    done.assert_outcomes(passed=1, failed=4)
    assert done.stdout.str().count("no connection to tcp:127.0.0.1:1") >= 4


@pytest.mark.parametrize(
    "words", [("--mcp-revision", "2025-11-26"), ("--mcp-target", "an 'open quote")]
)
def test_usage(pytester: pytest.Pytester, words: tuple[str, str]) -> None:
    """A word that cannot be meant is an error of usage."""
    done = checked(pytester, "tcp:127.0.0.1:1", *words)
    assert done.ret == pytest.ExitCode.USAGE_ERROR
    done.stderr.fnmatch_lines(["*2025-11-26*" if "revision" in words[0] else "*open quote*"])


def test_without_the_option_it_does_nothing(pytester: pytest.Pytester) -> None:
    """pytest loads the plugin for everybody who has the package; that has to cost nothing."""
    pytester.runpytest_inprocess(*WITHOUT, plugins=[pytest_plugin]).assert_outcomes(passed=1)
    code = (
        "import sys, pytest; before = set(sys.modules); "
        "import mcp_trio.harness.pytest_plugin; print(*(set(sys.modules) - before))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    ours = {"mcp_trio", "mcp_trio.harness", "mcp_trio.harness.pytest_plugin"}
    assert set(done.stdout.split()) <= ours, done.stderr


def test_pytest_finds_it() -> None:
    """What installs the package installs the plugin."""
    text = (Path(__file__).parents[2] / "pyproject.toml").read_text(encoding="utf-8")
    points = tomllib.loads(text)["project"]["entry-points"]["pytest11"]
    assert points == {"mcp-trio": pytest_plugin.__name__}
