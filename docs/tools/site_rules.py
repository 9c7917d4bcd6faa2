"""The table of the rules of safety: how each one is broken on purpose, and the tests that it is marked on.

The rules stand in docs/contributing/safety.md as ``- **3.1 A round** counts only ...``. A test names the
rules that it checks by ``@pytest.mark.rule("3.1")``. This module reads the files and imports no test.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

TOP = Path(__file__).resolve().parents[2]
PAGE = TOP / "docs" / "contributing" / "safety.md"
FOLDERS = TOP / "tests", TOP / "evidence"
_BUG = re.compile(r'^@bug\("([^"]+)", "(\d\.\d+)"\)', re.MULTILINE)
_RULE = re.compile(r"^- \*\*(\d\.\d+) ([^*]+?)\.?\*\*", re.MULTILINE)


class Test(NamedTuple):
    """A test that is marked with rules."""

    path: Path
    name: str
    rules: tuple[str, ...]
    #: Its other markers, by name: ``slow``, ``timing``.
    markers: frozenset[str]


def rules() -> dict[str, str]:
    """Number and title of each rule of the page."""
    return dict(_RULE.findall(PAGE.read_text(encoding="utf-8")))


@cache
def marked_tests() -> tuple[Test, ...]:
    """Every test with the marker ``rule``."""
    found = []
    for path in sorted(path for folder in FOLDERS for path in folder.rglob("test_*.py")):
        text = path.read_text(encoding="utf-8")
        if "pytest.mark.rule(" not in text:
            continue
        for node in ast.parse(text).body:
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
                markers = dict(_markers(node.decorator_list))
                if "rule" in markers:
                    others = frozenset(markers) - {"rule"}
                    found.append(Test(path, node.name, markers["rule"], others))
    return tuple(found)


def _markers(decorators: list[ast.expr]) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Name and constant arguments of each ``pytest.mark``."""
    for decorator in decorators:
        given = decorator.args if isinstance(decorator, ast.Call) else []
        marker = decorator.func if isinstance(decorator, ast.Call) else decorator
        if isinstance(marker, ast.Attribute) and ast.unparse(marker.value) == "pytest.mark":
            yield marker.attr, tuple(str(arg.value) for arg in given if isinstance(arg, ast.Constant))


@cache
def bugs() -> dict[str, list[str]]:
    """The rule of each bug, out of ``@bug(name, rule)`` in evidence/bugs: rule to names."""
    found: dict[str, list[str]] = {}
    for path in sorted((TOP / "evidence" / "bugs").glob("*.py")):
        for name, rule in _BUG.findall(path.read_text(encoding="utf-8")):
            found.setdefault(rule, []).append(name)
    return found


def table() -> str:
    """A row for each rule."""
    rows = ["| rule | bugs | tests |\n| --- | --: | --- |\n"]
    for number in rules():
        broken = len(bugs().get(number, []))
        tests = [test for test in marked_tests() if number in test.rules]
        links = "; ".join(
            f"[{test.name}](../../{test.path.relative_to(TOP).as_posix()})"
            for test in sorted(tests, key=lambda test: (test.path, test.name))
        )
        rows.append(f"| **{number}** | {broken} | {links} |\n")
    return "".join(rows)
