"""Publish the results of a run (`make bench-publish`), or draw the published ones again.

    python -m bench.report [RESULTS.json]

Writes docs/performance.md, and tables.txt, pair.svg and results.json in docs/performance/. Without a file it
draws from docs/performance/results.json. Once a release: the files change by hundreds of lines.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from bench.harness.results import Results
from bench.report.page import RESULTS, ROOT, publish


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m bench.report", description=(__doc__ or "").splitlines()[0]
    )
    parser.add_argument(
        "results", nargs="?", type=Path, default=RESULTS, help="default: docs/performance/results.json"
    )
    options = parser.parse_args()
    try:
        results = Results.read(options.results)
    except ValueError as error:
        print(f"bench.report: {error}", file=sys.stderr)
        return 2
    if results.quick:
        print(f"bench.report: {options.results} is a quick run, whose figures mean nothing", file=sys.stderr)
        return 2
    changed = publish(results)
    for path in changed:
        print(f"written: {path.relative_to(ROOT)}")
    if not changed:
        print("nothing to change: page, tables and plot are those of these results")
    return 0


if __name__ == "__main__":
    sys.exit(main())
