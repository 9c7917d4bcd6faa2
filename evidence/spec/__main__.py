"""``python -m evidence.spec``: TLC checks each case. The table is in Markdown."""

from __future__ import annotations

import argparse
import sys

from .cases import ROWS
from .tlc import MissingError


def main() -> int:
    """Exit status: 0 all as expected; 1 one case was not; 77 Java or TLC is missing."""
    parser = argparse.ArgumentParser(prog="python -m evidence.spec", description=__doc__)
    parser.add_argument("--full", action="store_true", help="add the cases of more than half a minute")
    parser.add_argument("--only", default="", metavar="TEXT", help="cases with TEXT in their name")
    parser.add_argument("--trace", action="store_true", help="print what TLC says of each violation")
    arguments = parser.parse_args()
    wrong = 0
    print("| case | module | result | states | steps | s |")
    print("|---|---|---|--:|--:|--:|", flush=True)
    for case in ROWS:
        if (case.full and not arguments.full) or arguments.only not in case.name:
            continue
        try:
            result = case.search()
        except MissingError as error:
            print(error, file=sys.stderr)
            return 77  # automake's status of a test that cannot run here
        expected = case.expects(result)
        wrong += not expected
        verdict = "safe" if result.violated is None else f"violates {result.violated}"
        figures = f"{result.states:,} | {result.steps} | {result.seconds:.0f}"
        print(
            f"| {case.name} | {case.module} | {verdict} | {figures} |{'' if expected else ' (!)'}", flush=True
        )
        if result.violated and arguments.trace:
            print(result.output)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
