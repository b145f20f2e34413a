"""How clients use what servers have: checks of lists, tools, caching, completion, subscriptions."""

from collections.abc import Sequence
from functools import partial
from typing import Final

from mcp_trio.harness.checks import MODERN, REVISIONS, check
from mcp_trio.harness.client_probe import ClientProbe, goes_on
from mcp_trio.harness.healthy import SECOND_PAGE, tool
from mcp_trio.harness.model import Failed, NotApplicable
from mcp_trio.harness.probe import expect, require
from mcp_trio.harness.scripted import HOLD, Answer, Call, Refusal, Scene, usual
from mcp_trio.protocol import meta as keys
from mcp_trio.protocol.errors import INVALID_PARAMS
from mcp_trio.wire.jsonrpc import JSON, JSONObject

client_check = partial(check, role="client")

LISTS: Final = {
    "tools/list": "tools",
    "resources/list": "resources",
    "resources/templates/list": "resourceTemplates",
    "prompts/list": "prompts",
}


async def _list_of(probe: ClientProbe) -> str:
    """A list that the client asks for and goes through to its end.

    Raises:
        NotApplicable: There is none.
    """
    made = {call.method for call in (await probe.recording()).calls}
    for method in LISTS:
        if method in made:
            return method
    raise NotApplicable("the client lists nothing")


def listed(scene: Scene, method: str, items: Sequence[JSONObject], cursor: JSON) -> JSONObject:
    """A page of a list."""
    found: JSONObject = {LISTS[method]: list(items)}
    if scene.is_modern:
        found |= {"ttlMs": 0, "cacheScope": "private"}
    if cursor is not None:
        found["nextCursor"] = cursor
    return found


def pages(method: str, cursors: Sequence[str], sizes: Sequence[int]) -> "PagedList":
    """Pages that are led to by these cursors; the first one by none."""
    return PagedList(method, cursors, sizes)


class PagedList:
    """Answers a list, page after page, and refuses every cursor that it did not give."""

    def __init__(self, method: str, cursors: Sequence[str], sizes: Sequence[int]) -> None:
        self.method = method
        self.cursors = [None, *cursors]
        self.sizes = sizes

    def __call__(self, call: Call) -> Answer:
        cursor = call.params.get("cursor")
        if cursor not in self.cursors:
            return Refusal(INVALID_PARAMS, "Invalid cursor")
        place = self.cursors.index(cursor)
        items = [_item(self.method, f"{place}-{n}") for n in range(self.sizes[place])]
        after = self.cursors[place + 1] if place + 1 < len(self.cursors) else None
        return listed(call.scene, self.method, items, after)


def _item(method: str, name: str) -> JSONObject:
    if method == "tools/list":
        return tool(f"tool-{name}")
    if method == "resources/list":
        return {"uri": f"harness://{name}", "name": name}
    if method == "resources/templates/list":
        return {"uriTemplate": f"harness://{name}/{{x}}", "name": name}
    return {"name": f"prompt-{name}"}


# Lists


@client_check(
    "client-sends-cursors-back-unchanged",
    "pagination-2",
    meaning="A cursor goes back to the server exactly as it came.",
)
async def client_sends_cursors_back_unchanged(probe: ClientProbe) -> None:
    scene = await probe.recording()
    cursors = [call.params["cursor"] for call in scene.calls if "cursor" in call.params]
    require(cursors, "the client asks for no second page")
    for cursor in cursors:
        expect(cursor == SECOND_PAGE, f"the cursor {SECOND_PAGE!r} came back as {cursor!r}")


@client_check(
    "client-follows-pages-of-any-size",
    "pagination-1",
    "pagination-5",
    "prompts-10",
    meaning="Lists are read to their end, whether pages are long, short or empty.",
)
async def client_follows_pages_of_any_size(probe: ClientProbe) -> None:
    await _reads_pages(probe)
    method = await _list_of(probe)
    cursors = ("two", "three", "four")
    async with probe.play({method: pages(method, cursors, (3, 1, 0, 2))}) as scene:
        await scene.over()
        _judge_cursors(scene, method, cursors, "pagination-1")


async def _reads_pages(probe: ClientProbe) -> None:
    scene = await probe.recording()
    paged = any("cursor" in call.params for call in scene.calls)
    require(paged, "the client asks for no second page")


def _judge_cursors(scene: Scene, method: str, cursors: Sequence[str], requirement: str) -> None:
    asked = [call.params.get("cursor") for call in scene.requests_of(method)]
    for cursor in cursors:
        expect(cursor in asked, f"the page at cursor {cursor!r} was not asked for", requirement)


@client_check(
    "client-takes-a-missing-cursor-for-the-end",
    "pagination-5",
    meaning="A list without `nextCursor` is complete, and nothing more of it is asked for.",
)
async def client_takes_a_missing_cursor_for_the_end(probe: ClientProbe) -> None:
    method = await _list_of(probe)
    async with probe.play({method: pages(method, (), (2,))}) as scene:
        await scene.over()
        more = [call.params for call in scene.requests_of(method) if call.params.get("cursor")]
        expect(not more, f"the list was complete, and {method} came again with {more[:1]}")


@client_check(
    "client-follows-empty-cursors",
    "pagination-3",
    meaning="A cursor that is an empty string leads to the next page.",
    revisions=MODERN,
)
async def client_follows_empty_cursors(probe: ClientProbe) -> None:
    await _reads_pages(probe)
    method = await _list_of(probe)
    async with probe.play({method: pages(method, ("",), (1, 1))}) as scene:
        await scene.over()
        _judge_cursors(scene, method, ("",), "pagination-3")


@client_check(
    "client-begins-again-after-an-invalid-cursor",
    "caching-15",
    meaning="A list whose cursor came to be invalid is fetched again from its first page.",
    revisions=MODERN,
)
async def client_begins_again_after_an_invalid_cursor(probe: ClientProbe) -> None:
    await _reads_pages(probe)
    method = await _list_of(probe)
    first = pages(method, ("gone",), (2, 1))
    refusal = Refusal(INVALID_PARAMS, "Invalid cursor")
    async with probe.play({method: [first, refusal, usual]}) as scene:
        await scene.call(method, 2)
        try:
            third = await scene.call(method, 3)
        except NotApplicable as exc:
            raise Failed("a cursor was refused, and the list was not fetched again") from exc
        expect("cursor" not in third.params, "after a refused cursor another page was asked for")


# Tools


@client_check(
    "client-names-tools-exactly",
    "tools-11",
    meaning="Tools are called by the names that they have, in upper and lower case.",
    revisions=[revision for revision in REVISIONS if revision >= "2025-11-25"],
)
async def client_names_tools_exactly(probe: ClientProbe) -> None:
    async def two(call: Call) -> Answer:
        text = {"text": {"type": "string"}}
        return listed(call.scene, "tools/list", [tool("Say", text), tool("say", text)], None)

    await probe.asks_for("tools/list", "tools/call")
    async with probe.play({"tools/list": two}) as scene:
        await scene.over()
        called = [call.name for call in scene.requests_of("tools/call")]
        require(called, "the client calls none of two tools")
        strange = set(called) - {"Say", "say"}
        expect(not strange, f"a tool was called by a name that it does not have: {strange}")
        twice = len(called) > 1 and len(set(called)) == 1
        expect(not twice, f"`Say` and `say` are two tools, and both calls went to {called[0]!r}")


# Caching


async def _fetches(probe: ClientProbe, ttl: int) -> tuple[str, int]:
    """How often the client asks for the first page of a list that is fresh for `ttl` ms."""
    method = await _list_of(probe)

    def answer(call: Call) -> Answer:
        page = listed(call.scene, method, [_item(method, "only")], None)
        return {**page, "ttlMs": ttl}

    async with probe.play({method: answer}) as scene:
        await scene.over()
        await scene.pause(0.5)
        firsts = [call for call in scene.requests_of(method) if not call.params.get("cursor")]
        return method, len(firsts)


@client_check(
    "client-does-not-fetch-what-is-fresh",
    "caching-5",
    meaning="A list that is fresh for an hour is not fetched twice in a moment.",
    revisions=MODERN,
)
async def client_does_not_fetch_what_is_fresh(probe: ClientProbe) -> None:
    method, times = await _fetches(probe, 3_600_000)
    expect(times < 2, f"{method} is fresh for an hour and was sent {times} times")


@client_check(
    "client-does-not-poll",
    "caching-10",
    "caching-11",
    meaning="That a list is no longer fresh is no reason to fetch it again and again.",
    revisions=MODERN,
)
async def client_does_not_poll(probe: ClientProbe) -> None:
    _, expected = await _fetches(probe, 3_600_000)
    method, times = await _fetches(probe, 10)
    expect(times <= expected + 2, f"{method} is fresh for 10 ms and was sent {times} times")


# Completion


@client_check(
    "client-gets-along-with-partial-completions",
    "completion-4",
    meaning="Completions that are missing, empty or refused do no harm.",
)
async def client_gets_along_with_partial_completions(probe: ClientProbe) -> None:
    await probe.asks_for("completion/complete")
    last = (await probe.recording()).calls[-1].method == "completion/complete"
    require(not last, "completion is the last thing that the client does")
    partial_: JSONObject = {"completion": {"values": []}}
    refused = Refusal(INVALID_PARAMS, "Nothing to complete")
    for answer in (partial_, refused):
        async with probe.play({"completion/complete": [HOLD, answer]}) as scene:
            call = await scene.call("completion/complete")
            await call.answer(answer)
            await goes_on(scene, "after a completion that says little")


# Subscriptions


@client_check(
    "client-copes-with-a-smaller-subscription",
    "subscriptions-3",
    meaning="A server that agrees to less than was asked for does no harm.",
    revisions=MODERN,
)
async def client_copes_with_a_smaller_subscription(probe: ClientProbe) -> None:
    await probe.asks_for("subscriptions/listen")
    async with probe.play({"subscriptions/listen": HOLD}) as scene:
        call = await scene.call("subscriptions/listen")
        await call.notify(
            "notifications/subscriptions/acknowledged",
            {"notifications": {}, keys.META: {keys.SUBSCRIPTION_ID: call.id}},
        )
        await _listens_on(scene)


async def _listens_on(scene: Scene) -> None:
    """The client does not break down, nor ask for the same again and again."""
    await scene.over()
    failure = None if scene.running is None else scene.running.failure
    expect(failure is None, f"the client failed: {failure}")
    status = None if scene.running is None else scene.running.status
    expect(not status, f"the client exits with status {status}")
    again = scene.requests_of("subscriptions/listen")
    expect(len(again) <= 3, f"subscriptions/listen was sent {len(again)} times")


@client_check(
    "client-survives-foreign-notifications",
    meaning="Notifications of a subscription that the client does not have are ignored.",
    revisions=MODERN,
)
async def client_survives_foreign_notifications(probe: ClientProbe) -> None:
    async with probe.play_held() as (scene, call):
        params: JSONObject = {"uri": "harness://x", keys.META: {keys.SUBSCRIPTION_ID: "nobody's"}}
        await call.notify("notifications/resources/updated", params)
        await call.answer()
        await goes_on(scene, "after a notification of a subscription that it does not have")
