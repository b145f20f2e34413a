"""The legacy handshake, and what keeps to what it agreed on: checks."""

from __future__ import annotations

from typing import Final

import trio

from mcp_trio.harness.aftermath import FRAMED, survives
from mcp_trio.harness.checks import LEGACY, check
from mcp_trio.harness.exercise import Heard, as_object, exercise
from mcp_trio.harness.model import Failed
from mcp_trio.harness.probe import ServerProbe, expect
from mcp_trio.harness.session import CLIENT_INFO, START_TIME, Reply, Session, shake_hands
from mcp_trio.wire.jsonrpc import JSON, JSONObject

QUIET_TIME: Final = 0.3  # seconds in which a server that speaks too soon does so


async def initialize(session: Session, version: JSON = None, **changes: JSON) -> Reply:
    """Send `initialize`, for the session's revision or another one, and wait for the answer."""
    params: JSONObject = {
        "protocolVersion": session.revision if version is None else version,
        "capabilities": session.capabilities,
        "clientInfo": CLIENT_INFO,
        **changes,
    }
    return await session.request("initialize", params, timeout=START_TIME)


# initialize


@check(
    "initialize-tells-who-answers",
    "lifecycle-3",
    meaning="The answer to initialize has the server's version, capabilities, name and version.",
    revisions=LEGACY,
)
async def initialize_tells_who_answers(probe: ServerProbe) -> None:
    session = await probe.session()
    hello = session.hello
    capabilities, info = hello.get("capabilities"), as_object(hello.get("serverInfo"))
    expect(isinstance(capabilities, dict), f"the server's capabilities are {capabilities!r}")
    for key in ("name", "version"):
        expect(isinstance(info.get(key), str), f"serverInfo has the {key} {info.get(key)!r}")
    for name, value in as_object(capabilities).items():
        expect(isinstance(value, dict), f"the capability {name} is {value!r}, and no object")


@check(
    "offered-version-is-served",
    "lifecycle-9",
    meaning="The version that the server offers instead of an unknown one is one that it serves.",
    revisions=LEGACY,
)
async def offered_version_is_served(probe: ServerProbe) -> None:
    offered = await _offered_for(probe, "1999-12-31")
    if offered is None:  # it refuses, which is another check's business
        offered = probe.revision
    async with probe.open_session(handshake=False) as session:
        spoken = (await initialize(session, offered)).expect_result().get("protocolVersion")
    expect(spoken == offered, f"asked for {offered}, which it offers, it answers {spoken}")


@check(
    "unknown-version-gets-another",
    "lifecycle-10",
    "lifecycle-16",
    meaning="initialize for an unknown version is answered with another one, or with an error.",
    revisions=LEGACY,
)
async def unknown_version_gets_another(probe: ServerProbe) -> None:
    for wanted in ("2099-12-31", "harness"):
        offered = await _offered_for(probe, wanted)
        expect(offered != wanted, f"the server claims to speak {wanted}")


async def _offered_for(probe: ServerProbe, wanted: str) -> str | None:
    """The version that `initialize` for another one is answered with; None for an error."""
    async with probe.open_session(handshake=False) as session:
        reply = await initialize(session, wanted)
        if "error" in reply.raw:
            return None
        offered = reply.expect_result("lifecycle-10").get("protocolVersion")
    if not isinstance(offered, str):
        raise Failed(f"initialize for {wanted} is answered with the version {offered!r}")
    return offered


@check(
    "newest-version-is-offered",
    "lifecycle-11",
    meaning="initialize for a future version is answered with the newest one that is served.",
    revisions=LEGACY[-1:],
)
async def newest_version_is_offered(probe: ServerProbe) -> None:
    # The newest handshake revision is spoken, or this check would not be asked in it.
    offered = await _offered_for(probe, "2099-12-31")
    expect(
        offered is None or offered >= probe.revision,
        f"the server serves {probe.revision}, but offers {offered} for a future version",
    )


@check(
    "malformed-initialize-is-survived",
    "lifecycle-16",
    meaning="After initialize without a version, or without anything, a good one still works.",
    revisions=LEGACY,
    transports=FRAMED,
)
async def malformed_initialize_is_survived(probe: ServerProbe) -> None:
    async with probe.open_session(handshake=False) as session:
        for params in (None, {}, {"protocolVersion": 7}, {"protocolVersion": None}):
            reply = await session.request("initialize", params, timeout=START_TIME)
            if "result" in reply.raw:
                return  # it takes what it gets; there is nothing left to see
        await shake_hands(session)
        await survives(session, "initialize without a version")


@check(
    "unknown-capabilities-are-ignored",
    "lifecycle-16",
    meaning="initialize works with capabilities and fields that the server does not know.",
    revisions=LEGACY,
)
async def unknown_capabilities_are_ignored(probe: ServerProbe) -> None:
    offered: JSONObject = {
        "harness": {"x": [1]},
        "experimental": {"harness": {}},
        "roots": {"listChanged": True, "harness": 1},
    }
    async with probe.open_session(capabilities=offered, handshake=False) as session:
        info = {**CLIENT_INFO, "harness": {"x": None}}
        reply = await initialize(session, clientInfo=info, harness="x")
        reply.expect_result()


@check(
    "second-initialize-is-survived",
    "base-2",
    meaning="initialize sent again is answered, by a result or an error, and the session goes on.",
    revisions=LEGACY,
    transports=FRAMED,
)
async def second_initialize_is_survived(probe: ServerProbe) -> None:
    async with probe.open_session() as session:
        await initialize(session)
        await session.notify("notifications/initialized")
        await session.notify("notifications/initialized")
        await survives(session, "a second initialize")


# Before the handshake is over


@check(
    "server-waits-for-initialize",
    "lifecycle-1",
    meaning="The server sends nothing before it has been asked to initialize.",
    revisions=LEGACY,
    transports=FRAMED,
)
async def server_waits_for_initialize(probe: ServerProbe) -> None:
    async with probe.open_session(handshake=False) as session:
        await trio.sleep(QUIET_TIME)
        early = list(session.received)
        since = len(early)
        await initialize(session)
        # A process may start slowly: whatever comes before the answer was sent before it, too.
        early += [frame for frame in session.received[since:] if frame.method is not None]
        told = [f for f in early if f.method not in ("notifications/message", "ping")]
        for frame in told:
            raise Failed(f"the server began with {frame.raw[:80].decode(errors='replace')}")


@check(
    "server-waits-for-initialized",
    "lifecycle-6",
    meaning="Until notifications/initialized has come, the server asks for nothing but pings.",
    revisions=LEGACY,
    transports=FRAMED,
)
async def server_waits_for_initialized(probe: ServerProbe) -> None:
    async with probe.open_session(handshake=False) as session:
        await initialize(session)
        await trio.sleep(QUIET_TIME)
        asked = Heard(tuple(session.received), {}, frozenset()).requests()
        for request in asked:
            method = request.get("method")
            expect(method == "ping", f"the server sent {method} before notifications/initialized")


@check(
    "ping-before-initialize",
    "ping-1",
    meaning="A ping is answered even before initialize.",
    revisions=LEGACY,
    transports=FRAMED,
)
async def ping_before_initialize(probe: ServerProbe) -> None:
    async with probe.open_session(handshake=False) as session:
        reply = await session.request("ping", timeout=START_TIME)
        reply.expect_result()


@check(
    "early-request-is-answered",
    "base-2",
    meaning="A request before initialize is answered, by a result or an error; initialize works.",
    revisions=LEGACY,
    transports=FRAMED,
)
async def early_request_is_answered(probe: ServerProbe) -> None:
    async with probe.open_session(handshake=False) as session:
        await session.request("tools/list", timeout=START_TIME)
        await session.notify("notifications/initialized")
        await shake_hands(session)
        await survives(session, "a request before initialize")


# After it

OF_CAPABILITIES: Final = {
    "roots/list": "roots",
    "sampling/createMessage": "sampling",
    "elicitation/create": "elicitation",
}


@check(
    "undeclared-capabilities-are-not-used-2025",
    "lifecycle-14",
    meaning="The server asks nothing of a client that has declared no capabilities.",
    revisions=LEGACY[2:],
)
async def undeclared_capabilities_are_not_used_2025(probe: ServerProbe) -> None:
    await _asks_only_what_was_declared(probe)


@check(
    "undeclared-capabilities-are-not-used",
    "lifecycle-18",
    meaning="The server asks nothing of a client that has declared no capabilities.",
    revisions=LEGACY[:2],
)
async def undeclared_capabilities_are_not_used(probe: ServerProbe) -> None:
    await _asks_only_what_was_declared(probe)


async def _asks_only_what_was_declared(probe: ServerProbe) -> None:
    async with probe.open_session(capabilities={}) as session:
        await exercise(probe, session)
        asked = Heard(tuple(session.received), {}, frozenset()).requests()
    for request in asked:
        method = str(request.get("method"))
        expect(
            method not in OF_CAPABILITIES,
            f"the server sent {method}, and the client has not declared "
            f"{OF_CAPABILITIES.get(method)}",
        )


NOTES_OF_CAPABILITIES: Final = {
    "notifications/tools/list_changed": ("tools", "listChanged"),
    "notifications/prompts/list_changed": ("prompts", "listChanged"),
    "notifications/resources/list_changed": ("resources", "listChanged"),
    "notifications/resources/updated": ("resources", "subscribe"),
}


@check(
    "only-declared-notifications-come-2025",
    "lifecycle-14",
    meaning="The server tells of changes only if its capabilities say that it does.",
    revisions=LEGACY[2:],
)
async def only_declared_notifications_come_2025(probe: ServerProbe) -> None:
    await _tells_only_what_was_declared(probe)


@check(
    "only-declared-notifications-come",
    "lifecycle-18",
    meaning="The server tells of changes only if its capabilities say that it does.",
    revisions=LEGACY[:2],
)
async def only_declared_notifications_come(probe: ServerProbe) -> None:
    await _tells_only_what_was_declared(probe)


async def _tells_only_what_was_declared(probe: ServerProbe) -> None:
    session = await probe.session()
    heard = await exercise(probe, session)
    declared = as_object(session.hello.get("capabilities"))
    for frame in heard.frames:
        feature, part = NOTES_OF_CAPABILITIES.get(frame.method or "", ("", ""))
        allowed = not feature or as_object(declared.get(feature)).get(part)
        expect(allowed, f"{frame.method} came, and {feature}.{part} is not declared")
