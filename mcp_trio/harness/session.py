"""A session: the harness's side of a conversation with a server, in one revision.

`Session` speaks the protocol as a client does, but as an indifferent one: it checks nothing, hides
nothing, and sends whatever it is told to. A check asks through it, and judges what comes back.

    reply = await session.request("tools/call", {"name": "add", "arguments": {"a": 1, "b": 2}})
    if reply.error is None:
        raise Failed("...")

Some checks are about what must not come. One cannot wait for nothing; so `fence` asks something
that every server answers, and when the answer is there, what was to come before it has come.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any, Final

import attrs
import trio

from mcp_trio.connection import open_private_nursery
from mcp_trio.harness.model import Failed, Late, NotApplicable
from mcp_trio.harness.wires import Wire, WireEnded
from mcp_trio.protocol import meta as keys
from mcp_trio.protocol.revisions import is_modern
from mcp_trio.wire import jsonrpc
from mcp_trio.wire.jsonrpc import JSON, JSONObject, RequestId

CLIENT_INFO: Final[JSONObject] = {"name": "mcp-trio-harness", "version": "1"}

Answerer = Callable[[JSONObject], JSONObject]
"""Takes a request of the server, gives "result" or "error" and its value in one object."""


def capabilities_for(revision: str) -> JSONObject:
    """All that a client can offer in a revision."""
    offered: JSONObject = {"roots": {}, "sampling": {}}
    if not is_modern(revision):
        offered["roots"] = {"listChanged": True}
    if revision >= "2025-06-18":
        offered["elicitation"] = {}
    if revision >= "2025-11-25":
        offered["elicitation"] = {"form": {}, "url": {}}
        offered["sampling"] = {"tools": {}, "context": {}}
    return offered


@attrs.frozen
class Received:
    """One frame of the peer.

    Attributes:
        raw: As it was on the wire.
        at: When it came, in Trio's time.
        message: What it is to a strict reader.
        value: What it is to any reader of JSON; None if it is none.
    """

    raw: bytes
    at: float
    message: jsonrpc.Received
    value: JSON

    @classmethod
    def of(cls, raw: bytes) -> Received:
        try:
            value = json.loads(raw)
        except (ValueError, RecursionError):
            value = None
        return cls(raw, trio.current_time(), jsonrpc.decode(raw), value)

    @property
    def object(self) -> JSONObject:
        """The message, if it is an object; else an empty one."""
        return self.value if isinstance(self.value, dict) else {}

    @property
    def method(self) -> str | None:
        """The method, if it is a string, as others name nothing."""
        found = self.object.get("method")
        return found if isinstance(found, str) else None

    @property
    def is_answer(self) -> bool:
        return "method" not in self.object and ("result" in self.object or "error" in self.object)


@attrs.frozen
class Reply:
    """The answer to a request.

    Attributes:
        received: The frame.
        before: The notifications that came between the request and this answer, oldest first.
    """

    received: Received
    before: tuple[JSONObject, ...] = ()

    @property
    def raw(self) -> JSONObject:
        return self.received.object

    @property
    def result(self) -> JSONObject | None:
        found = self.raw.get("result")
        return found if isinstance(found, dict) else None

    @property
    def error(self) -> JSONObject | None:
        found = self.raw.get("error")
        return found if isinstance(found, dict) else None

    @property
    def code(self) -> int | None:
        """The code of the error; None if there is none."""
        return None if self.error is None else self.error.get("code")

    def progress(self, token: str | int) -> list[JSONObject]:
        """The params of the progress that came before it."""
        return [
            params
            for note in self.before
            if note.get("method") == "notifications/progress"
            and isinstance(params := note.get("params"), dict)
            and params.get("progressToken") == token
        ]

    def expect_result(self, requirement: str | None = None) -> JSONObject:
        """The result.

        Raises:
            Failed: It is an error.
        """
        if self.result is None:
            raise Failed(f"expected a result, got {self.brief()}", requirement=requirement)
        return self.result

    def expect_error(self, *codes: int, requirement: str | None = None) -> JSONObject:
        """The error.

        Raises:
            Failed: It is a result, or its code is none of `codes` (any will do if none is given).
        """
        wanted = " or ".join(map(str, codes)) or "an error"
        if self.error is None or (codes and self.code not in codes):
            raise Failed(f"expected {wanted}, got {self.brief()}", requirement=requirement)
        return self.error

    def brief(self) -> str:
        """The answer in a few words, for messages."""
        if self.error is not None:
            return f"error {self.code} ({str(self.error.get('message'))[:80]})"
        text = json.dumps(self.raw.get("result"), ensure_ascii=False)
        return f"the result {text[:120]}{'...' if len(text) > 120 else ''}"


@attrs.frozen
class Refused:
    """A frame that the transport refused, so that no answer to it will come.

    Attributes:
        id: The id in the frame; None if it had none.
        why: What was said, such as "POST got status 404 with 'Not Found'".
        since: How many frames of the server had come by then.
    """

    id: JSON
    why: str
    since: int


class Session:
    """One conversation with a server. Made by `open_session`.

    Attributes:
        wire: What it goes over.
        revision: The revision it is in.
        capabilities: What this client says it can do.
        deadline: Seconds that an answer may take.
        hello: The result of `initialize`; empty in the modern era, which has none.
        received: Every frame of the server so far.
        answerers: Answers the server's requests, by method. A request without an entry is refused
            with -32601.
        ended: Why the wire ended; None as long as it has not.
        refused: What the transport refused by itself, without an answer: HTTP does so by a status.
        mistake: Why the harness itself cannot read on; whoever waits gets it raised, so that it
            is known for what it is.
    """

    def __init__(
        self, wire: Wire, revision: str, capabilities: JSONObject, deadline: float
    ) -> None:
        self.wire = wire
        self.revision = revision
        self.capabilities = capabilities
        self.deadline = deadline
        self.hello: JSONObject = {}
        self.received: list[Received] = []
        self.answerers: dict[str, Answerer] = dict(ANSWERERS)
        self.ended: str | None = None
        self.refused: list[Refused] = []
        self.mistake: Exception | None = None
        self._arrival = trio.lowlevel.ParkingLot()
        self._last_id = 0
        self._asked: list[JSON] = []

    @property
    def is_modern(self) -> bool:
        return is_modern(self.revision)

    # Sending

    def message(
        self,
        method: str,
        params: Mapping[str, JSON] | None = None,
        *,
        id: RequestId | None = None,
        meta: Mapping[str, JSON] | None = None,
    ) -> JSONObject:
        """A message as this revision has it: a request with an id, a notification without.

        In the modern era a request's `_meta` carries version and capabilities; `meta` adds to it,
        and a value of None in `meta` takes a key away.
        """
        message: JSONObject = {"jsonrpc": "2.0"}
        if id is not None:
            message["id"] = id
        message["method"] = method
        own: JSONObject = {}
        if self.is_modern and id is not None:
            own[keys.PROTOCOL_VERSION] = self.revision
            own[keys.CLIENT_INFO] = CLIENT_INFO
            own[keys.CLIENT_CAPABILITIES] = self.capabilities
        given = dict(params or {})
        merged = {**own, **given.pop(keys.META, {}), **(meta or {})}
        merged = {key: value for key, value in merged.items() if value is not None}
        if merged:
            given[keys.META] = merged
        if given or params is not None:
            message["params"] = given
        return message

    def next_id(self) -> int:
        """An id that this session has not used."""
        self._last_id += 1
        return self._last_id

    async def send(self, message: JSONObject | bytes) -> None:
        """Send a message as it is, or bytes that are none, as one frame.

        Raises:
            Failed: The server has closed the connection.
        """
        if not isinstance(message, bytes):
            self._asked.append(message.get("id"))
        frame = message if isinstance(message, bytes) else dump(message)
        try:
            await self.wire.send(frame)
        except WireEnded as exc:
            raise Failed(f"the connection ended: {exc}") from exc

    async def notify(self, method: str, params: Mapping[str, JSON] | None = None) -> None:
        """Send a notification."""
        await self.send(self.message(method, params))

    async def post(
        self,
        method: str,
        params: Mapping[str, JSON] | None = None,
        *,
        meta: Mapping[str, JSON] | None = None,
        id: RequestId | None = None,
    ) -> RequestId:
        """Send a request and do not wait; its id, for `reply`."""
        id = self.next_id() if id is None else id
        await self.send(self.message(method, params, id=id, meta=meta))
        return id

    async def request(
        self,
        method: str,
        params: Mapping[str, JSON] | None = None,
        *,
        meta: Mapping[str, JSON] | None = None,
        id: RequestId | None = None,
        timeout: float | None = None,
    ) -> Reply:
        """Send a request and wait for its answer.

        Raises:
            Failed: There is none within `timeout` (the session's deadline by default), the
                transport refused it, or the connection ended.
        """
        start = len(self.received)
        posted = await self.post(method, params, meta=meta, id=id)
        return await self.reply(posted, timeout=timeout, since=start, what=method)

    async def ask(self, message: JSONObject, timeout: float | None = None) -> Reply:
        """Send a request as it is and wait for the answer with its id; else as `request`."""
        start = len(self.received)
        await self.send(message)
        what = str(message.get("method"))
        return await self.reply(message["id"], timeout=timeout, since=start, what=what)

    # Receiving

    def replies(self, id: JSON, since: int = 0) -> list[Received]:
        """The answers with an id that have come, exactly that id: "1" is not 1, nor is True."""
        return [
            received
            for received in self.received[since:]
            if received.is_answer and _same(received.object.get("id"), id)
        ]

    async def reply(
        self, id: JSON, *, timeout: float | None = None, since: int = 0, what: str = ""
    ) -> Reply:
        """Wait for the answer with an id; the first one since `since` frames had come."""
        patience = self.deadline if timeout is None else timeout
        name = f"{what or 'the request'} (id {json.dumps(id)})"

        def answers() -> list[Received]:
            found = self.replies(id, since)
            for refused in self.refused:
                if not found and _same(refused.id, id) and refused.since >= since:
                    raise Failed(f"no answer to {name}: {refused.why}")
            if not found and (twins := self._twins(id, since)):
                other = json.dumps(twins[0].object["id"])
                raise Failed(f"{name} was answered under the id {other}, of another type")
            return found

        found = await self._wait(answers, patience, f"no answer to {name}")
        end = self.received.index(found[0])
        before = tuple(
            received.object
            for received in self.received[since:end]
            if received.method and "id" not in received.object
        )
        return Reply(found[0], before)

    def _twins(self, id: JSON, since: int) -> list[Received]:
        """The answers whose id only looks like `id`, and was never asked: "1" for 1."""
        answers = [received for received in self.received[since:] if received.is_answer]
        return [
            received
            for received in answers
            if str(other := received.object.get("id")) == str(id)
            and not any(_same(other, asked) for asked in (id, *self._asked))
        ]

    async def wait_for(
        self, wanted: Callable[[Received], bool], what: str, *, since: int = 0, timeout: float = 0
    ) -> Received:
        """Wait for a frame that fits.

        Raises:
            Failed: None came in time; the message says that there was no `what`.
        """
        found = await self._wait(
            lambda: [received for received in self.received[since:] if wanted(received)],
            timeout or self.deadline,
            f"no {what}",
        )
        return found[0]

    async def notification(self, method: str, *, since: int = 0, timeout: float = 0) -> JSONObject:
        """Wait for a notification of a method; its params."""
        found = await self.wait_for(
            lambda received: received.method == method, method, since=since, timeout=timeout
        )
        params = found.object.get("params")
        return params if isinstance(params, dict) else {}

    async def _wait(
        self, found: Callable[[], list[Received]], patience: float, failure: str
    ) -> list[Received]:
        if self.wire.child is not None and not self.received:
            patience = max(patience, START_TIME)  # a modern session has no handshake to wait for
        with trio.move_on_after(patience):
            while not (these := found()):
                if self.mistake is not None:
                    raise self.mistake
                if self.ended is not None:
                    raise Failed(f"{failure}: the connection ended: {self.ended}")
                await self._arrival.park()
            return these
        raise Late(f"{failure} within {patience:g} s")

    async def fence(self) -> None:
        """Wait until the server has dealt with what was sent before, as far as can be known.

        A cheap request is answered, and then a moment passes: servers may answer out of order.

        Raises:
            Failed: The server does not answer any more.
        """
        method = "server/discover" if self.is_modern else "ping"
        await self.request(method)
        await trio.sleep(MOMENT)

    async def silence(self, id: JSON, because: str, requirement: str | None = None) -> None:
        """See to it that a message with an id gets no answer.

        Raises:
            Failed: It got one; the message says `because`.
        """
        await self.fence()
        if answers := self.replies(id):
            brief = Reply(answers[0]).brief()
            raise Failed(f"{because}, and yet it was answered: {brief}", requirement=requirement)

    # Running

    async def _read(self) -> None:
        try:
            while True:
                received = Received.of(await self.wire.receive())
                self.received.append(received)
                self._arrival.unpark_all()
                await self._answer(received)
        except WireEnded as exc:
            self.ended = str(exc)
            self.wire.note(f"the connection ended: {exc}")
        except Exception as exc:
            self.mistake = exc
        self._arrival.unpark_all()

    def _take_refusal(self, id: JSON, why: str) -> None:
        self.refused.append(Refused(id, why, len(self.received)))
        self._arrival.unpark_all()

    async def _answer(self, received: Received) -> None:
        request = received.object
        if received.method is None or "id" not in request:
            return
        answerer = self.answerers.get(received.method, _refuse)
        answer = answerer(request)
        if answer:
            await self.wire.send(dump({"jsonrpc": "2.0", "id": request["id"], **answer}))


def dump(message: JSONObject) -> bytes:
    """A message as a frame. Lone surrogates and NaN go through as JSON writers let them."""
    return json.dumps(message, separators=(",", ":")).encode()


def _same(one: JSON, other: JSON) -> bool:
    return type(one) is type(other) and bool(one == other)


def _refuse(request: JSONObject) -> JSONObject:
    return {"error": {"code": -32601, "message": f"no such method: {request['method']}"}}


ANSWERERS: Final[dict[str, Answerer]] = {
    "ping": lambda _: {"result": {}},
    "roots/list": lambda _: {"result": {"roots": [{"uri": "file:///harness", "name": "harness"}]}},
    "elicitation/create": lambda _: {"result": {"action": "decline"}},
    "sampling/createMessage": lambda _: {
        "result": {
            "role": "assistant",
            "content": {"type": "text", "text": "A reply of the harness."},
            "model": "harness",
            "stopReason": "endTurn",
        }
    },
}
"""How the harness answers a server's requests if a check does not say otherwise."""

START_TIME: Final = 30.0
"""Seconds for a process's first answer, as it may have to be fetched and compiled first."""

MOMENT: Final = 0.02
"""Seconds for what a server may still be about to say; nothing depends on it being enough."""


@asynccontextmanager
async def open_session(
    wire: Wire,
    revision: str,
    *,
    deadline: float,
    capabilities: JSONObject | None = None,
    handshake: bool = True,
) -> AsyncIterator[Session]:
    """Speak a revision over a wire, for the length of a block.

    In the legacy era the handshake is made first, unless `handshake` is False.

    Raises:
        Failed: The handshake is not answered.
        NotApplicable: The server speaks another revision.
    """
    offered = capabilities_for(revision) if capabilities is None else capabilities
    session = Session(wire, revision, offered, deadline)
    wire.revision = revision
    wire.on_refused = session._take_refusal
    async with open_private_nursery() as nursery:
        nursery.start_soon(session._read)
        if handshake:
            await shake_hands(session)
        yield session


async def shake_hands(session: Session, timeout: float = START_TIME) -> None:
    """Open a legacy session; in the modern era, do nothing.

    Raises:
        Failed: `initialize` is not answered within `timeout` seconds, as a server may have to be
            fetched and compiled first.
        NotApplicable: The server refuses, or speaks another revision.
    """
    if not session.is_modern:
        params: dict[str, Any] = {
            "protocolVersion": session.revision,
            "capabilities": session.capabilities,
            "clientInfo": CLIENT_INFO,
        }
        reply = await session.request("initialize", params, timeout=timeout)
        if reply.result is None:
            raise NotApplicable(f"the server refuses to initialize: {reply.brief()}")
        session.hello = reply.result
        spoken = session.hello.get("protocolVersion")
        if spoken != session.revision:
            raise NotApplicable(f"the server answers initialize with revision {spoken}")
        await session.wire.negotiated(session.revision)
        await session.notify("notifications/initialized")
    if session.wire.child is not None:
        session.wire.child.established = True
