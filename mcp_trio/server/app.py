"""The server as its author sees it: what it offers, and the ways to serve it.

A `Server` is a description. Registering tools, resources and prompts fills it; nothing runs and
nothing is open until one of the `serve_*` methods is awaited, and any number of those may run at
the same time, each for its own clients.
"""

import signal
import sys
from collections.abc import (
    AsyncIterator,
    Awaitable,
    Callable,
    Collection,
    Iterable,
    Mapping,
    Sequence,
)
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar, Unpack

import attrs
import trio

from mcp_trio.protocol import meta as keys
from mcp_trio.protocol.methods import METHODS
from mcp_trio.protocol.revisions import REVISIONS
from mcp_trio.server.bus import ListChanged, ListKind, MemoryBus, ResourceUpdated, SubscriptionBus
from mcp_trio.server.completion import Completions
from mcp_trio.server.definitions import described
from mcp_trio.server.dispatch import CacheHint, Dispatcher, Middleware
from mcp_trio.server.lifecycle import changing_lists, lifecycle_handlers
from mcp_trio.server.low_level import notification_handler, request_work
from mcp_trio.server.prompts import PromptOptions, Prompts
from mcp_trio.server.resources import ResourceOptions, Resources
from mcp_trio.server.session import Session
from mcp_trio.server.state import StateKeys
from mcp_trio.server.subscriptions import listen, serve_changes, subscribe, unsubscribe
from mcp_trio.server.tools import ToolOptions, Tools
from mcp_trio.wire.jsonrpc import JSONObject
from mcp_trio.wire.ndjson import SERVER_LINE_LIMIT

if TYPE_CHECKING:
    import ssl

    from mcp_trio.connection import FrameStream
    from mcp_trio.exceptions import Closed
    from mcp_trio.protocol.types import Icon
    from mcp_trio.server.http.asgi import ServerApp
    from mcp_trio.server.http.options import HTTPOptions
    from mcp_trio.server.low_level import NotificationHandler
    from mcp_trio.transports.http_server import HTTPLimits

Function = TypeVar("Function", bound=Callable[..., Any])
MiddlewareT = TypeVar("MiddlewareT", bound=Middleware)
Lifespan = Callable[["Server"], AbstractAsyncContextManager[Any]]


class Server:
    """What a program offers to MCP clients, and how to serve it to them.

    Args:
        name: What the program is called, for other programs.
        version: Of the program, not of the protocol.
        title: The name for people.
        instructions: For the model that uses this server: what is here and how to go about it.
        description, icons, website_url: More about the program, for people.
        lifespan: Called with the server, gives an async context manager that is open as long as
            the server runs; what it yields is `Context.lifespan` of every handler.
        state_keys: Secrets that seal what a modern client carries from one round of questions to
            the next. The first one seals, all of them open. By default one is made for this
            process; several processes that serve the same clients need common ones.
        page_size: Entries in one page of a list; all in one by default.
        versions: The revisions of the protocol to serve; all by default.
        cache_hints: By method, such as "tools/list", for how long modern clients may keep a
            result; not at all by default.
        tracebacks: Whether the text of a tool's unexpected exception has the traceback, too. It
            shows the client what the program looks like inside.
        middleware: Async callables around every request, the first one outermost; see
            `middleware`.
        max_in_flight: How many requests of one client may be open at once.
        line_limit: The most bytes that one message may have: a line, or the body of a POST.
        bus: Where changes are published; within this process by default.
        capabilities: Additions to what the server declares, such as "experimental" and
            "extensions"; None for a name takes it out.
    """

    def __init__(
        self,
        name: str,
        *,
        version: str = "0",
        title: str | None = None,
        instructions: str | None = None,
        description: str | None = None,
        icons: "Sequence[Icon | JSONObject] | None" = None,
        website_url: str | None = None,
        lifespan: Lifespan | None = None,
        state_keys: Sequence[bytes | str] | None = None,
        page_size: int | None = None,
        versions: Iterable[str] = REVISIONS,
        cache_hints: Mapping[str, CacheHint] | None = None,
        tracebacks: bool = False,
        middleware: Iterable[Middleware] = (),
        max_in_flight: int = 1000,
        line_limit: int = SERVER_LINE_LIMIT,
        bus: SubscriptionBus | None = None,
        capabilities: Mapping[str, JSONObject | None] | None = None,
    ) -> None:
        if page_size is not None and page_size < 1:
            raise ValueError(f"page_size must be at least 1, not {page_size}.")
        self.name = name
        self.version = version
        self.instructions = instructions
        self.max_in_flight = max_in_flight
        self.line_limit = line_limit
        self.capabilities = dict(capabilities or {})
        self.bus = MemoryBus() if bus is None else bus
        self.state_keys = StateKeys(state_keys)
        self.notification_handlers: dict[str, NotificationHandler] = {}
        self.info = described(
            name=name,
            version=version,
            title=title,
            description=description,
            icons=icons,
            websiteUrl=website_url,
        )
        self.stamp: JSONObject = {keys.SERVER_INFO: self.info}
        self.tools = Tools(partial(self._changed, "tools"), page_size, tracebacks=tracebacks)
        self.resources = Resources(partial(self._changed, "resources"), page_size)
        self.prompts = Prompts(partial(self._changed, "prompts"), page_size)
        self.completions = Completions(self.prompts, self.resources)
        self.dispatcher = Dispatcher(
            self,
            versions,
            {
                **lifecycle_handlers(self),
                **self.tools.handlers(),
                **self.resources.handlers(),
                **self.prompts.handlers(),
                **self.completions.handlers(),
                "subscriptions/listen": listen,
                "resources/subscribe": subscribe,
                "resources/unsubscribe": unsubscribe,
            },
            cache_hints or {},
            {"tools/call": self.tools.can_ask},
        )
        self.dispatcher.middleware.extend(middleware)
        self._lifespan = lifespan
        self._running: Running | None = None

    def __repr__(self) -> str:
        return f"<Server {self.name!r} {self.version}>"

    # What it offers

    def tool(
        self, name: str | None = None, **options: Unpack[ToolOptions]
    ) -> Callable[[Function], Function]:
        """Offer a function as a tool: a decorator.

        The schema of the arguments comes from the signature, the description from the docstring,
        the name from the function's unless one is given. A parameter annotated as `Context` is no
        argument but gets the context. `ToolOptions` lists the options.

        Raises:
            ValueError: The name is taken or is no name for a tool.
            TypeError: The signature has something that JSON cannot express.
        """
        return _decorator("tool", name, partial(self.add_tool, name=name, **options))

    def add_tool(
        self,
        function: Callable[..., Any],
        *,
        name: str | None = None,
        **options: Unpack[ToolOptions],
    ) -> None:
        """Offer a function as a tool, at any time; see `tool`. Clients that listen are told."""
        self.tools.add(function, name, options)

    def remove_tool(self, name: str) -> None:
        """Offer a tool no longer. Calls that are in progress go on. KeyError if there is none."""
        self.tools.remove(name)

    def resource(
        self, uri: str, **options: Unpack[ResourceOptions]
    ) -> Callable[[Function], Function]:
        """Offer what a function returns as a resource: a decorator.

        `uri` is the resource's URI or, with variables as in ``weather://{city}/now``, a template
        by RFC 6570 for the URIs of many; the function's parameters are the template's variables.
        `ResourceOptions` lists the options.

        Raises:
            ValueError: The URI is taken, or the template and the signature do not match.
        """
        return _decorator("resource", uri, partial(self.add_resource, uri, **options), named=True)

    def add_resource(
        self, uri: str, function: Callable[..., Any], **options: Unpack[ResourceOptions]
    ) -> None:
        """Offer a resource or template, at any time; see `resource`."""
        self.resources.add(uri, function, options)

    def remove_resource(self, uri: str) -> None:
        """Offer a resource or template no longer. KeyError if there is none."""
        self.resources.remove(uri)

    def prompt(
        self, name: str | None = None, **options: Unpack[PromptOptions]
    ) -> Callable[[Function], Function]:
        """Offer what a function returns as a prompt: a decorator.

        The function's parameters are the prompt's arguments. They arrive as strings; one that is
        annotated as something else is read as JSON first. `PromptOptions` lists the options.

        Raises:
            ValueError: The name is taken.
        """
        return _decorator("prompt", name, partial(self.add_prompt, name=name, **options))

    def add_prompt(
        self,
        function: Callable[..., Any],
        *,
        name: str | None = None,
        **options: Unpack[PromptOptions],
    ) -> None:
        """Offer a prompt, at any time; see `prompt`."""
        self.prompts.add(function, name, options)

    def remove_prompt(self, name: str) -> None:
        """Offer a prompt no longer. KeyError if there is none."""
        self.prompts.remove(name)

    def completion(
        self,
        *,
        prompt: str | None = None,
        resource: str | None = None,
        argument: str | None = None,
        thread: bool = False,
    ) -> Callable[[Function], Function]:
        """Suggest values for an argument of a prompt or a variable of a template: a decorator.

        The function gets what the user has typed so far as its first parameter. Parameters with
        these names get more: `argument`, the argument's name; `arguments`, a dict of those already
        filled in (empty before 2025-06-18); one annotated as `Context` gets the context. It
        returns strings, best first (at most 100 are sent), or a `Completion`.

        Args:
            prompt: The name of a prompt; either this or `resource`.
            resource: A template, spelt as it is registered.
            argument: Which argument; all that have no function of their own by default.
            thread: Run a plain function that blocks in a thread.

        Raises:
            ValueError: Not exactly one of `prompt` and `resource`, or that argument has one.
        """

        def register(function: Function) -> Function:
            self.completions.add(function, prompt, resource, argument, thread)
            return function

        return register

    def request(self, method: str, *, thread: bool = False) -> Callable[[Function], Function]:
        """Answer any method: a decorator for what there is no other for.

        The function is called with the params (a dict) and the `Context`, or with as many of the
        two as it takes, and returns the result: a dict, one of the protocol's types, or None for
        an empty result. It raises `MCPError` to answer with an error. For a method of the protocol
        it replaces the built-in handler, in the revisions that have the method.

        Raises:
            ValueError: The method is one that the connection itself depends on.
        """

        def add(function: Callable[..., Any]) -> None:
            self.dispatcher.add(method, request_work(method, function, thread=thread))

        return _decorator("request", method, add, named=True)

    def notification(self, method: str) -> Callable[[Function], Function]:
        """Be told of a notification that clients send: a decorator.

        The function is called with the params (a dict) and the `Session` that it came by, or with
        as many of the two as it takes. A plain function runs at once and holds up everything else
        of that client while it does. A coroutine function runs in a task, one notification after
        the other, and may ask the client through `session.peer`; if it is too slow, the oldest
        notifications are dropped. What it raises is logged.
        """

        def add(function: Callable[..., Any]) -> None:
            if method in self.notification_handlers:
                raise ValueError(f"There is a handler of {method!r} already.")
            self.notification_handlers[method] = notification_handler(function)

        return _decorator("notification", method, add, named=True)

    def middleware(self, middleware: MiddlewareT) -> MiddlewareT:
        """Put an async callable around every request: a decorator, without parentheses.

        It is called as ``await middleware(ctx, params, proceed)`` and returns the result in wire
        form, usually that of ``await proceed(params)``. It may raise `MCPError`, ask the user
        through `ctx`, and change what it passes on.
        """
        self.dispatcher.middleware.append(middleware)
        return middleware

    # What changes

    def notify_resource_updated(self, uri: str) -> None:
        """Say that a resource should be read again; subscribed clients are told.

        Never blocks, and may be called from any thread.
        """
        self.bus.publish(ResourceUpdated(uri))

    def _changed(self, kind: ListKind) -> None:
        self.bus.publish(ListChanged(kind))

    # What becomes of a client, whatever it came by

    def find_notification_handler(
        self, method: str, version: str | None
    ) -> "NotificationHandler | None":
        """Who handles a notification; nobody if its revision, as far as known, has it not."""
        row = METHODS.get(method)
        if row is not None and version not in row.client:
            return None
        return self.notification_handlers.get(method)

    async def accompany(self, session: Session) -> None:
        """What there is to do for one client, besides answering it, while it is connected.

        Runs in a task of each connection and each legacy session, from its beginning until it is
        cancelled at its end. Here that is to tell a legacy client of changes.
        """
        await serve_changes(session, self.bus, changing_lists(self))

    # Serving

    @asynccontextmanager
    async def running(self) -> AsyncIterator[Any]:
        """Open the lifespan for the length of a block, for everything that is served in it.

        For applications that serve one server in several ways at once, or mount it somewhere.
        `serve_stream` uses the lifespan that is open, or one of its own if none is; the other
        `serve_*` methods do the same, or else call this themselves. Yields the lifespan's value.

        Raises:
            RuntimeError: The server is running already.
        """
        async with self.open_run(shared=True) as value:
            yield value

    @asynccontextmanager
    async def open_run(self, *, shared: bool) -> AsyncIterator[Any]:
        """Own the lifespan, unless somebody meant to share theirs."""
        if self._running is not None and self._running.shared and not shared:
            yield self._running.value
            return
        if self._running is not None:
            raise RuntimeError(
                f"{self!r} is running already. To serve it in several ways, put them all into"
                " one `async with server.running():`."
            )
        from mcp_trio.connection import open_private_nursery

        async with self._own_lifespan() as value, open_private_nursery() as nursery:
            self._running = Running(value, nursery, shared)
            try:
                yield value
            finally:
                self._running = None

    @property
    def current_run(self) -> "Running | None":
        """What is open as long as the server runs; None while it does not."""
        return self._running

    @asynccontextmanager
    async def _own_lifespan(self) -> AsyncIterator[Any]:
        if self._lifespan is None:
            yield None
        else:
            async with self._lifespan(self) as value:
                yield value

    async def serve_frames(self, stream: "FrameStream") -> "Closed":
        """Serve the client at the other end of a stream of frames until it is gone.

        Returns why the connection ended. Whatever the client does, this does not raise;
        cancelling it closes the stream.
        """
        from mcp_trio.connection import CLOSE_TIME
        from mcp_trio.server.serving import serve_client

        if self._running is not None:
            return await serve_client(self, stream, self._running.value)
        try:
            async with self._own_lifespan() as lifespan:
                return await serve_client(self, stream, lifespan)
        except BaseException:  # the lifespan may have failed before the stream was anybody's
            with trio.CancelScope(deadline=trio.current_time() + CLOSE_TIME, shield=True):
                await stream.aclose()
            raise

    async def serve_stream(self, stream: trio.abc.Stream) -> None:
        """Serve the client at the other end of a byte stream, with the framing of stdio.

        A handler for `trio.serve_tcp` and its like: it owns the stream and closes it, and raises
        nothing for what its client did. Where no `running` block is open, each stream gets a
        lifespan of its own.
        """
        from mcp_trio.connection import LineStream

        await self.serve_frames(LineStream(stream, stream, self.line_limit))

    async def serve_stdio(
        self,
        *,
        watch_parent: bool = False,
        task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED,
    ) -> None:
        """Serve the client that started this process, over standard input and output.

        Returns soon after standard input has ended; handlers have a second to finish. Meanwhile
        descriptors 0 and 1 belong to the protocol alone: what a tool prints goes to stderr.

        Args:
            watch_parent: Also end when the process that started this one has gone, for when
                somebody else may hold standard input open.

        Raises:
            RuntimeError: Another server is using this process's standard input already.
            OSError: Standard input or output is closed.
        """
        from mcp_trio.connection import LineStream
        from mcp_trio.server.serving import ended_with_parent
        from mcp_trio.transports.stdio_server import open_standard_streams

        async with open_standard_streams() as streams, self.open_run(shared=False):
            stream = LineStream(*streams, self.line_limit)
            task_status.started()
            if watch_parent:
                await ended_with_parent(self.serve_frames, stream)
            else:
                await self.serve_frames(stream)

    async def serve_websocket(
        self,
        port: int,
        *,
        host: str | None = "127.0.0.1",
        origins: Collection[str] = (),
        ssl_context: "ssl.SSLContext | None" = None,
        ping_interval: float | None = None,
        task_status: trio.TaskStatus[Any] = trio.TASK_STATUS_IGNORED,
    ) -> None:
        """Serve WebSocket clients until cancelled, one message in each text frame.

        With `nursery.start` it gives the listeners, as `trio.serve_tcp` does. One client that
        fails does not concern the others.

        Args:
            port: The TCP port; 0 for any that is free.
            host: The address to listen at, by default this computer's own; None for all.
            origins: Web pages that may connect besides those of this computer, such as
                "https://example.com"; "*" for all. Programs that are no browsers may always.
            ssl_context: Listen for `wss://` with this certificate.
            ping_interval: Seconds between pings; a client that does not answer one for as long
                is given up. None for no pings.

        Raises:
            OSError: The port cannot be listened at.
        """
        from mcp_trio.transports.websocket import serve_websocket

        async with self.open_run(shared=False):
            await serve_websocket(
                self.serve_frames,
                port,
                host=host,
                origins=origins,
                ssl_context=ssl_context,
                message_limit=self.line_limit,
                ping_interval=ping_interval,
                task_status=task_status,
            )

    async def serve_http(
        self,
        port: int,
        *,
        host: str | None = "127.0.0.1",
        ssl_context: "ssl.SSLContext | None" = None,
        limits: "HTTPLimits | None" = None,
        shutdown: Awaitable[object] | Callable[[], Awaitable[object]] | None = None,
        grace: float = 5.0,
        task_status: trio.TaskStatus[Any] = trio.TASK_STATUS_IGNORED,
        **options: "Unpack[HTTPOptions]",
    ) -> None:
        """Serve clients of all revisions over HTTP until cancelled or shut down.

        With `nursery.start` it gives the listeners, as `trio.serve_tcp` does. Cancelling cuts all
        connections at once.

        Args:
            port: The TCP port; 0 for any that is free.
            host: The name or address to listen at, by default this computer's own; None for all.
            ssl_context: Listen for `https://` with this certificate.
            limits: What one client may take: bytes, time, connections.
            shutdown: An awaitable, or an async function such as `event.wait`. When it is done,
                nothing new is accepted, subscriptions and streams to listen on are ended, and
                what is being worked on may go on for a while.
            grace: Seconds that it may.
            options: See `HTTPOptions`.

        Raises:
            OSError: The port cannot be listened at.
        """
        from mcp_trio.server.http.handler import HTTPHandler
        from mcp_trio.transports.http_server import serve_http_exchanges
        from mcp_trio.transports.origins import names_of

        handler = HTTPHandler(self, names_of(host), **options)

        async def shut_down() -> None:
            if shutdown is None:
                await trio.sleep_forever()
            else:
                await (shutdown() if callable(shutdown) else shutdown)
            handler.wind_down()

        async with self.open_run(shared=False), handler.serving():
            await serve_http_exchanges(
                handler,
                port,
                host=host,
                ssl_context=ssl_context,
                limits=limits,
                shutdown=shut_down,
                grace=grace,
                task_status=task_status,
            )

    def asgi_app(self, **options: "Unpack[HTTPOptions]") -> "ServerApp":
        """An ASGI 3 application that serves clients of all revisions over HTTP.

        For ASGI servers that run on Trio, such as Hypercorn's Trio worker, by itself or mounted
        in a framework's application; its paths are relative to where it is mounted. It enters
        the server's lifespan when it is told that the ASGI server starts. Mounted applications
        are not told: there, enter `running` in the lifespan of the whole. Until then every
        request is answered 500.

        Several processes may serve modern clients together, and legacy ones with the option
        `stateless`; give them the same `state_keys`. Sessions need one process.

        Args:
            options: See `HTTPOptions`.
        """
        from mcp_trio.server.http.asgi import ServerApp

        return ServerApp(self, **options)

    def run(self) -> None:
        """Be a program that serves over stdio: `trio.run` of `serve_stdio`.

        SIGTERM and SIGINT (Ctrl-C) cancel it and end the process with status 143 or 130, without
        a traceback. It returns when standard input has ended.
        """
        try:
            from mcp_trio.server.serving import run

            run(self)
        except KeyboardInterrupt:  # while there was nobody yet, or no longer, to turn it into more
            sys.exit(128 + signal.SIGINT)


@attrs.frozen
class Running:
    """What outlives single connections.

    Attributes:
        value: What the lifespan yielded.
        nursery: For what several connections have in common, such as sessions over HTTP. Its
            tasks must not raise: they would end the server for everybody.
        shared: Whether it is there for everything that is served (`Server.running`).
    """

    value: Any
    nursery: trio.Nursery
    shared: bool


def _decorator(
    what: str, name: str | None, add: Callable[..., None], *, named: bool = False
) -> Callable[[Function], Function]:
    if callable(name):
        example = f"{what}(...)" if named else f"{what}()"
        raise TypeError(f"Write @server.{example}, with parentheses.")

    def register(function: Function) -> Function:
        add(function)
        return function

    return register
