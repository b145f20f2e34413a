"""The client's end of stdio: lines over a real child, and how its end is told."""

import sys

import pytest
import trio

from mcp_trio.transports.process import StdioParameters
from mcp_trio.transports.stdio import open_stdio
from mcp_trio.wire.ndjson import LineTooLong

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="POSIX processes")


def shell(script: str, **env: str) -> StdioParameters:
    return StdioParameters("sh", ["-c", script], env=env, stderr="capture", eof_grace=1)


async def test_lines_there_and_back() -> None:
    """Frames go out as lines and come in as frames; closing the stream leaves the child to us."""
    async with open_stdio(shell("cat; echo done >&2")) as (stream, child):
        child.established = True
        await stream.send([b"{}", b"[]"])
        frames: list[bytes] = []
        with trio.fail_after(5):
            while len(frames) < 2:
                frames += await stream.receive()
        assert frames == [b"{}", b"[]"]
        await stream.aclose()
    assert child.stderr_tail == "done\n"
    assert child.exit_status is None


async def test_line_limit() -> None:
    """The limit for a line is the caller's."""
    async with open_stdio(shell("echo 123456; cat"), line_limit=5) as (stream, _):
        with pytest.raises(LineTooLong):
            await stream.receive()


@pytest.mark.parametrize(
    ("script", "status", "says"),
    [
        ("echo no $KEY >&2; exit 3", 3, "the pipe ended: sh exited"),
        ("exit 0", 0, "the pipe ended: sh exited"),
        ("kill -KILL $$", -9, "the pipe ended: sh was ended by SIGKILL"),
        ("exec >&-; exec sleep 30", None, "the pipe ended (sh)"),
    ],
)
async def test_obituary(script: str, status: int | None, says: str) -> None:
    """A lost server is described by its command, status and last words, within half a second."""
    async with open_stdio(shell(script, KEY="hunter22")) as (stream, _):
        with trio.fail_after(5):
            assert await stream.receive() == []
        with trio.fail_after(1):
            closed = await stream.obituary("the pipe ended")
    assert closed.exit_status == status
    assert closed.reason == says
    assert closed.stderr_tail == ("no ***\n" if status == 3 else "")


async def test_obituary_of_a_launched_server() -> None:
    """The status of a launcher that went long ago says nothing of the server; its words do."""
    async with open_stdio(shell("{ sleep 0.7; echo bye >&2; exit 3; } &")) as (stream, child):
        with trio.fail_after(5):
            assert await child.wait() == 0
            assert await stream.receive() == []
            closed = await stream.obituary("the pipe ended")
    assert closed.exit_status is None
    assert closed.reason == "the pipe ended (sh)"
    assert closed.stderr_tail == "bye\n"


async def test_obituary_with_an_heir() -> None:
    """A dead server's last words are waited for from its death on, and not once more after."""
    async with open_stdio(shell("sleep 30 & echo no >&2; exit 3")) as (stream, _):
        with trio.fail_after(5):
            reason = await stream.wait_death()
            await trio.sleep(0.4)
        began = trio.current_time()
        closed = await stream.obituary(reason)
        assert trio.current_time() - began < 0.35
    assert (closed.exit_status, closed.stderr_tail) == (3, "no\n")


async def test_wait_death() -> None:
    """Death is told even while a descendant holds stdout, once, and not of a launcher."""
    async with open_stdio(shell("sleep 30 & kill -TERM $$")) as (stream, _):
        with trio.fail_after(5):
            reason = await stream.wait_death()
            assert reason == "sh was ended by SIGTERM"
            assert (await stream.obituary(reason)).reason == reason
    async with open_stdio(shell("sleep 30 &")) as (stream, child):
        await child.wait()
        with trio.move_on_after(0.1) as scope:
            await stream.wait_death()
        assert scope.cancelled_caught
