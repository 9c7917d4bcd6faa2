"""Draw the page of performance again, from the results of a run, without measuring anything.

    python -m bench.report [RESULTS.json]

Without a file from docs/performance/results.json. Writes docs/performance.md, docs/performance/*.svg, and,
where another file is given, docs/performance/results.json.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from bench.harness.results import BadResults, Results
from bench.report.page import RESULTS, ROOT, publish


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m bench.report", description=(__doc__ or "").splitlines()[0]
    )
    parser.add_argument(
        "results", nargs="?", type=Path, default=RESULTS, help="default: docs/performance/results.json"
    )
    parser.add_argument("--show", action="store_true", help="print the tables here, and write nothing")
    options = parser.parse_args()
    try:
        results = Results.read(options.results)
    except BadResults as error:
        print(f"bench.report: {error}", file=sys.stderr)
        return 2
    if options.show:
        from bench.report.tables import render

        print(render(results))
        return 0
    if results.quick:
        told = f"{options.results} is of a quick run, whose figures are for nobody"
        print(f"bench.report: {told}; --show prints them", file=sys.stderr)
        return 2
    try:
        import matplotlib  # noqa: F401
    except ImportError:
        print("bench.report: the plots need matplotlib: pip install -e '.[bench]'", file=sys.stderr)
        return 2
    changed = publish(results)
    for path in changed:
        print(f"written: {path.relative_to(ROOT)}")
    if not changed:
        print("nothing to change: page and plots are those of these results")
    return 0


if __name__ == "__main__":
    sys.exit(main())
