"""Watching the parent process."""

from __future__ import annotations

import os
import signal
import subprocess
import sys

import pytest
import trio
import trio.testing

if sys.platform == "win32":
    pytest.skip("kills with signals", allow_module_level=True)

from mcp_trio.transports import parent
from mcp_trio.transports.parent import wait_parent_gone
from tests.transports._children import LIMIT, child, read_until, running

GRANDCHILD = """
    import trio.testing
    parent = os.getppid()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(wait_parent_gone, parent)
        await trio.testing.wait_all_tasks_blocked()
        os.write(1, b"%d watches\\n" % os.getpid())
    os.write(1, b"gone\\n")
"""


def test_a_killed_parent_is_noticed() -> None:
    """SIGKILL of a process is seen by its child, whose stdin somebody else keeps open."""
    middle = f"subprocess.run({child(GRANDCHILD)!r})"
    reading, writing = os.pipe()
    with running(child(middle), stdin=subprocess.PIPE, stdout=writing) as process:
        os.close(writing)
        watcher = int(read_until(reading, b" watches\n").split()[0])
        process.kill()
        try:
            assert read_until(reading, b"gone\n") == b"gone\n"
        except AssertionError:
            os.kill(watcher, signal.SIGKILL)
            raise
    os.close(reading)


async def test_a_parent_gone_before(autojump_clock: trio.testing.MockClock) -> None:
    """An id that is no longer our parent's, though in use again, returns at once."""
    with trio.fail_after(LIMIT):
        await wait_parent_gone(os.getpid())
    assert trio.current_time() == 0


async def test_a_living_parent_is_waited_for_cancellably() -> None:
    """While the parent lives nothing returns, and cancelling leaves no descriptor."""
    before = os.listdir("/dev/fd")
    with trio.move_on_after(0.05) as scope:
        await wait_parent_gone(os.getppid())
    assert scope.cancelled_caught
    assert os.listdir("/dev/fd") == before


async def test_without_pidfd_the_parent_is_asked_for(
    autojump_clock: trio.testing.MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Old kernels, sandboxes and other systems: noticed within a second."""
    monkeypatch.setattr(parent, "_open_pidfd", lambda pid: None)
    monkeypatch.setattr(os, "getppid", lambda: 77 if trio.current_time() < 9.5 else 1)
    await wait_parent_gone(os.getppid())
    assert 9.5 <= trio.current_time() <= 10.5
