"""What is measured over HTTP and WebSocket, and what is asked of it; see `rows`."""

from __future__ import annotations

from tests.benchmarks.measure import Argv, mcp_python, node_script, our_python
from tests.benchmarks.row import Budget, Row
from tests.benchmarks.web import Load
from tests.benchmarks.web_measure import (
    as_it_is,
    driven,
    milliseconds,
    milliseconds_a_call,
    milliseconds_to_stream,
    milliseconds_to_tell,
    requests_per_second,
    requests_per_second_beside,
)


def _with_argument(argv: Argv, argument: str) -> Argv:
    return lambda: [*argv(), argument]


OURS = our_python("servers.ours", "http")
MCP = mcp_python("servers.mcp_sdk", "http")
TS_2 = _with_argument(node_script("ts_sdk_v2.mjs"), "http")
CONSTANT = our_python("servers.h11_constant")
BOTH_ERAS = {"ours": OURS, "mcp": MCP, "ts-2.4": TS_2}

MODERN = Row(
    "http-modern",
    "HTTP server, modern, 32 connections",
    "calls/s",
    {
        **{name: requests_per_second(argv, Load("modern")) for name, argv in BOTH_ERAS.items()},
        "h11 constant": requests_per_second(CONSTANT, Load("modern")),
    },
    (Budget("at least", 5.5, ("mcp",)), Budget("at least", 1.6, ("ts-2.4",))),
)

STATELESS = Row(
    "http-stateless",
    "HTTP server, legacy stateless, 32 connections",
    "calls/s",
    {
        name: requests_per_second(argv, Load("legacy"))
        for name, argv in {
            "ours": our_python("servers.ours", "stateless"),
            "mcp": mcp_python("servers.mcp_sdk", "stateless"),
            "ts-1.32": _with_argument(node_script("ts_sdk_v1.mjs"), "stateless"),
        }.items()
    },
    (Budget("at least", 3.0, ("ts-1.32",)),),
)

IDLE_SESSIONS = Row(
    "http-sessions",
    "HTTP server, legacy, beside so many idle sessions",
    "calls/s",
    {f"{count:,}": requests_per_second_beside(OURS, count) for count in (1, 100, 10_000)},
    # It is not to fall; the rest is the machine's noise.
    (Budget("at least", 0.9, ("1",), subject="10,000"),),
)

HTTP = "http://127.0.0.1:{}/mcp"
WEBSOCKET = "ws://127.0.0.1:{}"

CLIENT_AND_SERVER = Row(
    "http-client-server",
    "HTTP client and server, one call at a time",
    "ms",
    {
        name: driven(server, driver, 300, HTTP, milliseconds_a_call)
        for name, server, driver in (
            ("ours", OURS, our_python("drivers.ours")),
            ("mcp", MCP, mcp_python("drivers.mcp_sdk")),
            ("httpx alone", CONSTANT, our_python("drivers.httpx_alone")),
        )
    },
    (Budget("at most", 0.3, ("mcp",)),),
)


def _beside_http(statistic: str, title: str) -> Row:
    driver = our_python("drivers.links", statistic)
    reading = as_it_is if statistic == "rate" else milliseconds
    return Row(
        f"websocket-{statistic}",
        f"HTTP and WebSocket, client and server: {title}",
        "calls/s" if statistic == "rate" else "ms",
        {
            "http": driven(OURS, driver, 500, HTTP, reading),
            "websocket": driven(
                our_python("servers.ours", "websocket"), driver, 500, WEBSOCKET, reading
            ),
        },
    )


def _fan_out(streams: int) -> Row:
    return Row(
        f"listen-{streams}",
        f"a change, until {streams:,} listening streams have heard of it",
        "ms",
        {name: milliseconds_to_tell(argv, streams) for name, argv in BOTH_ERAS.items()},
    )


ONE_STREAM = Row(
    "stream-100mb",
    "100 MB through one stream of events",
    "ms",
    {name: milliseconds_to_stream(argv, 100, 100_000) for name, argv in BOTH_ERAS.items()},
)

WEB_ROWS: tuple[Row, ...] = (
    MODERN,
    STATELESS,
    IDLE_SESSIONS,
    CLIENT_AND_SERVER,
    _beside_http("p50", "latency"),
    _beside_http("p99", "latency of the slowest in 100"),
    _beside_http("rate", "32 calls in flight"),
    *(_fan_out(streams) for streams in (1, 10, 100, 1000)),
    ONE_STREAM,
)
