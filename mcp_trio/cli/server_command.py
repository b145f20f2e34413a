"""What commands that are about a server have in common on the command line."""

import math
from collections.abc import Callable
from pathlib import Path

import click

TARGETS = """
\b
TARGET is one of
  -- COMMAND ARGS...   a server to start, at the end of the line
  URL                  one that runs: http, https, ws, wss, unix:PATH, tcp:HOST:PORT
  module:server        a Server object in a Python module
  path.py:server       a Server object in a Python file
  demo                 the bundled demo server; also if there is no TARGET
"""


class ServerCommand(click.Command):
    """A command that may end in `-- COMMAND ARGS...`, which click must not look into."""

    allow_extra_args = True  # click lets them pass, and `parse_args` says where they belong

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        if "--" in args:
            cut = args.index("--")
            args, ctx.obj = args[:cut], args[cut + 1 :]
            if not ctx.obj:
                raise click.UsageError("There is no command after --.", ctx)
        left = super().parse_args(ctx, args)
        if left:
            words = " ".join(left)
            raise click.UsageError(f"Too many words: {words!r}. A command stands after --.", ctx)
        return left

    def collect_usage_pieces(self, ctx: click.Context) -> list[str]:
        return [*super().collect_usage_pieces(ctx), "[-- COMMAND ARGS...]"]


def number(_ctx: click.Context, _parameter: click.Parameter, value: float | None) -> float | None:
    """Refuse nan, which passes every comparison."""
    if value is not None and math.isnan(value):
        raise click.BadParameter("nan is no number.")
    return value


def one_target(word: str | None, option: str | None) -> str | None:
    """The target, which may stand by itself or after --target, but not both.

    Raises:
        click.UsageError: There are two.
    """
    if word is not None and option is not None:
        raise click.UsageError(f"Two targets: {word!r} and {option!r}.")
    return option if word is None else word


def file_to_write(
    _ctx: click.Context, _parameter: click.Parameter, value: str | None
) -> Path | None:
    """A file to write when the work is done; if it cannot be, that is said before."""
    if value is None:
        return None
    path = Path(value)
    if not path.parent.is_dir():
        raise click.BadParameter(f"there is no folder {str(path.parent)!r}.")
    if path.is_dir():
        raise click.BadParameter(f"{value!r} is a folder.")
    return path


def report_options(command: Callable[..., None]) -> Callable[..., None]:
    """Reports for others than who runs the command: build servers, maintainers."""
    for name, what in (("--html", "a page for people"), ("--junit", "JUnit XML")):
        option = click.option(name, callback=file_to_write, metavar="FILE", help=f"Write {what}.")
        command = option(command)
    return command


HARNESS_TARGET = (
    click.argument("target_word", metavar="[TARGET]", required=False),
    click.option("--target", "-t", metavar="TARGET", help="The server, if not after --."),
    click.option(
        "--env",
        "-e",
        multiple=True,
        metavar="NAME[=VALUE]",
        help="A variable that a server gets that is started.",
    ),
    click.option(
        "--header",
        "-H",
        multiple=True,
        metavar="'NAME: VALUE'",
        help="An HTTP header for the server at a URL.",
    ),
    click.option(
        "--sse", is_flag=True, help="The URL is the event stream of HTTP+SSE (2024-11-05)."
    ),
)


def harness_target(command: Callable[..., None]) -> Callable[..., None]:
    """What `check` and `fuzz` ask of the target that they are pointed at."""
    for option in reversed(HARNESS_TARGET):
        command = option(command)
    return command
