"""Clients on stdio: checks of framing, of how the server is started and ended, and of stderr."""

import math
import os
from functools import partial
from typing import Final

import trio

from mcp_trio.harness.checks import LEGACY, MODERN, REVISIONS, check
from mcp_trio.harness.client_probe import ClientProbe, speaks
from mcp_trio.harness.model import Failed, NotApplicable
from mcp_trio.harness.probe import expect, require
from mcp_trio.harness.scripted import HOLD, BytesLink, Scene, usual
from mcp_trio.protocol import meta as keys

stdio_check = partial(check, role="client", transports=("stdio",))

MOMENT: Final = 0.2
SOON: Final = 0.05
"""Seconds: nobody can exit within less, and so this is not waiting."""
ENDING: Final = 20.0
"""Seconds within which a client should be rid of a server that does not listen."""


async def _link(probe: ClientProbe) -> BytesLink:
    scene = await probe.recording()
    require(scene.links, "the client starts no server")
    return scene.bytes_link


@stdio_check(
    "client-sends-lines",
    "stdio-1",
    meaning="Each message is a line, and has no newline inside.",
)
async def client_sends_lines(probe: ClientProbe) -> None:
    raw = bytes((await _link(probe)).raw)
    require(raw, "the client says nothing")
    expect(raw.endswith(b"\n"), f"the last line has no end: {raw[-60:]!r}")
    for said in (await probe.recording()).said:
        whole = said.value is not None
        expect(whole, f"a line is no whole message: {said.raw[:80]!r}")


@stdio_check(
    "client-sends-nothing-else",
    "stdio-4",
    meaning="The server's stdin gets messages only: no empty lines, no byte-order mark.",
)
async def client_sends_nothing_else(probe: ClientProbe) -> None:
    raw = bytes((await _link(probe)).raw)
    require(raw, "the client says nothing")
    expect(not raw.startswith(b"\xef\xbb\xbf"), "the client begins with a byte-order mark")
    lines = raw.split(b"\n")[:-1]
    empty = [number for number, line in enumerate(lines) if not line.strip()]
    expect(not empty, f"line {empty[:1]} of the client is empty")
    strange = [line for line in lines if not line.lstrip().startswith((b"{", b"["))]
    expect(not strange, f"the client writes {strange[:1]}")


@stdio_check(
    "client-sends-no-answers",
    "stdio-6",
    meaning="No answer is sent, not even to a server that asks.",
    revisions=MODERN,
)
async def client_sends_no_answers(probe: ClientProbe) -> None:
    async with probe.play_held() as (scene, call):
        await call.send({"jsonrpc": "2.0", "id": "asked", "method": "ping"})
        await call.answer()
        await scene.pause(MOMENT)
        answers = scene.responses()
        text = answers[0].raw[:80] if answers else b""
        expect(
            not answers, f"the client answers a request, which modern servers do not make: {text!r}"
        )


@stdio_check(
    "client-does-not-mind-stderr",
    "stdio-2",
    meaning="What the server writes to stderr is no error.",
    revisions=[revision for revision in REVISIONS if revision >= "2025-11-25"],
)
async def client_does_not_mind_stderr(probe: ClientProbe) -> None:
    recording = await probe.recording()
    require(speaks(recording), "the client does not speak this revision")
    wanted = {call.method for call in recording.calls}
    async with probe.play(chatty=True) as scene:
        await scene.over()
        missing = wanted - {call.method for call in scene.calls}
        expect(not missing, f"the server writes to stderr, and {sorted(missing)[:1]} does not come")


# The end


@stdio_check(
    "client-closes-stdin-first",
    "lifecycle-15",
    "stdio-11",
    meaning="A server that exits when its stdin is closed is not ended by force.",
)
async def client_closes_stdin_first(probe: ClientProbe) -> None:
    scene = await probe.recording()
    require(speaks(scene), "the client does not speak this revision")
    require(all(link.ended_at is not None for link in scene.links), "the client does not leave")
    for link in scene.links:
        waited = math.inf if link.signaled_at is None else link.signaled_at - (link.ended_at or 0)
        expect(
            waited >= SOON,
            f"process {link.pid} gets SIGTERM {waited:.3f} s after its stdin is closed",
        )


@stdio_check(
    "client-ends-a-server-that-stays",
    "lifecycle-15",
    "stdio-11",
    meaning="A server that stays gets time, then SIGTERM, then SIGKILL.",
)
async def client_ends_a_server_that_stays(probe: ClientProbe) -> None:
    require(os.name == "posix", "signals are of POSIX")
    async with probe.play(stays=True) as scene:
        await scene.over()
        require(scene.links, "the client starts no server")
        link = scene.bytes_link
        require(link.ended_at is not None, "the client does not leave")
        assert link.ended_at is not None
        assert link.pid is not None
        with trio.move_on_after(ENDING):
            while not _gone(link.pid):  # noqa: ASYNC110 (it is no child of ours: nobody tells)
                await trio.sleep(0.05)
        expect(_gone(link.pid), f"the server still runs {ENDING:g} s after its stdin was closed")
        expect(link.signaled_at is not None, "the server is killed without a SIGTERM before")
        waited = (link.signaled_at or 0) - link.ended_at
        expect(waited >= SOON, f"SIGTERM comes {waited:.3f} s after stdin is closed")


def _gone(pid: int) -> bool:
    """Whether a process has ended; one that nobody has waited for yet has."""
    try:
        os.kill(pid, 0)
        with open(f"/proc/{pid}/stat", encoding="ascii", errors="replace") as file:
            return file.read().rpartition(")")[2].split()[0] in "ZX"
    except ProcessLookupError:
        return True
    except OSError:
        return False  # no /proc here, or another's process


# A server that dies


async def _restarted(probe: ClientProbe, scene: Scene) -> bool:
    """Whether the client starts the server again, after it has exited."""
    before = len(scene.links)
    with trio.move_on_after(max(3.0, probe.options.deadline)):
        while len(scene.links) == before:
            if scene.running is not None and scene.running.ended.is_set():
                return False
            await scene.happens()
    return len(scene.links) > before


@stdio_check(
    "client-restarts-a-server-that-dies",
    "stdio-13",
    meaning="A server that exits unexpectedly is started again.",
    revisions=MODERN,
)
async def client_restarts_a_server_that_dies(probe: ClientProbe) -> None:
    async with probe.play_held() as (scene, _):
        await scene.link.close()
        expect(await _restarted(probe, scene), "the server exited, and was not started again")


@stdio_check(
    "client-listens-again-after-a-restart",
    "subscriptions-7",
    meaning="After the server was started again, `subscriptions/listen` is sent again.",
    revisions=MODERN,
)
async def client_listens_again_after_a_restart(probe: ClientProbe) -> None:
    await probe.asks_for("subscriptions/listen")
    async with probe.play({"subscriptions/listen": [HOLD, usual]}) as scene:
        call = await scene.call("subscriptions/listen")
        await call.notify(
            "notifications/subscriptions/acknowledged",
            {
                "notifications": call.params.get("notifications") or {},
                keys.META: {keys.SUBSCRIPTION_ID: call.id},
            },
        )
        await scene.link.close()
        require(await _restarted(probe, scene), "the client does not start a server again")
        try:
            await scene.call("subscriptions/listen", 2)
        except NotApplicable as exc:
            raise Failed("the server was started again, and the client does not listen") from exc


@stdio_check(
    "client-survives-a-server-that-dies",
    meaning="A client whose server exits comes to an end by itself, or goes on.",
    revisions=LEGACY,
)
async def client_survives_a_server_that_dies(probe: ClientProbe) -> None:
    async with probe.play_held() as (scene, call):
        number = len(scene.said)
        await scene.link.close()
        with trio.move_on_after(max(3.0, probe.options.deadline)):
            while len(scene.said) == number and scene.running is not None:
                if scene.running.ended.is_set():
                    return
                await scene.happens()
            return
        raise Failed(f"the server exited, and the client still waits for {call.method}")
