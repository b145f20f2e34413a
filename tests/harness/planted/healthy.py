"""A small MCP server over stdio, in both eras, made of nothing but the standard library.

It is what the planted servers are made from, so that the harness meets code that shares nothing
with the harness's own. One thread reads and answers; a slow tool has a thread of its own, which
looks at `Call.cancelled`. Each step is a method, so that a fault can be planted in one of them.
"""

from __future__ import annotations

import json
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from typing import Any, TypeGuard

Object = dict[str, Any]

LEGACY, MODERN = "2025-11-25", "2026-07-28"
INFO = {"name": "healthy", "version": "1"}
CAPABILITIES: Object = {"tools": {}, "resources": {}, "prompts": {}, "logging": {}}
LEVELS = ["debug", "info", "notice", "warning", "error", "critical", "alert", "emergency"]
PAGE = 3
KEY = "io.modelcontextprotocol/"

INTEGER = {"type": "integer", "minimum": -(10**18), "maximum": 10**18}
STRING = {"type": "string"}
#: name: what it does, the properties of its arguments, those of its result (None: text only)
TOOLS: dict[str, tuple[str, Object, Object | None]] = {
    "add": ("Add two whole numbers.", {"a": INTEGER, "b": INTEGER}, {"sum": {"type": "integer"}}),
    "echo": ("Say the same again.", {"text": STRING}, None),
    "slow": (
        "Take some steps, and report progress.",
        {
            "steps": {"type": "integer", "minimum": 1, "maximum": 10, "default": 5},
            "delay": {"type": "number", "minimum": 0, "maximum": 0.2, "default": 0.1},
        },
        None,
    ),
    "list": (
        "List the first whole numbers.",
        {"count": {"type": "integer", "minimum": 0, "maximum": 100}},
        {"items": {"type": "array", "items": INTEGER}},
    ),
}
MEMOS = {f"memo:{name}": f"The {name} memo." for name in ("first", "second", "third", "last")}
PROMPT: Object = {
    "name": "explain",
    "description": "Ask a model to explain something.",
    "arguments": [{"name": "topic", "required": True}, {"name": "audience"}],
}


class Refused(Exception):
    """A request that gets an error."""

    def __init__(self, code: int, message: str, data: object = None) -> None:
        super().__init__(message)
        self.error: Object = {"code": code, "message": message}
        if data is not None:
            self.error["data"] = data


class Call:
    """A request, from when it is read until it is answered or cancelled."""

    def __init__(self, id: str | int, method: str, params: Object) -> None:
        self.id = id
        self.method = method
        self.params = params
        meta = params.get("_meta", {})
        if not isinstance(meta, dict):
            raise Refused(-32602, "_meta has to be an object")
        self.meta: Object = meta
        self.modern = f"{KEY}protocolVersion" in meta
        self.token = meta.get("progressToken")
        if "progressToken" in meta and not is_id(self.token):
            raise Refused(-32602, "progressToken has to be a string or an integer")
        self.cancelled = threading.Event()


class Server:
    def __init__(self) -> None:
        self.lock = threading.RLock()
        self.calls: dict[str | int, Call] = {}
        self.initialized = False
        self.level: str | None = None
        lists = {
            "tools/list": self.tools_list,
            "tools/call": self.tools_call,
            "resources/list": self.resources_list,
            "resources/templates/list": lambda call: self.page(call, "resourceTemplates", []),
            "resources/read": self.resources_read,
            "prompts/list": lambda call: self.page(call, "prompts", [PROMPT]),
            "prompts/get": self.prompts_get,
        }
        self.methods: dict[bool, Mapping[str, Callable[[Call], Object | None]]] = {
            True: {**lists, "server/discover": self.discover, "subscriptions/listen": self.listen},
            False: {
                **lists,
                "initialize": self.initialize,
                "ping": lambda call: {},
                "logging/setLevel": self.set_level,
            },
        }

    # Bytes and lines

    def run(self) -> None:
        """Serve until stdin ends."""
        for line in self.lines():
            if line.strip():
                self.take(line)
        for call in list(self.calls.values()):
            call.cancelled.set()

    def lines(self) -> Iterator[bytes]:
        return iter(sys.stdin.buffer.readline, b"")

    def parse(self, line: bytes) -> object:
        return json.loads(line.decode(), parse_constant=no_constant)

    def take(self, line: bytes) -> None:
        try:
            message = self.parse(line)
        except (ValueError, RecursionError):
            self.write({"error": {"code": -32700, "message": "this is not JSON"}})
        else:
            self.handle(message)

    def write(self, message: Object) -> None:
        line = json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n"
        with self.lock:
            sys.stdout.buffer.write(line)
            sys.stdout.buffer.flush()

    # Messages

    def handle(self, message: object) -> None:
        """Do what a message asks for."""
        fields = message if isinstance(message, dict) else {}
        id, method, params = fields.get("id"), fields.get("method"), fields.get("params", {})
        if "method" not in fields and ("result" in fields or "error" in fields):
            return  # An answer, and nothing was asked.
        if "id" not in fields and isinstance(method, str):
            self.notified(method, params if isinstance(params, dict) else {})
        elif not is_id(id):
            self.write({"error": {"code": -32600, "message": "this is no message"}})
        elif not (fields.get("jsonrpc") == "2.0" and isinstance(method, str)):
            self.write({"id": id, "error": {"code": -32600, "message": "this is no request"}})
        elif not isinstance(params, dict):
            self.write({"id": id, "error": {"code": -32602, "message": "params are an object"}})
        elif id in self.calls:
            self.write({"id": id, "error": {"code": -32600, "message": "this id is in use"}})
        else:
            self.answer(id, method, params)

    def answer(self, id: str | int, method: str, params: Object) -> None:
        """Answer a request, now or from a thread."""
        try:
            call = Call(id, method, params)
            self.calls[id] = call
            found = self.method(call)(call)
        except Refused as exc:
            self.calls.pop(id, None)
            self.write({"id": id, "error": exc.error})
        else:
            if found is not None:
                self.finish(call, found)

    def method(self, call: Call) -> Callable[[Call], Object | None]:
        if call.modern:
            self.check_meta(call.meta)
        elif not self.initialized and call.method not in ("initialize", "ping"):
            raise Refused(-32602, f"send initialize first, or name a version in {KEY}...")
        if call.method not in self.methods[call.modern]:
            raise Refused(-32601, "there is no such method")
        return self.methods[call.modern][call.method]

    def check_meta(self, meta: Object) -> None:
        version = meta[f"{KEY}protocolVersion"]
        if not isinstance(version, str) or not isinstance(
            meta.get(f"{KEY}clientCapabilities"), dict
        ):
            raise Refused(-32602, f"{KEY}protocolVersion and {KEY}clientCapabilities are required")
        if version != MODERN:
            data = {"supported": [MODERN], "requested": version}
            raise Refused(-32022, "unsupported protocol version", data)
        if meta.get(f"{KEY}logLevel", "info") not in LEVELS:
            raise Refused(-32602, "there is no such level")

    def finish(self, call: Call, result: Object) -> None:
        """Answer a call with a result, unless it was cancelled."""
        if call.modern:
            result = {"resultType": "complete", **result}
            result["_meta"] = {**result.get("_meta", {}), f"{KEY}serverInfo": INFO}
            if call.method.endswith(("/list", "/read", "/discover")):
                result |= {"ttlMs": 0, "cacheScope": "private"}
        with self.lock:
            if self.calls.pop(call.id, None) is call:
                self.write({"id": call.id, "result": result})

    def say(self, call: Call, method: str, params: Object) -> None:
        """Send a notification that belongs to a call, unless it was cancelled."""
        with self.lock:
            if self.calls.get(call.id) is call:
                self.write({"method": method, "params": params})

    def notified(self, method: str, params: Object) -> None:
        if method == "notifications/cancelled" and is_id(id := params.get("requestId")):
            with self.lock:
                call = self.calls.get(id)
                if call is not None and call.method != "initialize":
                    self.cancel(call)

    def cancel(self, call: Call) -> None:
        del self.calls[call.id]
        call.cancelled.set()

    # Methods

    def initialize(self, call: Call) -> Object:
        wanted = [call.params.get(k) for k in ("protocolVersion", "capabilities", "clientInfo")]
        if [type(value) for value in wanted] != [str, dict, dict]:
            raise Refused(-32602, "initialize needs protocolVersion, capabilities and clientInfo")
        self.initialized = True
        return {"protocolVersion": LEGACY, "capabilities": CAPABILITIES, "serverInfo": INFO}

    def discover(self, call: Call) -> Object:
        return {"supportedVersions": [MODERN], "capabilities": CAPABILITIES}

    def listen(self, call: Call) -> None:
        """Nothing here ever changes, so there is nothing to promise, and nothing comes."""
        wanted = call.params.get("notifications")
        kinds = {"resourceSubscriptions": list}
        if not isinstance(wanted, dict) or not all(
            isinstance(value, kinds.get(name, bool)) for name, value in wanted.items()
        ):
            raise Refused(-32602, "notifications have to say what is wanted")
        meta = {f"{KEY}subscriptionId": call.id}
        params = {"notifications": {}, "_meta": meta}
        self.say(call, "notifications/subscriptions/acknowledged", params)

    def set_level(self, call: Call) -> Object:
        if call.params.get("level") not in LEVELS:
            raise Refused(-32602, "there is no such level")
        self.level = call.params["level"]
        return {}

    def page(self, call: Call, items: str, every: list[Object]) -> Object:
        start, cursor = 0, call.params.get("cursor")
        if "cursor" in call.params:
            starts = {f"after-{n}": n for n in range(PAGE, len(every), PAGE)}
            if not isinstance(cursor, str) or cursor not in starts:
                raise Refused(-32602, "there is no such page")
            start = starts[cursor]
        more = {"nextCursor": f"after-{start + PAGE}"} if start + PAGE < len(every) else {}
        return {items: every[start : start + PAGE], **more}

    def tools_list(self, call: Call) -> Object:
        tools: list[Object] = []
        for name, (description, properties, output) in TOOLS.items():
            tool: Object = {"name": name, "description": description}
            tool["inputSchema"] = schema(properties)
            if output is not None:
                tool["outputSchema"] = schema(output)
            tools.append({**tool, "annotations": {"readOnlyHint": True}})
        return self.page(call, "tools", tools)

    def tools_call(self, call: Call) -> Object | None:
        name, arguments = call.params.get("name"), call.params.get("arguments", {})
        if not isinstance(name, str) or name not in TOOLS:
            raise Refused(-32602, "there is no such tool")
        if not isinstance(arguments, dict):
            raise Refused(-32602, "arguments have to be an object")
        if wrong := refusal(schema(TOOLS[name][1]), arguments):
            return {"content": [{"type": "text", "text": wrong}], "isError": True}
        if name == "slow":
            threading.Thread(target=self.slow, args=(call, arguments)).start()
            return None
        return self.tool(call, name, arguments)

    def tool(self, call: Call, name: str, arguments: Object) -> Object:
        if name == "echo":
            return self.text(arguments["text"])
        if name == "add":
            found: Object = {"sum": int(arguments["a"]) + int(arguments["b"])}
        else:
            found = {"items": list(range(int(arguments["count"])))}
        return {**self.text(json.dumps(found)), "structuredContent": found}

    def text(self, text: str) -> Object:
        return {"content": [{"type": "text", "text": text}]}

    def slow(self, call: Call, arguments: Object) -> None:
        steps, delay = int(arguments.get("steps", 5)), arguments.get("delay", 0.1)
        self.log(call, f"{steps} steps")
        for step in range(1, steps + 1):
            if call.cancelled.wait(delay):
                self.stopped(call)
                return
            self.progress(call, step, steps)
        self.finish(call, self.text(f"took {steps} steps"))

    def stopped(self, call: Call) -> None:
        """A slow tool has seen that it was cancelled."""

    def progress(self, call: Call, step: int, steps: int) -> None:
        if call.token is not None:
            params = {"progressToken": call.token, "progress": step, "total": steps}
            self.say(call, "notifications/progress", params)

    def log(self, call: Call, text: str) -> None:
        level = call.meta.get(f"{KEY}logLevel") if call.modern else self.level
        if level in ("debug", "info"):
            self.say(call, "notifications/message", {"level": "info", "data": text})

    def resources_list(self, call: Call) -> Object:
        every: list[Object] = [{"uri": uri, "name": uri[5:]} for uri in MEMOS]
        return self.page(call, "resources", every)

    def resources_read(self, call: Call) -> Object:
        uri = call.params.get("uri")
        if not isinstance(uri, str):
            raise Refused(-32602, "uri has to be a string")
        if uri not in MEMOS:
            raise Refused(-32602 if call.modern else -32002, "there is no such memo", {"uri": uri})
        return {"contents": [{"uri": uri, "mimeType": "text/plain", "text": MEMOS[uri]}]}

    def prompts_get(self, call: Call) -> Object:
        arguments = call.params.get("arguments", {})
        if call.params.get("name") != PROMPT["name"]:
            raise Refused(-32602, "there is no such prompt")
        if not isinstance(arguments, dict) or not all(type(v) is str for v in arguments.values()):
            raise Refused(-32602, "arguments have to be strings")
        if "topic" not in arguments or arguments.keys() - {"topic", "audience"}:
            raise Refused(-32602, "explain takes a topic and perhaps an audience")
        text = f"Explain {arguments['topic']} to {arguments.get('audience', 'a beginner')}."
        return {"messages": [{"role": "user", "content": {"type": "text", "text": text}}]}


def is_id(value: object) -> TypeGuard[str | int]:
    return isinstance(value, (str, int)) and not isinstance(value, bool)


def no_constant(name: str) -> object:
    raise ValueError(f"JSON has no {name}")


def schema(properties: Object) -> Object:
    required = [name for name, value in properties.items() if "default" not in value]
    return {
        "type": "object",
        "properties": properties,
        "required": required,
        "additionalProperties": False,
    }


def refusal(schema: Object, arguments: Object) -> str:
    """Why arguments do not fit the schema of a tool; empty if they do."""
    for name in schema["required"]:
        if name not in arguments:
            return f"{name} is missing"
    for name, value in arguments.items():
        wanted = schema["properties"].get(name)
        if wanted is None:
            return f"there is no argument called {name}"
        if not is_a(wanted["type"], value):
            return f"{name} has to be: {wanted['type']}"
        if not wanted.get("minimum", value) <= value <= wanted.get("maximum", value):
            return f"{name} is out of range"
    return ""


def is_a(type_name: str, value: object) -> bool:
    if type_name == "string":
        return isinstance(value, str)
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return False
    return type_name == "number" or isinstance(value, int) or value.is_integer()


if __name__ == "__main__":
    Server().run()
