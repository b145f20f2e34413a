"""The probe of a client: what a check of a client gets to work with.

    async def check(probe: ClientProbe) -> None:
        record = await probe.recording()               # what it said to a healthy server
        async with probe.play({...}) as scene: ...     # a run of its own, with other answers

Many questions can be answered from what the client says to a healthy server. That is played once
for all checks, so that a client which takes seconds to start need not be started for each of them.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final

import trio

from mcp_trio.harness.exchange import Exchange
from mcp_trio.harness.handover import ClientTarget
from mcp_trio.harness.model import Transport
from mcp_trio.harness.probe import Options
from mcp_trio.harness.scripted import Answers, OnHTTP, Scene
from mcp_trio.harness.stages import open_scene, playable
from mcp_trio.protocol import meta as keys
from mcp_trio.protocol.revisions import LEGACY, MODERN


class ClientProbe:
    """A client, a revision, and ways to watch the one in the other.

    Attributes:
        target: The client under test.
        revision: What the scripted server speaks.
        options: What the person decided.
        exchange: What went over all wires of this probe since the current check began.
    """

    def __init__(
        self, target: ClientTarget, revision: str, options: Options, shared: SharedRecording
    ) -> None:
        self.target = target
        self.revision = revision
        self.options = options
        self.exchange = Exchange()
        self._shared = shared

    @property
    def transport(self) -> Transport:
        return self.target.transport

    @asynccontextmanager
    async def play(
        self,
        answers: Answers | None = None,
        *,
        on_http: OnHTTP | None = None,
        stays: bool = False,
    ) -> AsyncIterator[Scene]:
        """Start the client and play its server; see `open_scene`."""
        async with open_scene(
            self.target,
            self.revision,
            self.exchange,
            deadline=self.options.deadline,
            answers=answers,
            on_http=on_http,
            stays=stays,
        ) as scene:
            yield scene

    async def recording(self) -> Scene:
        """What the client said to a healthy server until it left or was quiet."""
        scene = await self._shared.get(self)
        self.exchange.extend(scene.exchange.entries)
        return scene

    def forget_session(self) -> None:
        """A check failed: nothing is kept that the next one could suffer from."""


class SharedRecording:
    """The recording of a client in one revision, made by whichever probe needs it first."""

    def __init__(self) -> None:
        self._lock = trio.Lock()
        self._scene: Scene | None = None

    @property
    def name(self) -> str:
        """What the client says that it is; empty if it says nothing."""
        for call in self._scene.calls if self._scene is not None else ():
            info = call.params.get("clientInfo") or call.meta.get(keys.CLIENT_INFO)
            if isinstance(info, dict):
                return f"{info.get('name', '?')} {info.get('version', '')}".strip()
        return ""

    async def get(self, probe: ClientProbe) -> Scene:
        async with self._lock:
            if self._scene is None:
                self._scene = await record(probe.target, probe.revision, probe.options)
        return self._scene


async def record(target: ClientTarget, revision: str, options: Options) -> Scene:
    """Let a client meet a healthy server, and see what it does.

    Raises:
        OSError: It cannot be started.
    """
    async with open_scene(target, revision, Exchange(), deadline=options.deadline) as scene:
        await scene.over()
    return scene


def speaks(scene: Scene) -> bool:
    """Whether a client spoke the revision of the server that it met."""
    if scene.is_modern:
        return any(call.meta.get(keys.PROTOCOL_VERSION) == scene.revision for call in scene.calls)
    return any(said.method not in BEFORE for said in scene.messages())


BEFORE: Final = ("initialize", "server/discover", "notifications/cancelled")
"""What a client says before it knows what the server speaks."""


async def newest_of_each_era(target: ClientTarget, options: Options) -> tuple[str, ...]:
    """The newest legacy revision and the newest modern one that a client speaks, in that order.

    Raises:
        OSError: It cannot be started.
    """
    found: list[str] = []
    for era in (LEGACY, MODERN):
        for revision in reversed(era):
            if not playable(revision, target.transport):
                continue
            if speaks(await record(target, revision, options)):
                found.append(revision)
                break
    return tuple(found)
