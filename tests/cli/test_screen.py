"""What is shown while a command works."""

import pytest

from mcp_trio.cli.screen import Screen
from mcp_trio.protocol.types import LoggingMessageNotificationParams, ProgressNotificationParams


def test_reports_are_lines_where_there_is_no_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    """Logs of a script stay readable, and nothing of it is on stdout."""
    screen = Screen()
    screen.progress(ProgressNotificationParams("t", 1, 4, "a\x1b[2J quarter"))
    screen.progress(ProgressNotificationParams("t", 10**400))
    screen.log(LoggingMessageNotificationParams("info", {"a": [1]}, "me"))
    screen.log(LoggingMessageNotificationParams("error", "[red]no markup"))
    screen.noise(b"\xff\x1b[31mhello", "not JSON")
    out, err = capsys.readouterr()
    assert out == ""
    assert err.splitlines() == [
        "progress 1 of 4: a quarter",
        "progress 1e+15",
        '[info me] {"a":[1]}',
        "[error] [red]no markup",
        "no message: not JSON: \ufffdhello",
    ]


def test_a_program_that_is_no_server_is_not_shown_in_full(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """`mcp-trio inspect -- yes` ends in time, and its one line of error can still be found."""
    screen = Screen()
    for _ in range(1000):
        screen.noise(b"y", "not JSON")
    *shown, last = capsys.readouterr().err.splitlines()
    assert len(shown) == 20
    assert "not shown" in last


@pytest.mark.parametrize("verbose", [False, True])
def test_stderr_of_a_server_is_shown_when_asked_for(
    verbose: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    """A server's chatter is not the user's, unless it is wanted; its end is kept for errors."""
    screen = Screen(verbose=verbose)
    for number in range(100):
        screen.stderr_line(f"line {number}")
    assert len(capsys.readouterr().err.splitlines()) == (100 if verbose else 0)
    assert screen.stderr_tail[-1] == "line 99"
    assert len(screen.stderr_tail) < 100
