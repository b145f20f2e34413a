"""What a server may ask its client: the user, the model, the roots.

In the legacy era a question is a request of the server; in the modern era it stands in a result
that is not complete yet, and the answer goes with the next attempt. The questions and the answers
are the same, so one `Answers` serves both.
"""

import inspect
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, TypeAlias

import attrs

from mcp_trio.protocol.convert import StructureError, structure, unstructure
from mcp_trio.protocol.errors import INVALID_PARAMS, METHOD_NOT_FOUND, MCPError
from mcp_trio.protocol.types.base import RequestParams
from mcp_trio.protocol.types.content import TextContent
from mcp_trio.protocol.types.elicitation import (
    ElicitRequestFormParams,
    ElicitRequestParams,
    ElicitRequestURLParams,
    ElicitResult,
)
from mcp_trio.protocol.types.roots import ListRootsResult, Root
from mcp_trio.protocol.types.sampling import CreateMessageRequestParams, CreateMessageResult
from mcp_trio.wire.jsonrpc import JSONObject

#: What `on_elicit` may return: a result; the form's values, which means "accept"; None for
#: "cancel".
ElicitAnswer: TypeAlias = ElicitResult | JSONObject | None
OnElicit: TypeAlias = Callable[
    [ElicitRequestFormParams | ElicitRequestURLParams], ElicitAnswer | Awaitable[ElicitAnswer]
]
#: What `on_sample` may return: a result, or the text that the model said.
SampleAnswer: TypeAlias = CreateMessageResult | str
OnSample: TypeAlias = Callable[[CreateMessageRequestParams], SampleAnswer | Awaitable[SampleAnswer]]
#: What `on_list_roots` may return: roots, or their URIs.
RootsAnswer: TypeAlias = Sequence[Root | str]
OnListRoots: TypeAlias = Callable[[RequestParams], RootsAnswer | Awaitable[RootsAnswer]]


@attrs.frozen
class Answers:
    """The callbacks that answer a server's questions; None where the client has none."""

    on_elicit: OnElicit | None = None
    on_sample: OnSample | None = None
    on_list_roots: OnListRoots | None = None

    def capabilities(self) -> JSONObject:
        """What having these callbacks amounts to, as the newest revision writes it."""
        capabilities: JSONObject = {}
        if self.on_elicit is not None:
            capabilities["elicitation"] = {"form": {}, "url": {}}
        if self.on_sample is not None:
            capabilities["sampling"] = {}
        if self.on_list_roots is not None:
            capabilities["roots"] = {"listChanged": True}
        return capabilities

    @property
    def methods(self) -> frozenset[str]:
        """The questions that this client answers."""
        callbacks = {
            "elicitation/create": self.on_elicit,
            "sampling/createMessage": self.on_sample,
            "roots/list": self.on_list_roots,
        }
        return frozenset(name for name, callback in callbacks.items() if callback is not None)

    async def answer(self, method: str, params: JSONObject) -> JSONObject:
        """Answer one question of the server; what a callback raises is raised.

        Raises:
            MCPError: The question is unknown, malformed or not one that this client answers.
        """
        match method:
            case "elicitation/create" if self.on_elicit is not None:
                return await _elicit(self.on_elicit, params)
            case "sampling/createMessage" if self.on_sample is not None:
                return await _sample(self.on_sample, params)
            case "roots/list" if self.on_list_roots is not None:
                return await _list_roots(self.on_list_roots, params)
        raise MCPError(METHOD_NOT_FOUND, f"This client does not answer {method}.")


async def _elicit(callback: OnElicit, params: JSONObject) -> JSONObject:
    request = _read(params, ElicitRequestParams, "elicitation/create")
    answer = await _outcome(callback(request))
    if answer is None:
        answer = ElicitResult("cancel")
    elif isinstance(answer, dict):
        if isinstance(request, ElicitRequestURLParams):
            raise TypeError(
                "on_elicit returned form values, but the server asks to visit a page: "
                "return ElicitResult('accept') if the user agrees to"
            )
        answer = ElicitResult("accept", answer)
    elif not isinstance(answer, ElicitResult):
        raise TypeError(f"on_elicit must return an ElicitResult, a dict or None, not {answer!r}")
    if isinstance(request, ElicitRequestFormParams) and answer.action == "accept":
        answer = attrs.evolve(answer, content=_with_defaults(request, answer.content or {}))
    result: JSONObject = unstructure(answer)
    return result


def _with_defaults(request: ElicitRequestFormParams, content: JSONObject) -> JSONObject:
    """The form's values, and the schema's defaults for fields that were left out."""
    properties = request.requested_schema.get("properties", {})
    defaults = {
        name: field["default"]
        for name, field in properties.items()
        if isinstance(field, dict) and "default" in field
    }
    return {**defaults, **content}


async def _sample(callback: OnSample, params: JSONObject) -> JSONObject:
    request = _read(params, CreateMessageRequestParams, "sampling/createMessage")
    answer = await _outcome(callback(request))
    if isinstance(answer, str):
        answer = CreateMessageResult(role="assistant", content=TextContent(answer), model="unknown")
    elif not isinstance(answer, CreateMessageResult):
        raise TypeError(f"on_sample must return a CreateMessageResult or a str, not {answer!r}")
    result: JSONObject = unstructure(answer)
    return result


async def _list_roots(callback: OnListRoots, params: JSONObject) -> JSONObject:
    roots = await _outcome(callback(_read(params, RequestParams, "roots/list")))
    result: JSONObject = unstructure(
        ListRootsResult([Root(root) if isinstance(root, str) else root for root in roots])
    )
    return result


def _read(params: JSONObject, cls: Any, method: str) -> Any:
    try:
        return structure(params, cls)
    except StructureError as error:
        raise MCPError(INVALID_PARAMS, f"{method}: {error}") from error


async def _outcome(value: Any) -> Any:
    return await value if inspect.isawaitable(value) else value
