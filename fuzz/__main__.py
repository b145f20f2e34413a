"""Runs the targets: `python -m fuzz --seconds 60`, `python -m fuzz server client`, and
`python -m fuzz million`. README.md has more."""

from __future__ import annotations

import argparse
import subprocess
import sys
import time
import traceback
from collections.abc import Callable
from functools import wraps
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from fuzz import profiles

FOLDER = Path(__file__).parent
MODULES = ("wire", "protocol", "raw", "peer", "server", "client")
GUIDED_SHARE = 0.25
"""How much of the time goes to atheris, where it is installed."""


class Target:
    """One property, or one state machine, that Hypothesis runs."""

    def __init__(self, name: str, run: Callable[[], object]) -> None:
        self.name = name
        self.examples = 0
        self.seconds = 0.0
        self._run = run
        if handle := getattr(run, "hypothesis", None):  # how test libraries get at the function
            inner = handle.inner_test

            @wraps(inner)
            def counted(*arguments: Any, **named: Any) -> object:
                self.examples += 1
                return inner(*arguments, **named)

            handle.inner_test = counted

    def run(self, seconds: float) -> None:
        """Run for that long, and for one round at least; what fails raises."""
        started = time.monotonic()
        while True:
            self._run()
            if not hasattr(self._run, "hypothesis"):
                self.examples += profiles.ROUND
            self.seconds = time.monotonic() - started
            if self.seconds > seconds:
                return


def find_targets(names: list[str]) -> list[Target]:
    """The targets of some modules, or all of them."""
    from hypothesis.stateful import run_state_machine_as_test

    found: list[Target] = []
    for name in names or MODULES:
        module = import_module(f"fuzz.test_{name}")
        for member, value in vars(module).items():
            machine = getattr(value, "TestCase", None)
            if hasattr(value, "hypothesis"):
                found.append(Target(f"{name}: {member.removeprefix('test_')}", value))
            elif machine is not None and value.__module__ == module.__name__:

                def run(machine: Any = value) -> None:
                    run_state_machine_as_test(machine)

                found.append(Target(f"{name}: {member}", run))
    return found


def run_corpora() -> bool:
    """Every file of the corpora, once."""
    from fuzz.raw import RAW

    started, sound = time.monotonic(), True
    files = sorted((FOLDER / "corpora").glob("*/*"))
    for file in files:
        try:
            RAW[file.parent.name](file.read_bytes())
        except Exception:
            print(f"FAILED: {file.relative_to(FOLDER.parent)}")
            traceback.print_exc()
            sound = False
    print(f"{'corpora':<60} {len(files):>7} files    {time.monotonic() - started:6.1f} s")
    return sound


def run_targets(targets: list[Target], seconds: float) -> bool:
    sound = True
    ends = time.monotonic() + seconds
    for number, target in enumerate(targets):
        # Who is done early leaves its time to those after it.
        share = (ends - time.monotonic()) / (len(targets) - number)
        try:
            target.run(max(share, 0))
        except Exception:
            print(f"FAILED: {target.name}")
            traceback.print_exc()
            sound = False
        print(
            f"{target.name:<60} {target.examples:>7} examples {target.seconds:6.1f} s", flush=True
        )
    return sound


def run_guided(seconds: float) -> bool:
    """atheris on each target for raw bytes; what it finds on the way is thrown away."""
    from fuzz.raw import RAW

    sound = True
    each = max(1, int(seconds / len(RAW)))
    for name in RAW:
        with TemporaryDirectory() as found:
            options = [found, f"{FOLDER}/corpora/{name}", f"-max_total_time={each}"]
            options += [f"-artifact_prefix={FOLDER.parent}/crash-{name}-", "-print_final_stats=1"]
            command = [sys.executable, "-m", "fuzz.guided", name, *options]
            ran = subprocess.run(
                command, cwd=FOLDER.parent, capture_output=True, check=False, text=True
            )
        runs = ran.stderr.partition("number_of_executed_units:")[2].split("\n")[0].strip()
        print(f"{'guided: ' + name:<60} {runs:>7} runs     {each:6.1f} s", flush=True)
        if ran.returncode:
            print(f"FAILED: guided: {name}\n{ran.stderr}")
            sound = False
    return sound


def main(arguments: list[str]) -> int:
    if arguments[:1] == ["million"]:
        from fuzz.million import main as run_million

        return run_million(arguments[1:])
    parser = argparse.ArgumentParser("python -m fuzz", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="MODULE", help=f"{', '.join(MODULES)}; all")
    parser.add_argument("--seconds", type=float, default=60, help="for all together")
    options = parser.parse_args(arguments)
    if unknown := set(options.names) - set(MODULES):
        parser.error(f"there are no targets {', '.join(sorted(unknown))}")
    profiles.load()
    guided = options.seconds * GUIDED_SHARE if not options.names and find_spec("atheris") else 0.0
    sound = run_corpora()
    sound &= run_targets(find_targets(options.names), options.seconds - guided)
    if guided:
        sound &= run_guided(guided)
    elif not options.names:
        print("guided: skipped, for atheris is not installed (pip install -e '.[fuzz]')")
    return 0 if sound else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
