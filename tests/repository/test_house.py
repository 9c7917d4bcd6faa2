"""The house: files are of one piece, scripts are where they are looked for, documents say what the code says.

How much code stands between `lock.acquire()` and the socket. pyproject.toml says who may import whom. While a
mutex of a client is held, no foreign code runs: docs/contributing/process.md.
"""

from __future__ import annotations

import ast
import json
import re
import socket
import traceback
from dataclasses import replace
from functools import cache
from inspect import signature
from pathlib import Path
from typing import Any

import pytest
import site_drawings
import site_rules
import site_tables

import rlock
import rlock.asyncio
from evidence import __main__ as runner
from evidence.bugs import BUGS
from rlock.model import LeaseState
from rlock.rules import scripts
from rlock.rules.lease import TRANSITIONS

from .. import quick
from ..docs.pages import DOCS, TOP
from ..servers import Fleet

ROOT = Path(rlock.__file__).resolve().parent
#: The text of each module.
MODULES = {path: path.read_text(encoding="utf-8") for path in sorted(ROOT.rglob("*.py"))}
AROUND = ("cli", "compat", "telemetry", "testing", "__main__.py")
CORE = [path for path in MODULES if path.relative_to(ROOT).parts[0] not in AROUND]
#: The decorator stands on the public lock, and its lines count as those of the core.
DECORATOR = ("decorated", "decorator")
RECIPES = [path for path in CORE if path.parent.name == "recipes" and path.stem not in DECORATOR]


@pytest.mark.parametrize(
    "path",
    [
        *ROOT.rglob("*.py"),
        *(TOP / "lua").glob("*.lua"),
        *(TOP / "tests").rglob("*.py"),
        *(TOP / "evidence").rglob("*.py"),
        # Not the packages of the contestants' environments.
        *(path for path in (TOP / "bench").rglob("*.py") if ".environments" not in path.parts),
    ],
    ids=lambda path: str(path.relative_to(TOP)),
)
def test_no_file_is_over_400_lines_and_none_of_the_core_over_350(path: Path) -> None:
    assert len(path.read_text(encoding="utf-8").splitlines()) <= (350 if path in CORE else 400)


def test_every_script_of_the_folder_is_loaded_and_no_other() -> None:
    files = {entry.name for entry in scripts.folder().iterdir() if entry.name.endswith(".lua")}
    assert files == {f"{script.name}.lua" for script in scripts.ALL}


def test_the_public_names_are_there_and_documented() -> None:
    for name in rlock.__all__:
        assert getattr(rlock, name).__doc__, name
        assert hasattr(rlock.asyncio, name), f"rlock.asyncio lacks {name}"
        if name not in ("Client", "Lock", "LossSignal", "RLock"):
            assert getattr(rlock.asyncio, name) is getattr(rlock, name)


@pytest.mark.parametrize("name", ["Client", "RLock"])
def test_the_asyncio_twin_has_the_same_public_names_and_arguments(name: str) -> None:
    blocking, tasks = getattr(rlock, name), getattr(rlock.asyncio, name)
    public = {word for word in dir(blocking) if not word.startswith("_")}
    assert public == {word for word in dir(tasks) if not word.startswith("_")}
    for word in sorted(public | {"__init__"}):
        made = getattr(blocking, word)
        if callable(made):
            assert list(signature(made).parameters) == list(signature(getattr(tasks, word)).parameters), word


def test_the_core_does_not_grow() -> None:
    """The aim is 9,500 lines."""
    lua = [path.read_text(encoding="utf-8") for path in (TOP / "lua").glob("*.lua")]
    recipes = sum(len(MODULES[path].splitlines()) for path in RECIPES)
    core = sum(len(text.splitlines()) for text in (*(MODULES[path] for path in CORE), *lua))
    assert recipes <= 896
    assert core - recipes <= 11_594


#: Loggers, observers and callbacks of users, and waits.
FOREIGN = re.compile(
    r"^(log(ger)?\.\w+|emit|.*\.emit|emit_in_order|.*\.report_(?!loss)\w+|observer|on_lost|.*\._call_on_lost"
    r"|.*report_loss|(time|.*runtime)\.sleep|.*\.(park|block|join|wait|call|call_many))$"
)


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
        locked = isinstance(node, ast.With) and any(
            ast.unparse(item.context_expr).endswith("mutex") for item in node.items
        )
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


PART = runner.Part("good", "a title", "a scope", "good", result=r"^found.*")
#: Programs by name: exit status, and what they print.
PRINTING = {"good": (0, "much\nfound 3"), "bad": (3, "found"), "silent": (0, "much"), "absent": (77, "no Go")}


def test_a_part_that_fails_stops_no_other_one(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """In both lanes a part that fails stands in front of a good one; the tool of another one is missing."""
    for name, (status, text) in PRINTING.items():
        (tmp_path / f"{name}.py").write_text(f"print({text!r})\nraise SystemExit({status})\n")
    bad, silent, absent = (replace(PART, name=name, command=name) for name in ("bad", "silent", "absent"))
    models, masters = (bad, PART), (silent, absent, replace(PART, name="last"))
    given: dict[str, Any] = {"MODELS": models, "CLIENT": masters, "PARTS": (*models, *masters)}
    given |= {"FOLDER": tmp_path / "build", "PUBLISHED": tmp_path / "results.json"}
    for name, value in given.items():
        monkeypatch.setattr(runner, name, value)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    assert runner.main([]) == 1
    out = capsys.readouterr().out
    assert out.splitlines()[-1] == "---- evidence: failed: bad, silent"
    assert "skipped: evidence, absent: no Go" in out
    found = {path.stem: json.loads(path.read_text())["status"] for path in runner.FOLDER.glob("*.json")}
    assert found == {"bad": "red", "good": "green", "silent": "red", "absent": "skipped", "last": "green"}
    assert runner.main(["--publish"]) == 1
    assert not runner.PUBLISHED.exists()


FINAL = (LeaseState.LOST, LeaseState.RELEASED)
WRITE = "run: python docs/tools/site_drawings.py"
DRAWN = site_drawings.everything()
ARCHITECTURE, SAFETY, GLOSSARY = (
    (DOCS / "contributing" / f"{name}.md").read_text(encoding="utf-8")
    for name in ("architecture", "safety", "glossary")
)
TEXT = ARCHITECTURE + SAFETY + GLOSSARY
FUNCTION = re.compile(r"`((?:rlock|tests)/[\w/]+\.py):(\w+)`")
PATH = re.compile(r"`((?:rlock|lua|tests|docs)/[\w/.-]+)`")


def test_the_diagram_of_a_lease_is_the_table_of_the_code() -> None:
    text = (DOCS / "how-it-works.md").read_text(encoding="utf-8")
    drawn = set(re.findall(r"^ +(\w+) --> (\w+): (.+)$", text, re.MULTILINE))
    table = {
        (before.value, after.value, event.value)
        for (before, event), after in TRANSITIONS.items()
        if not (before is after and before in FINAL)
    }
    assert drawn == table


def test_links_between_documents_lead_somewhere() -> None:
    pages = (page for folder in ("docs", "evidence") for page in (TOP / folder).rglob("*.md"))
    for document in [TOP / "README.md", TOP / "SECURITY.md", *pages]:
        for target in re.findall(r"\]\(([^)#]+)\)", document.read_text(encoding="utf-8")):
            if "://" not in target:
                assert (document.parent / target).exists(), f"{document.name}: {target}"


def test_a_test_that_a_document_names_is_in_the_file_that_it_links_to() -> None:
    named = 0
    for document in [TOP / "SECURITY.md", *DOCS.rglob("*.md")]:
        text = document.read_text(encoding="utf-8")
        for name, target in re.findall(r"\[(test_\w+)\]\(([^)#]+)\)", text):
            named += 1
            assert f"def {name}(" in (document.parent / target).read_text(encoding="utf-8"), name
    assert named > 50


def test_each_party_of_the_security_page_has_a_test() -> None:
    page = (TOP / "SECURITY.md").read_text(encoding="utf-8").partition("## Trust in each party")[2]
    rows = re.findall(r"^\|(.*)\|$", page, re.MULTILINE)[2:]
    assert len(rows) == 6
    assert all("[test_" in row.rpartition(" | ")[2] for row in rows)


@pytest.mark.parametrize("name", DRAWN)
def test_a_drawing_is_up_to_date(name: str) -> None:
    assert (DOCS / "diagrams" / name).read_text(encoding="utf-8") == DRAWN[name], WRITE


@pytest.mark.parametrize("page", site_tables.PAGES, ids=lambda page: page.relative_to(TOP).as_posix())
def test_the_computed_tables_of_a_page_are_up_to_date(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    assert site_tables.filled(text) == text, WRITE
    assert text.count("<!-- computed table: ") == text.count("<!-- end of the table -->")


@cache
def functions(path: str) -> set[str]:
    tree = ast.parse((TOP / path).read_text(encoding="utf-8"))
    return {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)}


def test_each_path_and_each_function_that_the_pages_name_exists() -> None:
    assert [path for path in PATH.findall(TEXT) if not (TOP / path).exists()] == []
    named = FUNCTION.findall(TEXT)
    assert len(named) > 30
    assert [f"{path}:{name}" for path, name in named if name not in functions(path)] == []


def test_the_nine_functions_are_on_the_stack_of_an_acquire(
    masters3: Fleet, monkeypatch: pytest.MonkeyPatch
) -> None:
    stacks: list[list[str]] = []

    def send(to: socket.socket, data: bytes) -> int:
        frames = ((Path(frame.filename), frame.name) for frame in traceback.extract_stack())
        ours = [f"{path.relative_to(ROOT)}:{name}" for path, name in frames if path.is_relative_to(ROOT)]
        stacks.append(ours)
        return super(socket.socket, to).send(data)

    monkeypatch.setattr(socket.socket, "send", send)
    with rlock.Client(masters3.urls) as client:
        with client.lock("x") as lock:
            pass
        stacks.clear()
        lock.acquire()
        found = max(stacks, key=len)
        lock.release()
    rows = re.findall(r"^\| \d \| `rlock/(\S+)` \|", ARCHITECTURE, re.MULTILINE)
    assert rows == found


@pytest.mark.parametrize("rule", site_rules.rules())
def test_each_rule_has_a_test_in_the_quick_set(rule: str) -> None:
    tests = [test for test in site_rules.marked_tests() if rule in test.rules]
    assert [test for test in tests if not quick.is_slow(test.path) and not test.markers & {"slow", "timing"}]


def test_each_mark_names_a_rule_of_the_page() -> None:
    named = {rule for test in site_rules.marked_tests() for rule in test.rules}
    assert named <= {*site_rules.rules()}


def test_each_bug_says_which_rule_it_breaks_and_what_it_was() -> None:
    assert {bug.rule for bug in BUGS.values()} <= {*site_rules.rules()}
    assert {name for names in site_rules.bugs().values() for name in names} == BUGS.keys()
    assert all(bug.sentence.endswith(".") for bug in BUGS.values())
