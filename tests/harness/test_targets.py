"""Targets: how they are named in replay lines."""

from mcp_trio.harness.targets import command_target
from mcp_trio.transports.parameters import StdioParameters


def test_a_replay_line_names_the_variables_of_a_server_and_not_their_values() -> None:
    """Without its variables a server may do harm elsewhere; with their values, a secret is told."""
    parameters = StdioParameters(
        "my-server", ["--fast", "a b"], env={"API_KEY": "secret", "X": "1"}
    )
    words = command_target(parameters).words
    assert words == "-e API_KEY -e X -- my-server --fast 'a b'"


def test_a_command_is_named_as_a_shell_reads_it() -> None:
    """So that the line can be pasted."""
    assert command_target(["my server", "$HOME"]).words == "-- 'my server' '$HOME'"
