"""Protocol: the methods of the table with params of every kind, versions, `_meta`, and order."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from hypothesis import strategies as st

from mcp_trio.harness.fuzzing.cases import Ask, Case, Step, Tell
from mcp_trio.harness.fuzzing.schema_values import changed, odd_values
from mcp_trio.harness.fuzzing.scope import Scope, numbered
from mcp_trio.protocol import meta as keys
from mcp_trio.protocol.methods import METHODS
from mcp_trio.protocol.revisions import REVISIONS
from mcp_trio.testing.strategies import json_objects
from mcp_trio.wire.jsonrpc import JSON, JSONObject

Draw = Callable[[st.SearchStrategy[Any]], Any]

VERSIONS: Final[tuple[JSON, ...]] = (
    *REVISIONS, "1999-01-01", "2099-12-31", "", "1.0", "2025-11-25 ", "latest", "DRAFT-2026-v1",
    None, 5, [], {}, "x" * 5000, "\x00",
)  # fmt: skip

EXAMPLES: Final[dict[str, JSONObject]] = {
    "initialize": {
        "protocolVersion": "2025-11-25",
        "capabilities": {"roots": {"listChanged": True}, "sampling": {}},
        "clientInfo": {"name": "harness", "version": "1"},
    },
    "tools/call": {"name": "harness_no_such_tool", "arguments": {"a": 1}},
    "resources/read": {"uri": "harness://nothing"},
    "resources/subscribe": {"uri": "harness://nothing"},
    "resources/unsubscribe": {"uri": "harness://nothing"},
    "prompts/get": {"name": "harness_no_such_prompt", "arguments": {"a": "b"}},
    "completion/complete": {
        "ref": {"type": "ref/resource", "uri": "harness://{x}"},
        "argument": {"name": "x", "value": "y"},
        "context": {"arguments": {"z": "1"}},
    },
    "logging/setLevel": {"level": "info"},
    "subscriptions/listen": {"notifications": {"toolsListChanged": True}},
    "tools/list": {"cursor": "harness"},
    "tasks/get": {"taskId": "harness"},
    "tasks/cancel": {"taskId": "harness"},
    "tasks/result": {"taskId": "harness"},
    "sampling/createMessage": {"messages": [], "maxTokens": 10},
    "elicitation/create": {"message": "x", "requestedSchema": {"type": "object", "properties": {}}},
}

REQUESTS: Final = [name for name, row in METHODS.items() if row.kind == "request"]

NOTES: Final[dict[str, JSONObject]] = {
    "notifications/cancelled": {"requestId": 77, "reason": "none"},
    "notifications/progress": {"progressToken": 77, "progress": 1, "total": 2},
    "notifications/message": {"level": "info", "data": "x"},
    "notifications/resources/updated": {"uri": "harness://nothing"},
    "notifications/tasks/status": {"taskId": "x", "status": "working"},
}


def cases(scope: Scope) -> st.SearchStrategy[Case]:
    steps = st.one_of(
        _known(), _known(), _strange(scope), _notice(), _odd_meta(scope), _plain(scope)
    )
    several = st.lists(steps, min_size=1, max_size=10)
    ordinary = several.map(lambda steps: Case("protocol", numbered(steps)))
    if scope.transport in ("memory", "stream", "websocket"):
        return ordinary | _before_the_handshake(scope)
    # A new process for each takes its time.
    return st.integers(0, 19).flatmap(
        lambda number: _before_the_handshake(scope) if number == 0 else ordinary
    )


@st.composite
def _known(draw: Draw) -> Step:
    """A method of the table, in whatever revision and direction, with params that are not right."""
    method = draw(st.sampled_from(REQUESTS) | st.sampled_from(sorted(EXAMPLES)))
    example = EXAMPLES.get(method, {})
    params = draw(st.just(example) | changed(st.just(example)))
    return Ask(1, method, params if isinstance(params, dict) else {"x": params})


@st.composite
def _strange(draw: Draw, scope: Scope) -> Step:
    return Ask(1, draw(st.sampled_from(scope.strange_methods)), draw(st.none() | json_objects(3)))


@st.composite
def _notice(draw: Draw) -> Step:
    method = draw(st.sampled_from([name for name, row in METHODS.items() if "/" in name]))
    params = draw(changed(st.just(NOTES.get(method, {}))))
    return Tell(method, params if isinstance(params, dict) else None)


def _plain(scope: Scope) -> st.SearchStrategy[Step]:
    return scope.asks


@st.composite
def _odd_meta(draw: Draw, scope: Scope) -> Step:
    """A good request with something else in `_meta` than there should be."""
    key = draw(
        st.sampled_from(
            [
                keys.PROTOCOL_VERSION,
                keys.CLIENT_INFO,
                keys.CLIENT_CAPABILITIES,
                "io.modelcontextprotocol/logLevel",
                "io.modelcontextprotocol/related-task",
                "progressToken",
                "traceparent",
                "com.example/x",
                "/",
                "",
            ]
        )
    )
    values = st.sampled_from(VERSIONS) if key == keys.PROTOCOL_VERSION else odd_values()
    ask: Ask = draw(scope.asks)
    return Ask(1, ask.method, ask.params, {key: draw(values)})


@st.composite
def _before_the_handshake(draw: Draw, scope: Scope) -> Case:
    """What comes before `initialize`, in its place, after it, or twice."""
    hello = {**EXAMPLES["initialize"], "protocolVersion": scope.revision}
    steps: list[Step] = []
    for _ in range(draw(st.integers(1, 5))):
        kind = draw(st.integers(0, 4))
        if kind == 0:
            params = draw(changed(st.just(hello)))
            steps.append(Ask(1, "initialize", params if isinstance(params, dict) else {}))
        elif kind == 1:
            steps.append(Tell("notifications/initialized"))
        elif kind == 2:
            version = draw(st.sampled_from(VERSIONS))
            steps.append(Ask(1, "initialize", {**hello, "protocolVersion": version}))
        else:
            steps.append(draw(scope.asks))
    return Case("protocol", numbered(steps), handshake=False)
