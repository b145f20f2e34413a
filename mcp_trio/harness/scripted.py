"""A scripted server: what a client under test meets, and what a check sees of the client.

    async with probe.play({"tools/list": HOLD}) as scene:
        call = await scene.call("tools/list")          # the client has asked for its tools
        reply = await call.ask("ping")                 # the server asks back before it answers
        await call.answer()                            # now it gets the healthy answer
        await scene.over()                             # the client did all that it does, or left
        scene.messages("tools/call")                   # what it sent

A healthy server answers everything (`mcp_trio.harness.healthy` has its answers). A check replaces
some of the answers: by another result, by a `Refusal`, by a function of the `Call`, by a list of
these for one request after the other (the last one stays), or by `HOLD`, which leaves it to the
check.

It is the same scene over every transport. A call carries the way back: on stdio that is the
connection, on HTTP the reply to its POST, which becomes a stream of events as soon as something
else than the answer goes over it.
"""

from __future__ import annotations

import enum
import inspect
import json
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Final, TypeAlias, TypeVar

import attrs
import trio

from mcp_trio.connection import open_private_nursery
from mcp_trio.harness.exchange import Exchange
from mcp_trio.harness.handover import Running
from mcp_trio.harness.http_scripted import GONE, ClientLeft, HTTPReply, HTTPRequest
from mcp_trio.harness.model import Failed, Late, NotApplicable
from mcp_trio.harness.session import Received, Reply, dump
from mcp_trio.protocol import meta as keys
from mcp_trio.protocol.errors import ERRORS
from mcp_trio.protocol.revisions import is_modern
from mcp_trio.wire import jsonrpc
from mcp_trio.wire.jsonrpc import JSON, JSONObject, RequestId

T = TypeVar("T")

START_TIME: Final = 30.0
"""Seconds for a client's first message: it may have to be fetched and compiled."""
QUIET: Final = 2.0
"""Seconds without a message after which a client that stays has done what it does."""
LAST_WORDS: Final = 0.1
"""Seconds for what is still on the way from a client that has ended."""


class Hold(enum.Enum):
    """The type of `HOLD`."""

    HOLD = "hold"


HOLD: Final = Hold.HOLD
"""In place of an answer: the check gives it, or nobody does."""


@attrs.frozen
class Refusal:
    """An error in place of a result.

    Attributes:
        status: Of the HTTP response; by default what the revision has for the code.
    """

    code: int
    message: str
    data: JSON = None
    status: int | None = None


Answer: TypeAlias = JSONObject | Refusal | Hold
Step: TypeAlias = Answer | Callable[["Call"], Answer | Awaitable[Answer]]
Answers: TypeAlias = Mapping[str, Step | Sequence[Step]]


async def usual(call: Call) -> Answer:
    """A step of a script: what a healthy server answers."""
    return await call.scene.healthy_answer(call)


OnHTTP: TypeAlias = Callable[[HTTPRequest], Awaitable[bool]]


class Link(ABC):
    """One connection of the client over which the server can speak at any time.

    Attributes:
        number: Which one of the exchange.
        ended: Set when nothing more comes from the client.
        pid: The process that the client started for it, on stdio.
        signaled_at: When that process got SIGTERM.
    """

    def __init__(self, exchange: Exchange) -> None:
        self.exchange = exchange
        self.number = exchange.next_connection()
        self.ended = trio.Event()
        self.ended_at: float | None = None
        self.pid: int | None = None
        self.signaled_at: float | None = None

    async def send(self, frame: bytes) -> None:
        """Send one frame.

        Raises:
            ClientLeft: The client takes no more.
        """
        self.exchange.add("sent", frame, connection=self.number)
        await self.write(frame)

    @abstractmethod
    async def write(self, frame: bytes) -> None: ...

    @abstractmethod
    async def close(self) -> None:
        """Be gone, as a server that exits."""

    def end(self) -> None:
        if not self.ended.is_set():
            self.ended_at = trio.current_time()
            self.ended.set()


class BytesLink(Link):
    """Lines over a byte stream: stdio, through the relay.

    Attributes:
        raw: All bytes of the client, as they came.
    """

    def __init__(self, exchange: Exchange, stream: trio.abc.HalfCloseableStream) -> None:
        super().__init__(exchange)
        self.stream = stream
        self.raw = bytearray()
        self._lock = trio.Lock()

    async def write(self, frame: bytes) -> None:
        await self._write(frame + b"\n")

    async def send_bytes(self, data: bytes) -> None:
        """Send bytes that need not be a line. Raises as `send`."""
        self.exchange.add("sent", data, label="bytes", connection=self.number)
        await self._write(data)

    async def _write(self, data: bytes) -> None:
        async with self._lock:
            try:
                await self.stream.send_all(data)
            except GONE as exc:
                raise ClientLeft(str(exc)) from exc

    async def close(self) -> None:
        self.exchange.note("the server exits", self.number)
        await trio.aclose_forcefully(self.stream)
        self.end()


@attrs.frozen(kw_only=True)
class Said(Received):
    """One message of the client.

    Attributes:
        link: The connection that it came over; None for a POST of Streamable HTTP.
        http: The request that it came in; None without HTTP.
        batched: It stood in an array of messages.
    """

    link: Link | None = attrs.field(default=None, repr=False)
    http: HTTPRequest | None = attrs.field(default=None, repr=False)
    batched: bool = False

    @property
    def is_request(self) -> bool:
        return "method" in self.object and "id" in self.object

    @property
    def params(self) -> JSONObject:
        found = self.object.get("params")
        return found if isinstance(found, dict) else {}

    @property
    def meta(self) -> JSONObject:
        found = self.params.get(keys.META)
        return found if isinstance(found, dict) else {}


class Channel(ABC):
    """The way back for one request."""

    @abstractmethod
    async def send(self, frame: bytes) -> None:
        """Send something that is not the answer. Raises ClientLeft."""

    @abstractmethod
    async def finish(self, frame: bytes, status: int) -> None:
        """Send the answer. Raises ClientLeft."""

    async def wait_left(self) -> None:
        """Return when the client does not wait for the answer any more."""
        await trio.sleep_forever()


@attrs.frozen
class LinkChannel(Channel):
    link: Link

    async def send(self, frame: bytes) -> None:
        await self.link.send(frame)

    async def finish(self, frame: bytes, status: int) -> None:
        await self.link.send(frame)

    async def wait_left(self) -> None:
        await self.link.ended.wait()


class HTTPChannel(Channel):
    """The reply to a POST: one JSON object, or a stream of events if more has to be said."""

    def __init__(self, exchange: Exchange, request: HTTPRequest, answers: int) -> None:
        self.exchange = exchange
        self.request = request
        self.headers: list[tuple[str, str]] = []
        self._missing = answers

    @property
    def reply(self) -> HTTPReply:
        return self.request.reply

    async def begin(self) -> None:
        """Make it a stream of events, if it is none yet. Raises ClientLeft."""
        if self.reply.status is None:
            await self.reply.begin_events(self.headers)

    async def send(self, frame: bytes) -> None:
        await self.begin()
        self.exchange.add("sent", frame, "event", self.request.connection)
        await self.reply.event(frame)

    async def finish(self, frame: bytes, status: int) -> None:
        self._missing -= 1
        if self.reply.status is None and self._missing == 0:
            label = f"{status} application/json"
            self.exchange.add("sent", frame, label, self.request.connection)
            await self.reply.whole(status, frame, "application/json", self.headers)
            return
        await self.send(frame)
        if self._missing == 0:
            await self.reply.end()

    async def wait_left(self) -> None:
        await self.reply.left.wait()


@attrs.define(eq=False)
class Call:
    """A request of the client, and all that the server can do about it.

    Attributes:
        said: The request.
        answered_at: When it got its answer; None if it has not.
        abandoned: Set when the client has cancelled it, or hung up.
    """

    scene: Scene = attrs.field(repr=False)
    said: Said
    channel: Channel = attrs.field(repr=False)
    answered_at: float | None = None
    abandoned: trio.Event = attrs.field(factory=trio.Event, repr=False)

    @property
    def id(self) -> RequestId:
        id: RequestId = self.said.object["id"]
        return id

    @property
    def answered(self) -> bool:
        return self.answered_at is not None

    @property
    def method(self) -> str:
        return str(self.said.method)

    @property
    def params(self) -> JSONObject:
        return self.said.params

    @property
    def meta(self) -> JSONObject:
        return self.said.meta

    @property
    def name(self) -> str:
        """The tool or prompt that is asked for."""
        return str(self.params.get("name"))

    @property
    def http(self) -> HTTPRequest | None:
        return self.said.http

    async def answer(self, answer: Answer | None = None) -> None:
        """Answer it: as told, or as a healthy server does.

        Raises:
            Failed: The client has gone.
        """
        if answer is None:
            answer = await self.scene.healthy_answer(self)
        if isinstance(answer, Refusal):
            await self.error(answer)
        elif not isinstance(answer, Hold):
            await self.result(answer)

    async def result(self, result: JSONObject) -> None:
        """Answer with a result; in the modern era it says that it is complete if it says nothing.

        Raises as `answer`.
        """
        if self.scene.is_modern and "resultType" not in result:
            result = {"resultType": "complete", **result}
        await self.respond({"jsonrpc": "2.0", "id": self.id, "result": result}, 200)

    async def error(self, refusal: Refusal) -> None:
        """Answer with an error. Raises as `answer`."""
        error: JSONObject = {"code": refusal.code, "message": refusal.message}
        if refusal.data is not None:
            error["data"] = refusal.data
        status = refusal.status
        if status is None:
            kind = ERRORS.get(refusal.code)
            status = kind.http if kind is not None and self.scene.is_modern else 200
        await self.respond({"jsonrpc": "2.0", "id": self.id, "error": error}, status)

    async def respond(self, message: JSONObject | bytes, status: int = 200) -> None:
        """Answer with any message, or what is none. Raises as `answer`."""
        self.answered_at = trio.current_time()
        with self.scene.client_must_take_it():
            await self.channel.finish(_frame(message), status)

    async def send(self, message: JSONObject | bytes) -> None:
        """Send something before the answer. Raises as `answer`."""
        with self.scene.client_must_take_it():
            await self.channel.send(_frame(message))

    async def notify(self, method: str, params: JSONObject | None = None) -> None:
        """Send a notification before the answer. Raises as `answer`."""
        await self.send(notification(method, params))

    async def ask(
        self, method: str, params: JSONObject | None = None, *, id: RequestId | None = None
    ) -> Reply:
        """Ask the client something before its request is answered.

        Raises:
            Failed: It does not answer in time, or has gone.
        """
        return await self.scene.ask(method, params, via=self, id=id)

    async def progress(self, value: float, total: float | None = None) -> None:
        """Report progress, if the client asked for it. Raises as `answer`."""
        token = self.meta.get(keys.PROGRESS_TOKEN)
        if token is not None:
            params: JSONObject = {"progressToken": token, "progress": value}
            if total is not None:
                params["total"] = total
            await self.notify("notifications/progress", params)


class Scene:
    """One run of a client against a scripted server.

    Attributes:
        revision: What the server speaks.
        exchange: What goes over the wire.
        deadline: Seconds that the client may take for any one answer.
        running: The client; None before it is started.
        said: All messages of the client, in order.
        calls: Its requests.
        links: Its connections, except those of Streamable HTTP.
        reused: Ids that came again while their request still waited for its answer.
        requests: Its HTTP requests.
        listening: Replies to GETs that stay open for what the server has to say at any time.
        stays: The server stays when its stdin is closed, instead of exiting.
        chatty: The server writes to stderr.
        on_http: Called with each HTTP request before it is dealt with; true if that is done then.
    """

    def __init__(
        self,
        revision: str,
        exchange: Exchange,
        deadline: float,
        healthy: Answers,
        answers: Answers | None = None,
        on_http: OnHTTP | None = None,
    ) -> None:
        self.revision = revision
        self.exchange = exchange
        self.deadline = deadline
        self.running: Running | None = None
        self.said: list[Said] = []
        self.calls: list[Call] = []
        self.reused: list[RequestId] = []
        self.links: list[Link] = []
        self.requests: list[HTTPRequest] = []
        self.listening: list[HTTPReply] = []
        self.on_http = on_http
        self.stays = False
        self.chatty = False
        self.session_id: str | None = "harness-1"
        self._healthy = healthy
        self._answers: dict[str, Step | Sequence[Step]] = dict(answers or {})
        self._used: dict[str, int] = {}
        self._changed = trio.lowlevel.ParkingLot()
        self._last_id = 0
        self._asked: list[RequestId] = []
        self._failure: Exception | None = None
        self._nursery: trio.Nursery

    @property
    def is_modern(self) -> bool:
        return is_modern(self.revision)

    # What the client said

    def messages(self, method: str | None = None) -> list[Said]:
        """Its requests and notifications, or those of one method, in order."""
        return [said for said in self.said if said.method and method in (None, said.method)]

    def requests_of(self, method: str | None = None) -> list[Call]:
        """Its requests, or those of one method, in order."""
        return [call for call in self.calls if method in (None, call.method)]

    def responses(self) -> list[Said]:
        """Its answers."""
        return [said for said in self.said if said.is_answer]

    def asked(self, answer: Said) -> bool:
        """Whether an answer of the client is one to a request of this server."""
        id = answer.object.get("id")
        return any(type(id) is type(asked) and id == asked for asked in self._asked)

    def has_ended(self) -> bool:
        """Whether the client has ended, or has hung up on all its connections."""
        return (self.running is not None and self.running.ended.is_set()) or bool(
            self.links and all(link.ended.is_set() for link in self.links)
        )

    async def call(
        self, method: str, number: int = 1, *, name: str | None = None, timeout: float = 0
    ) -> Call:
        """Wait for the client's request of a method; the n-th one, of a tool or prompt if given.

        Raises:
            NotApplicable: It does not make it.
        """

        def found() -> list[Call]:
            calls = self.requests_of(method)
            return [call for call in calls if name in (None, call.name)][number - 1 :]

        called = f"{method} {name}" if name else method
        times = "" if number == 1 else f" {number} times"
        failure = f"the client does not send {called}{times}"
        return (await self._until(found, timeout, failure))[0]

    async def message(
        self, wanted: Callable[[Said], bool], what: str, *, timeout: float = 0
    ) -> Said:
        """Wait for a message that fits.

        Raises:
            NotApplicable: The client does not send `what`.
        """
        failure = f"the client does not send {what}"
        return (await self._until(lambda: [s for s in self.said if wanted(s)], timeout, failure))[0]

    async def _until(self, found: Callable[[], list[T]], timeout: float, failure: str) -> list[T]:
        """Wait until something is found: for as long as the client goes on doing things."""
        while not (these := found()):
            if await self._is_over(timeout):
                if these := found():
                    return these
                raise NotApplicable(failure)
        return these

    async def _is_over(self, timeout: float = 0) -> bool:
        """Wait for something to happen; whether nothing will any more."""
        self._raise_failure()
        patience = timeout or min(QUIET, self.deadline)
        if self.running is not None and self.running.ended.is_set():
            read_to_end = self.links and all(link.ended.is_set() for link in self.links)
            patience = 0 if read_to_end else LAST_WORDS
        elif not self._seen():
            patience = START_TIME
        with trio.move_on_after(patience):
            await self._changed.park()
            return False
        self._raise_failure()
        return True

    def _seen(self) -> int:
        return len(self.said) + len(self.requests)

    async def over(self, timeout: float = 0) -> None:
        """Wait until the client has done all that it does: it ended, hung up, or is quiet."""
        while not await self._is_over(timeout):
            pass

    async def pause(self, seconds: float) -> None:
        """Let time pass, or less of it if the client ends."""
        with trio.move_on_after(seconds):
            while not self.has_ended():
                await self._changed.park()

    # What the server says

    @property
    def link(self) -> Link:
        """The newest connection.

        Raises:
            NotApplicable: There is none, as Streamable HTTP has no connections.
        """
        if not self.links:
            raise NotApplicable("the client has no connection that could be used at any time")
        return self.links[-1]

    @property
    def bytes_link(self) -> BytesLink:
        """The newest connection, which carries plain bytes.

        Raises:
            NotApplicable: It does not.
        """
        if not isinstance(self.link, BytesLink):
            raise NotApplicable("this transport carries no plain bytes")
        return self.link

    async def send(self, message: JSONObject | bytes, *, via: Call | None = None) -> None:
        """Send anything: with a request's answer still to come, or without any request.

        Raises:
            NotApplicable: The client does not listen to what comes without a request.
            Failed: It has gone.
        """
        if via is not None:
            await via.send(message)
            return
        frame = _frame(message)
        with self.client_must_take_it():
            if self.links:
                await self.link.send(frame)
                return
            for reply in self.listening:
                if not reply.left.is_set():
                    self.exchange.add("sent", frame, "event")
                    await reply.event(frame)
                    return
        raise NotApplicable("the client does not listen for messages outside of requests")

    async def notify(
        self, method: str, params: JSONObject | None = None, *, via: Call | None = None
    ) -> None:
        """Send a notification. Raises as `send`."""
        await self.send(notification(method, params), via=via)

    async def ask(
        self,
        method: str,
        params: JSONObject | None = None,
        *,
        via: Call | None = None,
        id: RequestId | None = None,
    ) -> Reply:
        """Send a request to the client and wait for its answer.

        Raises:
            Failed: There is none in time, or the client has gone.
            NotApplicable: As `send`.
        """
        asked = id if id is not None else self.next_id()
        self._asked.append(asked)
        start = len(self.said)
        message: JSONObject = {"jsonrpc": "2.0", "id": asked, "method": method}
        if params is not None:
            message["params"] = params
        await self.send(message, via=via)
        with trio.move_on_after(self.deadline):
            while not (answers := self.answers_to(asked, start)):
                self._raise_failure()
                if self.has_ended():
                    ending = "" if self.running is None else f" ({self.running.ending})"
                    raise Failed(f"the client left instead of answering {method}{ending}")
                await self._changed.park()
            return Reply(answers[0])
        raise Late(f"no answer of the client to {method} within {self.deadline:g} s")

    def next_id(self) -> RequestId:
        """An id for a request of the server."""
        self._last_id += 1
        return f"server-{self._last_id}"

    def answers_to(self, id: JSON, since: int = 0) -> list[Said]:
        """The client's answers with an id."""
        return [
            said
            for said in self.said[since:]
            if said.is_answer
            and type(said.object.get("id")) is type(id)
            and said.object.get("id") == id
        ]

    def client_must_take_it(self) -> _Taking:
        """Turn the news that the client has left into a failed check."""
        return _Taking(self)

    # The script

    async def healthy_answer(self, call: Call) -> Answer:
        """What a healthy server answers."""
        step = self._healthy.get(call.method, Refusal(-32601, f"no such method: {call.method}"))
        return await self._take(call, step, f"healthy {call.method}")

    async def _take(self, call: Call, step: Step | Sequence[Step], key: str) -> Answer:
        if isinstance(step, Sequence):
            used = self._used.get(key, 0)
            self._used[key] = used + 1
            step = step[min(used, len(step) - 1)]
        if not callable(step):
            return step
        answer = step(call)
        return await answer if inspect.isawaitable(answer) else answer

    async def _follow(self, call: Call) -> None:
        step = self._answers.get(call.method)
        try:
            if step is None:
                answer = await self.healthy_answer(call)
            else:
                answer = await self._take(call, step, call.method)
        except Exception as exc:
            self.fail(exc)
            return
        try:
            await call.answer(answer)
        except Failed as exc:
            # Nobody asked for this answer to be taken; a check that does answers by itself.
            self.exchange.note(f"the answer to {call.method} was not taken: {exc.message}")

    def fail(self, exc: Exception) -> None:
        """Something went wrong beside the check: it is to raise this when it waits next."""
        self._failure = self._failure or exc
        self._changed.unpark_all()

    def _raise_failure(self) -> None:
        if self._failure is not None:
            raise self._failure

    # What comes in

    def hear(
        self,
        frame: bytes,
        *,
        link: Link | None = None,
        http: HTTPRequest | None = None,
        channel: Channel | None = None,
    ) -> list[Said]:
        """Take a frame of the client: note what is in it, and begin to answer its requests.

        A batch counts as the messages in it. `channel` is the way back; that of the link if None.
        """
        number = link.number if link is not None else http.connection if http is not None else 0
        label = "" if http is None else f"{http.method} {http.path}"
        self.exchange.add("received", frame, label, number)
        said = read(frame, link, http)
        self.said += said
        for message in said:
            if message.is_request:
                way = channel or LinkChannel(message.link) if message.link else channel
                assert way is not None
                call = Call(self, message, way)
                waiting = (c.id for c in self.calls if not c.answered and not c.abandoned.is_set())
                if any(type(id) is type(call.id) and id == call.id for id in waiting):
                    self.reused.append(call.id)
                self.calls.append(call)
                self._nursery.start_soon(self._follow, call)
                self._nursery.start_soon(self._watch, call)
            elif message.method == "notifications/cancelled":
                for call in self.calls:
                    if call.id == message.params.get("requestId"):
                        call.abandoned.set()
        self.changed()
        return said

    async def _watch(self, call: Call) -> None:
        await call.channel.wait_left()
        if not call.answered:
            call.abandoned.set()
            self.changed()

    async def happens(self) -> None:
        """Wait for anything to happen; the caller has a deadline.

        Raises what went wrong beside the check.
        """
        self._raise_failure()
        await self._changed.park()

    def changed(self) -> None:
        """Wake who waits for something to happen."""
        self._changed.unpark_all()

    @asynccontextmanager
    async def opened(self) -> AsyncIterator[trio.Nursery]:
        """Answer for the length of a block."""
        async with open_private_nursery() as nursery:
            self._nursery = nursery
            yield nursery
            self._raise_failure()

    async def attend(self, running: Running) -> None:
        """Wait for the end of the client, and wake who waits."""
        await running.ended.wait()
        self.exchange.note(f"the client {running.ending}")
        self.changed()


class _Taking:
    def __init__(self, scene: Scene) -> None:
        self._scene = scene

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if isinstance(error, ClientLeft):
            running = self._scene.running
            ending = "" if running is None else f" ({running.ending})"
            raise Failed(f"the client has closed the connection{ending}") from error


def read(frame: bytes, link: Link | None, http: HTTPRequest | None) -> list[Said]:
    """The messages in a frame: one, or those of a batch, or what is none."""
    try:
        value = json.loads(frame)
    except (ValueError, RecursionError):
        value = None
    if isinstance(value, list) and value:
        return [_said(dump(one), one, link, http, batched=True) for one in value]
    return [_said(frame, value, link, http, batched=False)]


def _said(
    raw: bytes, value: JSON, link: Link | None, http: HTTPRequest | None, *, batched: bool
) -> Said:
    return Said(
        raw,
        trio.current_time(),
        jsonrpc.decode(raw),
        value,
        link=link,
        http=http,
        batched=batched,
    )


def notification(method: str, params: JSONObject | None = None) -> JSONObject:
    """A notification as an object."""
    message: JSONObject = {"jsonrpc": "2.0", "method": method}
    if params is not None:
        message["params"] = params
    return message


def _frame(message: JSONObject | bytes) -> bytes:
    return message if isinstance(message, bytes) else dump(message)
