"""The Model Context Protocol on Trio.

Every public name is here, and each is imported when it is first used: a program that only serves
tools over stdio does not pay for the client, and one that only connects does not pay for servers.
The types of the protocol (`Tool`, `TextContent`, `CallToolResult`, ...) are here by name as well.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from mcp_trio.client.client import Client as Client
    from mcp_trio.client.client import open_client as open_client
    from mcp_trio.client.events import PromptsChanged as PromptsChanged
    from mcp_trio.client.events import ResourcesChanged as ResourcesChanged
    from mcp_trio.client.events import ResourceUpdated as ResourceUpdated
    from mcp_trio.client.events import ToolsChanged as ToolsChanged
    from mcp_trio.exceptions import AuthorizationRequired as AuthorizationRequired
    from mcp_trio.exceptions import ConnectionClosed as ConnectionClosed
    from mcp_trio.exceptions import MCPError as MCPError
    from mcp_trio.exceptions import ProtocolError as ProtocolError
    from mcp_trio.exceptions import RequestTimeout as RequestTimeout
    from mcp_trio.exceptions import TransportError as TransportError
    from mcp_trio.exceptions import UnsupportedProtocolVersion as UnsupportedProtocolVersion
    from mcp_trio.protocol.types import *  # noqa: F403 (all of them, for type checkers)
    from mcp_trio.proxy.app import Proxy as Proxy
    from mcp_trio.server.app import Server as Server
    from mcp_trio.server.asking import CannotAsk as CannotAsk
    from mcp_trio.server.bus import SubscriptionBus as SubscriptionBus
    from mcp_trio.server.context import Context as Context
    from mcp_trio.server.dispatch import CacheHint as CacheHint
    from mcp_trio.server.hints import Alias as Alias
    from mcp_trio.server.http.events import EventStore as EventStore
    from mcp_trio.server.http.events import MemoryEventStore as MemoryEventStore
    from mcp_trio.server.media import Audio as Audio
    from mcp_trio.server.media import Image as Image
    from mcp_trio.server.middleware import RateLimit as RateLimit
    from mcp_trio.server.prompts import PromptOptions as PromptOptions
    from mcp_trio.server.questions import Accepted as Accepted
    from mcp_trio.server.questions import Elicit as Elicit
    from mcp_trio.server.questions import ElicitURL as ElicitURL
    from mcp_trio.server.questions import ListRoots as ListRoots
    from mcp_trio.server.questions import Refused as Refused
    from mcp_trio.server.questions import Sample as Sample
    from mcp_trio.server.resources import ResourceNotFound as ResourceNotFound
    from mcp_trio.server.resources import ResourceOptions as ResourceOptions
    from mcp_trio.server.session import Session as Session
    from mcp_trio.server.tools import ToolError as ToolError
    from mcp_trio.server.tools import ToolOptions as ToolOptions
    from mcp_trio.transports.http_exchange import HTTPRequest as HTTPRequest
    from mcp_trio.transports.http_limits import HTTPLimits as HTTPLimits
    from mcp_trio.transports.parameters import StdioParameters as StdioParameters

_HOMES = {
    "Accepted": "server.questions",
    "Alias": "server.hints",
    "Audio": "server.media",
    "AuthorizationRequired": "exceptions",
    "CacheHint": "server.dispatch",
    "CannotAsk": "server.asking",
    "Client": "client.client",
    "ConnectionClosed": "exceptions",
    "Context": "server.context",
    "Elicit": "server.questions",
    "ElicitURL": "server.questions",
    "EventStore": "server.http.events",
    "HTTPLimits": "transports.http_limits",
    "HTTPRequest": "transports.http_exchange",
    "Image": "server.media",
    "ListRoots": "server.questions",
    "MCPError": "exceptions",
    "MemoryEventStore": "server.http.events",
    "open_client": "client.client",
    "PromptOptions": "server.prompts",
    "PromptsChanged": "client.events",
    "ProtocolError": "exceptions",
    "Proxy": "proxy.app",
    "RateLimit": "server.middleware",
    "Refused": "server.questions",
    "RequestTimeout": "exceptions",
    "ResourceNotFound": "server.resources",
    "ResourceOptions": "server.resources",
    "ResourcesChanged": "client.events",
    "ResourceUpdated": "client.events",
    "Sample": "server.questions",
    "Server": "server.app",
    "Session": "server.session",
    "StdioParameters": "transports.parameters",
    "SubscriptionBus": "server.bus",
    "ToolError": "server.tools",
    "ToolOptions": "server.tools",
    "ToolsChanged": "client.events",
    "TransportError": "exceptions",
    "UnsupportedProtocolVersion": "exceptions",
}


if not TYPE_CHECKING:  # type checkers are to know only the names above

    def __getattr__(name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        home = import_module(f"mcp_trio.{_HOMES.get(name, 'protocol.types')}")
        try:
            found = getattr(home, name)
        except AttributeError:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}") from None
        globals()[name] = found
        return found

    def __dir__() -> list[str]:
        from mcp_trio.protocol import types

        return sorted({*globals(), *_HOMES, *dir(types)})
