"""Agreeing on a revision: every case that occurs, on both sides."""

from typing import Any

import pytest

from mcp_trio.protocol import meta as keys
from mcp_trio.protocol.convert import unstructure
from mcp_trio.protocol.errors import MCPError, UnsupportedProtocolVersion, unsupported_version
from mcp_trio.protocol.negotiation import (
    Legacy,
    Modern,
    Refused,
    Retry,
    Unsupported,
    accept_initialize,
    answer_initialize,
    capabilities_at,
    choose_version,
    declares,
    era_of,
    read_probe,
    read_refusal,
    read_request_meta,
)
from mcp_trio.protocol.revisions import LATEST, LATEST_LEGACY, LEGACY, MODERN, REVISIONS
from mcp_trio.protocol.types import ClientCapabilities, Implementation, RequestMetaObject

NEXT = "2099-01-01"


def discovered(*versions: str) -> dict[str, Any]:
    """A result of server/discover."""
    return {"supportedVersions": list(versions), "capabilities": {}, "resultType": "complete"}


def refusal(*versions: str) -> MCPError:
    """-32022, listing ``versions``."""
    return unsupported_version(LATEST, versions)


# --- The client's half ---------------------------------------------------------------------------

CASES: list[tuple[str, Any, bool, type]] = [
    ("a version of ours", discovered(LATEST), False, Modern),
    ("ours among others", discovered(NEXT, LATEST, LATEST_LEGACY), False, Modern),
    ("ours, after a retry", discovered(LATEST), True, Modern),
    ("legacy versions only", discovered(LATEST_LEGACY), False, Legacy),
    ("a newer version only", discovered(NEXT), False, Unsupported),
    ("newer and legacy versions", discovered(NEXT, LATEST_LEGACY), False, Legacy),
    ("no version at all", discovered(), False, Unsupported),
    ("an empty success", {}, False, Legacy),
    ("another success", {"tools": []}, False, Legacy),
    (
        "a success of the wrong form",
        {"supportedVersions": LATEST, "capabilities": {}},
        False,
        Legacy,
    ),
    ("no answer", None, False, Legacy),
    ("an unknown method", MCPError(-32601, "Method not found"), False, Legacy),
    ("invalid params", MCPError(-32602, "Invalid params"), False, Legacy),
    ("an error of its own", MCPError(-32000, "Server not initialized"), False, Legacy),
    ("an unrecognised error", MCPError(0, ""), False, Legacy),
    ("refused, listing what was used", refusal(LATEST), False, Retry),
    ("refused twice", refusal(LATEST), True, Unsupported),
    ("refused, legacy only", refusal(LATEST_LEGACY), False, Legacy),
    ("refused, newer only", refusal(NEXT), False, Unsupported),
    ("refused without data", MCPError(-32022, "no"), False, Unsupported),
    ("refused with odd data", MCPError(-32022, "no", {"supported": 7}), False, Unsupported),
    ("refused with odd versions", MCPError(-32022, "no", {"supported": [7, LATEST]}), False, Retry),
    ("a missing capability", MCPError(-32021, "no"), False, Refused),
    ("a header mismatch", MCPError(-32020, "no"), False, Refused),
]


@pytest.mark.parametrize(
    ("answer", "retried", "verdict"), [c[1:] for c in CASES], ids=[c[0] for c in CASES]
)
def test_the_probes_answer_is_read(answer: Any, retried: bool, verdict: type) -> None:
    """A server of one era taken for one of the other; a server asked for ever."""
    got = read_probe(answer, requested=LATEST, offers=REVISIONS, retried=retried)
    assert type(got) is verdict
    if isinstance(got, Modern | Retry):
        assert got.version == LATEST


@pytest.mark.parametrize(
    ("answer", "retried", "verdict"), [c[1:] for c in CASES], ids=[c[0] for c in CASES]
)
def test_a_modern_client_never_falls_back(answer: Any, retried: bool, verdict: type) -> None:
    """With no legacy revision on offer, what would be legacy is unsupported, and says why."""
    got = read_probe(answer, requested=LATEST, offers=MODERN, retried=retried)
    assert type(got) is (Unsupported if verdict is Legacy else verdict)
    if verdict is Legacy:
        assert isinstance(got, Unsupported)
        assert got.error.hint


def test_a_retry_uses_the_version_that_is_offered() -> None:
    """A client of several modern revisions takes the newest that the server lists."""
    newer = "2026-07-28"
    got = read_refusal(refusal(newer, NEXT), requested=NEXT, offers=[*REVISIONS], retried=False)
    assert got == Retry(newer)


def test_a_slow_modern_server_is_probed_once_more() -> None:
    """Its probe timed out; ``initialize`` is then answered -32022."""
    first = read_probe(None, requested=LATEST, offers=REVISIONS, retried=False)
    assert isinstance(first, Legacy)
    error = refusal(LATEST)
    assert read_refusal(error, requested=LATEST, offers=MODERN, retried=False) == Retry(LATEST)
    again = read_refusal(error, requested=LATEST, offers=MODERN, retried=True)
    assert isinstance(again, Unsupported)


def test_initialize_refused_for_good_is_no_loop() -> None:
    """After ``initialize`` only modern revisions are on offer, so there is no way back to it."""
    got = read_refusal(refusal(LATEST_LEGACY), requested=LATEST, offers=MODERN, retried=False)
    assert isinstance(got, Unsupported)
    assert got.error.supported == (LATEST_LEGACY,)


def test_one_revision_on_offer_is_the_only_one() -> None:
    """A client told to speak 2025-06-18 does not fall back to another legacy revision."""
    offers = [LATEST, "2025-06-18"]
    got = read_probe(discovered("2025-11-25"), requested=LATEST, offers=offers, retried=False)
    assert isinstance(got, Unsupported)
    got = read_probe(discovered("2025-06-18"), requested=LATEST, offers=offers, retried=False)
    assert isinstance(got, Legacy)


def test_the_newest_common_version_is_chosen() -> None:
    """Whatever the order of the lists."""
    assert (
        choose_version(["2025-11-25", "2025-06-18"], ["2025-06-18", "2025-11-25"]) == "2025-11-25"
    )
    assert choose_version(REVISIONS, [NEXT]) is None


def test_the_answer_to_initialize_is_checked() -> None:
    """A server may answer with another revision, but only with one that we offered."""
    for version in LEGACY:
        assert accept_initialize(version, requested=LATEST_LEGACY, offers=REVISIONS) == version
    for answered in (LATEST, NEXT, None, 5):
        with pytest.raises(UnsupportedProtocolVersion):
            accept_initialize(answered, requested=LATEST_LEGACY, offers=REVISIONS)
    with pytest.raises(UnsupportedProtocolVersion, match="only 2024-11-05"):
        accept_initialize("2024-11-05", requested="2025-06-18", offers=["2025-06-18"])


# --- The server's half ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("requested", "answer"),
    [*((v, v) for v in LEGACY), (LATEST, LATEST_LEGACY), ("1999-01-01", LATEST_LEGACY)],
)
def test_initialize_is_answered_with_a_legacy_revision(requested: str, answer: str) -> None:
    """``initialize`` never negotiates a modern version."""
    assert answer_initialize(requested, REVISIONS) == answer


def test_initialize_errors() -> None:
    """A malformed version, and a server without the legacy era."""
    with pytest.raises(MCPError) as caught:
        answer_initialize(None)
    assert caught.value.code == -32602
    with pytest.raises(MCPError) as caught:
        answer_initialize(LATEST_LEGACY, MODERN)
    assert caught.value.code == -32022
    assert caught.value.data == {"supported": [LATEST], "requested": LATEST_LEGACY}
    assert answer_initialize("2025-11-25", ["2024-11-05", "2025-06-18"]) == "2025-06-18"


@pytest.mark.parametrize(
    ("params", "header", "era"),
    [
        ({}, None, "legacy"),
        ({"_meta": {"progressToken": 1}}, None, "legacy"),
        ({"_meta": None}, None, "legacy"),
        ({"_meta": {keys.PROTOCOL_VERSION: LATEST}}, None, "modern"),
        ({"_meta": {keys.PROTOCOL_VERSION: LATEST_LEGACY}}, None, "modern"),
        ({"_meta": {keys.PROTOCOL_VERSION: 5}}, None, "modern"),
        ({}, LATEST, "modern"),
        ({}, LATEST_LEGACY, "legacy"),
        ({"_meta": {keys.PROTOCOL_VERSION: LATEST}}, LATEST_LEGACY, "modern"),
    ],
)
def test_a_request_belongs_to_an_era(params: Any, header: str | None, era: str) -> None:
    """A modern request served by legacy rules, or the other way round."""
    assert era_of(params, header) == era


def modern(**changes: Any) -> dict[str, Any]:
    """Parameters with a good ``_meta``; a change to ``...`` removes the key."""
    meta: dict[str, Any] = {
        keys.PROTOCOL_VERSION: LATEST,
        keys.CLIENT_CAPABILITIES: {"sampling": {}},
        keys.CLIENT_INFO: {"name": "c", "version": "1"},
        keys.LOG_LEVEL: "info",
    }
    meta |= {getattr(keys, name): value for name, value in changes.items()}
    return {"_meta": {key: value for key, value in meta.items() if value is not ...}}


def test_a_good_request_is_read() -> None:
    """What a handler may know of the client."""
    read = read_request_meta(modern())
    assert read == (LATEST, {"sampling": {}}, {"name": "c", "version": "1"}, "info")
    bare = read_request_meta(modern(CLIENT_INFO=..., LOG_LEVEL=...))
    assert (bare.client_info, bare.log_level) == (None, None)
    client = RequestMetaObject(LATEST, ClientCapabilities(), Implementation("c", "1"))
    assert read_request_meta({"_meta": unstructure(client)}).version == LATEST
    newer = read_request_meta(modern(CLIENT_CAPABILITIES={"telepathy": True}))
    assert newer.capabilities == {"telepathy": True}


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({}, "params._meta: it is missing"),
        ({"_meta": []}, "params._meta: expected an object"),
        (
            modern(PROTOCOL_VERSION=...),
            'params._meta["io.modelcontextprotocol/protocolVersion"] is missing; '
            "it must be a string",
        ),
        (
            modern(PROTOCOL_VERSION=5),
            'params._meta["io.modelcontextprotocol/protocolVersion"]: expected a string',
        ),
        (
            modern(CLIENT_CAPABILITIES=...),
            'params._meta["io.modelcontextprotocol/clientCapabilities"] is missing; '
            "it must be an object",
        ),
        (
            modern(CLIENT_CAPABILITIES=[]),
            'params._meta["io.modelcontextprotocol/clientCapabilities"]: expected an object',
        ),
        (
            modern(CLIENT_CAPABILITIES={"sampling": True}),
            'params._meta["io.modelcontextprotocol/clientCapabilities"].sampling: '
            "expected an object",
        ),
        (
            modern(CLIENT_INFO={"name": "c"}),
            'params._meta["io.modelcontextprotocol/clientInfo"]: '
            "expected an object with the strings name and version",
        ),
        (
            modern(LOG_LEVEL="loud"),
            'params._meta["io.modelcontextprotocol/logLevel"]: expected one of '
            "debug, info, notice, warning, error, critical, alert, emergency",
        ),
        (
            modern(LOG_LEVEL=[]),
            'params._meta["io.modelcontextprotocol/logLevel"]: expected one of '
            "debug, info, notice, warning, error, critical, alert, emergency",
        ),
    ],
)
def test_a_malformed_meta_is_refused(params: Any, message: str) -> None:
    """The error is -32602 and names the field."""
    with pytest.raises(MCPError) as caught:
        read_request_meta(params)
    assert caught.value.code == -32602
    assert caught.value.message == message


@pytest.mark.parametrize("version", [NEXT, *LEGACY, ""])
def test_an_unsupported_version_is_refused(version: str) -> None:
    """-32022 lists modern versions only, also where the server speaks legacy ones."""
    params = modern(PROTOCOL_VERSION=version, CLIENT_CAPABILITIES=...)
    with pytest.raises(MCPError) as caught:
        read_request_meta(params, REVISIONS)
    assert caught.value.code == -32022
    assert caught.value.data == {"supported": [LATEST], "requested": version}


# --- Capabilities --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("capabilities", "path", "declared"),
    [
        ({}, "sampling", False),
        ({"sampling": {}}, "sampling", True),
        ({"sampling": {}}, "sampling.tools", False),
        ({"sampling": {"tools": {}}}, "sampling.tools", True),
        ({"sampling": None}, "sampling", False),
        ({"tools": {"listChanged": True}}, "tools.listChanged", True),
        ({"tools": {"listChanged": False}}, "tools.listChanged", False),
        ({"elicitation": {}}, "elicitation.form", True),
        ({"elicitation": {"form": {}}}, "elicitation.form", True),
        ({"elicitation": {"url": {}}}, "elicitation.form", False),
        ({"elicitation": {}}, "elicitation.url", False),
        ({}, "elicitation.form", False),
        ({"sampling": True}, "sampling.tools", False),
    ],
)
def test_capabilities_are_found(capabilities: Any, path: str, *, declared: bool) -> None:
    """A server that asks what its client cannot do."""
    assert declares(capabilities, path) is declared


def test_missing_capabilities_are_named_by_the_smallest_object() -> None:
    """The data of -32021."""
    made = capabilities_at("elicitation.url", "elicitation.form", "roots")
    assert made == {"elicitation": {"url": {}, "form": {}}, "roots": {}}
    assert declares(made, "elicitation.url")
