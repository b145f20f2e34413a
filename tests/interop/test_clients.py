"""The clients of others and our server: each does the same steps, in each era that it has.

The clients are programs (`tests.interop.clients`) that are told what to do and print what they saw.
"""

from __future__ import annotations

import functools
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

import attrs
import pytest

from tests import peers
from tests.interop.running import free_port, running

REPOSITORY = Path(__file__).parents[2]
CLIENTS = Path(__file__).parent / "clients"
SERVER = Path(__file__).parent / "servers" / "ours.py"
UNUSUAL = "U+2028 \u2028, U+0085 \x85, a tab \t, CRLF \r\n, NUL \x00, \u00e9 and \U0001f600"
TODAY = "memo://today"
TOOLS_CHANGED = {"notifications/tools/list_changed", "ToolsListChanged"}

JSON = Any


@attrs.frozen
class Foreign:
    """A client in one mode, and what is particular about it."""

    name: str
    mode: str
    argv: Callable[[], list[str]]
    version: str
    #: What it makes of -32002, the code that 2025-11-25 has for a resource that does not exist.
    no_such_resource: int = -32002
    #: Whether it can listen to changes.
    listens: bool = True
    #: The path of the server's URL, if it is reached over HTTP.
    path: str | None = None

    def __str__(self) -> str:
        return f"{self.name}-{self.mode}{self.path or ''}"

    @property
    def modern(self) -> bool:
        return self.version > "2026"


def _python(find: Callable[[], Path], name: str) -> Callable[[], list[str]]:
    return lambda: [str(find()), "-m", f"tests.interop.clients.{name}"]


def _node(name: str) -> Callable[[], list[str]]:
    return lambda: peers.node_script(CLIENTS / name)


_MCP = _python(peers.mcp_python, "mcp_sdk")
_FASTMCP = _python(peers.fastmcp_python, "fastmcp_sdk")

FOREIGN = [
    Foreign("mcp", "auto", _MCP, "2026-07-28", no_such_resource=-32602),
    Foreign("mcp", "legacy", _MCP, "2025-11-25"),
    # It has no subscriptions/listen.
    Foreign("fastmcp", "auto", _FASTMCP, "2026-07-28", no_such_resource=-32602, listens=False),
    Foreign("fastmcp", "legacy", _FASTMCP, "2025-11-25"),
    # It shows -32002 as what the next revision has instead.
    Foreign("ts-2.4", "auto", _node("ts_sdk_v2.mjs"), "2026-07-28", no_such_resource=-32602),
    Foreign("ts-2.4", "legacy", _node("ts_sdk_v2.mjs"), "2025-11-25", no_such_resource=-32602),
    Foreign("ts-1.32", "legacy", _node("ts_sdk_v1.mjs"), "2025-11-25"),
]
FOREIGN += [
    *(attrs.evolve(foreign, path="/mcp") for foreign in FOREIGN),
    *(attrs.evolve(foreign, path="/sse") for foreign in FOREIGN if foreign.mode == "legacy"),
]

pytestmark = [
    pytest.mark.interop,
    pytest.mark.usefixtures("mcp_python", "fastmcp_python", "node", "npm_project"),
    pytest.mark.parametrize("foreign", FOREIGN, ids=str),
]


def run(
    foreign: Foreign, server: list[str] | str, steps: list[JSON], *, timeout: float = 60
) -> tuple[JSON, str]:
    """What the client reports, and what it and a server that it started wrote to stderr.

    Args:
        server: The command that starts it, or the URL that it has.
    """
    plan = {
        "mode": foreign.mode,
        "url" if isinstance(server, str) else "command": server,
        "steps": steps,
        "log_level": "debug",
        "library": str(CLIENTS / "steps.mjs"),
    }
    done = subprocess.run(
        [*foreign.argv(), json.dumps(plan)],
        cwd=REPOSITORY,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        encoding="utf-8",
        timeout=timeout,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout), done.stderr


@contextmanager
def started(foreign: Foreign, server: list[str], port: int) -> Iterator[tuple[str, IO[bytes]]]:
    """The URL of a server that listens at a port, and what it writes to stderr."""
    with (
        tempfile.TemporaryFile() as errors,
        running(server, port, stderr=errors),
    ):
        yield f"http://127.0.0.1:{port}{foreign.path}", errors


def read_from_start(file: IO[bytes]) -> str:
    file.seek(0)
    return file.read().decode()


def do(what: str, **arguments: Any) -> JSON:
    return {"do": what, **arguments}


def call(tool: str, /, **arguments: Any) -> JSON:
    return do("call", name=tool, arguments=arguments)


def digest(outcome: JSON) -> object:
    """An outcome as tests compare it: texts of a result, or the code of an error."""
    if "error" in outcome:
        return outcome["error"]["code"]
    if "raised" in outcome:
        return "raised"
    if "steps" in outcome:
        return [digest(step) for step in outcome["steps"]]
    result = outcome["result"]
    if not isinstance(result, dict):
        return result
    if "content" in result:
        texts = " ".join(block.get("text", block["type"]) for block in result["content"])
        return f"failed: {texts}" if result.get("isError") else texts
    if "contents" in result:
        return [part.get("text", part.get("blob")) for part in result["contents"]]
    if "messages" in result:
        return [message["content"]["text"] for message in result["messages"]]
    if "completion" in result:
        return result["completion"]["values"]
    return "done"


REVIEW = {"type": "ref/prompt", "name": "review"}
MEMO = {"type": "ref/resource", "uri": "memo://{name}"}

# Steps, and the digests of what should come of them.
SIMPLE: list[tuple[JSON, object]] = [
    (call("add", a=2, b=3), "5"),
    (call("add", a="2", b=3), 'failed: Invalid arguments for add: a: "2" is not of type "integer"'),
    (call("nonesuch"), -32602),
    (call("echo", text=UNUSUAL), UNUSUAL),
    (call("big", size=1_000_000), "x" * 1_000_000),
    (call("fail", reason="because"), "failed: because"),
    (call("crash"), "failed: ZeroDivisionError: by zero"),
    (call("refuse"), -32050),
    (call("locate", label="there"), '{"x":1,"y":2.5,"label":"there"}'),
    (call("media"), "text image audio resource resource_link"),
    (do("read", uri=TODAY), ["write more tests"]),
    (do("read", uri="memo://pixel"), ["iVBORw=="]),
    (do("read", uri="memo://a%20b"), ["nothing about a b"]),
    (do("prompt", name="review", arguments={"code": "x"}), ["Review this python: x"]),
    (do("prompt", name="review", arguments={}), -32602),
    (
        do("complete", ref=REVIEW, argument={"name": "language", "value": "p"}),
        ["python", "perl"],
    ),
    (
        do(
            "complete",
            ref=REVIEW,
            argument={"name": "language", "value": "p"},
            context={"code": "reversed"},
        ),
        ["perl", "python"],
    ),
    (do("complete", ref=MEMO, argument={"name": "name", "value": "tom"}), ["tomorrow"]),
    (
        do("together", steps=[call("add", a=number, b=number) for number in range(40)]),
        [str(2 * number) for number in range(40)],
    ),
]


def watch(*names: str) -> list[JSON]:
    """Listen, and cause an update of each of two resources and a new tool."""
    return [
        do(
            "watch",
            uris=[TODAY],
            tools=True,
            count=2,
            steps=[
                call("touch", uri="memo://other"),
                call("touch", uri=TODAY),
                call("grow", name=name),
            ],
        )
        for name in names
    ]


SECTIONS: dict[str, list[JSON]] = {
    "lists": [do(what) for what in ("tools", "resources", "templates", "prompts")],
    "simple": [step for step, _ in SIMPLE],
    "era": [do("read", uri="nowhere://x"), do("ping")],
    "progress": [
        # The TypeScript clients lose progress that arrives together with its result: they handle
        # a result at once, and with it forget the token, but notifications a moment later.
        call("steps", count=5, pause=0.1),
        do("cancel", name="wait", arguments={}),
        call("cancelled", at_least=1),
        {**call("wait"), "timeout": 0.3},
        call("cancelled", at_least=2),
    ],
    "questions": [
        call("greet"),
        call("think", question="Why?"),
        call("roots"),
        call("interview"),
        do("read", uri="memo://mine"),
        do("together", steps=[call("greet") for _ in range(5)]),
    ],
    "log": [
        call("log", level="info", text="one"),
        do("level", level="error"),
        call("log", level="warning", text="two"),
        call("log", level="error", text="three"),
        call("steps", count=1, pause=0.1),  # a message may be handled after the result
    ],
    "changes": [*watch("first", "second"), do("tools")],
}


@attrs.frozen
class Seen:
    """What came of all sections with one client."""

    report: JSON
    outcomes: dict[str, list[JSON]]
    stderr: str
    note: str


@pytest.fixture(scope="session")
def seen(tmp_path_factory: pytest.TempPathFactory) -> Callable[[Foreign], Seen]:
    """Runs all sections with a client, once for all tests that look at what came of them."""

    @functools.cache
    def see(foreign: Foreign) -> Seen:
        note = tmp_path_factory.mktemp("client") / "note"
        steps = [step for section in SECTIONS.values() for step in section]
        server = [sys.executable, str(SERVER), str(note)]
        if foreign.path is None:
            report, stderr = run(foreign, server, steps)
        else:
            with started(foreign, server, free_port()) as (url, errors):
                report, stderr = run(foreign, url, steps)
                stderr += read_from_start(errors)
        came = iter(report["outcomes"])
        outcomes = {name: [next(came) for _ in section] for name, section in SECTIONS.items()}
        return Seen(report, outcomes, stderr, note.read_text())

    return see


See = Callable[[Foreign], Seen]


def test_handshake_and_end(foreign: Foreign, seen: See) -> None:
    """Both sides know each other; in the end the server goes by itself, soon and quietly."""
    report = seen(foreign).report
    assert report["version"] == foreign.version
    assert (report["server"]["name"], report["server"]["version"]) == ("kit", "1.0")
    assert report["instructions"] == "For tests."
    assert report["capabilities"]["resources"] == {"subscribe": True, "listChanged": True}

    stderr = seen(foreign).stderr
    assert stderr.count("Traceback") == 1, stderr  # that of the tool `crash`, for its author
    assert report["close"] < 1.5, "the client waited for the server"
    if foreign.path is not None:
        return
    process, ending = seen(foreign).note.split(maxsplit=1)
    assert ending == "ended by itself"
    with pytest.raises(ProcessLookupError):
        os.kill(int(process), 0)


def test_lists(foreign: Foreign, seen: See) -> None:
    """Whole lists over several pages, with what makes up their entries."""
    tools, resources, templates, prompts = (
        {item["name"]: item for item in outcome["result"]}
        for outcome in seen(foreign).outcomes["lists"]
    )
    assert len(tools) == 19
    assert list(tools)[:3] == ["add", "echo", "big"]
    assert tools["add"]["annotations"]["readOnlyHint"] is True
    assert tools["locate"]["outputSchema"]["properties"]["label"]["maxLength"] == 20
    assert {item["uri"] for item in resources.values()} == {TODAY, "memo://pixel", "memo://mine"}
    assert [item["uriTemplate"] for item in templates.values()] == ["memo://{name}"]
    assert [argument["name"] for argument in prompts["review"]["arguments"]] == ["code", "language"]


def test_gets_and_calls(foreign: Foreign, seen: See) -> None:
    """Every kind of request and of answer; clients check structured content themselves."""
    outcomes = seen(foreign).outcomes["simple"]
    for (step, expected), outcome in zip(SIMPLE, outcomes, strict=True):
        assert digest(outcome) == expected, step
    steps = SECTIONS["simple"]
    located = outcomes[steps.index(call("locate", label="there"))]
    assert located["result"]["structuredContent"] == {"x": 1, "y": 2.5, "label": "there"}
    refused = outcomes[steps.index(call("refuse"))]["error"]
    assert refused["message"].endswith("Not today.")
    assert refused["data"] == {"retry": "tomorrow"}

    missing, ping = map(digest, seen(foreign).outcomes["era"])
    assert missing == foreign.no_such_resource
    # The modern era has no ping; some clients send it all the same.
    assert ping in ({-32601, "raised"} if foreign.modern else {"done"})


def test_progress_and_cancellation(foreign: Foreign, seen: See) -> None:
    """Progress arrives in order, and the handler sees cancellation and timeouts."""
    outcomes = seen(foreign).outcomes["progress"]
    progressed, cancelled, once, timed_out, twice = outcomes
    assert progressed["progress"] == [[number, 5, f"step {number}"] for number in range(1, 6)]
    assert cancelled == {"result": "cancelled"}
    assert digest(once) == "1"
    assert "timed out" in json.dumps(timed_out)
    assert digest(twice) == "2"


def test_questions(foreign: Foreign, seen: See) -> None:
    """The user, the model and the roots are asked; several at once, and one after the other."""
    assert [digest(outcome) for outcome in seen(foreign).outcomes["questions"]] == [
        "Hello, Ada!",
        "50 tokens",
        "file:///project",
        "Ada, file:///project, 10 tokens, accept",
        ["for Ada"],
        ["Hello, Ada!"] * 5,
    ]
    asked = seen(foreign).report["asked"]
    assert len(asked) == 13
    assert asked.count("roots") == 2
    urls = [question["url"] for question in asked if "url" in question]
    assert urls == ["https://example.com/sign"]
    forms = [question for question in asked if "requestedSchema" in question]
    assert {question["message"] for question in forms} == {"What is your name?", "Who reads?"}
    properties = forms[0]["requestedSchema"]["properties"]
    assert {name: field["type"] for name, field in properties.items()} == {
        "name": "string",
        "nickname": "string",
    }


def test_log(foreign: Foreign, seen: See) -> None:
    """Log messages come at the level that was asked for, as the era asks for it."""
    logs = seen(foreign).report["logs"]
    messages = [(message["level"], message["data"], message["logger"]) for message in logs]
    one, two, three = ("info", "one", "kit"), ("warning", "two", "kit"), ("error", "three", "kit")
    if foreign.modern:  # there is no logging/setLevel, and each request of the client said "debug"
        assert digest(seen(foreign).outcomes["log"][1]) in (-32601, "raised")
        assert messages == [one, two, three]
    else:
        assert messages == [one, three]


def test_changes(foreign: Foreign, seen: See) -> None:
    """Changes arrive while a client listens, of what it listens to."""
    *watched, tools = seen(foreign).outcomes["changes"]
    if not foreign.listens:  # then the steps tried what the era does not have
        assert [digest(outcome) for outcome in watched] == [-32601, -32601]
        return
    for outcome in watched:
        assert len(outcome["events"]) == 2
        assert TODAY in outcome["events"]
        assert TOOLS_CHANGED & set(outcome["events"])
    assert {"first", "second"} <= {tool["name"] for tool in tools["result"]}


def test_demo(foreign: Foreign) -> None:
    """Every kind of request against the demo server, with progress, cancellation and questions."""
    slow = {"name": "count", "arguments": {"to": 1000, "delay": 0.05}}
    note = {"type": "ref/resource", "uri": "demo://notes/{name}"}
    steps_and_digests: list[tuple[JSON, object]] = [
        (call("add", a=2, b=3), "5"),
        (call("echo", text=UNUSUAL), UNUSUAL),
        (call("summarize", numbers=[1, 2, 6]), None),
        (call("logo"), "image"),
        (call("fail", reason="because"), "failed: because"),
        (call("greet"), "Hello, Ada!"),
        (call("ask_model", question="Why?"), "200 tokens"),
        (call("roots"), None),
        (call("count", to=3, delay=0.05), "Counted to 3."),
        (do("cancel", **slow), "cancelled"),
        (do("read", uri="demo://about"), None),
        (do("read", uri="demo://notes/trio"), ["Tasks have parents."]),
        (
            do("prompt", name="explain", arguments={"topic": "nurseries", "length": "long"}),
            ["Explain nurseries to a beginner. Keep it long."],
        ),
        (do("complete", ref=note, argument={"name": "name", "value": "w"}), ["welcome"]),
        (do("ping"), None),
    ]
    lists = [do(what) for what in ("tools", "resources", "templates", "prompts")]
    written = call("write_note", name="trio", text="Tasks have one parent.")
    watch = do("watch", uris=["demo://notes/trio"], tools=False, count=1, steps=[written])
    steps = [
        *lists,
        *(step for step, _ in steps_and_digests),
        *([watch] if foreign.listens else []),
    ]
    server = [sys.executable, "-m", "mcp_trio", "serve", "demo"]
    if foreign.path is None:
        report, stderr = run(foreign, server, steps)
    else:
        port = free_port()
        server += ["--http", f"127.0.0.1:{port}", "--sse"]
        with started(foreign, server, port) as (url, errors):
            report, stderr = run(foreign, url, steps)
            stderr += read_from_start(errors)
    for outcome in report["outcomes"][:4]:
        assert outcome["result"]
    outcomes = report["outcomes"][4:]
    for (step, expected), outcome in zip(steps_and_digests, outcomes, strict=False):
        assert expected is None or digest(outcome) == expected, step
    counted = outcomes[[step["do"] for step, _ in steps_and_digests].index("cancel") - 1]
    # The last one arrives together with the result; see test_progress_and_cancellation.
    assert counted["progress"][:2] == [[1, 3, "at 1"], [2, 3, "at 2"]]
    if foreign.listens:
        assert outcomes[-1]["events"] == ["demo://notes/trio"]
    assert "Traceback" not in stderr
