"""How two peers agree on a revision, as pure functions.

The server's half decides what era a request belongs to, which revision a legacy session speaks,
and whether a modern request's ``_meta`` is in order. The client's half reads what came back from
its probe, ``server/discover``, and says what to do next as a `Verdict`:

=============================================  =====================================================
what came back                                 verdict
=============================================  =====================================================
a DiscoverResult with a version of ours        `Modern`
one with legacy versions of ours only          `Legacy`
one with no version of ours                    `Unsupported`
a success without a DiscoverResult, as ``{}``  `Legacy`
-32022 with another version of ours            `Retry` with it, once
-32022 with the very version just used         `Retry` with it, once
-32022 with legacy versions of ours only       `Legacy`
-32022 with no version of ours, or no list     `Unsupported`
-32020, -32021                                 `Refused`: the server is modern, and says why not
any other error                                `Legacy`
no answer in time                              `Legacy`
=============================================  =====================================================

`Legacy` becomes `Unsupported` where the client does not speak a legacy revision. A slow modern
server shows itself when the ``initialize`` that follows is answered -32022; `read_refusal` then
says to probe once more (MCP 2026-07-28, basic/versioning and basic/transports/stdio).
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple, TypeAlias

import attrs

from mcp_trio.protocol import meta as keys
from mcp_trio.protocol.convert import StructureError, structure
from mcp_trio.protocol.errors import (
    HEADER_MISMATCH,
    INVALID_PARAMS,
    MISSING_CAPABILITY,
    UNSUPPORTED_VERSION,
    MCPError,
    UnsupportedProtocolVersion,
    unsupported_version,
)
from mcp_trio.protocol.revisions import LEGACY, MODERN, is_legacy, is_modern
from mcp_trio.protocol.types.base import LOGGING_LEVELS
from mcp_trio.wire.jsonrpc import JSON, JSONObject

if TYPE_CHECKING:
    from mcp_trio.protocol.types.lifecycle import DiscoverResult

Era: TypeAlias = Literal["legacy", "modern"]


# --- Capabilities --------------------------------------------------------------------------------


def declares(capabilities: JSONObject, path: str) -> bool:
    """Whether ``capabilities``, in wire form, have the one at a dotted path.

    ``elicitation`` alone, as in 2025-06-18, also declares ``elicitation.form``.
    """
    found: Any = capabilities
    for step in path.split("."):
        found = found.get(step) if isinstance(found, dict) else None
    if path == "elicitation.form" and found is None:
        return capabilities.get("elicitation") is not None and not declares(
            capabilities, "elicitation.url"
        )
    return found is not None and found is not False


def capabilities_at(*paths: str) -> JSONObject:
    """The smallest capabilities that declare all of the dotted paths."""
    made: JSONObject = {}
    for path in paths:
        inner = made
        for step in path.split("."):
            inner = inner.setdefault(step, {})
    return made


# --- The server's half ---------------------------------------------------------------------------


def era_of(params: JSONObject, header_version: str | None = None) -> Era:
    """The era that a request belongs to.

    It is modern if its ``_meta`` names a protocol version at all, or if ``header_version``, the
    MCP-Protocol-Version of the HTTP request that carries it, is a modern one.
    """
    meta = params.get(keys.META)
    if isinstance(meta, dict) and keys.PROTOCOL_VERSION in meta:
        return "modern"
    return "modern" if header_version is not None and is_modern(header_version) else "legacy"


def answer_initialize(requested: JSON, supported: Sequence[str] = LEGACY) -> str:
    """The revision that a legacy session speaks: the one requested, else our newest legacy one.

    Args:
        requested: the ``protocolVersion`` of the ``initialize`` request.
        supported: what the server speaks, oldest first; modern revisions never count.

    Raises:
        MCPError: -32602 if ``requested`` is no string; -32022, with the modern revisions, if the
            server speaks modern revisions only.
    """
    if not isinstance(requested, str):
        raise MCPError(INVALID_PARAMS, "initialize: protocolVersion must be a string")
    legacy = [version for version in supported if is_legacy(version)]
    if not legacy:
        raise unsupported_version(requested, supported)
    return requested if requested in legacy else legacy[-1]


class RequestMeta(NamedTuple):
    """What a modern request says of its client: its ``_meta``, checked, in wire form."""

    version: str
    capabilities: JSONObject
    client_info: JSONObject | None
    log_level: str | None


_CLIENT_CAPABILITIES: Final = (
    "elicitation",
    "experimental",
    "extensions",
    "roots",
    "sampling",
    "tasks",
)


def read_request_meta(params: JSONObject, supported: Sequence[str] = MODERN) -> RequestMeta:
    """The ``_meta`` of a modern request, checked.

    Args:
        params: the request's parameters.
        supported: what the server speaks; only modern revisions count, and only they are listed
            in the error.

    Raises:
        MCPError: -32602 for what is missing or malformed, -32022 for a revision that is not ours.
    """
    meta = params.get(keys.META)
    if not isinstance(meta, dict):
        raise _bad_meta("it is missing" if meta is None else "expected an object")
    version = meta.get(keys.PROTOCOL_VERSION)
    if type(version) is not str:
        raise _bad_field(keys.PROTOCOL_VERSION, version, "a string")
    if version not in supported or not is_modern(version):
        raise unsupported_version(version, [v for v in supported if is_modern(v)])
    capabilities = meta.get(keys.CLIENT_CAPABILITIES)
    if type(capabilities) is not dict:
        raise _bad_field(keys.CLIENT_CAPABILITIES, capabilities, "an object")
    for name in _CLIENT_CAPABILITIES:
        if type(capabilities.get(name, capabilities)) is not dict:
            raise _bad_meta(f'["{keys.CLIENT_CAPABILITIES}"].{name}: expected an object')
    info = meta.get(keys.CLIENT_INFO)
    if info is not None and not (
        type(info) is dict and type(info.get("name")) is type(info.get("version")) is str
    ):
        raise _bad_field(keys.CLIENT_INFO, info, "an object with the strings name and version")
    level = meta.get(keys.LOG_LEVEL)
    if level is not None and level not in LOGGING_LEVELS:
        raise _bad_field(keys.LOG_LEVEL, level, f"one of {', '.join(LOGGING_LEVELS)}")
    return RequestMeta(version, capabilities, info, level)


def _bad_field(key: str, value: JSON, expected: str) -> MCPError:
    if value is None:
        return _bad_meta(f'["{key}"] is missing; it must be {expected}')
    return _bad_meta(f'["{key}"]: expected {expected}')


def _bad_meta(reason: str) -> MCPError:
    separator = "" if reason.startswith("[") else ": "
    return MCPError(INVALID_PARAMS, f"params._meta{separator}{reason}")


# --- The client's half ---------------------------------------------------------------------------


@attrs.frozen
class Modern:
    """The server is modern: speak ``version``."""

    version: str
    discovered: "DiscoverResult"


@attrs.frozen
class Retry:
    """The server is modern: probe again, in ``version``."""

    version: str


@attrs.frozen
class Legacy:
    """The server is legacy, because of ``reason``: go on with ``initialize``."""

    reason: str


@attrs.frozen
class Unsupported:
    """There is no revision in common."""

    error: UnsupportedProtocolVersion


@attrs.frozen
class Refused:
    """The server is modern, and will not serve us."""

    error: MCPError


Verdict: TypeAlias = Modern | Retry | Legacy | Unsupported | Refused


def choose_version(offers: Sequence[str], supported: Sequence[str]) -> str | None:
    """The newest of our ``offers`` that the peer supports too."""
    return max((version for version in offers if version in supported), default=None)


def read_probe(
    answer: JSONObject | MCPError | None, *, requested: str, offers: Sequence[str], retried: bool
) -> Verdict:
    """What the answer to ``server/discover`` means; the module's table has all cases.

    Args:
        answer: the result, or the error, or None if there was no answer in time.
        requested: the modern revision that the probe was sent in.
        offers: all revisions that the client is ready to speak, of both eras.
        retried: whether a `Retry` was followed already; there is no second one.
    """
    from mcp_trio.protocol.types.lifecycle import DiscoverResult  # only clients need it

    if answer is None:
        return _legacy("server/discover had no answer in time", requested, offers)
    if isinstance(answer, MCPError):
        if answer.code in _MODERN_ERRORS:
            return read_refusal(answer, requested=requested, offers=offers, retried=retried)
        return _legacy(f"server/discover was answered: {answer}", requested, offers)
    try:
        discovered = structure(answer, DiscoverResult)
    except StructureError as error:
        reason = f"server/discover was answered without a DiscoverResult: {error}"
        return _legacy(reason, requested, offers)
    modern = choose_version([v for v in offers if is_modern(v)], discovered.supported_versions)
    if modern is not None:
        return Modern(modern, discovered)
    return _without_modern(discovered.supported_versions, requested, offers)


_MODERN_ERRORS: Final = (HEADER_MISMATCH, MISSING_CAPABILITY, UNSUPPORTED_VERSION)
"""Errors that only a modern server answers with."""


def read_refusal(
    error: MCPError, *, requested: str, offers: Sequence[str], retried: bool
) -> Verdict:
    """What an error means that only modern servers answer with, be it to a probe, to any other
    modern request, or to ``initialize``.

    The arguments are those of `read_probe`. After ``initialize``, ``offers`` should hold modern
    revisions only, since the legacy ones have just been tried.
    """
    if error.code != UNSUPPORTED_VERSION:
        return Refused(error)
    supported = _supported_in(error)
    modern = choose_version([v for v in offers if is_modern(v)], supported)
    if modern is None:
        return _without_modern(supported, requested, offers)
    if retried:
        hint = "it refused a version that it lists"
        return Unsupported(UnsupportedProtocolVersion(requested, supported, hint))
    return Retry(modern)


def _supported_in(error: MCPError) -> list[str]:
    listed = error.data.get("supported") if isinstance(error.data, dict) else None
    return [v for v in listed if isinstance(v, str)] if isinstance(listed, list) else []


def _without_modern(supported: Sequence[str], requested: str, offers: Sequence[str]) -> Verdict:
    if any(is_legacy(version) for version in supported):
        reason = f"the server lists legacy versions only: {', '.join(supported)}"
        return _legacy(reason, requested, offers, supported)
    return Unsupported(UnsupportedProtocolVersion(requested, supported))


def _legacy(
    reason: str, requested: str, offers: Sequence[str], supported: Sequence[str] = ()
) -> Verdict:
    legacy = [version for version in offers if is_legacy(version)]
    if supported:
        legacy = [version for version in legacy if version in supported]
    if legacy:
        return Legacy(reason)
    return Unsupported(UnsupportedProtocolVersion(requested, supported, reason))


def accept_initialize(answered: JSON, *, requested: str, offers: Sequence[str]) -> str:
    """The revision that a legacy session speaks, given what the server answered.

    Raises:
        UnsupportedProtocolVersion: it is none of our legacy ``offers``.
    """
    if isinstance(answered, str) and is_legacy(answered) and answered in offers:
        return answered
    raise UnsupportedProtocolVersion(requested, [answered] if isinstance(answered, str) else [])
