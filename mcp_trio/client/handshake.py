"""How a client finds out which era a server belongs to, and agrees on a revision with it.

In the modern era there is no handshake: a client may send any request, and each says itself which
revision it is in. In the legacy era nothing works before `initialize`. A client that does not
know which kind it is talking to asks a question that only a modern server understands:

    server/discover ──▶ a DiscoverResult          modern: go on
                    ──▶ -32022, with a list       modern: once more, in a version of that list
                    ──▶ any other error, silence  legacy: initialize
    initialize      ──▶ -32022                    modern after all, only slow: discover again
                    ──▶ an error with a list      legacy: once more, in a version of that list

What each answer means is decided by `read_probe` in `mcp_trio.protocol.negotiation`, as a pure
function; here are the questions (MCP 2026-07-28, basic/transports/stdio, "Backward
Compatibility").
"""

from collections.abc import Sequence

import attrs

from mcp_trio.exceptions import (
    AuthorizationRequired,
    MCPError,
    ProtocolError,
    RequestTimeout,
    TransportError,
    UnsupportedProtocolVersion,
)
from mcp_trio.peer import Peer
from mcp_trio.protocol import meta as keys
from mcp_trio.protocol.convert import StructureError, structure
from mcp_trio.protocol.errors import INVALID_REQUEST, UNSUPPORTED_VERSION
from mcp_trio.protocol.negotiation import (
    Legacy,
    Modern,
    Refused,
    Retry,
    Unsupported,
    Verdict,
    accept_initialize,
    choose_version,
    read_probe,
    read_refusal,
)
from mcp_trio.protocol.revisions import LEGACY, MODERN, REVISIONS, is_legacy, is_modern, supports
from mcp_trio.protocol.types.base import Implementation
from mcp_trio.protocol.types.capabilities import ServerCapabilities
from mcp_trio.protocol.types.lifecycle import DiscoverResult, InitializeResult
from mcp_trio.wire.jsonrpc import JSONObject

#: The modes of `open_client` that are no revision.
MODES = {"auto": REVISIONS, "modern": MODERN, "legacy": LEGACY}


@attrs.frozen
class Agreement:
    """What a client and a server agreed on, and what the server said of itself.

    `server_info` is None for a modern server that does not introduce itself.
    """

    version: str
    capabilities: ServerCapabilities
    server_info: Implementation | None
    instructions: str | None

    @property
    def modern(self) -> bool:
        return is_modern(self.version)


def offers_of(mode: str) -> Sequence[str]:
    """The revisions that a mode allows, oldest first.

    Raises:
        ValueError: It is neither a mode nor a revision.
    """
    if mode in MODES:
        return MODES[mode]
    if mode in REVISIONS:
        return (mode,)
    choices = ", ".join([*MODES, *REVISIONS])
    raise ValueError(f"mode={mode!r} is unknown; it is one of {choices}")


class Introduction:
    """How the client presents itself, in either era.

    Args:
        info: The client's name and version, in wire form.
        capabilities: What it can do, as the newest revision writes it.
    """

    def __init__(self, info: JSONObject, capabilities: JSONObject) -> None:
        self.info = info
        self.capabilities = capabilities

    def meta(self, version: str) -> JSONObject:
        """The `_meta` that every request of a modern client carries."""
        return {
            keys.PROTOCOL_VERSION: version,
            keys.CLIENT_INFO: self.info,
            keys.CLIENT_CAPABILITIES: self.capabilities_in(version),
        }

    def capabilities_in(self, version: str) -> JSONObject:
        """The capabilities as `version` knows them."""
        capabilities = dict(self.capabilities)
        if not supports("elicitation", version):
            capabilities.pop("elicitation", None)
        elif "elicitation" in capabilities and not supports("elicitation_url", version):
            capabilities["elicitation"] = {}
        if "roots" in capabilities and not supports("roots_list_changed", version):
            capabilities["roots"] = {}
        return capabilities


class Handshake:
    """The conversation that ends in an `Agreement`.

    Args:
        peer: The way to the server.
        introduction: How we present ourselves.
        offers: The revisions that we are ready to speak, oldest first.
        probe_timeout: Seconds without an answer to `server/discover` after which a server counts
            as legacy. Not used where no legacy revision is offered.
    """

    def __init__(
        self, peer: Peer, introduction: Introduction, offers: Sequence[str], probe_timeout: float
    ) -> None:
        self._peer = peer
        self._introduction = introduction
        self._offers = offers
        self._modern = [version for version in offers if is_modern(version)]
        self._legacy = [version for version in offers if is_legacy(version)]
        self._probe_timeout = probe_timeout if self._legacy else None
        self._silent = False  # a probe had no answer in time

    async def run(self) -> Agreement:
        """Agree on a revision.

        Raises:
            UnsupportedProtocolVersion: There is none in common.
            MCPError: The server refuses.
            ProtocolError: It answers what cannot be read.
            ConnectionClosed: It is gone.
            TransportError: It cannot be reached over HTTP, or answers what is no MCP.
        """
        if not self._modern:
            return await self._initialize()
        verdict = await self._probe(self._modern[-1], self._probe_timeout)
        if not isinstance(verdict, Legacy):
            return self._agreed(verdict)
        try:
            return await self._initialize()
        except MCPError as error:
            return self._agreed(await self._probe_again(error))

    async def _probe(
        self, version: str, timeout: float | None, *, retried: bool = False
    ) -> Verdict:
        verdict = read_probe(
            await self._discover(version, timeout),
            requested=version,
            offers=self._offers,
            retried=retried,
        )
        if isinstance(verdict, Retry):
            return await self._probe(verdict.version, timeout, retried=True)
        return verdict

    async def _probe_again(self, error: MCPError) -> Verdict:
        """See whether a server that refuses `initialize` is modern, and was only slow before.

        -32022 says that it is. With any other error it may be: which one a modern server answers
        to `initialize` is its own choice (basic/versioning, "Compatibility Matrix").
        """
        if error.code == UNSUPPORTED_VERSION:
            verdict = read_refusal(
                error, requested=self._modern[-1], offers=self._modern, retried=False
            )
            if isinstance(verdict, Retry):
                return await self._probe(verdict.version, None, retried=True)
            return verdict
        if self._silent:
            verdict = await self._probe(self._modern[-1], self._probe_timeout)
            if isinstance(verdict, Modern):
                return verdict
        raise error

    async def _discover(self, version: str, timeout: float | None) -> JSONObject | MCPError | None:
        params: JSONObject = {"_meta": self._introduction.meta(version)}
        try:
            # No cancellation follows a probe that timed out: to a legacy server it would be a
            # second message before `initialize` that it does not expect.
            return await self._peer.request(
                "server/discover", params, timeout=timeout, cancel_notice=False
            )
        except MCPError as error:
            return error
        except RequestTimeout:
            self._silent = True
            return None
        except AuthorizationRequired:
            raise
        except TransportError as error:
            # Any status without an error that only modern servers know is what an older one says.
            if error.status is None or not self._legacy:
                raise
            return MCPError(INVALID_REQUEST, str(error))
        except ProtocolError as error:
            return MCPError(INVALID_REQUEST, str(error))

    def _agreed(self, verdict: Verdict) -> Agreement:
        match verdict:
            case Modern(version, discovered):
                return Agreement(
                    version,
                    discovered.capabilities,
                    server_info_of(discovered),
                    discovered.instructions,
                )
            case Unsupported(error):
                raise error
            case Refused(refusal):
                raise refusal
            case Legacy(reason):
                raise UnsupportedProtocolVersion(self._offers[-1], (), reason)
            case Retry(version):
                raise UnsupportedProtocolVersion(version, (), "it refused a version that it lists")

    async def _initialize(self) -> Agreement:
        requested = self._legacy[-1]
        try:
            answer = await self._introduce_ourselves(requested)
        except MCPError as error:
            supported = _supported_by(error)
            other = choose_version(self._legacy[:-1], supported)
            if other is None or choose_version(self._modern, supported) is not None:
                raise
            requested = other
            answer = await self._introduce_ourselves(requested)
        try:
            result = structure(answer, InitializeResult)
        except StructureError as error:
            raise ProtocolError(f"the answer to initialize is malformed: {error}") from error
        version = accept_initialize(
            result.protocol_version, requested=requested, offers=self._legacy
        )
        self._peer.batches_allowed = supports("batches", version)
        await self._peer.notify("notifications/initialized")
        return Agreement(version, result.capabilities, result.server_info, result.instructions)

    async def _introduce_ourselves(self, version: str) -> JSONObject:
        params: JSONObject = {
            "protocolVersion": version,
            "capabilities": self._introduction.capabilities_in(version),
            "clientInfo": self._introduction.info,
        }
        # What follows the answer may be read together with it, before we know the revision.
        self._peer.batches_allowed = any(supports("batches", legacy) for legacy in self._legacy)
        # `initialize` must not be cancelled (basic/utilities/cancellation): giving up on it
        # closes the connection, which tells the server as well.
        return await self._peer.request("initialize", params, cancel_notice=False)


def _supported_by(error: MCPError) -> list[str]:
    """The versions that a legacy server lists when it refuses ours (basic/lifecycle)."""
    supported = error.data.get("supported") if isinstance(error.data, dict) else None
    return supported if isinstance(supported, list) else []


def server_info_of(discovered: DiscoverResult) -> Implementation | None:
    """Who a modern server says that it is; None if it does not say, or not legibly."""
    info = (discovered.meta or {}).get(keys.SERVER_INFO)
    if info is None:
        return None
    try:
        return structure(info, Implementation)
    except StructureError:
        return None
