"""The harness finds the faults that are planted in servers which share no code with it."""

from __future__ import annotations

from functools import partial

import pytest
import trio

from mcp_trio.harness.checks import load_checks
from mcp_trio.harness.probe import Options, open_probe
from tests.harness.planted.finding import BOTH_ERAS, by_check, by_fuzz
from tests.harness.planted.plants import HEALTHY, PLANTS, Plant

#: Seconds for one answer: enough for a new process on a busy machine, short for those that hang.
HURRIED = 3.0
PLANTED = {plant.name: plant for plant in PLANTS}


def test_every_fault_has_checks_that_there_are() -> None:
    """A name that no check has would let a fault go unfound without anybody noticing."""
    known = {check.id for check in load_checks("server")}
    for plant in PLANTS:
        assert plant.checks, plant.name
        assert not set(plant.checks) - known, plant.name
        assert plant.fault


@pytest.mark.parametrize("plant", PLANTS, ids=lambda plant: plant.name)
def test_fault_is_found(plant: Plant) -> None:
    """A check that is about a fault finds it, and does not break on it."""
    found = trio.run(partial(by_check, plant, only=plant.checks, deadline=HURRIED))
    assert found.name, plant.checks
    assert "the check itself failed" not in found.message


def test_pages_without_end_do_not_fill_the_inventory() -> None:
    """A cursor that leads in a circle ends the list, or each tool would be called fifty times."""

    async def main() -> None:
        target = PLANTED["pages_without_end"].target()
        async with open_probe(target, BOTH_ERAS[0], Options()) as probe:
            assert [tool["name"] for tool in (await probe.inventory()).tools] == [
                *("add", "echo", "slow"),
                *("add", "echo", "slow"),
            ]

    trio.run(main)


def test_healthy_server_is_accused_of_nothing() -> None:
    """What the faults are planted in has none, so that findings are about them."""
    found = trio.run(by_check, HEALTHY, 120.0)
    assert not found.others


def test_fuzzing_accuses_a_healthy_server_of_nothing() -> None:
    """The same holds for what the fuzzer finds."""
    found = trio.run(by_fuzz, HEALTHY, 10.0)
    assert not found.others


@pytest.mark.parametrize("name", ["dies_of_bad_utf8", "answers_twice", "prints_in_a_tool"])
def test_fuzzing_finds_faults(name: str) -> None:
    """The fuzzer finds faults that show themselves in many cases, and calls them what they are."""
    found = trio.run(by_fuzz, PLANTED[name], 60.0)
    assert found.name, found.others
