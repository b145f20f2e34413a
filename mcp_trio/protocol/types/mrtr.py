"""Multi round-trip requests: a modern result that asks for input (MCP 2026-07-28, mrtr)."""

from typing import ClassVar, Literal, TypeAlias

import attrs

from mcp_trio.protocol.types.base import JSONObject, Record, RequestParams
from mcp_trio.protocol.types.elicitation import (
    ElicitRequestFormParams,
    ElicitRequestURLParams,
    ElicitResult,
)
from mcp_trio.protocol.types.roots import ListRootsResult
from mcp_trio.protocol.types.sampling import CreateMessageRequestParams, CreateMessageResult


@attrs.frozen(repr=False)
class ElicitRequest(Record):
    """A question to the user."""

    method: ClassVar[Literal["elicitation/create"]] = "elicitation/create"
    params: ElicitRequestFormParams | ElicitRequestURLParams


@attrs.frozen(repr=False)
class CreateMessageRequest(Record):
    """A question to the model."""

    method: ClassVar[Literal["sampling/createMessage"]] = "sampling/createMessage"
    params: CreateMessageRequestParams


@attrs.frozen(repr=False)
class ListRootsRequest(Record):
    """A question for the roots."""

    method: ClassVar[Literal["roots/list"]] = "roots/list"
    params: RequestParams | None = None


InputRequest: TypeAlias = ElicitRequest | CreateMessageRequest | ListRootsRequest
InputRequests: TypeAlias = dict[str, InputRequest]
InputResponse: TypeAlias = ElicitResult | CreateMessageResult | ListRootsResult
InputResponses: TypeAlias = dict[str, InputResponse]


@attrs.frozen(repr=False)
class InputRequiredResult(Record):
    """The server needs answers before it can go on: send the request again with them.

    At least one of the two is there. ``request_state`` goes back exactly as it came.
    """

    result_type: ClassVar[Literal["input_required"]] = "input_required"
    input_requests: InputRequests | None = None
    request_state: str | None = None
    meta: JSONObject | None = attrs.field(default=None, kw_only=True)
