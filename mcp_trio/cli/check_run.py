"""Running checks for the command line: on which targets, in which revisions, and at what pace."""

import logging
import shlex
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager
from functools import partial
from typing import Final, cast

import attrs
import click
import trio

from mcp_trio.cli.check_jobs import (
    Job,
    client_job,
    demo_clients,
    open_demo_server,
    server_job,
)
from mcp_trio.cli.check_progress import Progress
from mcp_trio.cli.ending import Failed, Stopped, run_until_signal
from mcp_trio.cli.targets import read_env, read_headers, read_target
from mcp_trio.cli.untrusted import one_line
from mcp_trio.exceptions import TransportError
from mcp_trio.harness import model
from mcp_trio.harness.handover import CLIENT_TRANSPORTS, WAYS, Way, program_target
from mcp_trio.harness.model import TRANSPORTS, Check, Outcome, Report, Role, Transport
from mcp_trio.harness.probe import Options
from mcp_trio.harness.targets import command_target, url_target
from mcp_trio.harness.wires import WireEnded
from mcp_trio.incoming import sole_exception
from mcp_trio.transports.parameters import StdioParameters

FAILURES: Final = (model.Failed, OSError, TransportError, WireEnded)
JOBS: Final = 4
#: Over each transport of the demo server, all at a time. Most checks wait most of the time; but on
#: stdio each worker has a process of its own, and starting these is what takes the time.
DEMO_JOBS: Final = 6
DEMO_STDIO_JOBS: Final = 4
NAMED: Final = 3  # checks in an error message

Jobs = AbstractAsyncContextManager[list[Job]]


class Interrupted(Stopped):
    """A signal ended the checks; what they had found by then is not lost."""

    def __init__(self, status: int, reports: list[Report]) -> None:
        super().__init__(status - 128)
        self.reports = reports


@attrs.frozen(kw_only=True)
class Order:
    """What a command line asks for; the fields are its options."""

    checks: tuple[Check, ...]
    role: Role
    target: str | None
    command: tuple[str, ...]
    env: Sequence[str]
    header: Sequence[str]
    sse: bool
    revisions: Sequence[str]
    transports: Sequence[str]
    way: Way | None
    deadline: float
    allow_writes: bool
    jobs: int | None

    def run(self) -> list[Report]:
        """Run the checks.

        Raises:
            Failed: A target cannot be reached, or speaks no revision; the message is for people.
            click.UsageError: The options contradict each other, or no check fits the target.
            Stopped: A signal came first.
            Interrupted: The same, and there are outcomes already.
        """
        so_far: list[tuple[Job, list[Outcome]]] = []
        opened = self._clients() if self.role == "client" else self._servers()
        with Progress() as progress, quiet():
            try:
                reports = run_until_signal(partial(self._run, opened, progress, so_far))
            except Stopped as exc:
                begun = [_begun(job, self.role, outcomes) for job, outcomes in so_far if outcomes]
                raise (Interrupted(exc.status, begun) if begun else exc) from None
            except ExceptionGroup as group:
                raise sole_exception(group) from None  # the nurseries around it are ours
        if not any(report.outcomes for report in reports):
            ids = ", ".join(check.id for check in self.checks[:NAMED])
            more = ", ..." if len(self.checks) > NAMED else ""
            raise click.UsageError(
                f"Nothing to ask over this transport in this revision: {ids}{more}."
            )
        return reports

    async def _run(
        self, opened: Jobs, progress: Progress, so_far: list[tuple[Job, list[Outcome]]]
    ) -> list[Report]:
        reports: dict[str, Report] = {}
        async with opened as found:
            jobs = [job for job in found if self._asked(job) != ()]
            alone = len(jobs) == 1

            async def work(job: Job) -> None:
                with explained(job.name if alone else job.label):
                    at_a_time = self.jobs or (JOBS if alone else demo_jobs(job.transport))
                    outcomes: list[Outcome] = []
                    so_far.append((job, outcomes))
                    reports[job.transport] = await self._check(job, progress, outcomes, at_a_time)

            async with trio.open_nursery() as nursery:
                for job in jobs:
                    nursery.start_soon(work, job)
        return [reports[job.transport] for job in jobs]

    async def _check(
        self, job: Job, progress: Progress, outcomes: list[Outcome], at_a_time: int
    ) -> Report:
        def on_outcome(outcome: Outcome) -> None:
            outcomes.append(outcome)
            progress.outcome(outcome)

        options = Options(deadline=self.deadline, allow_writes=self.allow_writes)
        revisions = self._asked(job)
        if revisions is None:
            revisions = await (job.every if self.revisions else job.newest)(options)
        for revision in revisions:
            progress.expect(sum(check_fits(check, job, revision) for check in self.checks))
        report = await job.check(
            self.checks,
            revisions=revisions,
            options=options,
            jobs=at_a_time,
            on_outcome=on_outcome,
        )
        return attrs.evolve(report, target=job.name)

    def _asked(self, job: Job) -> tuple[str, ...] | None:
        """The revisions that were asked for by name; None if the target has to be asked."""
        if "all" in self.revisions or not self.revisions:
            return None
        return tuple(revision for revision in job.allowed if revision in self.revisions)

    # What to check

    def _servers(self) -> Jobs:
        if self.way is not None:
            raise click.UsageError("--hand-over is for clients.")
        if self.target is None and not self.command:
            self._only_for_targets()
            return open_demo_server(self._names(TRANSPORTS))
        if self.transports:
            text = "--transport is for clients and for the demo server; a target has its own."
            raise click.UsageError(text)
        return only(self._server())

    def _server(self) -> Job:
        target = read_target(self.target, self.command, read_env(self.env))
        headers = read_headers(self.header, target)
        if target.url is not None:
            if self.sse and not target.url.lower().startswith("http"):
                raise click.UsageError("--sse is for http and https URLs.")
            found = url_target(target.url, headers=headers, sse=self.sse)
            return server_job(found, target.name)
        if self.sse:
            raise click.UsageError("--sse is for http and https URLs.")
        parameters = StdioParameters(target.argv[0], target.argv[1:], env=target.env)
        words = None if self.command else shlex.quote(target.name)
        return server_job(command_target(parameters, target.name, words), target.name)

    def _clients(self) -> Jobs:
        if self.target is not None:
            raise click.UsageError(f"A client is started: write -- COMMAND, not {self.target!r}.")
        self._only_for_targets()
        if not self.command:
            return only(*demo_clients(self._names(CLIENT_TRANSPORTS)))
        way = self.way or WAYS[0]
        jobs = []
        for transport in self._names(CLIENT_TRANSPORTS) if self.transports else ["stdio"]:
            target = program_target(self.command, transport=cast(Transport, transport), way=way)
            jobs.append(client_job(target, target.name))
        return only(*jobs)

    def _only_for_targets(self) -> None:
        for option, given in (("--env", self.env), ("--header", self.header), ("--sse", self.sse)):
            if given:
                raise click.UsageError(f"{option} is for a server that is named.")

    def _names(self, known: Sequence[Transport]) -> list[Transport]:
        for name in self.transports:
            if name not in known:
                raise click.UsageError(f"--transport is one of {', '.join(known)}.")
        return [name for name in known if name in (self.transports or known)]


def _begun(job: Job, role: Role, outcomes: Sequence[Outcome]) -> Report:
    """A report of what was asked before a signal came."""
    return Report(
        target=job.name,
        kind="check",
        role=role,
        outcomes=tuple(outcomes),
        findings=tuple(outcome.finding for outcome in outcomes if outcome.finding),
        facts=(("transport", job.transport), ("ended early", "by a signal")),
    )


def demo_jobs(transport: Transport) -> int:
    """How many checks run at a time over one of many transports."""
    return DEMO_STDIO_JOBS if transport == "stdio" else DEMO_JOBS


def check_fits(check: Check, job: Job, revision: str) -> bool:
    """Whether a check is going to be run."""
    return revision in check.revisions and job.transport in check.transports


@asynccontextmanager
async def only(*jobs: Job) -> AsyncIterator[list[Job]]:
    """Jobs that nothing has to be opened for."""
    yield list(jobs)


@contextmanager
def explained(name: str) -> Iterator[None]:
    """One line for why a target cannot be checked.

    Raises:
        Failed: It cannot.
    """
    try:
        yield
    except (*FAILURES, ExceptionGroup) as exc:
        cause = sole_exception(exc)
        if not isinstance(cause, FAILURES):
            raise
        said = cause.strerror if isinstance(cause, OSError) and cause.strerror else str(cause)
        raise Failed(f"no connection to {one_line(name)}: {one_line(said)}") from exc


@contextmanager
def quiet() -> Iterator[None]:
    """Keep what the library logs of the demo server off the terminal: it is being tested."""
    logger, handler = logging.getLogger("mcp_trio"), logging.NullHandler()
    logger.addHandler(handler)
    try:
        yield
    finally:
        logger.removeHandler(handler)
