"""The benchmarks as programs: they measure what they say, and say what they measured."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager

import attrs
import pytest

from tests.benchmarks import report
from tests.benchmarks.client import Era, ServerFailed, open_raw_client
from tests.benchmarks.measure import ROOT, Effort, Opener, Sampler
from tests.benchmarks.row import Budget, Row
from tests.benchmarks.rows import ADD, CLIENT_AND_SERVER, IN_PROCESS, ROWS, SERVERS
from tests.benchmarks.run import measured, selected
from tests.benchmarks.web import Load, WebServer, has_wrk, open_web_server, rate, whole_length
from tests.benchmarks.web_rows import CONSTANT, OURS, WEB_ROWS

EFFORT = Effort(rounds=3, share=0.0)
PEERS = ("mcp", "ts-1.32", "ts-2.4")
# The others take seconds a sample, and many streams take seconds to open.
BRIEF_WEB_ROWS = [row for row in WEB_ROWS if row.unit == "ms" and row.name != "listen-1000"]


def sampling(*values: float) -> Opener:
    @contextmanager
    def open_sampler(effort: Effort) -> Iterator[Sampler]:
        yield iter(values).__next__

    return open_sampler


@contextmanager
def broken(effort: Effort) -> Iterator[Sampler]:
    raise ServerFailed("no such server")
    yield


@pytest.mark.parametrize("era", ["legacy", "modern"])
def test_our_server_is_measured(era: Era) -> None:
    """The benchmarked server stays a server that works, in both eras."""
    with open_raw_client(SERVERS["ours"](), era) as client:
        client.timed_calls(ADD, count=50, window=20, check="3".__eq__)


@pytest.mark.parametrize("row", [CLIENT_AND_SERVER, IN_PROCESS], ids=lambda row: row.name)
def test_our_client_is_measured(row: Row) -> None:
    """The timed programs stay programs that work."""
    ours = attrs.evolve(row, contestants={"ours": row.contestants["ours"]})
    assert not measured(ours, EFFORT).failures


@pytest.mark.parametrize("row", BRIEF_WEB_ROWS, ids=lambda row: row.name)
def test_our_web_server_is_measured(row: Row) -> None:
    """What listens is measured to its end, with no more of it than takes a moment."""
    contestants = {name: row.contestants[name] for name in row.contestants if name not in PEERS}
    once = attrs.evolve(EFFORT, rounds=1)
    assert not measured(attrs.evolve(row, contestants=contestants), once).failures


@pytest.fixture
def constant() -> Iterator[WebServer]:
    with open_web_server(CONSTANT(), ROOT) as server:
        yield server


@pytest.mark.parametrize("wrk", [True, False])
def test_load_counts_answers(
    constant: WebServer, wrk: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both clients make the calls that they count, and are not slow themselves."""
    if wrk and not has_wrk():
        pytest.skip("wrk is not installed")
    monkeypatch.setattr("tests.benchmarks.web.has_wrk", lambda: wrk)
    assert rate(constant, Load("modern"), 1) > 100


def test_load_wants_right_answers() -> None:
    """A server that refuses all requests must not come out ahead."""
    with open_web_server(OURS(), ROOT) as server, pytest.raises(ServerFailed, match="no result"):
        rate(server, Load("legacy", session="expired"), 1)


@pytest.mark.parametrize(
    "response",
    [
        b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n{...}",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\n{...}\r\n0\r\n\r\n",
    ],
)
def test_responses_are_told_apart(response: bytes) -> None:
    """A response counts when all of it has come, and ends where the next one begins."""
    assert whole_length(response + response) == len(response)
    assert all(whole_length(response[:length]) is None for length in range(len(response)))


def test_raw_client_counts_only_right_answers() -> None:
    """A server that answers fast and wrong must not come out ahead."""
    with open_raw_client(SERVERS["bare"]()) as client:
        client.timed_calls(ADD, count=100, window=7, check="3".__eq__)
        with pytest.raises(ServerFailed, match="wrong result"):
            client.timed_calls(ADD, count=1, window=1, check="4".__eq__)


def test_raw_client_survives_a_server_that_writes_before_it_reads() -> None:
    """With more requests waiting than a pipe holds, the client has to read while it writes."""
    with open_raw_client(SERVERS["bare"]()) as client:
        client.timed_calls(("echo", {"text": "x" * 100_000}), count=30, window=30)


def test_raw_client_reports_last_words() -> None:
    """A server that cannot start shows why in the table."""
    argv = [sys.executable, "-c", "import sys; sys.exit('no licence')"]
    with pytest.raises(ServerFailed, match="status 1: no licence"), open_raw_client(argv):
        pass


@pytest.mark.parametrize(
    ("unit", "ours", "budget", "ratio", "met"),
    [
        ("calls/s", 90.0, Budget("at least", 1.0, ("a", "b")), 0.9, False),
        ("calls/s", 100.0, Budget("at least", 1.0, ("a", "b")), 1.0, True),
        ("ms", 10.0, Budget("at most", 0.15, ("a", "b")), 0.2, False),
        ("ms", 7.0, Budget("at most", 0.15, ("a", "b")), 0.14, True),
        ("MB", 41.0, Budget("at most", 40), 41.0, False),
    ],
)
def test_budget_compares_with_the_best(
    unit: str, ours: float, budget: Budget, ratio: float, met: bool
) -> None:
    """Best is the highest rate and the lowest cost; medians keep one slow round out."""
    row = Row(
        "r",
        "a row",
        unit,  # type: ignore[arg-type]  # parametrize has no literals
        {
            "ours": sampling(ours, ours, 1e9),
            "a": sampling(50, 50, 50),
            "b": sampling(100, 100, 100),
        },
        (budget,),
    )
    (verdict,) = measured(row, EFFORT).verdicts()
    assert verdict is not None
    assert verdict.ratio == pytest.approx(ratio)
    assert verdict.met is met


def test_missing_contestant_leaves_the_others() -> None:
    """One implementation that cannot be measured does not spoil the run."""
    row = Row("r", "a row", "ms", {"ours": broken, "a": sampling(1, 2, 3)}, (Budget("at most", 9),))
    outcome = measured(row, EFFORT)
    assert outcome.medians == {"a": 2}
    assert outcome.verdicts() == [None]
    assert "no such server" in report.numbers(outcome)
    assert report.as_json([outcome], EFFORT)["rows"][0]["failures"] == {"ours": "no such server"}


def test_rows_have_names_of_their_own() -> None:
    """`--rows` and the JSON find a row by its name."""
    assert len({row.name for row in ROWS}) == len(ROWS)
    assert selected(ROWS, ["wire"]) == [row for row in ROWS if row.name.startswith("wire")]
    for row in ROWS:
        for budget in row.budgets:
            assert {budget.subject, *budget.of} <= set(row.contestants)
