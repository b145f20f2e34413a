"""Making a server talk: what it says in a while of ordinary use, for checks that only listen.

`exercise` asks for all that a server has: its lists, what it can read, its prompts and its tools,
with arguments made from their schemas. Checks then judge what was heard. `running_call` starts a
call that takes a while, for checks of what may happen meanwhile.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, Final

import attrs
import trio

from mcp_trio.harness.aftermath import harmless
from mcp_trio.harness.model import Failed, NotApplicable
from mcp_trio.harness.probe import ServerProbe
from mcp_trio.harness.samples import NoSample, sample
from mcp_trio.harness.session import Answerer, Received, Session
from mcp_trio.protocol.meta import PROGRESS_TOKEN
from mcp_trio.wire.jsonrpc import JSONObject, RequestId

MOST_TOOLS: Final = 16
MOST_OTHERS: Final = 4
"""Tools that are called at a time, and resources and prompts that are read."""
CALL_TIME: Final = 1.5  # seconds for all calls together; one that is not over then is cancelled
SOON: Final = 0.3  # seconds: a call without an answer until then takes a while
SOON_IN_PINGS: Final = 10  # on a machine that is busy it may take as long as so many pings

_TIME = re.compile(r"delay|duration|pause|sleep|wait|seconds|interval|\bms\b|milli", re.I)
_MILLISECONDS = re.compile(r"ms$|milli", re.I)
_ASKED: Final = ("elicitation/create", "sampling/createMessage", "roots/list")


@attrs.frozen
class Heard:
    """What a server said during an exercise.

    Attributes:
        frames: All of it, in order.
        tokens: The progress token of each call that had one, by the call's id.
        given_up: The ids of calls that were cancelled, as they took too long.
    """

    frames: tuple[Received, ...]
    tokens: dict[RequestId, RequestId]
    given_up: frozenset[RequestId]

    def notifications(self, method: str) -> list[JSONObject]:
        """The params of all notifications of a method."""
        return [
            as_object(frame.object.get("params"))
            for frame in self.frames
            if frame.method == method and "id" not in frame.object
        ]

    def requests(self) -> list[JSONObject]:
        """What the server asked of the client."""
        return [f.object for f in self.frames if f.method is not None and "id" in f.object]

    def answers(self) -> list[JSONObject]:
        """Results and errors."""
        return [frame.object for frame in self.frames if frame.is_answer]


async def exercise(
    probe: ServerProbe,
    session: Session,
    *,
    tokens: str | int | None = None,
    meta: JSONObject | None = None,
    seconds: float = 0.05,
) -> Heard:
    """Use all that a server has, and listen.

    Args:
        probe: Whose inventory and options are used.
        session: Where to ask.
        tokens: Let calls have progress tokens that begin with this text, or count from this number.
        meta: Goes into the `_meta` of each call of a tool.
        seconds: For arguments that are called like a time.

    Raises:
        NotApplicable: A tool ended the server, as some are made to; another check tells of that.
    """
    since = len(session.received)
    for method, params in await _readings(probe):
        await session.request(method, params)
    carried: dict[int, RequestId] = {}
    posted: list[RequestId] = []
    try:
        for number, tool in enumerate(await _tools(probe)):
            params = {"name": tool["name"], "arguments": arguments_of(tool, seconds)}
            own = dict(meta or {})
            if tokens is not None:
                own[PROGRESS_TOKEN] = carried[number] = _token(tokens, number)
            posted.append(await session.post("tools/call", params, meta=own))
        given_up = await _give_up(session, posted, since)
    except Failed as exc:
        if session.ended is None:
            raise
        raise NotApplicable(f"a tool ended the server: {exc.message}") from exc
    by_id = {posted[number]: token for number, token in carried.items()}
    return Heard(tuple(session.received[since:]), by_id, given_up)


async def _give_up(session: Session, posted: list[RequestId], since: int) -> frozenset[RequestId]:
    """Wait for the answers to calls for a while, then cancel those that have none; which."""
    with trio.move_on_after(CALL_TIME):
        for id in posted:
            await session.reply(id, timeout=CALL_TIME * 2, since=since, what="tools/call")
    given_up = frozenset(id for id in posted if not session.replies(id, since))
    for id in given_up:
        await session.notify("notifications/cancelled", {"requestId": id})
    await session.fence()
    return given_up


def _token(first: str | int, number: int) -> RequestId:
    return first + number if isinstance(first, int) else f"{first}{number}"


async def _readings(probe: ServerProbe) -> list[tuple[str, JSONObject]]:
    """Requests for all lists, for some resources and for some prompts."""
    inventory = await probe.inventory()
    asked: list[tuple[str, JSONObject]] = [
        ("tools/list", {}),
        ("resources/list", {}),
        ("resources/templates/list", {}),
        ("prompts/list", {}),
    ]
    asked += [
        ("resources/read", {"uri": found["uri"]})
        for found in inventory.resources[:MOST_OTHERS]
        if isinstance(found.get("uri"), str)
    ]
    for prompt in inventory.prompts[:MOST_OTHERS]:
        names = [as_object(argument).get("name") for argument in prompt.get("arguments") or ()]
        arguments = {name: "x" for name in names if isinstance(name, str)}
        asked.append(("prompts/get", {"name": prompt.get("name"), "arguments": arguments}))
    return asked


async def _tools(probe: ServerProbe) -> list[JSONObject]:
    try:
        tools = await probe.callable_tools()
    except NotApplicable:
        return []
    return [tool for tool in tools if isinstance(tool.get("name"), str)][:MOST_TOOLS]


def arguments_of(tool: JSONObject, seconds: float) -> JSONObject:
    """Arguments for a tool: those that are required, and those that are called like a time."""
    arguments = _required(tool)
    for name, schema in _times(tool):
        time = seconds * 1000 if _MILLISECONDS.search(name) else seconds
        least, most = schema.get("minimum", time), schema.get("maximum", time)
        value = min(max(time, least), most)
        arguments[name] = max(1, round(value)) if schema.get("type") == "integer" else value
    return arguments


def _required(tool: JSONObject) -> JSONObject:
    try:
        return as_object(sample(as_object(tool.get("inputSchema"))))
    except NoSample:
        return {}


def _times(tool: JSONObject) -> Iterator[tuple[str, JSONObject]]:
    properties = as_object(as_object(tool.get("inputSchema")).get("properties"))
    for name, schema in properties.items():
        if _TIME.search(name) and as_object(schema).get("type") in ("integer", "number"):
            yield name, as_object(schema)


@attrs.frozen
class Running:
    """A call that has begun and is not over.

    Attributes:
        id: Its id.
        token: Its progress token.
        since: How many frames had come when it was sent.
        tool: The name of the tool.
        arguments: What it was called with; called again with them, it takes as long.
        ends_alone: It waits for nothing but time, and not for an answer of the client's.
    """

    id: RequestId
    token: str
    since: int
    tool: str
    arguments: JSONObject
    ends_alone: bool = True


async def running_call(
    probe: ServerProbe, session: Session, seconds: float = 1.0, *, ends_alone: bool = True
) -> Running:
    """Start a call that takes about as long as said, or longer.

    It is one of a tool with an argument that is called like a time, or else of any that turns out
    to be slow, or in the legacy era of one that waits for an answer of the client's: from now on,
    this session answers no such question.

    Args:
        probe: Whose inventory and options are used.
        session: Where to call.
        seconds: How long it shall take, if that can be said.
        ends_alone: Take one that waits for time, if there is one; else, none such.

    Raises:
        NotApplicable: No tool takes a while.
    """
    tools = await _tools(probe)
    await session.fence()  # how long a process takes to start is not how long a call takes
    soon = max(SOON, SOON_IN_PINGS * await seconds_for_nothing(session))
    keep_silent(session)
    try:
        return await _running_call(session, tools, seconds, soon, ends_alone)
    except Failed as exc:
        if session.ended is None:
            raise
        raise NotApplicable(f"a tool ended the server: {exc.message}") from exc


async def seconds_for_nothing(session: Session) -> float:
    """How long the server takes just now for a request that costs it nothing."""
    began = trio.current_time()
    await session.request(harmless(session))
    return trio.current_time() - began


async def _running_call(
    session: Session, tools: list[JSONObject], seconds: float, soon: float, ends_alone: bool
) -> Running:
    for tool in [tool for tool in tools if ends_alone and any(_times(tool))]:
        running = await _start(session, tool, seconds)
        if await _takes_a_while(session, [running], soon):
            return running
    posted = [await _start(session, tool, seconds) for tool in tools if not any(_times(tool))]
    slow = await _takes_a_while(session, posted, soon)
    for running in slow[1:]:
        await session.notify("notifications/cancelled", {"requestId": running.id})
    if not slow:
        raise NotApplicable("no tool that may be called takes a while")
    return attrs.evolve(slow[0], ends_alone=False)


def keep_silent(session: Session) -> None:
    """Answer none of the server's questions from now on."""
    silence: dict[str, Answerer] = {method: lambda _: {} for method in _ASKED}
    session.answerers.update(silence)


async def _start(session: Session, tool: JSONObject, seconds: float) -> Running:
    arguments = arguments_of(tool, seconds)
    return await start_again(session, str(tool["name"]), arguments)


async def start_again(session: Session, tool: str, arguments: JSONObject) -> Running:
    """Start a call, and do not wait for it."""
    since, id = len(session.received), session.next_id()
    token = f"harness-{id}"
    params = {"name": tool, "arguments": arguments}
    await session.post("tools/call", params, meta={PROGRESS_TOKEN: token}, id=id)
    return Running(id, token, since, tool, arguments)


async def _takes_a_while(session: Session, started: list[Running], soon: float) -> list[Running]:
    """Those of some calls that have no answer soon; the ones that told of progress come first.

    Several are given more time, as most of them will just have come at once.
    """
    slow = started
    for _ in range(2):
        await trio.sleep(soon)
        slow = [running for running in slow if not session.replies(running.id, running.since)]
        if len(slow) < 2:
            break
    return sorted(slow, key=lambda running: not _has_progress(session, running))


def _has_progress(session: Session, running: Running) -> bool:
    return any(
        as_object(frame.object.get("params")).get("progressToken") == running.token
        for frame in session.received[running.since :]
        if frame.method == "notifications/progress"
    )


def as_object(value: Any) -> JSONObject:
    """The value if it is an object, else an empty one: peers send what they like."""
    return value if isinstance(value, dict) else {}
