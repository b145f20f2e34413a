"""Robustness: what no sentence asks for and everybody expects of a server that runs for days."""

from typing import Final

import trio

from mcp_trio.harness.checks import check
from mcp_trio.harness.exercise import arguments_of
from mcp_trio.harness.fuzzing.usage import Usage, growth, measure
from mcp_trio.harness.model import Failed, NotApplicable
from mcp_trio.harness.probe import ServerProbe, require
from mcp_trio.harness.session import Session
from mcp_trio.wire.jsonrpc import JSONObject

MOST_OF_A_KIND: Final = 8
QUICK: Final = 0.25  # seconds: a request that takes longer is not repeated
LOOKS: Final = 12
BETWEEN_LOOKS: Final = 30  # requests, at least
PATIENCE: Final = 10.0  # seconds for all looks

Asked = tuple[str, JSONObject]


@check(
    "repetition-costs-nothing",
    meaning="The same requests again and again take no more memory and no more open files.",
    transports=("stdio",),
)
async def repetition_costs_nothing(probe: ServerProbe) -> None:
    async with probe.open_session() as session:
        requests = [asked for asked in await _requests(probe) if await _is_quick(session, *asked)]
        require(requests, "nothing is answered fast enough to ask it often")
        # Garbage collectors take their time; only who grows twice in a row is said to leak.
        if growth(await _looks(session, requests)):
            again = growth(await _looks(session, requests))
            if again:
                raise Failed("; ".join(accusation.message for accusation in again))


async def _requests(probe: ServerProbe) -> list[Asked]:
    """What can be asked again and again: calls of tools, resources, lists."""
    inventory = await probe.inventory()
    try:
        tools = await probe.callable_tools()
    except NotApplicable:
        tools = []
    calls: list[Asked] = [
        ("tools/call", {"name": tool.get("name"), "arguments": arguments_of(tool, seconds=0)})
        for tool in tools
    ]
    reads: list[Asked] = [("resources/read", {"uri": r.get("uri")}) for r in inventory.resources]
    lists: list[Asked] = [("tools/list", {}), ("resources/list", {}), ("prompts/list", {})]
    return calls[:MOST_OF_A_KIND] + reads[:MOST_OF_A_KIND] + lists


async def _is_quick(session: Session, method: str, params: JSONObject) -> bool:
    """Whether a request is answered soon the second time, when what can be kept is there."""
    took = 0.0
    for _ in range(2):
        began = trio.current_time()
        try:
            await session.request(method, params)
        except Failed:
            return False  # another check's business
        took = trio.current_time() - began
    return took < QUICK


async def _looks(session: Session, requests: list[Asked]) -> list[Usage]:
    """What the server's processes use, again and again, while it is asked the same."""
    child = session.wire.child
    looks: list[Usage] = []
    messages = 0
    with trio.move_on_after(PATIENCE):
        while len(looks) < LOOKS:
            for _ in range(-(-BETWEEN_LOOKS // len(requests))):
                since = len(session.received)
                for id in [await session.post(*asked) for asked in requests]:
                    await session.reply(id, since=since)
                messages += len(requests)
            usage = None if child is None else measure(child.pid, messages, len(looks) + 1)
            if usage is None:
                raise NotApplicable("this system does not say what a process uses")
            looks.append(usage)
    require(len(looks) == LOOKS, "a round of everything takes too long to repeat it often")
    return looks
