"""Suggestions while a person fills in the arguments of a prompt or a resource template.

(MCP 2026-07-28, server/utilities/completion)
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Literal, TypeAlias

import attrs

from mcp_trio.protocol.convert import unstructure
from mcp_trio.protocol.errors import INVALID_PARAMS, METHOD_NOT_FOUND, MCPError
from mcp_trio.protocol.revisions import supports
from mcp_trio.server.calling import AsyncFunction, as_async
from mcp_trio.server.context import Context
from mcp_trio.server.dispatch import Work
from mcp_trio.server.params import invalid, optional, required, strings
from mcp_trio.server.prompts import Prompts
from mcp_trio.server.resources import Resources
from mcp_trio.wire.jsonrpc import JSONObject

#: The most values of one answer.
MOST_VALUES = 100

Kind: TypeAlias = Literal["prompt", "resource"]


@attrs.frozen
class _Completer:
    call: AsyncFunction
    extras: frozenset[str]
    """Which of `argument` and `arguments` it wants besides the value."""
    context: str | None
    """The name of the parameter that takes the context."""


class Completions:
    """The functions that suggest values, by what they suggest them for."""

    def __init__(self, prompts: Prompts, resources: Resources) -> None:
        self._prompts = prompts
        self._resources = resources
        self._completers: dict[tuple[Kind, str, str | None], _Completer] = {}

    def __len__(self) -> int:
        return len(self._completers)

    def handlers(self) -> Mapping[str, Work]:
        return {"completion/complete": self.complete}

    def add(
        self,
        function: Callable[..., Any],
        prompt: str | None,
        resource: str | None,
        argument: str | None,
        thread: bool,
    ) -> None:
        """Register a function; see `Server.completion`."""
        kind: Kind = "resource" if prompt is None else "prompt"
        name = resource if prompt is None else prompt
        if name is None or (prompt is not None and resource is not None):
            raise ValueError("A completion is for a prompt or for a resource: name one of the two.")
        key = (kind, name, argument)
        if key in self._completers:
            raise ValueError(f"{kind} {name!r} has a completion for {argument or 'the rest'!r}.")
        self._completers[key] = _make_completer(function, thread)

    async def complete(self, ctx: Context, params: JSONObject) -> JSONObject:
        """Answer `completion/complete`."""
        if not self._completers:
            raise MCPError(METHOD_NOT_FOUND, "This server completes nothing.")
        kind, name = _reference(required(params, "ref", dict))
        given = required(params, "argument", dict)
        argument = required(given, "name", str, "argument.")
        value = required(given, "value", str, "argument.")
        context = optional(params, "context", dict) or {}
        arguments = strings(context, "arguments", "context.")
        self._check(kind, name, argument)
        completer = self._find(kind, name, argument)
        if completer is None:
            return {"completion": {"values": [], "total": 0, "hasMore": False}}
        if not supports("completion_context", ctx.protocol_version):
            arguments = {}
        extras: dict[str, Any] = {"argument": argument, "arguments": arguments}
        wanted = {name: extras[name] for name in completer.extras}
        if completer.context is not None:
            wanted[completer.context] = ctx
        return {"completion": _values(await completer.call(value, **wanted))}

    def _find(self, kind: Kind, name: str, argument: str) -> _Completer | None:
        own = self._completers.get((kind, name, argument))
        return own or self._completers.get((kind, name, None))

    def _check(self, kind: Kind, name: str, argument: str) -> None:
        """Raise unless there is such a prompt or template, with such an argument."""
        if kind == "prompt":
            known = self._prompts.arguments(name)
        else:
            known = self._resources.variables(name)
        if known is None:
            raise MCPError(INVALID_PARAMS, f"Unknown {kind}: {name}")
        if argument not in known:
            text = f"Invalid params: {kind} {name!r} has no argument {argument!r}."
            raise MCPError(INVALID_PARAMS, text)


def _make_completer(function: Callable[..., Any], thread: bool) -> _Completer:
    from mcp_trio.server.signature import function_schema

    signature = function_schema(function, context_type=Context)
    names = [parameter.variable for parameter in signature.parameters]
    if not names:
        raise TypeError("A completion takes at least one parameter: what has been typed so far.")
    extras = frozenset(names[1:]) & {"argument", "arguments"}
    return _Completer(as_async(function, thread=thread), extras, signature.context)


def _reference(ref: JSONObject) -> tuple[Kind, str]:
    match required(ref, "type", str, "ref."):
        case "ref/prompt":
            return "prompt", required(ref, "name", str, "ref.")
        case "ref/resource":
            return "resource", required(ref, "uri", str, "ref.")
        case other:
            raise invalid("ref.type", "'ref/prompt' or 'ref/resource'", other)


def _values(found: Any) -> JSONObject:
    """What a function returned, as the `completion` of a result."""
    if isinstance(found, str) or not isinstance(found, Iterable | Mapping):
        found = unstructure(found)
    if not isinstance(found, Mapping):
        values = list(found or ())
        found = {"values": values, "total": len(values)}
    values = list(found["values"])
    for value in values:
        if not isinstance(value, str):
            raise TypeError(f"A completion must be a string, not {value!r:.80}.")
    completion = {**found, "values": values[:MOST_VALUES]}
    completion.setdefault("hasMore", len(values) > MOST_VALUES)
    if len(values) > MOST_VALUES:
        completion["hasMore"] = True
    return completion
