"""The context of a handler: who asks, progress and log messages by the rules of each revision."""

import math
from typing import Any, cast

import pytest
import trio

from mcp_trio.protocol.revisions import LATEST, REVISIONS, is_modern
from mcp_trio.server.context import LOG_LEVELS
from tests.server.fakes import FakePeer, make_context, peer_of


async def test_it_says_who_asks() -> None:
    """Protects the public attributes that handlers read."""
    ctx = make_context(
        "tools/call",
        {"name": "t", "_meta": {"acme/x": 1}},
        principal="alice",
        request_id="7",
        capabilities={"elicitation": {}, "acme": {}},
    )
    assert (ctx.request_id, ctx.method, ctx.principal) == ("7", "tools/call", "alice")
    assert ctx.protocol_version == LATEST
    assert ctx.meta == {"acme/x": 1}
    assert ctx.client_info is not None
    assert ctx.client_info.name == "tester"
    assert ctx.client_capabilities.elicitation is not None
    assert ctx.client_capabilities.sampling is None
    assert ctx.client_capabilities.extra == {"acme": {}}


# Progress


async def test_progress_goes_to_its_token() -> None:
    """Protects the notification's form; what was not given is absent."""
    ctx = make_context(token="t")
    await ctx.report_progress(1)
    await ctx.report_progress(2.5, total=4, message="half")
    assert peer_of(ctx).sent == [
        ("notifications/progress", {"progressToken": "t", "progress": 1}),
        (
            "notifications/progress",
            {"progressToken": "t", "progress": 2.5, "total": 4, "message": "half"},
        ),
    ]


@pytest.mark.parametrize("token", [0, ""])
async def test_falsy_tokens_are_tokens(token: Any) -> None:
    """Protects pitfall 27: 0 is not "no token"."""
    ctx = make_context(token=token)
    await ctx.report_progress(0)
    assert peer_of(ctx).sent == [
        ("notifications/progress", {"progressToken": token, "progress": 0})
    ]


async def test_without_a_token_nothing_is_sent() -> None:
    """Protects clients that did not ask for progress."""
    ctx = make_context()
    await ctx.report_progress(1)
    assert peer_of(ctx).sent == []


async def test_progress_only_increases() -> None:
    """Protects the rule of the spec; tasks may overtake each other, so it is not an error."""
    ctx = make_context(token=1)
    for value in (-1, 2, 2, 1, 2.0, 3):
        await ctx.report_progress(value)
    sent = [cast(dict[str, Any], params)["progress"] for _, params in peer_of(ctx).sent]
    assert sent == [-1, 2, 3]


@pytest.mark.parametrize("token", [None, 1])
@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
async def test_progress_is_a_number(bad: float, token: Any) -> None:
    """Protects the wire from NaN, and shows the mistake also where nobody listens."""
    ctx = make_context(token=token)
    with pytest.raises(ValueError, match="progress must be a finite number"):
        await ctx.report_progress(bad)
    with pytest.raises(ValueError, match="total must be a finite number"):
        await ctx.report_progress(1, total=bad)
    assert peer_of(ctx).sent == []


@pytest.mark.parametrize("version", REVISIONS)
async def test_the_message_is_sent_where_the_revision_has_it(version: str) -> None:
    """Protects 2024-11-05 clients from a field that they do not know."""
    ctx = make_context(token=1, version=version)
    await ctx.report_progress(1, message="m")
    [(_, params)] = peer_of(ctx).sent
    assert ("message" in cast(dict[str, Any], params)) == (version != "2024-11-05")


# Log messages


@pytest.mark.parametrize("wanted", [None, *LOG_LEVELS])
async def test_modern_requests_choose_their_level(wanted: str | None) -> None:
    """Protects the rule that a modern request which names no level gets no log messages."""
    ctx = make_context(log_level=wanted)
    for level in LOG_LEVELS:
        await ctx.log(level, {"n": 1}, "lib")
    heard = [cast(dict[str, Any], params)["level"] for _, params in peer_of(ctx).sent]
    assert heard == ([] if wanted is None else list(LOG_LEVELS[LOG_LEVELS.index(wanted) :]))
    assert all(
        sent == ("notifications/message", {"level": level, "data": {"n": 1}, "logger": "lib"})
        for sent, level in zip(peer_of(ctx).sent, heard, strict=True)
    )


async def test_a_legacy_session_has_a_level() -> None:
    """Protects `logging/setLevel`, also when it comes while a request is being answered."""
    ctx = make_context(version="2025-06-18", log_level="info")
    await ctx.log("debug", 1)
    await ctx.log("info", 2)
    ctx.info.session.log_level = "error"
    await ctx.log("warning", 3)
    await ctx.log("error", 4)
    assert [cast(dict[str, Any], params)["data"] for _, params in peer_of(ctx).sent] == [2, 4]


@pytest.mark.parametrize("level", ["warn", "INFO", "", None, 3])
async def test_unknown_levels_are_refused(level: Any) -> None:
    """Protects against a message that no client can place, whether or not it would be sent."""
    with pytest.raises(ValueError, match="there is no log level"):
        await make_context().log(level, "x")


async def test_log_data_may_be_objects() -> None:
    """Protects convenience: what a tool may return, it may log."""
    ctx = make_context(log_level="debug")
    await ctx.log("info", {"at": LATEST, "who": ctx.client_info})
    [(_, params)] = peer_of(ctx).sent
    assert params is not None
    assert params["data"]["who"]["name"] == "tester"


# Lifetimes


@pytest.mark.parametrize("ended", ["answered", "cancelled"])
async def test_nothing_follows_the_answer(ended: str) -> None:
    """Protects pitfall 27: a task that outlives its request cannot send for it any more."""
    ctx = make_context(token=1, log_level="debug")
    if ended == "answered":
        ctx.incoming.answered = True
    else:
        ctx.incoming.scope.cancel()
    await ctx.report_progress(1)
    await ctx.log("error", "late")
    assert peer_of(ctx).sent == []


async def test_everything_is_a_checkpoint() -> None:
    """Protects invariant I2: also what sends nothing can be cancelled, and lets others run."""
    ctx = make_context()
    with trio.testing.assert_checkpoints():
        await ctx.report_progress(1)
    with trio.testing.assert_checkpoints():
        await ctx.log("info", "x")
    with trio.testing.assert_checkpoints():
        await ctx.elicitation_complete("id")


@pytest.mark.parametrize("version", REVISIONS)
async def test_elicitation_complete_exists_in_one_revision(version: str) -> None:
    """Protects modern and older clients from a notification that they do not know."""
    peer = FakePeer()
    ctx = make_context(version=version, peer=peer)
    ctx.incoming.answered = True  # the user may well be done after the tool
    await ctx.elicitation_complete("abc")
    expected = [("notifications/elicitation/complete", {"elicitationId": "abc"})]
    assert peer.sent == (expected if version == "2025-11-25" else [])
    assert is_modern(LATEST)
