"""Servers that die, that will not die, and that were never the process that was started."""

import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
import trio

import mcp_trio
from mcp_trio import ConnectionClosed
from tests.hard_cases.programs import (
    LIMIT,
    NEWS,
    all_gone,
    fake,
    memory_bounded,
    running,
)


async def say(client: mcp_trio.Client, name: str) -> str:
    """Call a tool that answers with one text."""
    with trio.fail_after(LIMIT):
        result = await client.call_tool(name)
    return result.content[0].text  # type: ignore[union-attr] # a text


@contextmanager
def told_soon(what: str) -> Iterator[None]:
    """A block that ends as soon as news of a death has to be there."""
    began = time.monotonic()
    yield
    seconds = time.monotonic() - began
    print(f"\n{what}: told after {seconds * 1000:.0f} ms")
    assert seconds < NEWS


# Launchers

PIDS = "lambda request, name: say(request, f'{os.getpid()} {os.getppid() == os.getpgrp()}')"
STUBBORN = """
signal.signal(signal.SIGTERM, signal.SIG_IGN)
import atexit
atexit.register(lambda: [time.sleep(60) for _ in range(9)])
"""


async def launched(client: mcp_trio.Client) -> int:
    """The process id of the server, once the launcher that started it has gone."""
    with trio.fail_after(LIMIT):
        while True:
            pid, is_there = (await say(client, "pids")).split()
            if is_there == "False":
                return int(pid)
            await trio.sleep(0.01)


@pytest.mark.parametrize("nature", ["", STUBBORN], ids=["obedient", "stubborn"])
async def test_launcher(nature: str) -> None:
    """A launcher forks the server and exits 0: life goes on, and in the end the server goes."""
    script = f"if os.fork(): os._exit(0)\n{nature}\nserve({PIDS})"
    async with mcp_trio.open_client(fake(script), mode="legacy") as client:
        pid = await launched(client)
        await trio.sleep(0.7)  # longer than anybody would wait for the end of stdout
        assert (await say(client, "pids")).startswith(f"{pid} ")
        assert not client.closed
        began = time.monotonic()
    assert not running(pid)
    assert time.monotonic() - began < 0.5 + 0.5 + NEWS


async def test_launcher_that_is_a_shell() -> None:
    """The server of `sh -c 'server &'` survives its shell, and not the connection."""
    inner = fake(f"serve({PIDS})")
    # A shell gives what it starts in the background /dev/null to read, unless it is told not to.
    script = 'exec 3<&0; "$@" <&3 & exit 0'
    parameters = mcp_trio.StdioParameters("sh", ["-c", script, "sh", inner.command, *inner.args])
    async with mcp_trio.open_client(parameters, mode="legacy") as client:
        pid = await launched(client)
    assert not running(pid)


async def test_launched_server_dies() -> None:
    """The death of a launched server is news; the launcher's status is not taken for its own."""
    script = """
if os.fork(): os._exit(0)
def tool(request, name):
    if name == "die":
        print("alas", file=sys.stderr, flush=True)
        os._exit(3)
    say(request, f'{os.getpid()} {os.getppid() == os.getpgrp()}')
serve(tool)
"""
    async with mcp_trio.open_client(fake(script), mode="legacy") as client:
        await launched(client)
        await trio.sleep(0.7)
        with told_soon("a launched server's death"), pytest.raises(ConnectionClosed) as info:
            await client.call_tool("die")
    assert info.value.exit_status is None
    assert info.value.stderr_tail == "alas\n"


# Deaths

HEIR = """
def tool(request, name):
    heir = subprocess.Popen(["sleep", "60"])
    if name == "pid":
        return say(request, heir.pid)
    print("killed by", name, file=sys.stderr, flush=True)
    os.kill(os.getpid(), int(name)) if name != "exit" else os._exit(3)
serve(tool)
"""


@pytest.mark.parametrize(("how", "status"), [("exit", 3), ("9", -9), ("15", -15)])
async def test_death_with_an_heir(how: str, status: int) -> None:
    """A server dies while a grandchild holds its stdout and stderr: the call fails soon (I4)."""
    async with mcp_trio.open_client(fake(HEIR), mode="legacy") as client:
        heir = int(await say(client, "pid"))
        with told_soon("a death with an heir"), pytest.raises(ConnectionClosed) as info:
            await client.call_tool(how)
        assert info.value.exit_status == status
        assert info.value.stderr_tail == f"killed by {how}\n"
        assert running(heir)
    assert not running(heir)


MORTAL = """
def tool(request, name):
    if name == "die":
        print("last words", file=sys.stderr, flush=True)
        how = request["params"]["arguments"]["how"]
        os.kill(os.getpid(), -how) if how < 0 else os._exit(how)
if "modern" in sys.argv:
    ANSWERS["server/discover"] = discover
serve(tool)
"""


@pytest.mark.parametrize("mode", ["modern", "legacy"])
@pytest.mark.parametrize("status", [-signal.SIGKILL, -signal.SIGTERM, 3, 0])
async def test_death_in_mid_call(mode: str, status: int) -> None:
    """Every pending call and every open listen is told why; the body goes on, wiser (I4)."""
    told: list[ConnectionClosed] = []
    all_told = trio.Event()

    def tell(error: ConnectionClosed) -> None:
        told.append(error)
        if len(told) == 22:
            all_told.set()

    async def call(client: mcp_trio.Client) -> None:
        with pytest.raises(ConnectionClosed) as info:
            await client.call_tool("wait")
        tell(info.value)

    async def listen(client: mcp_trio.Client, *, task_status: trio.TaskStatus[None]) -> None:
        async with client.listen(tools=True) as events:
            task_status.started()
            with pytest.raises(ConnectionClosed) as info:
                await anext(events)
            tell(info.value)

    async with mcp_trio.open_client(fake(MORTAL, mode), mode=mode) as client:
        with trio.fail_after(LIMIT):
            async with trio.open_nursery() as nursery:
                for _ in range(20):
                    nursery.start_soon(call, client)
                for _ in range(2):
                    await nursery.start(listen, client)
                with told_soon(f"death by {status} in mid-call"):
                    with pytest.raises(ConnectionClosed) as info:
                        await client.call_tool("die", {"how": int(status)})
                    await all_told.wait()  # the body is not cancelled
        with pytest.raises(ConnectionClosed) as later:
            await client.call_tool("wait")
    told += [info.value, later.value]
    assert len({id(error) for error in told}) == 24, "each has an exception of its own"
    assert {error.exit_status for error in told} == {status}
    assert {error.stderr_tail for error in told} == {"last words\n"}


async def test_death_of_the_last_words() -> None:
    """What a server writes before it dies still arrives: its answer, and all of its stderr."""
    script = """
def tool(request, name):
    say(request, "x" * 1_000_000)
    sys.stderr.write("".join(f"line {n}\\n" for n in range(20_000)))
    sys.stderr.flush()
    os._exit(4)
serve(tool)
"""
    async with mcp_trio.open_client(fake(script), mode="legacy") as client:
        assert len(await say(client, "die")) == 1_000_000
        with pytest.raises(ConnectionClosed) as info:
            await client.call_tool("again")
    assert info.value.exit_status == 4
    assert info.value.stderr_tail.endswith("line 19999\n")


@pytest.mark.parametrize(
    ("script", "status", "tail"),
    [
        ("sys.stderr.write('usage: server'); sys.exit(2)", 2, "usage: server"),
        ("sys.exit()", 0, ""),
        ("sys.stdin.readline(); os.kill(os.getpid(), 9)", -9, ""),
        ("raise SystemError('broken')", 1, "SystemError: broken\n"),
    ],
)
async def test_death_before_the_first_answer(script: str, status: int, tail: str) -> None:
    """A program that is no server: the error names command, status and last words (pitfall 7)."""
    with told_soon("a death while connecting"), pytest.raises(ConnectionClosed) as info:
        async with mcp_trio.open_client(fake(script)):
            raise AssertionError
    assert info.value.exit_status == status
    assert info.value.stderr_tail.endswith(tail)
    assert "python" in str(info.value)


# The undying

UNDYING = """
signal.signal(signal.SIGTERM, signal.SIG_IGN)
def tool(request, name):
    say(request, os.getpid())
serve(tool)
while True:
    signal.pause()
"""


@pytest.mark.parametrize("cancelled", [False, True])
async def test_server_that_obeys_nothing(cancelled: bool) -> None:
    """Who ignores stdin's end and SIGTERM is killed, in bounded time on each way out (I5)."""
    with trio.CancelScope() as scope:
        parameters = fake(UNDYING, eof_grace=0.3, term_grace=0.3)
        async with mcp_trio.open_client(parameters, mode="legacy") as client:
            pid = int(await say(client, "pid"))
            began = time.monotonic()
            if cancelled:
                scope.cancel()
                await trio.sleep_forever()
    seconds = time.monotonic() - began
    assert not running(pid)
    assert (0.5 if cancelled else 0.6) <= seconds < 0.6 + NEWS


async def test_tree_of_processes() -> None:
    """A shell that started a server that started helpers: nobody survives the connection (I5)."""
    inner = fake(
        "helpers = [subprocess.Popen(['sleep', '60']) for _ in range(3)]\n"
        "serve(lambda request, name: say(request, ' '.join(str(h.pid) for h in helpers)))"
    )
    parameters = mcp_trio.StdioParameters(
        "sh", ["-c", '"$@"; true', "sh", inner.command, *inner.args]
    )
    async with mcp_trio.open_client(parameters, mode="legacy") as client:
        pids = [int(pid) for pid in (await say(client, "pids")).split()]
        assert all(map(running, pids))
    assert await all_gone(pids, 0) < 0.1


# stderr

TALKER = """
def tool(request, name):
    if name == "die":
        sys.stderr.write("\\nlast words\\n")
        sys.exit(3)
    say(request, "done")
chunk = b"x" * 9_999 + (b"\\n" if "lines" in sys.argv else b"x")
for _ in range(1000):
    os.write(2, chunk)
serve(tool)
"""


@pytest.mark.parametrize("kind", ["lines", "one line"])
@pytest.mark.parametrize("stderr", ["capture", "callback", "discard"])
async def test_ten_megabytes_of_stderr(kind: str, stderr: str) -> None:
    """A server that talks before it answers is heard out, in flat memory (I6)."""
    seen = 0

    def on_stderr(line: str) -> None:
        nonlocal seen
        seen += len(line)

    mode = on_stderr if stderr == "callback" else stderr
    async with (
        memory_bounded(15),
        mcp_trio.open_client(fake(TALKER, kind, stderr=mode), mode="legacy") as client,
    ):
        assert await say(client, "talk") == "done"
        with pytest.raises(ConnectionClosed) as info:
            await client.call_tool("die")
    assert info.value.exit_status == 3
    tail = info.value.stderr_tail
    assert len(tail) <= 8192
    assert tail.endswith("last words\n") if stderr != "discard" else tail == ""
    if stderr == "callback":
        assert seen == 10_000_000 + len("last words") - (1000 if kind == "lines" else 0)


async def test_stderr_after_the_handshake_and_without_a_reader(
    capfd: pytest.CaptureFixture[str],
) -> None:
    """By default a server's stderr goes to ours, whole, and holds nothing up."""
    script = """
def tool(request, name):
    for n in range(2000):
        print("line", n, "x" * 500, file=sys.stderr)
    sys.stderr.flush()
    say(request, "done")
serve(tool)
"""
    async with mcp_trio.open_client(fake(script, stderr="inherit"), mode="legacy") as client:
        assert await say(client, "talk") == "done"
    assert capfd.readouterr().err.count("\n") == 2000


async def test_several_servers_and_one_death() -> None:
    """Each connection fails alone: the siblings of a dead server never notice (pitfall 4)."""
    survived: list[str] = []

    async def use(name: str) -> None:
        async with mcp_trio.open_client(fake(MORTAL_SIBLING, name), mode="legacy") as client:
            for _ in range(5):
                await say(client, "echo")
                await trio.sleep(0.05)
            survived.append(name)

    async def lose() -> None:
        with pytest.raises(ConnectionClosed):
            await use("mortal")

    with trio.fail_after(LIMIT):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(lose)
            for name in ("a", "b", "c"):
                nursery.start_soon(use, name)
    assert sorted(survived) == ["a", "b", "c"]


MORTAL_SIBLING = """
calls = 0
def tool(request, name):
    global calls
    calls += 1
    if calls == 3 and "mortal" in sys.argv:
        os.kill(os.getpid(), signal.SIGKILL)
    say(request, os.getpid())
serve(tool)
"""
