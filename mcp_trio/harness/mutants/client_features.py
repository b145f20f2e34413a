"""How clients use what servers have: mutants."""

from collections.abc import Iterable
from typing import Any, Final

import trio

from mcp_trio.client.client import Client
from mcp_trio.harness.demo_client import play
from mcp_trio.harness.mutants import ClientMutant
from mcp_trio.harness.mutants.client_base import dies_of, is_answer, requests
from mcp_trio.harness.mutants.client_faults import (
    Changing,
    ClientFault,
    client_mutant,
    other_client,
)
from mcp_trio.harness.mutants.frames import Back, Frame
from mcp_trio.wire.jsonrpc import JSONObject


def with_params(message: JSONObject, **params: Any) -> JSONObject:
    return {**message, "params": {**message.get("params", {}), **params}}


def tidy_cursor(message: JSONObject) -> JSONObject:
    cursor = message.get("params", {}).get("cursor")
    return with_params(message, cursor=cursor.strip("= \u00e9")) if cursor else message


def lists(message: JSONObject) -> bool:
    return "method" in message and message["method"].endswith("/list")


def without_cursor(message: JSONObject) -> JSONObject:
    """What a client hears that takes a page with no items, or few, for the last one."""
    result = message.get("result") or {}
    if "nextCursor" in result and any(result.get(key) == [] for key in ("tools", "resources")):
        result = {key: value for key, value in result.items() if key != "nextCursor"}
        return {**message, "result": result}
    return message


def without_empty_cursor(message: JSONObject) -> JSONObject:
    result = message.get("result") or {}
    if result.get("nextCursor") == "":
        result = {key: value for key, value in result.items() if key != "nextCursor"}
        return {**message, "result": result}
    return message


class AsksForMore(ClientFault):
    """Asks for the page after the last one."""

    def says(self, frame: Frame) -> Iterable[Frame | Back]:
        yield frame
        if isinstance(frame, dict) and lists(frame):
            yield with_params({**frame, "id": f"more-{frame['id']}"}, cursor="more")


class KeepsTheRest(ClientFault):
    """Goes on to the next page after a refused cursor."""

    def __init__(self) -> None:
        self._asked: dict[Any, JSONObject] = {}

    def says(self, frame: Frame) -> Iterable[Frame | Back]:
        if isinstance(frame, dict) and lists(frame):
            self._asked[frame["id"]] = frame
        yield frame

    def hears(self, frame: Frame) -> Iterable[Frame | Back]:
        error = frame.get("error") if isinstance(frame, dict) else None
        if isinstance(frame, dict) and error and frame.get("id") in self._asked:
            asked = self._asked[frame["id"]]
            yield Back({**asked, "id": f"again-{frame['id']}"})
        yield frame


def lower(message: JSONObject) -> JSONObject:
    if message.get("method") == "tools/call":
        return with_params(message, name=message["params"]["name"].lower())
    return message


async def _poll(client: Client) -> None:
    for _ in range(9):
        await trio.sleep(0.01)
        await client.list_tools()


async def polling(target: Any, *, mode: str = "auto", **options: Any) -> None:
    """Lists the tools again and again."""
    await play(target, mode=mode, also=_poll, **options)


async def polling_when_stale(target: Any, *, mode: str = "auto", **options: Any) -> None:
    """Lists the tools again as soon as they may have changed."""
    await play(target, mode=mode, also=_poll, cache=True, **options)


async def caching(target: Any, *, mode: str = "auto", **options: Any) -> None:
    """The demo client with a cache."""
    await play(target, mode=mode, cache=True, **options)


class ListensAgain(ClientFault):
    """Asks again for a subscription that is smaller than it wanted."""

    def __init__(self) -> None:
        self._listening: JSONObject = {}

    def says(self, frame: Frame) -> Iterable[Frame | Back]:
        if isinstance(frame, dict) and frame.get("method") == "subscriptions/listen":
            self._listening = frame
        yield frame

    def hears(self, frame: Frame) -> Iterable[Frame | Back]:
        acknowledged = isinstance(frame, dict) and "acknowledged" in frame.get("method", "")
        if isinstance(frame, dict) and acknowledged and not frame["params"]["notifications"]:
            for number in range(9):
                yield Back({**self._listening, "id": f"again-{number}"})
        yield frame


def _completes_little(message: JSONObject) -> bool:
    completion = (message.get("result") or {}).get("completion")
    return is_answer(message) and completion == {"values": []}


MUTANTS: Final[tuple[ClientMutant, ...]] = (
    client_mutant(
        "client-tidies-cursors",
        Changing("Sends cursors back without what looks like padding.", says=requests(tidy_cursor)),
        ["client-sends-cursors-back-unchanged"],
    ),
    client_mutant(
        "client-stops-at-empty-pages",
        Changing("Takes an empty page for the last one.", hears=without_cursor),
        ["client-follows-pages-of-any-size"],
    ),
    client_mutant(
        "client-stops-at-empty-cursors",
        Changing("Takes an empty cursor for none.", hears=without_empty_cursor),
        ["client-follows-empty-cursors"],
    ),
    client_mutant(
        "client-asks-for-more-pages", AsksForMore, ["client-takes-a-missing-cursor-for-the-end"]
    ),
    client_mutant(
        "client-keeps-the-rest", KeepsTheRest, ["client-begins-again-after-an-invalid-cursor"]
    ),
    client_mutant(
        "client-calls-in-lower-case",
        Changing("Calls tools by their names in lower case.", says=requests(lower)),
        ["client-names-tools-exactly"],
    ),
    other_client("client-polls", polling, ["client-does-not-fetch-what-is-fresh"]),
    other_client(
        "client-polls-what-is-stale", polling_when_stale, ["client-does-not-poll"], healthy=caching
    ),
    client_mutant(
        "client-dies-of-partial-completions",
        dies_of(_completes_little, "Breaks down at a completion that says little."),
        ["client-gets-along-with-partial-completions"],
    ),
    client_mutant(
        "client-listens-again", ListensAgain, ["client-copes-with-a-smaller-subscription"]
    ),
    client_mutant(
        "client-dies-of-foreign-notifications",
        dies_of(
            lambda m: m.get("params", {}).get("uri") == "harness://x",
            "Breaks down at a notification that is not its own.",
        ),
        ["client-survives-foreign-notifications"],
    ),
)
