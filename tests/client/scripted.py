"""A server made of nothing but frames: a test says what it answers, and sees what it was sent.

    server = Scripted({"tools/call": {"content": []}})
    async with server.connect() as client:
        await client.call_tool("t")
    assert server.methods == ["server/discover", "tools/call"]

A step is what a request of a method is answered with: a result, an `MCPError`, `SILENCE`, or an
async function of the server and the message that returns one of these. A list of steps is gone
through one request at a time, and its last step stays.
"""

import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any, TypeAlias

import trio
import trio.testing

from mcp_trio.client.client import Client, open_client
from mcp_trio.connection import MemoryFrameStream, memory_frame_pair, open_private_nursery
from mcp_trio.exceptions import MCPError
from mcp_trio.protocol import meta as keys

JSONObject: TypeAlias = dict[str, Any]

MODERN = "2026-07-28"
LATEST_LEGACY = "2025-11-25"
EVERYTHING: JSONObject = {
    "tools": {"listChanged": True},
    "prompts": {"listChanged": True},
    "resources": {"listChanged": True, "subscribe": True},
    "logging": {},
    "completions": {},
}
SILENCE = None

Answer: TypeAlias = JSONObject | MCPError | None
Step: TypeAlias = Answer | Callable[["Scripted", JSONObject], Awaitable[Answer]]

#: Seconds of virtual time after which a test counts as hanging.
PATIENCE = 10_000


def discovered(*versions: str, **fields: Any) -> JSONObject:
    """A DiscoverResult."""
    return {
        "resultType": "complete",
        "supportedVersions": list(versions or (MODERN,)),
        "capabilities": EVERYTHING,
        "instructions": "Be kind.",
        "ttlMs": 0,
        "cacheScope": "private",
        "_meta": {keys.SERVER_INFO: {"name": "scripted", "version": "1"}},
        **fields,
    }


def initialized(version: str = LATEST_LEGACY, **fields: Any) -> JSONObject:
    """An InitializeResult."""
    return {
        "protocolVersion": version,
        "capabilities": EVERYTHING,
        "serverInfo": {"name": "scripted", "version": "1"},
        **fields,
    }


def unsupported(*versions: str, requested: str = MODERN) -> MCPError:
    """The -32022 that lists these versions."""
    data = {"supported": list(versions), "requested": requested}
    return MCPError(-32022, "Unsupported protocol version", data)


NOT_FOUND = MCPError(-32601, "Method not found")
#: The start of servers of the two eras; legacy ones do not know the probe.
MODERN_START: dict[str, Step | list[Step]] = {"server/discover": discovered()}
LEGACY_START: dict[str, Step | list[Step]] = {
    "server/discover": NOT_FOUND,
    "initialize": initialized(),
    "logging/setLevel": {},
}


class Scripted:
    """A server that follows a script.

    Attributes:
        received: All messages of the client so far.
        gone: Set when the client has closed its end.
    """

    def __init__(
        self,
        steps: dict[str, Step | list[Step]] | None = None,
        *,
        start: dict[str, Step | list[Step]] = MODERN_START,
    ) -> None:
        self.steps = {**start, **(steps or {})}
        self.received: list[JSONObject] = []
        self.gone = trio.Event()
        self._stream: MemoryFrameStream
        self._arrival = trio.lowlevel.ParkingLot()
        self._failures: list[BaseException] = []
        self._last_id = 0

    @asynccontextmanager
    async def serving(self) -> AsyncIterator[MemoryFrameStream]:
        """The stream to this server for the length of a block. What a step raises is raised."""
        near, self._stream = memory_frame_pair()
        with trio.fail_after(PATIENCE):
            async with open_private_nursery() as nursery:
                nursery.start_soon(self._serve, nursery)
                yield near
        if self._failures:
            raise self._failures[0]

    @asynccontextmanager
    async def connect(self, **options: Any) -> AsyncIterator[Client]:
        """A client of this server for the length of a block."""
        async with self.serving() as stream, open_client(stream, **options) as client:
            yield client
            await trio.testing.wait_all_tasks_blocked()  # for what is still on its way

    # What came

    @property
    def methods(self) -> list[str]:
        """The methods of all requests and notifications of the client, in order."""
        return [message["method"] for message in self.received if "method" in message]

    def sent(self, method: str) -> list[JSONObject]:
        """The messages of one method, in order."""
        return [message for message in self.received if message.get("method") == method]

    async def wait_for(self, method: str, count: int = 1) -> JSONObject:
        """Wait for the count-th message of a method."""
        while len(self.sent(method)) < count:
            await self._arrival.park()
        return self.sent(method)[count - 1]

    async def answer_to(self, id: Any) -> JSONObject:
        """Wait for the client's answer to a request of ours."""
        while True:
            for message in self.received:
                if message.get("id") == id and "method" not in message:
                    return message
            await self._arrival.park()

    # What is sent

    async def send(self, *messages: Any) -> None:
        """Send messages in one write; bytes as they are."""
        await self._stream.send(
            [m if isinstance(m, bytes) else json.dumps(m).encode() for m in messages]
        )

    async def notify(self, method: str, params: JSONObject | None = None) -> None:
        await self.send(notification(method, params))

    async def ask(self, method: str, params: JSONObject | None = None) -> str:
        """Send a request; its id."""
        self._last_id += 1
        id = f"s{self._last_id}"
        await self.send({"jsonrpc": "2.0", "id": id, "method": method, "params": params or {}})
        return id

    async def progress(self, request: JSONObject, *values: float) -> None:
        """Send progress of a request, all in one write."""
        token = request["params"]["_meta"]["progressToken"]
        await self.send(
            *(
                notification("notifications/progress", {"progressToken": token, "progress": value})
                for value in values
            )
        )

    async def answer(self, request: JSONObject, answer: Answer) -> None:
        if isinstance(answer, MCPError):
            error = {"code": answer.code, "message": answer.message}
            if isinstance(answer.data, dict):
                error["data"] = answer.data
            await self.send({"jsonrpc": "2.0", "id": request["id"], "error": error})
        elif answer is not None:
            await self.send({"jsonrpc": "2.0", "id": request["id"], "result": answer})

    async def close(self) -> None:
        """Die: the client finds the end of its input."""
        await self._stream.aclose()

    # Following the script

    async def _serve(self, nursery: trio.Nursery) -> None:
        try:
            while frames := await self._stream.receive():
                for frame in frames:
                    message = json.loads(frame)
                    self.received.append(message)
                    self._arrival.unpark_all()
                    if "method" in message and "id" in message:
                        nursery.start_soon(self._follow, message)
        except trio.ClosedResourceError:
            return  # we died
        self.gone.set()

    async def _follow(self, request: JSONObject) -> None:
        step = self.steps.get(request["method"], NOT_FOUND)
        if isinstance(step, list):
            step = step.pop(0) if len(step) > 1 else step[0]
        try:
            await self.answer(request, await step(self, request) if callable(step) else step)
        except (trio.BrokenResourceError, trio.ClosedResourceError):
            pass  # the client has gone, or we are dead
        except Exception as exc:
            self._failures.append(exc)


def notification(method: str, params: JSONObject | None = None) -> JSONObject:
    message: JSONObject = {"jsonrpc": "2.0", "method": method}
    if params is not None:
        message["params"] = params
    return message


def text_result(text: str = "done", **fields: Any) -> JSONObject:
    """A complete CallToolResult."""
    return {"resultType": "complete", "content": [{"type": "text", "text": text}], **fields}


def text_of(result: Any) -> str:
    """The text of a CallToolResult."""
    text: str = result.content[0].text
    return text
