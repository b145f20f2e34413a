"""Frames without end: what a client, or a server, might send, could send, and must not send.

Most frames are one step away from a sound message of the protocol, since what is only noise gets
no further than the codec. Some are sound, so that there is a conversation to disturb.
"""

from __future__ import annotations

import json
from random import Random
from typing import Any

from fuzz.mutation import TRAPS, copied, mutate_json, mutate_line
from mcp_trio.protocol import meta as keys
from mcp_trio.protocol.methods import METHODS
from mcp_trio.protocol.revisions import LEGACY, MODERN

JSONObject = dict[str, Any]

MODERN_META: JSONObject = {
    keys.PROTOCOL_VERSION: MODERN[-1],
    keys.CLIENT_INFO: {"name": "fuzz", "version": "1"},
    keys.CLIENT_CAPABILITIES: {
        "elicitation": {"form": {}, "url": {}},
        "roots": {"listChanged": True},
        "sampling": {"tools": {}},
    },
}
LEGACY_CAPABILITIES: JSONObject = {
    "elicitation": {},
    "roots": {"listChanged": True},
    "sampling": {},
}

ASKED: tuple[tuple[str, JSONObject], ...] = (
    ("ping", {}),
    ("server/discover", {}),
    ("tools/list", {}),
    ("tools/list", {"cursor": "MA"}),
    ("tools/call", {"name": "add", "arguments": {"a": 1, "b": 2}}),
    ("tools/call", {"name": "echo", "arguments": {"text": "h\u00e9 \u2028"}}),
    (
        "tools/call",
        {
            "name": "count",
            "arguments": {"to": 3, "delay": 0},
            "_meta": {"progressToken": "p"},
        },
    ),
    ("tools/call", {"name": "summarize", "arguments": {"numbers": [1, 2.5, -3]}}),
    ("tools/call", {"name": "logo", "arguments": {}}),
    ("tools/call", {"name": "fail", "arguments": {"reason": "no"}}),
    ("tools/call", {"name": "greet", "arguments": {}}),
    (
        "tools/call",
        {
            "name": "greet",
            "inputResponses": {"name": {"action": "accept", "content": {"name": "Ada"}}},
            "requestState": "x.y",
        },
    ),
    ("tools/call", {"name": "ask_model", "arguments": {"question": "why?"}}),
    ("tools/call", {"name": "roots", "arguments": {}}),
    ("tools/call", {"name": "write_note", "arguments": {"name": "a", "text": "b"}}),
    ("tools/call", {"name": "unknown"}),
    ("resources/list", {}),
    ("resources/templates/list", {}),
    ("resources/read", {"uri": "demo://about"}),
    ("resources/read", {"uri": "demo://notes/trio"}),
    ("resources/read", {"uri": "demo://notes/%2F%C3%A9"}),
    ("resources/subscribe", {"uri": "demo://notes/a"}),
    ("resources/unsubscribe", {"uri": "demo://notes/a"}),
    ("prompts/list", {}),
    ("prompts/get", {"name": "explain", "arguments": {"topic": "x", "length": "long"}}),
    (
        "completion/complete",
        {
            "ref": {"type": "ref/prompt", "name": "explain"},
            "argument": {"name": "audience", "value": "a"},
        },
    ),
    (
        "completion/complete",
        {
            "ref": {"type": "ref/resource", "uri": "demo://notes/{name}"},
            "argument": {"name": "name", "value": "t"},
            "context": {"arguments": {"x": "y"}},
        },
    ),
    ("logging/setLevel", {"level": "debug"}),
    (
        "subscriptions/listen",
        {"notifications": {"toolsListChanged": True, "resourceSubscriptions": ["demo://notes/a"]}},
    ),
    ("tasks/list", {}),
    ("x/unknown", {"a": 1}),
)
"""What a client asks, with params for the demo server."""

CLIENT_NOTICES: tuple[tuple[str, JSONObject], ...] = (
    ("notifications/initialized", {}),
    ("notifications/cancelled", {"requestId": 1, "reason": "bored"}),
    ("notifications/progress", {"progressToken": 1, "progress": 1, "total": 2}),
    ("notifications/roots/list_changed", {}),
    ("notifications/unknown", {"a": []}),
)

SERVER_NOTICES: tuple[tuple[str, JSONObject], ...] = (
    ("notifications/message", {"level": "info", "data": {"a": [1]}, "logger": "x"}),
    ("notifications/tools/list_changed", {}),
    ("notifications/prompts/list_changed", {}),
    ("notifications/resources/list_changed", {}),
    ("notifications/resources/updated", {"uri": "demo://notes/a"}),
    ("notifications/progress", {"progressToken": 1, "progress": 1, "message": "m"}),
    ("notifications/cancelled", {"requestId": 1}),
    (
        "notifications/subscriptions/acknowledged",
        {"notifications": {"toolsListChanged": True}, "_meta": {keys.SUBSCRIPTION_ID: 1}},
    ),
    ("notifications/elicitation/complete", {"elicitationId": "1"}),
)

QUESTIONS: tuple[tuple[str, JSONObject], ...] = (
    ("ping", {}),
    ("roots/list", {}),
    (
        "sampling/createMessage",
        {
            "messages": [{"role": "user", "content": {"type": "text", "text": "?"}}],
            "maxTokens": 10,
        },
    ),
    (
        "elicitation/create",
        {
            "message": "Who?",
            "requestedSchema": {
                "type": "object",
                "properties": {
                    "name": {"type": "string"},
                    "size": {"type": "string", "enum": ["s", "l"]},
                    "often": {"type": "integer", "default": 2},
                },
                "required": ["name"],
            },
        },
    ),
    (
        "elicitation/create",
        {"mode": "url", "message": "Go", "url": "https://example.org/", "elicitationId": "1"},
    ),
)
"""What a server asks."""

ANSWERS: dict[str, tuple[JSONObject, ...]] = {
    "ping": ({},),
    "roots/list": ({"roots": [{"uri": "file:///a", "name": "a"}]}, {"roots": []}),
    "sampling/createMessage": (
        {"role": "assistant", "model": "m", "content": {"type": "text", "text": "!"}},
        {
            "role": "assistant",
            "model": "m",
            "content": [{"type": "tool_use", "id": "1", "name": "t", "input": {}}],
            "stopReason": "toolUse",
        },
    ),
    "elicitation/create": (
        {"action": "accept", "content": {"name": "Ada", "nickname": None}},
        {"action": "decline"},
        {"action": "cancel"},
    ),
}
"""Sound answers of a client."""

_TOOL: JSONObject = {
    "name": "add",
    "title": "Add",
    "inputSchema": {"type": "object", "properties": {"a": {"type": "integer"}}},
    "outputSchema": {
        "type": "object",
        "properties": {"result": {"type": "integer"}},
        "required": ["result"],
    },
}
_HINT: JSONObject = {"ttlMs": 1000, "cacheScope": "private"}
_CAPABILITIES: JSONObject = {
    "tools": {"listChanged": True},
    "prompts": {"listChanged": True},
    "resources": {"listChanged": True, "subscribe": True},
    "logging": {},
    "completions": {},
}
_INFO: JSONObject = {"name": "fuzz", "version": "1"}

RESULTS: dict[str, tuple[JSONObject, ...]] = {
    "server/discover": (
        {"supportedVersions": list(MODERN), "capabilities": _CAPABILITIES, **_HINT},
        {"supportedVersions": list(LEGACY), "capabilities": {}, **_HINT},
    ),
    "initialize": tuple(
        {"protocolVersion": version, "capabilities": _CAPABILITIES, "serverInfo": _INFO}
        for version in LEGACY
    ),
    "ping": ({},),
    "logging/setLevel": ({},),
    "tools/list": (
        {"tools": [_TOOL], **_HINT},
        {"tools": [_TOOL, {**_TOOL, "name": "b"}], "nextCursor": "n", **_HINT},
        {"tools": []},
    ),
    "tools/call": (
        {"content": [{"type": "text", "text": "3"}], "structuredContent": {"result": 3}},
        {"content": [{"type": "image", "data": "aGk=", "mimeType": "image/png"}]},
        {"content": [{"type": "resource", "resource": {"uri": "a:b", "text": ""}}]},
        {"content": [], "isError": True},
        {
            "resultType": "input_required",
            "requestState": "s",
            "inputRequests": {
                "name": {"method": "elicitation/create", "params": QUESTIONS[3][1]},
                "roots": {"method": "roots/list"},
                "model": {"method": "sampling/createMessage", "params": QUESTIONS[2][1]},
            },
        },
        {"resultType": "input_required", "requestState": "s"},
        {
            "task": {
                "taskId": "1",
                "status": "working",
                "createdAt": "",
                "lastUpdatedAt": "",
                "ttl": None,
            }
        },
    ),
    "resources/list": ({"resources": [{"uri": "demo://about", "name": "about"}], **_HINT},),
    "resources/templates/list": (
        {"resourceTemplates": [{"uriTemplate": "demo://{name}", "name": "n"}], **_HINT},
    ),
    "resources/read": (
        {"contents": [{"uri": "demo://about", "text": "x", "mimeType": "text/plain"}], **_HINT},
        {"contents": [{"uri": "demo://about", "blob": "aGk="}]},
    ),
    "resources/subscribe": ({},),
    "resources/unsubscribe": ({},),
    "prompts/list": (
        {"prompts": [{"name": "explain", "arguments": [{"name": "topic"}]}], **_HINT},
    ),
    "prompts/get": (
        {"messages": [{"role": "user", "content": {"type": "text", "text": "?"}}]},
        {
            "messages": [
                {"role": "assistant", "content": {"type": "audio", "data": "", "mimeType": ""}}
            ]
        },
    ),
    "completion/complete": ({"completion": {"values": ["a"], "total": 1, "hasMore": False}},),
    "subscriptions/listen": ({"_meta": {keys.SUBSCRIPTION_ID: 1}}, {}),
}
"""Sound results of a server, of both eras."""

ERRORS: tuple[JSONObject, ...] = (
    {"code": -32700, "message": "parse"},
    {"code": -32600, "message": "request", "data": None},
    {"code": -32601, "message": "method"},
    {"code": -32602, "message": "params", "data": {"a": 1}},
    {"code": -32603, "message": "internal"},
    {"code": -32002, "message": "resource", "data": {"uri": "a:b"}},
    {"code": -32020, "message": "headers"},
    {"code": -32021, "message": "capability", "data": {"requiredCapabilities": {"sampling": {}}}},
    {"code": -32022, "message": "version", "data": {"supported": list(MODERN), "requested": "x"}},
    {"code": -32022, "message": "version", "data": {"supported": list(LEGACY)}},
    {"code": -32042, "message": "url", "data": {"elicitations": [QUESTIONS[4][1]]}},
    {"code": 7, "message": "own"},
)

NOISE = (
    b"Server running on stdio",
    b"[INFO] ready",
    b"{not json}",
    b"\xff\xfe",
    b"null",
    b"[]",
    b"[1,2]",
    b"{}",
    b'"text"',
    b"NaN",
    b'{"jsonrpc":"2.0","id":',
    b"[" * 600 + b"]" * 600,
    b'{"jsonrpc":"2.0","id":7,"method":"ping","params":'
    + b'{"a":' * 600
    + b"1"
    + b"}" * 600
    + b"}",
)


def written(value: Any, *, ascii_only: bool = False) -> bytes:
    """A frame of any JSON value; lone surrogates, which no frame can hold, as escapes."""
    text = json.dumps(value, ensure_ascii=ascii_only, separators=(",", ":"))
    return text.encode(errors="backslashreplace")


class Mill:
    """Makes frames.

    Args:
        random: Where all choices come from.
        modern: How many of the requests name a modern revision, from 0 to 1.
    """

    def __init__(self, random: Random, *, modern: float = 0.5) -> None:
        self.random = random
        self.modern = modern
        self._last_id = 0
        self._recent: list[Any] = [1]
        self._last_frame = b'{"jsonrpc":"2.0","id":0,"method":"ping"}'

    def reseed(self, seed: int) -> Mill:
        """Make the next choices from this seed, whatever was made before."""
        self.random.seed(seed)
        return self

    # As a client

    def opening(self, version: str | None = None) -> list[bytes]:
        """The handshake of a legacy session."""
        params = {
            "protocolVersion": version or self.random.choice(LEGACY),
            "capabilities": LEGACY_CAPABILITIES,
            "clientInfo": {"name": "fuzz", "version": "1"},
        }
        return [
            self._frame({"id": self.new_id(), "method": "initialize", "params": params}),
            self._frame({"method": "notifications/initialized"}),
        ]

    def from_client(self) -> bytes:
        """One frame to a server."""
        dice = self.random.random()
        if dice < 0.02:
            return self.random.choice(NOISE)
        if dice < 0.05:
            return self._batch([self._client_message() for _ in range(self.random.randint(0, 4))])
        return self._disturbed(self._client_message())

    def _client_message(self) -> JSONObject:
        dice = self.random.random()
        if dice < 0.75:
            method, params = self.random.choice(ASKED)
            params = copied(params)
            if self.random.random() < self.modern:
                params["_meta"] = {**MODERN_META, **params.get("_meta", {})}
            return {"id": self.new_id(), "method": method, "params": params}
        if dice < 0.78:
            return self._initialize()
        if dice < 0.93:
            return self._notice(CLIENT_NOTICES)
        return self._answer_to_nothing(self.random.choice(list(ANSWERS.values())))

    def _initialize(self) -> JSONObject:
        params = {
            "protocolVersion": self.random.choice([*LEGACY, *MODERN, "2099-01-01", ""]),
            "capabilities": LEGACY_CAPABILITIES,
            "clientInfo": _INFO,
        }
        return {"id": self.new_id(), "method": "initialize", "params": params}

    def next_round(self, method: str, params: JSONObject, result: JSONObject) -> bytes:
        """A request once more, with answers to the questions in its result."""
        answers = {
            key: copied(self.random.choice(ANSWERS.get(question["method"], ({},))))
            for key, question in result.get("inputRequests", {}).items()
        }
        again = {**params, "inputResponses": answers}
        if "requestState" in result:
            again["requestState"] = result["requestState"]
        return self._disturbed({"id": self.new_id(), "method": method, "params": again}, keep=0.6)

    # As a server

    def from_server(self) -> bytes:
        """One frame to a client that answers nothing it asked."""
        dice = self.random.random()
        if dice < 0.05:
            return self.random.choice(NOISE)
        if dice < 0.6:
            return self._disturbed(self._notice(SERVER_NOTICES))
        if dice < 0.8:
            method, params = self.random.choice(QUESTIONS)
            message = {"id": self.new_id(), "method": method, "params": copied(params)}
            return self._disturbed(message)
        return self._disturbed(self._answer_to_nothing(self.random.choice(list(RESULTS.values()))))

    # As either

    def answer(self, id: Any, method: str, samples: dict[str, tuple[JSONObject, ...]]) -> bytes:
        """One frame that answers a request, or should."""
        sound = samples.get(method, ({},))
        dice = self.random.random()
        if dice < 0.2:
            message: JSONObject = {"id": id, "error": copied(self.random.choice(ERRORS))}
        else:
            result = copied(self.random.choice(sound))
            if METHODS[method].client and self.random.random() < self.modern:
                result.setdefault("resultType", "complete")
            message = {"id": id, "result": result}
        return self._disturbed(message, keep=0.5)

    def _notice(self, notices: tuple[tuple[str, JSONObject], ...]) -> JSONObject:
        method, params = self.random.choice(notices)
        params = copied(params)
        for field in ("requestId", "progressToken"):
            if field in params:
                params[field] = self.random.choice(self._recent)
        return {"method": method, "params": params}

    def _answer_to_nothing(self, sound: tuple[JSONObject, ...]) -> JSONObject:
        id = self.random.choice([*self._recent[-3:], None, "x", 1])
        if self.random.random() < 0.5:
            return {"id": id, "error": copied(self.random.choice(ERRORS))}
        return {"id": id, "result": copied(self.random.choice(sound))}

    def new_id(self) -> Any:
        """Mostly a new id; sometimes an old one, or one that looks like it."""
        dice = self.random.random()
        if dice < 0.93:
            self._last_id += 1
            id: Any = self._last_id if self.random.random() < 0.7 else f"s{self._last_id}"
        elif dice < 0.96:
            id = self.random.choice(self._recent)
        elif dice < 0.98:
            id = str(self._last_id)
        else:
            id = self.random.choice(TRAPS)
        self._recent = [*self._recent[-20:], id]
        return id

    def _disturbed(self, message: JSONObject, *, keep: float = 0.3) -> bytes:
        """A message as a frame: as it is, or changed as JSON, or changed as bytes."""
        dice = self.random.random()
        if dice < keep:
            return self._frame(message)
        if dice < 0.85:
            times = self.random.choice([1, 1, 1, 2, 3])
            part = message.get("params", message.get("result"))
            if isinstance(part, dict) and self.random.random() < 0.8:
                name = "params" if "params" in message else "result"
                return self._frame({**message, name: mutate_json(self.random, part, times=times)})
            return written(mutate_json(self.random, {"jsonrpc": "2.0", **message}, times=times))
        frame = mutate_line(self.random, self._frame(message), self._last_frame)
        return frame.replace(b"\n", b" ") or b" "

    def _frame(self, message: JSONObject) -> bytes:
        frame = written({"jsonrpc": "2.0", **message}, ascii_only=self.random.random() < 0.2)
        self._last_frame = frame
        return frame

    def _batch(self, messages: list[JSONObject]) -> bytes:
        return b"[" + b",".join(map(self._disturbed, messages)) + b"]"
