"""Nothing passes the guard that anybody could read as a call of a protected tool."""

from __future__ import annotations

import json

import pytest

from mcp_trio.harness.fuzzing.cases import Ask, Raw, Send
from mcp_trio.harness.fuzzing.guard import Guard
from tests.harness.fuzzing.kit import accused, play, subject

CALL = '{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"erase","arguments":{}}}'
ESCAPED = CALL.replace("erase", "\\u0065ras\\u0065")


@pytest.mark.parametrize(
    "text",
    [
        CALL,
        ESCAPED,
        CALL.replace("tools/call", "tools\\/call"),
        f"[{CALL}]",
        CALL[:-1],
        CALL.replace('"erase"', '"erase" ,"name":"look"'),
        CALL.replace(":", " :\t"),
    ],
)
def test_a_call_is_stopped_in_any_spelling(text: str) -> None:
    """Readers of JSON differ; what one of them would call must not go out."""
    guard = Guard(["erase"])
    assert not guard.allows(text.encode())
    assert Guard().allows(text.encode())


@pytest.mark.parametrize(
    "text",
    [
        CALL.replace("erase", "look"),
        '{"method":"tools/list","params":{"x":"erase"}}',
        json.dumps({"method": "tools/call", "params": {"name": "look", "x": "they erase it"}}),
        "",
    ],
)
def test_the_rest_passes(text: str) -> None:
    """What is stopped for nothing is not tested."""
    assert Guard(["erase"]).allows(text.encode())


def test_a_call_in_pieces_is_stopped() -> None:
    """A line may begin in one step and end in another."""
    guard = Guard(["erase"])
    head, tail = CALL[:50].encode(), CALL[50:].encode()
    assert guard.allows_bytes(head)
    assert not guard.allows_bytes(tail + b"\n")
    assert guard.allows_bytes(b"\n")
    assert guard.allows_bytes(tail + b"\n")


async def test_a_protected_tool_is_not_called(autojump_clock: object) -> None:
    """The guard stands in front of the wire, whatever a step is."""
    call = CALL.replace("erase", "write_note").replace("{}", '{"name":"x","text":"y"}').encode()
    ask = Ask(1, "tools/call", {"name": "write_note", "arguments": {"name": "x", "text": "y"}})
    read = Ask(5, "resources/read", {"uri": "demo://notes/x"})
    async with subject(protected=["write_note"]) as healthy:
        steps = (ask, Send(call), Send(call, clear=True), Raw((call + b"\n",)), read)
        played = await play(healthy, *steps)
        sent = [entry.data for entry in played.exchange if entry.kind == "sent"]
        assert not any(b"write_note" in data for data in sent)
        assert any(b"demo://notes/x" in data for data in sent)
        assert await accused(healthy, read) == []
