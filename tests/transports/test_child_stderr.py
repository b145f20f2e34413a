"""stderr without a process: redaction over chunk boundaries, lines, the bounded tail."""

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
import trio
from hypothesis import given
from hypothesis import strategies as st

from mcp_trio.transports import child_stderr
from mcp_trio.transports.child_stderr import LINE_LIMIT, TAIL_LIMIT, ChildStderr, Lines, Redactor
from mcp_trio.transports.parameters import StdioParameters

letters = st.text("ab", min_size=1, max_size=6)


@given(st.lists(letters, min_size=1, max_size=3), st.lists(st.text("abc", max_size=8)))
def test_redaction_does_not_depend_on_chunks(secrets: list[str], chunks: list[str]) -> None:
    """A secret cut by a chunk boundary is struck out like any other, and nothing else is lost."""
    redactor = Redactor(secrets)
    written = [redactor.feed(chunk.encode()) for chunk in chunks] + [redactor.end()]
    whole = Redactor(secrets)
    assert b"".join(written) == whole.feed("".join(chunks).encode()) + whole.end()
    for secret in secrets:
        assert secret.encode() not in b"".join(written)


def test_redactor_holds_back_only_what_may_be_a_secret() -> None:
    """A prompt without a line end appears at once; only a beginning of a secret has to wait."""
    redactor = Redactor(["hunter22"])
    assert redactor.feed(b"Password? ") == b"Password? "
    assert redactor.feed(b"it is hunt") == b"it is "
    assert redactor.feed(b"ing") == b"hunting"
    assert redactor.feed(b"hunter") == b""
    assert redactor.feed(b"22!") == b"***!"


@pytest.mark.parametrize("secret", ["x" * 99 + "y", "\n".join(f"key {n}: x" for n in range(200))])
@pytest.mark.parametrize("size", [1, 40])
def test_redaction_of_long_secrets_holds_nobody_up(secret: str, size: int) -> None:
    """I6: a file of keys in the environment does not make the event loop stand still."""
    parameters = StdioParameters("server", env={"KEYS": secret * size})
    redactor = Redactor(parameters.secrets())
    log = b"2026-12-31 23:59:59 INFO one of the lines that programs write\n" * 1000
    began = time.perf_counter()
    for _ in range(16):
        assert redactor.feed(log) == log
    assert time.perf_counter() - began < 1  # it is a megabyte
    assert redactor.feed(secret.encode() * size + b"!") == b"***!"


@given(st.lists(st.binary(max_size=6)))
def test_lines_do_not_depend_on_chunks(chunks: list[bytes]) -> None:
    """Lines end at LF alone, whatever the chunks; the last one needs no end."""
    data = b"".join(chunks)
    lines: list[str] = []
    cutter = Lines(lines.append)
    for chunk in chunks:
        cutter.feed(chunk)
    cutter.feed(b"", final=True)
    expected = data.decode("utf-8", "replace").split("\n")
    *whole, last = expected
    assert lines == [line.removesuffix("\r") for line in whole] + ([last] if last else [])


def test_long_lines_come_in_pieces() -> None:
    """A line without end does not grow in memory (I6)."""
    lines: list[str] = []
    cutter = Lines(lines.append)
    for _ in range(50):
        cutter.feed(b"x" * 1000)
        assert len(cutter._unfinished) < LINE_LIMIT + 1000
    cutter.feed(b"\n", final=True)
    assert "".join(lines) == "x" * 50_000
    assert max(map(len, lines)) == LINE_LIMIT


class Chunks(trio.abc.ReceiveStream):
    """A stream of given chunks."""

    def __init__(self, *chunks: bytes) -> None:
        self.chunks = list(chunks)

    async def receive_some(self, max_bytes: int | None = None) -> bytes:
        await trio.lowlevel.checkpoint()
        return self.chunks.pop(0) if self.chunks else b""

    async def aclose(self) -> None:
        await trio.lowlevel.checkpoint()


@pytest.mark.parametrize(
    ("written", "tail"),
    [
        ([], ""),
        ([b"a\nb"], "a\nb"),
        ([b"a" * TAIL_LIMIT], "a" * TAIL_LIMIT),
        ([b"first\n", b"x" * TAIL_LIMIT], "x" * TAIL_LIMIT),
        ([b"first\nsecond\n", b"x" * (TAIL_LIMIT - 3)], "x" * (TAIL_LIMIT - 3)),
        (
            [b"caf\xc3", b"\xa9 \xff"],
            "caf\N{LATIN SMALL LETTER E WITH ACUTE} \N{REPLACEMENT CHARACTER}",
        ),
    ],
)
async def test_tail(written: list[bytes], tail: str) -> None:
    """The end of stderr is kept, in bounds, from the start of a line where there is one."""
    stderr = ChildStderr("capture", [])
    await stderr.drain(Chunks(*written))
    assert stderr.tail == tail
    assert stderr.ended.is_set()


async def test_failing_function(caplog: pytest.LogCaptureFixture) -> None:
    """A function that raises is logged and called with the next line all the same."""
    lines: list[str] = []

    def function(line: str) -> None:
        lines.append(line)
        raise RuntimeError("no")

    stderr = ChildStderr(function, [])
    await stderr.drain(Chunks(b"one\ntw", b"o\r\n"))
    assert lines == ["one", "two"]
    assert caplog.text.count("RuntimeError: no") == 2


@contextmanager
def own_stderr() -> Iterator[int]:
    """Our own stderr is a pipe for a while; gives the descriptor of its other end.

    (No fixture: pytest's capturing redirects the descriptor between set-up and call.)
    """
    saved = os.dup(2)
    receive, send = os.pipe()
    os.dup2(send, 2)
    os.close(send)
    try:
        yield receive
    finally:
        os.dup2(saved, 2)
        os.close(saved)
        os.close(receive)


async def test_inherit_copies() -> None:
    """`inherit` shows what the child writes on our stderr, byte for byte but for secrets."""
    stderr = ChildStderr("inherit", ["hunter22"])
    with own_stderr() as reader:
        await stderr.drain(Chunks(b"a\xff\nkey hunt", b"er22\nend"))
        assert os.read(reader, 1000) == b"a\xff\nkey ***\nend"


async def test_inherit_with_a_blocked_stderr(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody reads our stderr: the child's is drained all the same, and what is lost is told."""
    monkeypatch.setattr(child_stderr, "PATIENCE", 0.01)
    stderr = ChildStderr("inherit", [])
    with own_stderr() as reader:
        with trio.fail_after(5):
            await stderr.drain(Chunks(*[b"x" * 65536] * 50))
        assert len(stderr.tail) == TAIL_LIMIT

        own = child_stderr.OwnStderr()
        await own.write(b"lost" * 30_000)
        os.read(reader, 1_000_000)
        await own.write(b"seen\n")
        own.close()
        assert (
            os.read(reader, 1_000) == b"\n[up to 120000 bytes of stderr were dropped here]\nseen\n"
        )


async def test_inherit_without_a_stderr() -> None:
    """A program whose stderr is closed, or read by nobody, loses the copy and nothing else."""
    without, unread = ChildStderr("inherit", []), ChildStderr("inherit", [])
    with own_stderr():
        os.close(2)
        await without.drain(Chunks(b"still ", b"here"))
    with own_stderr() as reader:
        os.dup2(0, reader)  # so that the pipe has no reader
        await unread.drain(Chunks(b"still ", b"here"))
    assert without.tail == unread.tail == "still here"
