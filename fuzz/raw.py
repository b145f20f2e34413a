"""Targets that take raw bytes, and what must hold for any bytes.

atheris runs them under coverage (`python -m fuzz.guided NAME`), Hypothesis with random bytes, and
`test_raw.py` with every file of the corpora, so that a crash which was found once stays found.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import msgspec

from mcp_trio.protocol.json_schema import InvalidSchema, compile_schema
from mcp_trio.protocol.schema_bounds import TooComplex, survey
from mcp_trio.server.uri_template import Expression, UriTemplate
from mcp_trio.wire.header_params import read_annotations
from mcp_trio.wire.http_headers import (
    HeaderError,
    check_arguments,
    check_request,
    decode_value,
    encode_value,
    mirror,
)
from mcp_trio.wire.jsonrpc import (
    MAX_DEPTH,
    PARSE_ERROR,
    Batch,
    EncodeError,
    Malformed,
    Noise,
    Received,
    decode,
    encode,
)
from mcp_trio.wire.ndjson import LineFramer, LineTooLong
from mcp_trio.wire.sse import (
    EventTooLong,
    ServerSentEvent,
    SSEParser,
    encode_event,
)

LIMIT = 512
"""Small, so that what passes a limit is found as well."""
STEPS = (1, 3, 7)
"""The sizes of pieces in which a stream comes, besides whole."""


def _pieces(data: bytes, step: int) -> list[bytes]:
    return [data[i : i + step] for i in range(0, len(data), step)]


# Framing --------------------------------------------------------------------------------------


def ndjson(data: bytes) -> None:
    """A stream of lines: the same however it is cut, and every line is read and written again."""
    whole = _lines([data])
    for step in STEPS:
        pieces = _lines(_pieces(data, step))
        assert pieces == whole, (step, pieces, whole)
    assert all(b"\n" not in line and len(line) <= LIMIT for line in whole[0])
    for line in whole[0]:
        jsonrpc(line)


def _lines(chunks: list[bytes]) -> tuple[list[bytes], bool]:
    framer = LineFramer(LIMIT)
    lines: list[bytes] = []
    try:
        for chunk in chunks:
            lines.extend(framer.feed(chunk))
        lines.extend(framer.end())
    except LineTooLong:
        return lines, True
    return lines, False


def sse(data: bytes) -> None:
    """A stream of events: the same however it is cut, as the standard reads it, and written again.

    What passes the limit is only compared with itself.
    """
    whole = _events([data])
    for step in STEPS:
        pieces = _events(_pieces(data, step))
        assert pieces == whole, (step, pieces, whole)
    events, last_id, retry, failed = whole
    if not failed:
        assert (events, last_id, retry) == _events_by_the_book(data)
    for event in events:
        if "\0" not in event.event:
            written = encode_event(event.data, event=event.event, id=event.id, retry=event.retry)
            assert _events([written])[0] == [event], written


def _events(chunks: list[bytes]) -> tuple[list[ServerSentEvent], str, int | None, bool]:
    parser = SSEParser(LIMIT)
    events: list[ServerSentEvent] = []
    try:
        for chunk in chunks:
            events.extend(parser.feed(chunk))
    except EventTooLong:
        return events, "", None, True
    return events, parser.last_event_id, parser.retry, False


def _events_by_the_book(data: bytes) -> tuple[list[ServerSentEvent], str, int | None]:
    """The same in the words of the HTML standard, for a stream that is there as a whole."""
    text = data.removeprefix(b"\xef\xbb\xbf")
    *lines, _unended = text.replace(b"\r\n", b"\n").replace(b"\r", b"\n").split(b"\n")
    events: list[ServerSentEvent] = []
    last_id, retry = "", None
    data_lines: list[bytes] = []
    kind, own_id, own_retry = "", None, None
    for line in lines:
        if not line:
            last_id = last_id if own_id is None else own_id
            if data_lines:
                event = kind or "message"
                events.append(ServerSentEvent(b"\n".join(data_lines), event, own_id, own_retry))
            data_lines, kind, own_id, own_retry = [], "", None, None
            continue
        field, _, value = line.partition(b":")
        value = value.removeprefix(b" ")
        if field == b"data":
            data_lines.append(value)
        elif field == b"event":
            kind = value.decode(errors="replace")
        elif field == b"id" and b"\0" not in value:
            own_id = value.decode(errors="replace")
        elif field == b"retry" and value and set(value) <= set(b"0123456789"):
            retry = own_retry = min(int(value), 10**15)
    return events, last_id, retry


# Messages -------------------------------------------------------------------------------------


def jsonrpc(line: bytes) -> None:
    """One line: read without fail, as Python's own reader reads it, and written again."""
    received = decode(line)
    readable, value = _by_python(line)
    if _is_damage(received):
        assert not readable, f"refused, and it is JSON: {received!r}"
    elif not isinstance(received, Batch):
        assert readable, f"taken, and it is no JSON: {received!r}"
    if isinstance(received, Malformed):
        # The id that was rescued is the one that Python's reader sees, where it sees one.
        if readable and isinstance(value, dict):
            own = value.get("id")
            own = own if type(own) in (int, str) else None
            assert received.id == own
            assert type(received.id) is type(own)
    elif isinstance(received, Batch):
        for item in received.items:
            if not isinstance(item, Malformed):
                _check_round_trip(item)
    elif not isinstance(received, Noise):
        _check_round_trip(received)


def _is_damage(received: Received) -> bool:
    if isinstance(received, Batch):
        return False
    return isinstance(received, Noise) or (
        isinstance(received, Malformed) and received.code == PARSE_ERROR
    )


def _check_round_trip(message: Any) -> None:
    try:
        again = encode(message)
    except EncodeError as error:
        raise AssertionError(f"read and cannot be written: {message!r}") from error
    assert b"\n" not in again
    assert decode(again) == message, again


def _by_python(line: bytes) -> tuple[bool, Any]:
    """Whether Python's reader takes a line, with our stricter rules added, and its value."""
    try:
        text = line.removeprefix(b"\xef\xbb\xbf").decode()
        value = json.loads(text, parse_constant=_refuse, parse_float=_finite)
        json.dumps(value, ensure_ascii=False).encode()  # lone surrogates cannot be written
    except (ValueError, RecursionError):
        return False, None
    return not _deeper_than(value, MAX_DEPTH), value


def _refuse(constant: str) -> Any:
    raise ValueError(constant)


def _finite(text: str) -> float:
    number = float(text)
    if number in (float("inf"), float("-inf")):
        raise ValueError(text)
    return number


def _deeper_than(value: Any, depth: int) -> bool:
    level = [value]
    for _ in range(depth):
        holders = [holder for holder in level if isinstance(holder, dict | list)]
        if not holders:
            return False
        level = [
            item
            for holder in holders
            for item in (holder.values() if isinstance(holder, dict) else holder)
        ]
    return any(isinstance(item, dict | list) for item in level)


# HTTP headers ---------------------------------------------------------------------------------


def headers(data: bytes) -> None:
    """A header's value, and text for one: read or refused, and what was written is read again."""
    value = data.decode("latin-1")
    try:
        decoded = decode_value(value)
    except HeaderError:
        pass
    else:
        assert decode_value(encode_value(decoded)) == decoded
    text = data.decode(errors="surrogateescape")
    try:
        written = encode_value(text)
    except HeaderError:
        assert any("\ud800" <= character <= "\udfff" for character in text)
    else:
        assert decode_value(written) == text
        assert written.isascii()
        assert written.isprintable()
        assert written == written.strip()
    _check_mirror(text, data)


_PARAMS = read_annotations(
    {
        "type": "object",
        "properties": {
            "text": {"type": "string", "x-mcp-header": "Text"},
            "number": {"type": "integer", "x-mcp-header": "Number"},
        },
    }
).params


def _check_mirror(text: str, raw: bytes) -> None:
    """What a client derives a server accepts; what came some other way it may only refuse."""
    number = int.from_bytes(raw[:6], "big", signed=True)
    params = {"name": text, "arguments": {"text": text, "number": number}}
    version = "2026-07-28"
    try:
        made = mirror(
            "tools/call", params, version=version, name_field="name", header_params=_PARAMS
        )
    except HeaderError:
        made = {}
    sent = [(name.encode(), value.encode()) for name, value in made.items()]
    if sent:
        problem = check_request(sent, "tools/call", params, version=version, name_field="name")
        assert problem is None, problem
        assert check_arguments(sent, params["arguments"], _PARAMS) is None
    foreign = [(b"Mcp-Name", raw), (b"mcp-method", raw), (b"MCP-Protocol-Version", raw)]
    assert check_request(foreign, "ping", {"name": "x"}, version=version, name_field="name")
    check_arguments([(b"Mcp-Param-Number", raw)], params["arguments"], _PARAMS)


# Schemas and templates ------------------------------------------------------------------------


def schema(data: bytes) -> None:
    """A JSON Schema, and on the next line a value: refused for a reason that is ours, or used."""
    first, _, second = data.partition(b"\n")
    try:
        declared = msgspec.json.decode(first)
        value = msgspec.json.decode(second) if second else None
    except (msgspec.MsgspecError, ValueError, RecursionError):
        return
    read_annotations(declared)
    if not isinstance(declared, dict):
        return
    try:
        survey(declared)
    except TooComplex:
        too_complex = True
    else:
        too_complex = False
    try:
        validator = compile_schema(declared)
    except InvalidSchema:
        return
    assert not too_complex
    fits = validator.is_valid(value)
    assert fits == (not validator.violations(value))


def uri(data: bytes) -> None:
    """A URI template, and on the next line a URI: what matches says the same when it is expanded.

    Where a URI can be read in several ways it is enough that it can be read again: in a template
    with a variable that takes any character, or with two expressions side by side. And where one
    variable stands twice, the readings of the two may differ, and there is none.
    """
    first, _, second = data.decode(errors="replace").partition("\n")
    try:
        template = UriTemplate(first)
    except ValueError:
        return
    values = template.match(second)
    if values is None:
        return
    expanded = template.expand(values)
    again = template.match(expanded)
    expressions = [part for part in template.parts if isinstance(part, Expression)]
    if sum(len(part.variables) for part in expressions) > len(template.variables):
        return
    assert again is not None, (expanded, values)
    parts = template.parts
    beside = any(isinstance(a, Expression) is isinstance(b, Expression) for a, b in pairwise(parts))
    if not beside and not any(part.operator.reserved for part in expressions):
        assert again == values, (expanded, values, again)


def server(data: bytes) -> None:
    """All that one client writes to a server: it answers each request once, and ends."""
    from fuzz.serving import converse_once

    converse_once(data.split(b"\n")[:200])


RAW: dict[str, Callable[[bytes], None]] = {
    target.__name__: target for target in (ndjson, jsonrpc, sse, headers, schema, uri, server)
}
"""The targets, by name."""
