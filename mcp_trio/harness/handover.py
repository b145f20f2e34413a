"""Clients under test: how each is started, and how it is told where its server is.

A client is a program of its own. The harness plays the server, so the program has to be pointed at
it: at a command line which it is to start (stdio), or at a URL (http, sse). There are three ways:

    argument      words of its command line: {command}, {command_json} and {url} are replaced, and
                  if there is none of them, the server is added at the end
    environment   MCP_SERVER_COMMAND (for a shell), MCP_SERVER_COMMAND_JSON (a list), MCP_SERVER_URL
    file          .mcp.json in its working directory, with one server called "harness"

A client may also be an async function in this process, which mutants are.
"""

from __future__ import annotations

import json
import os
import shlex
import sys
import tempfile
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Final, Literal, TypeAlias

import attrs
import trio

from mcp_trio.connection import FrameStream, open_private_nursery
from mcp_trio.harness.exchange import Exchange
from mcp_trio.harness.model import Transport
from mcp_trio.transports.parameters import StdioParameters
from mcp_trio.transports.process import ChildProcess, open_process
from mcp_trio.wire.ndjson import LineFramer, LineTooLong

Way: TypeAlias = Literal["argument", "environment", "file"]

WAYS: Final[tuple[Way, ...]] = ("argument", "environment", "file")
CLIENT_TRANSPORTS: Final[tuple[Transport, ...]] = ("stdio", "http", "sse")
BROWSER: Final = f"{shlex.quote(sys.executable)} -m mcp_trio.harness.oauth.browser %s"
"""What a client that sends its user to a web page finds in the environment."""
LONGEST_LINE: Final = 65_536  # bytes of what the program prints for people


@attrs.frozen
class Address:
    """Where a client finds its server: exactly one of the three."""

    command: tuple[str, ...] | None = None
    url: str | None = None
    stream: FrameStream | None = None


class Running:
    """A client that has been started.

    Attributes:
        ended: Set when it has.
        status: How: an exit status, negative for a signal; None as long as it runs, and for a
            function.
        failure: What a function raised.
    """

    def __init__(self) -> None:
        self.ended = trio.Event()
        self.status: int | None = None
        self.failure: Exception | None = None

    @property
    def ending(self) -> str:
        """How it ended, in words."""
        if not self.ended.is_set():
            return "still running"
        if self.failure is not None:
            return f"failed: {type(self.failure).__name__}: {self.failure}"
        return "ended" if self.status is None else f"exited with status {self.status}"


class ClientTarget(ABC):
    """A client under test.

    Attributes:
        name: What people call it.
        transport: What it is to reach its server over.
        words: How it is named at the end of a shell command, for replays.
    """

    name: str
    transport: Transport
    words: str

    @abstractmethod
    def start(self, address: Address, exchange: Exchange) -> AbstractAsyncContextManager[Running]:
        """Run it for the length of a block; at its end nothing of it is left.

        Raises:
            OSError: It cannot be started.
        """


def program_target(
    argv: Sequence[str],
    *,
    transport: Transport = "stdio",
    way: Way = "argument",
    cwd: str | None = None,
    name: str | None = None,
) -> ClientTarget:
    """A client that is a program.

    Args:
        argv: Its command line, in which the server is filled in.
        transport: "stdio", "http" or "sse".
        way: How it is told where its server is.
        cwd: Where it runs; with the way "file" that is a new folder.

    Raises:
        ValueError: The argv is empty, or there is no such transport or way.
    """
    if not argv:
        raise ValueError("argv must be a list that starts with the client to run")
    if transport not in CLIENT_TRANSPORTS:
        raise ValueError(f"clients are checked over {', '.join(CLIENT_TRANSPORTS)}")
    if way not in WAYS:
        raise ValueError(f"a server is handed over by {', '.join(WAYS)}")
    line = shlex.join(argv)
    options = "" if transport == "stdio" else f" --transport {transport}"
    options += "" if way == "argument" else f" --hand-over {way}"
    return _Program(
        tuple(argv), name or line, f"--role client{options} -- {line}", transport, way, cwd
    )


@attrs.frozen
class _Program(ClientTarget):
    argv: tuple[str, ...]
    name: str
    words: str
    transport: Transport
    way: Way
    cwd: str | None

    @asynccontextmanager
    async def start(self, address: Address, exchange: Exchange) -> AsyncIterator[Running]:
        with tempfile.TemporaryDirectory(prefix="mcp-trio-") as folder:
            parameters = self._parameters(address, folder, exchange)
            async with open_process(parameters) as child, open_private_nursery() as nursery:
                running = Running()
                nursery.start_soon(_watch, child, running)
                nursery.start_soon(_copy_output, child, exchange)
                yield running

    def _parameters(self, address: Address, folder: str, exchange: Exchange) -> StdioParameters:
        argv, cwd, env = list(self.argv), self.cwd, {"BROWSER": BROWSER}
        if self.way == "argument":
            argv = fill_in(argv, address)
        elif self.way == "environment":
            env |= environment_for(address)
        else:
            cwd = folder
            text = json.dumps(config_for(address), indent=2)
            Path(folder, ".mcp.json").write_text(text, encoding="utf-8")
        return _ClientParameters(
            argv[0],
            argv[1:],
            env,
            cwd,
            stderr=lambda line: exchange.add("stderr", line.encode()),
        )


class _ClientParameters(StdioParameters):
    """A client is the user's own program and gets the whole environment, unlike a server."""

    def environment(self) -> dict[str, str]:
        return {**os.environ, **(self.env or {})}


def fill_in(argv: Sequence[str], address: Address) -> list[str]:
    """A command line with the server in it."""
    command = address.command or ()
    values = {
        "{command}": shlex.join(command),
        "{command_json}": json.dumps(command),
        "{url}": address.url or "",
    }
    found: list[str] = []
    placed = False
    for word in argv:
        if word == "{command}":
            found += command  # a word of its own becomes as many as there are
            placed = True
            continue
        for placeholder, value in values.items():
            placed = placed or placeholder in word
            word = word.replace(placeholder, value)
        found.append(word)
    if not placed:
        found += command if address.url is None else (address.url,)
    return found


def environment_for(address: Address) -> dict[str, str]:
    """The variables that name the server."""
    if address.url is not None:
        return {"MCP_SERVER_URL": address.url}
    command = address.command or ()
    return {
        "MCP_SERVER_COMMAND": shlex.join(command),
        "MCP_SERVER_COMMAND_JSON": json.dumps(command),
    }


def config_for(address: Address) -> dict[str, object]:
    """The content of .mcp.json."""
    server: dict[str, object]
    if address.url is not None:
        kind = "sse" if address.url.endswith("/sse") else "http"
        server = {"type": kind, "url": address.url}
    else:
        program, *arguments = address.command or ("",)
        server = {"type": "stdio", "command": program, "args": arguments}
    return {"mcpServers": {"harness": server}}


async def _watch(child: ChildProcess, running: Running) -> None:
    running.status = await child.wait()
    running.ended.set()


async def _copy_output(child: ChildProcess, exchange: Exchange) -> None:
    """What the program prints is for people; the report shows it beside its stderr."""
    framer = LineFramer(LONGEST_LINE)
    try:
        async for data in child.stdout:
            for line in framer.feed(bytes(data)):
                exchange.add("stderr", line, label="stdout")
    except (
        LineTooLong,
        trio.BrokenResourceError,
        trio.ClosedResourceError,
        trio.BusyResourceError,
    ):
        pass  # nobody depends on it


Play: TypeAlias = Callable[[Address], Awaitable[object]]


def function_target(play: Play, name: str, *, transport: Transport = "memory") -> ClientTarget:
    """A client that is an async function in this process.

    Args:
        play: Gets the address of the server: a stream of frames ("memory") or a URL ("http",
            "sse"). What it raises is how it ended.
    """
    return _Function(play, name, f"--role client  # {name}, in process", transport)


@attrs.frozen
class _Function(ClientTarget):
    play: Play
    name: str
    words: str
    transport: Transport

    @asynccontextmanager
    async def start(self, address: Address, exchange: Exchange) -> AsyncIterator[Running]:
        running = Running()
        async with open_private_nursery() as nursery:
            nursery.start_soon(self._run, address, running)
            yield running

    async def _run(self, address: Address, running: Running) -> None:
        try:
            await self.play(address)
        except Exception as exc:
            running.failure = exc
        finally:
            running.ended.set()
