"""The rate limit: a token bucket for each caller, in virtual time."""

from typing import Any

import pytest
import trio
from hypothesis import given, settings
from hypothesis import strategies as st

from mcp_trio.protocol.errors import MCPError
from mcp_trio.server import middleware
from mcp_trio.server.context import Context
from mcp_trio.server.middleware import RATE_LIMITED, RateLimit
from tests.server.fakes import make_context


async def proceed(params: dict[str, Any]) -> dict[str, Any]:
    await trio.lowlevel.checkpoint()
    return {"saw": params}


async def refused(limit: RateLimit, ctx: Context) -> float | None:
    """How long the limit says to wait; None if the request passes."""
    try:
        assert await limit(ctx, {"a": 1}, proceed) == {"saw": {"a": 1}}
    except MCPError as exc:
        return float(exc.data["retryAfter"]) if exc.code == RATE_LIMITED else -1.0
    return None


async def test_a_burst_passes_and_then_the_rate(autojump_clock: trio.testing.MockClock) -> None:
    """Protects both numbers, and what the refusal promises."""
    limit, ctx = RateLimit(2, burst=3), make_context(principal="alice")
    assert [await refused(limit, ctx) for _ in range(3)] == [None] * 3
    wait = await refused(limit, ctx)
    assert wait == pytest.approx(0.5)
    await trio.sleep(0.5 + 1e-9)
    assert await refused(limit, ctx) is None
    assert await refused(limit, ctx) is not None
    await trio.sleep(100)
    assert [await refused(limit, ctx) is None for _ in range(4)] == [True] * 3 + [False]


async def test_callers_have_buckets_of_their_own(autojump_clock: trio.testing.MockClock) -> None:
    """Protects one user from another; without a name it is the session that counts."""
    limit = RateLimit(1, burst=1)
    anonymous = make_context()
    for ctx in (make_context(principal="a"), make_context(principal="b"), anonymous):
        assert await refused(limit, ctx) is None
        assert await refused(limit, ctx) is not None
    assert await refused(limit, make_context(principal="a")) is not None  # another connection
    assert await refused(limit, make_context()) is None  # another session
    assert await refused(limit, make_context(session=anonymous.info.session)) is not None


async def test_a_key_decides_who_shares(autojump_clock: trio.testing.MockClock) -> None:
    """Protects servers without sessions: all callers together can be limited, too."""
    limit = RateLimit(1, burst=1, key=lambda ctx: None)
    assert await refused(limit, make_context()) is None
    assert await refused(limit, make_context()) is not None


def test_a_limit_outlives_a_run_of_trio() -> None:
    """The next run's clock may show any time; a server that is served again refuses nobody."""
    limit = RateLimit(1, burst=2, key=lambda ctx: None)

    async def burst() -> list[bool]:
        return [await refused(limit, make_context()) is None for _ in range(3)]

    for start in (1e6, 10.0, 1e4, 0.0):
        clock = trio.testing.MockClock()
        clock.jump(start)
        assert trio.run(burst, clock=clock) == [True, True, False]


async def test_only_some_methods_count(autojump_clock: trio.testing.MockClock) -> None:
    """Protects ping, by which a client finds out whether the server is alive."""
    everything, calls = RateLimit(1, burst=1), RateLimit(1, burst=1, methods={"tools/call"})
    for _ in range(3):
        assert await refused(everything, make_context("ping", version="2025-06-18")) is None
        assert await refused(calls, make_context("tools/list", principal="a")) is None
    assert await refused(calls, make_context("tools/call", principal="a")) is None
    assert await refused(calls, make_context("tools/call", principal="a")) is not None


async def test_buckets_are_forgotten(
    autojump_clock: trio.testing.MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Protects memory: callers who come once are not remembered for ever."""
    monkeypatch.setattr(middleware, "MAX_BUCKETS", 5)
    limit = RateLimit(1, burst=1)
    for n in range(20):
        assert await refused(limit, make_context(principal=str(n))) is None
    assert len(limit._buckets) == 5
    await trio.sleep(10)
    assert await refused(limit, make_context(principal="new")) is None
    assert len(limit._buckets) == 1


@pytest.mark.parametrize(("rate", "burst"), [(0, 1), (-1, 1), (1, 0), (float("inf"), 1)])
def test_a_limit_that_is_none_is_refused(rate: float, burst: int) -> None:
    """Protects against a limit that lets nothing through, or everything."""
    with pytest.raises(ValueError, match="rate must be above 0"):
        RateLimit(rate, burst)


@settings(max_examples=60, deadline=None)
@given(
    st.floats(0.1, 100),
    st.integers(1, 20),
    st.lists(st.floats(0, 5), max_size=60),
)
def test_no_window_lets_more_through(rate: float, burst: int, gaps: list[float]) -> None:
    """Protects the limit itself: in any time t at most burst + rate * t requests pass."""
    limit, now, passed = RateLimit(rate, burst), 0.0, []
    for gap in gaps:
        now += gap
        if limit._take("caller", now) == 0:
            passed.append(now)
    for first, start in enumerate(passed):
        for last, end in enumerate(passed[first:], first):
            assert last - first + 1 <= burst + rate * (end - start) + 1e-6
