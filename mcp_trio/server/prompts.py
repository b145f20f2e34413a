"""Prompts: messages that a person picks by name and fills in.

(MCP 2026-07-28, server/prompts)
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypedDict

import attrs

from mcp_trio.protocol.errors import INVALID_PARAMS, MCPError
from mcp_trio.server.calling import as_async
from mcp_trio.server.context import Context
from mcp_trio.server.definitions import check_options, described, name_of
from mcp_trio.server.dispatch import Work
from mcp_trio.server.pagination import Registry
from mcp_trio.server.params import required, strings
from mcp_trio.wire.jsonrpc import JSONObject

if TYPE_CHECKING:
    from mcp_trio.protocol.types import Icon
    from mcp_trio.server.signature import FunctionSchema, Parameter


class PromptOptions(TypedDict, total=False):
    """What may be said about a prompt besides its name.

    title: The name for people.
    description: For people; the function's docstring by default.
    icons: Pictures for people.
    meta: The prompt's `_meta`.
    thread: Run a plain function that blocks in a thread; see `ToolOptions`.
    """

    title: str | None
    description: str | None
    icons: "Sequence[Icon | JSONObject] | None"
    meta: JSONObject | None
    thread: bool


@attrs.frozen
class Prompt:
    """A registered prompt; `definition` is as `prompts/list` has it."""

    name: str
    definition: JSONObject
    signature: "FunctionSchema"
    call: Callable[..., Awaitable[Any]]
    result: Callable[[Any], JSONObject]


class Prompts:
    """The prompts of a server; the arguments are those of `Tools`."""

    def __init__(self, changed: Callable[[], None], page_size: int | None) -> None:
        self._registry: Registry[Prompt] = Registry("prompt", changed)
        self._page_size = page_size

    def handlers(self) -> Mapping[str, Work]:
        """What answers the methods of this module."""
        return {"prompts/list": self._list, "prompts/get": self._get}

    def add(self, function: Callable[..., Any], name: str | None, options: PromptOptions) -> None:
        """Register a function; see `Server.prompt`."""
        check_options("prompt", options, PromptOptions)
        prompt = _make_prompt(function, name, options)
        self._registry.add(prompt.name, prompt)

    def remove(self, name: str) -> None:
        self._registry.remove(name)

    def arguments(self, name: str) -> Sequence[str] | None:
        """The names of a prompt's arguments, or None if there is no such prompt."""
        prompt = self._registry.get(name)
        if prompt is None:
            return None
        return [parameter.name for parameter in prompt.signature.parameters]

    async def _list(self, _ctx: Context, params: JSONObject) -> JSONObject:
        prompts, following = self._registry.page(params, self._page_size)
        result: JSONObject = {"prompts": [prompt.definition for prompt in prompts]}
        if following is not None:
            result["nextCursor"] = following
        return result

    async def _get(self, ctx: Context, params: JSONObject) -> JSONObject:
        name = required(params, "name", str)
        prompt = self._registry.get(name)
        if prompt is None:
            raise MCPError(INVALID_PARAMS, f"Unknown prompt: {name}")
        try:
            keywords = prompt.signature.bind_text(strings(params, "arguments"))
        except ValueError as exc:
            raise MCPError(INVALID_PARAMS, f"Invalid arguments for {name}: {exc}") from None
        if prompt.signature.context is not None:
            keywords[prompt.signature.context] = ctx
        result = prompt.result(await prompt.call(**keywords))
        if "description" in prompt.definition:
            result.setdefault("description", prompt.definition["description"])
        return result


def _make_prompt(function: Callable[..., Any], name: str | None, options: PromptOptions) -> Prompt:
    from mcp_trio.server.results import to_prompt_result
    from mcp_trio.server.signature import function_schema

    signature = function_schema(function, context_type=Context)
    name = name_of(signature.name, name, "prompt")
    description = options.get("description")
    definition = described(
        name=name,
        title=options.get("title"),
        description=signature.description if description is None else description,
        arguments=[_argument(parameter) for parameter in signature.parameters] or None,
        icons=options.get("icons"),
        _meta=options.get("meta"),
    )
    call = as_async(function, thread=options.get("thread", False))
    return Prompt(name, definition, signature, call, to_prompt_result)


def _argument(parameter: "Parameter") -> JSONObject:
    return described(
        name=parameter.name,
        title=parameter.schema.get("title"),
        description=parameter.description,
        required=parameter.required,
    )
