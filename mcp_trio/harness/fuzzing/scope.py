"""What the strategies know of a target: what it has, and what may be asked of it."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cached_property
from typing import Final

import attrs
from hypothesis import strategies as st

from mcp_trio.harness.fuzzing.cases import Ask, Step
from mcp_trio.harness.fuzzing.schema_values import fitting
from mcp_trio.harness.model import Transport
from mcp_trio.harness.probe import Inventory
from mcp_trio.protocol.methods import METHODS, find_method
from mcp_trio.protocol.revisions import is_modern, supports
from mcp_trio.wire.jsonrpc import JSONObject

PLAIN: Final = (
    "ping",
    "server/discover",
    "tools/list",
    "resources/list",
    "resources/templates/list",
    "prompts/list",
    "tasks/list",
)
"""Requests that need no params."""


@attrs.frozen
class Scope:
    """A target as the strategies see it.

    Attributes:
        inventory: What it has.
        tools: Those of its tools that may be called.
        process: It is a process that we start for each connection.
        bytes: It is reached by plain bytes, so that framing is a question.
        network: It is reached by HTTP requests.
    """

    revision: str
    transport: Transport
    inventory: Inventory
    tools: tuple[JSONObject, ...]

    @property
    def process(self) -> bool:
        return self.transport == "stdio"

    @property
    def bytes(self) -> bool:
        return self.transport in ("stdio", "stream")

    @property
    def network(self) -> bool:
        return self.transport == "http"

    @property
    def is_modern(self) -> bool:
        return is_modern(self.revision)

    @cached_property
    def protected(self) -> frozenset[str]:
        """The names of the tools that may not be called."""
        allowed = {str(tool.get("name")) for tool in self.tools}
        return frozenset(str(tool.get("name")) for tool in self.inventory.tools) - allowed

    # Requests that every good client could make

    @cached_property
    def questions(self) -> dict[str, st.SearchStrategy[JSONObject | None]]:
        """The requests that this target should be able to answer, with their params."""
        found: dict[str, st.SearchStrategy[JSONObject | None]] = {}
        for name, params in {**self._plain(), **self._about_things()}.items():
            row = find_method(name, "client", self.revision)
            capability = row and row.needs(self.revision)
            if row and (capability is None or self.inventory.has(capability)):
                found[name] = params
        return found

    def _plain(self) -> dict[str, st.SearchStrategy[JSONObject | None]]:
        nothing: st.SearchStrategy[JSONObject | None] = st.sampled_from([None, {}])
        levels = st.sampled_from(["debug", "info", "warning", "emergency"])
        plain = dict.fromkeys(PLAIN, nothing)
        plain["logging/setLevel"] = st.fixed_dictionaries({"level": levels})
        plain["subscriptions/listen"] = st.sampled_from(
            [
                {"notifications": {}},
                {"notifications": {"toolsListChanged": True, "promptsListChanged": True}},
                {"notifications": {"resourceSubscriptions": self.uris or ["file:///x"]}},
            ]
        )
        return plain

    def _about_things(self) -> dict[str, st.SearchStrategy[JSONObject | None]]:
        found: dict[str, st.SearchStrategy[JSONObject | None]] = {}
        if self.tools:
            found["tools/call"] = st.one_of(*map(_call, self.tools))
        if self.uris:
            uri = st.fixed_dictionaries({"uri": st.sampled_from(self.uris)})
            for name in ("resources/read", "resources/subscribe", "resources/unsubscribe"):
                found[name] = uri
        if prompts := self.inventory.prompts:
            found["prompts/get"] = st.one_of(*map(_prompt, prompts))
            found["completion/complete"] = st.one_of(*map(_completion, prompts))
        return found

    @cached_property
    def uris(self) -> list[str]:
        return [str(resource.get("uri")) for resource in self.inventory.resources][:20]

    @cached_property
    def asks(self) -> st.SearchStrategy[Ask]:
        """Requests that the target should be able to answer; `numbered` gives them their ids."""
        token = st.booleans()
        return st.one_of(
            *(
                st.builds(Ask, st.just(1), st.just(name), params, st.none(), token)
                for name, params in self.questions.items()
            )
        )

    @cached_property
    def strange_methods(self) -> list[str]:
        """Methods that no client can send in this revision, and some that nobody knows."""
        known = [name for name in METHODS if find_method(name, "client", self.revision) is None]
        return [
            *known,
            "",
            "tools",
            "tools/",
            "Tools/List",
            "rpc.discover",
            "harness/nothing",
            "a" * 2000,
        ]

    def has(self, feature: str) -> bool:
        return supports(feature, self.revision)


def numbered(steps: Iterable[Step], first: int = 1) -> tuple[Step, ...]:
    """The steps, each request among them with a number of its own."""
    return tuple(
        attrs.evolve(step, id=number) if isinstance(step, Ask) else step
        for number, step in enumerate(steps, first)
    )


def _call(tool: JSONObject) -> st.SearchStrategy[JSONObject | None]:
    schema = tool.get("inputSchema")
    arguments = fitting(schema if isinstance(schema, dict) else {})
    return st.fixed_dictionaries({"name": st.just(tool.get("name")), "arguments": arguments})


def _prompt(prompt: JSONObject) -> st.SearchStrategy[JSONObject | None]:
    listed = prompt.get("arguments")
    listed = [a for a in listed if isinstance(a, dict)] if isinstance(listed, list) else []
    words = st.sampled_from(["a", "short", "", "x\u2028y", "1"])
    required = {str(a.get("name")): words for a in listed if a.get("required")}
    optional = {str(a.get("name")): words for a in listed if not a.get("required")}
    arguments = st.fixed_dictionaries(required, optional=optional)
    return st.fixed_dictionaries({"name": st.just(prompt.get("name")), "arguments": arguments})


def _completion(prompt: JSONObject) -> st.SearchStrategy[JSONObject | None]:
    listed = prompt.get("arguments")
    names = (
        [a.get("name") for a in listed if isinstance(a, dict)] if isinstance(listed, list) else []
    )
    argument = st.fixed_dictionaries(
        {"name": st.sampled_from(names or ["x"]), "value": st.sampled_from(["", "a", "é"])}
    )
    reference = st.just({"type": "ref/prompt", "name": prompt.get("name")})
    return st.fixed_dictionaries({"ref": reference, "argument": argument})
