"""The client: one object for servers of both eras, on any stream.

    async with mcp_trio.open_client(["my-server"]) as client:
        result = await client.call_tool("add", {"a": 1, "b": 2})

Every method of `Client` may be called from any task while the block is open. A method that asks
the server raises

- `MCPError` if the server answers with an error,
- `ConnectionClosed` if the connection ends or has ended, with the reason, and for a child process
  with its exit status and the last lines of its stderr,
- `TransportError` if the exchange failed over HTTP, where the next one may succeed,
- `RequestTimeout` if a `timeout` was given and ran out,
- `ProtocolError` if the server's answer breaks the protocol,

and cancelling it cancels the request at the server too.
"""

import importlib.metadata
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Iterable, Mapping
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, TypeVar, TypeVarTuple

import trio

from mcp_trio.call import ProgressCallback
from mcp_trio.client.calls import Calls, OnProgress
from mcp_trio.client.events import Events, Granted, ToolsChanged
from mcp_trio.client.handshake import Handshake, Introduction, offers_of
from mcp_trio.client.listening import Listening
from mcp_trio.client.notices import Callback
from mcp_trio.client.options import (
    CONNECT_TIMEOUT,
    PROBE_TIMEOUT,
    ClientOptions,
    check_log_level,
)
from mcp_trio.client.output import OutputChecks
from mcp_trio.client.questions import Answers, OnElicit, OnListRoots, OnSample
from mcp_trio.client.targets import SEND_TIMEOUT, Link, Target, open_target
from mcp_trio.connection import open_private_nursery
from mcp_trio.exceptions import ConnectionClosed, MCPError, ProtocolError, RequestTimeout
from mcp_trio.incoming import Handler, IncomingRequest
from mcp_trio.peer import Peer
from mcp_trio.protocol.convert import StructureError, structure, unstructure
from mcp_trio.protocol.methods import METHODS
from mcp_trio.protocol.types.base import CacheablePage, Implementation, LoggingLevel
from mcp_trio.protocol.types.capabilities import ServerCapabilities
from mcp_trio.protocol.types.completion import (
    CompleteResult,
    PromptReference,
    ResourceTemplateReference,
)
from mcp_trio.protocol.types.notifications import LoggingMessageNotificationParams
from mcp_trio.protocol.types.prompts import GetPromptResult, ListPromptsResult, Prompt
from mcp_trio.protocol.types.resources import (
    ListResourcesResult,
    ListResourceTemplatesResult,
    ReadResourceResult,
    Resource,
    ResourceTemplate,
)
from mcp_trio.protocol.types.tools import CallToolResult, ListToolsResult, Tool
from mcp_trio.wire.jsonrpc import JSONObject, Notification
from mcp_trio.wire.ndjson import CLIENT_LINE_LIMIT

if TYPE_CHECKING:
    import httpx

logger = logging.getLogger("mcp_trio")
Page = TypeVar("Page", bound=CacheablePage)
Ts = TypeVarTuple("Ts")


class Client:
    """A connection to a server, made by `open_client`.

    Attributes:
        peer: The layer below: requests and notifications as they are.
    """

    peer: Peer
    _connection: Link
    _on_log: Callback[LoggingMessageNotificationParams] | None = None
    _on_notification: Callback[Notification] | None = None

    def __init__(self, options: ClientOptions) -> None:
        if not isinstance(options, ClientOptions):
            raise TypeError("a Client is opened: async with mcp_trio.open_client(...) as client")
        answers = Answers(
            options.on_elicit,
            options.on_sample,
            options.on_list_roots,
            modes=_modes(options.capabilities),
            model_tools="tools" in (options.capabilities.get("sampling") or ()),
        )
        introduction = Introduction(
            unstructure(options.client_info or _default_info()),
            {**answers.capabilities(), **options.capabilities},
        )
        self._options = options
        self._calls = Calls(options, introduction, answers)
        self._listening = Listening(self._calls)
        self._outputs = OutputChecks() if options.validate_output else None

    # What the server is

    @property
    def protocol_version(self) -> str:
        """The revision that is spoken, such as "2026-07-28"."""
        return self._calls.agreement.version

    @property
    def server_info(self) -> Implementation | None:
        """The server's name and version; None if a modern server does not introduce itself."""
        return self._calls.agreement.server_info

    @property
    def capabilities(self) -> ServerCapabilities:
        """What the server can do, as it says."""
        return self._calls.agreement.capabilities

    @property
    def instructions(self) -> str | None:
        """The server's hints for a model on how to use it, if it gives any."""
        return self._calls.agreement.instructions

    @property
    def closed(self) -> bool:
        """True once the connection has ended, for whatever reason."""
        return self.peer.closed is not None

    # Tools

    async def list_tools(self) -> list[Tool]:
        """All tools, in the server's order (MCP 2026-07-28, server/tools)."""
        pages = await _all_pages(self.list_tools_page)
        return [item for page in pages for item in page.tools]

    async def list_tools_page(self, cursor: str | None = None) -> ListToolsResult:
        """One page of tools. `cursor` is the `next_cursor` of the page before."""
        page: ListToolsResult = await self._ask_page("tools/list", cursor)
        if self._outputs is not None:
            self._outputs.learn(page.tools)
        return page

    async def call_tool(
        self,
        name: str,
        arguments: Mapping[str, Any] | None = None,
        *,
        on_progress: OnProgress | None = None,
        timeout: float | None = None,
        max_timeout: float | None = None,
        meta: JSONObject | None = None,
    ) -> CallToolResult:
        """Call a tool, and wait for its result (MCP 2026-07-28, server/tools).

        A tool that fails does not raise: its result says so in `is_error`, and `content` says why.
        Structured content is checked against the tool's output schema if the tool has been
        listed before (`validate_output=False` turns that off).

        Args:
            arguments: By name; JSON values.
            on_progress: Called in this task with each progress notification, in order, all before
                the result. What it raises leaves this call and cancels it.
            timeout: Seconds; each progress notification starts them anew. The time that a person
                takes to answer a question of the tool does not count.
            max_timeout: Seconds that no progress extends, for all attempts together where the
                server asks something first; ten times `timeout` by default.
            meta: Goes into the request's `_meta`.
        """
        if arguments is not None and not isinstance(arguments, Mapping):
            kind = type(arguments).__name__
            raise TypeError(f"arguments must be a mapping of names to JSON values, not {kind}")
        params: JSONObject = {"name": name, "arguments": dict(arguments or {})}
        if meta:
            params["_meta"] = meta
        result: CallToolResult = await self._ask(
            "tools/call",
            params,
            on_progress=on_progress,
            timeout=timeout,
            max_timeout=max_timeout,
        )
        if self._outputs is not None:
            self._outputs.check(name, result)
        return result

    # Resources

    async def list_resources(self) -> list[Resource]:
        """All resources, in the server's order (MCP 2026-07-28, server/resources)."""
        pages = await _all_pages(self.list_resources_page)
        return [item for page in pages for item in page.resources]

    async def list_resources_page(self, cursor: str | None = None) -> ListResourcesResult:
        """One page of resources."""
        page: ListResourcesResult = await self._ask_page("resources/list", cursor)
        return page

    async def list_resource_templates(self) -> list[ResourceTemplate]:
        """All resource templates, in the server's order."""
        pages = await _all_pages(self.list_resource_templates_page)
        return [item for page in pages for item in page.resource_templates]

    async def list_resource_templates_page(
        self, cursor: str | None = None
    ) -> ListResourceTemplatesResult:
        """One page of resource templates."""
        page: ListResourceTemplatesResult = await self._ask_page("resources/templates/list", cursor)
        return page

    async def read_resource(
        self,
        uri: str,
        *,
        on_progress: OnProgress | None = None,
        timeout: float | None = None,
        max_timeout: float | None = None,
    ) -> ReadResourceResult:
        """The contents of a resource; the URI goes to the server as it is.

        Where there is no such resource, the `MCPError` has code -32602, or -32002 from a legacy
        server.
        """
        result: ReadResourceResult = await self._ask(
            "resources/read",
            {"uri": uri},
            on_progress=on_progress,
            timeout=timeout,
            max_timeout=max_timeout,
        )
        return result

    # Prompts and completion

    async def list_prompts(self) -> list[Prompt]:
        """All prompts, in the server's order (MCP 2026-07-28, server/prompts)."""
        pages = await _all_pages(self.list_prompts_page)
        return [item for page in pages for item in page.prompts]

    async def list_prompts_page(self, cursor: str | None = None) -> ListPromptsResult:
        """One page of prompts."""
        page: ListPromptsResult = await self._ask_page("prompts/list", cursor)
        return page

    async def get_prompt(
        self,
        name: str,
        arguments: Mapping[str, str] | None = None,
        *,
        on_progress: OnProgress | None = None,
        timeout: float | None = None,
        max_timeout: float | None = None,
    ) -> GetPromptResult:
        """The messages of a prompt, filled in with the arguments."""
        params: JSONObject = {"name": name}
        if arguments:
            params["arguments"] = dict(arguments)
        result: GetPromptResult = await self._ask(
            "prompts/get",
            params,
            on_progress=on_progress,
            timeout=timeout,
            max_timeout=max_timeout,
        )
        return result

    async def complete(
        self,
        ref: PromptReference | ResourceTemplateReference,
        argument: str,
        value: str,
        *,
        context: Mapping[str, str] | None = None,
        timeout: float | None = None,
    ) -> CompleteResult:
        """Suggestions for an argument of a prompt or a variable of a resource template.

        Args:
            ref: Whose argument it is.
            argument: Its name.
            value: What has been typed of it so far.
            context: The arguments that are settled already (from 2025-06-18).
        """
        params: JSONObject = {
            "ref": unstructure(ref),
            "argument": {"name": argument, "value": value},
        }
        if context:
            params["context"] = {"arguments": dict(context)}
        result: CompleteResult = await self._ask("completion/complete", params, timeout=timeout)
        return result

    # The connection

    async def ping(self, *, timeout: float | None = None) -> None:
        """Ask whether the server is there; in the modern era by a cheap request."""
        method = "server/discover" if self._calls.agreement.modern else "ping"
        await self._calls.request(method, {}, timeout=timeout, fresh=True)

    async def set_log_level(self, level: LoggingLevel) -> None:
        """Ask for log messages of this level or a more severe one.

        Legacy: a request, which a server without the logging capability refuses. Modern: it goes
        with every request from now on, since each asks for its own messages.
        """
        check_log_level(level)
        self._calls.log_level = level
        if self._calls.agreement.modern:
            await trio.lowlevel.checkpoint()
        else:
            await self.request("logging/setLevel", {"level": level})

    async def notify_roots_changed(self) -> None:
        """Say that the roots are not what they were; a modern server asks when it needs them."""
        if METHODS["notifications/roots/list_changed"].may_send("client", self.protocol_version):
            await self.notify("notifications/roots/list_changed")
        else:
            await trio.lowlevel.checkpoint()

    @asynccontextmanager
    async def listen(
        self,
        *,
        tools: bool = False,
        prompts: bool = False,
        resources: bool = False,
        uris: Iterable[str] = (),
    ) -> AsyncIterator[Events]:
        """Hear of changes for the length of a block.

            async with client.listen(tools=True, uris=["file:///notes"]) as events:
                async for event in events: ...

        The events are `ToolsChanged`, `PromptsChanged`, `ResourcesChanged` and
        `ResourceUpdated(uri)`; `events.granted` says which of them the server agreed to send.
        No change after the block was entered is missed, and equal events that nobody has read yet
        are one. The iterator ends when the server ends the subscription.

        Args:
            tools, prompts, resources: Changes of these lists.
            uris: Changes of these resources, and of what is within them.

        Modern: `subscriptions/listen` (MCP 2026-07-28, basic/patterns/subscriptions). Legacy: the
        notifications that the session sends anyway, and `resources/subscribe` for the URIs.
        """
        if isinstance(uris, str):
            raise TypeError(f"uris is a list of URIs, not one: did you mean [{uris!r}]?")
        asked = Granted(tools, prompts, resources, frozenset(uris))
        if self._calls.agreement.modern:
            opening = self._listening.modern(asked, self._connection.nursery, self._options.timeout)
        else:
            opening = self._listening.legacy(asked)
        async with opening as events:
            yield events

    # Below the methods

    async def request(
        self,
        method: str,
        params: JSONObject | None = None,
        *,
        on_progress: OnProgress | None = None,
        timeout: float | None = None,
        max_timeout: float | None = None,
    ) -> JSONObject:
        """Any request, known to the protocol or not; its result as it came.

        In the modern era the `_meta` that every request needs is added, and questions of the
        server are answered, as for the methods above.
        """
        return await self._calls.request(
            method,
            params or {},
            on_progress=on_progress,
            timeout=timeout,
            max_timeout=max_timeout,
        )

    async def exchange(
        self,
        method: str,
        params: JSONObject | None = None,
        *,
        on_progress: ProgressCallback | None = None,
    ) -> JSONObject:
        """One request of any method, and what comes back for it, just as it is.

        Like `request`, but a result that asks for input (MCP 2026-07-28, basic/patterns/mrtr) is
        returned instead of answered, and `on_progress` gets params in wire form. What the params
        say in their `_meta` goes before what this client says of itself.
        """
        return await self._calls.exchange(method, params or {}, on_progress)

    def dressed(self, params: JSONObject) -> JSONObject:
        """The params of a request, with the `_meta` that a modern server needs.

        For requests that are made with `peer`; the other methods add it by themselves.
        """
        return self._calls.dress(params) if self._calls.agreement.modern else params

    async def notify(self, method: str, params: JSONObject | None = None) -> None:
        """Send any notification."""
        await self.peer.notify(method, params)

    async def _ask(self, method: str, params: JSONObject, **how: Any) -> Any:
        """A request of the method table; its result as an instance of its type."""
        result = await self._calls.request(method, params, **how)
        try:
            return structure(result, METHODS[method].result_type())
        except StructureError as error:
            raise ProtocolError(f"the result of {method} is malformed: {error}") from error

    async def _ask_page(self, method: str, cursor: str | None) -> Any:
        """One page of a list. A cursor that is refused makes worthless the pages that led to it."""
        if cursor is None:
            return await self._ask(method, {})
        try:
            return await self._ask(method, {"cursor": cursor})
        except MCPError:
            if self._calls.cache is not None:
                self._calls.cache.forget(method)
            raise

    # What the server sends

    def _opened(self, connection: Link) -> None:
        self._connection = connection
        self.peer = self._calls.peer = connection.peer
        options, nursery = self._options, connection.nursery
        if options.on_log is not None:
            self._on_log = Callback(options.on_log, "on_log", nursery)
        if options.on_notification is not None:
            self._on_notification = Callback(options.on_notification, "on_notification", nursery)
        nursery.start_soon(self._watch_end)

    async def _agree(self) -> None:
        options = self._options
        handshake = Handshake(
            self.peer,
            self._calls.introduction,
            offers_of(options.mode),
            options.probe_timeout,
        )
        with trio.move_on_after(options.connect_timeout) as scope:
            try:
                self._calls.agreement = await handshake.run()
            except ConnectionClosed as exc:
                if exc.exit_status != 0:
                    raise
                hint = "before it answered: is it a server (with Server.run at its end)?"
                raise ConnectionClosed(f"{exc.reason} {hint}", 0, exc.stderr_tail) from None
            # A modern server makes no requests, and no client may answer any there
            # (MCP 2026-07-28, basic/transports/stdio, "Sending Messages").
            self.peer.requests_allowed = not self._calls.agreement.modern
            await self._ask_for_logs()
        if scope.cancelled_caught:
            raise RequestTimeout("connecting", options.connect_timeout)

    async def _ask_for_logs(self) -> None:
        """Set the log level of a legacy server; a modern one is told with each request."""
        level = self._calls.log_level
        if level is None or self._calls.agreement.modern or self.capabilities.logging is None:
            return
        try:
            await self.peer.request("logging/setLevel", {"level": level})
        except MCPError as error:  # no reason to do without the server
            logger.warning("the server does not set its log level: %s", error)

    async def _watch_end(self) -> None:
        """Tell those who wait for no answer of the server that none of it will come."""
        closed = await self.peer.wait_closed()
        self._calls.closed()
        self._listening.closed(closed)

    def _restore_soon(self) -> None:
        """A new session has taken the place of one that expired: it knows nothing yet."""
        self._connection.nursery.start_soon(self._restore)

    async def _restore(self) -> None:
        try:
            await self._ask_for_logs()
            await self._listening.restore()
        except Exception as error:  # a hook of the user's httpx client may raise anything
            logger.warning("the new session is not all that the expired one was: %s", error)

    def _notified(self, notification: Notification) -> None:
        """Called by the reader: must not wait."""
        method, params = notification.method, notification.params or {}
        if self._calls.cache is not None:
            self._calls.cache.notified(method, params)
        event = self._listening.notified(method, params)
        if isinstance(event, ToolsChanged) and self._outputs is not None:
            self._outputs.forget()
        if method == "notifications/message" and self._on_log is not None:
            self._logged(self._on_log, params)
        if self._on_notification is not None:
            self._on_notification(notification)

    def _logged(
        self, on_log: Callback[LoggingMessageNotificationParams], params: JSONObject
    ) -> None:
        try:
            message = structure(params, LoggingMessageNotificationParams)
        except StructureError as error:
            logger.warning("skipped a malformed log message: %s", error)
        else:
            on_log(message)

    async def _handle(self, incoming: IncomingRequest) -> JSONObject:
        if self._options.on_request is not None:
            return await self._options.on_request(incoming)
        return await self._calls.answer(incoming)


async def _all_pages(get_page: Callable[[str | None], Awaitable[Page]]) -> list[Page]:
    """All pages of a list. Any cursor leads on, the empty string too."""
    pages = [await get_page(None)]
    seen: set[str] = set()
    while (cursor := pages[-1].next_cursor) is not None:
        if cursor in seen:
            raise ProtocolError(f"the pages go round in circles: cursor {cursor!r} came again")
        seen.add(cursor)
        pages.append(await get_page(cursor))
    return pages


def _modes(declared: JSONObject) -> Collection[str]:
    """The modes of elicitation that capabilities amount to; an empty object means forms."""
    if "elicitation" not in declared:
        return ("form", "url")
    return declared["elicitation"] or ("form",)


def _default_info() -> Implementation:
    return Implementation("mcp-trio", importlib.metadata.version("mcp-trio"))


@asynccontextmanager
async def open_client(
    target: Target,
    *,
    mode: str = "auto",
    on_elicit: OnElicit | None = None,
    on_sample: OnSample | None = None,
    on_list_roots: OnListRoots | None = None,
    on_log: Callable[[LoggingMessageNotificationParams], object] | None = None,
    on_notification: Callable[[Notification], object] | None = None,
    on_request: Handler | None = None,
    on_stderr: Callable[[str], object] | None = None,
    on_noise: Callable[[bytes, str], object] | None = None,
    log_level: LoggingLevel | None = None,
    client_info: Implementation | None = None,
    capabilities: JSONObject | None = None,
    timeout: float | None = None,
    max_timeout: float | None = None,
    connect_timeout: float = CONNECT_TIMEOUT,
    probe_timeout: float = PROBE_TIMEOUT,
    max_rounds: int = 10,
    round_backoff: float = 0.1,
    validate_output: bool = True,
    cache: bool = False,
    line_limit: int = CLIENT_LINE_LIMIT,
    max_in_flight: int = 1000,
    http: "httpx.AsyncClient | None" = None,
    headers: Mapping[str, str] | None = None,
    send_timeout: float = SEND_TIMEOUT,
) -> AsyncIterator[Client]:
    """Connect to a server, agree on a revision with it, and be its client for a block.

    Leaving the block closes the connection; a child process is ended, with all its descendants
    (see `mcp_trio.transports.process` for how). Cancellation works at every moment, connecting
    included, and leaves nothing behind. What the body raises leaves the block as it is, and the
    end of the connection does not cancel the body: its next call raises `ConnectionClosed`.

    Args:
        target: What to connect to: a list of argv or `StdioParameters`, for a server that is
            started; an http or https URL; a `trio.abc.Stream` to one that runs; a `Server` in this
            process.
        mode: "auto" finds out which era the server belongs to; "modern" and "legacy" insist on
            one; a revision such as "2025-06-18" offers only that one.
        on_elicit: Asks the user; gets `ElicitRequestFormParams` or `ElicitRequestURLParams`, and
            returns an `ElicitResult`, the form's values as a dict (that means "accept"), or None
            (that means "cancel"). Defaults of the form are filled in. What it raises leaves the
            call that led to the question.
        on_sample: Asks the model; gets `CreateMessageRequestParams`, and returns a
            `CreateMessageResult` or a text.
        on_list_roots: Returns `Root` objects or URIs; gets the parameters of the request.
        on_log: Gets log messages of the server.
        on_notification: Gets every notification, as it came, except progress and cancellations.
        on_request: Answers every request of a legacy server by itself, in place of the three
            callbacks above: gets the `IncomingRequest`, returns a result in wire form or raises
            `MCPError`. `capabilities` has to say what it can answer.
        on_stderr: Gets each line that a started server writes to stderr.
        on_noise: Gets whatever line made no sense, and the reason. Logged if not given.
        log_level: The least severe level for `on_log`; "info" if there is an `on_log`.
        client_info: The client's name and version.
        capabilities: Capabilities to declare besides those that the callbacks amount to, in wire
            form; they replace those of the same name.
        timeout, max_timeout: For every request that does not give its own, in seconds.
        connect_timeout: Seconds for the whole handshake; `math.inf` for no limit.
        probe_timeout: Seconds without an answer to the first probe (`server/discover`) after
            which a server counts as legacy, in mode "auto".
        max_rounds: How often a modern server may ask before it has to give its result.
        round_backoff: Seconds before repeating a request whose result asked for nothing but to
            be repeated; doubles each time, up to 5.
        validate_output: Check structured content against the schemas of tools that were listed.
        cache: Keep results for as long as the server allows (MCP 2026-07-28,
            server/utilities/caching).
        line_limit: The most bytes that one message may have.
        max_in_flight: How many requests of the server may be open at once.
        http: For URLs: the httpx client to use, with its proxies, certificates, authentication and
            hooks. It stays open. Its timeouts do not count, nor does it follow redirects.
        headers: For URLs: headers of each request.
        send_timeout: For URLs: seconds for each of getting a free connection of the pool,
            connecting, and sending. Waiting for an answer has no limit but a call's `timeout`.

    Over HTTP each request is an exchange of its own: where one fails, its call raises
    `TransportError`, and the next one tries again.

    Callbacks may be plain or coroutine functions. `on_log`, `on_notification`, `on_stderr` and
    `on_noise` must not block: a plain one is called by the task that reads, a coroutine one runs in
    a task of its own, which loses the oldest of what it is too slow for.

    Raises:
        FileNotFoundError, NotADirectoryError, PermissionError: The command cannot be started.
        ConnectionClosed: The server went away before it was connected; a child's exit status and
            last words are in it.
        RequestTimeout: The handshake took longer than `connect_timeout`.
        UnsupportedProtocolVersion: There is no revision in common.
        MCPError: The server refused.
        TransportError: The server cannot be reached over HTTP, or answers what is no MCP.
        AuthorizationRequired: It wants to know who asks; a `TransportError`.
        ProtocolError: The server answered what cannot be read.
        TypeError, ValueError: A parameter that makes no sense; nothing is started.
    """
    options = ClientOptions(
        mode=mode,
        on_elicit=on_elicit,
        on_sample=on_sample,
        on_list_roots=on_list_roots,
        on_log=on_log,
        on_notification=on_notification,
        on_request=on_request,
        log_level=log_level,
        client_info=client_info,
        capabilities=capabilities or {},
        timeout=timeout,
        max_timeout=max_timeout,
        connect_timeout=connect_timeout,
        probe_timeout=probe_timeout,
        max_rounds=max_rounds,
        round_backoff=round_backoff,
        validate_output=validate_output,
        cache=cache,
    )
    client = Client(options)
    async with open_private_nursery() as nursery:
        strays = _callback(on_noise, "on_noise", nursery)
        stderr = _callback(on_stderr, "on_stderr", nursery)
        async with (
            open_target(
                target,
                line_limit=line_limit,
                on_stderr=stderr,
                http=http,
                headers=headers,
                send_timeout=send_timeout,
            ) as opened,
            opened.connect(
                client._restore_soon,
                handle=client._handle,
                on_notification=client._notified,
                on_stray=strays,
                max_in_flight=max_in_flight,
            ) as connection,
        ):
            client._opened(connection)
            await client._agree()
            opened.established()
            yield client


def _callback(
    function: Callable[[*Ts], object] | None, name: str, nursery: trio.Nursery
) -> Callback[*Ts] | None:
    return None if function is None else Callback(function, name, nursery)
