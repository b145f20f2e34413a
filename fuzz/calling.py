"""A client of ours, and a server that says whatever it likes: one connection."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from random import Random
from typing import Any

import trio

from fuzz import loop
from fuzz.mill import RESULTS, Mill, written
from fuzz.mutation import copied
from fuzz.oracle import Fault, Witness
from mcp_trio import ElicitResult, open_client
from mcp_trio.client.client import Client
from mcp_trio.connection import MemoryFrameStream, memory_frame_pair
from mcp_trio.exceptions import (
    ConnectionClosed,
    MCPError,
    ProtocolError,
    RequestTimeout,
    UnsupportedProtocolVersion,
)
from mcp_trio.protocol import meta as keys
from mcp_trio.protocol.revisions import LEGACY, MODERN
from mcp_trio.protocol.types.completion import PromptReference
from mcp_trio.protocol.types.elicitation import ElicitRequestURLParams
from mcp_trio.wire.jsonrpc import Request

DOCUMENTED = (
    ConnectionClosed,
    MCPError,
    ProtocolError,
    RequestTimeout,
    UnsupportedProtocolVersion,
)
"""What calls may raise because of what a server does."""

TIMEOUT = 5
PATIENCE = 100_000
"""Seconds of virtual time after which a client counts as hanging."""

Call = Callable[[Client], Awaitable[object]]


class WildServer:
    """Answers a client, mostly; soundly, sometimes; and says things that nobody asked.

    Args:
        version: The revision of the handshake, so that most connections get beyond it.
    """

    def __init__(self, stream: MemoryFrameStream, mill: Mill, version: str) -> None:
        self.witness = Witness("client")
        self.hung_up = False
        self._stream = stream
        self._mill = mill
        self._random = mill.random
        self._version = version

    async def run(self) -> None:
        while frames := await self._stream.receive():
            replies: list[bytes] = []
            for frame in frames:
                message = self.witness.received(frame)
                if isinstance(message, Request):
                    replies += self._reply(message)
            if self._random.random() < 0.002:
                self.hung_up = True
                await self._stream.aclose()
                return
            await self.send(replies)

    async def send(self, frames: list[bytes]) -> None:
        for frame in frames:
            self.witness.sent(frame)
        if frames:
            try:
                await self._stream.send(frames)
            except trio.BrokenResourceError:
                pass  # the client has gone

    def _reply(self, request: Request) -> list[bytes]:
        """What is sent because of a request: an answer, none, or two, among other things."""
        random, mill = self._random, self._mill
        if request.method in ("server/discover", "initialize") and random.random() < 0.9:
            return [self._greeting(request)]
        frames = [mill.from_server() for _ in range(random.choice([0, 0, 0, 1, 1, 4]))]
        if random.random() < 0.3:
            frames.append(self._about(request))
        answers = random.choice([1, 1, 1, 1, 1, 1, 1, 2, 0])
        frames += [mill.answer(request.id, request.method, RESULTS) for _ in range(answers)]
        if random.random() < 0.1:
            frames.append(mill.from_server())
        return frames

    def _greeting(self, request: Request) -> bytes:
        answer: dict[str, Any]
        if request.method == "server/discover" and self._version not in MODERN:
            answer = {"error": {"code": -32601, "message": "Method not found"}}
        else:
            result = copied(RESULTS[request.method][0])
            if request.method == "initialize":
                result["protocolVersion"] = self._version
            answer = {"result": result}
        return written({"jsonrpc": "2.0", "id": request.id, **answer})

    def _about(self, request: Request) -> bytes:
        """A notification that belongs to a request."""
        if request.method == "subscriptions/listen":
            method = self._random.choice(
                [
                    "notifications/subscriptions/acknowledged",
                    "notifications/tools/list_changed",
                    "notifications/cancelled",
                ]
            )
            params: dict[str, Any] = {
                "notifications": {"toolsListChanged": True},
                "requestId": request.id,
                "_meta": {keys.SUBSCRIPTION_ID: request.id},
            }
        else:
            method = "notifications/progress"
            number = self._random.choice([0, 1, 0.5, 1e300, "1", None])
            params = {"progressToken": request.id, "progress": number}
        return written({"jsonrpc": "2.0", "method": method, "params": params})


async def _listen(client: Client) -> None:
    async with client.listen(tools=True, resources=True, uris=["demo://notes/a"]) as events:
        with trio.move_on_after(TIMEOUT):
            async for _ in events:
                pass


CALLS: tuple[Call, ...] = (
    lambda client: client.list_tools(),
    lambda client: client.list_tools_page("n"),
    lambda client: client.call_tool("add", {"a": 1, "b": 2}),
    lambda client: client.call_tool("add", {"a": 1}, on_progress=lambda _: None),
    lambda client: client.call_tool("b", timeout=1),
    lambda client: client.list_resources(),
    lambda client: client.list_resource_templates(),
    lambda client: client.read_resource("demo://about"),
    lambda client: client.list_prompts(),
    lambda client: client.get_prompt("explain", {"topic": "x"}),
    lambda client: client.complete(PromptReference("explain"), "audience", "a"),
    lambda client: client.ping(),
    lambda client: client.set_log_level("debug"),
    lambda client: client.request("tools/call", {"name": "x", "arguments": {}}),
    lambda client: client.notify_roots_changed(),
    _listen,
)
"""What a program may do with a client."""


async def visit(calls: Sequence[Call], mill: Mill, version: str, mode: str) -> Witness:
    """Connect to a wild server and make some calls, several at once. Needs a clock that jumps.

    Raises:
        Fault: What the client did is wrong.
    """
    random = mill.random
    near, far = memory_frame_pair()
    server = WildServer(far, mill, version)
    made: list[Client] = []
    rested: list[bool] = []

    async def attempt(client: Client, call: Call) -> None:
        try:
            await call(client)
        except DOCUMENTED:
            pass

    async def live() -> None:
        options: dict[str, Any] = {
            "mode": mode,
            "timeout": TIMEOUT,
            "max_timeout": 4 * TIMEOUT,
            "max_rounds": 3,
            "cache": random.random() < 0.5,
            "on_noise": lambda _line, _reason: None,
            "on_log": lambda _message: None,
        }
        if random.random() < 0.8:
            options["on_elicit"] = lambda params: random.choice(
                [None, ElicitResult("accept"), ElicitResult("decline")]
                if isinstance(params, ElicitRequestURLParams)
                else [None, {"name": "Ada"}, ElicitResult("accept", {"size": "l"})]
            )
            options["on_sample"] = lambda _params: "!"
            options["on_list_roots"] = lambda _params: ["file:///a"]
        async with open_client(near, **options) as client:
            made.append(client)
            async with trio.open_nursery() as nursery:
                for call in calls:
                    nursery.start_soon(attempt, client, call)
                    if random.random() < 0.7:
                        await trio.sleep(random.choice([0, 0.1, TIMEOUT + 1]))
            await trio.sleep(PATIENCE / 10)
            # A modern server asks nothing in messages of its own, and is not answered if it does.
            if client.protocol_version in LEGACY:
                rested.append(True)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(server.run)
        with trio.move_on_after(PATIENCE) as patience:
            try:
                await live()
            except DOCUMENTED:
                pass
        nursery.cancel_scope.cancel()
    if patience.cancelled_caught:
        raise Fault("the client hangs")
    for client in made:
        if client.peer.serving or client.peer._calls:
            raise Fault(f"left behind: {client.peer.serving}, {client.peer._calls}")
    if rested and not server.hung_up:
        server.witness.settle()
    return server.witness


def visit_once(calls: Sequence[Call], mill: Mill, version: str, mode: str = "auto") -> Witness:
    """The same in an event loop of its own."""
    return loop.run(visit, calls, mill, version, mode, random=mill.random)


def random_visit(random: Random, length: int = 10) -> Witness:
    """A visit of which everything is left to chance."""
    version = random.choice([*LEGACY, *MODERN, *MODERN, *MODERN])
    mode = random.choice(["auto", "auto", "modern" if version in MODERN else "legacy", version])
    mill = Mill(random, modern=0.9 if version in MODERN else 0.1)
    return visit_once([random.choice(CALLS) for _ in range(length)], mill, version, mode)
