"""What we need of an httpx client, and no more: for a small request that is half of the time.

An `httpx.AsyncClient` goes through redirects, authentication, hooks and a cookie jar for each
request, and its pool through all connections to all servers. Users may want that, but not where
they have given us no client of theirs. So a `Pool` hands the same requests to the connections of
httpcore, on which httpx stands, and gives the same responses.

httpcore writes the head of a request, and then its body. That makes two packets, and for the first
one the server wakes only to find that it has to wait for the other. So what is written is held
until somebody reads, for then the request is complete.
"""

import ssl
from collections import deque
from collections.abc import (
    AsyncIterable,
    AsyncIterator,
    Awaitable,
    Callable,
    Iterable,
    Iterator,
    Sequence,
)
from contextlib import contextmanager, suppress
from functools import partial
from typing import Any, Final

import httpcore
import httpx
import trio

from mcp_trio.transports.http_reply import CLOSE_TIME

#: Bytes that are held; beyond it they are written.
MOST_HELD: Final = 64 * 1024
_USER_AGENT: Final = (b"User-Agent", b"mcp-trio")


class Pool:
    """Sends requests to one origin as an `httpx.AsyncClient` does. It knows no proxies.

    Args:
        ssl_context: For https.
        most_idle: How many idle connections are kept; there is no bound on others.
        keep_idle: For how many seconds.
    """

    def __init__(
        self, ssl_context: ssl.SSLContext | None, *, most_idle: int, keep_idle: float
    ) -> None:
        self._ssl_context = ssl_context
        self._most_idle = most_idle
        self._keep_idle = keep_idle
        self._network = _Network()
        self._cookies = httpx.Cookies()
        self._closed = False
        #: The one that has been idle longest comes first, and is used next.
        self._idle: deque[httpcore.AsyncHTTPConnection] = deque()

    def build_request(
        self,
        method: str,
        url: httpx.URL,
        *,
        headers: Sequence[tuple[bytes, bytes]],
        content: bytes | None,
        timeout: httpx.Timeout,
    ) -> httpx.Request:
        """A request with these headers, and those that HTTP needs besides."""
        given = {name.lower() for name, _ in headers}
        fields = [(b"Host", url.netloc), _USER_AGENT]
        if content is not None:
            fields.append((b"Content-Length", b"%d" % len(content)))
        request = httpx.Request(
            method,
            url,
            headers=[*(field for field in fields if field[0].lower() not in given), *headers],
            stream=httpx.ByteStream(content or b""),
            extensions={"timeout": timeout.as_dict()},
        )
        if url.userinfo:
            next(httpx.BasicAuth(url.username, url.password).auth_flow(request))
        if self._cookies:
            self._cookies.set_cookie_header(request)
        return request

    async def send(
        self, request: httpx.Request, *, stream: bool, follow_redirects: bool
    ) -> httpx.Response:
        """Send a request; the body of the response is a stream, and redirects are not followed.

        Raises:
            httpx.TransportError: There is no response.
        """
        assert stream
        assert not follow_redirects
        url = request.url
        target = httpcore.URL(
            scheme=url.raw_scheme, host=url.raw_host, port=url.port, target=url.raw_path
        )
        connection = await self._connection(target.origin)
        try:
            with _httpx_errors():
                received = await connection.handle_async_request(
                    httpcore.Request(
                        request.method,
                        target,
                        headers=request.headers.raw,
                        content=request.stream,
                        extensions=request.extensions,
                    )
                )
        except BaseException:
            with trio.CancelScope(deadline=trio.current_time() + CLOSE_TIME, shield=True):
                await connection.aclose()
            raise
        response = httpx.Response(
            received.status,
            headers=received.headers,
            stream=_Body(received, partial(self._take_back, connection)),
            extensions=received.extensions,
            request=request,
        )
        if "set-cookie" in response.headers:  # load balancers tell their clients apart by those
            self._cookies.extract_cookies(response)
        return response

    async def aclose(self) -> None:
        """Close all connections; those in use when their responses are closed."""
        self._closed = True
        while self._idle:
            await self._idle.popleft().aclose()

    async def _connection(self, origin: httpcore.Origin) -> httpcore.AsyncHTTPConnection:
        while self._idle:
            connection = self._idle.popleft()
            if not connection.has_expired():
                return connection
            await connection.aclose()
        return httpcore.AsyncHTTPConnection(
            origin,
            ssl_context=self._ssl_context,
            keepalive_expiry=self._keep_idle,
            network_backend=self._network,
        )

    async def _take_back(self, connection: httpcore.AsyncHTTPConnection) -> None:
        """Keep a connection whose response is closed, if it can be used again."""
        if connection.is_idle() and not self._closed and len(self._idle) < self._most_idle:
            self._idle.append(connection)
        elif not connection.is_closed():
            await connection.aclose()


class _Body(httpx.AsyncByteStream):
    """The body of an answer."""

    def __init__(self, response: httpcore.Response, closed: Callable[[], Awaitable[None]]) -> None:
        self._response = response
        self._closed: Callable[[], Awaitable[None]] | None = closed

    async def __aiter__(self) -> AsyncIterator[bytes]:
        assert isinstance(self._response.stream, AsyncIterable)
        with _httpx_errors():
            async for piece in self._response.stream:
                yield piece

    async def aclose(self) -> None:
        closed, self._closed = self._closed, None
        if closed is not None:
            # httpx calls this at the end of a body, where we may be being cancelled.
            with trio.CancelScope(deadline=trio.current_time() + CLOSE_TIME, shield=True):
                with _httpx_errors():
                    await self._response.aclose()
                await closed()


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
