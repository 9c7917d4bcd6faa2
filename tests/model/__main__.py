"""``python -m tests.model``: every search as a table, with the counter-examples in words behind it."""

from __future__ import annotations

import argparse
import sys

from .cases import EVERY
from .checker import check, compiled, compiler, discard, in_words


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.model", description=__doc__)
    parser.add_argument("--full", action="store_true", help="the large scopes, too: some minutes, some GB")
    parser.add_argument("--only", default="", metavar="TEXT", help="those with TEXT in their name or rules")
    parser.add_argument("--trace", action="store_true", help="tell each shortest counter-example")
    arguments = parser.parse_args()
    if compiler() is None:
        print("no C++ compiler (c++, g++ or clang++) on the path", file=sys.stderr)
        return 77  # as automake: skipped
    wrong = 0
    print(f"{'case':<56} {'rules':<40} {'result':<10} {'states':>12} {'steps':>5} {'seconds':>8}")
    try:
        for case in EVERY:
            if (case.full and not arguments.full) or arguments.only not in f"{case.name} {case.rules}":
                continue
            compiled(case.program)
            result = check(case.program, case.rules, patience_s=None)
            as_expected = result.verdict == ("reached" if case.reached else "never")
            wrong += not as_expected
            words = {"never": "safe", "reached": "reached" if "until=" in case.rules else "VIOLATED"}
            shown = words.get(result.verdict, result.verdict) + ("" if as_expected else " (!)")
            macros = " ".join(case.program.macros)
            rules = f"{macros} {case.rules}".strip()
            row = f"{result.states:>12,} {result.steps:>5} {result.seconds:>8.1f}"
            print(f"{case.name:<56} {rules:<40} {shown:<10} {row}", flush=True)
            if result.trace and (arguments.trace or not as_expected):
                print("\n".join(f"    {line}" for line in in_words(case.program, result.trace)))
    finally:
        discard()
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
