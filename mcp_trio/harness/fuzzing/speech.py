"""How the harness says a thing in one revision: the frames of the steps that say what is meant."""

from __future__ import annotations

from typing import Final

from mcp_trio.harness.fuzzing.cases import Answers, Ask, Cancel, Flood, Tell
from mcp_trio.harness.session import ANSWERERS, CLIENT_INFO, capabilities_for, dump
from mcp_trio.protocol import meta as keys
from mcp_trio.protocol.revisions import is_modern
from mcp_trio.wire.jsonrpc import JSON, JSONObject, RequestId

FIRST_ID: Final = 1_000
"""Numbers below it are left to the strategies that write ids themselves."""


class Speech:
    """Makes frames.

    Attributes:
        base: What is added to the ids of a case, so that no id is used twice on a connection.
    """

    def __init__(self, revision: str) -> None:
        self.revision = revision
        self.is_modern = is_modern(revision)
        self.base = FIRST_ID
        self._meta: JSONObject = {}
        if self.is_modern:
            self._meta = {
                keys.PROTOCOL_VERSION: revision,
                keys.CLIENT_INFO: CLIENT_INFO,
                keys.CLIENT_CAPABILITIES: capabilities_for(revision),
            }

    def request(
        self,
        id: RequestId,
        method: str,
        params: JSONObject | None = None,
        meta: JSONObject | None = None,
        token: RequestId | None = None,
    ) -> bytes:
        """A request, with the `_meta` that the revision asks for."""
        merged = {**self._meta, **(meta or {})}
        if token is not None:
            merged["progressToken"] = token
        merged = {key: value for key, value in merged.items() if value is not None}
        message: JSONObject = {"jsonrpc": "2.0", "id": id, "method": method}
        if params is not None or merged:
            message["params"] = dict(params or {})
        if merged:
            message["params"] = {"_meta": merged, **message["params"]}
        return dump(message)

    def ask(self, step: Ask) -> bytes:
        id = self.base + step.id
        return self.request(id, step.method, step.params, step.meta, id if step.token else None)

    def tell(self, step: Tell) -> bytes:
        message: JSONObject = {"jsonrpc": "2.0", "method": step.method}
        if step.params is not None:
            message["params"] = step.params
        return dump(message)

    def cancel(self, id: RequestId) -> bytes:
        params = {"requestId": id, "reason": "the harness does not need it any more"}
        return self.tell(Tell("notifications/cancelled", params))

    def cancel_step(self, step: Cancel) -> bytes:
        return self.cancel(self.base + step.id)

    def flood(self, step: Flood, number: int) -> bytes:
        return self.request(self.base + step.id + number, step.method, step.params)

    @property
    def hello(self) -> JSONObject:
        """The params of `initialize`."""
        return {
            "protocolVersion": self.revision,
            "capabilities": capabilities_for(self.revision),
            "clientInfo": CLIENT_INFO,
        }

    def initialize(self, id: RequestId) -> bytes:
        return self.request(id, "initialize", self.hello)

    def fence(self, id: RequestId) -> bytes:
        """A request that every server answers."""
        return self.request(id, "server/discover" if self.is_modern else "ping")

    def answer(self, request: JSONObject, how: Answers, number: int) -> bytes | None:
        """The answer to a request of the peer; None if there shall be none."""
        outcome: JSONObject
        if how == "never":
            return None
        if how == "errors":
            outcome = {"error": {"code": -32603, "message": "the harness refuses"}}
        elif how == "odd":
            outcome = {"result": _ODD_RESULTS[number % len(_ODD_RESULTS)]}
        elif (answerer := ANSWERERS.get(str(request.get("method")))) is not None:
            outcome = answerer(request)
        else:
            outcome = {"error": {"code": -32601, "message": "no such method"}}
        return dump({"jsonrpc": "2.0", "id": request.get("id"), **outcome})


_ODD_RESULTS: Final[tuple[JSON, ...]] = (
    {},
    {"action": "accept"},
    {"action": "accept", "content": {"name": 5, "nickname": [None]}},
    {"roots": None},
    {"roots": [{"uri": 1}]},
    {"roots": [{"uri": "not a uri"}, {}]},
    {"role": "assistant", "content": [], "model": 3},
    {"role": "nobody", "content": {"type": "hologram"}, "model": ""},
    {"action": "accept", "content": {"name": "\ud800"}},
    [],
    None,
    "text",
    {"_meta": 5},
)
"""Results that answer no request of a server as it should be."""
