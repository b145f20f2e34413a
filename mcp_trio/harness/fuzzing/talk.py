"""Plays cases to a peer over one connection, and keeps the ledger of what comes of it.

    steps ──▶ frames ──▶ wire ──▶ the peer
    trace ◀── ledger ◀── reader ◀──

A case is sent without waiting for answers, except where a step says so: what a peer does with many
messages at once is part of the question, and a million of them take long enough as it is. After
the last step comes a fence, a request that every peer answers; once it is answered, and all the
requests whose answers cannot take long are, the case is over. What is still running is cancelled.
"""

from __future__ import annotations

import os
import re
import signal
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, suppress
from functools import partial
from typing import Final

import trio

from mcp_trio.connection import open_private_nursery
from mcp_trio.exceptions import TransportError
from mcp_trio.harness.fuzzing import cases
from mcp_trio.harness.fuzzing.cases import Case, Step
from mcp_trio.harness.fuzzing.guard import Guard
from mcp_trio.harness.fuzzing.ledger import Asked, Came, Ledger, Trace
from mcp_trio.harness.fuzzing.speech import Speech
from mcp_trio.harness.http_plain import HTTPClient
from mcp_trio.harness.model import Failed, NotApplicable
from mcp_trio.harness.wires import Wire, WireEnded
from mcp_trio.wire import jsonrpc
from mcp_trio.wire.jsonrpc import JSON, RequestId

SLOW: Final = frozenset(
    {
        "tools/call",
        "resources/read",
        "prompts/get",
        "completion/complete",
        "subscriptions/listen",
        "tasks/result",
    }
)
"""Methods whose answers take as long as what the server has been programmed to do."""

SETTLE: Final = 0.03
"""Seconds that slow requests get once everything else is answered, before they are cancelled."""
FIRST_ANSWER: Final = 30.0
"""Seconds for the handshake: a server may have to be fetched and compiled first."""
EACH: Final = 0.02
"""Seconds more for each request of a case: many are much work, where a computer is busy."""
LONGEST: Final = 30.0
"""Seconds that even a great many requests get at most."""
TAKE_TIME: Final = 5.0
"""Seconds more than for an answer that a peer has for taking what is sent: it may be at work."""
OBITUARY: Final = 1.0
"""Seconds for the exit status of a process whose output has ended."""
AT_ONCE: Final = 256
"""Messages that are sent in one go."""
MOST_ANSWERS: Final = 1_000
"""Answers to the peer's own requests that may wait to be sent."""
MOST_CANCELLED: Final = 50
"""Requests that were not clear, and are cancelled after a case."""
REFUSES: Final = re.compile(r"(?:status|HTTP) 4\d\d\b")
"""How a transport says that a server, well as it is, takes a request for a mistake."""
DEADLY: Final = ("TERM", "INT", "HUP", "KILL", "QUIT")


class Talk:
    """One connection that cases are played on. Made by `open_talk`.

    Attributes:
        wire: What it goes over.
        speech: How things are said.
        ledger: What was said.
        ended: Why the connection ended; None as long as it has not.
        broken: The connection is of no use for another case.
        played: How many cases were played.
    """

    def __init__(
        self,
        wire: Wire,
        revision: str,
        deadline: float,
        guard: Guard,
        http: HTTPClient | None = None,
    ) -> None:
        self.wire = wire
        self.speech = Speech(revision)
        self.ledger = Ledger(SLOW)
        self.ended: str | None = None
        self.broken = False
        self.played = 0
        self._deadline = deadline
        self._guard = guard
        self._http = http
        self._lock = trio.Lock()
        self._arrival = trio.lowlevel.ParkingLot()
        self._stalled_until = trio.current_time()
        self._fences = 0
        self._heard = False
        self._in_line = False  # the last byte that was sent is not the end of a line
        self._how: cases.Answers = "well"
        self._to_answer, self._answering = trio.open_memory_channel[bytes](MOST_ANSWERS)

    # A case

    async def play(self, case: Case) -> Trace:
        """Do what a case says, and see what comes of it. Does not raise."""
        self.played += 1
        trace = self._begin(case)
        try:
            await self._play_steps(case, trace)
            if trace.ended_by_us:
                await self._watch_end(trace)
            else:
                await self._settle(trace)
        except WireEnded as exc:
            self.ended = self.ended or str(exc)
        if self.ended is not None:
            await self._find_out_why(trace)
        self._finish(trace)
        return trace

    def _begin(self, case: Case) -> Trace:
        self._how = case.answers
        self.wire.exchange.clear()
        now = trio.current_time()
        revision, transport = self.speech.revision, self.wire.transport
        trace = Trace(case, self.played, revision, transport, self._deadline, now)
        self.ledger.trace = trace
        return trace

    def _finish(self, trace: Trace) -> None:
        trace.ended = self.ended
        numbers = [getattr(step, "id", 0) + getattr(step, "times", 0) for step in trace.case.steps]
        self.speech.base += max([0, *(number for number in numbers if number > 0)]) + 1
        self.broken |= trace.stuck or trace.ended_by_us or self.ended is not None
        self.broken |= trace.fenced and trace.fence is None
        self.ledger.forget_unclear()

    # Steps

    async def _play_steps(self, case: Case, trace: Trace) -> None:
        frames: list[bytes] = []
        for step in case.steps:
            made = self._frames(step)
            if made is None:
                await self._send(frames)
                frames = []
                try:
                    await self._do(step, trace)
                except NotApplicable as exc:
                    self.wire.note(exc.message)
                continue
            for frame, clear in made:
                if self._guard.allows(frame):
                    clear &= not self._in_line
                    self._in_line = False
                    self.ledger.sent(frame, trio.current_time(), clear=clear)
                    frames.append(frame)
                if len(frames) >= AT_ONCE:
                    await self._send(frames)
                    frames = []
        await self._send(frames)

    def _frames(self, step: Step) -> Iterator[tuple[bytes, bool]] | None:
        """The frames of a step and whether they are clear; None if it is not made of frames."""
        speech = self.speech
        match step:
            case cases.Ask():
                return iter([(speech.ask(step), True)])
            case cases.Tell():
                return iter([(speech.tell(step), True)])
            case cases.Cancel():
                return iter([(speech.cancel_step(step), True)])
            case cases.Send():
                return iter([(self._sendable(step.frame), step.clear)])
            case cases.Flood():
                return ((speech.flood(step, number), True) for number in range(step.times))
        return None

    def _sendable(self, frame: bytes) -> bytes:
        """The frame as far as the transport can carry it at all."""
        if self.wire.transport in ("websocket",):
            return frame.decode("utf-8", "replace").encode()
        if self.wire.has_bytes:
            return frame.replace(b"\n", b" ")
        return frame

    async def _do(self, step: Step, trace: Trace) -> None:
        match step:
            case cases.Raw():
                await self._send_raw(step)
            case cases.Post():
                await self._post(step)
            case cases.Await():
                await self._await(self.speech.base + step.id, step.seconds)
            case cases.Pause():
                await trio.sleep(step.seconds)
            case cases.Stall():
                self._stalled_until = trio.current_time() + step.seconds
            case cases.EndInput():
                async with self._lock:
                    await self.wire.end_input()
                trace.ended_by_us = True
            case cases.Cut():
                trace.ended_by_us = True
                self.ended = "the harness cut the connection"
            case cases.Signal():
                self._signal(step.name, trace)
            case _:
                raise AssertionError(f"nobody knows how to do {step}")

    async def _send(self, frames: list[bytes]) -> None:
        if self.wire.transport == "http":  # where each one is a request, and has its own time
            for frame in frames:
                await self._in_time(partial(self.wire.send, frame))
        elif frames:
            await self._in_time(partial(self.wire.send_many, frames))

    async def _send_raw(self, step: cases.Raw) -> None:
        data = b"".join(step.chunks)
        if not self._guard.allows_bytes(data):
            return
        if not self.wire.has_bytes:
            self.wire.note("these bytes go as one frame")
            frame = self._sendable(data)
            self.ledger.sent(frame, trio.current_time(), clear=False)
            await self._send([frame])
            return
        now = trio.current_time()
        if step.clear:
            for line in data.removeprefix(b"\xef\xbb\xbf").split(b"\n"):
                if line.strip():
                    self.ledger.sent(line.removesuffix(b"\r"), now, clear=True)
        else:
            self.ledger.sent(data, now, clear=False)
        self._in_line = bool(data) and not data.endswith(b"\n")

        async def send_chunks() -> None:
            for chunk in step.chunks:
                await self.wire.send_bytes(chunk)

        await self._in_time(send_chunks)

    async def _post(self, step: cases.Post) -> None:
        if self._http is None:
            raise NotApplicable("this is no HTTP server")
        if not self._guard.allows(step.body):
            return
        self.ledger.sent(step.body, trio.current_time(), clear=False)
        headers = {**self.wire_headers(), **step.headers}
        try:
            await self._http.request(step.method, headers, step.body, timeout=self._deadline)
        except TransportError as exc:
            self.wire.note(f"no answer: {exc}")

    def wire_headers(self) -> dict[str, str | None]:
        """What a well-meant request of this session has."""
        from mcp_trio.harness.http_target import HTTPWire

        found: dict[str, str | None] = {
            "content-type": "application/json",
            "accept": "application/json, text/event-stream",
        }
        if isinstance(self.wire, HTTPWire):
            found.update(self.wire.headers({}))
        return found

    def _signal(self, name: str, trace: Trace) -> None:
        child = self.wire.child
        if child is None or sys.platform == "win32":
            raise NotApplicable("signals are for processes that we started, and not on Windows")
        trace.ended_by_us |= name in DEADLY
        self.wire.note(f"the harness sends SIG{name}")
        _kill(child.pid, signal.Signals[f"SIG{name}"])

    async def _in_time(self, send: Callable[[], Awaitable[None]]) -> None:
        """Send something, unless the peer takes no input for as long as an answer may take."""
        with trio.move_on_after(self._deadline + TAKE_TIME) as scope:
            async with self._lock:
                await send()
        if scope.cancelled_caught and self.ledger.trace is not None:
            self.ledger.trace.stuck = True
            self.wire.note("the peer takes no input")
            raise WireEnded("the peer takes no more input")

    # After the steps

    async def _settle(self, trace: Trace) -> None:
        """Wait for what has to come, and cancel the rest."""
        self._go_on()
        await trio.sleep_until(self._stalled_until)
        if self._in_line:
            self._in_line = False
            await self.wire.send_bytes(b"\n")
        fence = await self._fence(trace)
        if trace.fence is None:
            return
        await self._until(
            lambda: not any(asked.expected for asked in trace.asked),
            trace.patience - (trio.current_time() - fence.at),
        )
        lost = fence.refused is not None  # and with the session all that was asked in it
        trace.overdue = [asked for asked in trace.asked if (asked.expected if lost else asked.due)]
        open_ones = [asked for asked in trace.asked if asked.open and asked.cancelled is None]
        if open_ones:
            await self._until(lambda: not any(asked.open for asked in open_ones), SETTLE)
        await self._cancel_the_rest()

    async def _fence(self, trace: Trace) -> Asked:
        """See whether the peer still answers."""
        self._fences += 1
        frame = self.speech.fence(f"fence-{self._fences}")
        trace.fenced = True
        sent_at = trio.current_time()
        self.ledger.sent(frame, sent_at, clear=True)
        fence = trace.asked.pop()
        await self._send([frame])
        trace.patience = self._patience(len(trace.asked))
        await self._until(lambda: not fence.open or fence.refused is not None, trace.patience)
        if fence.answered_at is not None:
            trace.fence = fence.answered_at - sent_at
        elif fence.refused is not None and self._has_lost_session(fence.refused):
            trace.fence = trio.current_time() - sent_at
            self.broken = True
        return fence

    def _has_lost_session(self, why: str) -> bool:
        """Whether a status says that there is no such session, as there is none after a DELETE."""
        return not self.speech.is_modern and REFUSES.search(why) is not None

    def _patience(self, asked: int) -> float:
        """Seconds for an answer that comes after those to so many requests.

        The first one of all may take as long as a program takes to start.
        """
        work = max(self._deadline, min(self._deadline + asked * EACH, LONGEST))
        return work if self._heard else max(work, FIRST_ANSWER)

    async def _cancel_the_rest(self) -> None:
        frames = []
        for waiting in list(self.ledger.open.values()):
            for asked in waiting:
                if asked.cancelled is None and asked.method != "initialize":
                    frames.append(self.speech.cancel(asked.id))
        if self.ledger.trace is not None and self.ledger.trace.unclear:
            for id in self.ledger.unclear_ids()[-MOST_CANCELLED:]:
                frames.append(self.speech.cancel(id))
        for frame in frames:
            self.ledger.sent(frame, trio.current_time(), clear=True)
        await self._send(frames)

    def _go_on(self) -> None:
        """Wake a process that a case has stopped."""
        child = self.wire.child
        if sys.platform == "win32" or child is None:
            return
        if any(isinstance(step, cases.Signal) for step in self._steps()):
            _kill(child.pid, signal.SIGCONT)

    def _steps(self) -> tuple[Step, ...]:
        trace = self.ledger.trace
        return () if trace is None else trace.case.steps

    async def _await(self, id: RequestId, seconds: float) -> None:
        """Wait for an answer, if anybody asked and as long as a step says."""
        await self._until(
            lambda: (
                not any(
                    asked.id == id for waiting in self.ledger.open.values() for asked in waiting
                )
            ),
            seconds,
        )

    async def _until(self, done: Callable[[], bool], seconds: float) -> None:
        with trio.move_on_after(max(seconds, 0)):
            while not done() and self.ended is None:
                await self._arrival.park()

    # The end

    async def _watch_end(self, trace: Trace) -> None:
        """See how the process ends now that its input has, or that it was told to."""
        self._go_on()
        self._stalled_until = trio.current_time()
        child = self.wire.child
        if child is None or any(isinstance(step, cases.Cut) for step in trace.case.steps):
            return
        began = trio.current_time()
        trace.awaited_exit = True
        with trio.move_on_after(self._deadline):
            trace.exit_status = await child.wait()
            trace.exit_seconds = trio.current_time() - began

    async def _find_out_why(self, trace: Trace) -> None:
        child = self.wire.child
        if child is not None and trace.exit_seconds is None:
            with trio.move_on_after(OBITUARY):
                trace.exit_status = await child.wait()
                await child.stderr_ended.wait()
        if child is not None:
            entries = self.wire.exchange.entries
            lines = [e.data.decode("utf-8", "replace") for e in entries if e.kind == "stderr"]
            trace.last_words = "\n".join(lines[-20:])

    # Tasks

    def start(self, nursery: trio.Nursery) -> None:
        """Start the tasks that read and answer."""
        nursery.start_soon(self._read)
        nursery.start_soon(self._answer)

    async def _read(self) -> None:
        try:
            while True:
                if self._stalled_until > trio.current_time():
                    await trio.sleep_until(self._stalled_until)
                raw = await self.wire.receive()
                self._heard = True
                for came in self.ledger.came(raw, trio.current_time()):
                    self._look_at(came)
                self._arrival.unpark_all()
        except WireEnded as exc:
            self.ended = self.ended or str(exc)
            self.wire.note(f"the connection ended: {exc}")
            self._arrival.unpark_all()

    def _refused(self, id: JSON, why: str) -> None:
        self.ledger.refused(id, why)
        self._arrival.unpark_all()

    def crashed(self, why: str) -> None:
        """Hear that the peer is no more, if it ended in another way than its connection."""
        self.ended = self.ended or why
        self._arrival.unpark_all()

    def _look_at(self, came: Came) -> None:
        if isinstance(came.message, jsonrpc.Request):
            request = {"id": came.message.id, "method": came.message.method}
            answer = self.speech.answer(request, self._how, self.played)
            if answer is not None:
                try:
                    self._to_answer.send_nowait(answer)
                except trio.WouldBlock:
                    self.wire.note("the peer asks faster than it reads the answers")

    async def _answer(self) -> None:
        try:
            async for frame in self._answering:
                async with self._lock:
                    await self.wire.send(frame)
        except WireEnded:
            pass  # the reader will say so

    # The handshake

    async def shake_hands(self) -> None:
        """Open a legacy session; in the modern era, nothing is needed.

        Raises:
            Failed: The peer does not answer.
            NotApplicable: It refuses, or speaks another revision.
        """
        self._begin(Case("handshake", ()))
        if not self.speech.is_modern:
            reply = await self._ask(self.speech.initialize("initialize"))
            if not isinstance(reply.message, jsonrpc.Response):
                raise NotApplicable(f"the server refuses to initialize: {reply.raw[:200]!r}")
            spoken = reply.message.result.get("protocolVersion")
            if spoken != self.speech.revision:
                raise NotApplicable(f"the server answers initialize with revision {spoken}")
            await self.wire.negotiated(self.speech.revision)
            frame = self.speech.tell(cases.Tell("notifications/initialized"))
            self.ledger.sent(frame, trio.current_time(), clear=True)
            await self.wire.send(frame)
        else:
            await self._ask(self.speech.fence("first"))
        if self.wire.child is not None:
            self.wire.child.established = True

    async def _ask(self, frame: bytes) -> Came:
        trace = self.ledger.trace
        assert trace is not None
        self.ledger.sent(frame, trio.current_time(), clear=True)
        asked = trace.asked[-1]
        await self.wire.send(frame)
        await self._until(lambda: not asked.open, FIRST_ANSWER)
        for came in trace.received:
            if came.asked is asked:
                return came
        raise Failed(self.ended or f"no answer to {asked.method} within {FIRST_ANSWER:g} s")


def _kill(group: int, number: int) -> None:
    """Send a signal to a process that leads a group, and to the rest of the group."""
    if sys.platform != "win32":  # where there are no such signals, and no case sends one
        with suppress(ProcessLookupError):
            os.killpg(group, number)


@asynccontextmanager
async def open_talk(
    wire: Wire,
    revision: str,
    *,
    deadline: float,
    guard: Guard | None = None,
    http: HTTPClient | None = None,
    handshake: bool = True,
) -> AsyncIterator[Talk]:
    """A connection for cases, for the length of a block.

    Args:
        guard: What may be sent.
        http: For steps that are HTTP requests.
        handshake: A legacy session is opened first.

    Raises:
        Failed, NotApplicable: As `Talk.shake_hands`.
        WireEnded: The connection ended meanwhile.
    """
    wire.revision = revision
    talk = Talk(wire, revision, deadline, guard or Guard(), http)
    wire.on_refused = talk._refused
    async with open_private_nursery() as nursery:
        talk.start(nursery)
        if handshake:
            await talk.shake_hands()
        elif wire.child is not None:
            wire.child.established = True
        yield talk
