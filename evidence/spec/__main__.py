"""``python -m evidence.spec``: TLC checks each case of cases.txt, which explains its lines."""

from __future__ import annotations

import argparse
import re
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass

from .tlc import HERE, MissingError, Result, result_of, run

_CONSTANT = re.compile(r"(\w+)=(\{[^}]*\}|\S+)")


@dataclass(frozen=True)
class Case:
    name: str
    module: str
    constants: dict[str, str]
    invariants: tuple[str, ...]
    config: str  # lines of the configuration
    violates: str  # the invariant that must be violated; empty: none
    steps: int  # of the shortest counter-example; 0: not fixed
    full: bool  # more than half a minute on two cores: with ``--full`` only
    quick: bool  # some seconds: the tests search it

    def search(self) -> Result:
        """Search every state. Raises ``MissingError``."""
        lines = ["CHECK_DEADLOCK FALSE", self.config]
        lines += [f"INVARIANTS {' '.join(self.invariants)}"] if self.invariants else []
        lines += [] if "SPECIFICATION" in self.config else ["SPECIFICATION Spec"]
        lines += ["CONSTANTS", *(f"    {name} = {value}" for name, value in self.constants.items())]
        began = time.monotonic()
        # Only with one worker TLC promises that a counter-example is a shortest one.
        output = run(self.module, "\n".join(lines), one_worker=bool(self.steps))
        return result_of(output, time.monotonic() - began)

    def expects(self, result: Result) -> bool:
        """Whether TLC found what the case says, by a way of as many steps."""
        return (result.violated or "") == self.violates and self.steps in (0, result.steps)


def cases() -> Iterator[Case]:
    scopes: dict[str, dict[str, str]] = {}
    values: dict[str, str] = {}
    module, invariants, config = "", "", ""

    def constants(text: str) -> dict[str, str]:
        """The constants of the scope that a text begins with, if any, and the constants of the text."""
        scope = [scopes[word] for word in _CONSTANT.sub("", text).split()]
        return dict(*scope) | {name: values.get(value, value) for name, value in _CONSTANT.findall(text)}

    text = re.sub(r"^#.*\n", "", (HERE / "cases.txt").read_text(encoding="utf-8"), flags=re.MULTILINE)
    for line in filter(None, re.sub(r"\n {4}", " ", text).splitlines()):
        if section := re.fullmatch(r"== (\w+): ?([\w ]*)(?:; )?(.*)", line):
            module, invariants, config = section[1], section[2], section[3].replace("; ", "\n")
        elif value := re.fullmatch(r"([A-Z]\w*) = (\{.*)", line):
            values[value[1]] = value[2]
        elif scope := re.fullmatch(r"([A-Z]\w*) = (.*)", line):
            scopes[scope[1]] = constants(scope[2])
        else:
            finds, name, where, *left_out = line.split(" | ")
            found = re.fullmatch(r"(?:([*+]) )?(a property|\S+)(?: (\d+))?", finds)
            assert found, line
            violates = found[2] if found[2] != "safe" else ""
            checked, lines = invariants, config
            if violates in config.split():
                checked, lines = "", re.sub("PROPERTIES .*", f"PROPERTIES {violates}", config)
            elif violates.isidentifier():
                checked, lines = violates, re.sub("PROPERTIES .*", "", config)
            yield Case(
                name.replace("%", "".join(left_out).strip('"')),
                module,
                constants(f"{where} Broken={{{left_out[0]}}}" if left_out else where),
                tuple(checked.split()),
                lines,
                violates,
                steps=int(found[3] or 0),
                full=found[1] == "*",
                quick=found[1] == "+",
            )


ROWS = tuple(cases())


def main() -> int:
    """Exit status: 0 all as expected; 1 one case was not; 77 Java or TLC is missing."""
    parser = argparse.ArgumentParser(prog="python -m evidence.spec", description=__doc__)
    parser.add_argument("--full", action="store_true", help="add the cases of more than half a minute")
    parser.add_argument("--only", default="", metavar="TEXT", help="cases with TEXT in their name")
    parser.add_argument("--trace", action="store_true", help="print what TLC says of each violation")
    arguments = parser.parse_args()
    wrong = 0
    # In Markdown.
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
        figures = f"{result.states:,} | {result.steps} | {result.seconds:.0f} |{'' if expected else ' (!)'}"
        print(f"| {case.name} | {case.module} | {verdict} | {figures}", flush=True)
        if result.violated and arguments.trace:
            print(result.output)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
