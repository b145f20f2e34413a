"""The stdio transport: lines, streams and the process: checks."""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Final

import trio

from mcp_trio.harness.aftermath import harmless, survives
from mcp_trio.harness.checks import LEGACY, MODERN, check, having
from mcp_trio.harness.exercise import exercise, keep_silent, running_call
from mcp_trio.harness.model import Failed, NotApplicable, Transport
from mcp_trio.harness.probe import ServerProbe, expect
from mcp_trio.harness.session import Received, Session, dump
from mcp_trio.harness.wires import Wire, WireEnded
from mcp_trio.transports.process import ChildProcess

LINES: Final[tuple[Transport, ...]] = ("stdio", "stream")
PAUSE: Final = 0.02  # seconds between two pieces, for a reader that has none waiting
START_PATIENCE: Final = 6  # deadlines that a process may take to start and to see that all is over
EXIT_PATIENCE: Final = 3  # and to end: an interpreter takes seconds for it on a busy machine

# What arrives: lines


@check(
    "messages-may-be-split",
    "stdio-1",
    meaning="A message may come in pieces, cut anywhere, even inside a character.",
    transports=LINES,
)
async def messages_may_be_split(probe: ServerProbe) -> None:
    async with _open_quiet_session(probe) as session:
        id = "in pieces ☃ 𝄞"
        line = _line(session, id)
        cuts = [1, line.index("☃".encode()) + 1, line.index("𝄞".encode()) + 2, len(line) - 1]
        for start, end in zip([0, *cuts], [*cuts, len(line)], strict=True):
            await _send(session, line[start:end])
            await trio.sleep(PAUSE)
        await session.reply(id, what="a message in five pieces")


@asynccontextmanager
async def _open_quiet_session(probe: ServerProbe) -> AsyncIterator[Session]:
    """A session in which nothing is sent unless a check says so: no answer cuts half a message."""
    async with probe.open_session(capabilities={}) as session:
        await survives(session, "the start")
        keep_silent(session)
        session.answerers["ping"] = lambda _: {}
        yield session


def _line(session: Session, id: str, end: bytes = b"\n") -> bytes:
    """A request as it is on the wire, with its characters as they are and not escaped."""
    message = session.message(harmless(session), id=id)
    return json.dumps(message, ensure_ascii=False).encode() + end


async def _send(session: Session, data: bytes) -> None:
    try:
        await session.wire.send_bytes(data)
    except WireEnded as exc:
        raise Failed(f"the connection ended: {exc}") from exc


@check(
    "messages-may-come-together",
    "stdio-1",
    meaning="Several messages may come at once, and the beginning of the next with them.",
    transports=LINES,
)
async def messages_may_come_together(probe: ServerProbe) -> None:
    async with _open_quiet_session(probe) as session:
        ids = [f"together {number}" for number in range(5)]
        data = b"".join(_line(session, id) for id in ids)
        await _send(session, data[:-20])
        await trio.sleep(PAUSE)
        await _send(session, data[-20:])
        for id in ids:
            await session.reply(id, what="one of five messages in two writes")


@check(
    "only-newlines-end-a-message",
    "stdio-1",
    meaning="U+2028, U+2029 and U+0085 inside a string end no message.",
    transports=LINES,
)
async def only_newlines_end_a_message(probe: ServerProbe) -> None:
    session = await probe.session()
    for character in ("\u2028", "\u2029", "\u0085", "\u000b\u000c"):
        id = f"a{character}b"
        if character < " ":  # JSON has these only as escapes
            await session.send(session.message(harmless(session), id=id))
        else:
            await _send(session, _line(session, id))
        await session.reply(id, what=f"a message with {json.dumps(character)}")


@check(
    "carriage-returns-do-no-harm",
    meaning="A message may end with CR LF.",
    transports=LINES,
)
async def carriage_returns_do_no_harm(probe: ServerProbe) -> None:
    session = await probe.session()
    for number in range(2):
        id = f"with CR {number}"
        await _send(session, _line(session, id, b"\r\n"))
        await session.reply(id, what="a message that ends with CR LF")


@check(
    "empty-lines-are-ignored",
    meaning="Empty lines between messages are ignored.",
    transports=LINES,
)
async def empty_lines_are_ignored(probe: ServerProbe) -> None:
    async with probe.open_session() as session:
        for blank in (b"\n", b"\r\n", b"\n\n\n", b"  \n"):
            since = len(session.received)
            await _send(session, blank)
            await survives(session, f"an empty line ({blank!r})")
            answers = sum(frame.is_answer for frame in session.received[since:])
            expect(answers == 1, f"an empty line ({blank!r}) was answered")


@check(
    "byte-order-mark-is-survived",
    meaning="A byte-order mark before the first message costs at most that message.",
    transports=LINES,
)
async def byte_order_mark_is_survived(probe: ServerProbe) -> None:
    async with probe.open_session(handshake=False) as session:
        await _send(session, b"\xef\xbb\xbf" + _line(session, "after a mark"))
        await survives(session, "a byte-order mark")


BAD_STRINGS: Final = (
    b'"\xff\xfe"',
    b'"\xc3"',
    b'"\xed\xa0\x80"',
    b'"\xc0\xaf"',
    b'"\\ud800"',
    b'"\\udc00\\ud800"',
    b'"\x00"',
)


@check(
    "bad-characters-are-survived",
    meaning="After bytes that are no UTF-8, and half surrogates, the server goes on.",
    transports=LINES,
)
async def bad_characters_are_survived(probe: ServerProbe) -> None:
    async with probe.open_session() as session:
        for text in BAD_STRINGS:
            message = session.message(harmless(session), {"x": "HERE"}, id="bad characters")
            await _send(session, dump(message).replace(b'"HERE"', text) + b"\n")
            await survives(session, f"the string {text!r}")


@check(
    "long-messages-are-read",
    meaning="A message of a megabyte is read and answered.",
    transports=LINES,
)
async def long_messages_are_read(probe: ServerProbe) -> None:
    session = await probe.session()
    reply = await session.request("tools/list", meta={"com.example/long": "x" * 1_000_000})
    known = reply.code in (None, -32601)
    expect(known, f"a request of a megabyte got {reply.brief()}")


# What is sent: lines


@check(
    "stdout-is-for-messages",
    "stdio-3",
    "stdio-1",
    meaning="Nothing but messages comes from the server, each on a line of its own.",
    transports=LINES,
)
async def stdout_is_for_messages(probe: ServerProbe) -> None:
    async with probe.open_session() as session:
        await exercise(probe, session, tokens="harness-")
        frames = list(session.received)
    arrays = probe.revision in having("batches")
    for place, frame in enumerate(frames):
        if isinstance(frame.value, dict) and frame.value.get("jsonrpc") == "2.0":
            continue
        if isinstance(frame.value, list) and arrays:
            continue
        text = frame.raw[:80].decode(errors="replace")
        if _is_part_of_json(frames[place : place + 500]):
            raise Failed(f"a message goes over several lines: {text}", requirement="stdio-1")
        raise Failed(f"a line is no message: {text}", requirement="stdio-3")


def _is_part_of_json(frames: Sequence[Received]) -> bool:
    """Whether the lines from here on are one message, cut into pieces."""
    joined = b""
    for frame in frames:
        joined += frame.raw + b"\n"
        try:
            return isinstance(json.loads(joined), dict) and joined.count(b"\n") > 1
        except ValueError:
            continue
    return False


@check(
    "lines-are-utf-8",
    "transports-1",
    meaning="The server's messages are UTF-8, whatever is in them.",
    revisions=("2025-03-26", "2025-06-18", "2025-11-25", "2026-07-28"),
    transports=LINES,
)
async def lines_are_utf_8(probe: ServerProbe) -> None:
    session = await probe.session()
    since = len(session.received)
    for id in ("Grüße", "日本語", "☃ 𝄞 \u0301"):
        await _send(session, _line(session, id))
        try:
            await session.reply(id, since=since, what="a request")
        finally:
            for frame in session.received[since:]:
                text = frame.raw[:80]
                expect(_is_utf_8(frame.raw), f"a message is not UTF-8: {text!r}")


def _is_utf_8(data: bytes) -> bool:
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return b"\x00" not in data


@check(
    "newlines-are-escaped",
    "stdio-1",
    meaning="A newline inside a string of an answer is written as an escape.",
    transports=LINES,
)
async def newlines_are_escaped(probe: ServerProbe) -> None:
    session = await probe.session()
    for id in ("two\nlines", "CR\rand LF\r\n"):
        await session.request(harmless(session), id=id)


# The process


async def _exits(child: ChildProcess | None, patience: float) -> bool:
    assert child is not None, "only a process exits"
    with trio.move_on_after(patience):
        await child.wait()
        return True
    return False


async def _exits_at_the_end(probe: ServerProbe, session: Session, when: str) -> None:
    await session.wire.end_input()
    patience = probe.options.deadline * EXIT_PATIENCE
    gone = await _exits(session.wire.child, patience)
    expect(gone, f"the server still runs {patience:g} s after its stdin ended{when}")


async def _idle(_probe: ServerProbe, session: Session) -> str:
    await survives(session, "the start")
    return ""


async def _busy(probe: ServerProbe, session: Session) -> str:
    running = await running_call(probe, session, seconds=60.0)
    return f", while a call of {running.tool} ran"


async def _ends(
    probe: ServerProbe, prepare: Callable[[ServerProbe, Session], Awaitable[str]]
) -> None:
    async with probe.open_session() as session:
        when = await prepare(probe, session)
        await _exits_at_the_end(probe, session, when)


@check(
    "exits-when-stdin-ends",
    "stdio-12",
    meaning="The server exits soon after its stdin has ended.",
    revisions=MODERN,
    transports=("stdio",),
)
async def exits_when_stdin_ends(probe: ServerProbe) -> None:
    await _ends(probe, _idle)


@check(
    "legacy-exits-when-stdin-ends",
    meaning="The server exits soon after its stdin has ended.",
    revisions=LEGACY,
    transports=("stdio",),
)
async def legacy_exits_when_stdin_ends(probe: ServerProbe) -> None:
    await _ends(probe, _idle)


@check(
    "exits-when-stdin-ends-in-a-call",
    "stdio-12",
    meaning="The server exits soon after its stdin has ended, even if a call runs.",
    revisions=MODERN,
    transports=("stdio",),
)
async def exits_when_stdin_ends_in_a_call(probe: ServerProbe) -> None:
    await _ends(probe, _busy)


@check(
    "legacy-exits-when-stdin-ends-in-a-call",
    meaning="The server exits soon after its stdin has ended, even if a call runs.",
    revisions=LEGACY,
    transports=("stdio",),
)
async def legacy_exits_when_stdin_ends_in_a_call(probe: ServerProbe) -> None:
    await _ends(probe, _busy)


@check(
    "exits-though-nothing-was-said",
    meaning="The server exits if its stdin ends before anything has come.",
    transports=("stdio",),
)
async def exits_though_nothing_was_said(probe: ServerProbe) -> None:
    async with probe.open_wire() as wire:
        await wire.end_input()
        patience = probe.options.deadline * START_PATIENCE
        gone = await _exits(wire.child, patience)
        expect(gone, f"the server still runs {patience:g} s after its stdin ended unused")


@check(
    "answers-come-before-the-exit",
    meaning="Requests that came before the end of stdin are answered before the server exits.",
    transports=("stdio",),
)
async def answers_come_before_the_exit(probe: ServerProbe) -> None:
    async with probe.open_session() as session:
        await survives(session, "the start")
        since = len(session.received)
        ids = [f"last {number}" for number in range(3)]
        await _send(session, b"".join(_line(session, id) for id in ids))
        await session.wire.end_input()
        for id in ids:
            try:
                await session.reply(id, since=since)
            except Failed as exc:
                raise Failed(f"stdin ended after a request: {exc.message}") from exc


@check(
    "exits-at-sigterm",
    meaning="The server exits soon after SIGTERM.",
    transports=("stdio",),
)
async def exits_at_sigterm(probe: ServerProbe) -> None:
    if sys.platform == "win32":
        raise NotApplicable("there is no SIGTERM on Windows")
    async with probe.open_session() as session:
        await survives(session, "the start")
        await _end_by_signal(probe, session.wire)


async def _end_by_signal(probe: ServerProbe, wire: Wire) -> None:
    assert wire.child is not None, "only a process has signals"
    wire.note("the harness sends SIGTERM")
    os.kill(wire.child.pid, signal.SIGTERM)
    patience = probe.options.deadline
    gone = await _exits(wire.child, patience)
    expect(gone, f"the server still runs {patience:g} s after SIGTERM")
