"""The tool that finds cancellation faults has to find them."""

import os
import subprocess
import sys
from typing import Any

import pytest
import trio

from mcp_trio.testing import CancellationLeak, exhaustive_cancellation


def test_counts_the_steps_of_a_scenario_that_is_right() -> None:
    """Every step of every task is tried, and the run after the last one ends it."""

    async def scenario() -> None:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(trio.sleep, 1)
            await trio.sleep(2)

    assert exhaustive_cancellation(scenario) == exhaustive_cancellation(scenario) > 2
    assert exhaustive_cancellation(scenario, every=2) <= exhaustive_cancellation(scenario)


def test_finds_a_descriptor_that_only_one_step_leaks() -> None:
    """A leak between opening and the `try` is found, though it takes one moment to hit it."""

    async def scenario() -> None:
        read, write = os.pipe()
        await trio.lowlevel.checkpoint()
        try:
            await trio.sleep(1)
        finally:
            os.close(read)
            os.close(write)

    with pytest.raises(CancellationLeak, match="descriptors are left open"):
        exhaustive_cancellation(scenario)


def test_finds_an_exception_that_cancellation_provokes() -> None:
    """Cleaning up that fails when it is cancelled is a fault, not a cancellation."""

    async def scenario() -> None:
        try:
            await trio.sleep(1)
        except trio.Cancelled:
            raise ValueError("cleanup failed") from None

    with pytest.raises(CancellationLeak, match="cleanup failed"):
        exhaustive_cancellation(scenario)


def test_finds_swallowed_cancellation_that_hangs() -> None:
    """Code that catches `Cancelled` and waits again hangs; virtual time says so at once."""

    async def scenario() -> None:
        with trio.CancelScope(shield=True) as shield:
            try:
                await trio.sleep_until(trio.current_time() + 10_000)
            finally:
                shield.cancel()

    with pytest.raises(CancellationLeak, match="hung"):
        exhaustive_cancellation(scenario)


def test_a_scenario_that_fails_by_itself_is_not_blamed_on_the_cancellation() -> None:
    """A run that takes long, or a test that is wrong, says so, and that nothing was cancelled."""

    async def long() -> None:
        await trio.sleep(3600)

    async def wrong() -> None:
        raise AssertionError("1 is not 2")

    assert exhaustive_cancellation(long, time_limit=4000) > 0
    with pytest.raises(CancellationLeak, match=r"not cancelled yet.*after 30 seconds.*time_limit"):
        exhaustive_cancellation(long)
    with pytest.raises(CancellationLeak, match=r"not cancelled yet.*it raised .*1 is not 2"):
        exhaustive_cancellation(wrong)


def test_a_coroutine_is_no_scenario() -> None:
    """Calling the scenario instead of handing it over is the mistake that Trio's users know."""

    async def scenario() -> None: ...

    coroutine: Any = scenario()
    with pytest.raises(TypeError, match="without parentheses"):
        exhaustive_cancellation(coroutine)
    coroutine.close()


async def test_inside_of_trio_it_says_where_to_call_it() -> None:
    """From an async test it cannot work, and says where it can."""
    with pytest.raises(RuntimeError, match="from a plain test"):
        exhaustive_cancellation(trio.lowlevel.checkpoint)


def test_finds_a_child_process_that_is_left(tmp_path: object) -> None:
    """A child that outlives its scenario is a leak."""
    children: list[subprocess.Popen[bytes]] = []

    async def scenario() -> None:
        argv = [sys.executable, "-c", "input()"]
        children.append(subprocess.Popen(argv, stdin=subprocess.PIPE))  # noqa: ASYNC220
        await trio.lowlevel.checkpoint()
        stdin = children[-1].stdin
        assert stdin is not None
        stdin.close()
        children[-1].wait()

    try:
        with pytest.raises(CancellationLeak, match="are left"):
            exhaustive_cancellation(scenario, real_clock=True)
    finally:
        for child in children:
            with child:
                child.kill()


def test_runs_the_check_of_the_user_after_each_run() -> None:
    """What only the user can know is asked of the user's `check`."""
    open_things: list[str] = []

    async def scenario() -> None:
        open_things.append("thing")
        await trio.sleep(1)
        open_things.pop()

    def check() -> None:
        assert not open_things, "a thing is open"

    with pytest.raises(CancellationLeak, match="a thing is open"):
        exhaustive_cancellation(scenario, check=check)
