"""Lists in pages: every entry once, whatever changes meanwhile, and no cursor but ours."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcp_trio import MCPError, Server
from mcp_trio.server.pagination import Registry
from tests.server.raw import open_legacy, open_raw

LISTS = {
    "tools/list": "tools",
    "prompts/list": "prompts",
    "resources/list": "resources",
    "resources/templates/list": "resourceTemplates",
}


def make_server(page_size: int | None) -> Server:
    server = Server("s", page_size=page_size)
    for number in range(5):
        name = f"n{number}"
        server.add_tool(lambda: 1, name=name)
        server.add_prompt(lambda: "1", name=name)
        server.add_resource(f"a://{number}", lambda: "1", name=name)
        server.add_resource(f"{number}://{{x}}", lambda x: x, name=name)
    return server


@pytest.mark.parametrize("method", LISTS)
@pytest.mark.parametrize("size", [1, 2, 5, 6, None])
async def test_pages_make_up_the_list(method: str, size: int | None) -> None:
    """Following cursors gives every entry in order, in pages of the size that was set."""
    async with open_legacy(make_server(size)) as raw:
        for ask in (raw.request, raw.modern):
            names: list[str] = []
            params: dict[str, str] = {}
            pages = 0
            while True:
                result = (await ask(method, params))["result"]
                pages += 1
                names += [entry["name"] for entry in result[LISTS[method]]]
                if "nextCursor" not in result:
                    break
                params = {"cursor": result["nextCursor"]}
            assert names == [f"n{number}" for number in range(5)]
            assert pages == (-(-5 // size) if size else 1)


@pytest.mark.parametrize("cursor", ["", "x", "MQ", "dG9vbDo5OTk", "dG9vbDotMQ", "\ud83d\ude00", 3])
async def test_foreign_cursors_are_refused(cursor: object) -> None:
    """Whatever this list did not give out is -32602; an empty string is no exception."""
    async with open_raw(make_server(2)) as raw:
        error = await raw.error("tools/list", {"cursor": cursor})
        assert error["code"] == -32602
        assert "cursor" in error["message"]


async def test_cursor_of_another_list_is_refused() -> None:
    """A cursor is good for its own list only."""
    async with open_raw(make_server(2)) as raw:
        cursor = (await raw.result("tools/list"))["nextCursor"]
        assert (await raw.error("prompts/list", {"cursor": cursor}))["code"] == -32602


async def test_null_cursor_is_none() -> None:
    """null starts at the beginning, like leaving it out."""
    async with open_raw(make_server(2)) as raw:
        result = await raw.result("tools/list", {"cursor": None})
        assert [tool["name"] for tool in result["tools"]] == ["n0", "n1"]


@given(
    size=st.integers(1, 4),
    changes=st.lists(st.tuples(st.booleans(), st.integers(0, 30)), max_size=20),
)
def test_walking_through_a_changing_list(size: int, changes: list[tuple[bool, int]]) -> None:
    """Entries that were there all the time are seen exactly once, whatever comes and goes."""
    registry: Registry[str] = Registry("thing", lambda: None)
    for number in range(8):
        registry.add(str(number), str(number))
    stayed = {str(number) for number in range(8)}
    seen: list[str] = []
    cursor = None
    upcoming = iter(changes)
    while True:
        entries, cursor = registry.page({"cursor": cursor}, size)
        seen += entries
        if cursor is None:
            break
        removing, number = next(upcoming, (True, 99))
        name = str(number)
        if removing and registry.get(name) is not None:
            registry.remove(name)
            stayed.discard(name)
        elif not removing and registry.get(name) is None:
            registry.add(name, name)
    assert {name for name in seen if name in stayed} == stayed
    assert all(seen.count(name) == 1 for name in stayed)


@given(st.text())
def test_any_text_as_a_cursor(cursor: str) -> None:
    """No text breaks the reader of cursors."""
    registry: Registry[int] = Registry("thing", lambda: None)
    registry.add("a", 1)
    with pytest.raises(MCPError):
        registry.page({"cursor": cursor}, 1)


def test_page_size_is_checked() -> None:
    """A page holds at least one entry."""
    with pytest.raises(ValueError, match="page_size"):
        Server("s", page_size=0)
