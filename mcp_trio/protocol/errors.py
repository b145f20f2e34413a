"""Error codes, and the exceptions that carry them.

Three things can go wrong between two peers, and each has its own exception: the other side
answered with an error (`MCPError`), it broke the protocol (`ProtocolError`), or there is no
revision that both speak (`UnsupportedProtocolVersion`). That a connection ended is not the
protocol's business; see `mcp_trio.exceptions`.
"""

from collections.abc import Iterable, Sequence
from typing import Any, Final, NamedTuple

from mcp_trio.protocol.revisions import supports
from mcp_trio.wire.jsonrpc import MISSING, ErrorObject

PARSE_ERROR: Final = -32700
INVALID_REQUEST: Final = -32600
METHOD_NOT_FOUND: Final = -32601
INVALID_PARAMS: Final = -32602
INTERNAL_ERROR: Final = -32603
RESOURCE_NOT_FOUND: Final = -32002
HEADER_MISMATCH: Final = -32020
MISSING_CAPABILITY: Final = -32021
UNSUPPORTED_VERSION: Final = -32022
URL_ELICITATION_REQUIRED: Final = -32042


class ErrorKind(NamedTuple):
    """What an error code means.

    ``feature`` is the row of `revisions.FEATURES` that says which revisions have the code (None:
    all of them); ``http`` the status that a modern HTTP response with this error has.
    """

    name: str
    what: str
    feature: str | None = None
    http: int = 200


ERRORS: Final[dict[int, ErrorKind]] = {
    PARSE_ERROR: ErrorKind("ParseError", "the message is not JSON", http=400),
    INVALID_REQUEST: ErrorKind("InvalidRequest", "the JSON is not a JSON-RPC message", http=400),
    METHOD_NOT_FOUND: ErrorKind("MethodNotFound", "no such method here", http=404),
    INVALID_PARAMS: ErrorKind("InvalidParams", "the parameters are wrong, or name nothing"),
    INTERNAL_ERROR: ErrorKind("InternalError", "the receiver failed"),
    RESOURCE_NOT_FOUND: ErrorKind(
        "ResourceNotFound", "there is no such resource", "resource_not_found_code"
    ),
    HEADER_MISMATCH: ErrorKind(
        "HeaderMismatch", "HTTP headers and message disagree", "modern_errors", 400
    ),
    MISSING_CAPABILITY: ErrorKind(
        "MissingRequiredClientCapability",
        "the request needs something that the client did not declare",
        "modern_errors",
        400,
    ),
    UNSUPPORTED_VERSION: ErrorKind(
        "UnsupportedProtocolVersion",
        "the server does not speak this revision",
        "modern_errors",
        400,
    ),
    URL_ELICITATION_REQUIRED: ErrorKind(
        "URLElicitationRequired", "the user has to visit a page first", "url_elicitation_error"
    ),
}
"""Every code that the protocol gives a meaning."""


class MCPError(Exception):
    """The error that a peer answers a request with.

    Raised by a call when the other side answered so, and raised by a handler to answer so.

    Args:
        code: one of this module's codes, or an application's own outside -32768 to -32000.
        message: one sentence for people.
        data: any JSON value with details; `MISSING` when there is none (None is JSON's null).
    """

    def __init__(self, code: int, message: str, data: Any = MISSING) -> None:
        super().__init__(code, message, data)
        self.code = code
        self.message = message
        self.data = data

    def __str__(self) -> str:
        kind = ERRORS.get(self.code)
        return f"{self.message} ({self.code}{f', {kind.name}' if kind else ''})"

    def __repr__(self) -> str:
        data = "" if self.data is MISSING else f", {self.data!r}"
        return f"{type(self).__name__}({self.code}, {self.message!r}{data})"

    def to_object(self) -> ErrorObject:
        """The error as it stands in a response."""
        return ErrorObject(self.code, self.message, self.data)

    @classmethod
    def from_object(cls, error: ErrorObject) -> "MCPError":
        """The exception for the error of a response."""
        return cls(error.code, error.message, error.data)


class ProtocolError(Exception):
    """The peer sent what the protocol does not allow; the message says what and where."""


class UnsupportedProtocolVersion(ProtocolError):
    """The two sides have no revision in common.

    ``requested`` is what we asked for, ``supported`` what the peer offers instead, as far as known.
    """

    def __init__(self, requested: str, supported: Sequence[str] = (), hint: str = "") -> None:
        super().__init__(requested, tuple(supported), hint)
        self.requested = requested
        self.supported = tuple(supported)
        self.hint = hint

    def __str__(self) -> str:
        offers = f", only {', '.join(self.supported)}" if self.supported else ""
        hint = f": {self.hint}" if self.hint else ""
        return f"the peer does not speak protocol version {self.requested}{offers}{hint}"


def resource_not_found(uri: str, version: str) -> MCPError:
    """The error for a resource that does not exist, with the code that ``version`` has for it."""
    legacy = supports("resource_not_found_code", version)
    code = RESOURCE_NOT_FOUND if legacy else INVALID_PARAMS
    return MCPError(code, f"Resource not found: {uri}", {"uri": uri})


def unsupported_version(requested: str, supported: Iterable[str]) -> MCPError:
    """The error that answers a modern request in a revision that the server does not speak.

    ``supported`` must hold modern versions only: a client reads a legacy one as an offer that it
    cannot take up with a modern request.
    """
    versions = list(supported)
    message = f"Unsupported protocol version {requested!r}; supported: {', '.join(versions)}"
    return MCPError(UNSUPPORTED_VERSION, message, {"supported": versions, "requested": requested})


def missing_capability(required: dict[str, Any]) -> MCPError:
    """The error for a request that needs what its client did not declare.

    ``required`` is a ClientCapabilities object with only what is missing, such as
    ``{"elicitation": {"url": {}}}``.
    """
    message = f"The client must declare the capability {', '.join(required)}"
    return MCPError(MISSING_CAPABILITY, message, {"requiredCapabilities": required})


def url_elicitation_required(elicitations: list[dict[str, Any]], message: str) -> MCPError:
    """The error of 2025-11-25 that sends the user to web pages before the request can succeed.

    ``elicitations`` are the parameters of URL elicitations in wire form.
    """
    return MCPError(URL_ELICITATION_REQUIRED, message, {"elicitations": elicitations})
