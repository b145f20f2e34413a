"""What a client has to do with the server behind: the part that is the same for all clients."""

import logging
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Mapping
from typing import TypeAlias

import trio

from mcp_trio.client.client import Client
from mcp_trio.exceptions import MCPError
from mcp_trio.incoming import IncomingRequest
from mcp_trio.protocol import meta as keys
from mcp_trio.protocol.convert import unstructure
from mcp_trio.protocol.fit import fit_tool_result
from mcp_trio.protocol.revisions import is_modern
from mcp_trio.protocol.wrapping import is_object_schema
from mcp_trio.proxy.calls import FAILURES, OpenCall, OpenCalls
from mcp_trio.proxy.eras import server_capabilities
from mcp_trio.proxy.upstream import Open, Upstream, answer_for
from mcp_trio.server.context import Context
from mcp_trio.wire.jsonrpc import MISSING, JSONObject, Notification

#: Answers one method otherwise than by passing it on.
Special: TypeAlias = Callable[[Context, JSONObject], Awaitable[JSONObject]]

logger = logging.getLogger("mcp_trio")

#: Seconds that a server has for setting its log level when it is opened.
SETTING_TIME = 5.0
#: Schemas of tools that are kept, of tools whose output has to be wrapped for legacy clients.
MOST_SCHEMAS = 10_000


class Link(ABC):
    """One server behind, and one client or many.

    Attributes:
        upstream: The server.
        calls: What is being passed on to it.
        specials: The methods that are not just passed on, by name.
    """

    upstream: Upstream
    specials: Mapping[str, Special]

    def __init__(self, nursery: trio.Nursery) -> None:
        self.nursery = nursery
        self.calls = OpenCalls()
        self._schemas: dict[str, JSONObject] = {}

    async def answer(self, ctx: Context, params: JSONObject) -> JSONObject:
        """Answer a request of a client.

        Raises:
            MCPError: The answer is this error.
        """
        special = self.specials.get(ctx.method)
        if special is not None:
            return await special(ctx, params)
        return await self.pass_on(ctx, params)

    async def pass_on(self, ctx: Context, params: JSONObject) -> JSONObject:
        """Send a request on and give its result, as the client's era has it."""
        client = await self.upstream.connected()
        result = await self.exchange(ctx, params, client)
        return self.translated(ctx, params, result, client)

    async def exchange(self, ctx: Context, params: JSONObject, client: Client) -> JSONObject:
        """Send a request on, just once, and give what comes back."""
        call = OpenCall(ctx, self.nursery)
        with self.calls.open(call):
            return await call.exchange(client, params)

    def translated(
        self, ctx: Context, params: JSONObject, result: JSONObject, client: Client
    ) -> JSONObject:
        """A result as the client's era has it; fitting it to the revision comes after this."""
        if ctx.info.modern == is_modern(client.protocol_version):
            return result
        if ctx.info.modern:
            return stamped(result, client)
        if ctx.method == "tools/list":
            self._learn(result)
        elif ctx.method == "tools/call" and (schema := self._schemas.get(params.get("name", ""))):
            return fit_tool_result(result, ctx.protocol_version, schema)
        return result

    def _learn(self, listed: JSONObject) -> None:
        """Remember the schemas that legacy clients see wrapped: so must be what they describe."""
        for tool in listed.get("tools", ()):
            schema = tool.get("outputSchema")
            if schema is None or is_object_schema(schema):
                self._schemas.pop(tool.get("name"), None)
            elif len(self._schemas) < MOST_SCHEMAS:
                self._schemas[tool["name"]] = schema

    async def ping(self, client: Client) -> None:
        """See whether the server is there."""
        try:
            await client.ping()
        except FAILURES as failure:
            raise answer_for(failure) from failure

    def introduce(self, ctx: Context, client: Client) -> JSONObject:
        """What the server says of itself, for `initialize` and for `server/discover`."""
        declared: JSONObject = unstructure(client.capabilities)
        result: JSONObject = {
            "capabilities": server_capabilities(
                declared, client.protocol_version, ctx.protocol_version
            )
        }
        if client.instructions is not None:
            result["instructions"] = client.instructions
        return result

    # What the server sends of itself

    @abstractmethod
    async def asked(self, incoming: IncomingRequest) -> JSONObject:
        """Answer a request of a legacy server."""

    @abstractmethod
    def told(self, notification: Notification) -> None:
        """Take a notification of the server; must not wait."""

    def open_upstream(self, open_client: Open) -> None:
        """Set what the server is opened with."""
        self.upstream = Upstream(open_client, self.attend, is_missed=self.is_missed)

    def is_missed(self) -> bool:
        """Whether somebody waits for what a server says of itself."""
        return False

    @abstractmethod
    async def attend(
        self,
        client: Client,
        *,
        task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED,
    ) -> None:
        """What there is to do as long as one connection to the server lasts; does not raise."""


async def set_log_level(client: Client, level: str | None) -> None:
    """Have a legacy server send log messages of this level, if it sends any, and do without it."""
    if level is None or is_modern(client.protocol_version) or client.capabilities.logging is None:
        return
    try:
        with trio.move_on_after(SETTING_TIME):
            await client.set_log_level(level)  # type: ignore[arg-type]  # it was checked before
    except (MCPError, *FAILURES) as exc:
        logger.warning("the server behind the proxy does not set its log level: %s", exc)


def server_info(client: Client) -> JSONObject | None:
    """Who the server says that it is, in wire form."""
    info: JSONObject | None = unstructure(client.server_info)
    return info


def stamped(result: JSONObject, client: Client) -> JSONObject:
    """A result of a legacy server with what every modern one says of its server."""
    info = server_info(client)
    if info is None:
        return result
    return {**result, "_meta": {keys.SERVER_INFO: info, **(result.get("_meta") or {})}}


def without_token(params: JSONObject) -> JSONObject:
    """The params of a request without the progress token, which is one of its sender's own."""
    meta = params.get("_meta")
    if not isinstance(meta, dict) or keys.PROGRESS_TOKEN not in meta:
        return params
    rest = {name: value for name, value in meta.items() if name != keys.PROGRESS_TOKEN}
    if rest:
        return {**params, "_meta": rest}
    return {name: value for name, value in params.items() if name != "_meta"}


def subscription_of(params: JSONObject | None) -> object:
    """The subscription that a notification names; `MISSING` if it names none."""
    meta = (params or {}).get("_meta")
    return meta.get(keys.SUBSCRIPTION_ID, MISSING) if isinstance(meta, dict) else MISSING
