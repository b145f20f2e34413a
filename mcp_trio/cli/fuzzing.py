"""`mcp-trio fuzz`: what a server or a client does with what nobody thought of sending."""

import secrets
import shlex
import sys
import time
import warnings
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Self

import attrs
import click

from mcp_trio.cli.ending import Failed
from mcp_trio.cli.server_command import (
    TARGETS,
    ServerCommand,
    harness_target,
    number,
    one_target,
    report_options,
)
from mcp_trio.protocol.revisions import REVISIONS

if TYPE_CHECKING:
    from rich.progress import Progress as Bar
    from rich.progress import TaskID

    from mcp_trio.cli.ending import Stopped
    from mcp_trio.harness.fuzzing.campaign import Plan, Progress
    from mcp_trio.harness.fuzzing.files import Replay
    from mcp_trio.harness.handover import ClientTarget, Way
    from mcp_trio.harness.model import Report, Role, Transport
    from mcp_trio.harness.targets import ServerTarget

BROKEN: Final = 1
FOLDER: Final = ".mcp-trio-fuzz"
SECONDS: Final = 60.0
SHOWN_EVERY: Final = 0.2  # seconds from one picture to the next
LAYERS: Final = (
    "bytes",
    "json",
    "jsonrpc",
    "protocol",
    "arguments",
    "headers",
    "sequences",
    "chaos",
    "bulk",
)
NOTES: Final = """
\b
Layers: bytes (splits, line ends, noise), json (oddities), jsonrpc (envelopes, ids, batches),
protocol (methods, versions, _meta, order), arguments (from each tool's schema), headers (HTTP),
sequences (conversations by the rules), chaos (stalls, floods, cuts, signals), bulk (very many
messages at little cost).

\b
A server's tools are called only if they are marked as read-only, and the mark is only the server's
word; see --allow-writes. What stays the same in each run with one --seed are the cases; what a
server makes of them may depend on time.
"""
STATUS: Final = """
\b
Exit status: 0 fine, 1 a MUST is broken (with --strict a SHOULD) or the replayed fault is still
there, 2 usage, 3 no connection.
"""


@click.command(cls=ServerCommand, epilog=NOTES + TARGETS + STATUS)
@harness_target
@click.option(
    "--role",
    type=click.Choice(["server", "client"]),
    default="server",
    show_default=True,
    help="What the target is. A client is a command after --.",
)
@click.option(
    "--transport",
    type=click.Choice(["stdio", "http", "sse"]),
    help="For a client: what to reach the harness over; stdio by default.",
)
@click.option(
    "--hand-over",
    "--via",
    "way",
    type=click.Choice(["argument", "environment", "file"]),
    help="For a client: how it is told where its server is, as for check; argument by default.",
)
@click.option(
    "--layer",
    "layers",
    multiple=True,
    type=click.Choice(LAYERS),
    help="What to send; several are possible, all by default.",
)
@click.option(
    "--seconds",
    type=click.FloatRange(min=0, min_open=True),
    callback=number,
    help=f"How long; {SECONDS:g} by default, unless --examples is given.",
)
@click.option(
    "--examples",
    type=click.IntRange(min=1),
    metavar="N",
    help="How many cases of each layer and revision.",
)
@click.option("--seed", type=int, metavar="N", help="Where chance starts; the report names it.")
@click.option(
    "--revision",
    "revisions",
    multiple=True,
    type=click.Choice(REVISIONS),
    help="Speak this revision; several are possible. By default the newest of each era that the "
    "server speaks.",
)
@click.option(
    "--deadline",
    type=click.FloatRange(min=0, min_open=True),
    callback=number,
    default=5.0,
    show_default=True,
    metavar="SECONDS",
    help="How long any one answer may take.",
)
@click.option(
    "--allow-writes",
    is_flag=True,
    help="Call tools that are not marked as read-only, too. They may change the world.",
)
@click.option(
    "--database",
    metavar="PATH|redis://...",
    help="Where examples are kept that found something, for other runs to begin with. With Redis "
    "many machines can share one campaign.",
)
@click.option(
    "--output",
    type=click.Path(path_type=Path, file_okay=False),
    default=Path(FOLDER),
    show_default=True,
    metavar="DIR",
    help="Where replay files go.",
)
@click.option(
    "--replay",
    type=click.Path(path_type=Path, exists=True, dir_okay=False),
    metavar="FILE",
    help="Play a finding again, to its target or another, and do nothing else.",
)
@click.option(
    "--jobs",
    "-j",
    type=click.IntRange(min=1),
    default=2,
    show_default=True,
    metavar="N",
    help="How many connections are played to at a time.",
)
@click.option("--strict", is_flag=True, help="A broken SHOULD counts like a broken MUST.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document, nothing else.")
@report_options
def fuzz(
    target_word: str | None,
    target: str | None,
    role: str,
    transport: "Transport | None",
    way: "Way | None",
    replay: Path | None,
    strict: bool,
    as_json: bool,
    junit: Path | None,
    html: Path | None,
    **options: Any,
) -> None:
    """Send a server, or a client, what it does not expect, and judge how it bears that.

    Every finding is shown again before it is reported, made as small as possible, and written to a
    file that shows it again.

    \b
    mcp-trio fuzz                                              the demo server, for a minute
    mcp-trio fuzz --seconds 3600 -- npx -y some-server         a server that is started
    mcp-trio fuzz --layer headers https://example.com/mcp      one that runs
    mcp-trio fuzz --role client -- my-client {command}         a client
    mcp-trio fuzz --replay FILE                                a finding, once more
    """
    command = tuple(click.get_current_context().obj or ())
    where = _Where(
        one_target(target_word, target),
        command,
        env=options.pop("env"),
        header=options.pop("header"),
        sse=options.pop("sse"),
        client=role == "client",
        transport=transport,
        way=way,
    )
    if replay is not None:
        _replay(replay, where, as_json=as_json)
        return
    from mcp_trio.cli.checking import show_reports, write_reports

    warnings.filterwarnings("ignore", "Generating overly large repr")  # of Hypothesis, about a case
    report, stopped = _fuzz(where, **options)
    if stopped is None and not report.findings and dict(report.facts).get("cases") == "0":
        raise Failed("no case was played: starting took all the time. Raise --seconds")
    show_reports([report], as_json=as_json)
    write_reports([report], junit, html, strict=strict)
    if stopped is not None:
        raise stopped
    if report.is_bad(strict=strict):
        click.get_current_context().exit(BROKEN)


@attrs.frozen
class _Where:
    """What a command line says of a target."""

    word: str | None
    command: tuple[str, ...]
    env: Sequence[str] = ()
    header: Sequence[str] = ()
    sse: bool = False
    client: bool = False
    transport: "Transport | None" = None
    way: "Way | None" = None

    @property
    def named(self) -> bool:
        return self.word is not None or bool(self.command)

    def server(self) -> "ServerTarget":
        """The server.

        Raises:
            click.UsageError: It is none, or the options do not fit it.
        """
        from mcp_trio.cli.targets import read_env, read_headers, read_target
        from mcp_trio.harness.targets import command_target, url_target
        from mcp_trio.transports.parameters import StdioParameters

        if self.transport or self.way:
            raise click.UsageError("--transport and --hand-over are for clients.")
        target = read_target(self.word, self.command, read_env(self.env))
        headers = read_headers(self.header, target)
        if target.url is not None:
            return url_target(target.url, headers=headers, sse=self.sse)
        if self.sse:
            raise click.UsageError("--sse is for http and https URLs.")
        parameters = StdioParameters(target.argv[0], target.argv[1:], env=target.env)
        words = None if self.command else shlex.quote(target.name)
        return command_target(parameters, target.name, words)

    def program(self) -> "ClientTarget":
        """The client; the bundled one if there is no other.

        Raises:
            click.UsageError: It is none, or the options do not fit it.
        """
        from mcp_trio.harness.handover import WAYS, program_target

        if self.word is not None:
            raise click.UsageError(f"A client is started: write -- COMMAND, not {self.word!r}.")
        if self.env or self.header or self.sse:
            raise click.UsageError("--env, --header and --sse are for servers.")
        command = self.command or (sys.executable, "-m", "mcp_trio.harness.demo_client")
        return program_target(command, transport=self.transport or "stdio", way=self.way or WAYS[0])


# Fuzzing


def _fuzz(
    where: _Where, *, deadline: float, allow_writes: bool, **options: Any
) -> "tuple[Report, Stopped | None]":
    """The report; with the signal that came first, if one did and there are findings already."""
    from mcp_trio.cli.check_run import explained, quiet
    from mcp_trio.cli.ending import Stopped, run_until_signal
    from mcp_trio.harness.fuzzing.campaign import fuzz_server
    from mcp_trio.harness.fuzzing.client_campaign import fuzz_client
    from mcp_trio.harness.model import Finding, NotApplicable, Report
    from mcp_trio.harness.probe import Options

    plan = _plan(**options)
    limits = Options(deadline=deadline, allow_writes=allow_writes)
    run: Callable[..., Awaitable[Report]]
    if where.client:
        if options["layers"] or options["database"] is not None:
            raise click.UsageError("--layer and --database are for servers.")
        client = where.program()
        name, run = client.name, partial(fuzz_client, client)
    else:
        server = where.server()
        name, run = server.name, partial(fuzz_server, server)
    found: list[Finding] = []
    with _Live() as live, quiet(), explained(name):
        run = partial(run, options=limits, on_progress=live.progress, on_finding=found.append)
        try:
            return run_until_signal(partial(run, plan)), None
        except Stopped as exc:
            if not found:
                raise
            facts = (("seed", str(plan.seed)), ("ended early", "by a signal"))
            role: Role = "client" if where.client else "server"
            return Report(name, "fuzz", role, (), tuple(found), facts), exc
        except NotApplicable as exc:
            raise click.UsageError(f"Nothing to send: {exc.message}.") from None


def _plan(
    *,
    layers: Sequence[str],
    seconds: float | None,
    examples: int | None,
    seed: int | None,
    revisions: Sequence[str],
    database: str | None,
    output: Path,
    jobs: int,
) -> "Plan":
    from mcp_trio.harness.fuzzing.campaign import Plan
    from mcp_trio.harness.fuzzing.databases import NoDatabase, open_database

    if seconds is None and examples is None:
        seconds = SECONDS
    try:
        found = None if database is None else open_database(database)
    except NoDatabase as exc:
        raise click.UsageError(f"{exc}.") from None
    return Plan(
        layers=tuple(layers or LAYERS),
        seconds=seconds,
        examples=examples,
        seed=secrets.randbits(32) if seed is None else seed,
        revisions=tuple(revisions) or None,
        database=found,
        output=output,
        jobs=jobs,
    )


class _Live:
    """Live counts on a terminal's stderr; nothing where there is none."""

    def __init__(self) -> None:
        self._bar: tuple[Bar, TaskID] | None = None
        self._shown = 0.0

    def __enter__(self) -> Self:
        from rich.console import Console
        from rich.progress import Progress as Bar
        from rich.progress import SpinnerColumn, TextColumn

        console = Console(stderr=True, markup=False, highlight=False, emoji=False)
        if console.is_terminal:
            text = TextColumn("{task.description}", markup=False)
            # No refreshing by itself: that would take a thread.
            bar = Bar(SpinnerColumn(), text, console=console, auto_refresh=False, transient=True)
            bar.start()
            self._bar = bar, bar.add_task("starting", total=None)
            bar.refresh()
        return self

    def __exit__(self, *_: object) -> None:
        if self._bar is not None:
            self._bar[0].stop()

    def progress(self, progress: "Progress") -> None:
        """One more case was played."""
        now = time.monotonic()
        if self._bar is None or now - self._shown < SHOWN_EVERY:
            return
        self._shown = now
        bar, task = self._bar
        rate = progress.messages / max(progress.seconds, 0.001)
        text = (
            f"{progress.seconds:.0f} s, {progress.cases} cases, {progress.messages} messages "
            f"({rate:.0f}/s), {progress.findings} findings, {progress.unconfirmed} unconfirmed: "
            f"{progress.layer} in {progress.revision}"
        )
        bar.update(task, description=text)
        bar.refresh()


# Replaying


def _replay(path: Path, where: _Where, *, as_json: bool) -> None:
    from mcp_trio.harness.fuzzing.files import NoReplay, read_replay

    try:
        replay = read_replay(path)
    except NoReplay as exc:
        raise click.UsageError(f"{exc}.") from None
    if not where.named:
        where = _from_words(replay, where)
    message = _play(where, replay)
    _say(replay, message, as_json=as_json)
    if message is not None:
        click.get_current_context().exit(BROKEN)


def _from_words(replay: "Replay", where: _Where) -> _Where:
    """The target that a replay file names, in the words of the command line that made it."""
    words = shlex.split(replay.target)
    options, command = words, []
    if "--" in words:
        cut = words.index("--")
        options, command = words[:cut], words[cut + 1 :]
    given: dict[str, Any] = dict(pairwise(options))
    if "--header" in options and not where.header:
        raise click.UsageError("The target needs headers: give them with --header, and its URL.")
    return attrs.evolve(
        where,
        word=None if command else options[0],
        command=tuple(command),
        env=where.env or tuple(value for name, value in pairwise(options) if name == "-e"),
        sse="--sse" in options,
        transport=where.transport or given.get("--transport"),
        way=where.way or given.get("--hand-over"),
    )


def _play(where: _Where, replay: "Replay") -> str | None:
    """What is seen when a finding is played again; None if it does not show itself."""
    from mcp_trio.cli.check_run import explained, quiet
    from mcp_trio.cli.ending import run_until_signal
    from mcp_trio.harness.fuzzing.client_campaign import replay_client_finding
    from mcp_trio.harness.fuzzing.replaying import replay_finding
    from mcp_trio.harness.fuzzing.subject import TargetGone

    async def play() -> str | None:
        if replay.role == "client":
            return await replay_client_finding(where.program(), replay)
        return (await replay_finding(where.server(), replay)).message

    name = where.word or shlex.join(where.command) or "demo"
    with quiet(), explained(name):
        try:
            return run_until_signal(play)
        except TargetGone as exc:
            raise Failed(f"no connection to {name}: {exc}") from exc


def _say(replay: "Replay", message: str | None, *, as_json: bool) -> None:
    from mcp_trio.cli.checking import print_json, print_text
    from mcp_trio.cli.untrusted import one_line

    if as_json:
        print_json(
            {
                "oracle": replay.oracle,
                "level": replay.level,
                "revision": replay.revision,
                "stillThere": message is not None,
                "message": message,
            }
        )
    elif message is None:
        print_text(f"{replay.oracle}: it does not happen any more.\n")
    else:
        print_text(f"{replay.oracle}: it still happens: {one_line(message)}\n")
