"""A target for `mcp_trio.peer`: two peers, and between them a wire that does what it wants.

The steps are drawn one by one while the event loop runs, as a state machine's are; there is a loop
for each example, which Hypothesis's own state machines cannot have.
"""

from __future__ import annotations

from typing import Any

import attrs
import trio
import trio.testing
from hypothesis import given
from hypothesis import strategies as st

from fuzz.oracle import nothing_logged
from mcp_trio.exceptions import (
    Closed,
    ConnectionClosed,
    MCPError,
    ProtocolError,
    RequestTimeout,
)
from mcp_trio.incoming import IncomingRequest
from mcp_trio.outbox import Outbox
from mcp_trio.peer import Peer
from mcp_trio.testing.strategies import damaged_lines, messages, noise_lines
from mcp_trio.wire.jsonrpc import JSONObject, decode, encode

HABITS = ("answers", "fails", "reports", "asks back", "sleeps", "waits", "breaks")
"""What a handler does, by the word that it is asked with."""

Ending = tuple[str, Any]
"""How a call ended: with a result, an error, a timeout, and so on."""


@attrs.define
class Asked:
    """A call of one end: what it was asked with, and how it ended."""

    word: str
    number: int
    scope: trio.CancelScope = attrs.field(factory=trio.CancelScope)
    progress: list[float] = attrs.field(factory=list)
    ending: Ending | None = None


class Hub:
    """Two peers and all that is on its way between them."""

    def __init__(self, nursery: trio.Nursery) -> None:
        self.nursery = nursery
        self.outboxes = [Outbox(2000), Outbox(2000)]
        self.on_the_way: list[list[bytes]] = [[], []]  # to end 0, and to end 1
        self.asked: list[list[Asked]] = [[], []]
        self.peers = [self._peer(0), self._peer(1)]

    def _peer(self, end: int) -> Peer:
        async def handle(incoming: IncomingRequest) -> JSONObject:
            return await self._handle(end, incoming)

        return Peer(
            self.nursery,
            self.outboxes[end],
            handle=handle,
            on_notification=lambda _: None,
            on_stray=lambda _line, _reason: None,
            max_in_flight=5,
            answers_strays=end == 1,
        )

    async def _handle(self, end: int, incoming: IncomingRequest) -> JSONObject:
        number = incoming.params.get("number")
        match incoming.method:
            case "fails":
                raise MCPError(7, "no", number)
            case "reports":
                for progress in (1, 2, 3):
                    params = {"progressToken": incoming.id, "progress": progress}
                    await incoming.notify("notifications/progress", params)
            case "asks back":
                return {"number": number, "back": await incoming.request("answers", {"number": -1})}
            case "sleeps":
                await trio.sleep(5)
            case "waits":
                await trio.sleep_forever()
            case "breaks":
                return {"number": number, "nan": float("nan")}
        return {"number": number}

    async def ask(self, end: int, call: Asked, timeout: float | None) -> None:
        def on_progress(params: JSONObject) -> None:
            call.progress.append(params.get("progress", 0))

        peer = self.peers[end]
        with call.scope:
            try:
                params = {"number": call.number}
                asking = on_progress if call.number % 2 else None
                result = await peer.request(
                    call.word, params, on_progress=asking, timeout=timeout, max_timeout=timeout
                )
                call.ending = "result", result
            except MCPError as error:
                call.ending = "error", error
            except (ProtocolError, RequestTimeout, ConnectionClosed) as error:
                call.ending = type(error).__name__, error
        if call.scope.cancelled_caught:
            call.ending = "cancelled", None

    async def rest(self) -> None:
        """Let everything come to rest, and put what was sent on its way."""
        await trio.testing.wait_all_tasks_blocked()
        for end in (0, 1):
            box = self.outboxes[end]
            frames: list[bytes] = []
            while True:
                try:
                    frames.append(box._receive.receive_nowait())
                except (trio.WouldBlock, trio.EndOfChannel):
                    break
            box.written(frames)
            self.on_the_way[1 - end] += frames


@attrs.define
class Player:
    """Draws the steps of one example."""

    hub: Hub
    data: st.DataObject
    clock: trio.testing.MockClock
    numbers: int = 0
    forged: bool = False

    async def step(self) -> None:
        end = self.data.draw(st.integers(0, 1), "end")
        steps = (self.ask, self.deliver, self.deliver, self.deliver, self.lose, self.repeat)
        more = (self.cancel, self.cut, self.forge, self.wait)
        await self.data.draw(st.sampled_from([*steps, *more]), "step")(end)

    async def ask(self, end: int) -> None:
        self.numbers += 1
        call = Asked(self.data.draw(st.sampled_from(HABITS)), self.numbers)
        self.hub.asked[end].append(call)
        timeout = self.data.draw(st.none() | st.just(2.0) | st.just(8.0), "timeout")
        self.hub.nursery.start_soon(self.hub.ask, end, call, timeout)

    async def deliver(self, end: int) -> None:
        if frame := self._take(end):
            self.hub.peers[end].feed(decode(frame))

    async def lose(self, end: int) -> None:
        self._take(end)

    async def repeat(self, end: int) -> None:
        if frame := self._take(end):
            self.hub.on_the_way[end] += [frame, frame]

    async def cut(self, end: int) -> None:
        if frame := self._take(end):
            at = self.data.draw(st.integers(0, len(frame)), "cut")
            self.hub.on_the_way[end] += [frame[:at], frame[at:]]

    async def cancel(self, end: int) -> None:
        waiting = [call for call in self.hub.asked[end] if call.ending is None]
        if waiting:
            self.data.draw(st.sampled_from(waiting), "call").scope.cancel()

    async def forge(self, end: int) -> None:
        """Something that neither end has sent."""
        lines = st.one_of(
            messages().map(encode), damaged_lines().map(lambda d: d.line), noise_lines()
        )
        self.forged = True
        self.hub.peers[end].feed(decode(self.data.draw(lines, "forged")))

    async def wait(self, end: int) -> None:
        self.clock.jump(self.data.draw(st.sampled_from([1, 3, 10]), "seconds"))

    def _take(self, end: int) -> bytes | None:
        frames = self.hub.on_the_way[end]
        if not frames:
            return None
        return frames.pop(self.data.draw(st.integers(0, len(frames) - 1), "frame"))

    def judge(self) -> None:
        for call in self.hub.asked[0] + self.hub.asked[1]:
            match call.ending:
                case ("result", result):
                    assert self.forged or result["number"] == call.number
                case ("error", error) if not self.forged and error.code == 7:
                    assert (call.word, error.data) == ("fails", call.number)
            if not call.number % 2:
                assert not call.progress


async def play(data: st.DataObject) -> None:
    clock = trio.lowlevel.current_clock()
    assert isinstance(clock, trio.testing.MockClock)
    async with trio.open_nursery() as nursery:
        hub = Hub(nursery)
        player = Player(hub, data, clock)
        for _ in range(data.draw(st.integers(1, 40), "steps")):
            await player.step()
            await hub.rest()
            player.judge()
            assert all(len(peer.serving) <= 5 for peer in hub.peers)
        for peer in hub.peers:
            peer.close(Closed("the end"))
        await hub.rest()
        player.judge()
        for call in hub.asked[0] + hub.asked[1]:
            assert call.ending is not None, call
        for peer in hub.peers:
            assert not peer.serving
            assert not peer._calls
            assert not peer._deadlines
            assert peer._batched == 0
        assert not nursery.child_tasks


@given(st.data())
def test_two_peers_over_a_bad_wire(data: st.DataObject) -> None:
    """Whatever the wire loses, repeats, cuts and reorders: a call gets its own answer or none, it
    always ends, and nothing is left when the connection has ended."""
    with nothing_logged():
        trio.run(play, data, clock=trio.testing.MockClock())
