"""The documents say what the code says: drawings, tables, names, links, and a test for each rule."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path

import pytest
import site_drawings
import site_rules
import site_tables

from evidence.bugs import BUGS
from rlock.model import LeaseState
from rlock.rules.lease import TRANSITIONS

from .. import quick
from ..docs.pages import DOCS, TOP
from ..servers import Fleet
from .test_house import frames_of_a_write

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


def test_the_nine_functions_are_on_the_stack_of_an_acquire(masters3: Fleet) -> None:
    rows = re.findall(r"^\| \d \| `rlock/(\S+)` \|", ARCHITECTURE, re.MULTILINE)
    assert rows == frames_of_a_write(masters3.urls)[::-1]


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
