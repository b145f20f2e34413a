"""Content-Type and Accept: capitals, parameters, wildcards and weights."""

import time
from itertools import product

import pytest
import trio.testing
from hypothesis import given
from hypothesis import strategies as st

from mcp_trio import Server
from mcp_trio.server.http.negotiation import accepts, is_json
from tests.server.http.web import ACCEPT, open_web

BOTH = ("application/json", "text/event-stream")


@pytest.mark.parametrize(
    "value",
    [
        "application/json",
        "Application/JSON",
        "application/json; charset=utf-8",
        "application/json;charset=UTF-8",
        " application/json ;x=y",
    ],
)
def test_json(value: str) -> None:
    """JSON is JSON in any capitals and with any parameters."""
    assert is_json(value)


@pytest.mark.parametrize(
    "value", [None, "", "text/plain", "application/jsonl", "application/json5"]
)
def test_not_json(value: str | None) -> None:
    """What only looks like it is not."""
    assert not is_json(value)


@pytest.mark.parametrize(
    "accept",
    [
        None,
        "*/*",
        ACCEPT,
        "text/event-stream,application/json",
        "APPLICATION/JSON, Text/Event-Stream",
        "application/json; q=0.5, text/event-stream;q=1.0",
        "application/*, text/*",
        "application/json;version=1, text/event-stream;charset=utf-8",
        'image/png;note="a, b", */*;q=0.1',
        "*/*;q=0, application/json, text/event-stream",
        "text/html, application/xhtml+xml, */*;Q=0.8",
    ],
)
def test_both_are_accepted(accept: str | None) -> None:
    """All ways to say that both kinds of answer are welcome."""
    assert accepts(accept, *BOTH)


@pytest.mark.parametrize(
    "accept",
    [
        "",
        "application/json",
        "text/event-stream",
        "text/*",
        "application/json, text/event-stream;q=0",
        "application/json, text/event-stream; Q=0.000",
        "*/*, application/json;q=0",
        "application/json, text/event-streams",
        "application/json text/event-stream",
        "text/event-stream, application/*;q=0, */*",
        "*/*;q=nonsense",
        ";;;,,,",
    ],
)
def test_one_is_missing(accept: str) -> None:
    """Leaving one out, or giving it no weight, is to refuse it."""
    assert not accepts(accept, *BOTH)


@given(st.text(st.characters(max_codepoint=255), max_size=60))
def test_any_accept_can_be_read(accept: str) -> None:
    """Whatever stands there, it is read without an error."""
    accepts(accept, *BOTH)
    is_json(accept)


@pytest.mark.parametrize("part", ["".join(two) for two in product('",;=\\a', repeat=2)])
def test_no_accept_takes_long_to_be_read(part: str) -> None:
    """A header that a client sends must not stop the server for everybody else."""
    for accept in (part * 15_000, f'"{part * 15_000}'):
        start = time.process_time()
        accepts(accept, *BOTH)
        is_json(accept)
        assert time.process_time() - start < 0.5


@pytest.mark.parametrize("quoted", ['"*/*, */*"', '"a\\", */*"', '", */*', '"a\\", */*', '"\\'])
def test_what_stands_in_quotes_is_no_media_type(quoted: str) -> None:
    """A comma in quotes ends nothing; a backslash, or nobody, keeps them open."""
    assert not accepts(f"x/y;z={quoted}", *BOTH)
    assert accepts(f"*/*, x/y;z={quoted}", *BOTH)


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"accept": "application/json"}, 406),
        ({"accept": "text/html"}, 406),
        ({"content-type": "text/plain"}, 415),
        ({"content-type": ""}, 415),
        ({"Content-Type": "APPLICATION/json; charset=utf-8", "ACCEPT": "*/*"}, 200),
    ],
)
async def test_over_http(headers: dict[str, str], status: int) -> None:
    """The endpoint answers 406 and 415, and takes names of headers in any capitals."""
    async with open_web(Server("s")) as web:
        lower = {name.lower(): value for name, value in headers.items()}
        exchange = web.modern("tools/list", headers=lower)
        await exchange.done.wait()
        assert exchange.status == status
        client = await web.initialize()
        client.headers.update(lower)
        exchange = client.request("tools/list")
        await exchange.done.wait()
        assert exchange.status == status


async def test_a_missing_accept(autojump_clock: trio.testing.MockClock) -> None:
    """A client that does not say what it takes takes anything (RFC 9110, 12.5.1)."""
    async with open_web(Server("s")) as web:
        headers = {"content-type": "application/json", "mcp-protocol-version": "2026-07-28"}
        body = b'{"jsonrpc":"2.0","method":"x/y"}'
        assert (await web.fetch("POST", headers=headers, body=body)).status == 202
