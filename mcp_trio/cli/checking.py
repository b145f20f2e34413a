"""`mcp-trio check`: what a server or a client does that the specification does not allow."""

from collections.abc import Iterable, Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

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
    from rich.console import Console

    from mcp_trio.harness.model import Check, Report, Role

BROKEN = 1
STATUS = """
\b
Exit status: 0 fine, 1 a MUST is broken (with --strict a SHOULD), 2 usage, 3 no connection.
"""
EXAMPLES = """
\b
Without a target, the demo server is checked on every transport.
A server's tools are called only if they are marked as read-only, and the mark is only the server's
word; see --allow-writes.
"""
WIDE = 120  # columns where no terminal says how many it has
WIDEST = 200  # for the table of requirements, which is for `grep` then


@click.command(cls=ServerCommand, epilog=EXAMPLES + TARGETS + STATUS)
@harness_target
@click.option(
    "--only", multiple=True, metavar="CHECK", help="Run this check; may be given several times."
)
@click.option(
    "--area",
    "areas",
    multiple=True,
    metavar="AREA",
    help="Run the checks of this area, such as tools or lifecycle; several are possible.",
)
@click.option(
    "--revision",
    "revisions",
    multiple=True,
    type=click.Choice([*REVISIONS, "all"]),
    help="Speak this revision; several are possible. By default the newest of each era that the "
    "target speaks.",
)
@click.option(
    "--role", type=click.Choice(["server", "client"]), help="What the target is; server by default."
)
@click.option(
    "--transport",
    "transports",
    multiple=True,
    metavar="NAME",
    help="For a client: what to reach the harness over (stdio by default, http, sse). For the demo "
    "server: only this transport.",
)
@click.option(
    "--hand-over",
    "--via",
    "way",
    type=click.Choice(["argument", "environment", "file"]),
    help="For a client: how it is told where its server is: argument (the default; in place of "
    "{command} or {url}, or at the end), environment (MCP_SERVER_COMMAND or MCP_SERVER_URL), file "
    "(.mcp.json in a new folder, where it runs: name it by its absolute path).",
)
@click.option(
    "--deadline",
    "--timeout",
    type=click.FloatRange(min=0, min_open=True),
    callback=number,
    default=5.0,
    show_default=True,
    metavar="SECONDS",
    help="How long any one answer may take; more for a slow server or a busy machine.",
)
@click.option(
    "--allow-writes",
    is_flag=True,
    help="Call tools that are not marked as read-only, too. They may change the world.",
)
@click.option("--strict", is_flag=True, help="A broken SHOULD counts like a broken MUST.")
@click.option(
    "--jobs",
    "-j",
    type=click.IntRange(min=1),
    metavar="N",
    help="How many checks run at a time; 4 by default.",
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document, nothing else.")
@report_options
@click.option("--list", "list_checks", is_flag=True, help="List the checks, and run none.")
@click.option(
    "--requirements",
    "list_requirements",
    is_flag=True,
    help="List what the specification asks for and which checks test it, and run none.",
)
def check(
    target_word: str | None,
    only: Sequence[str],
    areas: Sequence[str],
    role: "Role | None",
    list_checks: bool,
    list_requirements: bool,
    as_json: bool,
    strict: bool,
    junit: Path | None,
    html: Path | None,
    **options: Any,
) -> None:
    """Check a server or a client against the specification.

    Every check says what a good peer does, and is about sentences of the specification. What fails
    is reported with the sentence, a link to it, what went over the wire (--html), and a command
    that shows it again.

    \b
    mcp-trio check                                        the demo server, on every transport
    mcp-trio check -- npx -y some-server                  a server that is started
    mcp-trio check https://example.com/mcp                one that runs
    mcp-trio check --role client -- my-client {command}   a client
    """
    if list_checks or list_requirements:
        show = _show_requirements if list_requirements else _show_checks
        show(choose(role, only, areas), as_json=as_json)
        return
    from mcp_trio.cli.check_run import Interrupted, Order

    playing: Role = role or "server"
    command = tuple(click.get_current_context().obj or ())
    order = Order(
        checks=choose(playing, only, areas),
        role=playing,
        target=one_target(target_word, options.pop("target")),
        command=command,
        **options,
    )
    stopped: Interrupted | None = None
    try:
        reports = order.run()
    except Interrupted as exc:
        reports, stopped = exc.reports, exc
    # What is shown goes first: a file that cannot be written shall not hide it.
    show_reports(reports, as_json=as_json)
    write_reports(reports, junit, html, strict=strict)
    if stopped is not None:
        raise stopped
    if any(report.is_bad(strict=strict) for report in reports):
        click.get_current_context().exit(BROKEN)


# Which checks


def choose(role: str | None, only: Sequence[str], areas: Sequence[str]) -> "tuple[Check, ...]":
    """The checks that a command line asks for.

    Raises:
        click.UsageError: It names one that there is not.
    """
    from mcp_trio.harness.checks import load_checks
    from mcp_trio.harness.reports.counts import areas_of

    every = [check for check in load_checks() if role in (None, check.role)]
    _known("check", only, {check.id for check in every}, role)
    _known("area", areas, {area for check in every for area in areas_of(check)}, role)
    return tuple(
        check
        for check in every
        if (not only or check.id in only) and (not areas or areas_of(check) & set(areas))
    )


def _known(kind: str, words: Iterable[str], known: set[str], role: str | None) -> None:
    for word in words:
        if word not in known:
            near = ", ".join(get_close_matches(word, known)) or "mcp-trio check --list has them all"
            of = f" of the {role} role" if role else ""
            raise click.UsageError(f"There is no {kind} {word!r}{of}: {near}.")


# What is printed


def show_reports(reports: "Sequence[Report]", *, as_json: bool) -> None:
    if as_json:
        from mcp_trio.harness.reports.json import to_json

        print_json(to_json(reports))
        return
    from mcp_trio.harness.reports.terminal import print_reports

    console, text = paper()
    print_reports(console, reports)
    print_text(text())


def _show_checks(checks: "Sequence[Check]", *, as_json: bool) -> None:
    if as_json:
        from mcp_trio.harness.reports.json import checks_to_json

        print_json({"checks": checks_to_json(checks)})
        return
    from mcp_trio.harness.reports.terminal import print_checks

    console, text = paper(WIDEST)
    print_checks(console, checks)
    print_text(text())


def _show_requirements(checks: "Sequence[Check]", *, as_json: bool) -> None:
    from mcp_trio.harness.requirements import coverage, load_requirements

    requirements = list(load_requirements().values())
    roles: tuple[Role, ...] = ("server", "client")
    covered = {role: coverage(requirements, checks, role) for role in roles}
    if as_json:
        from mcp_trio.harness.reports.json import coverage_to_json, requirements_to_json

        rows = [row for rows in covered.values() for row in rows]
        found = requirements_to_json(requirements, checks)
        print_json({"requirements": found, "coverage": coverage_to_json(rows)})
        return
    from mcp_trio.harness.reports.terminal import print_coverage, print_requirements

    console, text = paper(WIDEST)
    print_requirements(console, requirements, checks)
    for role, rows in covered.items():
        print_coverage(console, role, rows)
    print_text(text())


def paper(width: int = WIDE) -> "tuple[Console, Any]":
    """A console for our stdout, and a function that gives what was printed on it."""
    import io
    import sys

    from rich.console import Console

    written = io.StringIO()
    terminal = sys.stdout is not None and sys.stdout.isatty()
    console = Console(
        file=written,
        force_terminal=terminal or None,
        width=None if terminal else width,
        markup=False,
        highlight=False,
        emoji=False,
    )
    return console, written.getvalue


def print_json(document: object) -> None:
    from mcp_trio.cli.ending import write_stdout
    from mcp_trio.cli.untrusted import json_text

    write_stdout(json_text(document) + "\n", "utf-8")


def print_text(text: str) -> None:
    from mcp_trio.cli.ending import write_stdout

    write_stdout(text)


def write_reports(
    reports: "Sequence[Report]", junit: Path | None, html: Path | None, *, strict: bool
) -> None:
    """Write the files that `report_options` ask for."""
    if junit is not None:
        from mcp_trio.harness.reports.junit import to_junit

        write_file(junit, to_junit(reports, strict=strict))
    if html is not None:
        from mcp_trio.harness.reports.html import to_html

        write_file(html, to_html(reports))


def write_file(path: Path, text: str) -> None:
    """Write a report.

    Raises:
        Failed: It cannot be written.
    """
    from mcp_trio.cli.ending import Failed

    try:
        path.write_text(text, encoding="utf-8")
    except OSError as exc:
        raise Failed(f"{path} cannot be written: {exc.strerror or exc}") from exc
