"""Conformance checks and fuzzing for anybody's MCP server or client.

What `mcp-trio check` does is here as a library, and so are the means to write checks of one's own:

    import sys

    import trio

    from mcp_trio import harness
    from mcp_trio.harness import ServerProbe, check, expect


    @check("tools-have-descriptions", meaning="Each tool says what it is for.")
    async def tools_have_descriptions(probe: ServerProbe) -> None:
        for tool in (await probe.inventory()).tools:
            expect(tool.get("description"), f"{tool['name']} has no description")


    async def main() -> None:
        target = harness.command_target([sys.executable, "-m", "mcp_trio", "serve", "demo"])
        checks = [tools_have_descriptions]  # and those of harness.load_checks("server")
        report = await harness.check_server(target, checks)
        for outcome in report.outcomes:
            print(outcome.check.id, outcome.revision, outcome.verdict, outcome.message)
        assert not report.is_bad(strict=True)


    trio.run(main)

A check returns if the peer passes. It raises `Failed`, as `expect` does, or `NotApplicable`, as
`require` does, and otherwise adapts to what the peer has. One that names no requirement counts as a
SHOULD: it fails a run only with `report.is_bad(strict=True)`.

Every public name is here, and each is imported when it is first used.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from mcp_trio.harness.checks import check as check
    from mcp_trio.harness.checks import load_checks as load_checks
    from mcp_trio.harness.client_probe import ClientProbe as ClientProbe
    from mcp_trio.harness.client_runner import check_client as check_client
    from mcp_trio.harness.fuzzing import Plan as Plan
    from mcp_trio.harness.fuzzing import fuzz_server as fuzz_server
    from mcp_trio.harness.handover import ClientTarget as ClientTarget
    from mcp_trio.harness.handover import program_target as program_target
    from mcp_trio.harness.model import Check as Check
    from mcp_trio.harness.model import Failed as Failed
    from mcp_trio.harness.model import Finding as Finding
    from mcp_trio.harness.model import NotApplicable as NotApplicable
    from mcp_trio.harness.model import Outcome as Outcome
    from mcp_trio.harness.model import Report as Report
    from mcp_trio.harness.model import Requirement as Requirement
    from mcp_trio.harness.probe import Inventory as Inventory
    from mcp_trio.harness.probe import Options as Options
    from mcp_trio.harness.probe import ServerProbe as ServerProbe
    from mcp_trio.harness.probe import expect as expect
    from mcp_trio.harness.probe import open_probe as open_probe
    from mcp_trio.harness.probe import require as require
    from mcp_trio.harness.reports.html import to_html as to_html
    from mcp_trio.harness.reports.json import to_json as to_json
    from mcp_trio.harness.reports.junit import to_junit as to_junit
    from mcp_trio.harness.requirements import coverage as coverage
    from mcp_trio.harness.requirements import load_requirements as load_requirements
    from mcp_trio.harness.runner import check_server as check_server
    from mcp_trio.harness.session import Session as Session
    from mcp_trio.harness.spoken import newest_of_each_era as newest_of_each_era
    from mcp_trio.harness.spoken import revisions_of as revisions_of
    from mcp_trio.harness.targets import ServerTarget as ServerTarget
    from mcp_trio.harness.targets import command_target as command_target
    from mcp_trio.harness.targets import server_target as server_target
    from mcp_trio.harness.targets import url_target as url_target

_HOMES = {
    "Check": "model",
    "ClientProbe": "client_probe",
    "ClientTarget": "handover",
    "Failed": "model",
    "Finding": "model",
    "Inventory": "probe",
    "NotApplicable": "model",
    "Options": "probe",
    "Outcome": "model",
    "Plan": "fuzzing",
    "Report": "model",
    "Requirement": "model",
    "ServerProbe": "probe",
    "ServerTarget": "targets",
    "Session": "session",
    "check": "checks",
    "check_client": "client_runner",
    "check_server": "runner",
    "command_target": "targets",
    "coverage": "requirements",
    "expect": "probe",
    "fuzz_server": "fuzzing",
    "load_checks": "checks",
    "load_requirements": "requirements",
    "newest_of_each_era": "spoken",
    "open_probe": "probe",
    "program_target": "handover",
    "require": "probe",
    "revisions_of": "spoken",
    "server_target": "targets",
    "to_html": "reports.html",
    "to_json": "reports.json",
    "to_junit": "reports.junit",
    "url_target": "targets",
}


if not TYPE_CHECKING:  # type checkers are to know only the names above

    def __getattr__(name: str) -> Any:
        if name not in _HOMES:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        found = getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
        globals()[name] = found
        return found

    def __dir__() -> list[str]:
        return sorted({*globals(), *_HOMES})
