"""Server-sent events: the standard's meaning whatever the split; no injection; linear; bounded."""

from __future__ import annotations

import re
import tracemalloc
from collections.abc import Iterable

import attrs
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from mcp_trio.testing.strategies import chunks_of, messages
from mcp_trio.wire.jsonrpc import Malformed, decode, encode
from mcp_trio.wire.sse import (
    LONGEST_RETRY,
    EventTooLong,
    ServerSentEvent,
    SSEParser,
    encode_comment,
    encode_event,
)
from tests.wire.test_ndjson import cost

BOM = b"\xef\xbb\xbf"
ENDINGS = [b"\n", b"\r", b"\r\n"]


def bytewise(stream: bytes) -> list[bytes]:
    return [bytes([byte]) for byte in stream]


def parsed(chunks: Iterable[bytes], limit: int = 1 << 20) -> list[ServerSentEvent]:
    return fed(SSEParser(limit), chunks)


def fed(parser: SSEParser, chunks: Iterable[bytes]) -> list[ServerSentEvent]:
    return [event for chunk in chunks for event in parser.feed(chunk)]


# A second implementation ----------------------------------------------------------------------


@attrs.define
class Standard:
    """The HTML standard's algorithm step by step, on the whole text and with its own names."""

    events: list[tuple[str, str, str]] = attrs.field(factory=list)
    last_event_id_string: str = ""
    reconnection_time: int | None = None
    data: str = ""
    event_type: str = ""
    last_event_id: str = ""

    def interpret(self, stream: bytes) -> Standard:
        text = stream.removeprefix(BOM).decode(errors="replace")
        *lines, _unfinished = re.split("\r\n|\n|\r", text)
        for line in lines:
            if line == "":
                self.dispatch()
            elif not line.startswith(":"):
                field, _, value = line.partition(":")
                self.process(field, value[1:] if value.startswith(" ") else value)
        return self

    def process(self, field: str, value: str) -> None:
        if field == "event":
            self.event_type = value
        elif field == "data":
            self.data += value + "\n"
        elif field == "id" and "\0" not in value:
            self.last_event_id = value
        elif field == "retry" and re.fullmatch("[0-9]+", value):
            self.reconnection_time = int(value)

    def dispatch(self) -> None:
        self.last_event_id_string = self.last_event_id
        if self.data != "":
            name = self.event_type or "message"
            self.events.append((name, self.data.removesuffix("\n"), self.last_event_id_string))
        self.data = self.event_type = ""


PIECES = [
    *(b"data: data:x id: id:7 event: event:ping retry: retry:20 retry: 3x retry:-1".split()),
    *[b"data", b"id", b"event", b"retry", b"data ", b" data: x", b"Data: x", b"datax: y"],
    *[b"data:  two", b"data:a:b", b": comment", b":", b"::", b"id: a\0b", b"id: \xff", b"\0"],
    *[
        b"data: \xc3",
        b"\xa9",
        b"data: \xe2\x80\xa8\xc2\x85\x0b\x0c",
        BOM,
        b"retry:  5",
        b"retry:007",
    ],
    *["retry: ٣".encode(), "data: é\U0001f600".encode(), b"event: \xe2\x82", b"data: [1]"],
]


def streams() -> st.SearchStrategy[bytes]:
    """Streams that are nearly well formed, with every line ending, and some that are anything."""
    line = st.sampled_from(PIECES) | st.binary(max_size=6)
    ended = st.builds(lambda text, end: text + end, line | st.just(b""), st.sampled_from(ENDINGS))
    lines = st.lists(ended, max_size=15).map(b"".join)
    return st.builds(
        lambda bom, body, rest: bom + body + rest, st.sampled_from([b"", BOM]), lines, line
    )


@given(st.data(), streams())
@settings(max_examples=200)
def test_any_stream_means_what_the_standard_says(data: st.DataObject, stream: bytes) -> None:
    """Two implementations agree on events, ids and retry, for any bytes in any pieces."""
    standard = Standard().interpret(stream)
    parser = SSEParser(1 << 20)
    events = []
    for chunk in data.draw(chunks_of(stream)):
        for event in parser.feed(chunk):
            events.append((event.event, event.data.decode(errors="replace"), parser.last_event_id))
            assert event.id in (None, parser.last_event_id)
    assert events == standard.events
    assert parser.last_event_id == standard.last_event_id_string
    assert parser.retry == standard.reconnection_time


def test_every_single_split_of_a_hard_stream() -> None:
    """A cut at any byte, inside characters, CR LF, fields and the BOM, is harmless."""
    stream = (
        BOM + b"event: a\r\nid: \xc3\xa9\r\n: \r\ndata: \xf0\x9f\x98\x80\rdata:\ndata:  z\r\r"
        b"\ndata\n\r\nretry:5\r\rdata: \xff\n\n"
    )
    events = [
        ServerSentEvent(b"\xf0\x9f\x98\x80\n\n z", "a", "é"),
        ServerSentEvent(b""),
        ServerSentEvent(b"\xff"),
    ]
    for cut in range(len(stream) + 1):
        assert parsed([stream[:cut], b"", stream[cut:]]) == events
    assert parsed(bytewise(stream)) == events


@pytest.mark.parametrize("ending", ENDINGS)
def test_an_event_does_not_wait_for_more(ending: bytes) -> None:
    """Its blank line delivers an event, also one that ends with CR, for which an LF may follow."""
    parser = SSEParser(100)
    assert list(parser.feed(b"data: x" + ending)) == []
    assert list(parser.feed(ending)) == [ServerSentEvent(b"x")]
    assert list(parser.feed(b"\ndata: y\n\n")) == [ServerSentEvent(b"y")]


def test_a_byte_order_mark_is_dropped_once() -> None:
    """At the start it is no part of the stream; anywhere else it is a character like others."""
    (event,) = parsed([BOM + b"data: 1\n" + BOM + b"data: 2\n" + BOM + b"\ndata:" + BOM + b"\n\n"])
    assert event.data == b"1\n" + BOM
    assert parsed([BOM + BOM + b"data: 1\n\n"]) == []


# Ids and retry --------------------------------------------------------------------------------


def test_the_last_id_stays_until_the_next() -> None:
    """What to resume with survives events without an id, and an empty id takes it back."""
    parser = SSEParser(100, last_event_id="before")
    seen = []
    for block in [b"data: 1", b"id: a\ndata: 2", b"data: 3", b"id: b", b"id: c\0\ndata: 4", b"id"]:
        events = list(parser.feed(block + b"\n\n"))
        seen.append((parser.last_event_id, [event.id for event in events]))
    expected = [("before", [None]), ("a", ["a"]), ("a", [None]), ("b", []), ("b", [None]), ("", [])]
    assert seen == expected


@pytest.mark.parametrize("half", [b"id: b\ndata: 2", b"id: b\ndata: 2\n", b"id: b\n"])
def test_half_an_event_changes_no_id(half: bytes) -> None:
    """Resuming after a broken stream repeats the event that did not arrive whole."""
    parser = SSEParser(100)
    assert list(parser.feed(b"id: a\ndata: 1\n\n" + half)) == [ServerSentEvent(b"1", id="a")]
    assert parser.last_event_id == "a"


def test_a_priming_event_arrives() -> None:
    """An id with empty data is an event; an id or a wait alone is none, and counts all the same."""
    parser = SSEParser(100)
    assert list(parser.feed(b"id: 1\ndata:\n\n")) == [ServerSentEvent(b"", id="1")]
    assert list(parser.feed(b"retry: 50\n")) == []
    assert parser.retry == 50
    assert list(parser.feed(b"\n")) == []


def test_retry_is_a_number_that_can_be_waited_for() -> None:
    """Thousands of digits neither raise nor overflow a clock."""
    (event,) = parsed([b"retry: " + b"9" * 10_000 + b"\ndata:\n\n"])
    assert event.retry == LONGEST_RETRY
    (event,) = parsed([b"retry: " + b"0" * 10_000 + b"12\ndata:\n\n"])
    assert event.retry == 12


# Encoding -------------------------------------------------------------------------------------

hostile = st.text(st.sampled_from(list("\r\n\0 :dataidé\u2028\x85\ufeff")), max_size=8)
payloads = st.binary(max_size=20) | hostile.map(str.encode)


def splits_nothing(text: str) -> bool:
    return not set(text) & set("\r\n\0")


@given(
    st.data(),
    st.lists(
        st.builds(
            ServerSentEvent,
            payloads,
            hostile.filter(lambda text: splits_nothing(text) and text != ""),
            st.none() | hostile.filter(splits_nothing),
            st.none() | st.integers(0, LONGEST_RETRY),
        )
        | hostile.filter(splits_nothing),
        max_size=6,
    ),
)
@settings(max_examples=150)
def test_what_is_encoded_arrives(data: st.DataObject, sent: list[ServerSentEvent | str]) -> None:
    """Any data, name and id come out as they went in, among comments; line endings become LF."""
    stream, expected = b"", []
    for item in sent:
        if isinstance(item, str):
            stream += encode_comment(item)
        else:
            stream += encode_event(item.data, event=item.event, id=item.id, retry=item.retry)
            text = re.sub(rb"\r\n|\r", b"\n", item.data)
            expected.append(attrs.evolve(item, data=text))
    assert parsed(data.draw(chunks_of(stream))) == expected


@given(payloads, hostile, hostile, hostile)
@example(b"", "x\ndata: forged\n\n", "", "")
@example(b"", "", "1\rid: 2", "")
@example(b"", "", "", "\r\n\r\ndata: forged\r\n\r\n")
def test_nothing_can_be_injected(data: bytes, name: str, id: str, comment: str) -> None:
    """Whatever is in them, one event is one event with one id, and a comment is none."""
    assert len(parsed([encode_event(data)])) == 1
    if splits_nothing(name) and splits_nothing(id):
        (event,) = parsed([encode_event(data, event=name, id=id)])
        assert (event.event, event.id) == (name or "message", id)
    else:
        with pytest.raises(ValueError, match="must not hold CR, LF or NUL"):
            encode_event(data, event=name, id=id)
    if splits_nothing(comment):
        assert parsed([encode_comment(comment)]) == []
    else:
        with pytest.raises(ValueError, match="must not hold CR, LF or NUL"):
            encode_comment(comment)


def test_a_negative_retry_is_refused() -> None:
    """The receiver would ignore it, so the sender hears of it."""
    with pytest.raises(ValueError, match="from 0 on"):
        encode_event(b"", retry=-1)


@given(messages())
@settings(max_examples=50)
def test_messages_travel_unchanged(message: object) -> None:
    """A JSON-RPC message in an event is the bytes that the codec wrote."""
    line = encode(message)  # type: ignore[arg-type]  # the strategy is of any message
    assert [event.data for event in parsed([encode_event(line)])] == [line]


def test_damage_stays_visible() -> None:
    """Bad UTF-8 reaches the codec as it came, which reads the id and refuses the message."""
    line = b'{"jsonrpc":"2.0","id":7,"result":{"text":"\xff"}}'
    (event,) = parsed([b"data: " + line + b"\n\n"])
    received = decode(event.data)
    assert isinstance(received, Malformed)
    assert received.id == 7


# Bounds ---------------------------------------------------------------------------------------


def parsed_until_too_long(chunks: Iterable[bytes], limit: int) -> tuple[list[bytes], bool]:
    found = []
    parser = SSEParser(limit)
    try:
        for chunk in chunks:
            for event in parser.feed(chunk):
                found.append(event.data)
    except EventTooLong:
        return found, True
    return found, False


@given(
    st.data(),
    st.lists(st.lists(st.integers(0, 9), min_size=1, max_size=3), max_size=5),
    st.sampled_from([b"data:", b"data: "]),
    st.sampled_from(ENDINGS),
)
def test_limit_is_exact_and_loses_nothing_before(
    data: st.DataObject, sizes: list[list[int]], field: bytes, ending: bytes
) -> None:
    """Data up to the limit arrives, so does all before the first longer event, then it raises."""
    limit = 8
    events = [[b"x" * size for size in lines] for lines in sizes]
    stream = b"".join(
        b"".join(field + line + ending for line in lines) + ending for lines in events
    )
    whole = [b"\n".join(lines) for lines in events]
    fitting = next((i for i, text in enumerate(whole) if len(text) > limit), len(whole))
    expected = whole[:fitting], fitting < len(whole)
    assert parsed_until_too_long(data.draw(chunks_of(BOM + stream)), limit) == expected


@pytest.mark.parametrize("start", [b"data: ", b": ", b"id: ", b"x"])
def test_limit_is_seen_before_the_line_ends(start: bytes) -> None:
    """An endless line of any kind is refused once it passes the limit, and so is what follows."""
    parser = SSEParser(1000)
    assert list(parser.feed(b"data: first\n\n")) == [ServerSentEvent(b"first")]
    with pytest.raises(EventTooLong, match="longer than 1000 bytes") as caught:
        fed(parser, bytewise(start.ljust(1010, b"x")))
    assert caught.value.limit == 1000
    for _ in range(2):  # what follows is the tail of an event, never to be taken for one
        with pytest.raises(EventTooLong):
            list(parser.feed(b"\n\ndata: forged\n\n"))


def test_comments_do_not_add_up() -> None:
    """A stream that is kept alive for days by comments without blank lines stays open."""
    assert parsed([b":\r\n"] * 10_000 + [b"data: x\n\n"], limit=10) == [ServerSentEvent(b"x")]


def test_a_limit_below_one_is_refused() -> None:
    """A nonsensical limit is an error at once and not at the first event."""
    with pytest.raises(ValueError, match="positive number of bytes"):
        SSEParser(0)


LINE = b"data: %b\n\n"
SHAPES = {
    "one line": lambda size: LINE % (b"x" * size),
    "many lines": lambda size: b"data: abcd\n" * (size // 11) + b"\n",
    "empty lines": lambda size: b"data\n" * (size // 5) + b"\n",
    "CR LF": lambda size: b"data: abcd\r\n" * (size // 12) + b"\r\n",
}


@pytest.mark.parametrize(
    ("shape", "piece", "size"),
    [
        ("one line", 1, 60_000),
        ("one line", 4096, 8_000_000),
        *((shape, 1, 15_000) for shape in SHAPES),
        *((shape, 1 << 30, 400_000) for shape in SHAPES),
    ],
)
def test_time_is_linear_in_bytes(shape: str, piece: int, size: int) -> None:
    """Four times the event costs about four times the time, not sixteen."""

    def feed(length: int) -> None:
        stream = SHAPES[shape](length)
        chunks = (stream[start : start + piece] for start in range(0, len(stream), piece))
        assert len(parsed(chunks, length)) == 1

    assert cost(lambda: feed(4 * size)) < 6 * cost(lambda: feed(size)) + 0.2


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize(("piece", "size"), [(3, 60_000), (4096, 300_000)])
def test_memory_is_at_most_three_times_the_event(piece: int, size: int, shape: str) -> None:
    """Neither small pieces nor many lines make the buffers larger than three events."""
    stream = SHAPES[shape](size)
    tracemalloc.start()
    try:
        parser, events = SSEParser(size), 0
        for start in range(0, len(stream), piece):
            events += sum(1 for _ in parser.feed(stream[start : start + piece]))
        assert events == 1
        held, peak = tracemalloc.get_traced_memory()
        assert peak <= 3 * size
        assert held < size / 10, "the buffer outlives its event"
    finally:
        tracemalloc.stop()
