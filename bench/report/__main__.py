"""Publish the results of a run (`make bench-publish`), or draw or print the published ones again.

    python -m bench.report [RESULTS.json] [--tables]

Writes docs/performance.md, bench/results.md, docs/performance/pair.svg and docs/performance/results.json;
with --tables it prints all tables and writes nothing. Without a file it takes docs/performance/results.json.
Publish once a release: the files change by thousands of lines.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from bench.harness.results import BadResultsError, Results
from bench.report import tables
from bench.report.page import RESULTS, ROOT, publish


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m bench.report", description=(__doc__ or "").splitlines()[0]
    )
    parser.add_argument(
        "results", nargs="?", type=Path, default=RESULTS, help="default: docs/performance/results.json"
    )
    parser.add_argument("--tables", action="store_true", help="print all tables of all scenarios")
    options = parser.parse_args()
    try:
        results = Results.read(options.results)
    except BadResultsError as error:
        print(f"bench.report: {error}", file=sys.stderr)
        return 2
    if options.tables:
        print(tables.render(results))
        return 0
    if results.quick:
        print(f"bench.report: {options.results} is a quick run, whose figures mean nothing", file=sys.stderr)
        return 2
    changed = publish(results)
    for path in changed:
        print(f"written: {path.relative_to(ROOT)}")
    if not changed:
        print("nothing to change: the pages and the plot are those of these results")
    return 0


if __name__ == "__main__":
    sys.exit(main())
