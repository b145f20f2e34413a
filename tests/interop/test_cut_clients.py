"""The clients of others lose the connection to our server in the middle of a call.

What they make of it is theirs; that they can come back, and find everything, is ours.
"""

from __future__ import annotations

import json
import sys
from functools import partial
from typing import Any

import pytest
import trio

from tests.interop.running import cutting_proxy, free_port, running
from tests.interop.test_clients import (
    FOREIGN,
    SERVER,
    TODAY,
    TOOLS_CHANGED,
    Foreign,
    call,
    digest,
    run,
    watch,
)

JSON = Any

pytestmark = [
    pytest.mark.interop,
    pytest.mark.usefixtures("mcp_python", "fastmcp_python", "node", "npm_project"),
]
OVER_HTTP = [foreign for foreign in FOREIGN if foreign.path == "/mcp"]
LEGACY = [foreign for foreign in OVER_HTTP if not foreign.modern]
MODERN = [foreign for foreign in OVER_HTTP if foreign.modern]


async def run_cut(foreign: Foreign, steps: list[JSON], cut_after: bytes) -> list[JSON]:
    """The outcomes of steps with a connection that is cut once, after this was sent."""
    port = free_port()
    with running([sys.executable, str(SERVER)], port):
        async with cutting_proxy(port, cut_after) as proxy:
            work = partial(run, foreign, f"{proxy.origin}/mcp", steps)
            report, _ = await trio.to_thread.run_sync(work)
            assert proxy.cuts
    outcomes: list[JSON] = report["outcomes"]
    return outcomes


@pytest.mark.parametrize("foreign", LEGACY, ids=str)
async def test_resumption(foreign: Foreign) -> None:
    """A call goes on after a cut, with all of its progress; so does listening."""
    steps = [call("steps", count=12, pause=0.1), *watch("first")]
    # One cut: the Python clients give up listening at the second one.
    stepped, watched = await run_cut(foreign, steps, b"step 2")
    assert digest(stepped) == "12 steps"
    assert [progress for progress, _, _ in stepped["progress"]] == list(range(1, 13))
    assert TODAY in watched["events"]
    assert TOOLS_CHANGED & set(watched["events"])


@pytest.mark.parametrize("foreign", MODERN, ids=str)
async def test_no_resumption(foreign: Foreign) -> None:
    """A call fails, its handler is cancelled, and the next call is answered."""
    # TypeScript's client waits for its timeout, as nothing tells it that the stream has broken.
    waiting = {**call("wait"), "timeout": 2 if foreign.name == "ts-2.4" else 10}
    steps = [waiting, call("cancelled", at_least=1), call("add", a=2, b=3)]
    failed, cancelled, added = await run_cut(foreign, steps, b"notifications/progress")
    assert "result" not in failed
    assert ("timed out" in json.dumps(failed)) == (foreign.name == "ts-2.4")
    assert digest(cancelled) == "1"
    assert digest(added) == "5"
