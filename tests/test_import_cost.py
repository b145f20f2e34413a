"""What a program pays for importing us, before it has asked for anything."""

from __future__ import annotations

import subprocess
import sys

import pytest

SERVER = "from mcp_trio import Server; Server('x')"
LIBRARIES = "import trio, attrs, cattrs, msgspec"
FIRST_USE_ONLY = (
    "click",
    "h11",
    "httpx",
    "hypothesis",
    "jsonschema",
    "jsonschema_rs",
    "rich",
    "trio_websocket",
)


def in_fresh_interpreter(code: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", code], stdin=subprocess.DEVNULL, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize("statement", ["import mcp_trio", SERVER])
def test_heavy_libraries_wait_for_their_first_use(statement: str) -> None:
    """A program that only speaks stdio never pays for HTTP, schemas or the command line."""
    loaded = in_fresh_interpreter(f"{statement}\nimport sys; print(*sys.modules)").split()
    assert not set(FIRST_USE_ONLY) & set(loaded)


def test_a_server_costs_less_to_import_than_what_it_stands_on() -> None:
    """Start-up stays in proportion; the exact budget is the benchmarks' business.

    The best of several runs counts, since a busy machine only ever adds time.
    """
    code = f"""
from time import perf_counter
began = perf_counter()
{LIBRARIES}
between = perf_counter()
{SERVER}
print((perf_counter() - between) / (between - began))
"""
    assert min(float(in_fresh_interpreter(code)) for _ in range(5)) < 1.0


def test_every_public_name_resolves() -> None:
    """Names are found lazily, so a name that is only announced would go unnoticed."""
    in_fresh_interpreter("import mcp_trio; [getattr(mcp_trio, name) for name in dir(mcp_trio)]")
