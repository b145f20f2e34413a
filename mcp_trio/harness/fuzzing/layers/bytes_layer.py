"""Bytes: what a framer has to stand. Lines cut anywhere, CR LF, noise, bad UTF-8, long lines."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from hypothesis import strategies as st

from mcp_trio.harness.fuzzing.cases import Ask, Case, EndInput, Raw, Send, Step
from mcp_trio.harness.fuzzing.scope import Scope, numbered
from mcp_trio.harness.fuzzing.speech import Speech
from mcp_trio.testing.strategies import chunks_of, damaged_lines, noise_lines

Draw = Callable[[st.SearchStrategy[Any]], Any]


def cases(scope: Scope) -> st.SearchStrategy[Case]:
    """Bytes where there are any, and frames of them elsewhere."""
    if scope.bytes:
        some = [_clean(scope), _clean(scope), _dirty(scope), _long(scope)]
        if scope.process:
            some.append(_unfinished(scope))
        return st.one_of(*some)
    return st.lists(_bad_frames(), min_size=1, max_size=8).map(
        lambda steps: Case("bytes", tuple(steps))
    )


@st.composite
def _lines(draw: Draw, scope: Scope) -> list[bytes]:
    """Good requests as lines. Their ids are numbers below those of cases."""
    speech = Speech(scope.revision)
    speech.base = 0
    asks = st.lists(scope.asks, min_size=1, max_size=6)
    made: list[Ask] = draw(asks)
    return [speech.request(number, ask.method, ask.params) for number, ask in enumerate(made, 1)]


@st.composite
def _clean(draw: Draw, scope: Scope) -> Case:
    """Valid lines, cut into pieces anywhere, with both line ends and blank lines between."""
    data = b""
    for line in draw(_lines(scope)):
        data += draw(st.sampled_from([b"", b"", b"\n", b"\r\n"])) + line
        data += draw(st.sampled_from([b"\n", b"\n", b"\r\n"]))
    return Case("bytes", (Raw(tuple(draw(chunks_of(data))), "valid lines in pieces", clear=True),))


@st.composite
def _dirty(draw: Draw, scope: Scope) -> Case:
    """Valid lines with others between them that are damaged, noise, or no text."""
    pieces: list[bytes] = list(draw(_lines(scope)))
    bad = st.one_of(
        damaged_lines().map(lambda damaged: damaged.line), noise_lines(), st.binary(max_size=60)
    )
    for piece in draw(st.lists(bad, min_size=1, max_size=5)):
        pieces.insert(draw(st.integers(0, len(pieces))), piece)
    data = b"\n".join(pieces) + b"\n"
    return Case("bytes", (Raw(tuple(draw(chunks_of(data))), "lines and noise"),))


@st.composite
def _long(draw: Draw, scope: Scope) -> Case:
    """Lines of up to a megabyte: as a message, as a string in one, as nothing at all."""
    size = draw(st.sampled_from([4_095, 4_096, 65_535, 65_536, 70_000, 300_000, 1_000_000]))
    speech = Speech(scope.revision)
    long: Step
    kind = draw(st.integers(0, 3))
    if kind == 0:
        long = Raw((b"x" * size + b"\n",), f"{size} bytes of noise")
    elif kind == 1:
        long = Raw((b" " * size + b"\n",), f"{size} blanks")
    elif kind == 2:
        frame = speech.request(1, "harness/long", {"text": "é" * (size // 2)})
        long = Raw((frame + b"\n",), f"a message of {size} bytes", clear=True)
    else:
        frame = speech.request(1, "harness/long", {"list": list(range(size // 8))})
        long = Raw((frame[: size // 2], frame[size // 2 :] + b"\n"), "a long list", clear=True)
    return Case("bytes", (long, *numbered([draw(scope.asks)], 2)))


@st.composite
def _unfinished(draw: Draw, scope: Scope) -> Case:
    """Half a line, or a whole one without its end, and then the end of the input."""
    data = draw(_lines(scope))[0]
    data = data[: draw(st.integers(0, len(data)))]
    return Case("bytes", (Raw((data,), "half a line"), EndInput()))


def _bad_frames() -> st.SearchStrategy[Step]:
    damaged = damaged_lines().map(lambda damaged: Send(damaged.line, f"damaged: {damaged.kind}"))
    noise = noise_lines().map(lambda line: Send(line, "noise"))
    bytes_ = st.binary(max_size=60).map(lambda line: Send(line, "bytes"))
    return st.one_of(damaged, noise, bytes_)
