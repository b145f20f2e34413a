"""What a client can be opened on, and how each becomes a stream of frames."""

import logging
import os
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import TYPE_CHECKING, Protocol, TypeAlias, TypedDict, Unpack, runtime_checkable

import attrs
import trio

from mcp_trio.connection import (
    OBITUARY_TIME,
    FrameStream,
    LineStream,
    MemoryFrameStream,
    memory_frame_pair,
    open_connection,
    open_private_nursery,
)
from mcp_trio.exceptions import Closed, TransportError
from mcp_trio.incoming import Handler, sole_exception
from mcp_trio.peer import Peer
from mcp_trio.transports.parameters import StdioParameters
from mcp_trio.wire.jsonrpc import Notification

if TYPE_CHECKING:
    import httpx

logger = logging.getLogger("mcp_trio")

#: Seconds for each of: getting a free connection, connecting, and sending, over HTTP.
SEND_TIMEOUT = 60.0
#: Seconds for connecting to a socket.
CONNECT_TIME = 30.0
#: Seconds that a server in this process has to finish, its lifespan too, once its client has gone.
SERVER_TIME = 2.0


@runtime_checkable
class InProcessServer(Protocol):
    """What a client in the same process needs of a server; `mcp_trio.Server` has it."""

    async def serve_frames(self, stream: FrameStream) -> object:
        """Serve one client until it is gone."""


Target: TypeAlias = (
    InProcessServer | StdioParameters | Sequence[str] | trio.abc.Stream | FrameStream | str
)


class Link(Protocol):
    """A connection, as far as a client has to know it."""

    peer: Peer
    nursery: trio.Nursery


class _Ends(TypedDict, total=False):
    handle: Handler
    on_notification: Callable[[Notification], None]
    on_stray: Callable[[bytes, str], object] | None
    max_in_flight: int


@attrs.frozen
class Opened:
    """An open stream, and what to call once the handshake over it is done."""

    stream: FrameStream
    established: Callable[[], None] = lambda: None

    def connect(
        self, on_new_session: Callable[[], object], **ends: Unpack[_Ends]
    ) -> AbstractAsyncContextManager[Link]:
        """A connection over the stream, which has one session."""
        return open_connection(self.stream, **ends)


@attrs.frozen
class OpenedHTTP:
    """A URL where each message is an exchange of its own."""

    url: str
    http: "httpx.AsyncClient | None"
    headers: Mapping[str, str]
    send_timeout: float
    line_limit: int
    established: Callable[[], None] = lambda: None

    def connect(
        self, on_new_session: Callable[[], object], **ends: Unpack[_Ends]
    ) -> AbstractAsyncContextManager[Link]:
        """A connection to the server behind the URL, where sessions may expire."""
        # Only who speaks HTTP pays for httpx.
        from mcp_trio.transports.http_client import open_http_connection

        return open_http_connection(
            self.url,
            http=self.http,
            headers=self.headers,
            send_timeout=self.send_timeout,
            limit=self.line_limit,
            on_new_session=on_new_session,
            **ends,
        )


@asynccontextmanager
async def open_target(
    target: Target,
    *,
    line_limit: int,
    on_stderr: Callable[[str], object] | None,
    http: "httpx.AsyncClient | None" = None,
    headers: Mapping[str, str] | None = None,
    send_timeout: float = SEND_TIMEOUT,
) -> AsyncIterator[Opened | OpenedHTTP]:
    """Open the way to a target.

    Raises:
        TypeError: It is nothing that a client can be opened on.
        ValueError: It is a string that is no URL of a transport.
        TransportError: There is nobody to connect to.
        OSError: A command cannot be started.
    """
    scheme = target.partition(":")[0].lower() if isinstance(target, str) else None
    if on_stderr is not None and not isinstance(target, StdioParameters | list | tuple):
        raise TypeError("on_stderr is for servers that are started by a command")
    if http is not None and scheme not in ("http", "https"):
        raise TypeError("http is for http and https URLs")
    if headers is not None and scheme not in ("http", "https", "ws", "wss"):
        raise TypeError("headers are for http, https, ws and wss URLs")
    match target:
        case type():
            raise TypeError(f"cannot open a client on the class {target.__name__}: make one of it")
        case str() if scheme in ("http", "https"):
            yield OpenedHTTP(target, http, headers or {}, send_timeout, line_limit)
        case str() if scheme in ("ws", "wss"):
            # Only who speaks WebSocket pays for trio-websocket.
            from mcp_trio.transports.websocket import open_websocket_stream

            async with open_websocket_stream(
                target, headers=headers, message_limit=line_limit
            ) as websocket:
                yield Opened(websocket)
        case str() if scheme in ("unix", "tcp"):
            byte_stream = await _connect(scheme, target)
            yield Opened(LineStream(byte_stream, byte_stream, line_limit))
        case str():
            raise ValueError(_about_string(target))
        case FrameStream():
            yield Opened(target)
        case trio.abc.Stream():
            yield Opened(LineStream(target, target, line_limit))
        case StdioParameters():
            async with _open_command(target, line_limit, on_stderr) as opened:
                yield opened
        case InProcessServer():
            async with _open_in_process(target) as stream:
                yield Opened(stream)
        case list() | tuple():
            parameters = StdioParameters.from_argv(list(target))
            async with _open_command(parameters, line_limit, on_stderr) as opened:
                yield opened
        case _:
            raise TypeError(
                f"cannot open a client on {type(target).__name__}: expected a list of argv, "
                "StdioParameters, a trio.abc.Stream or a Server"
            )


@asynccontextmanager
async def _open_command(
    parameters: StdioParameters, line_limit: int, on_stderr: Callable[[str], object] | None
) -> AsyncIterator[Opened]:
    # Only who starts processes pays for what that takes.
    from mcp_trio.transports.stdio import open_stdio

    if on_stderr is not None:
        parameters = attrs.evolve(parameters, stderr=on_stderr)
    async with open_stdio(parameters, line_limit=line_limit) as (stream, child):

        def established() -> None:
            child.established = True

        yield Opened(stream, established)


class _InProcessStream(FrameStream):
    """The client's end of a stream to a server in this process, which may fail as well."""

    def __init__(self, near: MemoryFrameStream) -> None:
        self._near = near
        self._served = trio.Event()
        self._failure: Exception | None = None

    async def receive(self) -> list[bytes]:
        return await self._near.receive()

    async def send(self, frames: Sequence[bytes]) -> None:
        await self._near.send(frames)

    async def aclose(self) -> None:
        await self._near.aclose()

    async def wait_death(self) -> str:
        await self._served.wait()
        return "the server has ended"

    async def obituary(self, reason: str) -> Closed:
        await self.wait_served(OBITUARY_TIME)
        if self._failure is not None:
            reason = f"the server failed: {type(self._failure).__name__}: {self._failure}"
        return Closed(reason)

    async def wait_served(self, seconds: float) -> None:
        with trio.move_on_after(seconds):
            await self._served.wait()

    async def serve(self, server: InProcessServer, far: MemoryFrameStream) -> None:
        """Run the server. That it fails is not raised into its client's body: calls hear of it."""
        try:
            await server.serve_frames(far)
        except Exception as exc:
            logger.exception("the server in this process failed")
            cause = sole_exception(exc)
            self._failure = cause if isinstance(cause, Exception) else exc
        finally:
            self._served.set()


@asynccontextmanager
async def _open_in_process(server: InProcessServer) -> AsyncIterator[FrameStream]:
    near, far = memory_frame_pair()
    stream = _InProcessStream(near)
    async with open_private_nursery() as nursery:
        nursery.start_soon(stream.serve, server, far)
        yield stream
        await stream.wait_served(SERVER_TIME)  # its lifespan may have something to put away


async def _connect(scheme: str, target: str) -> trio.abc.Stream:
    """Connect to `unix:/path/of/the/socket` or `tcp:host:port`, with the framing of stdio."""
    place = target.partition(":")[2].removeprefix("//")
    host, _, port = place.rpartition(":")
    if scheme == "tcp" and not (host and port.isascii() and port.isdecimal()):
        raise ValueError(f"{target!r} is no address: expected tcp:HOST:PORT")
    try:
        with trio.fail_after(CONNECT_TIME):
            if scheme == "unix":
                return await trio.open_unix_socket(place)
            return await trio.open_tcp_stream(host.strip("[]"), int(port))
    except (OSError, trio.TooSlowError) as exc:
        raise TransportError(
            f"cannot connect to {target}: {str(exc) or 'it takes too long'}"
        ) from exc


def _about_string(target: str) -> str:
    if "://" in target:
        return (
            f"{target.partition('://')[0]!r} is no scheme of a URL that a client can be opened on"
        )
    hint = f"[{target!r}]" if os.sep in target or " " not in target else repr(target.split())
    return f"a command is a list of argv, not a string: did you mean {hint}?"
