"""What a command connects to or serves, as it is written on the command line.

    -- COMMAND ARGS...      a server to start
    URL                     one that runs: http, https, ws, wss, unix:PATH, tcp:HOST:PORT
    module:server           a `Server` object in a module
    path/file.py:server     a `Server` object in a file
    demo, or nothing        the bundled demo server

The last three are started as a process of their own that serves them over stdio: that is how
everybody else will meet them, and a server that blocks or prints harms nobody.
"""

import importlib
import importlib.util
import os
import re
import shlex
import sys
import traceback
from collections.abc import Mapping, Sequence
from functools import reduce
from pathlib import Path
from types import ModuleType
from typing import IO, TYPE_CHECKING, Any
from urllib.parse import urlsplit

import attrs
import click

if TYPE_CHECKING:
    from mcp_trio.server.app import Server
    from mcp_trio.transports.parameters import StderrMode, StdioParameters

DEMO = "demo"
DEMO_OBJECT = "mcp_trio.demo:server"
URL = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://|unix:|tcp:")
SCHEMES = ("http", "https", "ws", "wss", "unix", "tcp")
LONGEST_NAME = 100  # characters of a command line in an error message


@attrs.frozen
class Target:
    """A server to start, or one that runs.

    Attributes:
        name: What people call it: its command line, or what they wrote.
        argv: The program and its arguments; empty for a URL.
        env: What it gets besides the environment that every server gets.
        url: Where it is, if it runs.
    """

    name: str
    argv: Sequence[str] = ()
    env: Mapping[str, str] = attrs.field(factory=dict)
    url: str | None = None

    def to_open(self, stderr: "StderrMode") -> "StdioParameters | str":
        """What `open_client` takes; `stderr` is for a server that is started."""
        from mcp_trio.transports.parameters import StdioParameters

        if self.url is not None:
            return self.url
        return StdioParameters(self.argv[0], self.argv[1:], env=self.env, stderr=stderr)


def read_target(word: str | None, command: Sequence[str], env: Mapping[str, str]) -> Target:
    """The target that a command line names.

    Args:
        word: The positional argument or the value of --target.
        command: What stands after `--`.

    Raises:
        click.UsageError: There are two targets, or it is none.
    """
    if command:
        if word is not None:
            raise click.UsageError(f"Two targets: {word!r}, and the command after --.")
        if not command[0].strip():
            raise click.UsageError("The command after -- is empty.")
        name = shlex.join(command)
        if len(name) > LONGEST_NAME:
            name = name[: LONGEST_NAME - 3] + "..."
        return Target(name, command, env)
    word = DEMO if word is None else word
    if URL.match(word):
        return _read_url(word, env)
    check_object(word)
    argv = [sys.executable, "-P", "-m", "mcp_trio", "serve", word]
    if "PYTHONPATH" in os.environ:  # where to find modules is part of what they wrote
        env = {"PYTHONPATH": os.environ["PYTHONPATH"], **env}
    return Target(word, argv, env)


def _read_url(url: str, env: Mapping[str, str]) -> Target:
    scheme = url.partition(":")[0].lower()
    if scheme not in SCHEMES:
        raise click.UsageError(f"{url}: a URL of a server starts with {', '.join(SCHEMES)}.")
    if scheme not in ("unix", "tcp"):
        try:
            parts = urlsplit(url)
            usable = parts.hostname is not None and (parts.port is None or parts.port > 0)
        except ValueError:
            usable = False
        if not usable:
            raise click.UsageError(f"{url.partition('?')[0]} is no URL with a host.")
    if env:
        raise click.UsageError("--env is for servers that are started; this one runs.")
    return Target(url.partition("?")[0], url=url)


def read_headers(words: Sequence[str], target: Target) -> dict[str, str] | None:
    """`NAME: VALUE` or `NAME=VALUE`, for URLs of HTTP and WebSocket servers."""
    if not words:
        return None
    if target.url is None or not target.url.lower().startswith(("http", "ws")):
        raise click.UsageError("--header is for http, https, ws and wss URLs.")
    found = {}
    for word in words:
        name, mark, value = word.partition(":" if ":" in word else "=")
        if not mark or not name.strip():
            raise click.UsageError("--header: write NAME: VALUE.")
        found[name.strip()] = value.strip()
    return found


def read_address(word: str) -> tuple[str | None, int]:
    """`HOST:PORT`, `:PORT` for all addresses, or `PORT` for this computer only."""
    host, colon, port = word.rpartition(":")
    if not port.isascii() or not port.isdecimal() or int(port) > 65535:
        raise click.UsageError(f"{word!r} is no address: write HOST:PORT.")
    if not colon:
        return "127.0.0.1", int(port)
    return host.strip("[]") or None, int(port)


def read_env(words: Sequence[str]) -> dict[str, str]:
    """`NAME=VALUE`, or `NAME` for the value that it has here."""
    found = {}
    for word in words:
        name, equals, value = word.partition("=")
        if not name:
            raise click.UsageError(f"--env {word!r}: the name is missing.")
        if not equals and name not in os.environ:
            raise click.UsageError(f"--env {name}: there is no such variable here.")
        found[name] = value if equals else os.environ[name]
    return found


def check_object(word: str) -> None:
    """Refuse what cannot be a server object, before anything is started."""
    if word == DEMO:
        return
    where, colon, _ = word.rpartition(":")
    if not colon or not where:
        hint = f", such as {word}:server" if word.endswith(".py") else ""
        raise click.UsageError(
            f"{word!r} is no target: write module:server or path.py:server{hint}, "
            "demo, a URL, or -- COMMAND ARGS..."
        )
    if where.endswith(".py"):
        if not Path(where).is_file():
            raise click.UsageError(f"{word!r}: there is no file {where!r}.")
    elif not _exists(where):
        raise click.UsageError(f"{word!r}: there is no module {where!r} here or on Python's path.")


def _exists(module: str) -> bool:
    """Whether there is such a module, as far as that is known without importing anything."""
    _look_here()
    try:
        return importlib.util.find_spec(module.partition(".")[0]) is not None
    except ValueError:
        return False


def _look_here() -> None:
    """Let modules be found in the current folder, as `python -m` does."""
    if os.getcwd() not in sys.path:
        sys.path.insert(0, os.getcwd())


class NotLoaded(click.ClickException):
    """A server object cannot be had; the message says why."""

    exit_code = 2

    def show(self, file: IO[Any] | None = None) -> None:
        click.echo(f"mcp-trio: {self.message}", file=file or sys.stderr)


def load_server(word: str) -> "Server":
    """The `Server` object that a word names.

    Raises:
        NotLoaded: There is none; what its own code raised is printed before.
        click.UsageError: The word does not name one.
    """
    from mcp_trio.server.app import Server

    check_object(word)
    where, _, name = (DEMO_OBJECT if word == DEMO else word).rpartition(":")
    module = _import(word, where)
    try:
        found = reduce(getattr, name.split("."), module)
    except AttributeError:
        raise NotLoaded(f"{word!r}: there is no {name!r} in {where}.") from None
    if not isinstance(found, Server):
        kind = type(found).__name__
        raise NotLoaded(f"{word!r} is an object of type {kind}, not a mcp_trio.Server.")
    return found


def _import(word: str, where: str) -> ModuleType:
    try:
        if where.endswith(".py"):
            return _import_file(Path(where))
        _look_here()
        return importlib.import_module(where)
    except Exception as exc:
        traceback.print_exc()
        raise NotLoaded(f"{word!r} cannot be loaded: {type(exc).__name__}: {exc}") from exc


def _import_file(path: Path) -> ModuleType:
    """Import a file as Python runs a script: its folder is where it finds its neighbours."""
    sys.path.insert(0, str(path.parent.resolve()))
    name = path.stem if path.stem not in sys.modules else f"mcp_trio_target_{path.stem}"
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None  # its name ends in .py
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module
