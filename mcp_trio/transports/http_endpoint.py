"""HTTP requests as an MCP client needs them: bounded, quiet about secrets, and loyal to one origin.

Streamable HTTP and HTTP+SSE send their messages by way of an `Endpoint`. It adds to httpx what the
protocol asks for, or what common sense does where a stranger's server answers:

- Connecting and sending have a deadline, waiting for an answer has none. An answer may take an
  hour, and a stream a day; who wants to wait less long gives the call a timeout. Whatever timeouts
  the user's own httpx client has do not count.
- A redirect is followed within the same origin and where it keeps the method and the body (307 and
  308). What we send is for this server and no other.

What comes back is a `Reply`.
"""

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any, Final, TypeAlias
from urllib.request import getproxies

import httpx
import trio

from mcp_trio.exceptions import TransportError
from mcp_trio.transports.http_packing import PACKINGS
from mcp_trio.transports.http_pool import Pool
from mcp_trio.transports.http_reply import CLOSE_TIME, Refusal, Reply, shown
from mcp_trio.wire.http_headers import check_headers

#: Seconds for each of: getting a free connection, connecting, and sending.
SEND_TIMEOUT: Final = 60.0
#: Redirects that are followed for one request.
MOST_REDIRECTS: Final = 5
#: Seconds that an idle connection is kept. Common servers close theirs after 5, and a request that
#: meets the closing fails.
KEEP_IDLE: Final = 4.0
#: Idle connections that are kept.
MOST_IDLE: Final = 20

_Headers: TypeAlias = list[tuple[bytes, bytes]]


class Unreachable(TransportError):
    """Nobody is there to connect to."""


class Endpoint:
    """A URL to which requests go, by way of an httpx client.

    Args:
        http: Sends the requests; not closed here.
        url: Where they go.
        headers: Go with each request, behind those of the protocol itself.
        send_timeout: Seconds for each of: getting a free connection, connecting, sending.
    """

    def __init__(
        self,
        http: httpx.AsyncClient | Pool,
        url: str | httpx.URL,
        headers: Mapping[str, str],
        send_timeout: float = SEND_TIMEOUT,
    ) -> None:
        self.http = http
        self.url = httpx.URL(url)
        self.headers = dict(headers)
        self.send_timeout = send_timeout
        wait = None if send_timeout == float("inf") else send_timeout
        self._timeout = httpx.Timeout(wait, read=None)

    @property
    def name(self) -> str:
        """The URL as errors show it."""
        return shown(self.url)

    def at(self, url: httpx.URL) -> "Endpoint":
        """The same at another URL."""
        return Endpoint(self.http, url, self.headers, self.send_timeout)

    @asynccontextmanager
    async def open(
        self, method: str, headers: Mapping[str, str], content: bytes | None = None
    ) -> AsyncIterator["Reply"]:
        """Send a request, and have the head of its answer for the length of a block.

        Raises:
            TransportError: It could not be sent, or was answered by a redirect that is not
                followed.
        """
        response = await self._follow(method, self._headed(headers), content)
        try:
            yield Reply(response)
        finally:
            await _close(response)

    def _headed(self, headers: Mapping[str, str]) -> _Headers:
        """The headers given, and those of the user that are none of them, whatever their case."""
        ours = {name.lower() for name in headers}
        theirs = [item for item in self.headers.items() if item[0].lower() not in ours]
        all_of_them = [*theirs, *headers.items(), ("Accept-Encoding", PACKINGS)]
        return [(name.encode("ascii"), value.encode("latin-1")) for name, value in all_of_them]

    async def tell(self, headers: Mapping[str, str], content: bytes) -> Refusal | None:
        """POST what has no answer but that it was taken; says why, if it was not.

        Raises:
            TransportError: It could not be sent, or was not confirmed in time.
        """
        with trio.move_on_after(self.send_timeout):
            async with self.open("POST", headers, content) as reply:
                if not reply.ok:
                    return await reply.refusal()
                await reply.drain()
                return None
        raise TransportError(
            f"{self.name} did not confirm a message within {self.send_timeout:g} s"
        )

    async def _follow(
        self, method: str, headers: _Headers, content: bytes | None
    ) -> httpx.Response:
        url = self.url
        for _ in range(MOST_REDIRECTS + 1):
            response = await self._send(method, url, headers, content)
            if not response.has_redirect_location:
                return response
            try:
                url = _redirected(response, url)
            finally:
                await _close(response)
        raise TransportError(f"{self.name} redirects more than {MOST_REDIRECTS} times")

    async def _send(
        self, method: str, url: httpx.URL, headers: _Headers, content: bytes | None
    ) -> httpx.Response:
        request = self.http.build_request(
            method,
            url,
            headers=headers,
            content=content,
            timeout=self._timeout,
        )
        if content is not None:
            request.stream = _Content(content)
        if url.scheme == "https":
            request.extensions["trace"] = _Handshake()
        try:
            return await self.http.send(request, stream=True, follow_redirects=False)
        except httpx.LocalProtocolError:
            # Its message would show the header.
            text = f"a request to {shown(url)} has a header that HTTP does not allow"
            raise TransportError(text) from None
        except httpx.ConnectError as error:
            raise Unreachable(f"cannot connect to {shown(url)}: {error}") from error
        except httpx.TransportError as error:
            raise TransportError(self._unsent(error, url)) from error

    def _unsent(self, error: httpx.TransportError, url: httpx.URL) -> str:
        """What became of a request that had no answer at all."""
        where, why = shown(url), str(error) or type(error).__name__
        seconds = f"{self.send_timeout:g} s"
        match error:
            case httpx.PoolTimeout():
                return (
                    f"no connection to {where} became free within {seconds}: each request and each "
                    "open stream holds one, and the httpx client allows no more "
                    "(httpx.Limits, max_connections)"
                )
            case httpx.ConnectTimeout():
                return f"connecting to {where} took longer than {seconds}"
            case httpx.WriteTimeout():
                return f"sending to {where} took longer than {seconds}"
            case httpx.ProxyError():
                return f"cannot connect to {where}: {why}"
            case _:
                return f"the connection to {where} broke before an answer came: {why}"


@asynccontextmanager
async def open_endpoint(
    url: str,
    *,
    http: httpx.AsyncClient | None = None,
    headers: Mapping[str, str] | None = None,
    send_timeout: float = SEND_TIMEOUT,
) -> AsyncIterator[Endpoint]:
    """An endpoint for the length of a block, with an httpx client of its own if none is given.

    Raises:
        ValueError: The URL or a header cannot be sent.
    """
    _check(url, headers or {})
    if http is not None:
        yield Endpoint(http, url, headers or {}, send_timeout)
        return
    own = _own_client(url)
    try:
        yield Endpoint(own, url, headers or {}, send_timeout)
    finally:
        with trio.CancelScope(deadline=trio.current_time() + CLOSE_TIME, shield=True):
            await own.aclose()


# No bound on connections: calls that wait for an answer would starve the answers that they wait
# for. How many there are is how many calls the user makes at once.
_LIMITS: Final = httpx.Limits(
    max_connections=None, max_keepalive_connections=MOST_IDLE, keepalive_expiry=KEEP_IDLE
)


def _own_client(url: str) -> httpx.AsyncClient | Pool:
    """Ours, or an httpx client, which knows proxies, where the environment names some."""
    if getproxies().keys() & {"http", "https", "all"}:
        return httpx.AsyncClient(limits=_LIMITS, headers={"User-Agent": "mcp-trio"})
    ssl_context = httpx.create_ssl_context() if httpx.URL(url).scheme == "https" else None
    return Pool(ssl_context, most_idle=MOST_IDLE, keep_idle=KEEP_IDLE)


def _check(url: str, headers: Mapping[str, str]) -> None:
    """Find here what would fail later, where the message would show the value."""
    try:
        parsed = httpx.URL(url)
    except httpx.InvalidURL as error:
        raise ValueError(f"this is no URL: {error}") from None
    if parsed.scheme not in ("http", "https") or not parsed.host:
        raise ValueError(f"{shown(parsed)!r} is no http or https URL with a host")
    check_headers(headers)


class _Handshake:
    """Watches one request being connected, to close the socket of a handshake that is cancelled:
    httpcore only does so for one that fails."""

    def __init__(self) -> None:
        self._stream: Any = None

    async def __call__(self, event: str, info: dict[str, Any]) -> None:
        """Called by httpcore before and after each step (its "trace" extension)."""
        if event.endswith(".connect_tcp.complete"):
            self._stream = info["return_value"]
        elif event.endswith(".start_tls.failed") and self._stream is not None:
            with trio.CancelScope(deadline=trio.current_time() + CLOSE_TIME, shield=True):
                await self._stream.aclose()


class _Content(httpx.AsyncByteStream):
    """A body to be sent, which leaves nothing behind when it is not: httpx's own iterates by a
    generator, and one that is dropped in its middle makes Trio complain."""

    def __init__(self, content: bytes) -> None:
        self._content = content

    def __aiter__(self) -> AsyncIterator[bytes]:
        return _Once(self._content)


class _Once:
    """Gives one piece."""

    def __init__(self, piece: bytes) -> None:
        self._pieces = [piece] if piece else []

    def __aiter__(self) -> "_Once":
        return self

    async def __anext__(self) -> bytes:
        if not self._pieces:
            raise StopAsyncIteration
        return self._pieces.pop()


def same_origin(one: httpx.URL, other: httpx.URL) -> bool:
    """Whether two URLs have the scheme, the host and the port in common."""
    return (one.scheme, one.host, one.port) == (other.scheme, other.host, other.port)


def _redirected(response: httpx.Response, url: httpx.URL) -> httpx.URL:
    """Where a redirect leads, if it may be followed."""
    status = response.status_code
    where = f"HTTP {status} from {shown(url)}"
    try:
        target = url.join(response.headers["location"])
    except httpx.InvalidURL:
        raise TransportError(f"{where}: it redirects to what is no URL", status) from None
    if not same_origin(url, target):
        raise TransportError(
            f"{where}: it redirects to {shown(target)}, which is not followed, since what was sent "
            "is for this server; if you trust that one, use its URL",
            status,
        )
    if status not in (307, 308):
        raise TransportError(
            f"{where}: it redirects to {shown(target)} by a status that drops what was sent; "
            "use that URL if it is the right one",
            status,
        )
    return target.copy_with(fragment=None)


async def _close(response: httpx.Response) -> None:
    with trio.CancelScope(deadline=trio.current_time() + CLOSE_TIME, shield=True):
        await response.aclose()
