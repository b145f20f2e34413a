"""Runs of checks: what a check raises becomes its outcome, and nothing ends the run."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import attrs
import pytest
import trio

from mcp_trio.demo import server
from mcp_trio.exceptions import TransportError
from mcp_trio.harness.checks import check
from mcp_trio.harness.exchange import Exchange
from mcp_trio.harness.model import Check, Failed, Late, NotApplicable
from mcp_trio.harness.probe import Options, ServerProbe
from mcp_trio.harness.runner import check_server
from mcp_trio.harness.targets import ServerTarget, server_target
from mcp_trio.harness.wires import Wire


def asking(id: str, raises: BaseException | None, *requirements: str) -> Check:
    """A check that raises something, or passes."""

    @check(id, *requirements, meaning="A check of this test.")
    async def found(_probe: ServerProbe) -> None:
        await trio.lowlevel.checkpoint()
        if raises is not None:
            raise raises

    return found


@pytest.mark.parametrize(
    ("raises", "verdict", "said"),
    [
        (None, "passed", ""),
        (NotApplicable("nothing there"), "not applicable", "nothing there"),
        (Failed("wrong id"), "failed", "wrong id"),
        (Failed("no title", requirement="tools-5"), "warned", "no title"),
        (ZeroDivisionError("x"), "not applicable", "the check itself failed: ZeroDivisionError: x"),
        (OSError("no route"), "failed", "cannot be reached any more: no route"),
    ],
)
async def test_what_a_check_raises(
    raises: BaseException | None, verdict: str, said: str, autojump_clock: object
) -> None:
    """Each way in which a check may end has its verdict, and none of them ends the run."""
    checks = [asking("first", raises, "base-6", "tools-5"), asking("second", None)]
    target = server_target(server, "demo")
    report = await check_server(target, checks, revisions=["2026-07-28"])
    first, second = report.outcomes
    assert first.verdict == verdict
    assert said in first.message
    assert second.verdict == "passed"
    assert report.mistakes == ((first,) if isinstance(raises, ZeroDivisionError) else ())
    assert len(report.findings) == (verdict in ("failed", "warned"))


async def test_a_check_that_hangs(autojump_clock: object) -> None:
    """A check has a deadline of its own."""

    @check("hangs", meaning="A check of this test.")
    async def hangs(_probe: ServerProbe) -> None:
        await trio.sleep_forever()

    report = await check_server(server_target(server, "demo"), [hangs], revisions=["2025-11-25"])
    assert report.outcomes[0].message == "the check did not come to an end"


@attrs.define
class _Mortal(ServerTarget):
    """The demo server, until it is dead."""

    name: str = "mortal"
    words: str = "mortal"
    transport: str = "memory"  # type: ignore[assignment]  # a literal, which attrs widens
    dead: bool = False

    @asynccontextmanager
    async def open_wire(self, exchange: Exchange) -> AsyncIterator[Wire]:
        if self.dead:
            raise TransportError("connection refused")
        async with server_target(server, "demo").open_wire(exchange) as wire:
            yield wire

    def for_client(self) -> str:
        raise AssertionError("not asked for here")


async def test_a_target_that_dies_is_one_finding(autojump_clock: object) -> None:
    """Who kills a server is told so; the checks after that are not failures of their own."""
    target = _Mortal()

    @check("kills", "base-6", meaning="A check of this test.")
    async def kills(_probe: ServerProbe) -> None:
        target.dead = True
        raise Failed("no answer")

    checks = [asking("before", None), kills, asking("after", Failed("no answer"), "base-6")]
    report = await check_server(target, checks, revisions=["2026-07-28"], options=Options(), jobs=1)
    assert [outcome.verdict for outcome in report.outcomes] == [
        "passed",
        "failed",
        "not applicable",
    ]
    assert report.outcomes[-1].message == "the server is gone since kills"
    assert len(report.findings) == 1


@pytest.mark.parametrize(("comes", "verdict"), [(True, "passed"), (False, "failed")])
async def test_what_came_too_late_is_asked_again(
    comes: bool, verdict: str, autojump_clock: object
) -> None:
    """A busy computer breaks no sentence: who is late is given more time, at the end and alone."""
    asked: list[float] = []

    @check("slow", "base-6", meaning="A check of this test.")
    async def slow(probe: ServerProbe) -> None:
        asked.append(probe.options.deadline)
        if len(asked) == 1 or not comes:
            raise Late("no answer within 5 s")

    checks = [slow, asking("other", None)]
    report = await check_server(server_target(server, "demo"), checks, revisions=["2026-07-28"])
    assert asked == [5.0, 20.0]
    assert [outcome.verdict for outcome in report.outcomes] == [verdict, "passed"]
