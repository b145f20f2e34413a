"""Reports to test reports with: made by hand, with a peer in them that means no good."""

from __future__ import annotations

import json

from mcp_trio.harness.exchange import LONGEST, Entry, Kind
from mcp_trio.harness.model import TRANSPORTS, Check, Finding, Level, Outcome, Report, Verdict
from mcp_trio.harness.requirements import load_requirements

REQUIREMENTS = load_requirements()
REVISION = "2025-11-25"
#: What a peer may send to whoever reads of it: a terminal, a browser, an XML parser.
EVIL = (
    'x\x1b[2J\x07\u202e\x00</pre></li><script>alert(1)</script><img src=x onerror="a()">]]>\ud800'
)


def first(area: str, level: str) -> str:
    """The id of some requirement that servers have to keep in `REVISION`."""
    return next(
        one.id
        for one in REQUIREMENTS.values()
        if one.area == area
        and one.level == level
        and REVISION in one.revisions
        and "server" in one.binds
    )


async def nothing(_probe: object) -> None:
    """Asks nothing."""


def made_check(id: str, *requirements: str) -> Check:
    return Check(
        id, "server", requirements, "A good peer passes.", (REVISION,), TRANSPORTS, nothing
    )


def entry(at: float, kind: Kind, message: object, label: str = "", connection: int = 1) -> Entry:
    data = message if isinstance(message, bytes) else json.dumps(message).encode()
    return Entry(at, kind, data[:LONGEST], label, connection, len(data))


EXCHANGE = (
    entry(0.001, "sent", {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}),
    entry(0.002, "stderr", EVIL.encode("utf-8", "surrogatepass")),
    entry(0.003, "received", {"jsonrpc": "2.0", "id": 1, "result": {"tools": [EVIL]}}, "POST 200"),
    entry(0.004, "sent", b"{no json \xff"),
    entry(0.005, "received", {"jsonrpc": "2.0", "id": None, "error": {"code": -32700}}),
    entry(0.006, "received", b'{"a":' * 5_000),
    entry(0.007, "note", b"the connection ended"),
)


def outcome(
    check: Check,
    verdict: Verdict,
    message: str = "",
    *,
    level: Level = "MUST",
    exchange: tuple[Entry, ...] = EXCHANGE,
) -> Outcome:
    finding = None
    if verdict in ("failed", "warned"):
        replay = f"mcp-trio check --only {check.id} --revision {REVISION} -- server '{EVIL}'"
        finding = Finding(
            check.id, check.requirements, level, REVISION, "stdio", message, replay, exchange
        )
    return Outcome(check, REVISION, "stdio", verdict, message, 0.25, finding)


def report(*outcomes: Outcome, target: str = f"server '{EVIL}'") -> Report:
    return Report(
        target=target,
        kind="check",
        role="server",
        outcomes=outcomes,
        findings=tuple(one.finding for one in outcomes if one.finding),
        facts=(("server", EVIL), ("revisions", REVISION), ("seconds", "1.0")),
    )


BROKEN_MUST = made_check("a-must", first("tools", "MUST"))
BROKEN_SHOULD = made_check("a-should", first("tools", "SHOULD"))
FREE = made_check("good-sense")
WITH_ALL = report(
    outcome(BROKEN_MUST, "failed", f"got {EVIL}"),
    outcome(BROKEN_SHOULD, "warned", "got nothing", level="SHOULD"),
    outcome(FREE, "passed"),
    outcome(made_check("elsewhere", first("prompts", "MUST")), "not applicable", f"no {EVIL}"),
)
CLEAN = report(outcome(FREE, "passed"), target="clean")
FUZZED = Report(
    target="fuzzed",
    kind="fuzz",
    role="server",
    outcomes=(),
    findings=(
        Finding(
            "still-answers", (), "SHOULD", REVISION, "http", "silence", "mcp-trio fuzz --replay f"
        ),
    ),
    facts=(("messages", "1000"),),
)
