"""Print what the official suite finds, as a table: `python -m tests.conformance`."""

import tempfile
from collections import Counter
from collections.abc import Sequence
from itertools import groupby
from pathlib import Path

import trio

from tests import peers
from tests.conformance.faces import FACES, started
from tests.conformance.suite import REVISIONS, Check, judge_client, judge_server


async def main(suite: Sequence[str], folder: Path) -> None:
    for revision in REVISIONS:
        for face in FACES:
            async with started(face) as running:
                results = folder / face / revision
                show(
                    f"Server, {face}, {revision}",
                    await judge_server(suite, running.url, revision, results),
                )
        results = folder / "client" / revision
        show(f"Client, {revision}", await judge_client(suite, revision, results))


def show(title: str, checks: Sequence[Check]) -> None:
    print(f"\n{title}\n\n| scenario | checks |\n| --- | --- |")
    for scenario, found in groupby(checks, lambda check: check.scenario):
        statuses = Counter(check.status for check in found)
        counts = ", ".join(f"{count} {status}" for status, count in sorted(statuses.items()))
        print(f"| {scenario} | {counts} |")
    for check in checks:
        if check.status not in ("SUCCESS", "INFO"):
            print(f"\n{check}")


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        trio.run(main, peers.conformance_suite(), Path(folder))
