"""What a handler has of the world: who asks, and how to talk back while answering.

A `Context` belongs to one request. It is the same in every revision; what differs between them
happens below it. Progress and log messages leave on the stream of the request and never after
its answer, whichever task they come from.
"""

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, Literal, TypeVar, get_args, overload

import attrs
import trio

from mcp_trio.incoming import IncomingRequest
from mcp_trio.protocol.convert import structure
from mcp_trio.protocol.revisions import supports
from mcp_trio.protocol.types.base import Implementation, LoggingLevel
from mcp_trio.server import asking
from mcp_trio.server.session import RequestInfo
from mcp_trio.wire.jsonrpc import JSONObject, RequestId

if TYPE_CHECKING:
    from mcp_trio.protocol.types.capabilities import ClientCapabilities
    from mcp_trio.protocol.types.roots import Root
    from mcp_trio.protocol.types.sampling import (
        CreateMessageResult,
        ModelPreferences,
        SamplingMessage,
        ToolChoice,
    )
    from mcp_trio.protocol.types.tools import Tool
    from mcp_trio.server.app import Server
    from mcp_trio.server.questions import Accepted, ElicitAnswer, Question, Refused

T = TypeVar("T")

#: Log levels, from the least severe to the most severe.
LOG_LEVELS: Final[tuple[LoggingLevel, ...]] = get_args(LoggingLevel)
_SEVERITY: Final = {level: severity for severity, level in enumerate(LOG_LEVELS)}


@attrs.define(eq=False)
class Context:
    """One request, as its handler sees it.

    Attributes:
        incoming: The request itself.
        info: What the request says of the client, in wire form.
        server: The server that the handler was registered with.
        lifespan: What the server's ``lifespan`` yielded; None without one.
    """

    incoming: IncomingRequest
    info: RequestInfo
    server: "Server"
    lifespan: Any
    dialogue: asking.Dialogue | None = attrs.field(default=None, init=False, repr=False)
    _progress: float = attrs.field(default=-math.inf, init=False, repr=False)

    # Who asks, and what for

    @property
    def request_id(self) -> RequestId:
        """The id of the request, exactly as the client chose it: 1 is not "1"."""
        return self.incoming.id

    @property
    def method(self) -> str:
        """The method, such as "tools/call"."""
        return self.incoming.method

    @property
    def params(self) -> JSONObject:
        """The params in wire form; empty if there are none."""
        return self.incoming.params

    @property
    def meta(self) -> JSONObject:
        """The request's ``_meta`` in wire form; empty if there is none."""
        return self.incoming.meta

    @property
    def protocol_version(self) -> str:
        """The revision that the request is under."""
        return self.info.version

    @property
    def principal(self) -> object:
        """Whoever the transport authenticated; None for nobody."""
        principal = self.incoming.principal
        return self.info.session.principal if principal is None else principal

    @property
    def client_info(self) -> Implementation | None:
        """The client's name and version, as it says itself; None if it does not say."""
        info = self.info.client_info
        return None if info is None else structure(info, Implementation)

    @property
    def client_capabilities(self) -> "ClientCapabilities":
        """What the client can do."""
        from mcp_trio.protocol.types.capabilities import ClientCapabilities

        return structure(self.info.client_capabilities, ClientCapabilities)

    # Talking back

    async def report_progress(
        self, progress: float, total: float | None = None, message: str | None = None
    ) -> None:
        """Tell the client how far the work is, if it asked for that with a progress token.

        Progress has to increase. A value that is not above the last one is dropped rather than
        refused: tasks that count what they have done may well overtake each other on the way
        here, and rounding makes two steps equal. `message` reaches clients of 2025-03-26 and
        later. (MCP 2026-07-28, basic/patterns/progress)

        Raises:
            ValueError: `progress` or `total` is NaN or infinite, whether or not anybody listens.
        """
        for name, value in (("progress", progress), ("total", total)):
            if value is not None and not math.isfinite(value):
                raise ValueError(f"{name} must be a finite number, not {value}")
        token = self.info.progress_token
        if token is None or progress <= self._progress:  # 0 and "" are tokens like any other
            await trio.lowlevel.checkpoint()
            return
        self._progress = progress
        params: JSONObject = {"progressToken": token, "progress": progress}
        if total is not None:
            params["total"] = total
        if message is not None and supports("progress_message", self.info.version):
            params["message"] = message
        await self.incoming.notify("notifications/progress", params)

    async def log(self, level: LoggingLevel, data: Any, logger: str | None = None) -> None:
        """Send the client a log message, if it wants to hear of this level.

        A modern client says so in each request, and hears nothing where it does not. A legacy
        client says so for its session with ``logging/setLevel``; until it does, the server's
        default holds. Never put secrets into a log message.
        (MCP 2026-07-28, server/utilities/logging)

        Args:
            level: "debug", "info", "notice", "warning", "error", "critical", "alert" or
                "emergency".
            data: Any JSON value, or objects that can be written as one.
            logger: Who says it.

        Raises:
            ValueError: There is no such level, whether or not anybody listens.
            TypeError, EncodeError: `data` cannot be sent as JSON.
        """
        severity = _SEVERITY.get(level)
        if severity is None:
            raise ValueError(
                f"there is no log level {level!r}; take one of {', '.join(LOG_LEVELS)}"
            )
        wanted = self._log_level()
        if wanted is None or severity < _SEVERITY.get(wanted, 0):  # type: ignore[call-overload]
            await trio.lowlevel.checkpoint()
            return
        from mcp_trio.server.jsonable import to_json

        params: JSONObject = {"level": level, "data": to_json(data)}
        if logger is not None:
            params["logger"] = logger
        await self.incoming.notify("notifications/message", params)

    def _log_level(self) -> str | None:
        """The level in force now: `logging/setLevel` may have come since this request did."""
        return (None if self.info.modern else self.info.session.log_level) or self.info.log_level

    async def close_stream(self, retry: float = 1.0) -> None:
        """Let the client hang up and come back later, while the work goes on.

        For work that takes long, where an open HTTP response is a burden. What is sent from now
        on, the answer included, waits until the client comes back for it. That is possible within
        a session over Streamable HTTP in 2025-11-25; elsewhere this does nothing.
        (MCP 2025-11-25, basic/transports, Sending Messages to the Server)

        Args:
            retry: Seconds that the client is asked to stay away. It may come earlier.

        Raises:
            ValueError: `retry` is negative or not finite.
        """
        if not 0 <= retry < math.inf:
            raise ValueError(f"retry must be a number of seconds from 0 on, not {retry}")
        close = self.info.session.close_stream
        if close is not None and supports("sse_polling", self.info.version):
            close(self.request_id, retry)
        await trio.lowlevel.checkpoint()

    # Asking (see `mcp_trio.server.asking` for what happens)

    @overload
    async def elicit(self, key: str, message: str, schema: type[T]) -> "ElicitAnswer[T]": ...
    @overload
    async def elicit(
        self, key: str, message: str, schema: Mapping[str, Any]
    ) -> "ElicitAnswer[JSONObject]": ...
    async def elicit(self, key: str, message: str, schema: Any) -> "ElicitAnswer[Any]":
        """Ask the user to fill in a form (2025-06-18 and later). Never ask for secrets like this.

        The client's user may accept, decline or dismiss it: look at ``answer.action``, which is
        "accept", "decline" or "cancel", before ``answer.content``.

        Args:
            key: Names this question among those of this request. Asking the same again under
                the same key gives the same answer; another question needs another key.
            message: What the user reads.
            schema: A class with flat, primitive fields (``answer.content`` is an instance), or a
                dict: of names and types, or a JSON Schema of that kind (it is a dict).

        Raises:
            CannotAsk: The client, its revision or this place cannot ask.
            RuntimeError: A shield stands between this and the handler, or it is another task than
                one of the handler's nurseries, or a thread (modern).
            TypeError: This is no form.
            MCPError: The client answered with an error, or with something unreadable.
        """
        from mcp_trio.server.questions import Elicit

        return await self._ask_one(key, Elicit(message, schema))

    async def elicit_url(
        self, key: str, message: str, url: str, *, elicitation_id: str | None = None
    ) -> "Accepted[None] | Refused":
        """Send the user to a web page (2025-11-25 and later), as for passwords and payments.

        "accept" means that the user agreed to open the page, not that they are done there. What
        came of it has to be found out in some other way.

        Args:
            elicitation_id: In 2025-11-25 each of these has an id; None makes one up. Choose it
                to send `elicitation_complete` later.

        Raises: As `elicit`.
        """
        from mcp_trio.server.questions import ElicitURL

        return await self._ask_one(key, ElicitURL(message, url, elicitation_id))

    async def elicitation_complete(self, elicitation_id: str) -> None:
        """Tell the client that the user is done on the web page, where the revision has that."""
        if supports("elicitation_id", self.info.version):
            params = {"elicitationId": elicitation_id}
            await self.info.session.peer.notify("notifications/elicitation/complete", params)
        else:
            await trio.lowlevel.checkpoint()

    async def sample(
        self,
        key: str,
        messages: "str | Sequence[SamplingMessage | JSONObject]",
        *,
        max_tokens: int,
        system_prompt: str | None = None,
        temperature: float | None = None,
        stop_sequences: Sequence[str] | None = None,
        model_preferences: "ModelPreferences | None" = None,
        include_context: Literal["none", "thisServer", "allServers"] | None = None,
        metadata: JSONObject | None = None,
        tools: "Sequence[Tool] | None" = None,
        tool_choice: "ToolChoice | None" = None,
    ) -> "CreateMessageResult":
        """Ask the client's model to go on from some messages.

        Args:
            messages: One text of the user, or the whole conversation.
            max_tokens: The most tokens that the model may produce.
            tools, tool_choice: From 2025-11-25, and only for clients that declare it.

        Raises: As `elicit`; `ValueError` where tool uses and tool results do not pair up.
        """
        from mcp_trio.server.questions import Sample

        question = Sample(
            messages,
            max_tokens=max_tokens,
            system_prompt=system_prompt,
            temperature=temperature,
            stop_sequences=stop_sequences,
            model_preferences=model_preferences,
            include_context=include_context,
            metadata=metadata,
            tools=tools,
            tool_choice=tool_choice,
        )
        return await self._ask_one(key, question)

    async def list_roots(self, key: str = "roots") -> "list[Root]":
        """Ask the client for its roots: the folders that it lets servers work in.

        Raises: As `elicit`.
        """
        from mcp_trio.server.questions import ListRoots

        return await self._ask_one(key, ListRoots())

    async def ask(self, questions: "Mapping[str, Question[Any]]") -> dict[str, Any]:
        """Ask several things at once: `Elicit`, `ElicitURL`, `Sample` and `ListRoots` by key.

        Returns the answers by the same keys, each as `elicit`, `elicit_url`, `sample` or
        `list_roots` return it. All are asked, or none.

        Raises: As `elicit`. Where several fail, the first failure is raised and the other
            questions are withdrawn.
        """
        return await asking.ask(self, questions)

    async def _ask_one(self, key: str, question: "Question[T]") -> T:
        answers = await asking.ask(self, {key: question})
        answer: T = answers[key]
        return answer
