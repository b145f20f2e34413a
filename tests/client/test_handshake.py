"""Finding out which era a server belongs to, and agreeing on a revision with it."""

import json
import math
from typing import Any

import pytest
import trio
from trio.testing import MockClock

import mcp_trio
from mcp_trio.client.handshake import Handshake, Introduction, offers_of
from mcp_trio.connection import open_connection
from mcp_trio.exceptions import (
    ConnectionClosed,
    MCPError,
    ProtocolError,
    RequestTimeout,
    UnsupportedProtocolVersion,
)
from mcp_trio.incoming import IncomingRequest
from mcp_trio.protocol import meta as keys
from mcp_trio.protocol.revisions import LEGACY

from .scripted import (
    LATEST_LEGACY,
    LEGACY_START,
    MODERN,
    MODERN_START,
    NOT_FOUND,
    SILENCE,
    Answer,
    JSONObject,
    Scripted,
    Step,
    discovered,
    initialized,
    text_result,
    unsupported,
)

Steps = dict[str, Step | list[Step]]


def after(seconds: float, answer: Answer) -> Step:
    async def step(server: Scripted, request: JSONObject) -> Answer:
        await trio.sleep(seconds)
        return answer

    return step


# Modern


async def test_a_modern_server_is_asked_once(autojump_clock: MockClock) -> None:
    """One probe is all the handshake of the modern era; what it says is there to be read."""
    server = Scripted()
    async with server.connect() as client:
        assert client.protocol_version == MODERN
        assert client.server_info == mcp_trio.Implementation("scripted", "1")
        assert client.instructions == "Be kind."
        assert client.capabilities.tools is not None
    assert server.methods == ["server/discover"]


async def test_the_probe_introduces_the_client(autojump_clock: MockClock) -> None:
    """The probe is a modern request: version, capabilities and client name are in its `_meta`."""
    server = Scripted()
    info = mcp_trio.Implementation("me", "7")
    async with server.connect(client_info=info, on_sample=lambda request: "x"):
        pass
    meta = server.received[0]["params"]["_meta"]
    assert meta[keys.PROTOCOL_VERSION] == MODERN
    assert meta[keys.CLIENT_INFO] == {"name": "me", "version": "7"}
    assert meta[keys.CLIENT_CAPABILITIES] == {"sampling": {}}


@pytest.mark.parametrize("said", [{}, {"_meta": {keys.SERVER_INFO: "nonsense"}}])
async def test_a_modern_server_need_not_introduce_itself(
    said: JSONObject, autojump_clock: MockClock
) -> None:
    """serverInfo is optional in the modern era, and nothing depends on it."""
    answer = {**discovered(), "_meta": {}, **said}
    async with Scripted({"server/discover": answer}).connect() as client:
        assert client.server_info is None


async def test_a_refusal_that_lists_the_version_just_used_is_retried_once(
    autojump_clock: MockClock,
) -> None:
    """-32022 with the very version of the request: once more, and it may work."""
    server = Scripted({"server/discover": [unsupported(MODERN), discovered()]})
    async with server.connect() as client:
        assert client.protocol_version == MODERN
    assert server.methods == ["server/discover"] * 2


async def test_a_server_that_goes_on_refusing_what_it_lists_is_given_up(
    autojump_clock: MockClock,
) -> None:
    """The retry happens once: two refusals do not become a loop."""
    server = Scripted({"server/discover": unsupported(MODERN)})
    with pytest.raises(UnsupportedProtocolVersion, match="refused a version that it lists"):
        async with server.connect():
            raise AssertionError("unreachable")
    assert server.methods == ["server/discover"] * 2


@pytest.mark.parametrize("answer", [unsupported("2099-01-01"), unsupported()])
async def test_no_modern_version_in_common(answer: MCPError, autojump_clock: MockClock) -> None:
    """-32022 means a modern server: there is no falling back to initialize."""
    server = Scripted({"server/discover": answer, "initialize": initialized()})
    with pytest.raises(UnsupportedProtocolVersion, match=MODERN):
        async with server.connect():
            raise AssertionError("unreachable")
    assert server.methods == ["server/discover"]


@pytest.mark.parametrize("code", [-32020, -32021])
async def test_a_modern_server_that_refuses_us_says_why(
    code: int, autojump_clock: MockClock
) -> None:
    """Other errors that only modern servers answer with are errors, not signs of a legacy one."""
    server = Scripted({"server/discover": MCPError(code, "no"), "initialize": initialized()})
    with pytest.raises(MCPError) as caught:
        async with server.connect():
            raise AssertionError("unreachable")
    assert caught.value.code == code
    assert server.methods == ["server/discover"]


# Falling back


@pytest.mark.parametrize("code", [-32601, -32602, -32600, -32000, -32603, 0, -1])
async def test_any_other_error_means_legacy(code: int, autojump_clock: MockClock) -> None:
    """The fallback hangs on no particular code."""
    server = Scripted({"server/discover": MCPError(code, "what?")}, start=LEGACY_START)
    async with server.connect() as client:
        assert client.protocol_version == LATEST_LEGACY
    assert server.methods == ["server/discover", "initialize", "notifications/initialized"]


@pytest.mark.parametrize("answer", [{}, {"tools": []}, {"supportedVersions": "2026-07-28"}])
async def test_a_success_without_a_discover_result_means_legacy(
    answer: JSONObject, autojump_clock: MockClock
) -> None:
    """Some legacy servers answer anything with success; that makes them no modern ones."""
    server = Scripted({"server/discover": answer}, start=LEGACY_START)
    async with server.connect() as client:
        assert client.protocol_version == LATEST_LEGACY


async def test_an_unreadable_answer_to_the_probe_means_legacy(autojump_clock: MockClock) -> None:
    """A server whose answer cannot be decoded still gets its chance to initialize."""

    async def garbled(server: Scripted, request: JSONObject) -> Answer:
        await server.send(b'{"jsonrpc":"2.0","id":%d,"result":{"x":NaN}}' % request["id"])
        return SILENCE

    server = Scripted({"server/discover": garbled}, start=LEGACY_START)
    async with server.connect() as client:
        assert client.protocol_version == LATEST_LEGACY


async def test_no_answer_in_time_means_legacy(autojump_clock: MockClock) -> None:
    """A legacy server may be silent; the probe is given up in time, and not cancelled."""
    server = Scripted({"server/discover": SILENCE}, start=LEGACY_START)
    began = trio.current_time()
    async with server.connect(probe_timeout=3) as client:
        assert trio.current_time() - began == pytest.approx(3)
        assert client.protocol_version == LATEST_LEGACY
    assert server.methods == ["server/discover", "initialize", "notifications/initialized"]


async def test_a_late_answer_to_the_probe_is_dropped(autojump_clock: MockClock) -> None:
    """A server that answers probe and initialize both is legacy by then, and stays so."""
    server = Scripted({"server/discover": after(6, NOT_FOUND)}, start=LEGACY_START)
    noise: list[str] = []
    async with server.connect(on_noise=lambda line, reason: noise.append(reason)) as client:
        await trio.sleep(10)
        assert client.protocol_version == LATEST_LEGACY
        assert not client.closed
    assert noise == []


@pytest.mark.parametrize("answer", [discovered(LATEST_LEGACY), unsupported("2025-06-18")])
async def test_only_legacy_versions_supported(
    answer: JSONObject | MCPError, autojump_clock: MockClock
) -> None:
    """A server that knows the probe but lists legacy versions only is initialized."""
    server = Scripted({"server/discover": answer}, start=LEGACY_START)
    async with server.connect() as client:
        assert client.protocol_version == LATEST_LEGACY


@pytest.mark.parametrize("listed", [(MODERN,), ("2025-06-18", MODERN)])
async def test_a_slow_modern_server_is_probed_once_more(
    listed: tuple[str, ...], autojump_clock: MockClock
) -> None:
    """Its fallback initialize is answered -32022: it was modern all the time, and only slow."""
    slow = after(20, discovered())
    server = Scripted({"server/discover": slow, "initialize": unsupported(*listed)})
    async with server.connect(probe_timeout=3, connect_timeout=100) as client:
        assert client.protocol_version == MODERN
    assert server.methods == ["server/discover", "initialize", "server/discover"]


async def test_a_slow_modern_server_may_refuse_initialize_in_its_own_words(
    autojump_clock: MockClock,
) -> None:
    """Which error a modern server answers to initialize is its own choice."""
    server = Scripted({"server/discover": [SILENCE, discovered()], "initialize": NOT_FOUND})
    async with server.connect() as client:
        assert client.protocol_version == MODERN
    assert server.methods == ["server/discover", "initialize", "server/discover"]


async def test_a_server_that_refuses_everything(autojump_clock: MockClock) -> None:
    """The error that is raised is the refusal of initialize, the last thing that was tried."""
    refusal = MCPError(-32000, "not for you")
    server = Scripted({"server/discover": SILENCE, "initialize": refusal})
    with pytest.raises(MCPError, match="not for you"):
        async with server.connect():
            raise AssertionError("unreachable")
    server = Scripted({"server/discover": NOT_FOUND, "initialize": refusal})
    with pytest.raises(MCPError, match="not for you"):
        async with server.connect():
            raise AssertionError("unreachable")
    assert server.methods == ["server/discover", "initialize"]


# Legacy


@pytest.mark.parametrize("version", LEGACY)
async def test_legacy_servers_of_all_revisions(version: str, autojump_clock: MockClock) -> None:
    """The server names the revision; any of the four is fine, and batches follow from it."""
    server = Scripted({"initialize": initialized(version)}, start=LEGACY_START)
    async with server.connect() as client:
        assert client.protocol_version == version
        assert client.peer.batches_allowed == (version == "2025-03-26")
    assert server.sent("initialize")[0]["params"]["protocolVersion"] == LATEST_LEGACY


@pytest.mark.parametrize("version", LEGACY)
async def test_a_mode_that_is_a_revision_offers_only_that(
    version: str, autojump_clock: MockClock
) -> None:
    """A named revision is asked for, without a probe, and no other is accepted."""
    server = Scripted({"initialize": initialized(version)}, start=LEGACY_START)
    async with server.connect(mode=version) as client:
        assert client.protocol_version == version
    assert server.methods == ["initialize", "notifications/initialized"]
    assert server.received[0]["params"]["protocolVersion"] == version
    other = next(v for v in LEGACY if v != version)
    with pytest.raises(UnsupportedProtocolVersion, match=other):
        async with Scripted({"initialize": initialized(other)}).connect(mode=version):
            raise AssertionError("unreachable")


@pytest.mark.parametrize("version", ["2099-01-01", "1.0", MODERN])
async def test_a_legacy_server_that_answers_an_unknown_version(
    version: str, autojump_clock: MockClock
) -> None:
    """No revision in common: the client says so, tells the server nothing more, and hangs up."""
    server = Scripted({"initialize": initialized(version)}, start=LEGACY_START)
    with pytest.raises(UnsupportedProtocolVersion, match=version):
        async with server.connect():
            raise AssertionError("unreachable")
    assert server.methods == ["server/discover", "initialize"]


async def test_a_refusal_of_initialize_that_lists_versions(autojump_clock: MockClock) -> None:
    """The error of the lifecycle page: initialize again, in a version of the list."""
    refusal = MCPError(-32602, "Unsupported protocol version", {"supported": ["2024-11-05"]})
    answers: list[Step] = [refusal, initialized("2024-11-05")]
    server = Scripted({"initialize": answers}, start=LEGACY_START)
    async with server.connect() as client:
        assert client.protocol_version == "2024-11-05"
    asked = [message["params"]["protocolVersion"] for message in server.sent("initialize")]
    assert asked == [LATEST_LEGACY, "2024-11-05"]


@pytest.mark.parametrize("answer", [{}, {"protocolVersion": LATEST_LEGACY}, initialized(3)])  # type: ignore[arg-type]  # a wrong version is the test
async def test_a_malformed_answer_to_initialize(
    answer: JSONObject, autojump_clock: MockClock
) -> None:
    """What is no InitializeResult is a protocol error that says what is missing."""
    with pytest.raises(ProtocolError, match="initialize is malformed"):
        async with Scripted({"initialize": answer}).connect(mode="legacy"):
            raise AssertionError("unreachable")


async def test_capabilities_as_the_requested_revision_has_them(autojump_clock: MockClock) -> None:
    """No url mode before 2025-11-25, no elicitation before 2025-06-18, no listChanged modern."""
    everything: JSONObject = {"elicitation": {"form": {}, "url": {}}, "sampling": {}, "roots": {}}
    introduction = Introduction({}, {**everything, "roots": {"listChanged": True}})
    of = introduction.capabilities_in
    assert of("2024-11-05") == {"sampling": {}, "roots": {"listChanged": True}}
    assert of("2025-06-18")["elicitation"] == {}
    assert of("2025-11-25")["elicitation"] == {"form": {}, "url": {}}
    assert of(MODERN)["roots"] == {}


async def test_initialized_comes_before_any_request(autojump_clock: MockClock) -> None:
    """The server hears notifications/initialized first, then the log level, then requests."""
    server = Scripted({"tools/list": {"tools": []}}, start=LEGACY_START)
    async with server.connect(on_log=print) as client:
        await client.list_tools()
    assert server.methods == [
        "server/discover",
        "initialize",
        "notifications/initialized",
        "logging/setLevel",
        "tools/list",
    ]


async def test_a_server_that_does_not_set_its_log_level_is_of_use_all_the_same(
    autojump_clock: MockClock,
) -> None:
    """A broken logging feature costs the log messages, not the connection."""
    server = Scripted({"logging/setLevel": NOT_FOUND}, start=LEGACY_START)
    async with server.connect(on_log=print) as client:
        assert client.protocol_version == LATEST_LEGACY


@pytest.mark.parametrize("method", ["server/discover", "initialize"])
async def test_a_ping_during_the_handshake_is_answered(
    method: str, autojump_clock: MockClock
) -> None:
    """A server may ping before it answers; it gets its answer, and so do we."""

    async def ping_first(server: Scripted, request: JSONObject) -> Answer:
        id = await server.ask("ping")
        assert (await server.answer_to(id))["result"] == {}
        return NOT_FOUND if method == "server/discover" else initialized()

    server = Scripted({method: ping_first}, start=LEGACY_START)
    async with server.connect() as client:
        assert client.protocol_version == LATEST_LEGACY


@pytest.mark.parametrize("before", [True, False])
async def test_questions_around_initialized(before: bool, autojump_clock: MockClock) -> None:
    """A server that asks for the roots before, or right after, initialized is answered."""
    answered = trio.Event()

    async def ask_roots(server: Scripted) -> None:
        id = await server.ask("roots/list")
        assert (await server.answer_to(id))["result"] == {"roots": [{"uri": "file:///a"}]}
        answered.set()

    async def initialize(server: Scripted, request: JSONObject) -> Answer:
        if before:
            await ask_roots(server)
            return initialized()
        await server.answer(request, initialized())
        await server.wait_for("notifications/initialized")
        await ask_roots(server)
        return SILENCE

    server = Scripted({"initialize": initialize}, start=LEGACY_START)
    async with server.connect(on_list_roots=lambda _: ["file:///a"]):
        await answered.wait()


# Modes and mistakes


async def test_mode_modern_does_not_fall_back(autojump_clock: MockClock) -> None:
    """Who insists on the modern era hears why it cannot be."""
    server = Scripted(start=LEGACY_START)
    with pytest.raises(UnsupportedProtocolVersion, match="Method not found"):
        async with server.connect(mode="modern"):
            raise AssertionError("unreachable")
    assert server.methods == ["server/discover"]


async def test_mode_modern_waits_for_a_slow_server(autojump_clock: MockClock) -> None:
    """Without a legacy revision to fall back to, the probe has all the time for connecting."""
    server = Scripted({"server/discover": after(29, discovered())})
    async with server.connect(mode="modern", probe_timeout=1) as client:
        assert client.protocol_version == MODERN


async def test_mode_legacy_does_not_probe(autojump_clock: MockClock) -> None:
    """Who insists on the legacy era sends nothing that a legacy server does not know."""
    server = Scripted(start=LEGACY_START)
    async with server.connect(mode="legacy") as client:
        assert client.protocol_version == LATEST_LEGACY
    assert server.methods == ["initialize", "notifications/initialized"]


def test_unknown_modes_are_refused() -> None:
    """The error names the modes there are."""
    with pytest.raises(ValueError, match="auto, modern, legacy, 2024-11-05"):
        offers_of("2023-01-01")


@pytest.mark.parametrize(
    ("option", "error", "text"),
    [
        ({"mode": "new"}, ValueError, "mode='new' is unknown"),
        ({"log_level": "loud"}, ValueError, "'loud' is no log level"),
        ({"on_elicit": "print"}, TypeError, "on_elicit must be a function"),
        ({"connect_timeout": -1}, ValueError, "connect_timeout must be 0 or more, not -1"),
        ({"probe_timeout": math.nan}, ValueError, "probe_timeout must be .* not nan"),
        ({"timeout": -0.1}, ValueError, "^timeout must be 0 or more"),
        ({"max_timeout": math.nan}, ValueError, "max_timeout"),
        ({"max_rounds": -1}, ValueError, "max_rounds"),
        ({"round_backoff": -math.inf}, ValueError, "round_backoff"),
    ],
)
async def test_options_are_checked_before_anything_is_started(
    option: dict[str, Any], error: type[Exception], text: str, autojump_clock: MockClock
) -> None:
    """A misspelt option is an error at once, not one of the server's later."""
    with pytest.raises(error, match=text):
        async with mcp_trio.open_client(["/no/such/command"], **option):
            raise AssertionError("unreachable")


# Time and death


@pytest.mark.parametrize("steps", [{"initialize": SILENCE}, {"server/discover": SILENCE}])
async def test_the_handshake_has_a_limit(steps: Steps, autojump_clock: MockClock) -> None:
    """A silent server costs connect_timeout seconds, and initialize is not cancelled then."""
    server = Scripted({**steps, "initialize": SILENCE}, start=LEGACY_START)
    began = trio.current_time()
    with pytest.raises(RequestTimeout, match="connecting had no answer within 12 s"):
        async with server.connect(connect_timeout=12):
            raise AssertionError("unreachable")
    assert trio.current_time() - began == pytest.approx(12)
    assert server.methods == ["server/discover", "initialize"]


async def test_the_handshake_may_have_no_limit(autojump_clock: MockClock) -> None:
    """`math.inf` waits for as long as it takes."""
    server = Scripted({"initialize": after(5000, initialized())}, start=LEGACY_START)
    async with server.connect(connect_timeout=math.inf) as client:
        assert client.protocol_version == LATEST_LEGACY


async def test_giving_up_on_initialize_does_not_cancel_it(autojump_clock: MockClock) -> None:
    """`initialize` must not be cancelled on the wire; closing the connection says it too."""
    server = Scripted({"initialize": SILENCE})
    with trio.move_on_after(3) as scope:
        async with server.connect(mode="legacy"):
            raise AssertionError("unreachable")
    assert scope.cancelled_caught
    assert server.methods == ["initialize"]


async def test_no_cancellation_is_even_queued_for_initialize(autojump_clock: MockClock) -> None:
    """Not even for a writer that still gets to write what is left after the handshake."""
    server = Scripted({"initialize": SILENCE})
    async with (
        server.serving() as stream,
        open_connection(stream, handle=refuse, on_notification=print) as connection,
    ):
        with trio.move_on_after(3):
            await Handshake(connection.peer, Introduction({}, {}), LEGACY, 5).run()
        await connection.peer.notify("notifications/last")
        await server.wait_for("notifications/last")
    assert server.methods == ["initialize", "notifications/last"]


async def refuse(incoming: IncomingRequest) -> JSONObject:
    raise NOT_FOUND


@pytest.mark.parametrize("method", ["server/discover", "initialize"])
async def test_death_during_the_handshake(method: str, autojump_clock: MockClock) -> None:
    """A server that goes away while connecting is a ConnectionClosed, and at once."""

    async def die(server: Scripted, request: JSONObject) -> Answer:
        await server.close()
        return SILENCE

    server = Scripted({method: die}, start=LEGACY_START)
    began = trio.current_time()
    with pytest.raises(ConnectionClosed, match="the peer closed the connection"):
        async with server.connect():
            raise AssertionError("unreachable")
    assert trio.current_time() - began < 1


async def test_an_outer_timeout_works_at_any_moment(autojump_clock: MockClock) -> None:
    """A timeout around open_client is the caller's own, whenever it fires."""
    for seconds in range(1, 30, 3):
        server = Scripted({"server/discover": SILENCE, "initialize": SILENCE})
        with pytest.raises(trio.TooSlowError), trio.fail_after(seconds):
            async with server.connect():
                raise AssertionError("unreachable")


async def test_the_era_is_found_out_once(autojump_clock: MockClock) -> None:
    """What a server is does not change: no request after the handshake probes again."""
    server = Scripted({"tools/call": text_result()}, start=LEGACY_START)
    async with server.connect() as client:
        for _ in range(3):
            await client.call_tool("t")
    assert server.methods.count("server/discover") == server.methods.count("initialize") == 1


def test_the_scripts_are_what_they_say() -> None:
    """The two starts that the tests here build on belong to the two eras."""
    assert MODERN_START["server/discover"] == discovered()
    assert LEGACY_START["server/discover"] is NOT_FOUND


async def test_a_modern_server_gets_no_answers(autojump_clock: MockClock) -> None:
    """A modern server makes no requests, and its client must not send any answer."""
    strays: list[bytes] = []
    page = {"resultType": "complete", "tools": [], "ttlMs": 0, "cacheScope": "private"}
    server = Scripted({"tools/list": page})
    async with server.connect(on_noise=lambda line, _: strays.append(line)) as client:
        await server.ask("ping")
        await server.ask("acme/x")
        await client.list_tools()
    assert [message for message in server.received if "method" not in message] == []
    assert [json.loads(line)["method"] for line in strays] == ["ping", "acme/x"]
