"""The other face of a handler: an ASGI 3 application, for a server and frameworks of other people.

ASGI hands over an HTTP request as a dictionary (the scope) and two async functions, which
receive the body piece by piece and then the client's departure, and send the answer. The server
has to run on Trio: Hypercorn's Trio worker is the one that this is tested with.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, MutableMapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any, TypeAlias
from urllib.parse import unquote

import trio

from mcp_trio.transports.http_exchange import (
    BodyTooLarge,
    ClientGone,
    Handle,
    Headers,
    HTTPRequest,
    ResponseHeaders,
    SendPiece,
)
from mcp_trio.transports.http_face import (
    BODILESS,
    WatchedExchange,
    answer,
    header_fields,
    logger,
)
from mcp_trio.transports.shared_reader import SharedReader

Message: TypeAlias = MutableMapping[str, Any]
Receive: TypeAlias = Callable[[], Awaitable[Message]]
Send: TypeAlias = Callable[[Message], Awaitable[None]]

#: Whatever the application needs while it runs, such as a nursery for its sessions.
Lifespan: TypeAlias = Callable[[], AbstractAsyncContextManager[object]]


class ASGIApp:
    """An ASGI application around a handler.

        app = ASGIApp(handle, lifespan=sessions.running)
        await hypercorn.trio.serve(app, config)

    The lifespan is entered when the ASGI server announces its start, and left at its end. Some
    frameworks do not pass that on to what is mounted in them: there, enter `running()` in the
    framework's own lifespan. Limits on time, size of headers and connections are the server's.
    """

    def __init__(self, handle: Handle, *, lifespan: Lifespan | None = None) -> None:
        """Wrap `handle`; `lifespan` makes the context manager in which it can be called."""
        self._handle = handle
        self._lifespan = lifespan
        self._running = lifespan is None
        self._shutting_down = trio.Event()

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        """Serve one scope, as ASGI 3 has it. Websockets are refused."""
        match scope["type"]:
            case "http":
                await self._serve_http(scope, receive, send)
            case "lifespan":
                await self._serve_lifespan(receive, send)
            case "websocket":
                await receive()
                await send({"type": "websocket.close", "code": 1000})
            case other:
                raise ValueError(f"cannot serve an ASGI scope of type {other!r}")

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Run the lifespan for the length of a block, for servers that do not announce theirs.

        Raises:
            RuntimeError: It is running already.
        """
        if self._lifespan is None:
            yield
            return
        if self._running:
            raise RuntimeError("the application is running already, and can run once at a time")
        self._shutting_down = trio.Event()
        async with self._lifespan():
            self._running = True
            try:
                yield
            finally:
                self._running = False
                self._shutting_down.set()

    def _check_running(self) -> None:
        """Raise RuntimeError if requests cannot be handled now."""
        if not self._running:
            raise RuntimeError(
                "the application is not running: its lifespan has not been started. Where the "
                "framework it is mounted in does not do that, enter app.running() in its lifespan"
            )

    async def _serve_lifespan(self, receive: Receive, send: Send) -> None:
        started = False
        try:
            await receive()
            async with self.running():
                started = True
                await send({"type": "lifespan.startup.complete"})
                await receive()
        except Exception as error:
            phase = "shutdown" if started else "startup"
            logger.exception("The lifespan failed at %s", phase)
            await send({"type": f"lifespan.{phase}.failed", "message": str(error)})
        else:
            await send({"type": "lifespan.shutdown.complete"})

    async def _serve_http(self, scope: Message, receive: Receive, send: Send) -> None:
        self._check_running()
        async with trio.open_nursery() as nursery:
            reader = _MessageReader(receive, nursery)
            exchange = _ASGIExchange(_request(scope), reader, send, self._shutting_down)
            await answer(self._handle, exchange)
            nursery.cancel_scope.cancel()


class _MessageReader(SharedReader):
    """Reads the pieces of a body, and then waits for the news that the client has gone."""

    def __init__(self, receive: Receive, nursery: trio.Nursery) -> None:
        super().__init__(nursery)
        self._receive = receive
        #: Whether the whole body has come.
        self.complete = False

    async def read(self) -> bytes | None:
        message = await self._receive()
        if message["type"] == "http.disconnect":
            return None
        self.complete = not message.get("more_body", False)
        return bytes(message.get("body", b""))


class _ASGIExchange(WatchedExchange):
    """One call of the application with an http scope."""

    _reader: _MessageReader

    def __init__(
        self, request: HTTPRequest, reader: _MessageReader, send: Send, shutting_down: trio.Event
    ) -> None:
        super().__init__(request, reader, shutting_down)
        self._send = send

    async def body(self, limit: int) -> bytes:
        self._begin_body(limit)
        body = bytearray(self._reader.take())
        while not self._reader.complete:
            if self._reader.ended:
                raise ClientGone("the connection ended before the body did")
            await self._reader.more()
            body += self._reader.take()
            if len(body) > limit:
                break
        if len(body) > limit:
            raise BodyTooLarge(f"the body has more than {limit} bytes")
        return bytes(body)

    async def respond(self, status: int, headers: ResponseHeaders = (), body: bytes = b"") -> None:
        fields = header_fields(headers)
        if status not in BODILESS:
            fields.append((b"content-length", b"%d" % len(body)))
        self._begin()
        await self._start(status, fields)
        body = b"" if self.request.method == "HEAD" else body
        await self._tell({"type": "http.response.body", "body": body, "more_body": False})

    @asynccontextmanager
    async def stream(self, status: int, headers: ResponseHeaders = ()) -> AsyncIterator[SendPiece]:
        fields = header_fields(headers)
        self._begin()
        turn = trio.StrictFIFOLock()

        async def send(piece: bytes) -> None:
            if piece and self.request.method != "HEAD":
                async with turn:
                    message = {"type": "http.response.body", "body": piece, "more_body": True}
                    await self._tell(message)

        await self._start(status, fields)
        yield send
        await self._tell({"type": "http.response.body", "body": b"", "more_body": False})

    async def _start(self, status: int, fields: list[tuple[bytes, bytes]]) -> None:
        await self._tell({"type": "http.response.start", "status": status, "headers": fields})

    async def _tell(self, message: Message) -> None:
        if self._reader.ended:
            raise ClientGone("the client has closed the connection")
        try:
            await self._send(message)
        except OSError as error:  # so the specification has it for a client that has gone
            self._reader.end()
            raise ClientGone(f"the client has closed the connection ({error})") from error


def _request(scope: Message) -> HTTPRequest:
    client = scope.get("client")
    root_path = scope.get("root_path", "").rstrip("/")
    return HTTPRequest(
        scope["method"],
        _relative_path(scope, root_path),
        scope.get("query_string", b"").decode("latin-1"),
        Headers((bytes(name).lower(), bytes(value)) for name, value in scope["headers"]),
        client[0] if client else None,
        scope.get("scheme", "http"),
        root_path,
    )


def _relative_path(scope: Message, root_path: str) -> str:
    """The path below the place where we are mounted.

    By the specification `path` is the whole path. Some frameworks cut off the mounting point
    all the same; then it is shorter than `raw_path`, which they leave alone.
    """
    path: str = scope["path"]
    raw = scope.get("raw_path")
    if raw is not None and unquote(raw.decode("latin-1")) == root_path + path:
        return path
    if path == root_path:
        return "/"
    return path.removeprefix(root_path) if path.startswith(f"{root_path}/") else path
