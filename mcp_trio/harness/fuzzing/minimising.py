"""Makes cases smaller as long as they still fail.

Hypothesis shrinks by what a case was drawn from. That does not help where a number stands for a
hundred messages, nor with the cases before it, and it does not know which step may go. So after it,
or in its place, steps are taken out here in ever smaller groups, and what is left is made plainer.
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Iterator, Sequence
from typing import Any, TypeVar

import attrs
import trio

from mcp_trio.harness.fuzzing.cases import Ask, Case, Flood, Pause, Raw, Send, Stall, Step, Tell
from mcp_trio.wire.jsonrpc import JSON

T = TypeVar("T")


async def fewest(
    items: Sequence[T], fails: Callable[[list[T]], Awaitable[bool]], until: float
) -> list[T]:
    """As few of `items` as still fail, in their order; stops at `until`, in Trio's time.

    Takes out halves, quarters, eighths and so on, as Zeller's delta debugging does.
    """
    kept, size = list(items), max(1, len(items) // 2)
    while kept and trio.current_time() < until:
        start, shrunk = 0, False
        while start < len(kept) and trio.current_time() < until:
            rest = kept[:start] + kept[start + size :]
            if rest and await fails(rest):
                kept, shrunk = rest, True
            else:
                start += size
        if size == 1 and not shrunk:
            break
        size = max(1, size // 2) if not shrunk or size > len(kept) else size
    return kept


async def smallest(case: Case, fails: Callable[[Case], Awaitable[bool]], until: float) -> Case:
    """A case with fewer and plainer steps that still fails; stops at `until`, in Trio's time."""

    async def steps_fail(steps: list[Step]) -> bool:
        return await fails(attrs.evolve(case, steps=tuple(steps)))

    if len(case.steps) > 1:
        steps = await fewest(case.steps, steps_fail, until)
        case = attrs.evolve(case, steps=tuple(steps))
    for plainer in ({"answers": "well"}, {"handshake": True}):
        changed = attrs.evolve(case, **plainer)
        if changed != case and trio.current_time() < until and await fails(changed):
            case = changed
    return await _plainest(case, fails, until)


async def _plainest(case: Case, fails: Callable[[Case], Awaitable[bool]], until: float) -> Case:
    shrunk = True
    while shrunk:
        shrunk = False
        for number, step in enumerate(case.steps):
            for plainer in plainer_steps(step):
                if trio.current_time() >= until:
                    return case
                steps = (*case.steps[:number], plainer, *case.steps[number + 1 :])
                changed = attrs.evolve(case, steps=steps)
                if await fails(changed):
                    case, shrunk = changed, True
                    break
    return case


def plainer_steps(step: Step) -> Iterator[Step]:
    """Steps that do nearly the same and are shorter, the shortest first."""
    match step:
        case Ask():
            for name in ("params", "meta", "token"):
                default = getattr(attrs.fields(Ask), name).default
                if getattr(step, name) != default:
                    yield attrs.evolve(step, **{name: default})
            yield from (
                attrs.evolve(step, params=params)
                for params in _smaller(step.params)
                if isinstance(params, dict)
            )
        case Tell(params=params) if params is not None:
            yield attrs.evolve(step, params=None)
            yield from (Tell(step.method, p) for p in _smaller(params) if isinstance(p, dict))
        case Flood(times=times) if times > 1:
            yield attrs.evolve(step, times=1)
            yield attrs.evolve(step, times=times // 2)
        case Send(frame=frame):
            yield from (attrs.evolve(step, frame=smaller) for smaller in _smaller_text(frame))
        case Raw(chunks=chunks):
            yield from _plainer_bytes(step, chunks)
        case Pause() | Stall() if step.seconds > 0.01:
            yield attrs.evolve(step, seconds=step.seconds / 4)


def _plainer_bytes(step: Raw, chunks: tuple[bytes, ...]) -> Iterator[Raw]:
    whole = b"".join(chunks)
    if len(chunks) > 1:
        yield attrs.evolve(step, chunks=(whole,))
        middle = len(chunks) // 2
        yield attrs.evolve(step, chunks=(b"".join(chunks[:middle]), b"".join(chunks[middle:])))
        return
    lines = whole.split(b"\n")
    if len(lines) > 2:
        for number in range(len(lines) - 1):
            rest = lines[:number] + lines[number + 1 :]
            yield attrs.evolve(step, chunks=(b"\n".join(rest),))
        return
    for smaller in _smaller_text(lines[0]):
        yield attrs.evolve(step, chunks=(b"\n".join([smaller, *lines[1:]]),))


def _smaller_text(text: bytes) -> Iterator[bytes]:
    """A frame with less in it: members left out where it is JSON, bytes where it is not."""
    value = _read(text)
    if isinstance(value, dict | list):
        for smaller in _smaller(value):
            yield json.dumps(smaller, separators=(",", ":")).encode()
        return
    size = len(text) // 2
    while size:
        for start in range(0, len(text), size):
            yield text[:start] + text[start + size :]
        size //= 2 if size < 64 else 4


def _read(text: bytes) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def _smaller(value: JSON) -> Iterator[JSON]:
    """A JSON value with one thing less."""
    if isinstance(value, dict):
        for key in value:
            yield {name: item for name, item in value.items() if name != key}
        for key, item in value.items():
            for smaller in _smaller(item):
                yield {**value, key: smaller}
    elif isinstance(value, list):
        if len(value) > 4:
            yield value[: len(value) // 2]
            yield value[len(value) // 2 :]
        for number, item in enumerate(value):
            yield value[:number] + value[number + 1 :]
            for smaller in _smaller(item):
                yield [*value[:number], smaller, *value[number + 1 :]]
    elif isinstance(value, str) and len(value) > 1:
        yield value[: len(value) // 2]
        yield value[len(value) // 2 :]
