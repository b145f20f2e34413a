"""Clients that are killed outright, and everything else that ends a server from outside."""

import json
import os
import signal
import subprocess
import sys
import time
from typing import IO

import pytest
import trio

import mcp_trio
from tests.hard_cases.programs import LIMIT, all_gone, fake, genuine, running, started

#: Seconds that a server has: its handlers' grace of one second, and what a busy machine adds.
PROMPTLY = 1.0 + 2.0

BUSY_SERVER = """
busy = {}

@server.tool()
async def wait() -> None:
    await trio.sleep_forever()

@server.tool()
async def cling() -> None:
    while True:
        try:
            await trio.sleep_forever()
        finally:
            with trio.CancelScope(shield=True, deadline=trio.current_time() + 0.2):
                await trio.sleep_forever()

@server.tool(thread=True)
def sleep() -> None:
    time.sleep(3600)

@server.tool(thread=True)
def read() -> None:
    os.read(os.pipe()[0], 1)

@server.tool()
async def helper(pid_file: str) -> None:
    await trio.run_process(["sh", "-c", f"echo $$ >{pid_file}.new; mv {pid_file}.new {pid_file};"
                                        " exec sleep 3600"])

@server.tool()
async def flood() -> str:
    return "x" * 1_000_000

@server.tool()
def pid() -> int:
    return os.getpid()

server.run()
"""

#: A client that opens a server, makes it busy, and says which processes there are.
CLIENT = """
import json, os, sys, trio, mcp_trio
async def main():
    command, calls = json.loads(sys.argv[1])
    async with mcp_trio.open_client(command) as client, trio.open_nursery() as nursery:
        pid = (await client.call_tool("pid")).structured_content["result"]
        for name, arguments in calls:
            nursery.start_soon(client.call_tool, name, arguments)
        await client.ping()
        print(pid, flush=True)
trio.run(main)
"""


def first_line(stream: IO[bytes] | None) -> bytes:
    assert stream is not None
    return stream.readline()


@pytest.mark.parametrize(
    "tools",
    [[], ["wait"], ["cling"], ["sleep"] * 3, ["read"], ["helper"], ["flood"] * 30],
    ids=lambda tools: tools[0] if tools else "idle",
)
async def test_client_is_killed_in_mid_call(tools: list[str], tmp_path: os.PathLike[str]) -> None:
    """SIGKILL leaves a client no time for goodbyes; its server ends all the same (pitfall 9)."""
    pid_file = os.path.join(tmp_path, "pid")
    calls = [(name, {"pid_file": pid_file} if name == "helper" else {}) for name in tools]
    argument = json.dumps([genuine(BUSY_SERVER), calls])
    with started([sys.executable, "-c", CLIENT, argument], stderr=None) as client:
        pids = [int(await trio.to_thread.run_sync(first_line, client.stdout))]
        if "helper" in tools:
            with trio.fail_after(LIMIT):
                while not await trio.Path(pid_file).exists():  # noqa: ASYNC110
                    await trio.sleep(0.01)
            pids.append(int(await trio.Path(pid_file).read_text()))
        assert all(map(running, pids))
        client.kill()
        seconds = await all_gone(pids, PROMPTLY)
    print(f"\nwith {tools or 'nothing'} going on, the server was gone after {seconds:.2f} s")


#: A launcher that dies while somebody else holds the server's stdin open.
LAUNCHER = """
import os, subprocess, sys
reading, writing = os.pipe()
server = subprocess.Popen(sys.argv[1:], stdin=reading, stdout=1)
holder = subprocess.Popen(["sleep", "60"], pass_fds=[writing], stdout=subprocess.DEVNULL,
                          stderr=subprocess.DEVNULL)
os.write(writing, b'{"jsonrpc":"2.0","id":1,"method":"ping"}\\n')
print(server.pid, holder.pid, file=sys.stderr, flush=True)
sys.stdin.read()
"""


@pytest.mark.parametrize("watch", [True, False])
async def test_watching_the_parent(watch: bool) -> None:
    """Where stdin is held open by somebody else, watching the parent tells of its end."""
    command = genuine(f"trio.run(lambda: server.serve_stdio(watch_parent={watch}))")
    with started([sys.executable, "-c", LAUNCHER, *command]) as launcher:
        pids = (await trio.to_thread.run_sync(first_line, launcher.stderr)).split()
        server, holder = map(int, pids)
        try:
            await trio.to_thread.run_sync(first_line, launcher.stdout)  # it serves
            launcher.kill()
            if watch:
                await all_gone([server], PROMPTLY)
            else:
                await trio.sleep(0.3)
                assert running(server)
        finally:
            os.kill(holder, signal.SIGKILL)
        await all_gone([server], PROMPTLY)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_signals_end_a_busy_server_quietly(number: signal.Signals) -> None:
    """Ctrl-C and SIGTERM end server.run() with everything that goes on, without a traceback."""
    with started(genuine(BUSY_SERVER)) as process:
        assert process.stdin is not None
        for id, name in enumerate(["wait", "cling", "sleep", "read", "pid"]):
            process.stdin.write(modern(id, "tools/call", name=name, arguments={}))
        process.stdin.flush()
        assert b'"id":4' in first_line(process.stdout)
        began = time.monotonic()
        process.send_signal(number)
        _, errors = process.communicate(timeout=LIMIT)
        assert time.monotonic() - began < PROMPTLY
    assert process.returncode == 128 + number
    assert errors == b""


@pytest.mark.parametrize("moment", ["server.serving", "connection", "transports.stdio_server"])
def test_ctrl_c_while_starting(moment: str) -> None:
    """A Ctrl-C that comes while the server still imports what it needs leaves no traceback."""
    body = f"""
import signal
class Strike:
    @staticmethod
    def find_spec(name, *_):
        if name == "mcp_trio.{moment}":
            signal.raise_signal(signal.SIGINT)
assert "mcp_trio.{moment}" not in sys.modules
sys.meta_path.insert(0, Strike)
server.run()
"""
    with started(genuine(body)) as process:
        _, errors = process.communicate(timeout=LIMIT)
    assert errors == b""
    assert process.returncode == 130


def modern(id: int, method: str, **params: object) -> bytes:
    meta = {
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientInfo": {"name": "raw", "version": "1"},
        "io.modelcontextprotocol/clientCapabilities": {},
    }
    message = {"jsonrpc": "2.0", "id": id, "method": method, "params": {**params, "_meta": meta}}
    return json.dumps(message).encode() + b"\n"


@pytest.mark.parametrize("busy", [False, True])
def test_broken_stdout_ends_the_server_quietly(busy: bool) -> None:
    """Nobody can read the answers any more: the server ends though its stdin stays open."""
    reading, writing = os.pipe()
    with started(genuine(BUSY_SERVER), stdout=writing) as process:
        os.close(writing)
        assert process.stdin is not None
        if busy:
            process.stdin.write(modern(1, "tools/call", name="sleep", arguments={}))
        process.stdin.write(modern(2, "ping"))
        process.stdin.flush()
        os.read(reading, 1)
        os.close(reading)
        process.stdin.write(modern(3, "server/discover"))
        process.stdin.flush()
        began = time.monotonic()
        assert process.wait(LIMIT) == 0
        assert time.monotonic() - began < PROMPTLY
        errors = process.communicate()[1]
    assert b"Traceback" not in errors
    assert errors.count(b"\n") <= 1


def test_end_of_input_lets_what_is_quick_finish() -> None:
    """`printf ... | server`: the answers are written though the input has ended before."""
    body = """
@server.tool()
async def slowly() -> str:
    await trio.sleep(0.3)
    return "done"
server.run()
"""
    done = subprocess.run(
        genuine(body),
        input=modern(1, "tools/call", name="slowly", arguments={}),
        capture_output=True,
        timeout=LIMIT,
    )
    assert done.returncode == 0
    assert json.loads(done.stdout)["result"]["content"][0]["text"] == "done"
    assert done.stderr == b""


CHATTY = """
import logging
logging.basicConfig(level="DEBUG", stream=sys.stdout)

@server.tool()
def chat() -> str:
    print("printed")
    sys.__stdout__.write("written\\n")
    os.write(1, b"by number\\n")
    os.system("echo by a shell")
    subprocess.run(["cat"])
    logging.info("logged")
    return subprocess.run(["cat"], capture_output=True, timeout=5).stdout.decode() + "clean"

@server.tool()
async def chat_on() -> str:
    await trio.run_process(["sh", "-c", "echo by a child; cat"])
    return "clean"

@server.tool(thread=True)
def chat_in_a_thread() -> str:
    print("in a thread")
    subprocess.run(["sh", "-c", "echo by a grandchild; cat"])
    return input() if sys.stdin.readable() and sys.stdin.read() else "clean"

print("before")
server.run()
print("after")
"""


async def test_nothing_that_a_tool_says_reaches_the_wire() -> None:
    """Prints, logs and subprocesses of tools go to stderr, and eat no message (I12)."""
    said: list[str] = []
    noise: list[bytes] = []
    async with mcp_trio.open_client(
        genuine(CHATTY), on_stderr=said.append, on_noise=lambda line, _: noise.append(line)
    ) as client:
        with trio.fail_after(LIMIT):
            for _ in range(2):
                for name in ("chat", "chat_on", "chat_in_a_thread"):
                    result = await client.call_tool(name)
                    assert result.content[0].text == "clean"  # type: ignore[union-attr] # a text
    assert noise == [b"before"]
    for words in ["printed", "written", "by number", "by a shell", "by a child", "in a thread"]:
        assert said.count(words) == 2


async def test_server_under_another_stdio_server() -> None:
    """A tool may itself start a server and be its client, on the process's own pipes."""
    inner = fake("serve(lambda request, name: say(request, 'inner'))")
    body = f"""
@server.tool()
async def ask() -> str:
    async with mcp_trio.open_client({[inner.command, *inner.args]!r}, mode="legacy") as client:
        return (await client.call_tool("x")).content[0].text
server.run()
"""
    async with mcp_trio.open_client(genuine(body)) as client:
        with trio.fail_after(LIMIT):
            result = await client.call_tool("ask")
    assert result.content[0].text == "inner"  # type: ignore[union-attr] # a text
