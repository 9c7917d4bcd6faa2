"""While a mutex of a client is held no foreign code runs: docs/contributing/process.md."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

from .test_house import CORE, ROOT

#: Loggers, observers and callbacks of users, and waits.
FOREIGN = re.compile(
    r"^(log(ger)?\.\w+|emit|.*\.emit|emit_in_order|.*\.report_(?!loss)\w+|observer|on_lost|.*\._call_on_lost"
    r"|.*report_loss|(time|.*runtime)\.sleep|.*\.(park|block|join|wait|call|call_many))$"
)
#: `join` of the local queue, and `Calls.call` by its owner, are no waits.
OURS = {"queue.join"}
MUTEX = re.compile(r"mutex$")


def names(node: ast.With) -> bool:
    return any(MUTEX.search(ast.unparse(item.context_expr)) for item in node.items)


def faults(tree: ast.AST) -> list[str]:
    """What breaks the rule, with its line."""
    found: list[str] = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            called = ast.unparse(node.func)
            if re.search(r"mutex\.(acquire|release)$", called):
                found.append(f"{node.lineno}: {called}: only `with` is safe from Ctrl-C")
            if re.fullmatch(r"threading\.Lock", called):
                found.append(f"{node.lineno}: {called}: a finalizer that enters it again waits for ever")
        locked = isinstance(node, ast.With) and names(node)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            locked = "ith the mutex" in (ast.get_docstring(node) or "").replace("without the mutex", "")
        if locked:
            for part in getattr(node, "body", ()):
                for inner in ast.walk(part):
                    if isinstance(inner, ast.Yield | ast.YieldFrom | ast.Await):
                        found.append(f"{inner.lineno}: it waits with a mutex")
                    elif isinstance(inner, ast.Call) and FOREIGN.match(called := ast.unparse(inner.func)):
                        found.append(f"{inner.lineno}: {called} with a mutex")
    return found


@pytest.mark.parametrize("path", CORE, ids=lambda path: str(path.relative_to(ROOT)))
def test_a_mutex_is_taken_by_with_and_no_foreign_code_runs_under_it(path: Path) -> None:
    if path.name == "runtime.py" and path.parent.name == "_sync":
        return  # a parker is a lock on which one thread sleeps
    assert faults(ast.parse(path.read_text(encoding="utf-8"))) == []


@pytest.mark.parametrize(
    "line",
    [
        "self._mutex.acquire()",
        "with self._mutex: log.warning('x')",
        "with engine.holds.mutex: emit(event)",
        "with self._mutex: on_lost(error)",
        "with self._mutex: yield from self.parker.park(1.0)",
        "self._mutex = threading.Lock()",
        "def f():\n  '''Do it. With the mutex.'''\n  log.info('x')",
    ],
)
def test_each_way_to_break_the_rule_is_found(line: str) -> None:
    assert faults(ast.parse(line))
    assert faults(ast.parse("with self._mutex: self._holds.add(hold)")) == []
