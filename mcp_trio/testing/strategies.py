"""Hypothesis strategies for messages, for damaged messages, and for the streams that carry them.

They generate what peers really send, with a liking for what breaks implementations: ids that are
equal only to careless eyes, integers beyond 64 bits, line separators inside strings, chunks that
end inside a character. Use them to test your own transports, middleware and handlers:

    from hypothesis import given
    from mcp_trio.testing import strategies
    from mcp_trio.wire.jsonrpc import decode, encode

    @given(strategies.messages())
    def test_round_trip(message):
        assert decode(encode(message)) == message

This module needs the package `hypothesis`, which is in the extra `mcp-trio[test]`; nothing else in
mcp_trio imports it.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import cache
from typing import Any

import attrs
from hypothesis import strategies as st

from mcp_trio.wire.jsonrpc import (
    INVALID_REQUEST,
    MAX_DEPTH,
    MISSING,
    PARSE_ERROR,
    Batch,
    ErrorObject,
    ErrorResponse,
    JSONObject,
    Message,
    Noise,
    Notification,
    Received,
    Request,
    RequestId,
    Response,
    decode,
    encode,
)

__all__ = [
    "Damaged",
    "WireStream",
    "batches",
    "chunks_of",
    "damaged_lines",
    "error_objects",
    "error_responses",
    "invalid_envelopes",
    "json_objects",
    "json_text",
    "json_values",
    "lines_of",
    "message_lists",
    "messages",
    "methods",
    "noise_lines",
    "notifications",
    "request_ids",
    "requests",
    "responses",
    "undecodable_lines",
    "wire_streams",
]


BYTE_ORDER_MARK = b"\xef\xbb\xbf"


# JSON -----------------------------------------------------------------------------------------

_TRAPS = [
    "",
    "\u2028",
    "a\u2029b",
    "\x85",
    "\x0b\x0c\x1c\x1e",
    "\r\n",
    '"',
    "\\",
    '{"id":1}',
    "]}",
    "é",
    "\U0001f600",
    "\ufeff",
    "\x00",
    "\uffff",
]


@cache  # building a strategy costs more than drawing from it
def json_text() -> st.SearchStrategy[str]:
    """Strings without lone surrogates, often with what a careless framer or parser trips over."""
    traps = st.lists(st.sampled_from(_TRAPS), max_size=4).map("".join)
    return traps | st.text(st.characters(exclude_categories=["Cs"]), max_size=20)


@cache
def json_values(max_leaves: int = 8) -> st.SearchStrategy[Any]:
    """Any JSON value of up to `max_leaves` scalars: big integers, no NaN, no Infinity."""
    scalars = (
        st.none()
        | st.booleans()
        | st.integers()
        | st.sampled_from([2**53, 2**63, 2**64, -(2**63) - 1, 10**40, 0, -1])
        | st.floats(allow_nan=False, allow_infinity=False)
        | json_text()
    )
    return st.recursive(
        scalars,
        lambda inner: st.lists(inner, max_size=4) | st.dictionaries(json_text(), inner, max_size=4),
        max_leaves=max_leaves,
    )


def json_objects(max_leaves: int = 8) -> st.SearchStrategy[JSONObject]:
    """JSON objects, for params and results."""
    return st.dictionaries(json_text(), json_values(max_leaves), max_size=4)


# Messages -------------------------------------------------------------------------------------


@cache
def request_ids() -> st.SearchStrategy[RequestId]:
    """Strings and integers, some of which look alike ("1" and 1) or exceed 64 bits."""
    alike: st.SearchStrategy[RequestId] = st.sampled_from(
        [0, 1, "0", "1", "", -1, "01", "1.0", "true", 2**53 + 1, 2**64, 10**30]
    )
    return alike | st.integers() | json_text()


def methods() -> st.SearchStrategy[str]:
    """Method names of the protocol, and any other string."""
    known = ["initialize", "ping", "tools/call", "server/discover", "notifications/progress"]
    return st.sampled_from(known) | json_text()


def requests() -> st.SearchStrategy[Request]:
    """Requests with params, with empty params and without any."""
    return st.builds(Request, request_ids(), methods(), st.none() | json_objects())


def notifications() -> st.SearchStrategy[Notification]:
    """Notifications with params, with empty params and without any."""
    return st.builds(Notification, methods(), st.none() | json_objects())


def responses() -> st.SearchStrategy[Response]:
    """Responses that carry a result."""
    return st.builds(Response, request_ids(), json_objects())


def error_objects() -> st.SearchStrategy[ErrorObject]:
    """Errors with data, with data that is null, and without."""
    codes = st.sampled_from([PARSE_ERROR, INVALID_REQUEST, -32601, -32602, -32603]) | st.integers()
    return st.builds(ErrorObject, codes, json_text(), st.just(MISSING) | json_values())


def error_responses() -> st.SearchStrategy[ErrorResponse]:
    """Responses that carry an error; some have no id."""
    return st.builds(ErrorResponse, st.none() | request_ids(), error_objects())


@cache
def messages() -> st.SearchStrategy[Message]:
    """One valid message of any kind."""
    return st.one_of(requests(), notifications(), responses(), error_responses())


def message_lists(max_size: int = 6) -> st.SearchStrategy[list[Message]]:
    """Up to `max_size` messages."""
    return st.lists(messages(), max_size=max_size)


def batches(max_size: int = 4) -> st.SearchStrategy[Batch]:
    """Arrays of one to `max_size` messages (MCP 2025-03-26 only)."""
    return st.lists(messages(), min_size=1, max_size=max_size).map(tuple).map(Batch)


# Lines ----------------------------------------------------------------------------------------


def lines_of(message: Message | Batch) -> st.SearchStrategy[bytes]:
    """One-line encodings of `message` as different libraries write them, all of equal meaning.

    With and without spaces, with every character outside ASCII escaped or none.
    """
    value = json.loads(encode(message))

    def write(ascii_only: bool, separators: tuple[str, str]) -> bytes:
        return json.dumps(value, ensure_ascii=ascii_only, separators=separators).encode()

    styles = st.sampled_from([(",", ":"), (", ", ": "), (" ,\t", " :\r ")])
    return st.just(encode(message)) | st.builds(write, st.booleans(), styles)


def _is_noise(line: bytes) -> bool:
    return not line.isspace() and decode(line) == Noise(line)


@cache
def noise_lines() -> st.SearchStrategy[bytes]:
    """Lines that nobody would take for a message: banners, log lines, bytes. Not blank, no LF."""
    typical = st.sampled_from(
        [
            b"Server running on stdio",
            b"[INFO] ready",
            b"> build",
            "\u2713 done \u2028".encode(),
            b"NaN",
            b'"half a string',
            b"\x1b[32mok\x1b[0m",
            b"warning: {}",
            b"\xff\xfe",
        ]
    )
    other = st.binary(min_size=1, max_size=20).filter(
        lambda line: b"\n" not in line and not line.endswith(b"\r")
    )
    return typical | other.filter(lambda line: line[:3] != BYTE_ORDER_MARK and _is_noise(line))


@attrs.frozen
class Damaged:
    """A line that no receiver may take for a message, and what it can still tell.

    `kind` names the damage. `id` is the id that stands undamaged at its top level (None: there is
    none), `is_request` whether a "method" does.
    """

    kind: str
    line: bytes
    id: RequestId | None
    is_request: bool


_FAULTS: dict[str, bytes] = {
    "lone high surrogate": b'"\\ud800"',
    "lone low surrogate": b'"x\\udc00\\n"',
    "surrogates swapped": b'"\\ude00\\ud83d"',
    "NaN": b"NaN",
    "Infinity": b"Infinity",
    "negative Infinity": b"-Infinity",
    "number out of range": b"1e999",
    "bad UTF-8": b'"\xff"',
    "overlong UTF-8": b'"\xc0\xaf"',
    "UTF-8 surrogate": b'"\xed\xa0\x80"',
    "UTF-8 cut short": b'"\xf0\x9f\x98"',
    "control character": b'"\x01"',
    "unknown escape": b'"\\x41"',
    "leading zero": b"01",
    "trailing comma": b"[1,]",
    "missing value": b'{"a":}',
    "too deep": b"[" * (MAX_DEPTH + 1) + b"]" * (MAX_DEPTH + 1),
    "thousands deep": b'{"id":[' * 3000 + b"]}" * 3000,
}


@st.composite
def undecodable_lines(draw: Callable[[st.SearchStrategy[Any]], Any]) -> Damaged:
    """Messages with one place that is no JSON, before or after the id and amid decoys.

    Decoys are ids and methods inside nested values and inside strings: taking one of these for the
    line's own would fail somebody else's call.
    """
    kind, fault = draw(st.sampled_from(sorted(_FAULTS.items())))
    message = draw(st.one_of(requests(), notifications(), responses()))
    value = json.loads(encode(message))
    members = [
        json.dumps(name).encode() + b":" + json.dumps(v).encode() for name, v in value.items()
    ]
    decoys = st.sampled_from(
        [
            b'"x":{"id":99,"method":"no"}',
            b'"x":[{"id":99}]',
            b'"\\"id":99',
            b'"x":"\\",\\"id\\":99,\\"method\\":\\"no\\""',
            b'"x":"{[\\\\"',
            b'"Id":99',
        ]
    )
    members += draw(st.lists(decoys, max_size=2))
    members.append(b'"fault":' + draw(st.sampled_from([b"%b", b"[%b]", b'{"a":[0,%b]}'])) % fault)
    space = draw(st.sampled_from([b"", b" ", b"\t "]))
    line = b"{" + (space + b"," + space).join(draw(st.permutations(members))) + b"}"
    return Damaged(kind, line, value.get("id"), "method" in value)


@st.composite
def _cut_lines(draw: Callable[[st.SearchStrategy[Any]], Any]) -> Damaged:
    """Requests and responses that end too early, anywhere after their id."""
    message = draw(requests() | responses())
    head = b'{"jsonrpc":"2.0","id":' + json.dumps(message.id).encode() + b","
    rest = encode(Response("", {"nested": [{"id": 99, "method": "no"}, "\u2028"]}))
    line = head + b'"result":' + rest
    end = draw(st.integers(len(head), len(line)))
    return Damaged("truncated", line[:end], message.id, False)


@st.composite
def _trailed_lines(draw: Callable[[st.SearchStrategy[Any]], Any]) -> Damaged:
    """Messages with something after their end, such as a second message."""
    message = draw(requests() | responses())
    tail = draw(st.sampled_from([b"x", b"}", b"]", b',"id":99}', b"{}", b'{"id":99}', b"\x00"]))
    return Damaged("trailing", encode(message) + tail, message.id, isinstance(message, Request))


@st.composite
def invalid_envelopes(draw: Callable[[st.SearchStrategy[Any]], Any]) -> Damaged:
    """Objects that are sound JSON and no JSON-RPC message."""
    identifier = draw(request_ids())
    request = {"jsonrpc": "2.0", "id": identifier, "method": "ping"}
    response = {"jsonrpc": "2.0", "id": identifier, "result": {}}
    error = {"jsonrpc": "2.0", "id": identifier, "error": {"code": 1, "message": ""}}
    bad_id = draw(st.sampled_from([True, False, 1.5, 1.0, [], {}, [1]]))
    kind, value = draw(
        st.sampled_from(
            [
                ("version", request | {"jsonrpc": "1.0"}),
                ("version", response | {"jsonrpc": 2.0}),
                ("version", {"id": identifier, "result": {}}),
                ("nothing", {"jsonrpc": "2.0", "id": identifier}),
                ("id", request | {"id": bad_id}),
                ("id", request | {"id": None}),
                ("id", response | {"id": bad_id}),
                ("id", response | {"id": None}),
                ("id", {"jsonrpc": "2.0", "result": {}}),
                ("id", error | {"id": bad_id}),
                ("method", request | {"method": draw(st.none() | st.integers())}),
                ("params", request | {"params": draw(st.sampled_from([[], [1], "a", 0, False]))}),
                ("result", response | {"result": draw(st.sampled_from([None, [], 1, "", True]))}),
                ("both", response | error),
                ("both", response | request),
                ("error", error | {"error": draw(st.sampled_from([[], 1, "no", False]))}),
                ("error", error | {"error": {"code": 1.5, "message": ""}}),
                ("error", error | {"error": {"code": True, "message": ""}}),
                ("error", error | {"error": {"code": 1}}),
            ]
        )
    )
    own = value.get("id")
    own = own if type(own) in (str, int) else None
    return Damaged(f"bad {kind}", json.dumps(value).encode(), own, "method" in value)


def damaged_lines() -> st.SearchStrategy[Damaged]:
    """Every kind of line that starts like a message and is none."""
    return st.one_of(undecodable_lines(), _cut_lines(), _trailed_lines(), invalid_envelopes())


# Streams --------------------------------------------------------------------------------------


@st.composite
def chunks_of(draw: Callable[[st.SearchStrategy[Any]], Any], data: bytes) -> list[bytes]:
    """`data` cut anywhere: in the middle of characters, escapes and line endings; empty pieces too.

    Sometimes it stays whole and sometimes each byte comes alone.
    """
    if draw(st.integers(0, 9)) == 0:
        return [data[i : i + 1] for i in range(len(data))]
    cuts = sorted(draw(st.lists(st.integers(0, len(data)), max_size=12)))
    return [data[a:b] for a, b in zip([0, *cuts], [*cuts, len(data)], strict=True)]


@attrs.frozen
class WireStream:
    """A stream of lines and what a receiver has to make of it.

    `chunks` are the bytes in the pieces in which they arrive, `lines` what a framer has to yield,
    `received` what those lines mean.
    """

    chunks: list[bytes]
    lines: list[bytes]
    received: list[Received]

    @property
    def messages(self) -> list[Message]:
        """The valid messages among `received`, without batches."""
        return [r for r in self.received if isinstance(r, Message)]


@st.composite
def wire_streams(
    draw: Callable[[st.SearchStrategy[Any]], Any],
    message_list: st.SearchStrategy[list[Message]] | None = None,
    *,
    noise: bool = True,
) -> WireStream:
    """Messages as newline-delimited JSON, in every legal spelling and any split into chunks.

    LF and CR LF mixed, blank lines, a byte-order mark at the start, no newline at the end, and with
    `noise` lines of noise in between. Draws the messages from `message_list` if one is given.
    """
    lines: list[bytes] = []
    received: list[Received] = []
    stream = BYTE_ORDER_MARK if draw(st.booleans()) else b""
    ending = st.sampled_from([b"\n", b"\r\n"])
    blank = st.sampled_from([b"", b"\n", b"\r\n", b" \t\n"])
    for message in draw(message_lists() if message_list is None else message_list):
        if noise and draw(st.integers(0, 3)) == 0:
            line = draw(noise_lines())
            lines.append(line)
            received.append(Noise(line))
            stream += line + draw(ending)
        line = draw(lines_of(message))
        lines.append(line)
        received.append(message)
        stream += draw(blank) + line + draw(ending)
    if draw(st.booleans()):
        stream = stream.removesuffix(b"\n").removesuffix(b"\r")
    return WireStream(draw(chunks_of(stream)), lines, received)
