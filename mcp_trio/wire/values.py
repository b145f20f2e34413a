"""What JSON can carry: the bounds and the strictness that the codec's library leaves to us.

`too_deep` judges a text before it is decoded or sent. `find_fault` searches a value, item by item,
for what no text can say; it is slow and precise, and runs only when something is known to be amiss.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import accumulate
from math import isfinite
from typing import Any, Final, TypeAlias, TypeVar

MAX_DEPTH: Final = 512
"""The deepest nesting of objects and arrays in one text, the envelope (and batch) included."""

TOO_DEEP: Final = f"nested deeper than {MAX_DEPTH} levels"

_T = TypeVar("_T")
_R = TypeVar("_R")


# Depth of a text ------------------------------------------------------------------------------

_NOT_OPENING = bytes(byte for byte in range(256) if byte not in b"[{")
_NOT_STRUCTURE = bytes(byte for byte in range(256) if byte not in b'[]{}"')
_SQUARE_BRACKETS = bytes.maketrans(b"{}", b"[]")
_STEP = {ord("["): 1, ord("]"): -1}.__getitem__
_LEVELS_REMOVED_WHOLE = 8  # real messages are not deeper, and so never counted bracket by bracket


def too_deep(text: bytes) -> bool:
    """Whether `text` opens more than MAX_DEPTH containers inside each other.

    The decoder recurses in C, so this has to be known before it runs: how deep it could go would
    otherwise hang on the caller's stack, or on a recursion limit that somebody raised. For a text
    that is no JSON the answer is right up to its first fault, which is as far as a decoder goes.
    """
    if len(text.translate(None, _NOT_OPENING)) <= MAX_DEPTH:
        return False
    # Brackets inside strings do not count. Without escapes a string lasts to the next quote, and
    # two quotes in a row, once all but structure is gone, bound nothing.
    if b"\\" in text:
        text = text.replace(b"\\\\", b"").replace(b'\\"', b"")
    text = text.translate(_SQUARE_BRACKETS, _NOT_STRUCTURE).replace(b'""', b"")
    brackets = b"".join(text.split(b'"')[::2])
    for level in range(_LEVELS_REMOVED_WHOLE):
        if level + brackets.count(b"[") <= MAX_DEPTH:
            return False
        brackets = brackets.replace(b"[]", b"")
    deepest = max(accumulate(map(_STEP, brackets)), default=0)
    return _LEVELS_REMOVED_WHOLE + deepest > MAX_DEPTH


# Values to be sent ----------------------------------------------------------------------------

_Trail: TypeAlias = "tuple[_Trail | None, str | int]"


def find_fault(root: Any) -> str | None:
    """Where in `root` the first thing stands that JSON cannot carry, and what it is; None if fine.

    Types are named, values are not: they may be secret. Subclasses of JSON's types count as these.
    """
    stack: list[tuple[Any, int, _Trail | None]] = [(root, 1, None)]
    while stack:
        value, depth, trail = stack.pop()
        children: list[tuple[str | int, Any]]
        if isinstance(value, dict):
            children = list(value.items())
            fault = next(filter(None, map(_key_fault, value)), None)
        elif isinstance(value, list | tuple):
            children = list(enumerate(value))
            fault = None
        else:
            children = []
            fault = _scalar_fault(value)
            depth = 0
        if depth > MAX_DEPTH:
            fault = f"is {TOO_DEEP}"
        if fault:
            return f"{_path(trail)} {fault}"
        stack.extend((child, depth + 1, (trail, key)) for key, child in reversed(children))
    return None


def _key_fault(key: Any) -> str | None:
    if not isinstance(key, str):
        return f"has a key of type {type(key).__name__}; keys have to be strings"
    return f"has a key that {fault}" if (fault := _scalar_fault(key)) else None


def _scalar_fault(value: Any) -> str | None:
    if isinstance(value, str):
        try:
            value.encode()
        except UnicodeEncodeError as error:
            code = ord(error.object[error.start])
            return f"holds a lone surrogate (U+{code:04X}), which UTF-8 cannot carry"
        return None
    if isinstance(value, float):
        return None if isfinite(value) else f"is {float(value)}, which JSON cannot carry"
    if isinstance(value, int):
        return None if abs(value) < 10**4300 else "is an integer of more than 4300 digits"
    if value is None:
        return None
    return f"is of type {type(value).__name__}, which is not a JSON type"


def _path(trail: _Trail | None) -> str:
    steps: list[str] = []
    while trail is not None:
        trail, key = trail
        if isinstance(key, int):
            steps.append(f"[{key}]")
        else:
            # Escaped, since the path goes to logs and a key may be anything.
            steps.append(f".{key}" if key.isidentifier() else f"[{key[:80]!a}]")
    if len(steps) > 20:
        steps[10:-10] = [f"...({len(steps) - 20} more)..."]
    return "".join(reversed(steps)).removeprefix(".") or "it"


def base_value(value: Any) -> Any:
    """The plain string or number in an instance of a subclass: the encoder knows exact types."""
    if isinstance(value, str):
        return str.__str__(value)
    if isinstance(value, float):
        return float(value)
    if isinstance(value, int):
        return int(value)
    raise TypeError(type(value).__name__)


# The stack ------------------------------------------------------------------------------------


def on_fresh_stack(function: Callable[[_T], _R], argument: _T) -> _R:
    """Call `function` in a thread of its own and wait for it.

    Python counts recursion in C against the depth of its caller. A caller that is itself deep would
    fail on a text that is well within MAX_DEPTH; a new thread starts from zero.
    """
    from concurrent.futures import ThreadPoolExecutor  # rarely needed, and slow to import

    with ThreadPoolExecutor(max_workers=1) as pool:
        return pool.submit(function, argument).result()
