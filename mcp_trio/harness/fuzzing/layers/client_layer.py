"""For clients: what a server may say at the wrong moment, and what it may answer instead.

What comes before a healthy answer is *gentle* where every client has to live with it: notifications
that it does not know, answers that it did not ask for, pings. Everything else is rough, and a
client may well give up; but it may not crash, hang for ever, or talk nonsense itself.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, Final

from hypothesis import strategies as st

from mcp_trio.harness.fuzzing.cases import At, Case, Instead, Send, Step
from mcp_trio.harness.fuzzing.layers.json_layer import LEGAL, UNCLEAR
from mcp_trio.harness.fuzzing.schema_values import changed
from mcp_trio.protocol.revisions import is_modern
from mcp_trio.testing.strategies import damaged_lines, json_values, noise_lines
from mcp_trio.wire.jsonrpc import JSON, JSONObject

Draw = Callable[[st.SearchStrategy[Any]], Any]

FIRST_PING: Final = 9_000


def _frame(value: JSON) -> bytes:
    return json.dumps(value, separators=(",", ":")).encode()


def _note(method: str, **params: JSON) -> bytes:
    return _frame({"jsonrpc": "2.0", "method": method, "params": params})


GENTLE: Final[dict[str, bytes]] = {
    "an unknown notification": _note("notifications/harness", x=1),
    "a list that changed": _note("notifications/tools/list_changed"),
    "a cancellation of nothing": _note("notifications/cancelled", requestId="none"),
    "unknown members": _note("notifications/resources/list_changed", _meta={"com.example/x": [1]}),
}
"""What no client may mind."""

ROUGH: Final[dict[str, bytes]] = {
    "an answer that nobody asked for": _frame({"jsonrpc": "2.0", "id": 77_777, "result": {}}),
    "an error without an id": _frame({"jsonrpc": "2.0", "error": {"code": -32700, "message": "?"}}),
    "an error for id null": _frame(
        {"jsonrpc": "2.0", "id": None, "error": {"code": -32700, "message": "?"}}
    ),
    "progress for an unknown token": _note("notifications/progress", progressToken=-1, progress=1),
    "a log message of no level": _note("notifications/message", level="loud", data=None),
    "a notification without params": b'{"jsonrpc":"2.0","method":"notifications/progress"}',
    "a request without a method": b'{"jsonrpc":"2.0","id":55}',
    "another version": b'{"jsonrpc":"1.0","id":"$id","result":{}}',
    "a batch": b'[{"jsonrpc":"2.0","method":"notifications/harness"}]',
    "an empty batch": b"[]",
    "a number": b"1",
    **{f"{name} in a notification": _note("n/x")[:-1] + b',"odd":' + text + b"}"
       for name, text in (LEGAL | UNCLEAR).items() if len(text) < 50_000},
}  # fmt: skip
"""What may be too much for a client, though it should not kill it."""


def cases(revision: str, requests: int) -> st.SearchStrategy[Case]:
    """Cases for a client that makes so many requests to a healthy server."""
    gentle = st.sampled_from(sorted(GENTLE.items())).map(
        lambda item: Send(item[1], item[0], clear=True)
    )
    if not is_modern(revision):
        gentle |= st.integers(FIRST_PING, FIRST_PING + 500).map(_ping)
    rough = st.one_of(
        st.sampled_from(sorted(ROUGH.items())).map(lambda item: Send(item[1], item[0])),
        damaged_lines().map(lambda damaged: Send(damaged.line, f"damaged: {damaged.kind}")),
        noise_lines().map(lambda line: Send(line, "noise")),
    )
    return st.one_of(
        _with(gentle, requests), _with(gentle | rough, requests), _with_answers(requests)
    )


def _ping(id: int) -> Send:
    return Send(_frame({"jsonrpc": "2.0", "id": id, "method": "ping"}), "a ping", clear=True)


@st.composite
def _with(draw: Draw, frames: st.SearchStrategy[Send], requests: int) -> Case:
    steps: list[Step] = []
    for _ in range(draw(st.integers(1, 3))):
        steps.append(At(draw(st.integers(1, max(1, requests)))))
        steps += draw(st.lists(frames, min_size=1, max_size=6))
    return Case("client", tuple(steps))


@st.composite
def _with_answers(draw: Draw, requests: int) -> Case:
    """One request gets an answer that is none, or one for something else."""
    result: JSONObject = {"jsonrpc": "2.0", "id": "$id", "result": {}}
    error: JSONObject = {"jsonrpc": "2.0", "id": "$id", "error": {"code": -1, "message": "no"}}
    whole = draw(
        st.one_of(
            changed(st.just(result)),
            changed(st.just(error)),
            json_values(6).map(lambda value: {**result, "result": value}),
            st.sampled_from([{"tools": [{}]}, {"content": [{"type": "x"}]}, {"nextCursor": 1}]).map(
                lambda value: {**result, "result": value}
            ),
        )
    )
    at = At(draw(st.integers(1, max(1, requests))))
    return Case("client", (at, Instead(_frame(whole), "another answer")))
