"""The probe: what a check of a server gets to work with.

    async def check(probe: ServerProbe) -> None:
        session = await probe.session()                  # a conversation that several checks share
        async with probe.open_session() as session: ...  # one of its own, for who may break it
        async with probe.open_wire() as wire: ...        # bytes and frames, without a handshake
        async with probe.open_client() as client: ...    # the library's own client
        inventory = await probe.inventory()              # what the server has

A probe knows the target and one revision; the runner gives each of its workers one.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, Final, TypeVar

import attrs
import trio

from mcp_trio.connection import open_private_nursery
from mcp_trio.harness.exchange import Exchange
from mcp_trio.harness.model import Failed, NotApplicable, Transport
from mcp_trio.harness.session import Session, open_session
from mcp_trio.harness.targets import ServerTarget
from mcp_trio.harness.wires import Wire
from mcp_trio.wire.jsonrpc import JSONObject

if TYPE_CHECKING:
    from mcp_trio.client.client import Client

T = TypeVar("T")

MOST_PAGES: Final = 50


@attrs.frozen(kw_only=True)
class Options:
    """What the person who runs the checks decides.

    Attributes:
        deadline: Seconds that any one answer may take.
        allow_writes: Call tools that do not say that they are read-only, too. What says so is an
            annotation, and so only the server's word.
    """

    deadline: float = 5.0
    allow_writes: bool = False


@attrs.frozen(kw_only=True)
class Inventory:
    """What a server has, as it says itself; objects as they were on the wire.

    Attributes:
        info: Its name and version.
        capabilities: What it declares.
        instructions: Its text for models, if there is one.
        tools, resources, templates, prompts: What its lists hold, all pages.
    """

    info: JSONObject
    capabilities: JSONObject
    instructions: str | None
    tools: tuple[JSONObject, ...]
    resources: tuple[JSONObject, ...]
    templates: tuple[JSONObject, ...]
    prompts: tuple[JSONObject, ...]

    def has(self, path: str) -> bool:
        """Whether a capability is declared: "tools", "resources.subscribe"."""
        found: Any = self.capabilities
        for key in path.split("."):
            found = found.get(key) if isinstance(found, dict) else None
        return found is not None and found is not False


class ServerProbe:
    """A target, a revision, and ways to speak to the one in the other. Made by `open_probe`.

    Attributes:
        target: The server under test.
        revision: The revision to speak.
        options: What the person decided.
        exchange: What goes over all wires of this probe since the current check began.
    """

    def __init__(
        self,
        target: ServerTarget,
        revision: str,
        options: Options,
        nursery: trio.Nursery,
        shared: SharedInventory,
    ) -> None:
        self.target = target
        self.revision = revision
        self.options = options
        self.exchange = Exchange()
        self._nursery = nursery
        self._shared = shared
        self._session: Session | None = None
        self._session_scope: trio.CancelScope | None = None

    @property
    def transport(self) -> Transport:
        return self.target.transport

    @asynccontextmanager
    async def open_wire(self) -> AsyncIterator[Wire]:
        """A wire of its own, on which nothing has been said yet."""
        async with self.target.open_wire(self.exchange) as wire:
            yield wire

    @asynccontextmanager
    async def open_session(
        self, *, capabilities: JSONObject | None = None, handshake: bool = True
    ) -> AsyncIterator[Session]:
        """A session of its own; see `open_session` of `mcp_trio.harness.session`."""
        async with (
            self.open_wire() as wire,
            open_session(
                wire,
                self.revision,
                deadline=self.options.deadline,
                capabilities=capabilities,
                handshake=handshake,
            ) as session,
        ):
            yield session

    async def session(self) -> Session:
        """The session that this probe keeps: for checks that leave it as it was.

        Opened when first needed, and again when it has ended.
        """
        if self._session is None or self._session.ended is not None:
            self.forget_session()
            self._session = await self._nursery.start(self._hold_session)
        return self._session

    def forget_session(self) -> None:
        """Close the kept session: a check failed in it, and the next one shall not suffer."""
        if self._session_scope is not None:
            self._session_scope.cancel()
        self._session = self._session_scope = None

    async def _hold_session(
        self, task_status: trio.TaskStatus[Session] = trio.TASK_STATUS_IGNORED
    ) -> None:
        with trio.CancelScope() as scope:
            self._session_scope = scope
            async with self.open_session() as session:
                task_status.started(session)
                await trio.sleep_forever()

    @asynccontextmanager
    async def open_client(self, **options: Any) -> AsyncIterator[Client]:
        """The library's own client, in this revision; `options` are those of `open_client`."""
        from mcp_trio.client.client import open_client

        target = self.target.for_client()
        async with open_client(target, mode=self.revision, **options) as client:
            yield client

    async def inventory(self) -> Inventory:
        """What the server has; asked for once for all probes of a target and revision."""
        return await self._shared.get(self)

    async def once(self, name: str, find_out: Callable[[], Awaitable[T]]) -> T:
        """What `find_out` returns, found out once for all probes of a target and revision."""
        return await self._shared.once(name, find_out)

    async def callable_tools(self) -> list[JSONObject]:
        """The tools that may be called: those that say they are read-only, or all if allowed.

        Raises:
            NotApplicable: There is none.
        """
        tools = (await self.inventory()).tools
        found = [tool for tool in tools if self.options.allow_writes or self._shared.harmless(tool)]
        if not found and tools:
            raise NotApplicable("no tool says that it is read-only (see --allow-writes)")
        if not found:
            raise NotApplicable("the server has no tools")
        return found


class SharedInventory:
    """The inventory of a target in one revision, asked for by whichever probe needs it first.

    Args:
        read_only: Names of tools that are known to be read-only though this revision has no
            annotations to say so.
    """

    def __init__(self, read_only: frozenset[str] = frozenset()) -> None:
        self._read_only = read_only
        self._lock = trio.Lock()
        self._inventory: Inventory | None = None
        self._once_locks: dict[str, trio.Lock] = {}
        self._found_out: dict[str, Any] = {}

    def harmless(self, tool: JSONObject) -> bool:
        annotations = tool.get("annotations")
        marked = isinstance(annotations, dict) and annotations.get("readOnlyHint") is True
        name = tool.get("name")
        return marked or (isinstance(name, str) and name in self._read_only)

    async def get(self, probe: ServerProbe) -> Inventory:
        async with self._lock:
            if self._inventory is None:
                self._inventory = await take_inventory(await probe.session())
        return self._inventory

    async def once(self, name: str, find_out: Callable[[], Awaitable[T]]) -> T:
        async with self._once_locks.setdefault(name, trio.Lock()):
            if name not in self._found_out:
                self._found_out[name] = await find_out()
        found: T = self._found_out[name]
        return found


async def take_inventory(session: Session) -> Inventory:
    """Ask a server for everything that it has. What it refuses counts as absent."""
    hello = session.hello
    if session.is_modern:
        hello = (await session.request("server/discover")).result or {}
    meta = hello.get("_meta") if isinstance(hello.get("_meta"), dict) else {}
    assert isinstance(meta, dict)
    info = hello.get("serverInfo") or meta.get("io.modelcontextprotocol/serverInfo") or {}
    capabilities, instructions = hello.get("capabilities"), hello.get("instructions")
    return Inventory(
        info=info if isinstance(info, dict) else {},
        capabilities=capabilities if isinstance(capabilities, dict) else {},
        instructions=instructions if isinstance(instructions, str) else None,
        tools=await list_all(session, "tools/list", "tools"),
        resources=await list_all(session, "resources/list", "resources"),
        templates=await list_all(session, "resources/templates/list", "resourceTemplates"),
        prompts=await list_all(session, "prompts/list", "prompts"),
    )


async def list_all(session: Session, method: str, items: str) -> tuple[JSONObject, ...]:
    """All items of a list, page after page; an error ends it, and a cursor that came before."""
    found: list[JSONObject] = []
    cursor: object = None
    before: set[str] = set()
    for _ in range(MOST_PAGES):
        params: JSONObject = {} if cursor is None else {"cursor": cursor}
        result = (await session.request(method, params)).result or {}
        listed = result.get(items)
        if isinstance(listed, list):
            found += [item for item in listed if isinstance(item, dict)]
        cursor = result.get("nextCursor")
        if not isinstance(cursor, str) or cursor in before:
            break
        before.add(cursor)
    return tuple(found)


@asynccontextmanager
async def open_probe(
    target: ServerTarget, revision: str, options: Options, shared: SharedInventory | None = None
) -> AsyncIterator[ServerProbe]:
    """A probe for the length of a block; its kept session is closed at the end."""
    async with open_private_nursery() as nursery:
        yield ServerProbe(target, revision, options, nursery, shared or SharedInventory())


def require(condition: object, missing: str) -> None:
    """Say that a check does not apply unless the target has something.

    Raises:
        NotApplicable: It has not; the message says that it is `missing`.
    """
    if not condition:
        raise NotApplicable(missing)


def expect(condition: object, message: str, requirement: str | None = None) -> None:
    """Say that a peer passes only if something is so.

    Raises:
        Failed: It is not.
    """
    if not condition:
        raise Failed(message, requirement=requirement)
