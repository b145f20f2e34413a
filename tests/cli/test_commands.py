"""The contract of the command line: exit status, what is on stdout, and that nothing is left."""

from __future__ import annotations

import os
import pty
import re
import select
import shlex
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from click.testing import CliRunner

from mcp_trio.cli.commands import cli
from tests.cli.runs import COMMAND, LIMIT, alive, mcp_trio, pid_in, started

PARTS = [
    "protocolVersion",
    "serverInfo",
    "capabilities",
    "instructions",
    "tools",
    "resources",
    "resourceTemplates",
    "prompts",
]
SERVER = """
import os, sys
import mcp_trio
server = mcp_trio.Server("mine")
print("a print at import")

@server.tool()
async def where() -> str:
    print("a print in a tool")
    return os.environ.get("GIVEN", "nothing") + os.environ.get("SECRET", "")
"""


@pytest.mark.parametrize(
    ("mode", "version"),
    [("auto", "2026-07-28"), ("legacy", "2025-11-25"), ("2024-11-05", "2024-11-05")],
)
def test_inspect_prints_one_document(mode: str, version: str) -> None:
    """Scripts get all that a server has in wire form, in every era, and nothing else."""
    run = mcp_trio("inspect", "--json", "--mode", mode)
    assert (run.status, run.stderr) == (0, "")
    found = run.document
    assert list(found) == PARTS
    assert found["protocolVersion"] == version
    assert found["serverInfo"]["name"] == "demo"
    assert found["tools"][0]["inputSchema"]["required"] == ["a", "b"]
    assert found["resources"][0]["uri"] == "demo://about"
    assert found["resourceTemplates"][0]["uriTemplate"] == "demo://notes/{name}"
    assert found["prompts"][0]["arguments"][0] == {
        "name": "topic",
        "description": "What to explain",
        "required": True,
    }


def test_inspect_shows_tables() -> None:
    """People get tables."""
    run = mcp_trio("inspect")
    assert run.status == 0
    assert "Tools (10)" in run.stdout
    assert "demo://notes/{name}" in run.stdout


def test_a_server_without_a_feature_has_an_empty_list(tmp_path: Path) -> None:
    """A missing capability, or half of one, is no error; prints of a server harm nobody."""
    (tmp_path / "mine.py").write_text(SERVER)
    run = mcp_trio("inspect", "--json", "mine.py:server", cwd=tmp_path)
    assert run.status == 0, run.stderr
    assert [tool["name"] for tool in run.document["tools"]] == ["where"]
    assert run.document["resources"] == run.document["prompts"] == []


def test_a_module_gets_what_it_is_given(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A server is run with the variables that were named, and with no other of ours."""
    (tmp_path / "mine.py").write_text(SERVER)
    monkeypatch.setenv("SECRET", "must not be inherited")
    run = mcp_trio("call", "where", "-t", "mine:server", "-e", "GIVEN=this", cwd=tmp_path)
    assert (run.status, run.stdout) == (0, "this\n"), run.stderr


def test_call_prints_the_result() -> None:
    """The result in wire form, from words or from one JSON object, with stdout for it alone."""
    run = mcp_trio("call", "--json", "add", "a=1", "b=2")
    assert (run.status, run.stderr) == (0, "")
    assert run.document["structuredContent"] == {"result": 3}
    assert run.document["content"] == [{"type": "text", "text": "3"}]
    demo = ["--", *COMMAND, "serve", "demo"]
    assert mcp_trio("call", "add", '{"a": 40, "b": 2}', *demo).stdout == "42\n"


def test_progress_and_logs_are_on_stderr() -> None:
    """What happens meanwhile is seen, and is not in the way of the result."""
    run = mcp_trio("call", "count", "to=2", "delay=0")
    assert (run.status, run.stdout) == (0, "Counted to 2.\n")
    assert run.stderr.splitlines() == [
        "[info count] counting to 2",
        "progress 1 of 2: at 1",
        "progress 2 of 2: at 2",
    ]


def test_a_failed_tool_is_status_1() -> None:
    """The tool's own failure is a result, and told apart from all others."""
    run = mcp_trio("call", "fail", "reason=no paper")
    assert (run.status, run.stdout) == (1, "no paper\n")
    run = mcp_trio("call", "--json", "fail")
    assert (run.status, run.document["isError"]) == (1, True)


def test_read_and_prompt() -> None:
    """Resources and prompts, in wire form and for people."""
    assert mcp_trio("read", "demo://notes/trio").stdout == "Tasks have parents.\n"
    run = mcp_trio("read", "--json", "demo://about")
    assert run.document["contents"][0]["mimeType"] == "text/markdown"
    run = mcp_trio("prompt", "--json", "explain", "topic=1")
    assert run.document["messages"][0]["content"]["text"].startswith("Explain 1 to a beginner")


@pytest.mark.parametrize(
    ("words", "line"),
    [
        (["--", "false"], r"false: .*false exited \(exit status 1\)"),
        (["--", "/no/such/command"], "/no/such/command: command not found"),
        (
            ["--", "sh", "-c", "echo usage >&2; exit 3"],
            r"sh -c 'echo usage >&2; exit 3': .*sh exited \(exit status 3\); stderr: usage",
        ),
        (["--timeout", "1", "--", "sleep", "60"], "sleep 60: .* within 1 s"),
        (["--", "sh", "-c", "kill -9 $$"], r"sh -c .*ended by SIGKILL \(exit status -9\)"),
    ],
)
def test_no_connection_is_one_line_and_status_3(words: list[str], line: str) -> None:
    """The line names the command, its exit status and its stderr, once each."""
    run = mcp_trio("inspect", "--json", *words)
    assert (run.status, run.stdout) == (3, "")
    assert re.fullmatch(f"mcp-trio: no connection to {line}\n", run.stderr), run.stderr


def test_a_server_that_says_nothing_is_given_up_in_time(tmp_path: Path) -> None:
    """`--timeout` is kept, and the process is gone when the command is."""
    file = tmp_path / "pid"
    run = mcp_trio("inspect", "--timeout", "1", "--", "sh", "-c", f"echo $$ >{file}; exec sleep 60")
    assert run.status == 3
    assert run.seconds < 10
    assert not alive(pid_in(file))


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["call", "nope"], "Unknown tool: nope"),
        (["read", "demo://nope"], "Resource not found"),
        (["call", "ask_model", "question=x"], "no model to ask"),
    ],
)
def test_an_error_answer_is_status_3(words: list[str], message: str) -> None:
    """What the server refuses is told in its own words, on one line."""
    run = mcp_trio(*words)
    assert (run.status, run.stdout) == (3, "")
    assert run.stderr.startswith("mcp-trio: demo: ")
    assert message in run.stderr
    assert run.stderr.count("\n") == 1


@pytest.mark.parametrize(
    "words",
    [
        ["frobnicate"],
        ["inspect", "ftp://example.com/mcp"],
        ["inspect", "demo", "--header", "A: b"],
        ["serve", "--sse"],
        ["serve", "--http", "nowhere"],
        ["inspect", "--mode", "1999-12-31"],
        ["inspect", "--timeout", "0"],
        ["inspect", "--timeout", "soon"],
        ["inspect", "--timeout", "nan"],
        ["inspect", "--"],
        ["inspect", "demo", "--", "cat"],
        ["inspect", "demo", "-t", "demo"],
        ["inspect", "no_such_module:server"],
        ["call"],
        ["call", "add", "1"],
        ["call", "add", "a=1", "--no-such-option"],
        ["read"],
        ["prompt", "explain", "topic"],
        ["serve", "no_such_file.py:server"],
        ["serve", "ftp://example.com"],
    ],
)
def test_usage_is_status_2(words: list[str]) -> None:
    """What cannot be meant is refused at once, with a word on what can."""
    result = CliRunner().invoke(cli, words)
    assert result.exit_code == 2, result.output
    assert result.stdout == ""
    assert "Error: " in result.stderr


@pytest.mark.parametrize(
    "words", [["--help"], ["call", "--help"], ["inspect", "-h"], ["--version"]]
)
def test_help_is_light(words: list[str]) -> None:
    """Help and version do not wait for what only a connection needs."""
    code = (
        "import sys, mcp_trio.cli\n"
        f"sys.argv[1:] = {words!r}\n"
        "try: mcp_trio.cli.main()\n"
        "finally: print(*sys.modules, file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0
    assert done.stdout
    assert not {"rich", "cattrs", "mcp_trio.peer", "mcp_trio.server"} & {*done.stderr.split()}


def test_the_missing_extra_is_named() -> None:
    """Without click there is no command line, but a line that says how to get one."""
    code = "import sys; sys.modules['click'] = None; import mcp_trio.cli; mcp_trio.cli.main()"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 2
    assert done.stderr == ("mcp-trio: the command line needs click: pip install 'mcp-trio[cli]'\n")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_it_at_once(number: signal.Signals, tmp_path: Path) -> None:
    """Ctrl-C while it connects: no traceback, no process left, the status that shells expect."""
    file = tmp_path / "pid"
    words = ["inspect", "--", "sh", "-c", f"echo $$ >{file}; exec sleep 60"]
    with started(*words) as process:
        server = pid_in(file)
        process.send_signal(number)
        out, err = process.communicate(timeout=LIMIT)
    assert (process.returncode, out, err) == (128 + number, b"", b"")
    assert not alive(server)


def test_ctrl_c_ends_a_call() -> None:
    """The same in the middle of a call that reports progress."""
    with started("call", "count", "to=1000") as process:
        assert process.stderr is not None
        while not process.stderr.readline().startswith(b"progress"):
            pass
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=LIMIT)
    assert (process.returncode, out) == (130, b"")
    assert b"Traceback" not in err


def test_a_reader_that_goes_away_is_no_error() -> None:
    """`mcp-trio inspect | head -1` is quiet."""
    with started("inspect", "--json") as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.close()
        err = process.stderr.read()
        assert process.wait(LIMIT) == 128 + signal.SIGPIPE
    assert err == b""


@pytest.mark.parametrize(
    ("redirection", "status", "message"),
    [
        (">&-", 3, "standard output is closed"),
        (">/dev/full", 3, "No space left on device"),
        ("<&-", 0, ""),
        ("2>&-", 0, ""),
    ],
)
def test_descriptors_may_be_missing(redirection: str, status: int, message: str) -> None:
    """A result that is lost is an error, and what nobody needs may be closed."""
    line = f"{shlex.join([*COMMAND, 'call', 'greet'])} {redirection}"
    done = subprocess.run(["sh", "-c", line], capture_output=True, text=True, timeout=LIMIT)
    assert done.returncode == status
    assert message in done.stderr
    assert "Traceback" not in done.stderr


def test_words_too_many_are_told_where_they_belong() -> None:
    """A server's command without the lone -- is what everybody writes first."""
    result = CliRunner().invoke(cli, ["inspect", "python", "server.py"])
    assert result.exit_code == 2
    assert "Too many words: 'server.py'. A command stands after --." in result.stderr


def test_a_server_that_breaks_inside_has_more_to_say(tmp_path: Path) -> None:
    """The answer to an error inside the server says nothing, its stderr does: -v is named."""
    (tmp_path / "mine.py").write_text(
        SERVER + "@server.resource('a://b')\ndef broken() -> str: raise KeyError('c')\n"
    )
    words = ["read", "a://b", "-t", f"{tmp_path}/mine.py:server"]
    assert "failed inside the server. (-32603, InternalError); -v shows" in mcp_trio(*words).stderr
    run = mcp_trio(*words, "-v")
    assert "KeyError: 'c'" in run.stderr
    assert "-v shows" not in run.stderr


def test_what_cannot_be_sent_is_usage() -> None:
    """JSON can write half of a surrogate pair, and UTF-8 cannot."""
    run = mcp_trio("call", "echo", r'{"text": "\ud800"}')
    assert (run.status, run.stdout) == (2, "")
    assert "params.arguments.text holds a lone surrogate" in run.stderr


def test_a_person_answers_at_the_terminal() -> None:
    """A real terminal: the form is asked on it, and the tool gets what was typed."""
    script = [(b"Answer? ", b"y\n"), (b"Name: ", b"Ada\n"), (b"Nickname", b"\n")]
    shown, status = at_terminal(["call", "greet"], script)
    assert status == 0
    assert "Hello, Ada!" in shown


def test_ctrl_c_ends_a_question() -> None:
    """Nobody has to answer first."""
    shown, status = at_terminal(["call", "greet"], [(b"Answer? ", b"\x03")])
    assert status == 130
    assert "Traceback" not in shown
    assert "Fatal" not in shown


def at_terminal(words: list[str], script: list[tuple[bytes, bytes]]) -> tuple[str, int]:
    """Run the command on a terminal of its own, where somebody types as the script says."""
    pid, terminal = pty.fork()
    if pid == 0:
        os.execv(sys.executable, [*COMMAND, *words])
    shown = b""
    limit = time.monotonic() + LIMIT
    while select.select([terminal], [], [], max(0.0, limit - time.monotonic()))[0]:
        try:
            data = os.read(terminal, 4096)
        except OSError:  # how a terminal ends on Linux
            break
        if not data:
            break
        shown += data
        if script and script[0][0] in shown:
            os.write(terminal, script.pop(0)[1])
    else:
        os.kill(pid, signal.SIGKILL)
    os.close(terminal)
    _, status = os.waitpid(pid, 0)
    return shown.decode(), os.waitstatus_to_exitcode(status)


def test_serve_says_what_is_wrong_with_a_module(tmp_path: Path) -> None:
    """The author of a server sees the traceback of it, and whoever inspects it one line."""
    (tmp_path / "broken.py").write_text("import nothing_like_it")
    run = mcp_trio("serve", "broken:server", cwd=tmp_path)
    assert run.status == 2
    assert "Traceback" in run.stderr
    assert run.stderr.splitlines()[-1].startswith("mcp-trio: 'broken:server' cannot be loaded:")
    run = mcp_trio("inspect", "broken:server", cwd=tmp_path)
    assert run.status == 3
    assert "No module named 'nothing_like_it'" in run.stderr
    assert run.stderr.count("\n") == 1
