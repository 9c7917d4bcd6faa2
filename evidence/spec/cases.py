"""The cases that TLC checks, read from cases.txt, which explains its lines."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from .tlc import HERE, Result, check

_CONSTANT = re.compile(r"(\w+)=(\{[^}]*\}|\S+)")


@dataclass(frozen=True)
class Case:
    name: str
    module: str
    constants: dict[str, str]
    invariants: tuple[str, ...]
    #: Lines of the configuration.
    config: str
    #: The invariant that must be violated; empty: none.
    violates: str
    #: Of the shortest counter-example; 0: not fixed.
    steps: int
    #: More than half a minute on two cores: with ``--full`` only.
    full: bool
    #: Some seconds: the tests search it.
    quick: bool

    def search(self) -> Result:
        return check(self.module, self.constants, self.invariants, self.config, shortest=bool(self.steps))

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
