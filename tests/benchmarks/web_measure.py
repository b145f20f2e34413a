"""Ways of measuring over HTTP and WebSocket: as in `measure`, with a server that listens."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from tests.benchmarks.measure import ROOT, Argv, Effort, Opener, Sampler, open_driver
from tests.benchmarks.web import (
    Load,
    listening,
    open_web_server,
    rate,
    start_sessions,
    streamed_seconds,
)

SECONDS = 1
"""The length of a sample where a rate is measured; wrk knows whole seconds only."""


def requests_per_second(server: Argv, load: Load) -> Opener:
    """Calls a second over many connections."""

    @contextmanager
    def open_sampler(effort: Effort) -> Iterator[Sampler]:
        with open_web_server(server(), ROOT) as web:
            rate(web, load, 2 * SECONDS)
            yield lambda: rate(web, load, SECONDS)

    return open_sampler


def requests_per_second_beside(server: Argv, sessions: int) -> Opener:
    """Calls a second in one legacy session, beside others in which nothing happens."""

    @contextmanager
    def open_sampler(effort: Effort) -> Iterator[Sampler]:
        with open_web_server(server(), ROOT) as web:
            *_, last = start_sessions(web, 1 + effort.calls(sessions))
            load = Load("legacy", session=last)
            rate(web, load, SECONDS)
            yield lambda: rate(web, load, SECONDS)

    return open_sampler


def milliseconds_to_tell(server: Argv, streams: int) -> Opener:
    """Milliseconds from a change to the last of so many streams that listen for it."""

    @contextmanager
    def open_sampler(effort: Effort) -> Iterator[Sampler]:
        count = effort.calls(max(1, 50 // streams))
        with open_web_server(server(), ROOT) as web, listening(web, streams) as change:
            change()
            yield lambda: sum(change() for _ in range(count)) / count * 1000

    return open_sampler


def milliseconds_to_stream(server: Argv, megabytes: int, piece: int) -> Opener:
    """Milliseconds that so many megabytes take through one stream, in pieces of so many bytes."""

    @contextmanager
    def open_sampler(effort: Effort) -> Iterator[Sampler]:
        pieces = effort.calls(megabytes * 1_000_000 // piece)
        scale = megabytes * 1_000_000 / (pieces * piece) * 1000
        with open_web_server(server(), ROOT) as web:
            streamed_seconds(web, pieces, piece)
            yield lambda: streamed_seconds(web, pieces, piece) * scale

    return open_sampler


def driven(
    server: Argv, driver: Argv, calls: int, url: str, reading: Callable[[float, int], float]
) -> Opener:
    """What a program of `drivers` says of so many calls to a server; `url` takes its port.

    `reading` makes a number in the row's unit of the answer and of the number of calls.
    """

    @contextmanager
    def open_sampler(effort: Effort) -> Iterator[Sampler]:
        count = effort.calls(calls, window=50)
        with (
            open_web_server(server(), ROOT) as web,
            open_driver([*driver(), url.format(web.port)]) as answer,
        ):
            answer(count)
            yield lambda: reading(answer(count), count)

    return open_sampler


def milliseconds_a_call(total: float, count: int) -> float:
    return total / count * 1000


def milliseconds(seconds: float, _count: int) -> float:
    return seconds * 1000


def as_it_is(value: float, _count: int) -> float:
    return value
