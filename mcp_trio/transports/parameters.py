"""What to run as a server, and how much of our own environment it gets.

A server is a stranger's program that runs with our rights. What it needs of our environment is
little: where programs are, where home is, who the user is. What it must not get by accident is
the rest, since that is where the keys to everything else live. So the environment is built up
from an allow-list, as sudo does, and never cut down from a copy: a list of what is forbidden is
always one token short. Whatever else a server needs, its configuration names.

One more filter is a scar. A value that starts with "()" was, to a bash of before 2014, a function
definition to be run (Shellshock), so such a value is not passed on either.
"""

from __future__ import annotations

import inspect
import os
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Literal

import attrs

POSIX_NAMES = ("HOME", "LOGNAME", "PATH", "SHELL", "TERM", "USER")
WINDOWS_NAMES = (
    "APPDATA",
    "HOMEDRIVE",
    "HOMEPATH",
    "LOCALAPPDATA",
    "PATH",
    "PATHEXT",
    "PROCESSOR_ARCHITECTURE",
    "PROGRAMFILES",
    "SYSTEMDRIVE",
    "SYSTEMROOT",
    "TEMP",
    "USERNAME",
    "USERPROFILE",
)
INHERITED_NAMES = WINDOWS_NAMES if sys.platform == "win32" else POSIX_NAMES
SHORTEST_SECRET = 6  # characters; hiding "1" or "debug" wherever it occurs would hide everything

#: What becomes of a server's stderr: one of the words, or a function called with each line.
StderrMode = Literal["inherit", "capture", "discard"] | Callable[[str], object]


def default_environment(environ: Mapping[str, str] = os.environ) -> dict[str, str]:
    """The part of `environ` that every server gets: the allow-listed names, PATH in any case."""
    inherited = {
        name: environ[name]
        for name in INHERITED_NAMES
        if name in environ and not environ[name].startswith("()")
    }
    inherited.setdefault("PATH", os.defpath)
    return inherited


def _text(what: str, value: object) -> str:
    """`value` as the system will take it, or an error that says which part it will not take."""
    if isinstance(value, os.PathLike):
        value = os.fspath(value)
    if not isinstance(value, str):
        raise TypeError(f"{what} must be a string, not {type(value).__name__}")
    if "\0" in value:
        raise ValueError(f"{what} contains a NUL character")
    try:
        os.fsencode(value)
    except UnicodeEncodeError:
        # From None: the cause would quote the text, which may be a secret.
        raise ValueError(f"{what} contains a character that cannot be encoded") from None
    return value


def _command(value: str | os.PathLike[str]) -> str:
    command = _text("command", value)
    if not command.strip():
        raise ValueError("command is empty: name the program to run")
    return command


def _args(values: Sequence[str | os.PathLike[str]]) -> tuple[str, ...]:
    if isinstance(values, (str, bytes)):
        raise TypeError(
            "args must be a sequence of strings, not one string: no shell will split it"
        )
    return tuple(_text(f"args[{index}]", value) for index, value in enumerate(values))


def _env(values: Mapping[str, str] | None) -> dict[str, str] | None:
    if values is None:
        return None
    checked = {}
    for name, value in values.items():
        name = _text("a name in env", name)
        if not name or "=" in name:
            raise ValueError(f"env has an impossible name: {name!r}")
        checked[name] = _text(f"env[{name!r}]", value)
    return checked


def _cwd(value: str | os.PathLike[str] | None) -> str | None:
    return None if value is None else _text("cwd", value)


def _names_only(env: Mapping[str, str] | None) -> str:
    return "None" if env is None else "{" + ", ".join(f"{name!r}: ***" for name in env) + "}"


def _grace(_instance: object, attribute: attrs.Attribute[float], value: float) -> None:
    if not 0 <= value < float("inf"):
        raise ValueError(f"{attribute.name} must be a finite number of seconds, not {value!r}")


def _mode(_instance: object, _attribute: object, value: object) -> None:
    if not callable(value) and value not in ("inherit", "capture", "discard"):
        raise ValueError(
            f'stderr must be "inherit", "capture", "discard" or a function, not {value!r}'
        )
    if inspect.iscoroutinefunction(value):
        raise ValueError(
            "stderr must be a plain function; open_client(on_stderr=...) takes a coroutine function"
        )


@attrs.frozen
class StdioParameters:
    """A server to run as a child process and to talk to over its stdin and stdout.

    No shell is involved: `args` reach the program as they are. The environment is
    `default_environment()` with `env` on top, and it decides the PATH on which `command` is
    looked up. Equal parameters are equal and can be keys of a dict; their repr leaves out the
    values of `env`.

    Args:
        command: The program: a path, or a name to be found on PATH.
        args: Its arguments.
        env: Variables on top of the default ones. Their values count as secrets: where the
            server repeats one on its stderr, `***` stands instead. (Exempt are values shorter
            than 6 characters, and the variables that would be inherited anyway.)
        cwd: The working directory; ours if None.
        stderr: "inherit" copies what the server writes to our own stderr; "capture" shows it to
            nobody; both keep the last of it for error messages. "discard" keeps nothing. A
            function is called with each line, without its line end, in the event loop: it must
            not block. Lines longer than 16 Ki characters come in pieces. What it raises is logged.
            With "inherit" too the server writes into a pipe and never to our terminal itself,
            since otherwise an error could not quote what it said.
        eof_grace: Seconds that the server has to exit by itself once its stdin is closed.
        term_grace: Seconds that it then has to obey SIGTERM before it is killed.

    Raises:
        ValueError: An empty command, or a NUL character, or text that cannot be encoded.
        TypeError: Something that is not a string.
    """

    command: str = attrs.field(converter=_command)
    args: tuple[str, ...] = attrs.field(default=(), converter=_args)
    env: Mapping[str, str] | None = attrs.field(
        default=None, converter=_env, repr=_names_only, hash=False
    )
    cwd: str | None = attrs.field(default=None, converter=_cwd)
    stderr: StderrMode = attrs.field(default="inherit", validator=_mode)
    eof_grace: float = attrs.field(default=2.0, kw_only=True, validator=_grace)
    term_grace: float = attrs.field(default=2.0, kw_only=True, validator=_grace)

    @classmethod
    def from_argv(cls, argv: Sequence[str | os.PathLike[str]], **options: Any) -> StdioParameters:
        """The same from one list, program first. `options` are the other parameters."""
        if isinstance(argv, (str, bytes)) or not argv:
            raise ValueError("argv must be a list that starts with the program to run")
        return cls(argv[0], argv[1:], **options)

    def environment(self) -> dict[str, str]:
        """The whole environment of the child: the default one with `env` on top."""
        env = self.env or {}
        if sys.platform == "win32":  # where Path and PATH are one variable
            env = {name.upper(): value for name, value in env.items()}
        return default_environment() | dict(env)

    def secrets(self) -> Iterable[str]:
        """What must not be repeated: the values of `env`, and each line of those with several."""
        for name, value in (self.env or {}).items():
            if name.upper() not in INHERITED_NAMES:
                for text in {value, *value.splitlines()}:
                    if len(text.strip()) >= SHORTEST_SECRET:
                        yield text
