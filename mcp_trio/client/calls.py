"""What becomes of one call: which request is sent, what happens on the way, what comes back.

In the legacy era a call is a request. In the modern era it may be several: one more in another
revision if the server does not speak ours, and one more each time that the server needs to know
something first. And it may be none, if the result of an earlier one is still fresh.

In either era the server's questions are part of the call that led to them. What the user's
callback raises leaves that call, and the time that the callback takes does not count against the
call's timeout.
"""

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import attrs
import trio

from mcp_trio.call import ProgressCallback
from mcp_trio.client.cache import ResultCache
from mcp_trio.client.handshake import Agreement, Introduction, offers_of
from mcp_trio.client.options import ClientOptions
from mcp_trio.client.questions import Answers, BadQuestion
from mcp_trio.client.rounds import ask_in_rounds
from mcp_trio.exceptions import MCPError, UnsupportedProtocolVersion
from mcp_trio.incoming import IncomingRequest
from mcp_trio.peer import CEILING, Peer
from mcp_trio.protocol import meta as keys
from mcp_trio.protocol.convert import StructureError, structure
from mcp_trio.protocol.errors import (
    HEADER_MISMATCH,
    INTERNAL_ERROR,
    METHOD_NOT_FOUND,
    UNSUPPORTED_VERSION,
)
from mcp_trio.protocol.methods import METHODS
from mcp_trio.protocol.negotiation import Retry, Unsupported, read_refusal
from mcp_trio.protocol.revisions import is_modern
from mcp_trio.protocol.types.notifications import ProgressNotificationParams
from mcp_trio.wire.jsonrpc import JSONObject

logger = logging.getLogger("mcp_trio")

#: Gets each progress notification of a call; may be a coroutine function.
OnProgress = Callable[[ProgressNotificationParams], object]


@attrs.define
class _Allowance:
    """The time that a call has: each attempt its timeout, all together a ceiling, in seconds."""

    timeout: float | None
    left: float | None

    @classmethod
    def of(cls, timeout: float | None, max_timeout: float | None) -> "_Allowance":
        if timeout is None:
            timeout = max_timeout
        elif max_timeout is None:
            max_timeout = timeout * CEILING
        return cls(timeout, max_timeout)

    @contextmanager
    def spending(self) -> Iterator[None]:
        began = trio.current_time()
        try:
            yield
        finally:
            if self.left is not None:
                self.left -= trio.current_time() - began


@attrs.define(eq=False)
class _AskingCall:
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


class Calls:
    """The calls of one client.

    Attributes:
        peer: Set once there is a connection.
        agreement: Set once the handshake is done.
        log_level: The least severe level of the log messages that a modern server is asked for.
        introduction: How the client presents itself.
        cache: Results that are fresh, if they are kept at all.
    """

    peer: Peer
    agreement: Agreement

    def __init__(self, options: ClientOptions, introduction: Introduction, answers: Answers):
        self.introduction = introduction
        self.log_level = options.log_level or ("info" if options.on_log is not None else None)
        self.cache = ResultCache() if options.cache else None
        self._options = options
        self._answers = answers
        self._asking: list[_AskingCall] = []
        self._between_attempts: set[trio.CancelScope] = set()

    async def request(
        self,
        method: str,
        params: JSONObject,
        *,
        on_progress: OnProgress | None = None,
        timeout: float | None = None,
        max_timeout: float | None = None,
        fresh: bool = False,
    ) -> JSONObject:
        """Call a method of the server; `fresh` asks it though the cache may know the answer."""
        options = self._options
        allowance = _Allowance.of(
            options.timeout if timeout is None else timeout,
            options.max_timeout if max_timeout is None else max_timeout,
        )
        progress = None if on_progress is None else _progress_reader(on_progress)
        if not self.agreement.modern:
            return await self._call_legacy(method, params, progress, allowance)
        if self.cache is not None and not fresh:
            ticket = self.cache.ticket(method, params)
            kept = None if ticket is None else self.cache.get(ticket)
            if kept is not None:
                await trio.lowlevel.checkpoint()
                return kept
        return await self._call_modern(method, params, progress, allowance)

    async def exchange(
        self, method: str, params: JSONObject, on_progress: ProgressCallback | None = None
    ) -> JSONObject:
        """One request, and what comes back for it: no timeout, no cache, and no questions answered.

        `on_progress` gets the params of each notification as they are.
        """
        if self.agreement.modern:
            return await self._send_modern(method, params, on_progress, _Allowance(None, None))
        return await self.peer.request(method, params, on_progress=on_progress)

    def dress(self, params: JSONObject) -> JSONObject:
        """Add what a modern server needs to know of us."""
        meta = self.introduction.meta(self.agreement.version)
        if self.log_level is not None:
            meta[keys.LOG_LEVEL] = self.log_level
        meta.update(params.get("_meta") or {})
        return {**params, "_meta": meta}

    def closed(self) -> None:
        """The connection has ended: nobody needs to be asked any more."""
        for scope in self._between_attempts:
            scope.cancel()

    # Modern

    async def _call_modern(
        self,
        method: str,
        params: JSONObject,
        progress: ProgressCallback | None,
        allowance: _Allowance,
    ) -> JSONObject:
        async def send(attempt: JSONObject) -> JSONObject:
            ticket = None if self.cache is None else self.cache.ticket(method, attempt)
            result = await self._send_modern(method, attempt, progress, allowance)
            if self.cache is not None and ticket is not None:
                self.cache.put(ticket, result)
            return result

        return await ask_in_rounds(
            send,
            method,
            params,
            self._answers,
            max_rounds=self._options.max_rounds,
            backoff=self._options.round_backoff,
            while_open=self._while_open,
        )

    async def _send_modern(
        self,
        method: str,
        params: JSONObject,
        progress: ProgressCallback | None,
        allowance: _Allowance,
    ) -> JSONObject:
        """One request; once more in another version if the server does not speak this one, and
        once more if it misses headers that its tools ask for by now."""
        retried = listed = False
        while True:
            version = self.agreement.version
            try:
                with allowance.spending():
                    return await self.peer.request(
                        method,
                        self.dress(params),
                        on_progress=progress,
                        timeout=allowance.timeout,
                        max_timeout=allowance.left,
                    )
            except MCPError as error:
                if error.code == HEADER_MISMATCH and method == "tools/call" and not listed:
                    listed = True
                    await self._list_tools_again(allowance)
                    continue
                if error.code != UNSUPPORTED_VERSION:
                    raise
                other = self._version_after(error, version, retried=retried)
            self.agreement = attrs.evolve(self.agreement, version=other)
            retried = True

    async def _list_tools_again(self, allowance: _Allowance) -> None:
        """Have the lists of tools pass by the transport, which reads in them what headers to send
        (MCP 2026-07-28, basic/transports/streamable-http, "Client Behavior")."""
        params: JSONObject = {}
        seen = set()
        while True:
            with allowance.spending():
                page = await self.request(
                    "tools/list",
                    params,
                    timeout=allowance.timeout,
                    max_timeout=allowance.left,
                    fresh=True,
                )
            cursor = page.get("nextCursor")
            if not isinstance(cursor, str) or cursor in seen:
                return
            seen.add(cursor)
            params = {"cursor": cursor}

    def _version_after(self, error: MCPError, version: str, *, retried: bool) -> str:
        offers = [offer for offer in offers_of(self._options.mode) if is_modern(offer)]
        match read_refusal(error, requested=version, offers=offers, retried=retried):
            case Retry(other):
                return other
            case Unsupported(reason):
                raise reason from error
        raise UnsupportedProtocolVersion(version, (), error.message) from error

    @contextmanager
    def _while_open(self) -> Iterator[None]:
        """Break off, between two attempts, what is of no use once the connection has ended."""
        self._check_open()
        with trio.CancelScope() as scope:
            self._between_attempts.add(scope)
            try:
                yield
            finally:
                self._between_attempts.remove(scope)
        if scope.cancelled_caught:
            self._check_open()

    def _check_open(self) -> None:
        if self.peer.closed is not None:
            raise self.peer.closed.error()

    # Legacy

    async def _call_legacy(
        self,
        method: str,
        params: JSONObject,
        progress: ProgressCallback | None,
        allowance: _Allowance,
    ) -> JSONObject:
        asking = _AskingCall()
        if method in METHODS and METHODS[method].may_ask:
            self._asking.append(asking)
        try:
            with asking.scope:
                return await self.peer.request(
                    method,
                    params,
                    on_progress=progress,
                    timeout=allowance.timeout,
                    max_timeout=allowance.left,
                )
        finally:
            if asking in self._asking:
                self._asking.remove(asking)
        assert asking.failure is not None
        raise asking.failure

    async def answer(self, incoming: IncomingRequest) -> JSONObject:
        """Answer a request of the server: a ping, or a question of a legacy server.

        What a callback raises leaves the call that led to the question, as far as that is known;
        the server is told that there is no answer.
        """
        if incoming.method == "ping":
            return {}
        if incoming.method not in METHODS or not METHODS[incoming.method].server:
            raise MCPError(METHOD_NOT_FOUND, f"This client does not know {incoming.method!r}.")
        with self.peer.person_answering():
            try:
                return await self._answers.answer(incoming.method, incoming.params)
            except BadQuestion as error:
                raise error.answer from error
            except Exception as error:
                self._blame(incoming.method, error)
                if isinstance(error, MCPError):
                    raise
                raise MCPError(INTERNAL_ERROR, "The client failed to answer.") from error

    def _blame(self, method: str, error: Exception) -> None:
        if len(self._asking) == 1:
            self._asking[0].fail(error)
        elif not isinstance(error, MCPError):  # which is what the server was meant to hear
            logger.error("the client failed to answer %s", method, exc_info=error)


def _progress_reader(on_progress: OnProgress) -> ProgressCallback:
    def read(params: JSONObject) -> object:
        try:
            progress = structure(params, ProgressNotificationParams)
        except StructureError as error:
            logger.warning("skipped a malformed progress notification: %s", error)
            return None
        return on_progress(progress)

    return read
