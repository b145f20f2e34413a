"""The commands of `mcp-trio`: thin, over the library.

What a command needs to do its work is imported when it runs, so that `--help` is quick.
"""

from collections.abc import Callable, Sequence
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from mcp_trio.cli.ending import TOOL_FAILED, write_stdout
from mcp_trio.cli.server_command import TARGETS, ServerCommand, number, one_target
from mcp_trio.cli.targets import (
    DEMO,
    URL,
    load_server,
    read_address,
    read_env,
    read_headers,
    read_target,
)
from mcp_trio.cli.untrusted import json_text
from mcp_trio.cli.words import prompt_arguments, tool_arguments
from mcp_trio.protocol.revisions import REVISIONS

if TYPE_CHECKING:
    from mcp_trio.cli.link import Link
    from mcp_trio.server.app import Server

ELSEWHERE = {"check": "mcp_trio.cli.checking", "fuzz": "mcp_trio.cli.fuzzing"}
MODES = ("auto", "modern", "legacy", *REVISIONS)
STATUS = """
\b
Exit status: 0 fine, 1 the tool failed, 2 usage, 3 no connection or a protocol error.
"""


def _root(_ctx: click.Context, _parameter: click.Parameter, words: tuple[str, ...]) -> list[str]:
    return [word if URL.match(word) else Path(word).resolve().as_uri() for word in words]


CONNECTION_OPTIONS = (
    click.option("--target", "-t", metavar="TARGET", help="The server, if not after --."),
    click.option(
        "--mode",
        type=click.Choice(MODES),
        default="auto",
        show_default=True,
        help="The era of the protocol to insist on, or one revision.",
    ),
    click.option(
        "--timeout",
        type=click.FloatRange(min=0, min_open=True),
        callback=number,
        metavar="SECONDS",
        help="For connecting (30 by default), and for each request (none by default); "
        "progress extends it.",
    ),
    click.option(
        "--env",
        "-e",
        multiple=True,
        metavar="NAME[=VALUE]",
        help="A variable that the server gets; it inherits HOME, PATH and a few others.",
    ),
    click.option(
        "--header",
        "-H",
        multiple=True,
        metavar="'NAME: VALUE'",
        help="An HTTP header for the server at a URL.",
    ),
    click.option(
        "--root",
        "roots",
        multiple=True,
        callback=_root,
        metavar="PATH",
        help="A folder that the server may know to be ours.",
    ),
    click.option("--verbose", "-v", is_flag=True, help="Show the server's stderr."),
    click.option("--json", "as_json", is_flag=True, help="Print one JSON document, nothing else."),
)


def connection_options(command: Callable[..., None]) -> Callable[..., None]:
    for option in reversed(CONNECTION_OPTIONS):
        command = option(command)
    return command


def make_link(options: dict[str, Any], *, logs: bool) -> "Link":
    """The connection that the options ask for."""
    from mcp_trio.cli.link import Link
    from mcp_trio.cli.screen import Screen

    command = click.get_current_context().obj or ()
    target = read_target(options["target"], command, read_env(options["env"]))
    return Link(
        target=target,
        headers=read_headers(options["header"], target),
        mode=options["mode"],
        timeout=options["timeout"],
        roots=options["roots"],
        logs=logs,
        screen=Screen(verbose=options["verbose"]),
    )


def print_result(as_json: bool, wire: Any, show: str, result: object) -> None:
    """Print what came out, for programs or for people."""
    if as_json:
        write_stdout(json_text(wire) + "\n", "utf-8")
        return
    from mcp_trio.cli import show as shows

    write_stdout(shows.rendered(getattr(shows, show), result))


def served(word: str | None, *, mode: str, env: Sequence[str], header: Sequence[str]) -> "Server":
    """What `serve` serves: a `Server` object, or a proxy of one that is somewhere else."""
    command = click.get_current_context().obj or ()
    if not command and (word is None or not URL.match(word)):
        if env or header or mode != "auto":
            text = "--env, --header and --mode are for a URL and for -- COMMAND ARGS..."
            raise click.UsageError(text)
        return load_server(word or DEMO)
    from mcp_trio.proxy.app import Proxy

    target = read_target(word, command, read_env(env))
    return Proxy(target.to_open("inherit"), mode=mode, headers=read_headers(header, target))


class Commands(click.Group):
    """The commands here, and those that have a module of their own, which wait until needed."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted([*super().list_commands(ctx), *ELSEWHERE])

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in ELSEWHERE:
            return super().get_command(ctx, cmd_name)
        found: click.Command = getattr(import_module(ELSEWHERE[cmd_name]), cmd_name)
        return found


@click.group(cls=Commands, context_settings={"help_option_names": ["-h", "--help"]}, epilog=STATUS)
@click.version_option(package_name="mcp-trio", prog_name="mcp-trio")
def cli() -> None:
    """Talk to servers of the Model Context Protocol, test them, or be one.

    \b
    mcp-trio check                                     test the demo server on every transport
    mcp-trio check -- npx -y some-server               what is wrong with a server of others
    mcp-trio fuzz -- npx -y some-server                and what it cannot bear
    mcp-trio inspect                                   what the demo server has
    mcp-trio call add a=1 b=2                          call one of its tools
    mcp-trio inspect --json -- npx -y some-server      the same for any server
    mcp-trio call add a=1 b=2 --target weather.py:server
    """


@cli.command(cls=ServerCommand, epilog=TARGETS + STATUS)
@click.argument("target_word", metavar="[TARGET]", required=False)
@connection_options
def inspect(target_word: str | None, as_json: bool, **options: Any) -> None:
    """Show what a server has: tools, resources, templates, prompts."""
    from mcp_trio.cli.inspection import inspect_server

    options["target"] = one_target(target_word, options["target"])
    found = make_link(options, logs=False).run(inspect_server)
    print_result(as_json, found.to_wire(), "inspection", found)


@cli.command(cls=ServerCommand, epilog=TARGETS + STATUS)
@click.argument("name")
@click.argument("arguments", nargs=-1, metavar="[KEY=VALUE...|JSON]")
@connection_options
def call(name: str, arguments: tuple[str, ...], as_json: bool, **options: Any) -> None:
    """Call the tool NAME.

    The arguments are KEY=VALUE words, each value JSON if it can be read as such and else a string,
    or one JSON object. Questions of the server are asked on the terminal; without one they are
    declined.
    """
    from mcp_trio.client.client import Client
    from mcp_trio.protocol.convert import unstructure
    from mcp_trio.protocol.types import CallToolResult

    given = tool_arguments(arguments)
    link = make_link(options, logs=True)

    async def work(client: Client) -> CallToolResult:
        return await client.call_tool(name, given, on_progress=link.screen.progress)

    result = link.run(work)
    print_result(as_json, unstructure(result), "tool_result", result)
    if result.is_error:
        click.get_current_context().exit(TOOL_FAILED)


@cli.command(cls=ServerCommand, epilog=TARGETS + STATUS)
@click.argument("uri")
@connection_options
def read(uri: str, as_json: bool, **options: Any) -> None:
    """Read the resource URI."""
    from mcp_trio.client.client import Client
    from mcp_trio.protocol.convert import unstructure
    from mcp_trio.protocol.types import ReadResourceResult

    link = make_link(options, logs=True)

    async def work(client: Client) -> ReadResourceResult:
        return await client.read_resource(uri, on_progress=link.screen.progress)

    result = link.run(work)
    print_result(as_json, unstructure(result), "contents", result)


@cli.command(cls=ServerCommand, epilog=TARGETS + STATUS)
@click.argument("name")
@click.argument("arguments", nargs=-1, metavar="[KEY=VALUE...]")
@connection_options
def prompt(name: str, arguments: tuple[str, ...], as_json: bool, **options: Any) -> None:
    """Get the messages of the prompt NAME."""
    from mcp_trio.client.client import Client
    from mcp_trio.protocol.convert import unstructure
    from mcp_trio.protocol.types import GetPromptResult

    given = prompt_arguments(arguments)
    link = make_link(options, logs=True)

    async def work(client: Client) -> GetPromptResult:
        return await client.get_prompt(name, given, on_progress=link.screen.progress)

    result = link.run(work)
    print_result(as_json, unstructure(result), "messages", result)


@cli.command(cls=ServerCommand)
@click.argument("target", required=False)
@click.option("--http", metavar="HOST:PORT", help="Serve over HTTP, at /mcp.")
@click.option("--sse", is_flag=True, help="With --http: clients of 2024-11-05 too, at /sse.")
@click.option(
    "--host",
    "hosts",
    multiple=True,
    metavar="NAME",
    help="With --http: a name by which clients reach this besides localhost; '*' for any.",
)
@click.option("--websocket", metavar="HOST:PORT", help="Serve over WebSocket.")
@click.option("--unix", metavar="PATH", help="Serve at a Unix socket, with the framing of stdio.")
@click.option(
    "--mode",
    type=click.Choice(MODES),
    default="auto",
    help="For a URL or COMMAND: the era to speak to it; by default its client's.",
)
@click.option(
    "--env", "-e", multiple=True, metavar="NAME[=VALUE]", help="A variable that COMMAND gets."
)
@click.option(
    "--header", "-H", multiple=True, metavar="'NAME: VALUE'", help="An HTTP header for the URL."
)
def serve(
    target: str | None,
    http: str | None,
    sse: bool,
    hosts: tuple[str, ...],
    websocket: str | None,
    unix: str | None,
    **behind: Any,
) -> None:
    """Serve TARGET: over standard input and output, or wherever the options say.

    \b
    TARGET is one of
      demo             the bundled demo server; also if there is no TARGET
      module:server    a Server object in a Python module
      path.py:server   a Server object in a Python file
      URL              a server that runs, to be served again: stdio to HTTP, and back
      -- COMMAND ARGS  the same for a server to start, one for each client that has a session

    HOST:PORT without HOST, as :8000, listens at all addresses; a PORT alone at this computer's. At
    all addresses, --host says by which names or addresses requests may come, as a defence against
    web pages that talk to servers of their visitors.
    """
    if http is None and (sse or hosts):
        raise click.UsageError(f"{'--sse' if sse else '--host'} goes with --http.")
    if http is None and websocket is None and unix is None:
        served(target, **behind).run()
        return
    from mcp_trio.cli.serving import Places, serve_at

    places = Places(
        http=None if http is None else read_address(http),
        sse_path="/sse" if sse else None,
        hosts=hosts,
        websocket=None if websocket is None else read_address(websocket),
        unix=unix,
    )
    serve_at(served(target, **behind), places)
