"""Headers that repeat a message: what a client derives a server accepts, and nothing else."""

from __future__ import annotations

import re
from typing import Any

import h11
import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st

from mcp_trio.testing.strategies import json_text, json_values
from mcp_trio.wire.header_params import LARGEST_INTEGER, HeaderParam
from mcp_trio.wire.http_headers import (
    METHOD,
    NAME,
    PROTOCOL_VERSION,
    HeaderError,
    check_arguments,
    check_headers,
    check_request,
    decode_value,
    encode_value,
    mirror,
)
from tests.wire.test_ndjson import cost

VERSION = "2026-07-28"
SAFE = re.compile(r"|[!-~]([ -~]*[!-~])?")
RawHeaders = list[tuple[bytes, bytes]]


def raw(headers: dict[str, str]) -> RawHeaders:
    return [(name.encode(), value.encode("latin-1")) for name, value in headers.items()]


def texts() -> st.SearchStrategy[str]:
    """Any text, often such as looks encoded already or cannot be sent as it is."""
    parts = ["=?base64?", "?=", "=?BASE64?", "SGk=", " ", "\t", "\r\n", "\0", "é", "a", "=", "\x7f"]
    return st.lists(st.sampled_from(parts), max_size=4).map("".join) | json_text()


# Values ---------------------------------------------------------------------------------------


@given(texts())
@settings(max_examples=200)
@example("=?base64?=")
@example("=?base64??=")
def test_values_round_trip(text: str) -> None:
    """Any text arrives as it was, by way of printable ASCII without spaces at its edges."""
    value = encode_value(text)
    assert SAFE.fullmatch(value)
    assert decode_value(value) == text


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("us-west1", "us-west1"),
        ("", ""),
        ("us west 1", "us west 1"),
        ("Hello, 世界", "=?base64?SGVsbG8sIOS4lueVjA==?="),
        (" padded ", "=?base64?IHBhZGRlZCA=?="),
        ("line1\nline2", "=?base64?bGluZTEKbGluZTI=?="),
        ("a\tb", "=?base64?YQli?="),
        ("=?base64?literal?=", "=?base64?PT9iYXNlNjQ/bGl0ZXJhbD89?="),
        ("=?base64?SGk=", "=?base64?SGk="),
        ("=?Base64?SGk=?=", "=?Base64?SGk=?="),
    ],
)
def test_values_as_the_protocol_shows_them(text: str, value: str) -> None:
    """The protocol's own examples; what only half looks encoded is sent as it is."""
    assert encode_value(text) == value
    assert decode_value(value) == text


@pytest.mark.parametrize(
    "value",
    [
        "=?base64?SGVsbG8?=",  # no padding
        "=?base64?SGVs!!!bG8=?=",  # another alphabet
        "=?base64?SGVsbG8=\n?=",
        "=?base64?_-8=?=",
        "=?base64?SGl=?=",  # stray bits
        "=?base64?SGk==?=",
        "=?base64?/w==?=",  # no UTF-8
        "=?base64?7aCA?=",  # a lone surrogate
        "=?base64?=",  # the marks overlap
        "=?base64?é?=",
    ],
)
def test_only_proper_base64_is_decoded(value: str) -> None:
    """What two readers could take for different values is an error."""
    with pytest.raises(HeaderError, match="no proper base64"):
        decode_value(value)


# What a client sends a server accepts ---------------------------------------------------------

PARAMS = [HeaderParam(("a",), "A"), HeaderParam(("b", "c"), "B-C"), HeaderParam(("d",), "Method")]


def values() -> st.SearchStrategy[Any]:
    integers = st.integers(-LARGEST_INTEGER, LARGEST_INTEGER)
    return texts() | integers | integers.map(float) | st.booleans() | st.none()


def arguments() -> st.SearchStrategy[dict[str, Any]]:
    anything = values() | json_values(3).filter(lambda value: not isinstance(value, int | float))
    nested = st.fixed_dictionaries({}, optional={"c": anything})
    return st.fixed_dictionaries({}, optional={"a": anything, "b": nested, "d": anything})


def disguised(headers: RawHeaders) -> st.SearchStrategy[RawHeaders]:
    """The same headers as proxies and clients may write them, among others."""
    spaces = st.text(" \t", max_size=2).map(str.encode)
    others = [(b"Host", b"x"), (b"X-Mcp", b"\xff"), (b"Mcp-Param-Other", b"1"), (b"Host", b"y")]
    written = [
        st.tuples(
            st.sampled_from([name, name.lower(), name.upper()]),
            st.tuples(spaces, st.just(value), spaces).map(b"".join),
        )
        for name, value in headers
    ]
    return st.tuples(*written).flatmap(lambda changed: st.permutations([*changed, *others]))


@given(st.data(), st.sampled_from(["tools/call", "x"]), texts() | st.none(), arguments())
@settings(max_examples=150)
def test_a_server_accepts_what_a_client_derives(
    data: st.DataObject, method: str, name: str | None, arguments: dict[str, Any]
) -> None:
    """Whatever the name and the arguments are, the headers are sendable and they fit."""
    params = {"name": name, "arguments": arguments}
    sent = mirror(method, params, version=VERSION, name_field="name", header_params=PARAMS)
    assert all(SAFE.fullmatch(value) for value in sent.values())
    headers = data.draw(disguised(raw(sent)))
    check = check_request(headers, method, params, version=VERSION, name_field="name")
    assert check is None
    assert check_arguments(headers, arguments, PARAMS) is None


@given(arguments(), arguments(), texts(), texts())
@settings(max_examples=150)
def test_a_server_refuses_what_belongs_to_another_message(
    sent: dict[str, Any], received: dict[str, Any], name: str, other: str
) -> None:
    """Headers of one message beside the body of another are refused as soon as they differ."""
    params = {"name": name, "arguments": sent}
    derived = mirror("tools/call", params, version=VERSION, name_field="name", header_params=PARAMS)
    headers = raw(derived)
    body = {"name": other, "arguments": received}
    expected = mirror("tools/call", body, version=VERSION, name_field="name", header_params=PARAMS)
    check = check_request(headers, "tools/call", body, version=VERSION, name_field="name")
    assert (check is None) == (name == other)
    assume({**expected, NAME: ""} != {**derived, NAME: ""})
    reason = check_arguments(headers, received, PARAMS)
    assert reason is not None
    assert reason.startswith("Mcp-Param-")


# A client -------------------------------------------------------------------------------------


def test_a_call_as_the_protocol_shows_it() -> None:
    """Names, values and the headers that are left out."""
    params = {"name": "execute_sql", "arguments": {"a": "us-west1", "b": {"c": -7}, "d": None}}
    headers = mirror("tools/call", params, version=VERSION, name_field="name", header_params=PARAMS)
    assert headers == {
        "MCP-Protocol-Version": VERSION,
        "Mcp-Method": "tools/call",
        "Mcp-Name": "execute_sql",
        "Mcp-Param-A": "us-west1",
        "Mcp-Param-B-C": "-7",
    }
    read = mirror("resources/read", {"uri": "file:///é"}, version=VERSION, name_field="uri")
    assert read[NAME] == "=?base64?ZmlsZTovLy/DqQ==?="
    assert mirror("tools/list", {}, version=VERSION) == {
        "MCP-Protocol-Version": VERSION,
        "Mcp-Method": "tools/list",
    }


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (True, "true"),
        (False, "false"),
        (0, "0"),
        (LARGEST_INTEGER, "9007199254740991"),
        (42.0, "42"),
        (-0.0, "0"),
        ("", ""),
        (None, None),
        (1.5, "1.5"),
        (float("inf"), None),
        (float("nan"), None),
        ([1], None),
        ({"c": 1}, None),
    ],
)
def test_how_a_header_says_an_argument(value: Any, text: str | None) -> None:
    """JSON's words and not Python's; what no header can say has none."""
    headers = mirror("x", {"arguments": {"a": value}}, version=VERSION, header_params=PARAMS)
    assert headers.get("Mcp-Param-A") == text


@pytest.mark.parametrize(
    ("method", "name", "value", "reason"),
    [
        ("x\r\nX-Forged: 1", "n", 1, "^Mcp-Method cannot be sent"),
        ("é", "n", 1, "^Mcp-Method cannot be sent"),
        (" x", "n", 1, "^Mcp-Method cannot be sent"),
        ("x", "\ud800", 1, "^Mcp-Name cannot be sent.*lone surrogate"),
        ("x", "n", "\ud800", "^Mcp-Param-A cannot be sent.*lone surrogate"),
        ("x", "n", LARGEST_INTEGER + 1, "^Mcp-Param-A cannot be sent.*at most 9007199254740991"),
        ("x", "n", -(10**400), "^Mcp-Param-A cannot be sent"),
        ("x", "n", 1e300, "^Mcp-Param-A cannot be sent"),
    ],
)
def test_what_must_not_be_sent(method: str, name: str, value: Any, reason: str) -> None:
    """It is an error that names the header, before anything is sent."""
    params = {"name": name, "arguments": {"a": value}}
    with pytest.raises(HeaderError, match=reason):
        mirror(method, params, version=VERSION, name_field="name", header_params=PARAMS)


# A server -------------------------------------------------------------------------------------

CALL = {PROTOCOL_VERSION: VERSION, METHOD: "tools/call", NAME: "add"}


def checked(headers: RawHeaders, name: Any = "add", version: str | None = VERSION) -> str | None:
    params = {} if name is None else {"name": name}
    return check_request(headers, "tools/call", params, version=version, name_field="name")


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({PROTOCOL_VERSION: None}, "MCP-Protocol-Version is missing"),
        ({METHOD: None}, "Mcp-Method is missing"),
        ({NAME: None}, "Mcp-Name is missing"),
        ({PROTOCOL_VERSION: "2025-11-25"}, "MCP-Protocol-Version is '2025-11-25' and the body"),
        ({METHOD: "tools/list"}, "Mcp-Method is 'tools/list' and the body says 'tools/call'"),
        ({METHOD: "Tools/Call"}, "Mcp-Method is 'Tools/Call'"),
        ({METHOD: "=?base64?dG9vbHMvY2FsbA==?="}, "Mcp-Method is '=?base64?"),
        ({METHOD: "tools/call, tools/call"}, "Mcp-Method is 'tools/call, tools/call'"),
        ({NAME: "Add"}, "Mcp-Name is 'Add' and the body says 'add'"),
        ({NAME: ""}, "Mcp-Name is '' and the body says 'add'"),
        ({NAME: "=?base64?YWRk?="}, None),
        ({NAME: "=?base64?YWRk=?="}, "Mcp-Name cannot be decoded"),
        ({NAME: "\xe9"}, "Mcp-Name holds characters"),
        ({NAME: "a\x00dd"}, "Mcp-Name holds characters"),
        ({NAME: "\xa0add"}, "Mcp-Name holds characters"),
        ({NAME: "\x0badd\r\n"}, "Mcp-Name holds characters"),
        ({"mcp-name": "add"}, "Mcp-Name stands more than once"),
        ({"MCP-METHOD": "tools/list"}, "Mcp-Method stands more than once"),
        ({"Mcp-Session-Id": "\xe9", "Last-Event-ID": "\xe9"}, None),
    ],
)
def test_each_way_to_differ(changes: dict[str, str | None], reason: str | None) -> None:
    """Missing, different, doubled, badly encoded and unprintable headers are told apart."""
    changed = {**CALL, **changes}
    found = checked(raw({name: value for name, value in changed.items() if value is not None}))
    assert found == reason if reason is None else reason in (found or "")


@pytest.mark.parametrize("name", [None, 7, ["add"]])
def test_a_body_without_a_name_is_at_fault_itself(name: Any) -> None:
    """Its own check says what is wrong with it; so it does where the version is missing."""
    assert checked(raw(CALL), name, version=None) is None
    assert checked(raw({**CALL, PROTOCOL_VERSION: "x"}), name, version=None) is None


def test_long_values_are_not_repeated_whole() -> None:
    """A reason stays short whatever the headers hold."""
    reason = checked(raw({**CALL, NAME: "x" * 50_000}))
    assert reason is not None
    assert len(reason) < 300


@pytest.mark.parametrize(
    ("value", "header", "reason"),
    [
        (42, "42", None),
        (42, "42.0", None),
        (42, "042", None),
        (42, "=?base64?NDI=?=", None),
        (42.0, "42", None),
        (0, "-0", None),
        (-7, "-7.00", None),
        (42, "42.1", "differs"),
        (42, "42.", "differs"),
        (42, "4_2", "differs"),
        (42, "+42", "differs"),
        (42, "4.2e1", "differs"),
        (42, "0x2a", "differs"),
        (42, "", "differs"),
        (42, "=?base64?2aTZog==?=", "differs"),  # the digits of another script
        (42, "4" * 5000, "differs"),
        ("42", "42.0", "differs"),
        ("42", "42", None),
        (True, "true", None),
        (True, "True", "differs"),
        (True, "1", "differs"),
        (1, "true", "differs"),
        ("", "", None),
        ("", None, "is missing"),
        (False, None, "is missing"),
        (0, None, "is missing"),
        (None, "x", "is there"),
        (None, "null", "is there"),
        (None, None, None),
        ([1], None, None),
        ([1], "[1]", "is there"),
        (1.5, "1.5", None),
        (1.5, None, "is missing"),
        ("x", "=?base64?eA?=", "cannot be decoded"),
        ("x", "x\x7f", "holds characters"),
        (2**53, "9007199254740992", "cannot repeat"),
        (2**53, None, "cannot repeat"),
    ],
)
def test_arguments_and_headers(value: Any, header: str | None, reason: str | None) -> None:
    """Each value beside each header: what is equal, what is missing, what is too much."""
    headers = raw({} if header is None else {"mcp-param-a": header})
    found = check_arguments(headers, {"a": value}, PARAMS)
    assert found == reason if reason is None else reason in (found or "")
    assert found is None or found.startswith("Mcp-Param-A ")


def test_a_doubled_parameter_is_refused() -> None:
    """One reader would take the first and another the last."""
    headers = [(b"mcp-param-a", b"x"), (b"Mcp-Param-A", b"x")]
    assert check_arguments(headers, {"a": "x"}, PARAMS) == "Mcp-Param-A stands more than once"
    assert check_arguments(headers, {}, PARAMS[1:]) is None


def test_reasons_keep_arguments_private() -> None:
    """A reason is logged and sent; what an argument holds is neither."""
    reason = check_arguments([(b"mcp-param-a", b"first")], {"a": "second"}, PARAMS)
    assert reason == "Mcp-Param-A differs from the argument a"


@pytest.mark.parametrize(
    "value", [b"0" * 200_000 + b"x", b" " * 200_000 + b"\0", b"1." + b"0" * 200_000 + b"x"]
)
def test_checking_is_linear(value: bytes) -> None:
    """No header makes a comparison try the same characters again and again."""
    assert cost(lambda: check_arguments([(b"mcp-param-a", value)], {"a": 1}, PARAMS)) < 0.5


@given(st.text(max_size=8), st.text(max_size=30))
@example("Authorization", "Bearer abc\n")
@example("Authorization", "Bearer abc ")
@example("X-Sp\u00e4t", "x")
@example("content-length", "5")
def test_headers_of_a_user(name: str, value: str) -> None:
    """Whatever would be an error later is one at once, and shows no value; else h11 sends it."""
    said = ""
    try:
        check_headers({name: value})
    except ValueError as error:
        said = str(error)
    if said:
        assert value not in said.replace(repr(name), "") or len(value) < 10
    else:
        wire = h11.Connection(h11.CLIENT)
        head = h11.Request(method="GET", target="/", headers=[("Host", "x"), (name, value)])
        assert (wire.send(head) or b"").count(b"\r\n") == 4
