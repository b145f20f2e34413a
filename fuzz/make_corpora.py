"""Makes the seed corpora: `python -m fuzz.make_corpora`.

What is in them comes from our own strategies' traps, from the mill, and from conversations of a
client with the demo server. The same files come out each time; those that are named `crash-*`
were found by a fuzzer, and are left alone.
"""

from __future__ import annotations

import base64
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

import msgspec
import trio

from fuzz import loop
from fuzz.mill import ASKED, NOISE, Mill
from fuzz.raw import RAW
from mcp_trio import open_client
from mcp_trio.connection import MemoryFrameStream, memory_frame_pair
from mcp_trio.demo import server
from mcp_trio.wire.sse import encode_comment, encode_event

CORPORA = Path(__file__).parent / "corpora"
FILES = 40
"""The most files of one corpus."""


TOOLS: dict[str, dict[str, Any]] = {
    "add": {"a": 1, "b": 2},
    "echo": {"text": "\u2028"},
    "summarize": {"numbers": [1, 2]},
    "logo": {},
    "fail": {},
}


class Recording(MemoryFrameStream):
    """A stream that keeps what it carries."""

    def __init__(self, stream: MemoryFrameStream) -> None:
        super().__init__(stream._outgoing, stream._incoming)
        self.sent: list[bytes] = []
        self.received: list[bytes] = []

    async def receive(self) -> list[bytes]:
        frames = await super().receive()
        self.received += frames
        return frames

    async def send(self, frames: object) -> None:
        assert isinstance(frames, list)
        self.sent += frames
        await super().send(frames)


def conversation(mode: str) -> Recording:
    """What a client and the demo server say to each other."""

    async def talk() -> Recording:
        near, far = memory_frame_pair()
        recording = Recording(near)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(server.serve_frames, far)
            async with open_client(
                recording, mode=mode, on_elicit=lambda _: {"name": "A"}
            ) as client:
                await client.list_tools()
                for name, arguments in TOOLS.items():
                    await client.call_tool(name, arguments)
                await client.list_resources()
                await client.read_resource("demo://notes/trio")
                await client.list_prompts()
                await client.get_prompt("explain", {"topic": "x"})
        return recording

    return loop.run(talk, random=Random(0))


def ndjson() -> Iterator[bytes]:
    for mode in ("modern", "2024-11-05", "2025-11-25"):
        recording = conversation(mode)
        yield b"\n".join(recording.sent[:3])
        yield b"\r\n".join(recording.received[:1]) + b"\r\n"
    for number, noise in enumerate(NOISE):
        frame = Mill(Random(number)).from_server()
        yield b"\xef\xbb\xbf" * (number % 2) + noise[:200] + b"\n\n \r\n" + frame


def jsonrpc() -> Iterator[bytes]:
    mill = Mill(Random(1))
    for _ in range(FILES // 2):
        yield mill.from_client()
        yield mill.from_server()


def sse() -> Iterator[bytes]:
    frames = conversation("modern").received[:8]
    for number, frame in enumerate(frames):
        event = encode_event(frame[:300], id=str(number) if number % 2 else None)
        yield encode_comment("hi") * (number % 3) + event
        yield event.replace(b"\n", (b"\r", b"\r\n", b"\n")[number % 3])
    yield encode_event(b"", id="0", retry=1500) + encode_event(b"a\n\nb", event="endpoint")
    odd_fields = b"\xef\xbb\xbfdata\ndata:  x\nid\nid: a\0b\nevent:\nretry: -1\n\n"
    yield odd_fields + b"retry: 007\n: c\n\ndata: cut"


def headers() -> Iterator[bytes]:
    for text in ("add", "", " edge ", "h\u00e9", "\u2028", "a\r\nb", "=?base64?YQ==?=", "x" * 200):
        yield text.encode()
        yield b"=?base64?" + base64.b64encode(text.encode()) + b"?="
    yield from (b"=?base64??=", b"=?base64?YR==?=", b"=?base64?Y Q==?=", b"\t a", b"42.0", b"-007")


def schema() -> Iterator[bytes]:
    a_chain = {f"a{n}": {"allOf": [{"$ref": f"#/$defs/a{n + 1}"}] * 2} for n in range(6)}
    marked = {"type": "string", "x-mcp-header": "A"}
    for declared, value in (
        ({"type": "object", "properties": {"a": {"type": "integer"}}}, {"a": 1}),
        ({"type": "object", "properties": {"a": marked, "b": {"items": marked}}}, {"a": "x"}),
        ({"$ref": "#/$defs/a0", "$defs": {**a_chain, "a6": {"type": "null"}}}, None),
        ({"anyOf": [{"$ref": "#"}, {"items": {"$ref": "#"}}]}, [[]]),
        ({"$anchor": "x", "not": {"$dynamicRef": "#x"}}, 1),
        ({"$schema": "http://json-schema.org/draft-07/schema#", "items": [{}, True]}, [1]),
        (
            {"patternProperties": {"^a": {"minLength": 2}}, "additionalProperties": False},
            {"ab": ""},
        ),
        ({"if": {"const": 1}, "then": False, "else": {"enum": [2]}}, 2),
        ({"unevaluatedProperties": {"$ref": "#"}, "dependentSchemas": {"a": {}}}, {"a": {}}),
        ({"$ref": "https://example.org/x"}, 0),
        ({"$ref": "#/%24defs/a~1b", "$defs": {"a/b": {}}}, 0),
        ({"pattern": "(a+)+$", "format": "date", "multipleOf": 0.1}, "a" * 20),
    ):
        yield msgspec.json.encode(declared) + b"\n" + msgspec.json.encode(value)
    for frame in conversation("modern").received:
        for tool in msgspec.json.decode(frame).get("result", {}).get("tools", ()):
            yield msgspec.json.encode(tool["inputSchema"]) + b'\n{"a":1,"b":2}'


def uri() -> Iterator[bytes]:
    for template, uri in (
        ("demo://notes/{name}", "demo://notes/trio"),
        ("demo://notes/{name}", "demo://notes/%C3%A9%2F"),
        ("{+path}/x", "a/b/c/x"),
        ("a{/path*}", "a/b/c"),
        ("a{?q,r}", "a?q=1&r="),
        ("a{?q*}", "a?x=1&y=2"),
        ("{name}.{ext}", "a.b.c"),
        ("{a:3}{/a}", "abc/abcdef"),
        ("a{;x,y}{#f}", "a;x=1;y#z"),
        ("a{.b}{&c}", "a.b&c=%20"),
        ("{a}{b}", "ab"),
        ("{", "{"),
        ("x{%41}", "x~%7e"),
    ):
        yield f"{template}\n{uri}".encode()


def a_server() -> Iterator[bytes]:
    for mode in ("modern", "2024-11-05", "2025-03-26", "2025-11-25"):
        sent = conversation(mode).sent
        yield b"\n".join(sent[:4])
        yield b"\n".join(sent[:2] + sent[-4:])
    for number in range(16):
        mill = Mill(Random(number), modern=number % 3 / 2)
        opening = mill.opening() if number % 2 else []
        yield b"\n".join([*opening, *(mill.from_client() for _ in range(len(ASKED) // 5))])


SEEDS = {
    "ndjson": ndjson,
    "jsonrpc": jsonrpc,
    "sse": sse,
    "headers": headers,
    "schema": schema,
    "uri": uri,
    "server": a_server,
}


def main() -> None:
    assert SEEDS.keys() == RAW.keys()
    for name, make in SEEDS.items():
        folder = CORPORA / name
        folder.mkdir(parents=True, exist_ok=True)
        for old in folder.glob("seed-*"):
            old.unlink()
        for number, data in enumerate(dict.fromkeys(make())):
            (folder / f"seed-{number:02}").write_bytes(data)
        print(f"{name}: {len(list(folder.iterdir()))} files")


if __name__ == "__main__":
    main()
