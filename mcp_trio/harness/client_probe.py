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
from typing import Any, Final

import trio

from mcp_trio.harness.exchange import Exchange
from mcp_trio.harness.handover import ClientTarget
from mcp_trio.harness.model import Failed, NotApplicable, Transport
from mcp_trio.harness.probe import Options
from mcp_trio.harness.scripted import HOLD, Answers, Call, OnHTTP, Scene, usual
from mcp_trio.harness.spoken import last_words
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
        revision: str | None = None,
        on_http: OnHTTP | None = None,
        stays: bool = False,
        chatty: bool = False,
    ) -> AsyncIterator[Scene]:
        """Start the client and play its server; see `open_scene`.

        Args:
            revision: Another one for the server to speak.
        """
        async with open_scene(
            self.target,
            revision or self.revision,
            self.exchange,
            deadline=self.options.deadline,
            answers=answers,
            on_http=on_http,
            stays=stays,
            chatty=chatty,
        ) as scene:
            yield scene

    async def recording(self) -> Scene:
        """What the client said to a healthy server until it left or was quiet."""
        scene = await self._shared.get(self)
        self.exchange.extend(scene.exchange.entries)
        return scene

    @asynccontextmanager
    async def play_held(
        self, method: str | None = None, answers: Answers | None = None, **options: Any
    ) -> AsyncIterator[tuple[Scene, Call]]:
        """Play until the client asks for something, and let it wait for the answer.

        That is a moment in which every client listens. The check gives the answer, with
        `call.answer()`; the same method is answered as usual the next time.

        Args:
            method: What it asks for; by default the first thing after which it goes on.
            answers: As for `play`.
            options: As for `play`.

        Raises:
            NotApplicable: It asks for nothing.
        """
        held = method or await self.first_request()
        async with self.play({held: [HOLD, usual], **(answers or {})}, **options) as scene:
            yield scene, await scene.call(held)

    async def first_request(self) -> str:
        """The method of the first request that is about something, if it is not the last.

        Raises:
            NotApplicable: There is none.
        """
        calls = (await self._shared.get(self)).calls
        for call in calls[:-1]:
            if call.method not in OPENING:
                return call.method
        raise NotApplicable("the client asks for nothing, or for one thing only")

    async def asks_for(self, *methods: str) -> None:
        """Say that a check needs a client that makes these requests.

        Raises:
            NotApplicable: It does not make one of them.
        """
        made = {call.method for call in (await self._shared.get(self)).calls}
        for method in methods:
            if method not in made:
                raise NotApplicable(f"the client does not send {method}")

    def forget_session(self) -> None:
        """A check failed: nothing is kept that the next one could suffer from."""


async def goes_on(scene: Scene, why: str, requirement: str | None = None) -> None:
    """See to it that the client does something more; its open requests should be answered first.

    Raises:
        Failed: It does nothing more; the message says why that is strange.
    """
    seen = len(scene.said)
    with trio.move_on_after(scene.deadline):
        while len(scene.said) == seen and not scene.has_ended():
            await scene.happens()
    if len(scene.said) == seen:
        ending = "" if scene.running is None else f" ({scene.running.ending})"
        raise Failed(f"the client does not go on {why}{ending}", requirement=requirement)


OPENING: Final = (
    "initialize",
    "server/discover",
    "logging/setLevel",
    "ping",
    "subscriptions/listen",
)
"""Requests that open a connection, or are about nothing."""


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


NO_REVISION: Final = "the client speaks no revision that is known here, or does not find its server"

BEFORE: Final = ("initialize", "server/discover", "notifications/cancelled")
"""What a client says before it knows what the server speaks."""


async def newest_of_each_era(target: ClientTarget, options: Options) -> tuple[str, ...]:
    """The newest legacy revision and the newest modern one that a client speaks, in that order.

    Raises:
        Failed: It speaks none that is known here, or does not find the server.
        OSError: It cannot be started.
    """
    found: list[str] = []
    said = ""
    for era in (LEGACY, MODERN):
        for revision in reversed(era):
            if not playable(revision, target.transport):
                continue
            scene = await record(target, revision, options)
            if speaks(scene):
                found.append(revision)
                break
            said = last_words(scene.exchange) or said
    if not found:
        raise Failed(f"{NO_REVISION}{said}")
    return tuple(found)
