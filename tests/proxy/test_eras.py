"""The tables of what differs between the eras."""

from typing import Any

import pytest

from mcp_trio import MCPError
from mcp_trio.protocol import meta as keys
from mcp_trio.protocol.revisions import REVISIONS
from mcp_trio.proxy import eras
from mcp_trio.server.session import RequestInfo
from mcp_trio.wire.jsonrpc import MISSING

V1, V2, V3, V4, V5 = REVISIONS
URI = {"uri": "x:y"}

# code and data of the server's error, the revisions of server and client, code and data of theirs
ERRORS: list[tuple[int, Any, str, str, int, Any]] = [
    (-32002, MISSING, V4, V5, -32602, URI),
    (-32002, {"uri": "other", "a": 1}, V1, V5, -32602, {"uri": "other", "a": 1}),
    (-32002, URI, V4, V1, -32002, URI),
    (-32002, URI, V5, V5, -32002, URI),
    (-32602, URI, V5, V4, -32002, URI),
    (-32602, MISSING, V5, V4, -32602, MISSING),
    (-32602, {"uri": "other"}, V5, V4, -32602, {"uri": "other"}),
    (-32602, URI, V4, V3, -32602, URI),
    (-32602, URI, V5, V5, -32602, URI),
    (-32021, {"a": 1}, V5, V4, -32600, {"a": 1}),
    (-32021, {"a": 1}, V5, V5, -32021, {"a": 1}),
    (-32020, MISSING, V5, V5, -32603, MISSING),
    (-32020, MISSING, V5, V4, -32603, MISSING),
    (-32022, {"supported": []}, V5, V5, -32603, MISSING),
    (-32042, {"elicitations": []}, V4, V4, -32042, {"elicitations": []}),
    (-32601, None, V4, V5, -32601, None),
    (1234, [None], V1, V5, 1234, [None]),
]


@pytest.mark.parametrize(("code", "data", "spoken", "wanted", "theirs", "theirs_data"), ERRORS)
def test_errors(
    code: int, data: Any, spoken: str, wanted: str, theirs: int, theirs_data: Any
) -> None:
    """Each error is what the client's era has for it, and keeps what it says."""
    error = eras.client_error(MCPError(code, "text", data), URI, spoken, wanted)
    assert (error.code, error.data) == (theirs, theirs_data)
    assert "text" in error.message


ALL: dict[str, Any] = {
    "tools": {"listChanged": True},
    "resources": {"subscribe": True},
    "logging": {},
    "tasks": {"list": {}},
    "extensions": {"acme/x": {}},
    "acme": {"y": 1},
}
SERVER_CAPABILITIES = [
    (V4, V4, ALL),
    (V5, V5, ALL),
    (V4, V5, {name: ALL[name] for name in ("tools", "resources", "logging", "acme")}),
    (V5, V4, {name: ALL[name] for name in ("tools", "resources", "logging", "acme")}),
    (V4, V3, {name: ALL[name] for name in ("tools", "resources", "logging", "acme")}),
]


@pytest.mark.parametrize(("spoken", "wanted", "expected"), SERVER_CAPABILITIES)
def test_server_capabilities(spoken: str, wanted: str, expected: Any) -> None:
    """What both revisions have is declared, and what nobody knows; experiments of one era not."""
    assert eras.server_capabilities(ALL, spoken, wanted) == expected


def test_a_server_that_could_not_declare_completion() -> None:
    """In 2024-11-05 completion was no capability: newer clients are to try it."""
    assert eras.server_capabilities({"prompts": {}}, V1, V5) == {"prompts": {}, "completions": {}}
    assert eras.server_capabilities({"tools": {}}, V1, V5) == {"tools": {}}
    assert eras.server_capabilities({"prompts": {}}, V2, V5) == {"prompts": {}}


def test_client_capabilities() -> None:
    """A client is not taken to be able to do what its own revision does not have."""
    declared: dict[str, Any] = {"sampling": {}, "elicitation": {}, "tasks": {}, "acme": {}}
    assert eras.client_capabilities(declared, V4, V4) == declared
    assert eras.client_capabilities(declared, V4, V5) == {
        "sampling": {},
        "elicitation": {},
        "acme": {},
    }
    assert eras.client_capabilities(declared, V2, V4) == {"sampling": {}, "acme": {}}


def info(version: str) -> RequestInfo:
    return RequestInfo(
        version=version,
        modern=version == V5,
        client_info={"name": "c", "version": "1"},
        client_capabilities={"sampling": {}, "tasks": {}},
        log_level="error",
        progress_token=None,
        session=None,  # type: ignore[arg-type]  # is not looked at
    )


SAID = {
    keys.PROTOCOL_VERSION: V5,
    keys.CLIENT_INFO: {"name": "d", "version": "2"},
    keys.CLIENT_CAPABILITIES: {"roots": {}},
    keys.LOG_LEVEL: "info",
    "acme/x": 1,
}
ROUND = {"inputResponses": {}, "requestState": "s"}
PARAMS = [
    (V4, V4, {"a": 1, "_meta": {"b": 2}, **ROUND}, {"a": 1, "_meta": {"b": 2}, **ROUND}),
    (V5, V4, {"a": 1, "_meta": SAID, **ROUND}, {"a": 1, "_meta": {"acme/x": 1}}),
    (V5, V4, {"a": 1, "_meta": {keys.PROTOCOL_VERSION: V5}}, {"a": 1}),
    (
        V5,
        V5,
        {"a": 1, "_meta": SAID, **ROUND},
        {"a": 1, "_meta": {k: v for k, v in SAID.items() if k != keys.PROTOCOL_VERSION}, **ROUND},
    ),
    (
        V4,
        V5,
        {"a": 1, "_meta": {"b": 2}},
        {
            "a": 1,
            "_meta": {
                "b": 2,
                keys.CLIENT_INFO: {"name": "c", "version": "1"},
                keys.CLIENT_CAPABILITIES: {"sampling": {}},
                keys.LOG_LEVEL: "error",
            },
        },
    ),
]


@pytest.mark.parametrize(("version", "spoken", "params", "expected"), PARAMS)
def test_request_params(version: str, spoken: str, params: Any, expected: Any) -> None:
    """A server gets what its era needs to know and nothing of the other's; the rest as it is."""
    before = repr(params)
    assert eras.request_params(params, info(version), spoken) == expected
    assert repr(params) == before


def test_questions_are_fitted() -> None:
    """A page to visit has an id where the revision wants one; what cannot be asked is an error."""
    page = {"mode": "url", "url": "https://x", "message": "m"}
    method = "elicitation/create"
    assert eras.question_params(method, page, V5) == page
    assert len(eras.question_params(method, page, V4)["elicitationId"]) == 16
    assert eras.question_params(method, {**page, "elicitationId": "7"}, V4)["elicitationId"] == "7"
    with pytest.raises(MCPError) as failed:
        eras.question_params(method, page, V3)
    assert failed.value.code == -32600


@pytest.mark.parametrize(
    ("level", "threshold", "wanted"),
    [
        ("debug", None, False),
        ("emergency", None, False),
        ("debug", "debug", True),
        ("info", "warning", False),
        ("warning", "warning", True),
        ("error", "warning", True),
        ("acme", "emergency", True),
        (5, "debug", True),
    ],
)
def test_log_levels(level: object, threshold: str | None, wanted: bool) -> None:
    """Messages are sorted out by severity; no threshold means none at all."""
    assert eras.is_wanted(level, threshold) is wanted


@pytest.mark.parametrize(
    "data", [MISSING, None, {}, {"elicitations": []}, {"elicitations": 5}, {"elicitations": [5]}]
)
def test_pages_that_are_none(data: Any) -> None:
    """The error that names pages stays an error if it names none, or the client shows none."""
    able: dict[str, Any] = {"elicitation": {"url": {}}}
    assert eras.pages_to_visit(MCPError(-32042, "x", data), able, V5) is None
    assert eras.pages_to_visit(MCPError(-32601, "x", {"elicitations": [{}]}), able, V5) is None
    assert eras.pages_to_visit(MCPError(-32042, "x", {"elicitations": [{}]}), {}, V5) is None
