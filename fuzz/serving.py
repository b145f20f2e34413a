"""A server of ours, and whoever talks to it: one conversation from its start to its end."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable

import trio

from fuzz import loop
from fuzz.mill import ANSWERS, Mill, written
from fuzz.oracle import Fault, Witness
from mcp_trio.connection import MEMORY_FRAMES, FrameStream, MemoryFrameStream
from mcp_trio.protocol.methods import METHODS
from mcp_trio.wire.jsonrpc import JSONObject, Received, Request, RequestId, Response

MAY_ASK = frozenset(row.name for row in METHODS.values() if row.may_ask)

LONG = 100_000
"""Seconds of virtual time in which every tool of the demo server ends by itself."""
AT_ONCE = 20
"""Frames of one write."""

MOST_ROUNDS = 50
"""How often a conversation goes on where a modern server asks before it gives its result."""


def refuse(question: Request) -> bytes:
    error = {"code": -32603, "message": "not now"}
    return written({"jsonrpc": "2.0", "id": question.id, "error": error})


class Client:
    """The other side of a server under test: sends frames, and watches what comes back.

    With a mill it answers the questions of the server, soundly or not, of either era; without
    one it refuses to.
    """

    def __init__(self, stream: FrameStream, mill: Mill | None = None) -> None:
        self.witness = Witness("server")
        self.ended = trio.Event()
        self._stream = stream
        self._mill = mill
        self._writing = trio.Lock()
        self._asked: dict[RequestId, Request] = {}
        self._rounds = 0

    async def send(self, frames: list[bytes]) -> None:
        for frame in frames:
            message = self.witness.sent(frame)
            if isinstance(message, Request) and message.method in MAY_ASK:
                self._asked[message.id] = message
        async with self._writing:
            await self._stream.send(frames)

    async def read(self) -> None:
        """Judge what comes until the server closes its end; answer its questions."""
        while frames := await self._stream.receive():
            for frame in frames:
                message = self.witness.received(frame)
                if replies := self._replies(message):
                    await self.send(replies)
        self.ended.set()

    def _replies(self, message: Received) -> list[bytes]:
        if isinstance(message, Request):
            if self._mill is None:
                return [refuse(message)]
            return [self._mill.answer(message.id, message.method, ANSWERS)]
        if isinstance(message, Response):
            asked = self._asked.pop(message.id, None)
            if asked is not None and message.result.get("resultType") == "input_required":
                return self._next_round(asked, message.result)
        return []

    def _next_round(self, asked: Request, result: JSONObject) -> list[bytes]:
        if self._mill is None or self._rounds == MOST_ROUNDS:
            return []
        self._rounds += 1
        return [self._mill.next_round(asked.method, asked.params or {}, result)]

    async def refuse_questions(self) -> bool:
        """Answer for good what was answered in no way that the server could read."""
        questions = list(self.witness.questions.values())
        for question in questions:
            await self.send([refuse(question)])
        return bool(questions)

    async def cancel(self, methods: Iterable[str] = ("subscriptions/listen",)) -> None:
        """Cancel requests of these methods, which nothing else would end."""
        wanted = set(methods)
        for (_, id), asked in self.witness.unanswered.items():
            if wanted & asked:
                params = {"requestId": id}
                notice = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": params}
                await self.send([written(notice)])


async def converse(
    serve: Callable[[MemoryFrameStream], Awaitable[object]],
    frames: list[bytes],
    mill: Mill | None = None,
) -> Witness:
    """Say all that to a server, let it come to rest, and judge it. Needs a clock that jumps.

    Raises:
        Fault: What the server did is wrong.
    """
    there = trio.open_memory_channel[list[bytes]](MEMORY_FRAMES)
    back = trio.open_memory_channel[list[bytes]](MEMORY_FRAMES)
    far = MemoryFrameStream(back[0], there[1])
    async with trio.open_nursery() as nursery:
        client = Client(MemoryFrameStream(there[0], back[1]), mill)
        served = trio.Event()

        async def serving() -> None:
            await serve(far)
            served.set()

        nursery.start_soon(serving)
        nursery.start_soon(client.read)
        for start in range(0, len(frames), AT_ONCE):
            if served.is_set():
                raise Fault("it closed the connection")
            await client.send(frames[start : start + AT_ONCE])
        await trio.sleep(LONG)
        for _ in range(100):
            if not await client.refuse_questions():
                break
            await trio.sleep(LONG)
        await client.cancel()
        await trio.sleep(1)
        client.witness.settle()
        there[0].close()
        with trio.fail_after(LONG):
            await served.wait()
            await client.ended.wait()
    return client.witness


def converse_once(frames: list[bytes], mill: Mill | None = None) -> Witness:
    """The same with the demo server, in an event loop of its own."""
    from mcp_trio.demo import server

    random = None if mill is None else mill.random
    return loop.run(converse, server.serve_frames, frames, mill, random=random)
