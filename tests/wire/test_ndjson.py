"""The framer: whatever the split, the same lines; linear time; bounded memory."""

from __future__ import annotations

import time
import tracemalloc
from collections.abc import Callable, Iterable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mcp_trio.testing.strategies import WireStream, chunks_of, wire_streams
from mcp_trio.wire.jsonrpc import decode
from mcp_trio.wire.ndjson import LineFramer, LineTooLong

TRAPS = "\u2028 \u2029 \x85 \x0b \x0c \x1c \x1d \x1e \U0001f600 \ufeff"


def framed(chunks: Iterable[bytes], limit: int = 1 << 20) -> list[bytes]:
    framer = LineFramer(limit)
    lines = [line for chunk in chunks for line in framer.feed(chunk)]
    return [*lines, *framer.end()]


def framed_until_too_long(chunks: Iterable[bytes], limit: int) -> tuple[list[bytes], bool]:
    lines: list[bytes] = []
    framer = LineFramer(limit)
    try:
        for chunk in chunks:
            for line in framer.feed(chunk):
                lines.append(line)
    except LineTooLong:
        return lines, True
    return [*lines, *framer.end()], False


@given(wire_streams())
@settings(max_examples=70)
def test_same_messages_whatever_the_stream_looks_like(stream: WireStream) -> None:
    """Splits, CR LF, noise, blank lines, a BOM and a missing last newline change no message."""
    lines = framed(stream.chunks)
    assert lines == stream.lines
    received = [decode(line) for line in lines]
    assert received == stream.received
    assert repr(received) == repr(stream.received)  # 1, 1.0 and True are equal to ==


def test_every_single_split_of_a_hard_stream() -> None:
    """A cut at any byte, inside characters, escapes, CR LF and the BOM, is harmless."""
    lines = [f'{{"a":"{TRAPS}\\u00e9\\n"}}'.encode(), b"noise", "é".encode(), b"[1]"]
    stream = b"\xef\xbb\xbf" + b"\r\n\n".join(lines) + b"\r"
    for cut in range(len(stream) + 1):
        assert framed([stream[:cut], stream[cut:]]) == lines
    assert framed(bytes([byte]) for byte in stream) == lines


@pytest.mark.parametrize(
    ("stream", "lines"),
    [
        (b"", []),
        (b"\n\r\n  \n\t\r\n", []),
        (b"a", [b"a"]),
        (b"a\r", [b"a"]),
        (b"a\r\r\n", [b"a\r"]),
        (b"\ra\n", [b"\ra"]),
        (b"a\rb\n", [b"a\rb"]),
        (b"\xef\xbb\xbf\n\xef\xbb\xbfa\n", [b"\xef\xbb\xbfa"]),
        (b"\xef\xbb\xbf", []),
        (b"\xef\xbb", [b"\xef\xbb"]),
        (b" a \n", [b" a "]),
        (b"a\x00b\n", [b"a\x00b"]),
    ],
)
def test_line_endings(stream: bytes, lines: list[bytes]) -> None:
    """One CR goes, blank lines go, a BOM goes at the start only, and nothing else does."""
    assert framed([stream]) == lines
    assert framed(bytes([byte]) for byte in stream) == lines


@given(st.data(), st.lists(st.integers(1, 12), max_size=6), st.sampled_from([b"\n", b"\r\n"]))
def test_limit_is_exact_and_loses_nothing_before(
    data: st.DataObject, sizes: list[int], ending: bytes
) -> None:
    """Lines up to the limit arrive, all before the first longer one arrive, then it raises."""
    limit = 8
    lines = [bytes([ord("a") + index]) * size for index, size in enumerate(sizes)]
    chunks = data.draw(chunks_of(b"".join(line + ending for line in lines)))
    fitting = next((i for i, size in enumerate(sizes) if size > limit), len(sizes))
    expected = lines[:fitting], fitting < len(sizes)
    assert framed_until_too_long(chunks, limit) == expected


def test_limit_is_seen_before_the_line_ends() -> None:
    """An endless line is refused once it passes the limit, and its bytes are let go."""
    framer = LineFramer(1000)
    assert list(framer.feed(b"x" * 1000)) == []
    with pytest.raises(LineTooLong, match="longer than 1000 bytes") as caught:
        list(framer.feed(b"x"))
    assert caught.value.limit == 1000
    for _ in range(2):  # what follows is the tail of a message, never to be taken for one
        with pytest.raises(LineTooLong):
            list(framer.feed(b'\n{"jsonrpc":"2.0"}\n'))
    assert list(framer.end()) == []


def test_a_limit_below_one_is_refused() -> None:
    """A nonsensical limit is an error at once and not at the first message."""
    with pytest.raises(ValueError, match="positive number of bytes"):
        LineFramer(0)


def cost(work: Callable[[], object]) -> float:
    """CPU seconds of the fastest of three runs."""
    best = float("inf")
    for _ in range(3):
        before = time.thread_time()
        work()
        best = min(best, time.thread_time() - before)
    return best


@pytest.mark.parametrize(("piece", "size"), [(1, 60_000), (4096, 8_000_000)])
def test_time_is_linear_in_bytes(piece: int, size: int) -> None:
    """Four times the line costs about four times the time, not sixteen."""

    def feed(length: int) -> None:
        line = b"x" * length + b"\n"
        chunks = (line[start : start + piece] for start in range(0, len(line), piece))
        assert [len(line) for line in framed(chunks, length)] == [length]

    # The slack is for page faults, which larger blocks cause; quadratic work takes many seconds.
    assert cost(lambda: feed(4 * size)) < 6 * cost(lambda: feed(size)) + 0.2


@pytest.mark.parametrize(("piece", "size"), [(3, 120_000), (4096, 6_000_000)])
def test_memory_is_at_most_three_times_the_line(piece: int, size: int) -> None:
    """Neither small nor tiny pieces make the buffer larger than three lines."""
    tracemalloc.start()
    try:
        framer = LineFramer(size)
        for _ in range(size // piece):
            assert list(framer.feed(bytes(piece))) == []
        lines = list(framer.feed(b"\n"))
        peak = tracemalloc.get_traced_memory()[1]
        assert [len(line) for line in lines] == [size // piece * piece]
        assert peak <= 3 * size
        del lines
        assert tracemalloc.get_traced_memory()[0] < size / 10, "the buffer outlives its line"
    finally:
        tracemalloc.stop()


@given(st.lists(st.binary(max_size=30), max_size=10))
@settings(max_examples=200)
def test_any_bytes_are_split_at_line_feeds_only(chunks: list[bytes]) -> None:
    """The framer agrees with the plainest possible definition of a line."""
    lines = b"".join(chunks).removeprefix(b"\xef\xbb\xbf").split(b"\n")
    plain = [line.removesuffix(b"\r") for line in lines]
    assert framed(chunks) == [line for line in plain if line.strip()]
