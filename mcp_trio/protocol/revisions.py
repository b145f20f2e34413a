"""The five revisions of the protocol, and what differs between them.

A revision is named by its date. Two eras divide them: in the *legacy* era a connection starts with
an ``initialize`` handshake and keeps a session; in the *modern* era there is no handshake, and
every request carries its own version and capabilities.

`FEATURES` is the one place that knows which revision has what. Code asks
``supports("resource_links", version)`` and never compares dates, so that a new revision is new
rows in this table.
"""

from typing import Final, NamedTuple

REVISIONS: Final = ("2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25", "2026-07-28")
"""All revisions, oldest first."""

LEGACY: Final = REVISIONS[:4]
"""Revisions with an ``initialize`` handshake and a session, oldest first."""

MODERN: Final = REVISIONS[4:]
"""Revisions whose requests each carry version and capabilities, oldest first."""

LATEST: Final = MODERN[-1]
LATEST_LEGACY: Final = LEGACY[-1]


class Feature(NamedTuple):
    """The first and the last revision that have a feature; ``last`` None means "until now"."""

    first: str
    last: str | None
    what: str


_V1, _V2, _V3, _V4, _V5 = REVISIONS

FEATURES: Final[dict[str, Feature]] = {
    # The base protocol
    "handshake": Feature(_V1, _V4, "initialize and notifications/initialized open a session"),
    "ping": Feature(_V1, _V4, "either side may ask whether the other is there"),
    "server_requests": Feature(_V1, _V4, "the server sends requests of its own to the client"),
    "batches": Feature(_V2, _V2, "several messages in one JSON array"),
    "error_without_id": Feature(_V4, None, "an error answers a message whose id is unreadable"),
    "request_meta": Feature(_V5, None, "each request's _meta names version and capabilities"),
    "discover": Feature(_V5, None, "server/discover"),
    "result_type": Feature(_V5, None, "each result says whether it is complete"),
    "mrtr": Feature(_V5, None, "a result asks for input, and the request is sent again"),
    "cache_hints": Feature(_V5, None, "ttlMs and cacheScope on lists and resources"),
    "extensions": Feature(_V5, None, "capabilities name the extensions that are spoken"),
    "tasks": Feature(_V4, _V4, "experimental tasks in the core protocol"),
    # Notifications and subscriptions
    "progress_message": Feature(_V2, None, "progress carries a text"),
    "set_level": Feature(_V1, _V4, "logging/setLevel"),
    "log_level_per_request": Feature(_V5, None, "a request's _meta names its log level"),
    "subscribe": Feature(_V1, _V4, "resources/subscribe and resources/unsubscribe"),
    "listen": Feature(_V5, None, "subscriptions/listen"),
    "roots_list_changed": Feature(_V1, _V4, "the client says that its roots changed"),
    # Content and descriptions
    "audio": Feature(_V2, None, "audio content"),
    "resource_links": Feature(_V3, None, "content that links to a resource"),
    "titles": Feature(_V3, None, "a title beside the name"),
    "icons": Feature(_V4, None, "icons on tools, resources, prompts and implementations"),
    # Tools
    "tool_annotations": Feature(_V2, None, "hints about what a tool does"),
    "output_schema": Feature(_V3, None, "tools declare the schema of their structured output"),
    "structured_content": Feature(_V3, None, "tool results carry JSON beside the content"),
    "structured_content_any": Feature(_V5, None, "structured output may be any JSON value"),
    "tool_execution": Feature(_V4, _V4, "a tool says whether it runs as a task"),
    "parameter_headers": Feature(_V5, None, "x-mcp-header mirrors an argument into HTTP"),
    # Completion
    "completions_capability": Feature(_V2, None, "completion is a capability of its own"),
    "completion_context": Feature(_V3, None, "completion knows the arguments already given"),
    # Asking the client
    "elicitation": Feature(_V3, None, "the server asks the user by a form"),
    "elicitation_url": Feature(_V4, None, "the server sends the user to a web page"),
    "elicitation_id": Feature(_V4, _V4, "web page elicitations have an id and a completion notice"),
    "elicitation_enums": Feature(_V4, None, "titled and multiple choice; oneOf, anyOf, arrays"),
    "elicitation_defaults": Feature(_V4, None, "strings, numbers and choices have defaults"),
    "sampling_tools": Feature(_V4, None, "sampling with tools, and with lists of content"),
    # Errors
    "resource_not_found_code": Feature(_V1, _V4, "a missing resource is -32002, later -32602"),
    "url_elicitation_error": Feature(_V4, _V4, "-32042 asks the user to open a page first"),
    "modern_errors": Feature(_V5, None, "-32020, -32021 and -32022"),
    "invalid_arguments_are_results": Feature(_V4, None, "bad arguments are an isError result"),
    # HTTP
    "version_header": Feature(_V3, None, "MCP-Protocol-Version on each HTTP request"),
    "streamable_http": Feature(_V2, None, "one endpoint for POST and GET"),
    "sse_polling": Feature(_V4, _V4, "the server may close a stream that the client resumes"),
}
"""What each revision has: name -> first revision, last revision, meaning."""

_SUPPORTED: Final = {
    revision: frozenset(
        name
        for name, (first, last, _) in FEATURES.items()
        if first <= revision and (last is None or revision <= last)
    )
    for revision in REVISIONS
}


def supports(feature: str, version: str) -> bool:
    """Whether the revision ``version`` has ``feature``, a key of `FEATURES`.

    A version that this package does not know has none of them. An unknown feature is a `KeyError`,
    because a misspelt one would otherwise be missing everywhere, silently.
    """
    if feature not in FEATURES:
        raise KeyError(feature)
    return feature in _SUPPORTED.get(version, ())


def is_modern(version: str) -> bool:
    """Whether ``version`` is a revision of the modern era that this package speaks."""
    return version in MODERN


def is_legacy(version: str) -> bool:
    """Whether ``version`` is a revision of the legacy era that this package speaks."""
    return version in LEGACY
