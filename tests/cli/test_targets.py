"""What may be written for a server, and what is said of anything else."""

import sys
from pathlib import Path

import click
import pytest

from mcp_trio import Server, StdioParameters
from mcp_trio.cli.targets import (
    NotLoaded,
    load_server,
    read_address,
    read_env,
    read_headers,
    read_target,
)


def test_a_command_is_run_as_it_is() -> None:
    """No shell and no parsing of ours gets between the words and the program."""
    target = read_target(None, ["npx", "-y", "a b"], {"KEY": "v"})
    assert target.name == "npx -y 'a b'"
    parameters = target.to_open(print)
    assert isinstance(parameters, StdioParameters)
    assert (parameters.command, parameters.args) == ("npx", ("-y", "a b"))
    assert parameters.env == {"KEY": "v"}


@pytest.mark.parametrize(
    "url", ["http://h/mcp", "https://h/mcp?key=secret", "ws://h", "unix:/a/socket", "tcp:h:1"]
)
def test_a_url_is_a_server_that_runs(url: str) -> None:
    """Nothing is started for it, and its query, which may be a secret, is not its name."""
    target = read_target(url, [], {})
    assert target.to_open(print) == url
    assert "secret" not in target.name
    with pytest.raises(click.UsageError, match="servers that are started"):
        read_target(url, [], {"KEY": "v"})


def test_headers_are_for_urls() -> None:
    """Both ways of writing a header, and no header where none is sent; values are not repeated."""
    target = read_target("https://h/mcp", [], {})
    words = ["Authorization: Bearer a:b", "X-Team=trio"]
    assert read_headers(words, target) == {"Authorization": "Bearer a:b", "X-Team": "trio"}
    assert read_headers([], read_target(None, [], {})) is None
    with pytest.raises(click.UsageError, match="write NAME: VALUE") as info:
        read_headers(["secret"], target)
    assert "secret" not in str(info.value)
    with pytest.raises(click.UsageError, match="for http, https, ws and wss URLs"):
        read_headers(words, read_target("unix:/a/socket", [], {}))


def test_addresses_to_serve_at() -> None:
    """A port alone is this computer's: to be reached from elsewhere has to be asked for."""
    assert read_address("8000") == ("127.0.0.1", 8000)
    assert read_address(":8000") == (None, 8000)
    assert read_address("[::1]:0") == ("::1", 0)
    for word in ("", "host", "host:", "host:x", "h:70000", ":-1"):
        with pytest.raises(click.UsageError, match="is no address"):
            read_address(word)


def test_nothing_is_the_demo(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first thing that anybody types works, and over real stdio."""
    monkeypatch.delenv("PYTHONPATH", raising=False)
    target = read_target(None, [], {})
    assert target.argv == [sys.executable, "-P", "-m", "mcp_trio", "serve", "demo"]
    assert target == read_target("demo", [], {})


def test_modules_are_found_where_python_would(monkeypatch: pytest.MonkeyPatch) -> None:
    """PYTHONPATH is no part of what servers inherit, but of what `module:server` means."""
    monkeypatch.setenv("PYTHONPATH", "/somewhere")
    assert read_target("mcp_trio.demo:server", [], {}).env == {"PYTHONPATH": "/somewhere"}


@pytest.mark.parametrize(
    ("word", "message"),
    [
        ("ftp://example.com/mcp", "a URL of a server starts with http, https, ws"),
        ("no/such/file.py:server", "there is no file 'no/such/file.py'"),
        ("no_such_module:server", "there is no module 'no_such_module'"),
        ("weather.py", "such as weather.py:server"),
        ("weather", "'weather' is no target"),
        ("", "'' is no target"),
        (":server", "':server' is no target"),
    ],
)
def test_what_is_no_target_is_named(word: str, message: str) -> None:
    """What cannot work is refused before anything is started."""
    with pytest.raises(click.UsageError, match=message):
        read_target(word, [], {})


def test_two_targets_are_one_too_many() -> None:
    """Neither is taken silently."""
    with pytest.raises(click.UsageError, match="Two targets"):
        read_target("demo", ["cat"], {})


def test_variables_are_named_or_given(monkeypatch: pytest.MonkeyPatch) -> None:
    """A secret need not stand on a command line that others can read."""
    monkeypatch.setenv("TOKEN", "t=1")
    monkeypatch.delenv("ABSENT", raising=False)
    assert read_env(["TOKEN", "A=b=c", "EMPTY="]) == {"TOKEN": "t=1", "A": "b=c", "EMPTY": ""}
    with pytest.raises(click.UsageError, match="ABSENT"):
        read_env(["ABSENT"])
    with pytest.raises(click.UsageError, match="the name is missing"):
        read_env(["=value"])


def test_a_file_finds_its_neighbours(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A server in a file is imported as Python runs a script, and its own errors are shown."""
    assert Server.__name__  # imported before: C extensions cannot be imported a second time
    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.setattr(sys, "modules", {**sys.modules})
    (tmp_path / "neighbour_of_it.py").write_text("NAME = 'found'")
    file = tmp_path / "some_server.py"
    file.write_text(
        "import mcp_trio, neighbour_of_it\n"
        "class Parts: server = mcp_trio.Server(neighbour_of_it.NAME)\n"
    )
    assert load_server(f"{file}:Parts.server").name == "found"
    with pytest.raises(NotLoaded, match="there is no 'other' in"):
        load_server(f"{file}:other")
    with pytest.raises(NotLoaded, match="object of type type"):
        load_server(f"{file}:Parts")
    file.write_text("1 / 0")
    with pytest.raises(NotLoaded, match="ZeroDivisionError: division by zero"):
        load_server(f"{file}:server")
    assert "1 / 0" in capsys.readouterr().err
