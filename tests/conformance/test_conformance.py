"""The official conformance suite, in both roles and for both requirement sets, without exceptions.

Nothing may be a failure or a warning, whether or not the revision requires it. What the suite skips
is listed here with the reason.
"""

from collections.abc import Sequence
from pathlib import Path

import pytest

from tests import peers
from tests.conformance.faces import FACES, started
from tests.conformance.suite import REVISIONS, Check, judge_client, judge_server
from tests.skipping import or_skip

pytestmark = pytest.mark.interop
each_revision = pytest.mark.parametrize("revision", REVISIONS)

SKIPPED = {
    ("http-standard-headers", "ClientMcpMethodHeader_initialize"): (
        "the scenario is one of 2026-07-28, and that revision has no such request"
    ),
    ("http-standard-headers", "ClientMcpMethodHeader_notifications_initialized"): (
        "the scenario is one of 2026-07-28, and that revision has no such notification"
    ),
}


@pytest.fixture(scope="module")
def suite() -> list[str]:
    """The argv prefix that runs the suite."""
    return or_skip(peers.conformance_suite)


@each_revision
@pytest.mark.parametrize("face", FACES)
async def test_server(suite: list[str], face: str, revision: str, tmp_path: Path) -> None:
    """Both ways of serving over HTTP do all that a revision says, and log nothing."""
    async with started(face) as running:
        checks = await judge_server(suite, running.url, revision, tmp_path)
    check_all(checks)
    assert not running.complaints()


@each_revision
async def test_client(suite: list[str], revision: str, tmp_path: Path) -> None:
    """The client does all that a revision says."""
    check_all(await judge_client(suite, revision, tmp_path))


def check_all(checks: Sequence[Check]) -> None:
    skipped = [check for check in checks if check.status == "SKIPPED"]
    wrong = [check for check in checks if check.status not in ("SUCCESS", "INFO", "SKIPPED")]
    unlisted = [check for check in skipped if (check.scenario, check.name) not in SKIPPED]
    assert not wrong + unlisted, "\n" + "\n".join(map(str, wrong + unlisted))
