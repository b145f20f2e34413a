"""Subscriptions and changes: mutants of servers."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from mcp_trio.harness.mutants import Mutant
from mcp_trio.harness.mutants.changing import fails, notices, replies, requests
from mcp_trio.harness.mutants.frames import Back, Fault, Frame, frame_mutant
from mcp_trio.harness.mutants.workshop import workshop
from mcp_trio.protocol.meta import META, SUBSCRIPTION_ID
from mcp_trio.wire.jsonrpc import JSONObject

ACKNOWLEDGED: Final = "notifications/subscriptions/acknowledged"
LISTS_CHANGED: Final = tuple(
    f"notifications/{kind}/list_changed" for kind in ("tools", "resources", "prompts")
)


def tells(method: str, subscription: Any = None, **params: Any) -> JSONObject:
    """A notification, perhaps of a subscription."""
    meta = {} if subscription is None else {META: {SUBSCRIPTION_ID: subscription}}
    return {"jsonrpc": "2.0", "method": method, "params": {**meta, **params}}


class NewsComesFirst(Fault):
    """Tells of changes before it has acknowledged the subscription."""

    def sent(self, frame: Frame) -> Iterable[Frame | Back]:
        if isinstance(frame, dict) and frame.get("method") == ACKNOWLEDGED:
            id = frame["params"][META][SUBSCRIPTION_ID]
            yield tells("notifications/tools/list_changed", id)
        yield frame


@notices(ACKNOWLEDGED)
def nobody_is_named(params: JSONObject) -> None:
    """Does not say which subscription it acknowledges."""
    params.pop(META)


@notices(ACKNOWLEDGED)
def grants_too_much(params: JSONObject) -> None:
    """Grants changes of prompts to whoever subscribes to anything."""
    params["notifications"]["promptsListChanged"] = True


@requests("subscriptions/listen")
def any_filter_will_do(params: JSONObject) -> None:
    """Takes a filter that is none for an empty one."""
    wanted = params.get("notifications")
    fine = isinstance(wanted, dict) and not any(isinstance(v, str) for v in wanted.values())
    params["notifications"] = wanted if fine else {}


class NobodyListens(Fault):
    """Declares that things change, and does not know how to listen for that."""

    def received(self, frame: Frame) -> Iterable[Frame | Back]:
        if isinstance(frame, dict) and frame.get("method") == "subscriptions/listen":
            frame["method"] = "subscriptions/unknown"
        yield frame


class TellsEverybody(Fault):
    """Tells of changes to tools and resources whether somebody has asked or not."""

    def sent(self, frame: Frame) -> Iterable[Frame | Back]:
        yield frame
        if isinstance(frame, dict) and "content" in frame.get("result", {}):
            yield tells("notifications/tools/list_changed")
            yield tells("notifications/resources/updated", uri="demo://about")


class TellsTheFirst(Fault):
    """Tells of all changes under the id of the first subscription, and does not end it."""

    def __init__(self) -> None:
        self._first: Any = None

    def received(self, frame: Frame) -> Iterable[Frame | Back]:
        if isinstance(frame, dict) and frame.get("method") == "subscriptions/listen":
            self._first = frame["id"] if self._first is None else self._first
        yield frame

    def sent(self, frame: Frame) -> Iterable[Frame | Back]:
        yield frame
        called = isinstance(frame, dict) and "content" in frame.get("result", {})
        if called and self._first is not None:
            yield tells("notifications/resources/list_changed", self._first)


class TellsNobody(Fault):
    """Keeps changes of lists to itself."""

    def sent(self, frame: Frame) -> Iterable[Frame | Back]:
        if not (isinstance(frame, dict) and frame.get("method") in LISTS_CHANGED):
            yield frame


@replies("initialize")
def changes_are_not_declared(answer: JSONObject) -> None:
    """Tells of changes, and does not declare that."""
    for capability in answer["result"]["capabilities"].values():
        capability.pop("listChanged", None)


@replies("resources/unsubscribe")
def there_is_no_way_back(answer: JSONObject) -> JSONObject:
    """Takes subscriptions, and refuses to end them."""
    return fails(answer, -32601)


MUTANTS: Final[tuple[Mutant, ...]] = (
    frame_mutant("news-comes-first", NewsComesFirst, ["subscription-is-acknowledged-first"]),
    frame_mutant("nobody-is-named", nobody_is_named, ["subscription-is-acknowledged-first"]),
    frame_mutant("grants-too-much", grants_too_much, ["no-more-is-granted-than-asked-for"]),
    frame_mutant("nobody-listens", NobodyListens, ["declared-changes-can-be-listened-for"]),
    frame_mutant("any-filter-will-do", any_filter_will_do, ["malformed-filter-is-refused"]),
    frame_mutant(
        "tells-everybody",
        TellsEverybody,
        [
            "only-what-was-asked-for-is-sent",
            "subscriptions-are-kept-apart",
        ],
    ),
    frame_mutant(
        "tells-the-first",
        TellsTheFirst,
        [
            "only-what-was-asked-for-is-sent",
            "ended-subscription-is-silent",
            "subscriptions-are-kept-apart",
        ],
    ),
    frame_mutant(
        "tells-nobody",
        TellsNobody,
        ["changes-of-lists-are-told", "changes-of-lists-are-told-to-subscribers"],
        workshop,
    ),
    frame_mutant(
        "changes-are-not-declared",
        changes_are_not_declared,
        ["undeclared-changes-are-not-told"],
        workshop,
    ),
    frame_mutant("there-is-no-way-back", there_is_no_way_back, ["resources-can-be-subscribed-to"]),
)
