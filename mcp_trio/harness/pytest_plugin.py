"""A pytest plugin: each check of a server becomes a test.

    pytest --mcp-target "npx -y my-server"
    pytest --mcp-target http://localhost:8000/mcp --mcp-strict -k tools

The server is asked for its revisions while pytest collects, and each check in each revision is an
item, beside the tests that there are otherwise; `-m mcp` selects these and `-k` some of them. All
that are selected of one revision are run at once when the first of them is due, as `mcp-trio check`
does, since starting a server takes longer than most checks. A check that fails is a test that
fails, with the sentence of the specification; a broken SHOULD is a warning unless `--mcp-strict`
is given; what does not apply is skipped, with the reason.

pytest loads this module in every run of everybody who has installed the package, so nothing else
is imported until there is a target.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Generator, Iterable
from functools import partial
from typing import TYPE_CHECKING, Any, Final, TypeVar, cast

import pytest

if TYPE_CHECKING:
    from _pytest._code.code import TerminalRepr

    from mcp_trio.harness.model import Check, Finding, Outcome
    from mcp_trio.harness.probe import Options
    from mcp_trio.harness.targets import ServerTarget

T = TypeVar("T")

NAME: Final = "mcp"
RUN: Final = pytest.StashKey["Run"]()


class BrokenShould(pytest.PytestWarning):
    """A server does not do what the specification says it SHOULD."""


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("mcp", "checks of servers of the Model Context Protocol")
    group.addoption(
        "--mcp-target",
        metavar="TARGET",
        help="the server to check: a command line, or a URL (http, https, ws, wss, unix, tcp)",
    )
    group.addoption(
        "--mcp-revision",
        action="append",
        metavar="REVISION",
        help="speak this revision, or 'all'; several are possible; by default the newest of each "
        "era that the server speaks",
    )
    group.addoption(
        "--mcp-allow-writes",
        action="store_true",
        help="call tools that are not marked as read-only, too",
    )
    group.addoption(
        "--mcp-strict", action="store_true", help="a broken SHOULD is a failure, not a warning"
    )
    group.addoption(
        "--mcp-deadline",
        type=float,
        default=5.0,
        metavar="SECONDS",
        help="how long any one answer may take (5 by default)",
    )


def pytest_configure(config: pytest.Config) -> None:
    if config.getoption("mcp_target"):
        config.addinivalue_line("markers", "mcp: a check of the server that --mcp-target names")
        config.stash[RUN] = Run(config)


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report(
    collector: pytest.Collector,
) -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
    """Let the session find our checks beside the files that it was asked for."""
    report = yield
    if isinstance(collector, pytest.Session) and collector.config.getoption("mcp_target"):
        checks = Checks.from_parent(collector, name=NAME, nodeid=NAME)
        report.result = [*report.result, checks]
    return report


class Checks(pytest.Collector):
    """All checks that fit the target: one item for each and each revision."""

    def collect(self) -> Iterable[pytest.Item]:
        run = self.config.stash[RUN]
        for revision in run.find_revisions():
            for check in run.checks:
                if revision in check.revisions and run.target.transport in check.transports:
                    name = f"{check.id}[{revision}]"
                    item = CheckItem.from_parent(self, name=name, check=check, revision=revision)
                    yield cast(pytest.Item, item)


class CheckItem(pytest.Item):
    """One check in one revision."""

    def __init__(self, *, check: Check, revision: str, **rest: Any) -> None:
        super().__init__(**rest)
        self.check = check
        self.revision = revision
        self.add_marker(NAME)
        # Whether a SHOULD counts is said by --mcp-strict, not by a project's filters.
        self.add_marker(pytest.mark.filterwarnings(f"always::{__name__}.{BrokenShould.__name__}"))

    def runtest(self) -> None:
        from mcp_trio.harness.reports.text import one_line, transcript

        run = self.config.stash[RUN]
        outcome = run.outcome(self)
        if outcome.verdict == "not applicable":
            pytest.skip(one_line(outcome.message))
        finding = outcome.finding
        if finding is None:
            return
        self.user_properties.append(("mcp-replay", finding.replay))
        if finding.is_must or self.config.getoption("mcp_strict"):
            self.add_report_section("call", "exchange", transcript(finding.exchange))
            raise Broken(finding)
        self.warn(BrokenShould(f"{self.name}: {one_line(finding.message)}\n{_described(finding)}"))

    def repr_failure(
        self, excinfo: pytest.ExceptionInfo[BaseException], *args: Any, **kwargs: Any
    ) -> str | TerminalRepr:
        if isinstance(excinfo.value, Broken):
            return f"{excinfo.value}\n{_described(excinfo.value.finding)}"
        if isinstance(excinfo.value, Unreachable):
            return str(excinfo.value)
        return super().repr_failure(excinfo, *args, **kwargs)

    def reportinfo(self) -> tuple[str, int, str]:
        return NAME, 0, self.name  # no file has it, and pytest wants a line


class Broken(Exception):
    """A check failed."""

    def __init__(self, finding: Finding) -> None:
        from mcp_trio.harness.reports.text import one_line

        super().__init__(one_line(finding.message, 1000))
        self.finding = finding


class Unreachable(Exception):
    """The server cannot be started or reached any more."""


def _described(finding: Finding) -> str:
    """The sentences that are broken, where they stand, and how to see it again."""
    from mcp_trio.harness.reports.counts import sentences
    from mcp_trio.harness.reports.text import visible
    from mcp_trio.harness.requirements import load_requirements

    lines = [
        f"{said.id} ({said.level}): {said.says}\n  {said.link(finding.revision)}"
        for said in sentences(finding, load_requirements())
    ]
    return "\n".join((*lines, f"replay: {visible(finding.replay)}"))


class Run:
    """What is known of the target, and the outcomes so far.

    Raises:
        UsageError: The options name no target, or no revision.
    """

    def __init__(self, config: pytest.Config) -> None:
        from mcp_trio.harness.checks import load_checks
        from mcp_trio.harness.probe import Options
        from mcp_trio.protocol.revisions import REVISIONS

        self.checks: tuple[Check, ...] = load_checks("server")
        self.target = _target(config.getoption("mcp_target"))
        self.options: Options = Options(
            deadline=config.getoption("mcp_deadline"),
            allow_writes=config.getoption("mcp_allow_writes"),
        )
        self._asked: list[str] = config.getoption("mcp_revision") or []
        for word in self._asked:
            if word not in (known := (*REVISIONS, "all")):
                text = f"--mcp-revision {word}: expected one of {', '.join(known)}"
                raise pytest.UsageError(text)
        self._outcomes: dict[tuple[str, str], Outcome] = {}
        self._unreachable: str | None = None

    def find_revisions(self) -> tuple[str, ...]:
        """The revisions to speak; the server is asked, unless they were all named.

        Raises:
            CollectError: It cannot be reached, or speaks none.
        """
        from mcp_trio.harness.spoken import newest_of_each_era, revisions_of
        from mcp_trio.protocol.revisions import REVISIONS

        if self._asked and "all" not in self._asked:
            return tuple(revision for revision in REVISIONS if revision in self._asked)
        ask = revisions_of if self._asked else newest_of_each_era
        try:
            return self._do(ask, self.target, self.options)
        except Unreachable as exc:
            raise pytest.Collector.CollectError(str(exc)) from exc

    def outcome(self, item: CheckItem) -> Outcome:
        """What a check said; all that are selected of its revision are run at once.

        Raises:
            Unreachable: They cannot be run, nor could others.
        """
        key = item.check.id, item.revision
        if self._unreachable is not None:
            raise Unreachable(self._unreachable)
        if key not in self._outcomes:
            self._run(item)
        return self._outcomes[key]

    def _run(self, first: CheckItem) -> None:
        from mcp_trio.harness.runner import check_server

        chosen = [
            item.check
            for item in first.session.items
            if isinstance(item, CheckItem) and item.revision == first.revision
        ]
        run = partial(check_server, revisions=[first.revision], options=self.options)
        for outcome in self._do(run, self.target, chosen).outcomes:
            self._outcomes[outcome.check.id, outcome.revision] = outcome

    def _do(self, work: Callable[..., Awaitable[T]], *arguments: object) -> T:
        import trio

        from mcp_trio.exceptions import TransportError
        from mcp_trio.harness.model import Failed
        from mcp_trio.harness.reports.text import one_line
        from mcp_trio.incoming import sole_exception

        try:
            return trio.run(work, *arguments)
        except (Failed, OSError, TransportError, ExceptionGroup) as exc:
            cause = sole_exception(exc)
            if not isinstance(cause, Failed | OSError | TransportError):
                raise
            self._unreachable = f"no connection to {self.target.name}: {one_line(str(cause))}"
            raise Unreachable(self._unreachable) from exc


def _target(words: str) -> ServerTarget:
    """The server that --mcp-target names."""
    import re
    import shlex

    from mcp_trio.harness.targets import command_target, url_target

    if re.match(r"(https?|wss?)://|unix:|tcp:", words):
        return url_target(words)
    try:
        return command_target(shlex.split(words))
    except ValueError as exc:
        raise pytest.UsageError(f"--mcp-target {words!r}: {exc}") from exc
