"""What is measured, and what is asked of it: the table that `python -m tests.benchmarks` works off.

A row names its contestants and how each is measured; its budgets compare one contestant with
others. The budgets are ratios between numbers of one run wherever there is something to compare
with, since absolute numbers say more about the machine than about the program.
"""

from __future__ import annotations

from tests.benchmarks.client import Call, Era
from tests.benchmarks.measure import (
    Argv,
    calls_per_second,
    driver_milliseconds,
    idle_megabytes,
    import_milliseconds,
    mcp_python,
    milliseconds_per_result,
    node_script,
    our_python,
    program_output,
)
from tests.benchmarks.row import Budget, Row
from tests.benchmarks.web_rows import WEB_ROWS

SERVERS: dict[str, Argv] = {
    "ours": our_python("servers.ours"),
    "mcp": mcp_python("servers.mcp_sdk"),
    "ts-1.32": node_script("ts_sdk_v1.mjs"),
    "ts-2.4": node_script("ts_sdk_v2.mjs"),
    "bare": our_python("servers.bare_echo"),
}
MODERN_SERVERS = ("ours", "mcp", "ts-2.4")
TYPESCRIPT = ("ts-1.32", "ts-2.4")

ADD: Call = ("add", {"a": 1, "b": 2})
MEGABYTE = 1_000_000


def _stdio_rate(window: int, era: Era = "legacy") -> Row:
    names = SERVERS if era == "legacy" else MODERN_SERVERS
    anchors = tuple(name for name in TYPESCRIPT if name in names)
    in_flight = "one call at a time" if window == 1 else f"{window:,} calls in flight"
    return Row(
        f"stdio-{window}" if era == "legacy" else f"stdio-{window}-{era}",
        f"stdio server, {in_flight}" + (f", {era}" if era == "modern" else ""),
        "calls/s",
        {name: calls_per_second(SERVERS[name], ADD, window, era, 2000) for name in names},
        (Budget("at least", 1.0, anchors),) if window in (1, 32) else (),
    )


def _result_size(label: str, size: int, calls: int) -> Row:
    call: Call = ("blob", {"size": size})
    return Row(
        f"result-{label.lower().replace(' ', '')}",
        f"stdio server, a result of {label}",
        "ms",
        {name: milliseconds_per_result(argv, call, size, calls) for name, argv in SERVERS.items()},
    )


ECHO = Row(
    "echo-1mb",
    "stdio server, echo of a 1 MB string",
    "ms",
    {
        name: milliseconds_per_result(argv, ("echo", {"text": "x" * MEGABYTE}), MEGABYTE, 50)
        for name, argv in SERVERS.items()
    },
    (Budget("at most", 0.15, ("mcp",)),),
)

CLIENT_AND_SERVER = Row(
    "client-server",
    "stdio client and server, one call at a time",
    "ms",
    {
        "ours": driver_milliseconds(1000, our_python("drivers.ours", "stdio"), SERVERS["ours"]),
        "mcp": driver_milliseconds(1000, mcp_python("drivers.mcp_sdk", "stdio"), SERVERS["mcp"]),
    },
    (Budget("at most", 0.15, ("mcp",)),),
)

IN_PROCESS = Row(
    "in-process",
    "client and server in one process, one call at a time",
    "ms",
    {
        "ours": driver_milliseconds(1000, our_python("drivers.ours", "memory")),
        "mcp session": driver_milliseconds(1000, mcp_python("drivers.mcp_sdk", "memory-legacy")),
        "mcp direct": driver_milliseconds(1000, mcp_python("drivers.mcp_sdk", "memory")),
    },
)

DEPENDENCIES = "import trio, attrs, cattrs, msgspec"
OURS = "from mcp_trio import Server; Server('x')"

IMPORT = Row(
    "import",
    'from mcp_trio import Server; Server("x")',
    "ms",
    {
        # What we add to the libraries we are made of; then what a user waits for in all.
        "ours": import_milliseconds(our_python, OURS, after=DEPENDENCIES),
        "ours, all of it": import_milliseconds(our_python, OURS),
        "libraries": import_milliseconds(our_python, DEPENDENCIES),
        "mcp": import_milliseconds(mcp_python, "import mcp"),
    },
    (Budget("at most", 100.0),),
)

MEMORY = Row(
    "memory",
    "idle stdio server, resident memory",
    "MB",
    {name: idle_megabytes(argv) for name, argv in SERVERS.items()},
    (Budget("at most", 40.0),),
)

LINES = (16, 32, 64)

WIRE_TIME = Row(
    "wire-time",
    "one line of ASCII text fed to wire in 4 KB pieces",
    "ms",
    {
        f"{size} MB": program_output(our_python("drivers.wire", str(size), "seconds"), 1000)
        for size in LINES
    },
    # Four times the line is four times the work; the rest is the machine's noise.
    (Budget("at most", 5.0, ("16 MB",), subject="64 MB"),),
)

WIRE_PEAK = Row(
    "wire-peak",
    "most memory held for that line, decoded text included",
    "x",
    {f"{size} MB": program_output(our_python("drivers.wire", str(size), "peak")) for size in LINES},
    (Budget("at most", 3.0, subject="64 MB"),),
)

ROWS: tuple[Row, ...] = (
    *(_stdio_rate(window) for window in (1, 10, 32, 100, 1000)),
    *(_stdio_rate(window, "modern") for window in (1, 32)),
    CLIENT_AND_SERVER,
    IN_PROCESS,
    ECHO,
    *(
        _result_size(label, size, calls)
        for label, size, calls in (
            ("1 KB", 1_000, 1000),
            ("10 KB", 10_000, 1000),
            ("100 KB", 100_000, 300),
            ("1 MB", MEGABYTE, 50),
            ("10 MB", 10 * MEGABYTE, 5),
        )
    ),
    IMPORT,
    MEMORY,
    WIRE_TIME,
    WIRE_PEAK,
    *WEB_ROWS,
)
