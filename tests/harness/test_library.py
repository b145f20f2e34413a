"""`mcp_trio.harness` as a library: its names are there, and its example does what it says."""

from __future__ import annotations

import ast
import inspect
import subprocess
import sys
import textwrap

from mcp_trio import harness


def names_for_type_checkers() -> dict[str, str]:
    tree = ast.parse(inspect.getsource(harness))
    block = next(node for node in tree.body if isinstance(node, ast.If))
    return {
        alias.asname: f"{statement.module}".removeprefix("mcp_trio.harness.")
        for statement in block.body
        if isinstance(statement, ast.ImportFrom)
        for alias in statement.names
        if alias.asname is not None
    }


def test_both_tables_of_names_agree() -> None:
    """A name that only type checkers know fails when it is used, and the other way round."""
    assert names_for_type_checkers() == harness._HOMES


def test_every_name_can_be_had() -> None:
    """All names exist, and others are refused as usual."""
    for name in harness._HOMES:
        assert getattr(harness, name) is not None
    assert not hasattr(harness, "no_such_name")
    assert set(harness._HOMES) <= set(dir(harness))


def test_its_example_runs() -> None:
    """Whoever copies the example of a check of one's own gets a report."""
    text = str(harness.__doc__)
    code = textwrap.dedent(text[text.index("    import sys") : text.index("A check returns")])
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    revisions = ("2025-11-25", "2026-07-28")
    lines = [f"tools-have-descriptions {revision} passed" for revision in revisions]
    assert [line.rstrip() for line in done.stdout.splitlines()] == lines
