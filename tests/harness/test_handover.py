"""Handing a server to a client under test: by argument, environment or file, and the relay."""

import json
import sys

import pytest
import trio

from mcp_trio.harness import relay
from mcp_trio.harness.client_probe import newest_of_each_era, record, speaks
from mcp_trio.harness.handover import (
    Address,
    ClientTarget,
    config_for,
    environment_for,
    fill_in,
    program_target,
)
from mcp_trio.harness.model import Failed
from mcp_trio.harness.probe import Options

COMMAND = Address(command=("python", "-I", "a b.py"))
WEB = Address(url="http://127.0.0.1:1/mcp")

#: A client that does nothing but look up its server, say initialize there, and print the answer.
CLIENT = """
import json, os, shlex, subprocess, sys
way = sys.argv[1]
if way == "argument":
    command = sys.argv[2:]
elif way == "environment":
    command = shlex.split(os.environ["MCP_SERVER_COMMAND"])
    assert command == json.loads(os.environ["MCP_SERVER_COMMAND_JSON"])
else:
    server = json.load(open(".mcp.json"))["mcpServers"]["harness"]
    command = [server["command"], *server["args"]]
child = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
params = {"protocolVersion": "2025-11-25", "capabilities": {},
          "clientInfo": {"name": "tiny", "version": "1"}}
def say(message):
    child.stdin.write(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\\n")
    child.stdin.flush()
say({"id": 1, "method": "initialize", "params": params})
print(child.stdout.readline().decode())
say({"method": "notifications/initialized"})
child.stdin.close()
child.wait()
"""


@pytest.mark.parametrize(
    ("argv", "address", "filled"),
    [
        (["c"], COMMAND, ["c", "python", "-I", "a b.py"]),
        (["c", "{command}", "-x"], COMMAND, ["c", "python", "-I", "a b.py", "-x"]),
        (["c", "--s={command}"], COMMAND, ["c", "--s=python -I 'a b.py'"]),
        (["c", "{command_json}"], COMMAND, ["c", '["python", "-I", "a b.py"]']),
        (["c"], WEB, ["c", "http://127.0.0.1:1/mcp"]),
        (["c", "--url={url}"], WEB, ["c", "--url=http://127.0.0.1:1/mcp"]),
    ],
)
def test_placeholders(argv: list[str], address: Address, filled: list[str]) -> None:
    """The server stands where a placeholder is, as one word or several, and else at the end."""
    assert fill_in(argv, address) == filled


def test_variables() -> None:
    """A command is there for a shell and as a list; a URL is a URL."""
    variables = environment_for(COMMAND)
    assert variables["MCP_SERVER_COMMAND"] == "python -I 'a b.py'"
    assert json.loads(variables["MCP_SERVER_COMMAND_JSON"]) == ["python", "-I", "a b.py"]
    assert environment_for(WEB) == {"MCP_SERVER_URL": "http://127.0.0.1:1/mcp"}


def test_file() -> None:
    """.mcp.json has the form that clients know, for both kinds of server."""
    server = {"type": "stdio", "command": "python", "args": ["-I", "a b.py"]}
    assert config_for(COMMAND) == {"mcpServers": {"harness": server}}
    assert config_for(WEB) == {"mcpServers": {"harness": {"type": "http", "url": WEB.url}}}
    sse = config_for(Address(url="http://127.0.0.1:1/sse"))
    assert sse["mcpServers"]["harness"]["type"] == "sse"  # type: ignore[index]


def test_what_cannot_be_handed_over() -> None:
    """An empty command, an unknown transport or way: nothing is started."""
    with pytest.raises(ValueError, match="argv"):
        program_target([])
    with pytest.raises(ValueError, match="stdio, http, sse"):
        program_target(["c"], transport="memory")
    with pytest.raises(ValueError, match="argument, environment, file"):
        program_target(["c"], way="telepathy")  # type: ignore[arg-type]


def tiny(way: str) -> ClientTarget:
    argv = [sys.executable, "-c", CLIENT, way]
    return program_target(argv, way=way)  # type: ignore[arg-type]


@pytest.mark.parametrize("way", ["argument", "environment", "file"])
async def test_a_program_finds_its_server(way: str) -> None:
    """Whichever way it is told: it speaks to the harness, through the relay, and leaves."""
    with trio.fail_after(60):
        scene = await record(tiny(way), "2025-11-25", Options())
    assert [said.method for said in scene.said] == ["initialize", "notifications/initialized"]
    assert scene.running is not None
    assert scene.running.status == 0
    assert speaks(scene)
    printed = [e.data for e in scene.exchange.entries if e.label == "stdout"]
    assert b'"protocolVersion":"2025-11-25"' in printed[0]


async def test_what_a_client_speaks_is_found_out() -> None:
    """The newest revision of each era that it goes on in."""
    with trio.fail_after(90):
        assert await newest_of_each_era(tiny("argument"), Options()) == ("2025-11-25",)


async def test_a_client_that_cannot_start_says_why() -> None:
    """One that is not found in its new folder, say: its last words tell the person."""
    lost = program_target([sys.executable, "-c", "import sys; sys.exit('no map')"], way="file")
    with trio.fail_after(90), pytest.raises(Failed, match=r"its server; stderr: no map"):
        await newest_of_each_era(lost, Options())


async def test_the_relay_half_closes() -> None:
    """The end of the client's bytes reaches the harness, which may still answer; then all ends."""
    listeners = await trio.open_tcp_listeners(0, host="127.0.0.1")
    port = listeners[0].socket.getsockname()[1]
    command = relay.command(f"tcp:127.0.0.1:{port}")
    with trio.fail_after(60):
        process = await trio.lowlevel.open_process(command, stdin=-1, stdout=-1)
        assert process.stdin is not None
        assert process.stdout is not None
        async with await listeners[0].accept() as stream, listeners[0]:
            await process.stdin.send_all(b"half a line")
            await process.stdin.aclose()
            came = b""
            async for data in stream:
                came += data
            assert came == b"relay %d\nhalf a line" % process.pid
            await stream.send_all(b"late answer\n")
            assert await process.stdout.receive_some() == b"late answer\n"
        await process.wait()
        await process.stdout.aclose()
    assert process.returncode == 0
