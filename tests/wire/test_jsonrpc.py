"""The codec: exact round trips, clear refusals, and ids recovered from damaged lines."""

from __future__ import annotations

import collections
import datetime
import decimal
import enum
import gc
import json
import math
import sys
import time
import tracemalloc
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from mcp_trio.testing import strategies
from mcp_trio.testing.strategies import Damaged
from mcp_trio.wire.jsonrpc import (
    INVALID_REQUEST,
    MAX_BATCH,
    MAX_DEPTH,
    MISSING,
    PARSE_ERROR,
    Batch,
    EncodeError,
    ErrorObject,
    ErrorResponse,
    Malformed,
    Message,
    Noise,
    Notification,
    Request,
    RequestId,
    Response,
    decode,
    encode,
)
from mcp_trio.wire.recovery import explain, recover
from mcp_trio.wire.values import too_deep

MEGABYTES = 5_000_000


def malformed(line: bytes) -> Malformed:
    received = decode(line)
    assert isinstance(received, Malformed), received
    assert received.line == line
    assert received.reason
    return received


def nested(levels: int) -> bytes:
    """A response whose text is `levels` deep."""
    inner = levels - 1
    return b'{"jsonrpc":"2.0","id":7,"result":' + b'{"a":' * (inner - 1) + b"{}" + b"}" * inner


# Round trips ----------------------------------------------------------------------------------


@given(st.data(), strategies.messages() | strategies.batches())
def test_round_trip(data: st.DataObject, message: Message | Batch) -> None:
    """What one side encodes, in any spelling, is what the other side decodes, types included."""
    line = data.draw(strategies.lines_of(message))
    assert b"\n" not in line
    received = decode(line)
    assert received == message
    assert repr(received) == repr(message)  # 1, 1.0 and True are equal to ==


@pytest.mark.parametrize(
    "identifier", [0, -1, 2**53 + 1, 2**64, -(10**40), "1", "", "null", "\u2028"]
)
def test_ids_are_exact(identifier: RequestId) -> None:
    """Ids keep their kind and every digit."""
    received = decode(encode(Request(identifier, "ping")))
    assert isinstance(received, Request)
    assert (type(received.id), received.id) == (type(identifier), identifier)


@pytest.mark.parametrize("identifier", ["null", "true", "1.5", "1.0", "1e2", "[1]", "{}"])
@pytest.mark.parametrize("rest", ['"method":"m"', '"result":{}'])
def test_other_ids_are_refused(identifier: str, rest: str) -> None:
    """null, booleans, fractions and containers are no ids, and are not rounded to one."""
    bad = malformed(f'{{"jsonrpc":"2.0","id":{identifier},{rest}}}'.encode())
    assert bad.code == INVALID_REQUEST
    assert bad.id is None
    assert bad.is_request == ("method" in rest)
    assert '"id" has to be a string or an integer' in bad.reason


def test_big_integers_are_exact() -> None:
    """No integer is rounded, up to the digits Python converts; beyond, the call fails by its id."""
    number = int("9" * 4300)
    assert decode(encode(Response(1, {"n": number}))) == Response(1, {"n": number})
    bad = malformed(b'{"jsonrpc":"2.0","result":{"n":' + b"9" * 4301 + b'},"id":1}')
    assert (bad.code, bad.id) == (PARSE_ERROR, 1)


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (b'{"jsonrpc":"2.0","method":"m","params":null}', Notification("m")),
        (b'{"jsonrpc":"2.0","method":"m","params":{}}', Notification("m", {})),
        (b'{"jsonrpc":"2.0","id":1,"result":{},"error":null}', Response(1, {})),
        (
            b'{"jsonrpc":"2.0","id":1,"result":null,"error":{"code":1,"message":"m"}}',
            ErrorResponse(1, ErrorObject(1, "m")),
        ),
        (
            b'{"jsonrpc":"2.0","error":{"code":1,"message":"m","data":null,"x":1}}',
            ErrorResponse(None, ErrorObject(1, "m", None)),
        ),
        (b'{"jsonrpc":"2.0","id":1,"id":2,"method":"a","method":"b"}', Request(2, "b")),
        (b' \t{"jsonrpc":"2.0","id":1,"method":"m","new":[1]}\r ', Request(1, "m")),
        (b'\xef\xbb\xbf{"jsonrpc":"2.0","id":1,"method":"m"}', Request(1, "m")),
        (b'{\n  "jsonrpc": "2.0",\n  "id": 1,\n  "method": "m"\n}', Request(1, "m")),
    ],
)
def test_tolerated_spellings(line: bytes, message: Message) -> None:
    """null counts as absent, the last duplicate wins, unknown members and a BOM are ignored."""
    assert decode(line) == message


def test_absent_data_differs_from_null() -> None:
    """An error with null data stays so, one without data does not get any."""
    assert b"data" not in encode(ErrorResponse(1, ErrorObject(1, "m", MISSING)))
    assert b'"data":null' in encode(ErrorResponse(1, ErrorObject(1, "m", None)))


# Refused lines --------------------------------------------------------------------------------


@given(st.binary(max_size=60))
@example(b"")
@example(b"\xef\xbb\xbf" * 3000)
@example(b"{")
@example(b'[{"')
@example(b"[{" * 3000)
@example(b"[{},[" * 3000)
@example(b'{"id":')
@example(b'{"\\ud800":1,"id":2}')
@settings(max_examples=200)
def test_decode_never_raises_for_bytes(line: bytes) -> None:
    """decode is total."""
    decode(line)


@given(st.data(), strategies.messages() | strategies.batches())
@settings(max_examples=200)
def test_decode_never_raises_for_mutilated_messages(
    data: st.DataObject, message: Message | Batch
) -> None:
    """decode is total close to valid messages too, where its recovery has most to do."""
    line = bytearray(encode(message))
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(0, len(line)))
        line[at : at + data.draw(st.integers(0, 3))] = data.draw(
            st.binary(max_size=2) | st.sampled_from([b'"', b"\\", b"{", b"]", b"NaN", b"\\ud800"])
        )
    decode(bytes(line))


@given(strategies.noise_lines())
def test_noise_is_no_message(line: bytes) -> None:
    """Banners and log lines, also those that start with a bracket, are told from messages."""
    assert decode(line) == Noise(line)


@given(strategies.damaged_lines())
@settings(max_examples=120)
def test_damaged_lines_keep_their_id(damaged: Damaged) -> None:
    """Whatever is broken in a line, its own id and kind are found and no decoy is taken."""
    bad = malformed(damaged.line)
    assert (bad.id, type(bad.id)) == (damaged.id, type(damaged.id))
    assert bad.is_request == damaged.is_request
    decodable = damaged.kind.startswith("bad ") and damaged.kind != "bad UTF-8"
    assert bad.code == (INVALID_REQUEST if decodable else PARSE_ERROR)


@pytest.mark.parametrize(
    ("line", "identifier"),
    [
        (b'{"jsonrpc":"2.0","id":12', None),  # may have been 123
        (b'{"jsonrpc":"2.0","id":"ab', None),
        (b'{"jsonrpc":"2.0","id":12,', 12),
        (b'{"jsonrpc":"2.0","result":{"id":9},"i', None),
        (b'{"result":{"a":[]],"id":9},"id":3}', None),  # brackets that do not match end the search
        (b'{"result":{"t":"say "hi"},"id":9,"x":1},"id":3}', None),
        (b'{"result":NaN,"id":1,"id":2}', 2),
        (b'{"result":NaN,"id":1,"id":true}', None),
        (b'{"result":NaN,"id":1.5}', None),
        (b'{"result":NaN,"id":"\\ud800"}', None),
        (b'{"result":NaN,"\\u0069d":5}', 5),
        (b'{"result":NaN,"id":{"id":5}}', None),
        (b'{"a":1}},"id":5,"x":NaN', None),
    ],
)
def test_an_id_is_recovered_only_if_it_is_certain(line: bytes, identifier: RequestId) -> None:
    """A wrong id fails somebody else's call, so in doubt there is none."""
    assert malformed(line).id == identifier


@pytest.mark.parametrize(
    ("fault", "reason"),
    [
        (b'"\\ud800"', "lone surrogate \\ud800 at byte 35"),
        (b'"\\\\ud800\\udc00"', "lone surrogate \\udc00 at byte 42"),
        (b"NaN", "NaN at byte 34 is not JSON"),
        (b"-Infinity", "-Infinity at byte 34 is not JSON"),
        (b'"\xff"', "invalid UTF-8 at byte 35"),
        (b"1e999", "Number out of range"),
        (b"[" * 600 + b"]" * 600, "nested deeper than 512 levels"),
    ],
)
def test_reasons_say_what_and_where(fault: bytes, reason: str) -> None:
    """A person can find the fault in the line."""
    assert malformed(b'{"jsonrpc":"2.0","id":7,"result": ' + fault + b"}").reason == reason


def test_a_far_away_bad_byte_is_located() -> None:
    """The position of bad UTF-8 is exact beyond one block and where a block cuts a character."""
    start = b'{"x":"' + "é".encode() * 100_000
    assert malformed(start + b'\xff"}').reason == f"invalid UTF-8 at byte {len(start)}"


@pytest.mark.parametrize("line", [b"1", b'"text"', b"null", b"[]", b"true"])
def test_json_that_is_no_message_at_all(line: bytes) -> None:
    """Sound JSON is never noise."""
    assert malformed(line).code == INVALID_REQUEST


def test_reprs_stay_short() -> None:
    """A huge bad line does not flood a log."""
    assert len(repr(decode(b"{" + b"x" * 10_000))) < 400
    assert len(repr(decode(b"x" * 10_000))) < 400


# Batches --------------------------------------------------------------------------------------


def test_bad_items_do_not_cost_the_others() -> None:
    """In a sound array each bad item is a Malformed of its own."""
    received = decode(b'[{"jsonrpc":"2.0","id":1,"result":{}},3,[],{"id":4,"method":"m"}]')
    assert isinstance(received, Batch)
    first, *rest = received.items
    assert first == Response(1, {})
    assert [type(item) for item in rest] == [Malformed] * 3
    assert [(i.id, i.is_request) for i in rest if isinstance(i, Malformed)] == [
        (None, False),
        (None, False),
        (4, True),
    ]


@pytest.mark.parametrize("ending", [b"]", b",]", b"] x", b"", b',{"id":9', b" {}]"])
def test_a_damaged_batch_is_taken_apart(ending: bytes) -> None:
    """One undecodable item fails by its id, the others arrive, and no damage goes unseen."""
    received = decode(
        b'[ {"jsonrpc":"2.0","id":1,"result":{}} , {"jsonrpc":"2.0","id":2,"result":NaN}' + ending
    )
    assert isinstance(received, Batch)
    sound, damaged, *rest = received.items
    assert sound == Response(1, {})
    assert isinstance(damaged, Malformed)
    assert damaged.id == 2
    assert [type(item) for item in rest] == ([] if ending == b"]" else [Malformed])


def test_batches_are_bounded() -> None:
    """A short line cannot make millions of objects; one too many is refused both ways."""
    item = encode(Notification("m"))
    for separator in (b",", b",NaN,"):
        assert isinstance(decode(b"[" + separator.join([item] * (MAX_BATCH + 1)) + b"]"), Malformed)
    for count in (0, MAX_BATCH + 1):
        with pytest.raises(EncodeError, match=f"1 to 10000 messages, not {count}"):
            encode(Batch((Notification("m"),) * count))


# Depth ----------------------------------------------------------------------------------------


def test_the_depth_bound_is_exact() -> None:
    """MAX_DEPTH levels decode, one more does not, and it says so; the same holds for encoding."""
    deepest = decode(nested(MAX_DEPTH))
    assert isinstance(deepest, Response)
    assert encode(deepest) == nested(MAX_DEPTH)
    bad = malformed(nested(MAX_DEPTH + 1))
    assert (bad.reason, bad.id) == ("nested deeper than 512 levels", 7)
    with pytest.raises(EncodeError, match=r"result\.a\.a.*more.*is nested deeper than 512 levels"):
        encode(Response(1, {"a": deepest.result}))
    assert isinstance(decode(b"[" * 100_000), Malformed)


def test_depth_does_not_hang_on_the_callers_stack() -> None:
    """A caller that is deep itself gets the same answers."""

    def descend(levels: int) -> list[object]:
        if levels:
            return descend(levels - 1)
        deepest = decode(nested(MAX_DEPTH))
        assert isinstance(deepest, Response)
        return [encode(deepest), decode(nested(MAX_DEPTH + 1)), decode(nested(MAX_DEPTH)[:-1])]

    depth = sys.getrecursionlimit() - 300
    text, too_much, cut = descend(depth)
    assert text == nested(MAX_DEPTH)
    assert isinstance(too_much, Malformed)
    assert isinstance(cut, Malformed)


def test_depth_is_safe_under_a_raised_recursion_limit() -> None:
    """A program that raised Python's limit is not brought down by a peer's brackets."""
    limit = sys.getrecursionlimit()
    sys.setrecursionlimit(1_000_000)
    try:
        for brackets in (b"[", b'{"a":', b'"]","["[[', b'{"\\"]]":['):
            malformed(b'{"a":' + brackets * 500_000)
    finally:
        sys.setrecursionlimit(limit)


def plain_depth(value: Any) -> int:
    if isinstance(value, dict | list):
        members = value.values() if isinstance(value, dict) else value
        return 1 + max(map(plain_depth, members), default=0)
    return 0


@given(st.data(), strategies.json_values(max_leaves=20))
def test_depth_of_a_text_is_counted_outside_strings(data: st.DataObject, value: Any) -> None:
    """Brackets, quotes and backslashes inside strings neither add to the depth nor hide it."""
    decoy = data.draw(
        st.sampled_from(['"', "\\", "[[[{", "]]}", '\\"', '"[', "[]" * 600, "[" * 600])
    )
    value = {decoy: value, "more": [decoy, [{}] * data.draw(st.integers(0, 600))]}
    levels = MAX_DEPTH - plain_depth(value) + data.draw(st.integers(-1, 1))
    text = b"[" * levels + json.dumps(value).encode() + b"]" * levels
    assert too_deep(text) == (levels + plain_depth(value) > MAX_DEPTH)


# Cost -----------------------------------------------------------------------------------------


def seconds(work: Callable[[], object]) -> float:
    """CPU seconds of the faster of two runs."""
    best = math.inf
    for _ in range(2):
        before = time.thread_time()
        work()
        best = min(best, time.thread_time() - before)
    return best


HOSTILE = {
    "leaves": b"[],",
    "pairs": b"[[]],",
    "unbalanced": b"[[],",
    "objects": b'{"a":',
    "open strings": b'["',
    "strings": b'"",',
    "members": b'1,"a":',
    "keys": b'"id":1,',
    "surrogates": b'"\\ud800',
    "backslashes": b"\\",
    "quotes": b'\\"',
    "escaped quotes": b'"\\"',
    "bytes": b"\xff",
    "spaces": b" ",
    "digits": b"1",
    "text": b'{"type":"text","text":"some words \\n \\u00e9","x":[1,2.5,null]},',
}


@pytest.mark.parametrize("unit", HOSTILE.values(), ids=HOSTILE)
@pytest.mark.parametrize(
    "head", [b'{"result":', b'{"result":"', b'[{"a":'], ids=["", "str", "list"]
)
def test_damaged_megabytes_are_cheap(unit: bytes, head: bytes) -> None:
    """No repetition makes decoding or recovery slow: 4 times the line, about 4 times the time."""

    def line(size: int) -> bytes:
        return head + unit * (size // len(unit)) + b'NaN,"id":3}'

    small, large = line(100_000), line(400_000)
    assert seconds(lambda: decode(large)) < 10 * seconds(lambda: decode(small)) + 0.02


@pytest.mark.parametrize("fault", [b'"\\ud800"', b"NaN", b'"\xff"', b"[" * 5000 + b"]" * 5000])
def test_a_large_damaged_answer_is_recovered_quickly(fault: bytes) -> None:
    """A megabytes long result with one fault in it fails its own call, well under a second."""
    item = b'{"type":"text","text":"some words \\n","meta":{"a":[1,2]}},'
    line = b'{"result":[' + item * (MEGABYTES // len(item)) + fault + b'],"jsonrpc":"2.0","id":"x"}'
    gc.collect()
    gc.freeze()  # what other tests have left alive is no cost of this line
    try:
        before = time.thread_time()
        assert malformed(line).id == "x"
        assert time.thread_time() - before < 1
    finally:
        gc.unfreeze()


def test_recovery_needs_little_memory() -> None:
    """Looking for the depth, the fault and the id costs less than three times the line."""
    line = b'{"result":"' + "é\U0001f600".encode() * 200_000 + b'\xff\\"","x":[[],{}],"id":3}'
    tracemalloc.start()
    try:
        too_deep(line)
        explain(line, ValueError("Invalid UTF-8"))
        assert recover(line) == (3, False)
        assert tracemalloc.get_traced_memory()[1] < 3 * len(line)
    finally:
        tracemalloc.stop()


# Encoding -------------------------------------------------------------------------------------


class Level(enum.StrEnum):
    INFO = "info"


class Text(str):
    def __str__(self) -> str:
        return "something else"


class Colour(enum.Enum):
    RED = 1


Point = collections.namedtuple("Point", "x y")


def looped() -> dict[str, Any]:
    loop: dict[str, Any] = {}
    loop["a"] = [loop, loop]
    return loop


@pytest.mark.parametrize(
    ("value", "complaint"),
    [
        (math.nan, r"result\.x is nan"),
        ([0, {"y": math.inf}], r"result\.x\[1\]\.y is inf"),
        ([None, -math.inf], r"result\.x\[1\] is -inf"),
        ({"a b": "\ud800"}, r"result\.x\['a b'\] holds a lone surrogate \(U\+D800\)"),
        ({"\udc00": 1}, r"result\.x has a key that holds a lone surrogate \(U\+DC00\)"),
        ({1, 2}, r"result\.x is of type set"),
        (b"bytes", r"result\.x is of type bytes"),
        (object(), r"result\.x is of type object"),
        (datetime.date(2026, 1, 1), r"result\.x is of type date"),
        (decimal.Decimal(1), r"result\.x is of type Decimal"),
        (Colour.RED, r"result\.x is of type Colour"),
        ({"k": {1: 2}}, r"result\.x\.k has a key of type int"),
        ({None: 2}, r"result\.x has a key of type NoneType"),
        ([10**4300], r"result\.x\[0\] is an integer of more than 4300 digits"),
        (looped(), r"is nested deeper than 512 levels"),
    ],
)
def test_what_json_cannot_carry_is_refused_by_path(value: Any, complaint: str) -> None:
    """Nothing is silently turned into something else, and the culprit is named."""
    with pytest.raises(EncodeError, match=complaint):
        encode(Response(1, {"ok": [None, 1.5, "NaN"], "x": value}))
    with pytest.raises(EncodeError, match=complaint.replace("result", "error.data")):
        encode(ErrorResponse(1, ErrorObject(1, "m", {"x": value})))


def test_paths_name_the_item_of_a_batch() -> None:
    """In a batch the path starts with the message's index."""
    with pytest.raises(EncodeError, match=r"\[1\]\.params\.p is nan"):
        encode(Batch((Notification("m"), Notification("m", {"p": math.nan}))))


def test_errors_do_not_repeat_values() -> None:
    """What is sent may be secret: the error names its place and its type only."""
    with pytest.raises(EncodeError) as caught:
        encode(Request(1, "m", {"token": "hunter2\ud800", "other": b"hunter2"}))
    assert "hunter2" not in str(caught.value)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ((1, (2,)), b"[1,[2]]"),
        (Point(1, 2), b"[1,2]"),
        (collections.OrderedDict(a=1), b'{"a":1}'),
        (Level.INFO, b'"info"'),
        (Text("text"), b'"text"'),
        (collections.defaultdict(list, {Text("k"): [True, None]}), b'{"k":[true,null]}'),
        (type("Float", (float,), {})(1.5), b"1.5"),
        (-0.0, b"-0.0"),
    ],
)
def test_subclasses_of_json_types_are_written_as_these(value: Any, text: bytes) -> None:
    """Named tuples, ordered dicts and string enums are what they extend."""
    assert encode(Response(1, {"x": value})) == b'{"jsonrpc":"2.0","id":1,"result":{"x":%b}}' % text


@pytest.mark.parametrize("identifier", [None, True, 1.0, b"1"])
def test_bad_ids_cannot_be_sent(identifier: Any) -> None:
    """Our own peer never sends an id that it would refuse."""
    for message in (Request(identifier, "m"), Response(identifier, {})):
        with pytest.raises(EncodeError, match="id has to be a string or an integer"):
            encode(message)


def test_bad_envelopes_cannot_be_sent() -> None:
    """Params and results are objects, and errors have a code and a message."""
    wrong: Any = [1]
    with pytest.raises(EncodeError, match="result has to be an object, not list"):
        encode(Response(1, wrong))
    with pytest.raises(EncodeError, match="params has to be an object, not list"):
        encode(Notification("m", wrong))
    with pytest.raises(EncodeError, match="error needs an integer"):
        encode(ErrorResponse(1, ErrorObject(wrong, "m")))
    with pytest.raises(EncodeError, match="malformed"):
        encode(Batch((malformed(b"{"),)))
