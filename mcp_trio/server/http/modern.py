"""The modern era over HTTP: one POST is one request, and stands for itself.

What the headers say has to be what the body says: whoever forwards a request looks at the one,
and we act by the other. (MCP 2026-07-28, basic/transports/streamable-http)
"""

from collections.abc import Coroutine
from functools import partial
from typing import TYPE_CHECKING, Any

from mcp_trio.protocol import meta as keys
from mcp_trio.protocol.errors import HEADER_MISMATCH, MCPError, unsupported_version
from mcp_trio.protocol.methods import METHODS
from mcp_trio.protocol.negotiation import RequestMeta, read_request_meta
from mcp_trio.server.http.direct import DirectRequest
from mcp_trio.server.http.replies import Refused
from mcp_trio.server.http.visit import Visit
from mcp_trio.server.session import Session
from mcp_trio.transports.http_exchange import Headers
from mcp_trio.wire import http_headers
from mcp_trio.wire.jsonrpc import JSONObject, Request

if TYPE_CHECKING:
    from mcp_trio.server.app import Server

BAD_REQUEST = 400


def answer_modern(
    server: "Server", visit: Visit, request: Request, keep_alive: float
) -> Coroutine[Any, Any, None]:
    """Answer one modern request.

    Raises:
        Refused: The request is not what its headers say, or not in order.
        ClientGone: The client went away; the handler has been cancelled.
    """
    exchange, peer = visit.exchange, visit.nobody
    stated = check(server, exchange.request.headers, request)
    incoming = DirectRequest(
        request.id,
        request.method,
        request.params or {},
        peer,
        exchange.scope,
        exchange=exchange,
        nursery=visit.running.nursery,
        keep_alive=keep_alive,
        modern=True,
    )
    exchange.cancel_with_client()
    session = Session(peer, principal=visit.principal)
    lifespan = visit.running.value
    answer = server.dispatcher.answer
    return incoming.answer(partial(answer, session=session, lifespan=lifespan, stated=stated))


def check(server: "Server", headers: Headers, request: Request) -> RequestMeta:
    """What a request says of its client, once it is clear that the headers say the same.

    A version that is not ours comes first: what the rest means in it, we do not know.

    Raises:
        Refused: 400, with -32022, -32020 or -32602.
    """
    params = request.params or {}
    version = _version(params)
    served = server.dispatcher.modern
    try:
        if version is not None and version not in served and _agrees(headers, version):
            raise unsupported_version(version, served)
        mismatch = _mismatch(server, headers, request, params, version)
        if mismatch is not None:
            raise MCPError(HEADER_MISMATCH, mismatch)
        return read_request_meta(params, served)
    except MCPError as error:
        raise Refused.because(error, BAD_REQUEST, request.id) from None


def _mismatch(
    server: "Server", headers: Headers, request: Request, params: JSONObject, version: str | None
) -> str | None:
    row = METHODS.get(request.method)
    reason = http_headers.check_request(
        headers.raw(),
        request.method,
        params,
        version=version,
        name_field=None if row is None else row.header_field,
    )
    if reason is None and request.method == "tools/call":
        header_params = server.tools.header_params(params)
        if header_params:
            arguments = params.get("arguments")
            reason = http_headers.check_arguments(headers.raw(), arguments, header_params)
    return reason


def _version(params: JSONObject) -> str | None:
    meta = params.get(keys.META)
    version = meta.get(keys.PROTOCOL_VERSION) if isinstance(meta, dict) else None
    return version if isinstance(version, str) else None


def _agrees(headers: Headers, version: str) -> bool:
    header = headers.get(http_headers.PROTOCOL_VERSION)
    return header is not None and header.strip(" \t") == version
