"""Arguments: of the target's own tools, prompts and resources, just inside and just outside."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from hypothesis import strategies as st

from mcp_trio.harness.fuzzing.cases import Ask, Case
from mcp_trio.harness.fuzzing.schema_values import changed, fitting, near
from mcp_trio.harness.fuzzing.scope import Scope, numbered
from mcp_trio.wire.jsonrpc import JSONObject

Draw = Callable[[st.SearchStrategy[Any]], Any]


def cases(scope: Scope) -> st.SearchStrategy[Case] | None:
    things = [_call(tool) for tool in scope.tools]
    for name in ("prompts/get", "completion/complete", "resources/read"):
        if name in scope.questions:
            things.append(_changed(scope, name))
    things += [_template(template) for template in scope.inventory.templates]
    if not things:
        return None
    answers = st.sampled_from(["well", "well", "errors", "odd", "never"])
    steps = st.lists(st.one_of(*things), min_size=1, max_size=8).map(numbered)
    return st.builds(Case, st.just("arguments"), steps, st.just(True), answers)


@st.composite
def _call(draw: Draw, tool: JSONObject) -> Ask:
    schema = tool.get("inputSchema")
    schema = schema if isinstance(schema, dict) else {}
    arguments = draw(fitting(schema) | near(schema) | near(schema))
    params = {"name": tool.get("name"), "arguments": arguments}
    if draw(st.integers(0, 19)) == 0:
        del params["arguments"]
    return Ask(1, "tools/call", params, token=draw(st.booleans()))


@st.composite
def _changed(draw: Draw, scope: Scope, method: str) -> Ask:
    params = draw(changed(scope.questions[method]))
    return Ask(1, method, params if isinstance(params, dict) else {})


@st.composite
def _template(draw: Draw, template: JSONObject) -> Ask:
    """A URI of a template with something in the place of its variables."""
    text = str(template.get("uriTemplate"))
    word = draw(
        st.sampled_from(
            ["a", "", "%", "%2F", "../..", "é", "a b", "{x}", "%00", "x" * 3000, "?a=1"]
        )
    )
    while (start := text.find("{")) >= 0 and (end := text.find("}", start)) > 0:
        text = text[:start] + word.replace("{", "").replace("}", "") + text[end + 1 :]
    return Ask(1, "resources/read", {"uri": text})
