"""The store of events in memory: order, bounds, and what it forgets first."""

from hypothesis import given
from hypothesis import strategies as st

from mcp_trio.server.http.events import MemoryEventStore


def test_after() -> None:
    """What comes after a number is returned in order, stream by stream."""
    store = MemoryEventStore()
    for number in (1, 2, 5):
        store.add("a", number, b"a%d" % number)
    store.add("b", 3, b"b")
    assert store.after("a", 1) == [(2, b"a2"), (5, b"a5")]
    assert store.after("a", 5) == store.after("c", 0) == []
    store.drop("a")
    store.drop("a")
    assert store.after("a", 0) == []
    assert store.after("b", 0) == [(3, b"b")]


def test_one_stream_is_bounded() -> None:
    """A stream keeps its newest events, and at least one."""
    store = MemoryEventStore(stream_bytes=1_000)
    for number in range(100):
        store.add("a", number, b"x" * 100)
    assert [number for number, _ in store.after("a", -1)] == [97, 98, 99]
    store.add("a", 100, b"x" * 5_000)
    assert [number for number, _ in store.after("a", -1)] == [100]


def test_all_streams_are_bounded() -> None:
    """Together, streams that were silent longest give way."""
    store = MemoryEventStore(total_bytes=1_000)
    for name in "abcd":
        store.add(name, 1, b"x" * 100)
    assert store.after("a", 0) == []
    store.add("b", 2, b"x")
    store.add("e", 1, b"x")
    assert store.after("c", 0) == []
    assert len(store.after("b", 0)) == 2


@given(
    st.lists(st.tuples(st.sampled_from("abc"), st.integers(0, 3_000), st.booleans()), max_size=60)
)
def test_accounts_are_kept(steps: list[tuple[str, int, bool]]) -> None:
    """Whatever is added and dropped, the size is right and within the bound."""
    store = MemoryEventStore(stream_bytes=2_000, total_bytes=5_000)
    for number, (name, size, drop) in enumerate(steps):
        if drop:
            store.drop(name)
        else:
            store.add(name, number, b"x" * size)
            assert store.after(name, number - 1) == [(number, b"x" * size)]
    held = sum(len(data) + 200 for name in "abc" for _, data in store.after(name, -1))
    assert store.size == held <= 5_000 + 3_200
