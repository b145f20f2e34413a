"""Which revisions a server speaks: it is asked."""

from __future__ import annotations

from mcp_trio.harness.exchange import Exchange
from mcp_trio.harness.model import Failed, NotApplicable
from mcp_trio.harness.probe import Options
from mcp_trio.harness.session import CLIENT_INFO, START_TIME, open_session
from mcp_trio.harness.targets import ServerTarget
from mcp_trio.protocol.revisions import LATEST_LEGACY, LEGACY, MODERN

STDERR_LINES = 10


async def newest_of_each_era(target: ServerTarget, options: Options) -> tuple[str, ...]:
    """The newest legacy revision and the newest modern one that a server speaks, in that order.

    Raises:
        Failed: It speaks none that is known here.
        OSError, TransportError: It cannot be started or reached.
    """
    legacy, why = await _legacy(target, LATEST_LEGACY, options)
    found: list[str] = [] if legacy is None else [legacy]
    found += (await _modern(target, options))[-1:]
    if not found:
        raise Failed(f"the server speaks no revision that is known here: {why}")
    return tuple(found)


async def revisions_of(target: ServerTarget, options: Options) -> tuple[str, ...]:
    """All revisions that a server speaks, oldest first; raises as `newest_of_each_era`."""
    found: list[str] = []
    why = ""
    for revision in LEGACY:
        spoken, said = await _legacy(target, revision, options)
        why = why or said
        if spoken == revision:
            found.append(revision)
    found += await _modern(target, options)
    if not found:
        raise Failed(f"the server speaks no revision that is known here: {why}")
    return tuple(found)


async def _legacy(target: ServerTarget, wanted: str, options: Options) -> tuple[str | None, str]:
    """The revision that `initialize` is answered with, or None and why not."""
    params = {"protocolVersion": wanted, "capabilities": {}, "clientInfo": CLIENT_INFO}
    exchange = Exchange()
    try:
        async with (
            target.open_wire(exchange) as wire,
            open_session(wire, wanted, deadline=options.deadline, handshake=False) as session,
        ):
            reply = await session.request("initialize", params, timeout=START_TIME)
    except (Failed, NotApplicable) as exc:
        return None, exc.message + last_words(exchange)
    spoken = (reply.result or {}).get("protocolVersion")
    if spoken in LEGACY:
        return spoken, ""
    return None, f"initialize for {wanted} got {reply.brief()}"


def last_words(exchange: Exchange) -> str:
    """What a program wrote to its stderr, which is where those that cannot start say why."""
    lines = [
        entry.data.decode("utf-8", "replace")
        for entry in exchange.entries
        if entry.kind == "stderr"
    ]
    said = " | ".join(line.strip() for line in lines[-STDERR_LINES:] if line.strip())
    return f"; stderr: {said}" if said else ""


async def _modern(target: ServerTarget, options: Options) -> list[str]:
    """The modern revisions that `server/discover` is answered with."""
    found = []
    for revision in MODERN:
        try:
            async with (
                target.open_wire(Exchange()) as wire,
                open_session(wire, revision, deadline=options.deadline) as session,
            ):
                reply = await session.request("server/discover")
        except (Failed, NotApplicable):
            continue
        supported = (reply.result or {}).get("supportedVersions")
        if isinstance(supported, list) and revision in supported:
            found.append(revision)
    return found
