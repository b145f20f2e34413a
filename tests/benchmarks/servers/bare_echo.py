"""The reference: what Trio and msgspec cost by themselves, with no protocol between them.

It splits lines, decodes, runs the same three tools in one task, checks nothing, and writes.
"""

import os
from collections.abc import Callable
from typing import Any

import msgspec
import trio

TOOLS: dict[str, Callable[[dict[str, Any]], str]] = {
    "add": lambda arguments: str(arguments["a"] + arguments["b"]),
    "echo": lambda arguments: str(arguments["text"]),
    "blob": lambda arguments: "x" * arguments["size"],
}


def answer(line: bytes) -> bytes:
    request = msgspec.json.decode(line)
    if "id" not in request:
        return b""
    if request["method"] == "tools/call":
        text = TOOLS[request["params"]["name"]](request["params"]["arguments"])
        result: dict[str, Any] = {"content": [{"type": "text", "text": text}], "isError": False}
    else:
        result = {"protocolVersion": "2025-11-25", "capabilities": {"tools": {}}}
    response = {"jsonrpc": "2.0", "id": request["id"], "result": result}
    return msgspec.json.encode(response) + b"\n"


async def main() -> None:
    stdin = trio.lowlevel.FdStream(os.dup(0))
    stdout = trio.lowlevel.FdStream(os.dup(1))
    pieces: list[bytes] = []
    async for chunk in stdin:
        head, *rest = bytes(chunk).split(b"\n")
        pieces.append(head)
        answers = []
        for start in rest:
            answers.append(answer(b"".join(pieces)))
            pieces = [start]
        if answers:
            await stdout.send_all(b"".join(answers))


if __name__ == "__main__":
    trio.run(main)
