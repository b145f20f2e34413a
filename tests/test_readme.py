"""The README's promises, run as they stand.

Each ```python block is a program of its own and must exit with status 0. A block that opens with
a comment naming a file (`# server.py`) is that file, and later blocks find it in their working
directory. A ```text block right after a program is all that the program prints.
"""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from itertools import zip_longest
from pathlib import Path

import attrs
import pytest

README = Path(__file__).parent.parent / "README.md"
FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
FILE_NAME = re.compile(r"# ([\w-]+\.py)\n")
COMMAND = re.compile(r"<!-- command: (\w+) -->\n+```\w*\n(.*?)\n```", re.DOTALL)
SECONDS = 60


@attrs.frozen
class Program:
    """A program of the README: where it stands, what it says, what it is to print (if stated)."""

    line: int
    name: str
    code: str
    output: str | None


def programs(text: str) -> Iterator[Program]:
    fences = list(FENCE.finditer(text))
    for fence, following in zip_longest(fences, fences[1:]):
        if fence[1] != "python":
            continue
        line = text.count("\n", 0, fence.start()) + 1
        named = FILE_NAME.match(fence[2])
        name = named[1] if named else f"readme_line_{line}.py"
        output = None
        if following and following[1] == "text":
            between = text[fence.end() : following.start()]
            output = following[2] if not between.strip() else None
        yield Program(line, name, fence[2], output)


PROGRAMS = list(programs(README.read_text(encoding="utf-8")))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One working directory with all of the README's programs."""
    folder = tmp_path_factory.mktemp("readme")
    for program in PROGRAMS:
        (folder / program.name).write_text(program.code, encoding="utf-8")
    return folder


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: f"line {program.line}")
def test_example_runs(program: Program, folder: Path) -> None:
    """Whoever copies an example from the README gets what the README says."""
    done = subprocess.run(
        [sys.executable, program.name],
        cwd=folder,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=SECONDS,
    )
    assert done.returncode == 0, f"README.md:{program.line}\n{done.stderr}"
    if program.output is not None:
        assert done.stdout == program.output


def test_commands_are_one_line_each() -> None:
    """`.ci/run` and a newcomer copy the same lines, found by the same marker."""
    commands = dict(COMMAND.findall(README.read_text(encoding="utf-8")))
    assert set(commands) == {"try", "test"}
    assert not any("\n" in command for command in commands.values())
