"""What differs between the eras, for who stands between a client and a server of two.

Most of a message means the same in every revision, and passes as it is. What does not:

===========================  ==========================  ===========================================
legacy                       modern                      in between
===========================  ==========================  ===========================================
initialize, once             server/discover, _meta      each from what the server says of itself
ping                         server/discover             a ping asks for a discovery
logging/setLevel             logLevel in each _meta      remembered and added; "debug", sorted
resources/subscribe          subscriptions/listen        one subscription for each URI
list_changed, unasked        subscriptions/listen        one for the lists
-32002, no such resource     -32602 with data.uri        by that rule
-32600                       -32021, capability missing  by that rule
-32042, visit a page first   input_required              the pages become the questions
the server's requests        input_required              held calls; rounds
===========================  ==========================  ===========================================

Everything here is a pure function of what was said. What takes a connection is elsewhere.
"""

import secrets
from collections.abc import Callable
from typing import Final, Literal, NamedTuple, TypeAlias

from mcp_trio.protocol import meta as keys
from mcp_trio.protocol.errors import (
    HEADER_MISMATCH,
    INTERNAL_ERROR,
    INVALID_PARAMS,
    INVALID_REQUEST,
    METHOD_NOT_FOUND,
    MISSING_CAPABILITY,
    RESOURCE_NOT_FOUND,
    UNSUPPORTED_VERSION,
    URL_ELICITATION_REQUIRED,
    MCPError,
)
from mcp_trio.protocol.fit import FitError, fit_params
from mcp_trio.protocol.negotiation import declares
from mcp_trio.protocol.revisions import is_modern, supports
from mcp_trio.server.context import LOG_LEVELS
from mcp_trio.server.session import RequestInfo
from mcp_trio.wire.jsonrpc import MISSING, JSONObject

Era: TypeAlias = Literal["legacy", "modern"]

#: What all modern clients together may be able to do. A legacy server has to be told once, before
#: it is known who will ask; what one of them cannot do is refused when it comes to that.
EVERYTHING: Final[JSONObject] = {
    "elicitation": {"form": {}, "url": {}},
    "sampling": {"tools": {}, "context": {}},
    "roots": {},
}
#: Capabilities that make no sense in revisions without the feature.
_CAPABILITY_FEATURES: Final = {
    "elicitation": "elicitation",
    "extensions": "extensions",
    "tasks": "tasks",
}


def era_of(version: str) -> Era:
    """The era of a revision."""
    return "modern" if is_modern(version) else "legacy"


# --- Capabilities --------------------------------------------------------------------------------


def server_capabilities(declared: JSONObject, spoken: str, wanted: str) -> JSONObject:
    """What a server that speaks the revision `spoken` can do, for a client of `wanted`."""
    found = _capabilities(declared, spoken, wanted)
    may_complete = "prompts" in declared or "resources" in declared
    if may_complete and not supports("completions_capability", spoken):
        found.setdefault("completions", {})  # it could not say so; -32601 if it does not
    return found


def client_capabilities(declared: JSONObject, spoken: str, wanted: str) -> JSONObject:
    """What a client that speaks the revision `spoken` can do, for a server of `wanted`."""
    return _capabilities(declared, spoken, wanted)


def _capabilities(declared: JSONObject, spoken: str, wanted: str) -> JSONObject:
    if spoken == wanted:
        return dict(declared)
    return {
        name: value
        for name, value in declared.items()
        if name not in _CAPABILITY_FEATURES
        or all(supports(_CAPABILITY_FEATURES[name], version) for version in (spoken, wanted))
    }


def refusal_of(method: str, params: JSONObject, capabilities: JSONObject) -> MCPError | None:
    """What a server hears that asks what its client has not declared; None for what it may ask."""
    needed = {
        "elicitation/create": ["elicitation", f"elicitation.{_mode(params)}"],
        "sampling/createMessage": ["sampling"]
        + ["sampling.tools"] * bool(params.get("tools") or params.get("toolChoice")),
        "roots/list": ["roots"],
    }
    for path in needed.get(method, ()):
        if not declares(capabilities, path):
            code = INVALID_PARAMS if "." in path else METHOD_NOT_FOUND
            return MCPError(code, f"{method}: the client has not declared the capability {path}")
    return None


def _mode(params: JSONObject) -> str:
    return "url" if params.get("mode") == "url" else "form"


# --- Parameters ----------------------------------------------------------------------------------

_MODERN_META: Final = (
    keys.PROTOCOL_VERSION,
    keys.CLIENT_INFO,
    keys.CLIENT_CAPABILITIES,
    keys.LOG_LEVEL,
)
_ROUND_PARAMS: Final = ("inputResponses", "requestState")


def request_params(params: JSONObject, info: RequestInfo, spoken: str) -> JSONObject:
    """The params of a client's request, for a server that speaks the revision `spoken`.

    A modern server is told of the client that asks, and not of who stands in between. The version
    is left to whoever sends the request.
    """
    if not info.modern and not is_modern(spoken):
        return params
    given = params.get("_meta")
    meta = dict(given) if isinstance(given, dict) else {}
    if not is_modern(spoken):
        params = {name: value for name, value in params.items() if name not in _ROUND_PARAMS}
        meta = {name: value for name, value in meta.items() if name not in _MODERN_META}
        if not meta:
            params.pop("_meta", None)
            return params
    elif info.modern:
        meta.pop(keys.PROTOCOL_VERSION, None)
    else:
        meta.update(_introduction(info, spoken))
    return {**params, "_meta": meta}


def _introduction(info: RequestInfo, spoken: str) -> JSONObject:
    said: JSONObject = {
        keys.CLIENT_CAPABILITIES: client_capabilities(
            info.client_capabilities, info.version, spoken
        ),
        keys.LOG_LEVEL: info.log_level,
    }
    if info.client_info is not None:
        said[keys.CLIENT_INFO] = info.client_info
    return said


def question_params(method: str, params: JSONObject, version: str) -> JSONObject:
    """The params of a server's question, for a client that speaks `version`.

    Raises:
        MCPError: -32600, that revision has no way to ask it.
    """
    try:
        fitted = fit_params(method, params, version)
    except FitError as exc:
        raise MCPError(INVALID_REQUEST, f"{method}: {exc}") from exc
    if fitted.get("mode") == "url" and supports("elicitation_id", version):
        fitted = {"elicitationId": secrets.token_hex(8), **fitted}
    return fitted


# --- Errors --------------------------------------------------------------------------------------

_Change: TypeAlias = Callable[[MCPError, JSONObject], MCPError]


def _not_found(code: int) -> _Change:
    def change(error: MCPError, params: JSONObject) -> MCPError:
        data = error.data if isinstance(error.data, dict) else {}
        return MCPError(code, error.message, {"uri": params.get("uri"), **data})

    return change


def _with_code(code: int) -> _Change:
    return lambda error, _params: MCPError(code, error.message, error.data)


def _between_us(error: MCPError, _params: JSONObject) -> MCPError:
    """It is about how the request was sent on, which is no business of the client's."""
    text = f"The server behind this one refuses what it was sent: {error.message}"
    return MCPError(INTERNAL_ERROR, text)


class ErrorRule(NamedTuple):
    """An error that is another one on the other side.

    Attributes:
        code: Of the server's error.
        server, client: The eras that the two belong to; None for any.
        change: Makes the client's error of the server's, and the params of the request.
        names_uri: Whether this is only for requests of a URI, with an error that names it.
    """

    code: int
    server: Era | None
    client: Era | None
    change: _Change
    names_uri: bool = False


ERRORS: Final = (
    ErrorRule(RESOURCE_NOT_FOUND, "legacy", "modern", _not_found(INVALID_PARAMS)),
    ErrorRule(INVALID_PARAMS, "modern", "legacy", _not_found(RESOURCE_NOT_FOUND), names_uri=True),
    ErrorRule(MISSING_CAPABILITY, "modern", "legacy", _with_code(INVALID_REQUEST)),
    ErrorRule(HEADER_MISMATCH, "modern", None, _between_us),
    ErrorRule(UNSUPPORTED_VERSION, "modern", None, _between_us),
)
"""All other errors pass as they are."""


def client_error(error: MCPError, params: JSONObject, spoken: str, wanted: str) -> MCPError:
    """The error of a server that speaks `spoken`, as a client that speaks `wanted` has it."""
    for rule in ERRORS:
        if (
            rule.code == error.code
            and rule.server in (None, era_of(spoken))
            and rule.client in (None, era_of(wanted))
            and (not rule.names_uri or _names_uri(error, params))
        ):
            return rule.change(error, params)
    return error


def _names_uri(error: MCPError, params: JSONObject) -> bool:
    uri = params.get("uri")
    return uri is not None and isinstance(error.data, dict) and error.data.get("uri") == uri


def pages_to_visit(error: MCPError, capabilities: JSONObject, version: str) -> JSONObject | None:
    """The result for a modern client that has the user visit pages first, if that is the error.

    (MCP 2025-11-25, client/elicitation, "URL Elicitation Required Error")
    """
    data = error.data if error.data is not MISSING and isinstance(error.data, dict) else {}
    pages = data.get("elicitations")
    if error.code != URL_ELICITATION_REQUIRED or not declares(capabilities, "elicitation.url"):
        return None
    if not isinstance(pages, list) or not all(isinstance(page, dict) for page in pages):
        return None
    requests = {
        f"page-{number}": {
            "method": "elicitation/create",
            "params": question_params("elicitation/create", {"mode": "url", **page}, version),
        }
        for number, page in enumerate(pages, 1)
    }
    return {"resultType": "input_required", "inputRequests": requests} if requests else None


# --- Log messages --------------------------------------------------------------------------------


def is_wanted(level: object, threshold: str | None) -> bool:
    """Whether a client with this threshold (None: no messages at all) wants to hear of a message.

    A level that nobody knows is let through.
    """
    if threshold is None:
        return False
    severity: dict[object, int] = {name: place for place, name in enumerate(LOG_LEVELS)}
    return severity.get(level, len(severity)) >= severity.get(threshold, 0)
