"""Lists: mutants of servers."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from mcp_trio.harness.checks.listing import LISTS
from mcp_trio.harness.mutants import Mutant
from mcp_trio.harness.mutants.changing import Remembering, fails, replies, replies_to, requests
from mcp_trio.harness.mutants.frames import Back, Fault, Frame, frame_mutant
from mcp_trio.harness.mutants.workshop import workshop
from mcp_trio.wire.jsonrpc import JSONObject

CACHEABLE: Final = ("server/discover", "resources/read", *LISTS)


@replies(*LISTS)
def items_have_no_names(answer: JSONObject) -> None:
    """Lists things without their names."""
    for items in answer.get("result", {}).values():
        for item in items if isinstance(items, list) else ():
            item.pop("name", None)


class ListsWithoutEnd(Fault):
    """Goes back to the first page from every page."""

    def received(self, frame: Frame) -> Iterable[Frame | Back]:
        if isinstance(frame, dict) and frame.get("method") in LISTS:
            frame.get("params", {}).pop("cursor", None)
        yield frame

    def sent(self, frame: Frame) -> Iterable[Frame | Back]:
        result = frame.get("result") if isinstance(frame, dict) else None
        if isinstance(result, dict) and isinstance(result.get("tools"), list):
            result["nextCursor"] = "again"
        yield frame


class CursorsAreUsedUp(Remembering):
    """Takes each cursor once."""

    def __init__(self) -> None:
        super().__init__()
        self._used: set[str] = set()

    def answered(self, answer: JSONObject, request: JSONObject) -> Iterable[Frame | Back]:
        cursor = request.get("params", {}).get("cursor")
        if cursor in self._used:
            return [fails(answer, -32602)]
        if isinstance(cursor, str):
            self._used.add(cursor)
        return [answer]


@requests(*LISTS)
def any_cursor_will_do(params: JSONObject) -> None:
    """Gives the first page for a cursor that it does not know."""
    params.pop("cursor", None)


class OrderChanges(Remembering):
    """Turns each list round every second time."""

    def __init__(self) -> None:
        super().__init__()
        self._turn = False

    def answered(self, answer: JSONObject, request: JSONObject) -> Iterable[Frame | Back]:
        if request.get("method") == "tools/list":
            self._turn = not self._turn
            if self._turn:
                answer["result"]["tools"].reverse()
        return [answer]


class ReadingTakesAway(Remembering):
    """Hides a tool, a resource and a prompt once something was read on the connection."""

    def __init__(self) -> None:
        super().__init__()
        self._has_read = False

    def answered(self, answer: JSONObject, request: JSONObject) -> Iterable[Frame | Back]:
        self._has_read = self._has_read or request.get("method") == "resources/read"
        for items in answer.get("result", {}).values():
            if self._has_read and request.get("method") in LISTS and isinstance(items, list):
                items[:] = items[1:]
        return [answer]


@replies(*CACHEABLE)
def no_cache_hints(answer: JSONObject) -> None:
    """Says nothing of how long its results may be kept."""
    for key in ("ttlMs", "cacheScope"):
        answer.get("result", {}).pop(key, None)


@replies(*CACHEABLE)
def time_is_negative(answer: JSONObject) -> None:
    """Says that its results were stale before they came."""
    if "result" in answer:
        answer["result"]["ttlMs"] = -1


@replies_to(*LISTS)
def later_pages_are_public(answer: JSONObject, params: JSONObject) -> None:
    """Keeps the first page of a list private, and the others not."""
    if "result" in answer:
        answer["result"]["cacheScope"] = "public" if params.get("cursor") else "private"


MUTANTS: Final[tuple[Mutant, ...]] = (
    frame_mutant("items-have-no-names", items_have_no_names, ["lists-are-well-formed"]),
    frame_mutant("lists-without-end", ListsWithoutEnd, ["lists-come-to-an-end"]),
    frame_mutant("cursors-are-used-up", CursorsAreUsedUp, ["cursors-stay-valid"], workshop),
    frame_mutant("any-cursor-will-do", any_cursor_will_do, ["unknown-cursor-is-refused"]),
    frame_mutant("order-changes", OrderChanges, ["lists-keep-their-order"]),
    frame_mutant("reading-takes-away", ReadingTakesAway, ["lists-do-not-depend-on-the-connection"]),
    frame_mutant("no-cache-hints", no_cache_hints, ["cache-hints-are-there"]),
    frame_mutant("time-is-negative", time_is_negative, ["cache-hints-are-there"]),
    frame_mutant(
        "later-pages-are-public",
        later_pages_are_public,
        ["cache-scope-is-the-same-on-all-pages"],
        workshop,
    ),
)
