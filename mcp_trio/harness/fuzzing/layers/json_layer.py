"""JSON: every legal oddity, which has to be understood, and every illegal one, to be survived."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from typing import Any, Final

from hypothesis import strategies as st

from mcp_trio.harness.fuzzing.cases import Ask, Case, Send
from mcp_trio.harness.fuzzing.scope import Scope
from mcp_trio.harness.fuzzing.speech import Speech
from mcp_trio.testing.strategies import undecodable_lines
from mcp_trio.wire.jsonrpc import JSON

Draw = Callable[[st.SearchStrategy[Any]], Any]

LEGAL: Final = {
    "an exponent": b"1E2",
    "a fraction of zero": b"1.0",
    "minus zero": b"-0",
    "a tiny number": b"1e-400",
    "an integer beyond 2**53": b"9007199254740993",
    "an integer beyond 2**64": b"18446744073709551617",
    "a hundred digits": b"1" * 100,
    "digits after the point": b"0." + b"1" * 400,
    "line separators": '"\u2028\u2029\x85"'.encode(),
    "escaped separators": b'"\\u2028\\u2029\\u0085"',
    "an escaped NUL": b'"a\\u0000b"',
    "a pair of surrogates": b'"\\ud83d\\ude00"',
    "all short escapes": b'"\\"\\\\\\/\\b\\f\\n\\r\\t"',
    "a byte-order mark": '"\ufeff"'.encode(),
    "a noncharacter": '"\uffff\U0010ffff"'.encode(),
    "an empty key": b'{"":{"":[]}}',
    "a key like a method": b'{"method":"tools/list","id":1,"jsonrpc":"2.0","result":{}}',
    "nesting of 50": b"[" * 50 + b"]" * 50,
    "prototype pollution": b'{"__proto__":{"a":1},"constructor":{"prototype":{}}}',
}
"""What every reader of JSON takes, by what it is."""

UNCLEAR: Final = {
    "a number out of range": b"1e999",
    "nesting of 500": b"[" * 500 + b"]" * 500,
    "nesting of 5,000": b"[" * 5_000 + b"]" * 5_000,
    "nesting of 100,000": b"[" * 100_000 + b"]" * 100_000,
    "nested objects": b'{"a":' * 2_000 + b"1" + b"}" * 2_000,
    "nesting without end": b'{"a":[' * 20_000,
    "5,000 digits": b"9" * 5_000,
    "an exponent of 30 digits": b"1e" + b"9" * 30,
    "a lone surrogate": b'"\\ud800"',
    "the other half": b'"\\udc00 x"',
    "surrogates in UTF-8": b'"\xed\xa0\x80"',
    "NaN": b"NaN",
    "Infinity": b"-Infinity",
    "a control character": b'"\x01"',
    "a tab in a string": b'"\t"',
    "a comment": b"/* x */ 1",
    "a trailing comma": b"[1,]",
    "single quotes": b"'x'",
    "a bare word": b"undefined",
    "a leading zero": b"007",
    "a hexadecimal number": b"0x1F",
    "a leading plus": b"+1",
    "bad UTF-8": b'"\xff\xfe"',
    "overlong UTF-8": b'"\xc0\xaf"',
    "a cut escape": b'"\\u12"',
    "a key twice": b'{"a":1,"a":2}',
    "hash collisions": json.dumps({str(n * (2**61 - 1)): n for n in range(200)}).encode(),
}
"""What is no JSON, or what a reader may have had enough of."""


def cases(scope: Scope) -> st.SearchStrategy[Case]:
    steps = st.one_of(_odd(scope, LEGAL), _odd(scope, UNCLEAR), _spelt(scope), _envelope(), _bad())
    several = st.lists(steps, min_size=1, max_size=10)
    return several.map(lambda steps: Case("json", tuple(steps)))


@st.composite
def _odd(draw: Draw, scope: Scope, oddities: dict[str, bytes]) -> Send:
    """A request with an oddity where nobody should mind what is there."""
    name = draw(st.sampled_from(sorted(oddities)))
    place = draw(st.sampled_from(["meta", "member", "argument"]))
    speech = Speech(scope.revision)
    id = draw(st.integers(1, 900))
    hole = "a hole for the oddity"
    if place == "meta":
        frame = speech.request(id, *_fence(scope), {"com.example/odd": hole})
    elif place == "argument" and scope.tools:
        tool = draw(st.sampled_from(scope.tools))
        names = list(_properties(tool)) or ["x"]
        params = {"name": tool.get("name"), "arguments": {draw(st.sampled_from(names)): hole}}
        frame = speech.request(id, "tools/call", params)
    else:
        frame = speech.request(id, *_fence(scope))[:-1] + f', "odd": "{hole}"}}'.encode()
    # What the envelope does not know may be refused, and a tool may be called and take its time.
    clear = oddities is LEGAL and place == "meta"
    return Send(frame.replace(f'"{hole}"'.encode(), oddities[name]), f"{name} in {place}", clear)


def _fence(scope: Scope) -> tuple[str, None]:
    return ("server/discover" if scope.is_modern else "ping"), None


def _properties(tool: dict[str, Any]) -> dict[str, Any]:
    schema = tool.get("inputSchema")
    found = schema.get("properties") if isinstance(schema, dict) else None
    return found if isinstance(found, dict) else {}


@st.composite
def _spelt(draw: Draw, scope: Scope) -> Send:
    """A good request in one of the many ways in which JSON lets one write it."""
    ask: Ask = draw(scope.asks)
    id = draw(st.integers(1, 900))
    value = json.loads(Speech(scope.revision).request(id, ask.method, ask.params))
    seed = draw(st.integers(0, 2**32))
    return Send(spelt(value, random.Random(seed)).encode(), "another spelling", clear=True)


def spelt(value: JSON, chance: random.Random) -> str:
    """A JSON text for a value: with blanks, escapes and an order of members that chance picks.

    Without carriage returns: JSON allows them between its tokens, but to some they end a line.
    """

    def space() -> str:
        return chance.choice(("", "", "", " ", "\t", "  "))

    def text(string: str) -> str:
        style = chance.randrange(3)
        if style == 0:
            return json.dumps(string)
        if style == 1:
            return json.dumps(string, ensure_ascii=False)
        return '"' + "".join(f"\\u{unit:04x}" for unit in _units(string)) + '"'

    if isinstance(value, dict):
        members = list(value.items())
        chance.shuffle(members)
        pairs = (
            space() + text(key) + space() + ":" + space() + spelt(item, chance) + space()
            for key, item in members
        )
        return "{" + (",".join(pairs) or space()) + "}"
    if isinstance(value, list):
        return "[" + ",".join(space() + spelt(item, chance) + space() for item in value) + "]"
    if isinstance(value, str):
        return text(value)
    return json.dumps(value)


def _units(string: str) -> list[int]:
    data = string.encode("utf-16-be", "surrogatepass")
    return [int.from_bytes(data[at : at + 2], "big") for at in range(0, len(data), 2)]


def _envelope() -> st.SearchStrategy[Send]:
    """Members of the envelope that occur twice, or whose names are written with escapes."""
    texts = (
        b'{"jsonrpc":"2.0","id":901,"id":902,"method":"ping"}',
        b'{"jsonrpc":"2.0","id":903,"method":"ping","method":"tools/list"}',
        b'{"jsonrpc":"1.0","jsonrpc":"2.0","id":904,"method":"ping","params":{},"params":{}}',
        b'{"\\u006asonrpc":"2.0","\\u0069d":905,"\\u006dethod":"p\\u0069ng"}',
        b'{"jsonrpc":"2.0","id":9.06e2,"method":"ping"}',
        b'{"jsonrpc":"2.0","id":907.0,"method":"ping"}',
        b'{"jsonrpc":"2.0","id":-0,"method":"ping"}',
        b'{"jsonrpc":"2.0","id":1e400,"method":"ping"}',
        b'{"jsonrpc":"2.0","id":"\\ud800","method":"ping"}',
        b'{"jsonrpc":"2.0","id":908,"method":"\\ud800"}',
        b'{"jsonrpc":"2.0","id":909,"method":"ping\\u0000"}',
        b'{"JSONRPC":"2.0","ID":910,"METHOD":"ping"}',
    )
    return st.sampled_from(texts).map(lambda text: Send(text, "an odd envelope"))


def _bad() -> st.SearchStrategy[Send]:
    return undecodable_lines().map(lambda damaged: Send(damaged.line, f"damaged: {damaged.kind}"))
