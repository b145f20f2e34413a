"""What a server is run with: checked values, an allow-listed environment, no secrets shown."""

import os
from pathlib import Path
from typing import Any

import pytest

from mcp_trio.transports.parameters import (
    POSIX_NAMES,
    WINDOWS_NAMES,
    StdioParameters,
    default_environment,
)


@pytest.mark.parametrize(
    ("arguments", "error", "says"),
    [
        ({"command": ""}, ValueError, "command is empty"),
        ({"command": "  "}, ValueError, "command is empty"),
        ({"command": "a\0b"}, ValueError, "command contains a NUL"),
        ({"command": 3}, TypeError, "command must be a string"),
        ({"command": "a", "args": "-x -y"}, TypeError, "not one string"),
        ({"command": "a", "args": ["ok", "a\0b"]}, ValueError, r"args\[1\]"),
        ({"command": "a", "args": [1]}, TypeError, r"args\[0\] must be a string"),
        ({"command": "a", "env": {"": "x"}}, ValueError, "impossible name"),
        ({"command": "a", "env": {"A=B": "x"}}, ValueError, "impossible name"),
        ({"command": "a", "env": {"A": 1}}, TypeError, r"env\['A'\] must be a string"),
        ({"command": "a", "cwd": "a\0"}, ValueError, "cwd contains a NUL"),
        ({"command": "a", "stderr": "loud"}, ValueError, "stderr must be"),
        ({"command": "a", "eof_grace": -1}, ValueError, "eof_grace"),
        ({"command": "a", "term_grace": float("inf")}, ValueError, "term_grace"),
    ],
)
def test_impossible_parameters(
    arguments: dict[str, Any], error: type[Exception], says: str
) -> None:
    """What cannot be run is refused where it is written, with the name of the faulty part."""
    with pytest.raises(error, match=says):
        StdioParameters(**arguments)


def test_errors_do_not_quote_a_secret() -> None:
    """A value of env that cannot be used does not appear in the error about it (I13)."""
    for value in ("hunter22\0", "hunter22\udc00\ud800"):
        with pytest.raises(ValueError, match="env") as info:
            StdioParameters("a", env={"KEY": value})
        assert "hunter22" not in str(info.value)
        assert info.value.__cause__ is None


def test_repr_hides_env_values() -> None:
    """Parameters can be logged: the names in env show, the values do not (I13)."""
    shown = repr(StdioParameters("server", ["-v"], env={"TOKEN": "hunter22"}))
    assert "TOKEN" in shown
    assert "hunter22" not in shown


def test_equal_parameters_are_one_key() -> None:
    """Parameters are values, so that what is known of a server can be kept by them."""
    one = StdioParameters("s", ["a"], env={"A": "b"}, cwd=Path("/tmp"))
    two = StdioParameters.from_argv(["s", "a"], env={"A": "b"}, cwd="/tmp")
    assert one == two
    assert len({one, two}) == 1


@pytest.mark.parametrize("argv", [[], "server -v", ""])
def test_from_argv_wants_a_list(argv: Any) -> None:
    """A command line in one string is refused, since nothing would split it."""
    with pytest.raises(ValueError, match="argv must be a list"):
        StdioParameters.from_argv(argv)


def test_environment_is_an_allow_list() -> None:
    """A server gets what it needs to run, and none of our secrets by accident (I13)."""
    environ = {name: f"v-{name}" for name in (*POSIX_NAMES, *WINDOWS_NAMES)}
    secrets = {"AWS_SECRET_ACCESS_KEY": "k", "SSH_AUTH_SOCK": "s", "PYTHONPATH": "p"}
    assert default_environment(environ | secrets) == {n: f"v-{n}" for n in POSIX_NAMES}


def test_shellshock_values_are_left_out() -> None:
    """A value that an old bash would take for a function definition is not passed on."""
    assert default_environment({"HOME": "() { :;}; evil", "USER": "me", "PATH": "/bin"}) == {
        "USER": "me",
        "PATH": "/bin",
    }


@pytest.mark.parametrize("environ", [{}, {"PATH": "() { :;}; evil"}])
def test_path_is_always_there(environ: dict[str, str]) -> None:
    """Without any PATH of ours a server still finds the programs of the system."""
    assert default_environment(environ) == {"PATH": os.defpath}


def test_env_goes_on_top(monkeypatch: pytest.MonkeyPatch) -> None:
    """What the caller names is added, and wins over what is inherited."""
    monkeypatch.setenv("HOME", "/ours")
    monkeypatch.setenv("OURS_ALONE", "1")
    environment = StdioParameters("s", env={"HOME": "/theirs", "KEY": "value"}).environment()
    assert environment["HOME"] == "/theirs"
    assert environment["KEY"] == "value"
    assert "OURS_ALONE" not in environment


def test_secrets() -> None:
    """Secrets are the values of env, line by line too, unless short or inherited anyway."""
    env = {"A": "hunter22", "B": "no", "HOME": "/home/me/here", "KEY": "first line\nsecond\nx"}
    assert set(StdioParameters("s", env=env).secrets()) == {
        "hunter22",
        "first line\nsecond\nx",
        "first line",
        "second",
    }


def test_a_coroutine_function_for_stderr_is_refused() -> None:
    """Its coroutines would never run, and the lines would be lost without a word."""

    async def tell(line: str) -> None:
        raise AssertionError(line)

    with pytest.raises(ValueError, match="plain function"):
        StdioParameters("server", stderr=tell)
