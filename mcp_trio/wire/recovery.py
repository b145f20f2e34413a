"""Reading what can be read for certain in a JSON text that is damaged.

A peer may write half of an emoji, NaN, or bytes in some old encoding. The text is no JSON, but it
is an answer that a caller waits for, so its id is looked for. A wrong id would fail somebody else's
call, so the reading is careful: only members at the top level count, strings are strings, brackets
have to match, and the first thing that does not fit the grammar of an object ends the search. What
stood before it is kept; an id that the end of the text may have cut is not.

The work is linear whatever the text is. A loop over tokens would be too slow for megabytes, so one
regular expression takes everything between two brackets, flat containers included, in one step.
Its repetitions are possessive (`*+`): what they have taken they never give back, which is what
makes backtracking, and with it quadratic time, impossible.
"""

from __future__ import annotations

import codecs
import re
from collections.abc import Iterator
from itertools import islice
from typing import Any

import msgspec

_MOST_MEMBERS = 10_000  # an envelope has five; beyond this nobody speaks JSON-RPC

_SPACE = rb"[ \t\r\n]*+"
_STRING = rb'"(?:[^"\\]++|\\.)*+"'
_FLAT = rb'(?:[^"\[\]{}]++|' + _STRING + rb")*+"
_LEAF = rb"\[" + _FLAT + rb"\]|\{" + _FLAT + rb"\}"


def _compile(pattern: bytes) -> re.Pattern[bytes]:
    return re.compile(pattern, re.DOTALL)


_KEY = _compile(_SPACE + rb"(" + _STRING + rb")" + _SPACE + rb":" + _SPACE)
# A number or a word counts only with what ends it in sight: 12 may be the start of 123.
_SCALAR = _compile(_STRING + rb'|[^ \t\r\n"\[\]{},]++(?=' + _SPACE + rb"[,}\]])")
_BRACKETS = _compile(
    rb'(?:[^"\[\]{}]++|' + _STRING + rb"|" + _LEAF + rb')*+(?:([\[{]++)|([\]}]++)|"|\Z)'
)
_LEAF_ALONE = _compile(_LEAF)
_COMMA = _compile(_SPACE + rb"," + _SPACE)
_OPEN_ARRAY = _compile(_SPACE + rb"\[" + _SPACE)
_CLOSE_ARRAY = _compile(_SPACE + rb"\]" + _SPACE + rb"\Z")
_OPEN_OBJECT = _compile(_SPACE + rb"\{")
_OPENERS = bytes.maketrans(b"]}", b"[{")

_load = msgspec.json.Decoder().decode


def recover(text: bytes) -> tuple[str | int | None, bool]:
    """The id of a damaged object, and whether it has a "method" (so that it is a request)."""
    found: str | int | None = None
    is_request = False
    for key, start, end in islice(_members(text), _MOST_MEMBERS):
        if key == "id":
            identifier = _decoded(text[start:end]) if end is not None else None
            # As everywhere, the last of duplicate keys wins, and True is not 1.
            found = identifier if type(identifier) in (str, int) else None
        elif key == "method":
            is_request = True
    return found, is_request


def elements(text: bytes) -> Iterator[bytes]:
    """The elements of a damaged array, one after the other.

    Where the grammar breaks, all the rest is the last one, so that no damage goes unseen.
    """
    opening = _OPEN_ARRAY.match(text)
    if opening is None:
        return
    start = opening.end()
    while (end := _value_end(text, start)) is not None:
        yield text[start:end]
        if _CLOSE_ARRAY.match(text, end):
            return
        comma = _COMMA.match(text, end)
        start = comma.end() if comma else end
        if not comma:
            break
    yield text[start:]


def _members(text: bytes) -> Iterator[tuple[Any, int, int | None]]:
    """Each top-level member of an object: key, start and end of its value (None: it is cut off)."""
    before = _OPEN_OBJECT.match(text)
    while before is not None and (key := _KEY.match(text, before.end())) is not None:
        start = key.end()
        end = _value_end(text, start)
        yield _decoded(key[1]), start, end
        if end is None:
            return
        before = _COMMA.match(text, end)


def _value_end(text: bytes, start: int) -> int | None:
    """Where the value ends that starts at `start`; None if that cannot be told."""
    if scalar := _SCALAR.match(text, start):
        return scalar.end()
    if text[start : start + 1] not in (b"[", b"{"):
        return None
    if leaf := _LEAF_ALONE.match(text, start):
        return leaf.end()
    still_open = bytearray()
    for brackets in _BRACKETS.finditer(text, start):
        opened, closed = brackets.groups()
        if opened:
            still_open += opened
        elif closed:
            closed = closed[: len(still_open)]
            if not still_open.endswith(closed[::-1].translate(_OPENERS)):
                return None
            del still_open[len(still_open) - len(closed) :]
            if not still_open:
                return brackets.start(2) + len(closed)
        else:
            return None
    return None


def _decoded(text: bytes) -> Any:
    """The string or number that `text` is; None if it is something else, or damaged itself."""
    if text.startswith((b"[", b"{")):
        return None
    try:
        return _load(text)
    except (msgspec.MsgspecError, ValueError):
        return None


# Why it could not be decoded ------------------------------------------------------------------

_OFFSET = re.compile(r"\(byte (\d+)\)")
_CONSTANT = re.compile(rb"-?(?:NaN|nan|Infinity|inf)")
_LONE_SURROGATE = re.compile(
    rb"\\u[dD][89abAB]..(?!\\u[dD][c-fC-F])|(?<!\\u[dD][89abAB]..)\\u[dD][c-fC-F].."
)


def explain(text: bytes, error: Exception) -> str:
    """What is wrong with `text` and where, in better words than those of the decoder's `error`."""
    if "UTF-8" in str(error):
        return f"invalid UTF-8 at byte {_first_bad_byte(text)}"
    # An escaped backslash is no start of an escape; blanks of the same length keep the offsets.
    if lone := _LONE_SURROGATE.search(text.replace(b"\\\\", b"  ")):
        return f"lone surrogate {lone[0].decode('ascii', 'replace')} at byte {lone.start()}"
    if at := _OFFSET.search(str(error)):
        offset = int(at[1])
        if constant := _CONSTANT.match(text, max(offset - 1, 0)) or _CONSTANT.match(text, offset):
            return f"{constant[0].decode()} at byte {constant.start()} is not JSON"
    return str(error).partition(" - at `")[0]


def _first_bad_byte(text: bytes) -> int:
    """The offset of the first byte that is not UTF-8, found without decoding all of `text`."""
    position = 0
    while position < len(text):
        piece = memoryview(text)[position : position + 65536]
        try:
            _, used = codecs.utf_8_decode(piece, "strict", position + len(piece) == len(text))
        except UnicodeDecodeError as error:
            return position + error.start
        position += used
    return len(text)
