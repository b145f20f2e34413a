"""Headers: HTTP requests with methods, headers and bodies that are not quite right."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from hypothesis import strategies as st

from mcp_trio.harness.fuzzing.cases import Ask, Case, Post, Step
from mcp_trio.harness.fuzzing.scope import Scope, numbered
from mcp_trio.harness.fuzzing.speech import Speech
from mcp_trio.testing.strategies import damaged_lines

Draw = Callable[[st.SearchStrategy[Any]], Any]

VALUES: Final[dict[str, tuple[str | None, ...]]] = {
    "content-type": (
        None, "", "text/plain", "application/json; charset=utf-16", "application/json;;",
        "APPLICATION/JSON", "application/json, text/plain", "multipart/form-data", "x" * 4000,
    ),
    "accept": (
        None, "", "*/*", "application/json", "text/event-stream", "text/html;q=0.1", "text/*;q=x",
        "application/json;q=0, text/event-stream", ",,,", "a" * 4000,
    ),
    "mcp-protocol-version": (
        None, "", "2099-01-01", "2024-11-05", "latest", "2025-11-25,", "x" * 500,
    ),
    "mcp-session-id": (None, "", "none", "../..", "a" * 3000, "0", "%00"),
    "mcp-method": (None, "", "tools/call", "ping ", "PING", "=?UTF-8?B?eA==?="),
    "mcp-name": (None, "", "nothing", "=?base64?!!!?=", "a" * 2000),
    "origin": ("null", "http://evil.example", "http://localhost", "", "file://", "http://[::1"),
    "last-event-id": ("", "0", "x", "-1", "a" * 3000, "1_0", "%0a"),
    "host": ("evil.example", "localhost:1", "[::1]"),
    "content-encoding": ("gzip", "identity", "br"),
    "expect": ("100-continue", "nothing"),
    "connection": ("close", "upgrade"),
    "x-harness": ("a", "\x7f", "é", "a" * 8000),
}  # fmt: skip
METHODS: Final = (
    "POST",
    "POST",
    "POST",
    "GET",
    "DELETE",
    "PUT",
    "OPTIONS",
    "HEAD",
    "PATCH",
    "BREW",
)


def cases(scope: Scope) -> st.SearchStrategy[Case] | None:
    if not scope.network:
        return None
    steps = st.lists(_posts(scope), min_size=1, max_size=5)
    return st.builds(_case, steps, scope.asks)


def _case(posts: list[Step], last: Ask) -> Case:
    return Case("headers", numbered((*posts, last), 50))


@st.composite
def _posts(draw: Draw, scope: Scope) -> Post:
    names = draw(st.lists(st.sampled_from(sorted(VALUES)), max_size=3, unique=True))
    headers = {name: draw(st.sampled_from(VALUES[name])) for name in names}
    ask: Ask = draw(scope.asks)
    good = Speech(scope.revision).request(draw(st.integers(1, 900)), ask.method, ask.params)
    body = draw(
        st.one_of(
            st.just(good),
            st.just(good),
            st.just(b""),
            damaged_lines().map(lambda damaged: damaged.line),
            st.binary(max_size=40),
        )
    )
    what = ", ".join(names) or "plain"
    return Post(draw(st.sampled_from(METHODS)), headers, body, what)
