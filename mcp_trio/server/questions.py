"""What a server can ask its client: the user, the model, the roots.

A question knows four things and does nothing: the revisions it needs, the capability that the
client must have declared, how it looks on the wire, and how to read its answer. How it travels
is the business of `mcp_trio.server.asking`.
(MCP 2026-07-28, client/elicitation, client/sampling and client/roots)
"""

import uuid
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from typing import Any, ClassVar, Generic, Literal, TypeAlias, TypeVar
from urllib.parse import urlsplit

import attrs

from mcp_trio.protocol.convert import structure, unstructure
from mcp_trio.protocol.revisions import LATEST, supports
from mcp_trio.protocol.types.roots import ListRootsResult, Root
from mcp_trio.protocol.types.sampling import (
    CreateMessageResult,
    ModelPreferences,
    SamplingMessage,
    ToolChoice,
)
from mcp_trio.protocol.types.tools import Tool
from mcp_trio.wire.jsonrpc import JSONObject

T = TypeVar("T")
AnswerT = TypeVar("AnswerT")


@attrs.frozen
class Accepted(Generic[T]):
    """The user agreed; ``content`` is what was filled in, None where there was no form."""

    content: T
    action: Literal["accept"] = attrs.field(default="accept", init=False)


@attrs.frozen
class Refused:
    """The user said no ("decline") or went away without saying anything ("cancel")."""

    action: Literal["decline", "cancel"]
    content: None = attrs.field(default=None, init=False)


ElicitAnswer: TypeAlias = Accepted[T] | Refused
"""What became of a question to the user; ``action == "accept"`` tells the two apart."""


class Question(ABC, Generic[AnswerT]):
    """Something to ask the client. Two questions are the same if they compare equal."""

    method: ClassVar[str]

    @abstractmethod
    def features(self) -> Iterator[str]:
        """The features, of `mcp_trio.protocol.revisions`, that the revision must have."""

    @abstractmethod
    def missing(self, capabilities: JSONObject) -> JSONObject:
        """What the client would have to declare besides, as a ClientCapabilities object."""

    @abstractmethod
    def params(self, version: str) -> JSONObject | None:
        """The params of the request, in wire form.

        Raises:
            TypeError, ValueError: This can be asked in no revision.
        """

    @abstractmethod
    def read(self, result: Any) -> AnswerT:
        """The answer in the result that the client sent.

        Raises:
            ValueError: The result is not what was asked for; the message says where.
        """


@attrs.frozen
class Elicit(Question[ElicitAnswer[Any]]):
    """Asks the user to fill in a form; see `Context.elicit`."""

    method: ClassVar[str] = "elicitation/create"
    message: str
    schema: Any

    def features(self) -> Iterator[str]:
        yield "elicitation"

    def missing(self, capabilities: JSONObject) -> JSONObject:
        declared = capabilities.get("elicitation")
        # An empty object is how clients declared forms before there was anything else.
        if isinstance(declared, dict) and ("form" in declared or "url" not in declared):
            return {}
        return {"elicitation": {"form": {}}}

    def params(self, version: str) -> JSONObject:
        from mcp_trio.server.elicitation import form

        asked = {"message": self.message, "requestedSchema": form(self.schema, version).schema}
        return {"mode": "form", **asked} if supports("elicitation_url", version) else asked

    def read(self, result: Any) -> ElicitAnswer[Any]:
        from mcp_trio.server.elicitation import form

        action = _read_action(result)
        if action != "accept":
            return Refused(action)
        return Accepted(form(self.schema, LATEST).structure(result.get("content", {})))


@attrs.frozen
class ElicitURL(Question[ElicitAnswer[None]]):
    """Sends the user to a web page; see `Context.elicit_url`."""

    method: ClassVar[str] = "elicitation/create"
    message: str
    url: str
    elicitation_id: str | None = None

    def features(self) -> Iterator[str]:
        yield "elicitation_url"

    def missing(self, capabilities: JSONObject) -> JSONObject:
        declared = capabilities.get("elicitation")
        if isinstance(declared, dict) and "url" in declared:
            return {}
        return {"elicitation": {"url": {}}}

    def params(self, version: str) -> JSONObject:
        if not urlsplit(self.url).scheme:
            raise ValueError(f"{self.url!r} is no URL that a user could open; it needs a scheme")
        asked = {"mode": "url", "message": self.message, "url": self.url}
        if supports("elicitation_id", version):
            asked["elicitationId"] = self.elicitation_id or str(uuid.uuid4())
        return asked

    def read(self, result: Any) -> ElicitAnswer[None]:
        action = _read_action(result)
        return Accepted(None) if action == "accept" else Refused(action)


@attrs.frozen
class Sample(Question[CreateMessageResult]):
    """Asks the client's model; see `Context.sample`."""

    method: ClassVar[str] = "sampling/createMessage"
    messages: str | Sequence[SamplingMessage | JSONObject]
    max_tokens: int = attrs.field(kw_only=True)
    system_prompt: str | None = attrs.field(default=None, kw_only=True)
    temperature: float | None = attrs.field(default=None, kw_only=True)
    stop_sequences: Sequence[str] | None = attrs.field(default=None, kw_only=True)
    model_preferences: ModelPreferences | JSONObject | None = attrs.field(
        default=None, kw_only=True
    )
    include_context: Literal["none", "thisServer", "allServers"] | None = attrs.field(
        default=None, kw_only=True
    )
    metadata: JSONObject | None = attrs.field(default=None, kw_only=True)
    tools: Sequence[Tool | JSONObject] | None = attrs.field(default=None, kw_only=True)
    tool_choice: ToolChoice | JSONObject | None = attrs.field(default=None, kw_only=True)

    def _with_tools(self) -> bool:
        return self.tools is not None or self.tool_choice is not None

    def _conversation(self) -> list[JSONObject]:
        if isinstance(self.messages, str):
            return [{"role": "user", "content": {"type": "text", "text": self.messages}}]
        return [unstructure(message) for message in self.messages]

    def features(self) -> Iterator[str]:
        messages = self._conversation()
        kinds = {block.get("type") for message in messages for block in _blocks(message)}
        if self._with_tools() or kinds & {"tool_use", "tool_result"}:
            yield "sampling_tools"
        elif any(isinstance(message.get("content"), list) for message in messages):
            yield "sampling_tools"  # lists of content came along with tools
        if "audio" in kinds:
            yield "audio"

    def missing(self, capabilities: JSONObject) -> JSONObject:
        declared = capabilities.get("sampling")
        if self._with_tools():
            satisfied = isinstance(declared, dict) and "tools" in declared
            return {} if satisfied else {"sampling": {"tools": {}}}
        return {} if isinstance(declared, dict) else {"sampling": {}}

    def params(self, version: str) -> JSONObject:
        messages = self._conversation()
        check_tool_results(messages)
        optional = {
            "systemPrompt": self.system_prompt,
            "temperature": self.temperature,
            "stopSequences": self.stop_sequences and list(self.stop_sequences),
            "modelPreferences": self.model_preferences,
            "includeContext": self.include_context,
            "metadata": self.metadata,
            "tools": self.tools and list(self.tools),
            "toolChoice": self.tool_choice,
        }
        given = {name: unstructure(value) for name, value in optional.items() if value is not None}
        return {"messages": messages, "maxTokens": self.max_tokens, **given}

    def read(self, result: Any) -> CreateMessageResult:
        return structure(result, CreateMessageResult)


@attrs.frozen
class ListRoots(Question[list[Root]]):
    """Asks for the client's roots; see `Context.list_roots`."""

    method: ClassVar[str] = "roots/list"

    def features(self) -> Iterator[str]:
        yield from ()

    def missing(self, capabilities: JSONObject) -> JSONObject:
        return {} if isinstance(capabilities.get("roots"), dict) else {"roots": {}}

    def params(self, version: str) -> None:
        return None

    def read(self, result: Any) -> list[Root]:
        return structure(result, ListRootsResult).roots


def _read_action(result: Any) -> Any:
    if not isinstance(result, dict):
        raise ValueError("the answer to an elicitation is an object")
    action = result.get("action")
    if action not in ("accept", "decline", "cancel"):
        text = f"expected 'accept', 'decline' or 'cancel', not {action!r:.60}"
        raise ValueError(f"action: {text}")
    return action


def _blocks(message: JSONObject) -> list[JSONObject]:
    content = message.get("content", [])
    return content if isinstance(content, list) else [content]


def check_tool_results(messages: Sequence[JSONObject]) -> None:
    """Hold a conversation to the rule that models' interfaces share.

    The message after one with tool uses consists of their results, each use has one, and results
    stand nowhere else. (MCP 2025-11-25, client/sampling, "Tool Use and Result Balance")

    Raises:
        ValueError: They do not pair up, and this is where.
    """
    uses: set[Any] = set()
    for place, message in enumerate(messages):
        blocks = _blocks(message)
        results = [b.get("toolUseId") for b in blocks if b.get("type") == "tool_result"]
        if results and len(results) != len(blocks):
            raise ValueError(f"messages[{place}] mixes tool results with other content")
        if set(results) != uses:
            what = f"the tool uses {sorted(map(str, uses))}, with {sorted(map(str, results))}"
            raise ValueError(f"messages[{place}] must answer exactly {what}")
        uses = {b.get("id") for b in blocks if b.get("type") == "tool_use"}
    if uses:
        raise ValueError(f"the tool uses {sorted(map(str, uses))} have no results after them")
