"""What a server may ask its client: the user, the model, the roots.

In the legacy era a question is a request of the server; in the modern era it stands in a result
that is not complete yet, and the answer goes with the next attempt. The questions and the answers
are the same, so one `Answers` serves both.
"""

import inspect
from collections.abc import Awaitable, Callable, Collection, Sequence
from typing import Any, TypeAlias

import attrs

from mcp_trio.protocol.convert import StructureError, structure, unstructure
from mcp_trio.protocol.errors import INVALID_PARAMS, METHOD_NOT_FOUND, MCPError, ProtocolError
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


class BadQuestion(ProtocolError):
    """The server asked what it may not ask this client, or asked what cannot be read.

    It is not the user's callback that failed, so the server hears of it: as the error `answer` in
    the legacy era. In the modern era it ends the call that led to it.
    """

    def __init__(self, code: int, reason: str) -> None:
        super().__init__(code, reason)
        self.answer = MCPError(code, reason)

    def __str__(self) -> str:
        return self.answer.message


@attrs.frozen
class Answers:
    """The callbacks that answer a server's questions; None where the client has none.

    `modes` are the kinds of elicitation that the client declares, and `model_tools` says whether it
    declares that its model may be given tools.
    """

    on_elicit: OnElicit | None = None
    on_sample: OnSample | None = None
    on_list_roots: OnListRoots | None = None
    modes: Collection[str] = ("form", "url")
    model_tools: bool = False

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

    def refuse_unknown(self, method: object) -> None:
        """Refuse a question that this client does not answer.

        Raises:
            BadQuestion: It is one.
        """
        callbacks = {
            "elicitation/create": self.on_elicit,
            "sampling/createMessage": self.on_sample,
            "roots/list": self.on_list_roots,
        }
        if not isinstance(method, str) or callbacks.get(method) is None:
            text = f"the server asks {method!r}, which this client did not declare"
            raise BadQuestion(METHOD_NOT_FOUND, text)

    async def answer(self, method: str, params: object) -> JSONObject:
        """Answer one question of the server; what a callback raises is raised.

        Raises:
            BadQuestion: The question is malformed, or not one that this client answers.
        """
        self.refuse_unknown(method)
        match method:
            case "elicitation/create" if self.on_elicit is not None:
                return await _elicit(self.on_elicit, params, self.modes)
            case "sampling/createMessage" if self.on_sample is not None:
                return await _sample(self.on_sample, params, tools=self.model_tools)
            case "roots/list" if self.on_list_roots is not None:
                return await _list_roots(self.on_list_roots, params)
        raise AssertionError(f"{method} is refused as unknown, or answered")


async def _elicit(callback: OnElicit, params: object, modes: Collection[str]) -> JSONObject:
    request = _read(params, ElicitRequestParams, "elicitation/create")
    mode = "form" if isinstance(request, ElicitRequestFormParams) else "url"
    if mode not in modes:
        text = f"the server elicits in the mode {mode!r}, which this client did not declare"
        raise BadQuestion(INVALID_PARAMS, text)
    defaults = _defaults(request) if isinstance(request, ElicitRequestFormParams) else {}
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
        answer = attrs.evolve(answer, content={**defaults, **(answer.content or {})})
    result: JSONObject = unstructure(answer)
    return result


def _defaults(request: ElicitRequestFormParams) -> JSONObject:
    """The values that the form's schema gives to fields which are left out.

    What no answer may hold, such as an object, is no default: sending it would be our fault.
    """
    properties = request.requested_schema.get("properties", {})
    if not isinstance(properties, dict):
        text = "elicitation/create: requestedSchema.properties: expected an object"
        raise BadQuestion(INVALID_PARAMS, text)
    return {
        name: field["default"]
        for name, field in properties.items()
        if isinstance(field, dict) and _may_be_answered(field.get("default"))
    }


def _may_be_answered(value: object) -> bool:
    """Whether a form may be filled in with it: a text, a number, a yes or no, or several texts."""
    if isinstance(value, list):
        return all(isinstance(item, str) for item in value)
    return isinstance(value, str | int | float)


async def _sample(callback: OnSample, params: object, *, tools: bool) -> JSONObject:
    request = _read(params, CreateMessageRequestParams, "sampling/createMessage")
    if not tools and (request.tools is not None or request.tool_choice is not None):
        # Whoever has not declared it must refuse (MCP 2026-07-28, CreateMessageRequestParams).
        text = "the server gives the model tools, and this client did not declare sampling.tools"
        raise BadQuestion(INVALID_PARAMS, text)
    answer = await _outcome(callback(request))
    if isinstance(answer, str):
        answer = CreateMessageResult(role="assistant", content=TextContent(answer), model="unknown")
    elif not isinstance(answer, CreateMessageResult):
        raise TypeError(f"on_sample must return a CreateMessageResult or a str, not {answer!r}")
    result: JSONObject = unstructure(answer)
    return result


async def _list_roots(callback: OnListRoots, params: object) -> JSONObject:
    roots = await _outcome(callback(_read(params, RequestParams, "roots/list")))
    result: JSONObject = unstructure(
        ListRootsResult([Root(root) if isinstance(root, str) else root for root in roots])
    )
    return result


def _read(params: object, cls: Any, method: str) -> Any:
    try:
        return structure(params, cls)
    except StructureError as error:
        raise BadQuestion(INVALID_PARAMS, f"{method}: {error}") from error


async def _outcome(value: Any) -> Any:
    return await value if inspect.isawaitable(value) else value
