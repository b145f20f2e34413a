"""Connections for an httpx client, on which the head and the body of a request leave together.

httpcore, on which httpx stands, writes the head of a request, and then its body. That makes two
packets. For the first one the server wakes only to find that it has to wait for the other, which
costs a small request an eighth of its time. So what is written here is held until somebody reads,
for then the request is complete.
"""

import ssl
from collections.abc import AsyncIterable, AsyncIterator, Iterable, Iterator
from contextlib import contextmanager, suppress
from typing import Any, Final

import httpcore
import httpx

#: Bytes that are held; beyond it they are written.
MOST_HELD: Final = 64 * 1024


class PooledTransport(httpx.AsyncBaseTransport):
    """Sends the requests of an `httpx.AsyncClient`, as httpx's own transport does. No proxies.

    Args:
        ssl_context: For https.
        limits: On the connections that it keeps.
    """

    def __init__(self, ssl_context: ssl.SSLContext | None, limits: httpx.Limits) -> None:
        self._pool = httpcore.AsyncConnectionPool(
            ssl_context=ssl_context,
            max_connections=limits.max_connections,
            max_keepalive_connections=limits.max_keepalive_connections,
            keepalive_expiry=limits.keepalive_expiry,
            network_backend=_Network(),
        )

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        url = request.url
        target = httpcore.URL(
            scheme=url.raw_scheme, host=url.raw_host, port=url.port, target=url.raw_path
        )
        with _httpx_errors():
            response = await self._pool.handle_async_request(
                httpcore.Request(
                    request.method,
                    target,
                    headers=request.headers.raw,
                    content=request.stream,
                    extensions=request.extensions,
                )
            )
        return httpx.Response(
            response.status,
            headers=response.headers,
            stream=_Body(response),
            extensions=response.extensions,
        )

    async def aclose(self) -> None:
        await self._pool.aclose()


class _Body(httpx.AsyncByteStream):
    """The body of an answer."""

    def __init__(self, response: httpcore.Response) -> None:
        self._response = response

    async def __aiter__(self) -> AsyncIterator[bytes]:
        assert isinstance(self._response.stream, AsyncIterable)
        with _httpx_errors():
            async for piece in self._response.stream:
                yield piece

    async def aclose(self) -> None:
        with _httpx_errors():
            await self._response.aclose()


@contextmanager
def _httpx_errors() -> Iterator[None]:
    """httpx has the same exceptions as httpcore, by the same names."""
    try:
        yield
    except _ERRORS as error:
        kind: type[httpx.TransportError] = getattr(httpx, type(error).__name__)
        raise kind(str(error)) from error


_ERRORS: Final = (
    httpcore.NetworkError,
    httpcore.ProtocolError,
    httpcore.ProxyError,
    httpcore.TimeoutException,
    httpcore.UnsupportedProtocol,
)


class _Network(httpcore.AsyncNetworkBackend):
    """Trio's network with streams that hold what is written."""

    def __init__(self) -> None:
        self._trio = httpcore.TrioBackend()

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[Any] | None = None,
    ) -> httpcore.AsyncNetworkStream:
        return HoldingStream(
            await self._trio.connect_tcp(host, port, timeout, local_address, socket_options)
        )

    async def sleep(self, seconds: float) -> None:
        await self._trio.sleep(seconds)


class HoldingStream(httpcore.AsyncNetworkStream):
    """A stream that holds what is written until somebody reads."""

    def __init__(self, stream: httpcore.AsyncNetworkStream) -> None:
        self._stream = stream
        self._held = bytearray()
        self._timeout: float | None = None

    async def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        # A server that has stopped reading may have said why.
        with suppress(httpcore.WriteError):
            await self._release()
        return await self._stream.read(max_bytes, timeout)

    async def write(self, buffer: bytes, timeout: float | None = None) -> None:
        self._held += buffer
        self._timeout = timeout
        if len(self._held) > MOST_HELD:
            await self._release()

    async def _release(self) -> None:
        if self._held:
            held, self._held = bytes(self._held), bytearray()
            await self._stream.write(held, self._timeout)

    async def aclose(self) -> None:
        await self._stream.aclose()

    async def start_tls(
        self,
        ssl_context: ssl.SSLContext,
        server_hostname: str | None = None,
        timeout: float | None = None,
    ) -> httpcore.AsyncNetworkStream:
        return HoldingStream(await self._stream.start_tls(ssl_context, server_hostname, timeout))

    def get_extra_info(self, info: str) -> Any:
        return self._stream.get_extra_info(info)
