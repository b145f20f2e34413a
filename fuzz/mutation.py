"""Damage: JSON values and lines, changed a little or a lot.

All choices come from one `random.Random`. A run over a million messages gives a seeded one, which
is fast; a Hypothesis target gives one that Hypothesis made, so that what fails also shrinks.
"""

from __future__ import annotations

from random import Random
from typing import Any

Place = tuple[Any, Any]
"""A container and the key or index of one thing in it."""

TRAPS: tuple[Any, ...] = (
    None,
    True,
    False,
    0,
    1,
    -1,
    1.0,
    1.5,
    -0.0,
    1e300,
    2**53 + 1,
    2**63,
    2**64,
    -(2**63) - 1,
    10**40,
    "",
    "0",
    "1",
    "a",
    "\u2028",
    "\x85",
    "\x00",
    "\ufeff",
    "\U0001f600",
    "__proto__",
    "x" * 300,
    "../../etc/passwd",
    "%2e%2e%2f",
    [],
    [[]],
    [None],
    {},
    {"": {}},
    {"id": 1, "method": "ping", "jsonrpc": "2.0"},
)
"""Values that are of the wrong kind nearly everywhere, or at the edge of the right one."""

PIECES = (
    b"{",
    b"}",
    b"[",
    b"]",
    b'"',
    b",",
    b":",
    b"\\",
    b"\\u0000",
    b"\\ud800",
    b"\r",
    b"\x00",
    b"\xff",
    b"\xe2\x80\xa8",
    b"\xef\xbb\xbf",
    b"NaN",
    b"1e999",
    b"-",
    b"null",
    b'"id":1,',
    b'"id":1.0,',
    b'"method":"ping",',
    b'"result":{},',
)
"""Bytes that mean something to a parser."""


def copied(value: Any) -> Any:
    """A copy of a JSON value; `copy.deepcopy` takes ten times as long."""
    if isinstance(value, dict):
        return {key: copied(item) for key, item in value.items()}
    if isinstance(value, list):
        return [copied(item) for item in value]
    return value


def places(value: Any) -> list[Place]:
    """All places within a JSON value, in order."""
    found: list[Place] = []
    waiting = [value]
    while waiting:
        holder = waiting.pop()
        keys = holder.keys() if isinstance(holder, dict) else range(len(holder))
        for key in keys:
            found.append((holder, key))
            if isinstance(holder[key], dict | list):
                waiting.append(holder[key])
    return found


def mutate_json(random: Random, value: Any, *, times: int = 1) -> Any:
    """A copy of a JSON value, an object or a list, that differs from it in a few places."""
    value = copied(value)
    for _ in range(times):
        found = places(value)
        if not found:
            break
        holder, key = random.choice(found)
        random.choice(_CHANGES)(random, holder, key, found)
    return value


def _replace(random: Random, holder: Any, key: Any, _found: list[Place]) -> None:
    holder[key] = copied(random.choice(TRAPS))


def _remove(_random: Random, holder: Any, key: Any, _found: list[Place]) -> None:
    del holder[key]


def _borrow(random: Random, holder: Any, key: Any, found: list[Place]) -> None:
    """Put something there that stands elsewhere, itself included: values of the right kinds."""
    other, where = random.choice(found)
    holder[key] = copied(other[where])


def _rename(random: Random, holder: Any, key: Any, found: list[Place]) -> None:
    names = [where for _, where in found if isinstance(where, str)]
    if isinstance(holder, dict):
        name = random.choice([*names, "", key.upper(), key + " ", "$ref", "_meta"])
        holder[name] = holder.pop(key)


def _wrap(random: Random, holder: Any, key: Any, _found: list[Place]) -> None:
    depth = random.choice([1, 1, 2, 10])
    for _ in range(depth):
        holder[key] = [holder[key]] if random.random() < 0.5 else {"x": holder[key]}


def _add(random: Random, holder: Any, key: Any, _found: list[Place]) -> None:
    extra = copied(random.choice(TRAPS))
    if isinstance(holder, list):
        holder.insert(key, extra)
    else:
        holder[random.choice(["", "x-newer", "_meta", "extra", "type"])] = extra


def _edit(random: Random, holder: Any, key: Any, found: list[Place]) -> None:
    """Change a scalar into one near it."""
    value = holder[key]
    if isinstance(value, bool) or value is None:
        holder[key] = not value
    elif isinstance(value, int | float):
        holder[key] = random.choice([value + 1, value - 1, -value, value * 1000, str(value)])
    elif isinstance(value, str):
        at = random.randint(0, len(value))
        inserted = random.choice(["", " ", "\u2028", "/", "%", "{", "}", "\x00", "é"])
        holder[key] = value[:at] + inserted + value[at + random.randint(0, 2) :]
    else:
        _replace(random, holder, key, found)


_CHANGES = (_replace, _replace, _remove, _borrow, _rename, _wrap, _add, _edit, _edit)


def mutate_line(random: Random, line: bytes, other: bytes = b"") -> bytes:
    """A line that differs from `line` in a few bytes, or goes on as `other` does."""
    for _ in range(random.choice([1, 1, 1, 2, 4])):
        at = random.randint(0, len(line))
        kind = random.randint(0, 5)
        if kind == 0:
            line = line[:at]
        elif kind == 1:
            line = line[:at] + random.choice(PIECES) + line[at:]
        elif kind == 2:
            line = line[:at] + line[at + random.randint(1, 8) :]
        elif kind == 3:
            line = line[:at] + bytes([random.randint(0, 255)]) + line[at + 1 :]
        elif kind == 4:
            line = line[:at] + other[random.randint(0, len(other)) :]
        else:
            line = line[:at] + line[max(0, at - random.randint(0, 20)) : at] + line[at:]
    return line
