"""Runs the official conformance suite, and reads what it found.

The suite is a program for Node. For servers it is a client that misbehaves on purpose; for clients
it is one server for each scenario, and starts the client itself. What it has found it writes into a
`checks.json` for each scenario, and that is what counts here: its exit status passes over warnings,
and over all that the protocol revision does not require.
"""

import json
import re
import shlex
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Literal

import attrs
import trio

from tests.conformance import client

Role = Literal["client", "server"]
REVISIONS = ("2025-11-25", "2026-07-28")
LATER = ("auth/", "sep-2640-", "tasks-")
"""How the names of scenarios begin that are not for now."""

ROOT = Path(__file__).parents[2]
TIME = 120.0
"""Seconds that one run of the suite may take."""
SIDE_BY_SIDE = 2
"""Clients that run at the same time; more would be late for the one scenario that measures time."""

_STAMP = re.compile(r"-\d{4}-\d\d-\d\dT[\d-]+Z")


@attrs.frozen
class Check:
    """One thing that the suite has looked at; `status` is "SUCCESS", "INFO", or in between."""

    scenario: str
    id: str
    name: str
    status: str
    reason: str

    def __str__(self) -> str:
        return f"{self.scenario}: {self.status} {self.id} ({self.name}): {self.reason:.1500}"


async def scenarios(suite: Sequence[str], role: Role, revision: str) -> list[str]:
    """The names of all scenarios of a revision for one role, whether or not it requires them."""
    listing = await _run([*suite, "list", "--requirements", revision])
    names = [name for name in _listed(listing, role) if not name.startswith(LATER)]
    assert names, f"the suite lists no scenarios for a {role}:\n{listing}"
    return names


def _listed(listing: str, role: Role) -> Iterator[str]:
    section = ""
    for line in listing.splitlines():
        if item := re.fullmatch(r" +- (\S+)(?: \[(client|server)\])?", line):
            if (item[2] or section) == role:
                yield item[1]
        elif heading := re.match(r"(Server|Client) scenarios", line):
            section = heading[1].lower()


async def judge_server(suite: Sequence[str], url: str, revision: str, folder: Path) -> list[Check]:
    """Judge the server at a URL by all scenarios of a revision, one after the other."""
    options = ("--url", url, "--requirements", revision, "--output-dir", str(folder))
    said = await _run([*suite, "server", *options])
    expected = await scenarios(suite, "server", revision)
    results = _results(folder)
    return [c for name in expected for c in _checks(name, results.get(f"server-{name}"), said)]


async def judge_client(suite: Sequence[str], revision: str, folder: Path) -> list[Check]:
    """Judge the everything-client by all scenarios of a revision."""
    judged: dict[str, list[Check]] = {}
    limit = trio.CapacityLimiter(SIDE_BY_SIDE)

    async def judge(name: str) -> None:
        async with limit:
            judged[name] = await _judge_scenario(suite, name, revision, folder / name)

    expected = await scenarios(suite, "client", revision)
    async with trio.open_nursery() as nursery:
        for name in expected:
            nursery.start_soon(judge, name)
    return [check for name in expected for check in judged[name]]


async def _judge_scenario(
    suite: Sequence[str], name: str, revision: str, folder: Path
) -> list[Check]:
    command = shlex.join([sys.executable, "-m", client.__name__])
    # What `--requirements` does for each of its scenarios; it would start them all at once.
    options = ("--scenario", name, "--spec-version", revision, "--force")
    output = ("--output-dir", str(folder))
    said = await _run([*suite, "client", "--command", command, *options, *output])
    result = _results(folder).get(name)
    return [*_checks(name, result, said), *_check_end(name, result, said)]


def _results(folder: Path) -> dict[str, Path]:
    """The folders that the suite has left, by their names without the time of day."""
    return {_STAMP.split(path.name)[0]: path for path in folder.glob("*")}


def _checks(scenario: str, result: Path | None, said: str) -> Iterator[Check]:
    results = None if result is None else result / "checks.json"
    if results is None or not results.exists():
        reason = f"the suite did not get to its end:\n{said}"
        yield Check(scenario, "suite-done", "SuiteDone", "FAILURE", reason)
        return
    checks = json.loads(results.read_text(encoding="utf-8"))
    if not any(check["status"] == "SUCCESS" for check in checks):
        yield Check(scenario, "anything", "Anything", "FAILURE", "nothing was found to be right")
    for check in checks:
        reason = check.get("errorMessage") or json.dumps(check.get("details", {}))
        yield Check(scenario, check["id"], check["name"], check["status"], reason)


def _check_end(scenario: str, result: Path | None, said: str) -> Iterator[Check]:
    printed = (result / "stdout.txt").read_text(encoding="utf-8") if result else ""
    if printed.splitlines()[-1:] != [client.DONE]:
        reason = f"the client did not get to its end:\n{said}"
        yield Check(scenario, "client-done", "ClientDone", "FAILURE", reason)


async def _run(argv: Sequence[str]) -> str:
    """Run a program to its end, whatever its exit status, and return all that it said."""
    with trio.fail_after(TIME):
        done = await trio.run_process(
            argv, cwd=ROOT, capture_stdout=True, capture_stderr=True, check=False
        )
    return (done.stdout + done.stderr).decode("utf-8", "replace")
