"""The client: one object for servers of both eras, on any stream.

    async with mcp_trio.open_client(["my-server"]) as client:
        result = await client.call_tool("add", {"a": 1, "b": 2})

Every method of `Client` may be called from any task while the block is open. A method that asks
the server raises

- `MCPError` if the server answers with an error,
- `ConnectionClosed` if the connection ends or has ended, with the reason, and for a child process
  with its exit status and the last lines of its stderr,
- `RequestTimeout` if a `timeout` was given and ran out,
- `ProtocolError` if the server's answer breaks the protocol,

and cancelling it cancels the request at the server too.
"""

import importlib.metadata
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping
from contextlib import asynccontextmanager
from typing import Any, TypeVar

import attrs
import trio

from mcp_trio.client.cache import ResultCache
from mcp_trio.client.events import Events, Granted, read_event
from mcp_trio.client.handshake import Agreement, Handshake, Introduction, offers_of
from mcp_trio.client.notices import Callback
from mcp_trio.client.questions import Answers, OnElicit, OnListRoots, OnSample
from mcp_trio.client.rounds import ask_in_rounds
from mcp_trio.client.targets import Target, open_target
from mcp_trio.connection import Connection, open_connection
from mcp_trio.exceptions import ConnectionClosed, MCPError, ProtocolError, RequestTimeout
from mcp_trio.peer import Call, IncomingRequest, Peer
from mcp_trio.protocol import meta as keys
from mcp_trio.protocol.convert import StructureError, structure, unstructure
from mcp_trio.protocol.errors import (
    INTERNAL_ERROR,
    METHOD_NOT_FOUND,
    UNSUPPORTED_VERSION,
    UnsupportedProtocolVersion,
)
from mcp_trio.protocol.json_schema import Validator, compile_schema
from mcp_trio.protocol.methods import METHODS
from mcp_trio.protocol.negotiation import Retry, read_refusal
from mcp_trio.protocol.types.base import LOGGING_LEVELS, CacheablePage, Implementation, LoggingLevel
from mcp_trio.protocol.types.capabilities import (
    PromptsCapability,
    ResourcesCapability,
    ServerCapabilities,
    ToolsCapability,
)
from mcp_trio.protocol.types.completion import (
    CompleteResult,
    PromptReference,
    ResourceTemplateReference,
)
from mcp_trio.protocol.types.notifications import (
    LoggingMessageNotificationParams,
    ProgressNotificationParams,
)
from mcp_trio.protocol.types.prompts import GetPromptResult, ListPromptsResult, Prompt
from mcp_trio.protocol.types.resources import (
    ListResourcesResult,
    ListResourceTemplatesResult,
    ReadResourceResult,
    Resource,
    ResourceTemplate,
)
from mcp_trio.protocol.types.tools import CallToolResult, ListToolsResult, Tool
from mcp_trio.wire.jsonrpc import MISSING, JSONObject, Notification
from mcp_trio.wire.ndjson import CLIENT_LINE_LIMIT

logger = logging.getLogger("mcp_trio")
Page = TypeVar("Page", bound=CacheablePage)

#: Seconds for connecting and negotiating, unless told otherwise.
CONNECT_TIMEOUT = 30.0
#: Seconds without an answer to `server/discover` after which a server counts as legacy.
PROBE_TIMEOUT = 5.0

#: Gets each progress notification of a call; may be a coroutine function.
OnProgress = Callable[[ProgressNotificationParams], object]


@attrs.frozen(kw_only=True)
class ClientOptions:
    """How a client behaves; the parameters of `open_client`, which explains them."""

    mode: str = "auto"
    on_elicit: OnElicit | None = None
    on_sample: OnSample | None = None
    on_list_roots: OnListRoots | None = None
    on_log: Callable[[LoggingMessageNotificationParams], object] | None = None
    on_notification: Callable[[Notification], object] | None = None
    log_level: LoggingLevel | None = None
    client_info: Implementation | None = None
    capabilities: JSONObject = attrs.field(factory=dict)
    timeout: float | None = None
    max_timeout: float | None = None
    connect_timeout: float = CONNECT_TIMEOUT
    probe_timeout: float = PROBE_TIMEOUT
    max_rounds: int = 10
    round_backoff: float = 0.1
    validate_output: bool = True
    cache: bool = False


class Client:
    """A connection to a server, made by `open_client`.

    Attributes:
        peer: The layer below: requests and notifications as they are.
    """

    peer: Peer
    _connection: Connection
    _agreement: Agreement

    def __init__(self, options: ClientOptions) -> None:
        self._options = options
        self._answers = Answers(options.on_elicit, options.on_sample, options.on_list_roots)
        self._introduction = Introduction(
            unstructure(options.client_info or _default_info()),
            {**self._answers.capabilities(), **options.capabilities},
        )
        log_level = options.log_level or ("info" if options.on_log is not None else None)
        self._log_level: LoggingLevel | None = log_level
        self._cache = ResultCache() if options.cache else None
        self._schemas: dict[str, JSONObject | None] = {}
        self._validators: dict[str, Validator | None] = {}
        self._subscriptions: dict[Any, Events] = {}
        self._subscribed: dict[str, int] = {}
        self._askable: list[_Askable] = []

    # What the server is

    @property
    def protocol_version(self) -> str:
        """The revision that is spoken, such as "2026-07-28"."""
        return self._agreement.version

    @property
    def server_info(self) -> Implementation | None:
        """The server's name and version; None if a modern server does not introduce itself."""
        return self._agreement.server_info

    @property
    def capabilities(self) -> ServerCapabilities:
        """What the server can do, as it says."""
        return self._agreement.capabilities

    @property
    def instructions(self) -> str | None:
        """The server's hints for a model on how to use it, if it gives any."""
        return self._agreement.instructions

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
        page: ListToolsResult = await self._ask("tools/list", _cursor(cursor))
        if self._options.validate_output:
            for tool in page.tools:
                self._validators.pop(tool.name, None)
                self._schemas[tool.name] = tool.output_schema
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
            max_timeout: Seconds that no progress extends; ten times `timeout` by default.
            meta: Goes into the request's `_meta`.
        """
        params: JSONObject = {"name": name, "arguments": dict(arguments or {})}
        result: CallToolResult = await self._ask(
            "tools/call",
            params,
            on_progress=on_progress,
            timeout=timeout,
            max_timeout=max_timeout,
            meta=meta,
        )
        self._check_output(name, result)
        return result

    # Resources

    async def list_resources(self) -> list[Resource]:
        """All resources, in the server's order (MCP 2026-07-28, server/resources)."""
        pages = await _all_pages(self.list_resources_page)
        return [item for page in pages for item in page.resources]

    async def list_resources_page(self, cursor: str | None = None) -> ListResourcesResult:
        """One page of resources."""
        page: ListResourcesResult = await self._ask("resources/list", _cursor(cursor))
        return page

    async def list_resource_templates(self) -> list[ResourceTemplate]:
        """All resource templates, in the server's order."""
        pages = await _all_pages(self.list_resource_templates_page)
        return [item for page in pages for item in page.resource_templates]

    async def list_resource_templates_page(
        self, cursor: str | None = None
    ) -> ListResourceTemplatesResult:
        """One page of resource templates."""
        page: ListResourceTemplatesResult = await self._ask(
            "resources/templates/list", _cursor(cursor)
        )
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
        page: ListPromptsResult = await self._ask("prompts/list", _cursor(cursor))
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
        await self.request("server/discover" if self._agreement.modern else "ping", timeout=timeout)

    async def set_log_level(self, level: LoggingLevel) -> None:
        """Ask for log messages of this level or a more severe one.

        Legacy: a request, which a server without the logging capability refuses. Modern: it goes
        with every request from now on, since each asks for its own messages.
        """
        if level not in LOGGING_LEVELS:
            raise ValueError(f"{level!r} is no log level; one of {', '.join(LOGGING_LEVELS)}")
        self._log_level = level
        if self._agreement.modern:
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
            uris: Changes of these resources.

        Modern: `subscriptions/listen` (MCP 2026-07-28, basic/patterns/subscriptions). Legacy: the
        notifications that the session sends anyway, and `resources/subscribe` for the URIs.
        """
        asked = Granted(tools, prompts, resources, frozenset(uris))
        opening = self._listen_modern if self._agreement.modern else self._listen_legacy
        async with opening(asked) as events:
            yield events

    @asynccontextmanager
    async def _listen_modern(self, asked: Granted) -> AsyncIterator[Events]:
        events = Events(asked)
        params = self._dress({"notifications": asked.to_filter()})
        waiting = trio.CancelScope()

        async def wait_end(call: Call) -> None:
            with waiting:  # the answer to this request is the end of the subscription
                try:
                    await call.result()
                except (MCPError, ProtocolError, ConnectionClosed) as error:
                    events.end(error)
                else:
                    events.end()

        with self.peer.call("subscriptions/listen", params, endable=True) as call:
            self._subscriptions[call.id] = events
            try:
                await call.send()
                self._connection.nursery.start_soon(wait_end, call)
                await events.acknowledged()
                yield events
            finally:
                waiting.cancel()
                del self._subscriptions[call.id]

    @asynccontextmanager
    async def _listen_legacy(self, asked: Granted) -> AsyncIterator[Events]:
        events = Events(self._grantable(asked))
        key = object()
        self._subscriptions[key] = events
        held: list[str] = []
        try:
            for uri in sorted(events.granted.uris):
                held.append(uri)
                self._subscribed[uri] = self._subscribed.get(uri, 0) + 1
                if self._subscribed[uri] == 1:
                    await self.request("resources/subscribe", {"uri": uri})
            if not held:
                await trio.lowlevel.checkpoint()
            yield events
        finally:
            del self._subscriptions[key]
            for uri in held:
                self._subscribed[uri] -= 1
                if not self._subscribed[uri]:
                    del self._subscribed[uri]
                    self.peer.post("resources/unsubscribe", {"uri": uri})

    def _grantable(self, asked: Granted) -> Granted:
        """What a legacy server tells of, by its capabilities."""
        can = self.capabilities
        return Granted(
            asked.tools and _tells(can.tools),
            asked.prompts and _tells(can.prompts),
            asked.resources and _tells(can.resources),
            asked.uris if can.resources is not None and can.resources.subscribe else frozenset(),
        )

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
        if self._cache is not None and method in METHODS:
            kept = self._cache.get(method, params or {})
            if kept is not None:
                await trio.lowlevel.checkpoint()
                return kept
        result = await self._attempt(
            method,
            params or {},
            on_progress=None if on_progress is None else _progress_reader(on_progress),
            timeout=self._options.timeout if timeout is None else timeout,
            max_timeout=self._options.max_timeout if max_timeout is None else max_timeout,
        )
        if self._cache is not None and self._agreement.modern and method in METHODS:
            self._cache.put(method, params or {}, result)
        return result

    async def notify(self, method: str, params: JSONObject | None = None) -> None:
        """Send any notification."""
        await self.peer.notify(method, params)

    async def _ask(
        self, method: str, params: JSONObject, *, meta: JSONObject | None = None, **how: Any
    ) -> Any:
        """A request of the method table; its result as an instance of its type."""
        if meta:
            params = {**params, "_meta": meta}
        result = await self.request(method, params, **how)
        try:
            return structure(result, METHODS[method].result_type())
        except StructureError as error:
            raise ProtocolError(f"the result of {method} is malformed: {error}") from error

    async def _attempt(self, method: str, params: JSONObject, **how: Any) -> JSONObject:
        if not self._agreement.modern:
            return await self._send_legacy(method, params, how)

        async def send(attempt: JSONObject) -> JSONObject:
            return await self._send_modern(method, attempt, how)

        return await ask_in_rounds(
            send,
            method,
            params,
            self._answers,
            max_rounds=self._options.max_rounds,
            backoff=self._options.round_backoff,
        )

    async def _send_legacy(
        self, method: str, params: JSONObject, how: dict[str, Any]
    ) -> JSONObject:
        if method not in METHODS or not METHODS[method].may_ask:
            return await self.peer.request(method, params, **how)
        askable = _Askable()
        self._askable.append(askable)
        try:
            with askable.scope:
                return await self.peer.request(method, params, **how)
        finally:
            self._askable.remove(askable)
        assert askable.failure is not None
        raise askable.failure

    async def _send_modern(
        self, method: str, params: JSONObject, how: dict[str, Any]
    ) -> JSONObject:
        """One request, once more in another version if the server does not speak this one."""
        try:
            return await self.peer.request(method, self._dress(params), **how)
        except MCPError as error:
            if error.code != UNSUPPORTED_VERSION:
                raise
            version = self._version_after(error)
        self._agreement = attrs.evolve(self._agreement, version=version)
        return await self.peer.request(method, self._dress(params), **how)

    def _version_after(self, error: MCPError) -> str:
        offers = offers_of(self._options.mode)
        match read_refusal(error, requested=self.protocol_version, offers=offers, retried=False):
            case Retry(version):
                return version
        raise UnsupportedProtocolVersion(self.protocol_version, (), error.message) from error

    def _dress(self, params: JSONObject) -> JSONObject:
        """Add what a modern server needs to know of us."""
        meta = self._introduction.meta(self.protocol_version)
        if self._log_level is not None:
            meta[keys.LOG_LEVEL] = self._log_level
        meta.update(params.get("_meta") or {})
        return {**params, "_meta": meta}

    def _validator(self, name: str) -> Validator | None:
        """What checks the output of a tool; None if it is unknown, or its schema is unusable."""
        if name not in self._validators:
            schema = self._schemas.get(name)
            try:
                self._validators[name] = None if schema is None else compile_schema(schema)
            except ValueError as error:
                logger.warning("the output schema of tool %r is not used: %s", name, error)
                self._validators[name] = None
        return self._validators[name]

    def _check_output(self, name: str, result: CallToolResult) -> None:
        validator = self._validator(name)
        if validator is None or result.is_error:
            return
        if result.structured_content is MISSING:
            raise ProtocolError(
                f"tool {name!r} has an output schema but returned no structured content"
            )
        violations = validator.violations(result.structured_content)
        if violations:
            text = "; ".join(map(str, violations))
            raise ProtocolError(f"tool {name!r} broke its own output schema: {text}")

    # What the server sends

    def _opened(self, connection: Connection) -> None:
        self._connection = connection
        self.peer = connection.peer
        options, nursery = self._options, connection.nursery
        self._on_log = options.on_log and Callback(options.on_log, "on_log", nursery)
        self._on_notification = options.on_notification and Callback(
            options.on_notification, "on_notification", nursery
        )

    async def _agree(self) -> None:
        options = self._options
        handshake = Handshake(
            self.peer, self._introduction, offers_of(options.mode), options.probe_timeout
        )
        with trio.move_on_after(options.connect_timeout) as scope:
            self._agreement = await handshake.run()
            if (
                self._log_level is not None
                and not self._agreement.modern
                and self.capabilities.logging is not None
            ):
                await self.peer.request("logging/setLevel", {"level": self._log_level})
        if scope.cancelled_caught:
            raise RequestTimeout("connecting", options.connect_timeout)

    def _notified(self, notification: Notification) -> None:
        """Called by the reader: must not wait, and what it raises is logged."""
        method, params = notification.method, notification.params or {}
        if self._cache is not None:
            self._cache.forget(method, params)
        if method == "notifications/message":
            self._logged(params)
        elif method == "notifications/subscriptions/acknowledged":
            events = self._subscriptions.get(_subscription_id(params))
            if events is not None:
                events.acknowledge(Granted.from_filter(params.get("notifications") or {}))
        elif (event := read_event(method, params)) is not None:
            if method == "notifications/tools/list_changed":
                self._schemas.clear()
                self._validators.clear()
            # A modern notification names its subscription; any other is for all of them.
            named = self._subscriptions.get(_subscription_id(params))
            for events in self._subscriptions.values() if named is None else (named,):
                events.put(event)
        if self._on_notification is not None:
            self._on_notification(notification)

    def _logged(self, params: JSONObject) -> None:
        if self._on_log is not None:
            self._on_log(structure(params, LoggingMessageNotificationParams))

    async def _handle(self, incoming: IncomingRequest) -> JSONObject:
        """Answer a request of a legacy server."""
        if incoming.method == "ping":
            return {}
        method = METHODS.get(incoming.method)
        if method is None or not method.server:
            raise MCPError(METHOD_NOT_FOUND, f"This client does not know {incoming.method!r}.")
        with self.peer.person_answering():
            try:
                return await self._answers.answer(incoming.method, incoming.params)
            except MCPError:
                raise
            except Exception as exc:
                if len(self._askable) == 1:
                    self._askable[0].fail(exc)
                raise MCPError(INTERNAL_ERROR, f"The client failed to answer: {exc}") from exc


@attrs.define(eq=False)
class _Askable:
    """A legacy call during which the server may ask something.

    What a callback such as `on_elicit` raises belongs to the call that led to the question. In
    the modern era it is raised there by itself. A legacy question does not say which call it is
    for; where there is only one, it is that one, and `failure` leaves it in place of its result.
    """

    scope: trio.CancelScope = attrs.field(factory=trio.CancelScope)
    failure: Exception | None = None

    def fail(self, failure: Exception) -> None:
        self.failure = failure
        self.scope.cancel()


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


def _tells(
    capability: ToolsCapability | PromptsCapability | ResourcesCapability | None,
) -> bool:
    return capability is not None and capability.list_changed is True


def _progress_reader(on_progress: OnProgress) -> Callable[[JSONObject], object]:
    def read(params: JSONObject) -> object:
        return on_progress(structure(params, ProgressNotificationParams))

    return read


def _cursor(cursor: str | None) -> JSONObject:
    return {} if cursor is None else {"cursor": cursor}


def _subscription_id(params: JSONObject) -> Any:
    meta = params.get("_meta")
    id = meta.get(keys.SUBSCRIPTION_ID) if isinstance(meta, dict) else None
    return id if isinstance(id, str | int) else None


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
) -> AsyncIterator[Client]:
    """Connect to a server, agree on a revision with it, and be its client for a block.

    Leaving the block closes the connection; a child process is ended, with all its descendants
    (see `mcp_trio.transports.process` for how). Cancellation works at every moment, connecting
    included, and leaves nothing behind. What the body raises leaves the block as it is, and the
    end of the connection does not cancel the body: its next call raises `ConnectionClosed`.

    Args:
        target: What to connect to: a list of argv or `StdioParameters`, for a server that is
            started; a `trio.abc.Stream` to one that runs; a `Server` in this process.
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
        on_stderr: Gets each line that a started server writes to stderr.
        on_noise: Gets whatever line made no sense, and the reason. Logged if not given.
        log_level: The least severe level for `on_log`; "info" if there is an `on_log`.
        client_info: The client's name and version.
        capabilities: Capabilities to declare besides those that the callbacks amount to, in wire
            form; they replace those of the same name.
        timeout, max_timeout: For every request that does not give its own, in seconds.
        connect_timeout: Seconds for the whole handshake.
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

    Callbacks may be plain or coroutine functions. `on_log` and `on_notification` must not block:
    a plain one is called by the task that reads, a coroutine one runs in a task of its own, which
    loses the oldest of what it is too slow for.

    Raises:
        FileNotFoundError, NotADirectoryError, PermissionError: The command cannot be started.
        ConnectionClosed: The server went away before it was connected; a child's exit status and
            last words are in it.
        RequestTimeout: The handshake took longer than `connect_timeout`.
        UnsupportedProtocolVersion: There is no revision in common.
        MCPError: The server refused.
        ProtocolError: The server answered what cannot be read.
    """
    offers_of(mode)  # complains before anything is started
    options = ClientOptions(
        mode=mode,
        on_elicit=on_elicit,
        on_sample=on_sample,
        on_list_roots=on_list_roots,
        on_log=on_log,
        on_notification=on_notification,
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
    async with (
        open_target(target, line_limit=line_limit, on_stderr=on_stderr) as opened,
        open_connection(
            opened.stream,
            handle=client._handle,
            on_notification=client._notified,
            on_stray=on_noise,
            max_in_flight=max_in_flight,
        ) as connection,
    ):
        client._opened(connection)
        await client._agree()
        opened.established()
        yield client
