"""What mcp-fuzzer (on PyPI) says of a server: the same minute, its own report.

Its two ways to fuzz the protocol are two runs, which share the minute. All that it can do over
stdio is switched on: both phases for tools, sequences, mutated corpora, its audit of tools, and its
checks of the specification. It is judged by what its own report holds for a faulty server and not
for the healthy one: it calls most answers to odd input a finding, so the number alone says nothing.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import signal
import subprocess
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import attrs

from tests.harness.planted.plants import ROOT, Plant

EVERYTHING = ("--mode", "all", "--phase", "both", "--timeout", "5", "--seed", "42")
RUNS = (
    ("--protocol-phase", "realistic", "--runs", "25", "--runs-per-type", "10", "--security-audit"),
    (
        *("--protocol-phase", "aggressive", "--runs", "15", "--runs-per-type", "8"),
        *("--stateful", "--stateful-runs", "10", "--havoc"),
    ),
)
GRACE = 5.0  # seconds to write a report after an interrupt
#: What a run's own summary counts of each tool besides findings.
TROUBLES = ("anomaly", "crashed")  # exceptions it counts against the healthy server, too


@attrs.define
class Verdict:
    """What it said of one server.

    Attributes:
        findings: How often it reported what: category and kind of target.
        failed_checks: Those of its checks of the specification that failed or warned.
        seconds: How long it took.
        stopped: Whether it had to be stopped, as the time was over.
    """

    findings: Counter[str] = attrs.Factory(Counter)
    failed_checks: set[str] = attrs.Factory(set)
    seconds: float = 0.0
    stopped: bool = False

    def beyond(self, healthy: Verdict) -> list[str]:
        """What it said of this server and not of the healthy one.

        That it had to be stopped says nothing: on a busy machine it is, whatever the server. What
        hangs is in its report, as each of its requests has a deadline.
        """
        more = [
            f"{what} ({count})"
            for what, count in self.findings.most_common()
            if what not in healthy.findings
        ]
        more += sorted(self.failed_checks - healthy.failed_checks)
        return more


def united(verdicts: Sequence[Verdict]) -> Verdict:
    """All that was said in several runs."""
    return Verdict(
        findings=sum((verdict.findings for verdict in verdicts), Counter()),
        failed_checks=set().union(*(verdict.failed_checks for verdict in verdicts)),
        seconds=sum(verdict.seconds for verdict in verdicts),
        stopped=any(verdict.stopped for verdict in verdicts),
    )


def run(program: str, plant: Plant, limit: float = 60.0) -> Verdict:
    """Let mcp-fuzzer loose on a server, for `limit` seconds at most."""
    verdict = Verdict()
    began = time.monotonic()
    with tempfile.TemporaryDirectory() as home:
        for number, options in enumerate(RUNS):
            left = limit - (time.monotonic() - began)
            if left > 0:
                _run_once(program, plant, options, left, Path(home), f"run-{number}", verdict)
    verdict.seconds = time.monotonic() - began
    return verdict


def _run_once(
    program: str,
    plant: Plant,
    options: tuple[str, ...],
    limit: float,
    home: Path,
    name: str,
    verdict: Verdict,
) -> None:
    argv = [program, *EVERYTHING, *options, "--protocol", "stdio"]
    argv += ["--endpoint", shlex.join(plant.command), "--output-dir", str(home / name)]
    environment = {**os.environ, "HOME": str(home), "PYTHONPATH": str(ROOT), "COLUMNS": "200"}
    log = home / f"{name}.log"
    with log.open("wb") as output:
        process = subprocess.Popen(
            argv, stdin=subprocess.DEVNULL, stdout=output, stderr=output, env=environment
        )
        try:
            process.wait(limit)
        except subprocess.TimeoutExpired:
            verdict.stopped = True
            process.send_signal(signal.SIGINT)
            try:
                process.wait(GRACE)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
    _read_report(home / name, verdict)
    for status, check in re.findall(
        r"│ (FAIL|WARN)\w* +│ (\S+)", log.read_text("utf-8", "replace")
    ):
        verdict.failed_checks.add(f"{check}: {status.lower()}")


def _read_report(folder: Path, verdict: Verdict) -> None:
    for finding in _json(folder / "findings.json").get("findings", ()):
        verdict.findings[f"{finding['category']} of a {finding['kind']}"] += 1
    summary = _json(folder / "run_summary.json")
    for tool in summary.get("tools", {}).get("by_name", {}).values():
        for trouble in TROUBLES:
            if count := tool.get("outcomes", {}).get(trouble):
                verdict.findings[f"{trouble} of a tool, counted only"] += count


def _json(file: Path) -> dict[str, Any]:
    try:
        found: dict[str, Any] = json.loads(file.read_text("utf-8"))
    except (OSError, ValueError):
        return {}
    return found
