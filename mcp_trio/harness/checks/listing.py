"""Lists: checks of their shape, their pages, their order, and how long they may be kept."""

from __future__ import annotations

from typing import Any, Final

import attrs

from mcp_trio.harness.checks import MODERN, check
from mcp_trio.harness.fields import misfit_of_result
from mcp_trio.harness.model import Failed
from mcp_trio.harness.probe import MOST_PAGES, ServerProbe, expect, require
from mcp_trio.harness.session import Session
from mcp_trio.protocol.errors import INVALID_PARAMS
from mcp_trio.protocol.methods import METHODS
from mcp_trio.wire.jsonrpc import JSONObject

LISTS: Final = ("tools/list", "resources/list", "resources/templates/list", "prompts/list")
"""The lists that servers have, tasks apart."""

KEYS: Final = {
    "tools/list": "name",
    "resources/list": "uri",
    "resources/templates/list": "uriTemplate",
    "prompts/list": "name",
}
"""By what the items of each list are told apart."""

SAME: Final = {
    "tools/list": "tools-28",
    "resources/list": "resources-16",
    "prompts/list": "prompts-3",
}
"""The sentences that ask each list to be the same for everybody."""


async def offered(probe: ServerProbe) -> list[str]:
    """The list methods of what the server declares.

    Raises:
        NotApplicable: It declares nothing that has lists.
    """
    inventory = await probe.inventory()
    found = [name for name in LISTS if inventory.has(METHODS[name].capability or "")]
    require(found, "the server declares no tools, resources or prompts")
    return found


async def pages(session: Session, method: str) -> list[JSONObject]:
    """The pages of a list. An error ends it: a server may lack templates, say."""
    found: list[JSONObject] = []
    cursor: Any = None
    for _ in range(MOST_PAGES):
        params: JSONObject = {} if cursor is None else {"cursor": cursor}
        result = (await session.request(method, params)).result
        if result is None:
            break
        found.append(result)
        cursor = result.get("nextCursor")
        if cursor is None:
            break
    return found


def keys_in(page: JSONObject, method: str) -> list[str]:
    """What stands in a page, by name or URI, in order."""
    items = page.get(METHODS[method].items or "")
    listed = items if isinstance(items, list) else []
    return [str(item.get(KEYS[method])) for item in listed if isinstance(item, dict)]


async def keys_of(session: Session, method: str) -> list[str]:
    """What stands in a whole list, by name or URI, in order."""
    return [key for page in await pages(session, method) for key in keys_in(page, method)]


@check(
    "lists-are-well-formed",
    meaning="Each page of each list has the fields that it must have, and of the right types.",
)
async def lists_are_well_formed(probe: ServerProbe) -> None:
    session = await probe.session()
    for method in await offered(probe):
        for page in await pages(session, method):
            if wrong := misfit_of_result(page, method):
                raise Failed(f"a result of {method} does not fit: {wrong}")


@check(
    "lists-come-to-an-end",
    "pagination-6",
    meaning="Following the cursors of a list leads to its end, and to no page twice.",
)
async def lists_come_to_an_end(probe: ServerProbe) -> None:
    session = await probe.session()
    for method in await offered(probe):
        cursors = [page.get("nextCursor") for page in await pages(session, method)]
        if not cursors:
            continue
        expect(len(cursors) < MOST_PAGES, f"{method} has no end: {MOST_PAGES} pages came")
        twice = [cursor for cursor in cursors if cursor and cursors.count(cursor) > 1]
        expect(not twice, f"{method} gives the cursor {str(twice[:1])[1:-1]:.60} more than once")


@check(
    "cursors-stay-valid",
    "pagination-6",
    meaning="A cursor that is used twice leads to the same page twice.",
)
async def cursors_stay_valid(probe: ServerProbe) -> None:
    session = await probe.session()
    judged = False
    for method in await offered(probe):
        first = (await session.request(method)).result or {}
        if isinstance(cursor := first.get("nextCursor"), str):
            judged = True
            one = await session.request(method, {"cursor": cursor})
            two = await session.request(method, {"cursor": cursor})
            for reply in (one, two):
                expect(reply.error is None, f"a cursor of {method} got {reply.brief()}")
            same = keys_in(one.result or {}, method) == keys_in(two.result or {}, method)
            said = f"a cursor of {method} leads to {one.brief()}, and then to {two.brief()}"
            expect(same, said)
    require(judged, "all lists come in one page")


@check(
    "unknown-cursor-is-refused",
    "pagination-4",
    "pagination-6",
    meaning="A cursor that the server did not give gets -32602.",
)
async def unknown_cursor_is_refused(probe: ServerProbe) -> None:
    session = await probe.session()
    for method in await offered(probe):
        first = await session.request(method)
        if first.result is not None:
            reply = await session.request(method, {"cursor": "harness-no-such-cursor"})
            if reply.code != INVALID_PARAMS:
                raise Failed(f"{method} with an unknown cursor got {reply.brief()}")


@check(
    "lists-keep-their-order",
    "tools-5",
    meaning="Lists that are asked for twice come in the same order.",
    revisions=MODERN,
)
async def lists_keep_their_order(probe: ServerProbe) -> None:
    session = await probe.session()
    for method in await offered(probe):
        one, two = [await keys_of(session, method) for _ in range(2)]
        if sorted(one) == sorted(two) and one != two:
            at = next(i for i, pair in enumerate(zip(one, two, strict=True)) if len(set(pair)) > 1)
            raise Failed(f"{method} had {one[at]!r} where {two[at]!r} came the second time")


@check(
    "lists-do-not-depend-on-the-connection",
    *SAME.values(),
    meaning="Each connection is given the same lists, whatever was read on it before.",
    revisions=MODERN,
)
async def lists_do_not_depend_on_the_connection(probe: ServerProbe) -> None:
    lists = [name for name in SAME if name in await offered(probe)]
    session = await probe.session()
    first = {method: await keys_of(session, method) for method in lists}
    inventory = await probe.inventory()
    for resource in inventory.resources[:3]:
        await session.request("resources/read", {"uri": resource.get("uri")})
    for prompt in inventory.prompts[:3]:
        await session.request("prompts/get", {"name": prompt.get("name"), "arguments": {}})
    again = {method: await keys_of(session, method) for method in lists}
    async with probe.open_session() as other:
        elsewhere = {method: await keys_of(other, method) for method in lists}
    for method in lists:
        for words, found in (("later", again), ("on another connection", elsewhere)):
            differ = set(first[method]) ^ set(found[method])
            if differ:
                names = ", ".join(sorted(differ))[:80]
                raise Failed(f"{method} is another {words}: {names}", requirement=SAME[method])


# Caching ----------------------------------------------------------------------------------------


@attrs.frozen
class Cacheable:
    """A result that has to say how long it may be kept, and by whom."""

    what: str
    result: JSONObject


async def cacheable_results(probe: ServerProbe) -> list[Cacheable]:
    """One complete result of each operation that may be cached, as far as the server has it."""
    session = await probe.session()
    wanted: list[tuple[str, JSONObject]] = [("server/discover", {})]
    inventory = await probe.inventory()
    wanted += [(name, {}) for name in LISTS if inventory.has(METHODS[name].capability or "")]
    wanted += [("resources/read", {"uri": r.get("uri")}) for r in inventory.resources[:3]]
    replies = [(method, (await session.request(method, params))) for method, params in wanted]
    return [
        Cacheable(method, reply.result)
        for method, reply in replies
        if reply.result is not None and reply.result.get("resultType") == "complete"
    ]


@check(
    "cache-hints-are-there",
    "caching-1",
    "caching-8",
    meaning="What may be cached has a ttlMs of 0 or more, and a cacheScope.",
    revisions=MODERN,
)
async def cache_hints_are_there(probe: ServerProbe) -> None:
    for found in await cacheable_results(probe):
        ttl, scope = found.result.get("ttlMs"), found.result.get("cacheScope")
        number = isinstance(ttl, int | float) and not isinstance(ttl, bool) and ttl == int(ttl)
        expect(number, f"the ttlMs of {found.what} is {ttl!r}", "caching-1")
        expect(ttl is not None and ttl >= 0, f"the ttlMs of {found.what} is {ttl!r}", "caching-8")
        fine = scope in ("public", "private")
        expect(fine, f"the cacheScope of {found.what} is {scope!r}", "caching-1")


@check(
    "cache-scope-is-the-same-on-all-pages",
    "caching-16",
    "caching-17",
    meaning="All pages of a list have the same cacheScope.",
    revisions=MODERN,
)
async def cache_scope_is_the_same_on_all_pages(probe: ServerProbe) -> None:
    session = await probe.session()
    judged = False
    for method in await offered(probe):
        scopes = [page.get("cacheScope") for page in await pages(session, method)]
        judged = judged or len(scopes) > 1
        expect(
            len(set(map(str, scopes))) < 2, f"the pages of {method} have the scopes {scopes[:8]}"
        )
    require(judged, "all lists come in one page")
