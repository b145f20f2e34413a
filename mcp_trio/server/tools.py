"""Tools: functions that a model may call.

What can be known when a tool is registered is worked out then: its definition, how its arguments
are checked, how its function is called. A call only looks things up.
(MCP 2026-07-28, server/tools)
"""

import logging
import re
import traceback
import warnings
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, TypedDict

import attrs

from mcp_trio.incoming import sole_exception
from mcp_trio.protocol.errors import INVALID_PARAMS, MCPError
from mcp_trio.protocol.fit import fit_tool_result
from mcp_trio.protocol.revisions import supports
from mcp_trio.server.calling import as_async
from mcp_trio.server.context import Context
from mcp_trio.server.definitions import check_options, described, name_of
from mcp_trio.server.dispatch import Work
from mcp_trio.server.pagination import Registry
from mcp_trio.server.params import optional, required
from mcp_trio.wire.jsonrpc import JSONObject

if TYPE_CHECKING:
    from mcp_trio.protocol.types import Icon, ToolAnnotations
    from mcp_trio.server.signature import FunctionSchema
    from mcp_trio.wire.header_params import HeaderParam

logger = logging.getLogger("mcp_trio")

#: Names that every client can handle (MCP 2026-07-28, server/tools, Tool Names).
NAME = re.compile(r"[A-Za-z0-9_.-]{1,128}")


class ToolError(Exception):
    """An expected failure of a tool: its text is for the model, which may try something else."""


class ToolOptions(TypedDict, total=False):
    """What may be said about a tool besides its name.

    title: The name for people.
    description: For the model; the function's docstring by default.
    read_only: It changes nothing.
    destructive: It may destroy something; means something only where `read_only` is not set.
    idempotent: Calling it twice with the same arguments is the same as calling it once.
    open_world: It deals with a world outside, such as the web.
    annotations: These hints in the protocol's own form; the shorthands above win.
    icons: Pictures for people.
    meta: The tool's `_meta`.
    input_schema: A JSON Schema for the arguments instead of that of the signature. Arguments are
        checked against it and handed over as they are: by name, or as one dict if the function
        has a single parameter and the schema does not know it.
    output_schema: A JSON Schema for the structured output instead of that of the annotation.
    structured: False for no structured output and no output schema.
    thread: Run a plain function that blocks in a thread. A call that is cancelled leaves the
        thread to itself; `trio.from_thread.check_cancelled` tells the function.
    """

    title: str | None
    description: str | None
    read_only: bool | None
    destructive: bool | None
    idempotent: bool | None
    open_world: bool | None
    annotations: "ToolAnnotations | JSONObject | None"
    icons: "Sequence[Icon | JSONObject] | None"
    meta: JSONObject | None
    input_schema: JSONObject | None
    output_schema: JSONObject | None
    structured: bool
    thread: bool


_HINTS = {
    "read_only": "readOnlyHint",
    "destructive": "destructiveHint",
    "idempotent": "idempotentHint",
    "open_world": "openWorldHint",
}


@attrs.frozen
class Tool:
    """A registered tool.

    Attributes:
        definition: As `tools/list` has it, for the newest revision.
        bind: Keyword arguments of the function from a client's arguments, or `ArgumentsInvalid`.
        call: The function.
        context: The name of the parameter that takes the context, None if there is none.
        result: The result of `tools/call` from what the function returned.
        output_schema: The author's own; None where it was made from the signature, and so fits
            every revision.
        header_params: The arguments that HTTP headers repeat.
    """

    name: str
    definition: JSONObject
    bind: Callable[[JSONObject], dict[str, Any]]
    call: Callable[..., Awaitable[Any]]
    context: str | None
    result: Callable[[Any], JSONObject]
    output_schema: JSONObject | None
    header_params: "tuple[HeaderParam, ...]" = ()


class Tools:
    """The tools of a server.

    Args:
        changed: Called after every change of the list.
        page_size: Tools in one page of the list; None for all.
        tracebacks: Put the traceback of unexpected exceptions into the results.
    """

    def __init__(
        self, changed: Callable[[], None], page_size: int | None, *, tracebacks: bool
    ) -> None:
        self._registry: Registry[Tool] = Registry("tool", changed)
        self._page_size = page_size
        self._tracebacks = tracebacks

    def handlers(self) -> Mapping[str, Work]:
        """What answers the methods of this module."""
        return {"tools/list": self._list, "tools/call": self._call}

    def add(self, function: Callable[..., Any], name: str | None, options: ToolOptions) -> None:
        """Register a function; see `Server.tool`."""
        check_options("tool", options, ToolOptions)
        tool = make_tool(function, name, options)
        self._registry.add(tool.name, tool)

    def remove(self, name: str) -> None:
        self._registry.remove(name)

    def can_ask(self, params: JSONObject) -> bool:
        """Whether the tool that is called takes the context, without which it cannot ask."""
        name = params.get("name")
        tool = self._registry.get(name) if isinstance(name, str) else None
        return tool is not None and tool.context is not None

    def header_params(self, params: JSONObject) -> "tuple[HeaderParam, ...]":
        """The arguments of the tool that is called which HTTP headers have to repeat."""
        name = params.get("name")
        tool = self._registry.get(name) if isinstance(name, str) else None
        return () if tool is None else tool.header_params

    async def _list(self, _ctx: Context, params: JSONObject) -> JSONObject:
        tools, following = self._registry.page(params, self._page_size)
        result: JSONObject = {"tools": [tool.definition for tool in tools]}
        if following is not None:
            result["nextCursor"] = following
        return result

    async def _call(self, ctx: Context, params: JSONObject) -> JSONObject:
        name = required(params, "name", str)
        tool = self._registry.get(name)
        if tool is None:
            raise MCPError(INVALID_PARAMS, f"Unknown tool: {name}")
        arguments = optional(params, "arguments", dict) or {}
        try:
            keywords = tool.bind(arguments)
        except ValueError as exc:
            return _arguments_refused(f"Invalid arguments for {name}: {exc}", ctx)
        if tool.context is not None:
            keywords[tool.context] = ctx
        try:
            result = tool.result(await tool.call(**keywords))
        except Exception as exc:
            return self._failed(name, exc)
        if tool.output_schema is None:
            return result
        return fit_tool_result(result, ctx.protocol_version, tool.output_schema)

    def _failed(self, name: str, exc: Exception) -> JSONObject:
        """The result for a tool that raised; expected failures and errors go out as they are."""
        cause = sole_exception(exc)
        if isinstance(cause, MCPError):
            raise cause
        if isinstance(cause, ToolError):
            return _error_result(str(cause))
        logger.error("the tool %s failed", name, exc_info=exc)
        if self._tracebacks:
            return _error_result("".join(traceback.format_exception(exc)))
        kind, text = type(cause).__name__, str(cause)
        return _error_result(f"{kind}: {text}" if text else kind)


def _arguments_refused(text: str, ctx: Context) -> JSONObject:
    if supports("invalid_arguments_are_results", ctx.protocol_version):
        return _error_result(text)
    raise MCPError(INVALID_PARAMS, text)


def _error_result(text: str) -> JSONObject:
    return {"content": [{"type": "text", "text": text}], "isError": True}


# Making a tool ------------------------------------------------------------------------------------


def make_tool(function: Callable[..., Any], name: str | None, options: ToolOptions) -> Tool:
    """Work out all that can be known of a tool before it is called.

    Raises:
        ValueError: It has no name, or a schema is invalid.
        TypeError: JSON cannot express something in the signature.
    """
    from mcp_trio.server.outputs import Output, raw_output
    from mcp_trio.server.results import to_tool_result
    from mcp_trio.server.signature import function_schema

    call = as_async(function, thread=options.get("thread", False))
    signature = function_schema(function, context_type=Context)
    name = _checked_name(name_of(signature.name, name, "tool"))
    input_schema, output_schema = options.get("input_schema"), options.get("output_schema")
    if output_schema is None:
        output = signature.output if options.get("structured", True) else Output("content")
    else:
        output = raw_output(output_schema)
        assert output.validator  # compiled now, so that a schema that is none is found now
    description = options.get("description")
    definition = described(
        name=name,
        title=options.get("title"),
        description=signature.description if description is None else description,
        inputSchema=signature.input_schema if input_schema is None else input_schema,
        outputSchema=output.schema,
        annotations=_annotations(options),
        icons=options.get("icons"),
        _meta=options.get("meta"),
    )
    return Tool(
        name,
        definition,
        bind=signature.bind if input_schema is None else _raw_binder(input_schema, signature),
        call=call,
        context=signature.context,
        result=partial(to_tool_result, output=output),
        output_schema=output_schema,
        header_params=_header_params(name, definition["inputSchema"]),
    )


def _header_params(name: str, schema: JSONObject) -> "tuple[HeaderParam, ...]":
    from mcp_trio.wire.header_params import read_annotations

    annotations = read_annotations(schema)
    if annotations.problems:
        raise ValueError(f"Clients would refuse the tool {name}: {'; '.join(annotations.problems)}")
    return annotations.params


def _checked_name(name: str) -> str:
    if not NAME.fullmatch(name):
        warnings.warn(
            f"Not every client can use a tool that is called {name!r}: names should be made of"
            " 1 to 128 of A-Z, a-z, 0-9, '_', '-' and '.'.",
            stacklevel=2,
        )
    return name


def _annotations(options: ToolOptions) -> JSONObject | None:
    given = described(annotations=options.get("annotations")).get("annotations", {})
    hints = {wire: options.get(key) for key, wire in _HINTS.items()}
    return {**given, **described(**hints)} or None


def _raw_binder(
    schema: JSONObject, signature: "FunctionSchema"
) -> Callable[[JSONObject], dict[str, Any]]:
    """Checks arguments against a schema that the author wrote; see `ToolOptions`."""
    from mcp_trio.protocol.json_schema import compile_schema
    from mcp_trio.server.signature import ArgumentsInvalid

    if schema.get("type") != "object":
        raise ValueError('input_schema must have "type": "object" at its root.')
    validator = compile_schema(schema)
    known = schema.get("properties", {})
    if signature.context in known:
        raise ValueError(f"{signature.context!r} is the context and cannot be an argument as well.")
    variables = [parameter.variable for parameter in signature.parameters]
    whole = variables[0] if len(variables) == 1 and variables[0] not in known else None

    def bind(arguments: JSONObject) -> dict[str, Any]:
        if not validator.is_valid(arguments):
            raise ArgumentsInvalid(validator.violations(arguments))
        return dict(arguments) if whole is None else {whole: arguments}

    return bind
