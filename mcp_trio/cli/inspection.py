"""Everything that a server says it has."""

from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar

import attrs

from mcp_trio.client.client import Client
from mcp_trio.exceptions import MCPError
from mcp_trio.protocol.convert import unstructure
from mcp_trio.protocol.errors import METHOD_NOT_FOUND
from mcp_trio.protocol.types import (
    Implementation,
    Prompt,
    Resource,
    ResourceTemplate,
    ServerCapabilities,
    Tool,
)
from mcp_trio.wire.jsonrpc import JSONObject

T = TypeVar("T")


@attrs.frozen(kw_only=True)
class Inspection:
    """A server's introduction and its lists."""

    protocol_version: str
    server_info: Implementation | None
    capabilities: ServerCapabilities
    instructions: str | None
    tools: Sequence[Tool]
    resources: Sequence[Resource]
    templates: Sequence[ResourceTemplate]
    prompts: Sequence[Prompt]

    def to_wire(self) -> JSONObject:
        """As `inspect --json` prints it, with the names that the protocol has for everything."""
        return {
            "protocolVersion": self.protocol_version,
            "serverInfo": unstructure(self.server_info),
            "capabilities": unstructure(self.capabilities),
            "instructions": self.instructions,
            "tools": unstructure(self.tools),
            "resources": unstructure(self.resources),
            "resourceTemplates": unstructure(self.templates),
            "prompts": unstructure(self.prompts),
        }


async def inspect_server(client: Client) -> Inspection:
    """Ask a server for all its lists."""
    can = client.capabilities
    return Inspection(
        protocol_version=client.protocol_version,
        server_info=client.server_info,
        capabilities=can,
        instructions=client.instructions,
        tools=await _listed(can.tools, client.list_tools),
        resources=await _listed(can.resources, client.list_resources),
        templates=await _listed(can.resources, client.list_resource_templates),
        prompts=await _listed(can.prompts, client.list_prompts),
    )


async def _listed(capability: object, ask: Callable[[], Awaitable[list[T]]]) -> list[T]:
    """A list; empty where the server does not have the feature, or only a part of it."""
    if capability is None:
        return []
    try:
        return await ask()
    except MCPError as error:
        if error.code != METHOD_NOT_FOUND:
            raise
        return []  # as of servers that have resources but have never heard of templates
