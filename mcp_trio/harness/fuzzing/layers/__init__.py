"""The layers: kinds of cases, from bytes to sequences, each a strategy that a user can choose.

A layer is a function that takes a `Scope` and gives a strategy of cases, or None where the target
has nothing that it could work on (no HTTP, no tools). They differ in what they get wrong: each
leaves the layers below it alone, so that what it sends gets as far as the part it is meant for.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Final, TypeAlias

from hypothesis import strategies as st

from mcp_trio.harness.fuzzing.cases import Case
from mcp_trio.harness.fuzzing.scope import Scope

__all__ = ["LAYERS", "cases_of"]

Layer: TypeAlias = Callable[[Scope], "st.SearchStrategy[Case] | None"]

LAYERS: Final[dict[str, str]] = {
    "bytes": "lines cut anywhere, CR LF, noise between them, bad UTF-8, long lines",
    "json": "every legal and illegal oddity of JSON",
    "jsonrpc": "envelopes, ids, batches, duplicates, answers that nobody asked for",
    "protocol": "methods, params, versions, _meta, capabilities, order",
    "arguments": "arguments of tools, prompts and resources, just inside and just outside",
    "headers": "HTTP methods, headers and bodies",
    "sequences": "long conversations by the rules: call, cancel, subscribe, list, ping",
    "chaos": "stalls, floods, cuts, signals, half-closed connections",
    "bulk": "a hundred messages at a time, made from the others' by simple changes",
}
"""The layers and what they do, in the order in which they take turns."""


def cases_of(layer: str, scope: Scope) -> st.SearchStrategy[Case] | None:
    """The cases of a layer; None if the target has nothing for it."""
    function: Layer = import_module(f"{__name__}.{layer}_layer").cases
    return function(scope)
