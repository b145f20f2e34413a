"""What else comes out of a server's stdout: noise, banners, and messages cut in unusual places."""

from typing import Any

import pytest
import trio

import mcp_trio
from mcp_trio import ConnectionClosed, RequestTimeout
from tests.hard_cases.programs import LIMIT, fake

#: What JSON may hold unescaped, and where other libraries end a line or a chunk cuts a character.
EXPECTED = "h\xe9llo \N{SNOWMAN}\N{LINE SEPARATOR}\x85!"
SERVE = f"\nserve(lambda request, name: say(request, {EXPECTED!r}))"

CRLF = """
def text(message):
    return json.dumps({"jsonrpc": "2.0", **message}, ensure_ascii=False) + "\\r\\n"
"""
BOM = "write(b'\\xef\\xbb\\xbf')"
RAW_UNICODE = """
def text(message):
    return json.dumps({"jsonrpc": "2.0", **message}, ensure_ascii=False) + "\\n"
"""
ONE_BYTE_AT_A_TIME = (
    RAW_UNICODE
    + """
def write(data):
    for byte in data.encode():
        os.write(1, bytes([byte]))
"""
)
BLANK_LINES = """
plain = write
def write(data):
    plain("\\n\\r\\n  \\n" + data + "\\n\\n")
"""
SPACES = """
def text(message):
    return " \\t" + json.dumps({"jsonrpc": "2.0", **message}) + "  \\t \\n"
"""
MANY_IN_ONE_WRITE = """
plain = write
def write(data):
    log = {"method": "notifications/message", "params": {"level": "info", "data": "x"}}
    plain(text(log) * 500 + data + text(log) * 500)
"""


async def check(parameters: mcp_trio.StdioParameters, **options: Any) -> None:
    """Ten calls, alone and together, each of which gets its answer."""
    async with mcp_trio.open_client(parameters, mode="legacy", **options) as client:

        async def ask() -> None:
            result = await client.call_tool("x")
            assert result.content[0].text == EXPECTED  # type: ignore[union-attr] # a text

        with trio.fail_after(LIMIT):
            await ask()
            async with trio.open_nursery() as nursery:
                for _ in range(9):
                    nursery.start_soon(ask)


@pytest.mark.parametrize(
    "habit",
    [CRLF, BOM, RAW_UNICODE, ONE_BYTE_AT_A_TIME, BLANK_LINES, SPACES, MANY_IN_ONE_WRITE],
    ids=["crlf", "bom", "unicode", "bytes", "blank lines", "spaces", "many"],
)
async def test_unusual_but_right(habit: str) -> None:
    """However a server cuts and spaces its messages: they arrive, and nothing else (I14)."""
    noise: list[bytes] = []
    await check(fake(habit + SERVE), on_noise=lambda line, reason: noise.append(line))
    assert [line for line in noise if line.strip()] == []


CHATTER = """
print("[1] Starting up ...", flush=True)
plain = write
def write(data):
    plain("GET / 200\\n> done\\n" + data + "null\\n[info] {not json}\\n\\x1b[32mok\\x1b[0m\\n")
"""


async def test_noise_among_the_messages() -> None:
    """What is no JSON is reported, in order, and costs no message (I11, pitfall 19)."""
    noise: list[bytes] = []
    await check(fake(CHATTER + SERVE), on_noise=lambda line, reason: noise.append(line))
    assert noise[:3] == [b"[1] Starting up ...", b"GET / 200", b"> done"]
    assert noise.count(b"> done") == 11
    assert noise.count(b"\x1b[32mok\x1b[0m") >= 10


async def test_hook_that_raises() -> None:
    """A failing on_noise costs no message either."""

    def fail(line: bytes, reason: str) -> None:
        raise ValueError

    await check(fake(CHATTER + SERVE), on_noise=fail)


async def test_stderr_on_stdout() -> None:
    """A server started with `2>&1`: its complaints are noise, and every call works."""
    script = """
plain = write
def write(data):
    for n in range(3):
        print("WARNING: something", n, file=sys.stderr, flush=True)
    plain(data)
"""
    noise: list[bytes] = []
    inner = fake(script + SERVE)
    parameters = mcp_trio.StdioParameters(
        "sh", ["-c", 'exec "$@" 2>&1', "sh", inner.command, *inner.args]
    )
    await check(parameters, on_noise=lambda line, reason: noise.append(line))
    assert noise[:3] == [b"WARNING: something %d" % n for n in range(3)]
    assert len(noise) == 33


async def test_tracebacks_on_stdout() -> None:
    """With `2>&1`, a server that crashes leaves its traceback in the noise and its status here."""
    noise: list[bytes] = []
    inner = fake("serve(lambda request, name: 1 / 0)")
    parameters = mcp_trio.StdioParameters(
        "sh", ["-c", 'exec "$@" 2>&1', "sh", inner.command, *inner.args]
    )
    async with mcp_trio.open_client(
        parameters, mode="legacy", on_noise=lambda line, _: noise.append(line)
    ) as client:
        with pytest.raises(ConnectionClosed) as info:
            await client.call_tool("x")
    assert info.value.exit_status == 1
    assert noise[-1] == b"ZeroDivisionError: division by zero"


BANNER = "write('Loading')\n"
GLUED = "the first message is lost in the line of the banner, as I11 has it"


async def test_banner_without_its_newline() -> None:
    """A banner that swallows the answer to the probe: the client says so, and tries once more."""
    noise: list[bytes] = []
    async with mcp_trio.open_client(
        fake(BANNER + SERVE), probe_timeout=0.3, on_noise=lambda line, _: noise.append(line)
    ) as client:
        with trio.fail_after(LIMIT):
            await client.call_tool("x")
    assert len(noise) == 1, GLUED
    assert noise[0].startswith(b"Loading{")


async def test_banner_that_swallows_the_handshake() -> None:
    """Where there is nothing to try again, connecting ends in time, and the line was reported."""
    noise: list[bytes] = []
    with pytest.raises(RequestTimeout):
        async with mcp_trio.open_client(
            fake(BANNER + SERVE),
            mode="legacy",
            connect_timeout=0.3,
            on_noise=lambda line, _: noise.append(line),
        ):
            raise AssertionError
    assert noise[0].startswith(b"Loading{"), GLUED


async def test_pretty_printed() -> None:
    """JSON over several lines is no message on this wire: reported line by line, and no hang."""
    noise: list[tuple[bytes, str]] = []
    script = """
def text(message):
    return json.dumps({"jsonrpc": "2.0", **message}, indent=2) + "\\n"
"""
    with pytest.raises(RequestTimeout):
        async with mcp_trio.open_client(
            fake(script + SERVE),
            mode="legacy",
            connect_timeout=0.3,
            on_noise=lambda line, reason: noise.append((line, reason)),
        ):
            raise AssertionError
    assert noise[0][0] == b"{"
    assert b'  "jsonrpc": "2.0",' in [line for line, _ in noise]


@pytest.mark.parametrize("cut", [1, 20])
async def test_broken_answer_fails_its_call(cut: int) -> None:
    """A line that starts as a message and breaks off fails the call that it was for (I11)."""
    script = f"""
def tool(request, name):
    if name == "cut":
        whole = text({{"id": request["id"], "result": {{"content": [{{"type": "x"}}]}}}})
        write(whole[:-{cut} - 1] + "\\n")
    else:
        say(request, "fine")
serve(tool)
"""
    async with mcp_trio.open_client(fake(script), mode="legacy") as client:
        with trio.fail_after(LIMIT):
            with pytest.raises(mcp_trio.ProtocolError):
                await client.call_tool("cut")
            await client.call_tool("whole")


async def test_final_message_without_its_newline() -> None:
    """The last answer of a server that exits counts, with or without a newline (pitfall 20)."""
    script = """
def tool(request, name):
    content = [{"type": "text", "text": "bye"}]
    write(text({"id": request["id"], "result": {"content": content}}).rstrip())
    sys.exit(0)
serve(tool)
"""
    async with mcp_trio.open_client(fake(script), mode="legacy") as client:
        with trio.fail_after(LIMIT):
            result = await client.call_tool("x")
            assert result.content[0].text == "bye"  # type: ignore[union-attr] # a text
            with pytest.raises(ConnectionClosed):
                await client.call_tool("x")


async def test_half_a_message_and_then_death() -> None:
    """A server that dies in the middle of a message: the death is told, not the fragment."""
    script = """
def tool(request, name):
    write(text({"id": request["id"], "result": {"content": []}})[:30])
    os._exit(5)
serve(tool)
"""
    async with mcp_trio.open_client(fake(script), mode="legacy") as client:
        with trio.fail_after(LIMIT), pytest.raises((ConnectionClosed, mcp_trio.ProtocolError)):
            await client.call_tool("x")
        with pytest.raises(ConnectionClosed) as info:
            await client.call_tool("x")
    assert info.value.exit_status == 5


async def test_line_over_the_limit() -> None:
    """A message over the limit ends the connection and names the limit; what came before counts."""
    script = """
def tool(request, name):
    if name == "large":
        write("x" * 200_000)
    say(request, "fine")
serve(tool)
"""
    async with mcp_trio.open_client(fake(script), mode="legacy", line_limit=100_000) as client:
        with trio.fail_after(LIMIT):
            await client.call_tool("small")
            with pytest.raises(ConnectionClosed, match="100000"):
                await client.call_tool("large")


@pytest.mark.parametrize(
    "reply",
    [
        '"id": str(request["id"]), "result": {}',
        '"id": request["id"] + 1000, "result": {}',
        '"id": None, "error": {"code": -32700, "message": "what?"}',
        '"id": request["id"] + 0.5, "result": {}',
        '"id": True, "result": {}',
    ],
)
async def test_answer_to_another_id(reply: str) -> None:
    """An answer to nothing is reported and fatal to nobody; the right one still counts (I15)."""
    noise: list[str] = []
    script = f"""
def tool(request, name):
    write(text({{{reply}}}))
    say(request, {EXPECTED!r})
serve(tool)
"""
    await check(fake(script), on_noise=lambda _, reason: noise.append(reason))
    assert len(noise) == 10


async def test_answered_twice() -> None:
    """The second answer to one id is reported, and nothing else happens."""
    noise: list[str] = []
    script = f"""
def tool(request, name):
    say(request, {EXPECTED!r})
    say(request, "again")
serve(tool)
"""
    await check(fake(script), on_noise=lambda _, reason: noise.append(reason))
    assert len(noise) >= 9
