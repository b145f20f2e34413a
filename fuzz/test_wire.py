"""Targets for `mcp_trio.wire`: bytes to messages and back."""

from __future__ import annotations

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from fuzz import raw
from fuzz.typed import damaged_schemas, schemas
from mcp_trio.testing import strategies
from mcp_trio.testing.strategies import Damaged, WireStream
from mcp_trio.wire.header_params import MAX_PROBLEMS, read_annotations
from mcp_trio.wire.http_headers import HeaderError, check_arguments, check_request, mirror
from mcp_trio.wire.jsonrpc import (
    Batch,
    EncodeError,
    Malformed,
    Message,
    Noise,
    Request,
    decode,
    encode,
)
from mcp_trio.wire.ndjson import LineFramer
from mcp_trio.wire.sse import ServerSentEvent, SSEParser, encode_comment, encode_event


@given(strategies.messages() | strategies.batches(), st.data())
def test_messages_survive_the_wire(message: Message | Batch, data: st.DataObject) -> None:
    """What is encoded, by us or by others, is decoded to what it was."""
    line = encode(message)
    assert decode(line) == message
    assert b"\n" not in line
    assert decode(data.draw(strategies.lines_of(message))) == message


@given(strategies.wire_streams())
def test_streams_are_cut_where_they_should(stream: WireStream) -> None:
    """Lines come out as they went in, whatever the chunks, and mean what they meant."""
    framer = LineFramer(1 << 20)
    lines = [line for chunk in stream.chunks for line in framer.feed(chunk)]
    lines += framer.end()
    assert lines == stream.lines
    assert [decode(line) for line in lines] == stream.received


@given(strategies.damaged_lines())
def test_ids_are_rescued_from_damage(line: Damaged) -> None:
    """A damaged line is told from noise, and its own id from every decoy."""
    received = decode(line.line)
    assert isinstance(received, Malformed)
    assert (received.id, type(received.id)) == (line.id, type(line.id))
    assert received.is_request == line.is_request


@given(st.lists(strategies.messages() | strategies.damaged_lines(), min_size=1, max_size=5))
def test_a_damaged_batch_keeps_its_sound_messages(items: list[Message | Damaged]) -> None:
    """One bad message costs the others nothing, if it does not swallow the rest of the line."""
    line = b"[" + b",".join(i.line if isinstance(i, Damaged) else encode(i) for i in items) + b"]"
    received = decode(line)
    whole = next((n for n, i in enumerate(items) if isinstance(i, Damaged)), len(items))
    if whole and isinstance(received, Batch):
        assert list(received.items[: whole - 1]) == items[: whole - 1]


@given(strategies.messages().flatmap(strategies.lines_of), st.binary(max_size=3), st.data())
def test_a_line_with_a_few_other_bytes_in_it(
    line: bytes, other: bytes, data: st.DataObject
) -> None:
    """Nearly right lines against Python's own reader."""
    at = data.draw(st.integers(0, len(line)))
    raw.jsonrpc(line[:at] + other + line[at + data.draw(st.integers(0, 3)) :])


@given(strategies.json_objects() | st.dictionaries(st.integers() | st.text(), st.floats()))
def test_encode_writes_what_it_was_given_or_refuses(params: dict[str, object]) -> None:
    """NaN, lone surrogates and keys that are no strings never leave as something else."""
    request = Request(1, "x", params)
    try:
        line = encode(request)
    except EncodeError:
        return
    assert decode(line) == request


_LINES = st.binary(max_size=12).map(lambda data: data.replace(b"\n", b"").replace(b"\r", b""))
_FIELDS = st.sampled_from(
    [b"data", b"event", b"id", b"retry", b"", b"Data", b"x", b"\xef\xbb\xbfid"]
)


@given(
    st.lists(
        st.tuples(
            _FIELDS, st.sampled_from([b"", b":", b": ", b":  "]), _LINES | st.just(b"12")
        ).map(b"".join)
        | st.sampled_from([b"", b"\n", b"\r", b"\r\n", b"\n\n"]),
        max_size=12,
    ),
    st.sampled_from([b"\n", b"\r", b"\r\n"]),
)
def test_event_streams_by_the_book(lines: list[bytes], ending: bytes) -> None:
    """Any stream reads as the standard reads it, however it is cut."""
    raw.sse(ending.join(lines))


_NAMES = st.text(st.characters(exclude_characters="\r\n\0", exclude_categories=["Cs"]), max_size=8)


@given(
    st.lists(st.tuples(st.binary(max_size=30), st.none() | _NAMES, st.none() | _NAMES)),
    st.data(),
)
def test_events_survive_the_wire(
    events: list[tuple[bytes, str | None, str | None]], data: st.DataObject
) -> None:
    """Events that we write, comments between them, come out again with LF for every line ending."""
    written = b"".join(
        encode_event(content, event=event, id=id) + encode_comment("still here")
        for content, event, id in events
    )
    parser = SSEParser(1 << 20)
    chunks = data.draw(strategies.chunks_of(written))
    assert [event for chunk in chunks for event in parser.feed(chunk)] == [
        ServerSentEvent(
            content.replace(b"\r\n", b"\n").replace(b"\r", b"\n"), event or "message", id, None
        )
        for content, event, id in events
    ]


@given(damaged_schemas() | schemas(), st.data())
def test_mirrored_arguments_are_accepted(schema: object, data: st.DataObject) -> None:
    """Whatever a schema marks: what a client derives from a call its server takes for equal."""
    found = read_annotations(schema)
    assert len(found.problems) <= MAX_PROBLEMS
    assert not (found.params and found.problems)
    values = strategies.json_values(2) | st.integers() | strategies.json_text()
    arguments: dict[str, object] = {}
    for param in found.params:
        holder: object = arguments
        *path, last = param.path
        for key in path:
            holder = holder.setdefault(key, {}) if isinstance(holder, dict) else None
        if isinstance(holder, dict) and data.draw(st.booleans()):
            holder[last] = data.draw(values)
    params = {"name": data.draw(strategies.json_text()), "arguments": arguments}
    try:
        headers = mirror(
            "tools/call", params, version="x", name_field="name", header_params=found.params
        )
    except HeaderError:
        return
    sent = [(name.lower().encode(), value.encode()) for name, value in headers.items()]
    problem = check_request(sent, "tools/call", params, version="x", name_field="name")
    assert problem is None, problem
    problem = check_arguments(sent, arguments, found.params)
    assert problem is None, problem


@given(strategies.noise_lines(), strategies.noise_lines())
def test_noise_stays_noise(first: bytes, second: bytes) -> None:
    """Two lines of noise in one stream are two, and neither is a message."""
    framer = LineFramer(1 << 20)
    lines = [*framer.feed(b"\n" + first + b"\n" + second), *framer.end()]
    assert [decode(line) for line in lines] == [Noise(line) for line in lines]


@given(st.lists(strategies.json_values(4), max_size=4))
def test_json_of_any_kind_against_pythons_reader(values: list[object]) -> None:
    """Sound JSON that is no message, alone and in lists."""
    for value in [*values, values, {"jsonrpc": "2.0", "id": values}]:
        raw.jsonrpc(msgspec.json.encode(value))
