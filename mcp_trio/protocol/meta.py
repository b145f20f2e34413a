"""The keys of ``_meta``, and the rule for their names.

Requests, results, notifications and most objects may carry a ``_meta`` object for what is not part
of their type. In the modern era this is also where a request says which revision it speaks and
what its client can do (MCP 2026-07-28, basic/index, section ``_meta``).
"""

import re
from typing import Final

META: Final = "_meta"
PROGRESS_TOKEN: Final = "progressToken"

PROTOCOL_VERSION: Final = "io.modelcontextprotocol/protocolVersion"
CLIENT_INFO: Final = "io.modelcontextprotocol/clientInfo"
CLIENT_CAPABILITIES: Final = "io.modelcontextprotocol/clientCapabilities"
LOG_LEVEL: Final = "io.modelcontextprotocol/logLevel"
SUBSCRIPTION_ID: Final = "io.modelcontextprotocol/subscriptionId"
SERVER_INFO: Final = "io.modelcontextprotocol/serverInfo"
RELATED_TASK: Final = "io.modelcontextprotocol/related-task"

TRACE_KEYS: Final = ("traceparent", "tracestate", "baggage")
"""Keys of OpenTelemetry's trace context, which go without a prefix."""

_LABEL = r"[A-Za-z](?:[A-Za-z0-9-]*[A-Za-z0-9])?"
_KEY = re.compile(
    rf"(?:(?P<prefix>{_LABEL}(?:\.{_LABEL})*)/)?(?P<name>(?:[A-Za-z0-9](?:[\w.-]*[A-Za-z0-9])?)?)",
    re.ASCII,
)


def is_valid_key(key: str) -> bool:
    """Whether ``key`` may stand in ``_meta``: an optional dotted prefix and ``/``, then a name."""
    return bool(key) and _KEY.fullmatch(key) is not None


def is_reserved_key(key: str) -> bool:
    """Whether ``key`` belongs to the protocol, so that applications must not invent it."""
    if key == PROGRESS_TOKEN or key in TRACE_KEYS:
        return True
    prefix, slash, _ = key.partition("/")
    labels = prefix.split(".") if slash else []
    return len(labels) > 1 and labels[1] in ("modelcontextprotocol", "mcp")


def is_extension_id(key: str) -> bool:
    """Whether ``key`` may name an extension: a valid key whose prefix is not left out."""
    return is_valid_key(key) and "/" in key
