"""The headers of a modern request, which repeat parts of it for those who forward it.

Most of them can be read off the message. Those of a tool's arguments cannot: which arguments are
repeated is in the tool's input schema, so a client learns that from the lists of tools that pass
through here. A tool whose schema breaks the rules cannot be called over HTTP, and is taken out of
the list (MCP 2026-07-28, basic/transports/streamable-http, "Schema Extension").
"""

import logging
from collections import OrderedDict
from typing import Any, Final

import attrs

from mcp_trio.exceptions import TransportError
from mcp_trio.protocol import meta as keys
from mcp_trio.protocol.methods import METHODS
from mcp_trio.wire.header_params import HeaderParam, read_annotations
from mcp_trio.wire.http_headers import HeaderError, mirror
from mcp_trio.wire.jsonrpc import JSONObject, Response

logger = logging.getLogger("mcp_trio")

#: Tools whose arguments are repeated in headers; beyond them the one listed first is forgotten.
MOST_TOOLS: Final = 10_000


def modern_version(params: JSONObject | None) -> str | None:
    """The protocol version that a modern message names; None for a legacy one."""
    meta = (params or {}).get(keys.META)
    version = meta.get(keys.PROTOCOL_VERSION) if isinstance(meta, dict) else None
    return version if isinstance(version, str) else None


class Mirroring:
    """What one client knows of the tools of its server."""

    def __init__(self) -> None:
        self._repeated: OrderedDict[str, tuple[HeaderParam, ...]] = OrderedDict()

    def headers(self, method: str, params: JSONObject, version: str) -> dict[str, str]:
        """The headers for a message.

        Raises:
            TransportError: A value cannot stand in its header.
        """
        repeated: tuple[HeaderParam, ...] = ()
        if method == "tools/call" and isinstance(name := params.get("name"), str):
            repeated = self._repeated.get(name, ())
        field = METHODS[method].header_field if method in METHODS else None
        try:
            return mirror(method, params, version=version, name_field=field, header_params=repeated)
        except HeaderError as error:
            raise TransportError(f"{method} cannot be sent over HTTP: {error}") from error

    def learn(self, listed: Response) -> Response:
        """Take note of a list of tools, and leave out those that cannot be called."""
        tools = listed.result.get("tools")
        if not isinstance(tools, list):
            return listed
        usable = [tool for tool in tools if self._learn(tool)]
        if len(usable) == len(tools):
            return listed
        return attrs.evolve(listed, result={**listed.result, "tools": usable})

    def _learn(self, tool: Any) -> bool:
        """Take note of one tool; False if it cannot be called."""
        if not isinstance(tool, dict) or not isinstance(name := tool.get("name"), str):
            return True  # malformed as a whole: whoever reads the list says so
        self._repeated.pop(name, None)
        found = read_annotations(tool.get("inputSchema"))
        if found.problems:
            problems = "; ".join(found.problems)
            logger.warning("left out the tool %r, which cannot be called: %s", name, problems)
            return False
        if found.params:
            self._repeated[name] = found.params
            if len(self._repeated) > MOST_TOOLS:
                self._repeated.popitem(last=False)
        return True
