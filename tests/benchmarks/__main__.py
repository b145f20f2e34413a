"""`python -m tests.benchmarks`: measure ours and the other implementations side by side."""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from tests.benchmarks import report
from tests.benchmarks.measure import Effort
from tests.benchmarks.rows import ROWS
from tests.benchmarks.run import measured, selected
from tests.benchmarks.web import has_wrk

THOROUGH = Effort(rounds=7)
QUICK = Effort(rounds=3, share=0.2)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="less time, more noise")
    parser.add_argument(
        "--rows", nargs="+", default=[], metavar="NAME", help="only rows whose names start so"
    )
    parser.add_argument("--list", action="store_true", help="print the names of the rows")
    parser.add_argument("--json", type=Path, default=Path("benchmarks.json"), metavar="FILE")
    options = parser.parse_args()
    rows = selected(ROWS, options.rows)
    if options.list:
        print(*(f"{row.name}: {row.title}" for row in rows), sep="\n")
        return
    if not has_wrk():
        print("wrk is not installed: a client in Python, which is slower, loads HTTP servers.\n")
    effort = QUICK if options.quick else THOROUGH
    outcomes = []
    for row in rows:
        outcome = measured(row, effort)
        outcomes.append(outcome)
        print(report.numbers(outcome), flush=True)
    print("", report.table(outcomes), sep="\n")
    text = json.dumps(report.as_json(outcomes, effort), indent=2)
    options.json.write_text(text + "\n", encoding="utf-8")
    print(f"\nEvery sample is in {options.json}.")


if __name__ == "__main__":
    main()
