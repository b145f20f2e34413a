"""Error codes against the official schemas, and the exceptions that carry them."""

import pickle
from typing import Any

import pytest
import trio

from mcp_trio.exceptions import ConnectionClosed, RequestTimeout
from mcp_trio.protocol import errors
from mcp_trio.protocol.errors import ERRORS, MCPError, UnsupportedProtocolVersion
from mcp_trio.protocol.revisions import FEATURES, LATEST, LEGACY, MODERN, REVISIONS, supports
from mcp_trio.wire.jsonrpc import MISSING, ErrorObject
from tests.protocol.official import complaints, definitions, needs_schemas


def sent(error: MCPError) -> dict[str, Any]:
    """An error response in wire form."""
    body = {"code": error.code, "message": error.message}
    if error.data is not MISSING:
        body["data"] = error.data
    return {"jsonrpc": "2.0", "id": 1, "error": body}


PAGE = {"mode": "url", "message": "Log in.", "url": "https://example.com", "elicitationId": "1"}


@needs_schemas
@pytest.mark.parametrize(
    ("error", "name", "revision"),
    [
        (
            errors.unsupported_version("1900-01-01", MODERN),
            "UnsupportedProtocolVersionError",
            LATEST,
        ),
        (
            errors.missing_capability({"elicitation": {"url": {}}}),
            "MissingRequiredClientCapabilityError",
            LATEST,
        ),
        (MCPError(errors.HEADER_MISMATCH, "Mcp-Method differs"), "HeaderMismatchError", LATEST),
        (
            errors.url_elicitation_required([PAGE], "Log in first."),
            "URLElicitationRequiredError",
            "2025-11-25",
        ),
        (errors.resource_not_found("memo://1", "2024-11-05"), "JSONRPCError", "2024-11-05"),
        (errors.resource_not_found("memo://1", LATEST), "JSONRPCErrorResponse", LATEST),
    ],
)
def test_errors_are_valid(error: MCPError, name: str, revision: str) -> None:
    """An error with data of the wrong form."""
    assert complaints(sent(error), name, revision) == []


@needs_schemas
def test_every_code_of_the_schemas_is_in_the_table() -> None:
    """A code that the schemas define and this package does not know."""
    for revision in REVISIONS:
        for definition in definitions(revision).values():
            properties = definition.get("properties", {})
            for part in [definition, *properties.get("error", {}).get("allOf", [])]:
                code = part.get("properties", {}).get("code", {}).get("const")
                assert code is None or code in ERRORS


def test_codes_name_features() -> None:
    """A misspelt feature in the table of errors."""
    assert all(kind.feature is None or kind.feature in FEATURES for kind in ERRORS.values())


def test_a_missing_resource_has_the_code_of_its_era() -> None:
    """-32002 must not be sent in the modern era; older clients know no other."""
    for revision in REVISIONS:
        error = errors.resource_not_found("memo://1", revision)
        assert error.code == (-32002 if revision in LEGACY else -32602)
        assert error.data == {"uri": "memo://1"}
        kind = ERRORS[error.code]
        assert kind.feature is None or supports(kind.feature, revision)


def test_an_error_goes_to_the_wire_and_back() -> None:
    """Null data is not the same as no data."""
    for data in (MISSING, None, {"a": 1}):
        error = MCPError(-32602, "no", data)
        assert error.to_object() == ErrorObject(-32602, "no", data)
        back = MCPError.from_object(error.to_object())
        assert (back.code, back.message, back.data) == (-32602, "no", data)


def test_messages_say_what_is_wrong() -> None:
    """What a person reads in a traceback."""
    assert str(MCPError(-32602, "Unknown tool: x")) == "Unknown tool: x (-32602, InvalidParams)"
    assert str(MCPError(7, "odd")) == "odd (7)"
    assert repr(MCPError(7, "odd", None)) == "MCPError(7, 'odd', None)"
    assert repr(MCPError(7, "odd")) == "MCPError(7, 'odd')"
    error = UnsupportedProtocolVersion("2026-07-28", ["2027-01-01"], "too new")
    assert str(error) == (
        "the peer does not speak protocol version 2026-07-28, only 2027-01-01: too new"
    )
    closed = ConnectionClosed("the server exited", 3, "no licence\n")
    assert str(closed) == "the server exited (exit status 3); stderr: no licence"
    assert str(ConnectionClosed("closed here")) == "closed here"
    assert str(RequestTimeout("tools/call", 1.5)) == "tools/call had no answer within 1.5 s"


def test_a_timeout_is_trios() -> None:
    """Programs that catch trio.TooSlowError catch ours."""
    assert issubclass(RequestTimeout, trio.TooSlowError)


@pytest.mark.parametrize(
    "error",
    [
        MCPError(-32602, "no", {"a": 1}),
        MCPError(-32602, "no"),
        UnsupportedProtocolVersion("a", ["b"], "c"),
        ConnectionClosed("gone", 1, "tail"),
        RequestTimeout("ping", 2),
    ],
)
def test_exceptions_survive_pickling(error: Exception) -> None:
    """Exceptions cross process boundaries, as in test runners."""
    back = pickle.loads(pickle.dumps(error))
    assert (type(back), str(back), vars(back)) == (type(error), str(error), vars(error))
