"""A sentence that promises has a test."""

from __future__ import annotations

import ast
from functools import cache

import pytest

from .pages import DOCS, TOP
from .promises import EXCUSE, PAGES, found, listed

LISTED = listed()


@cache
def functions(file: str) -> set[str]:
    tree = ast.parse((TOP / "tests" / file).read_text(encoding="utf-8"))
    return {node.name for node in ast.walk(tree) if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))}


@pytest.mark.parametrize("page", PAGES)
def test_every_sentence_with_a_word_that_promises_is_listed_once(page: str) -> None:
    unlisted = [each for each in found(page) if sum(part in each for part in LISTED[page]) != 1]
    assert unlisted == [], "list it with its tests in promises.txt, or say it without the word"


@pytest.mark.parametrize("page", PAGES)
def test_every_sentence_that_is_listed_is_on_its_page(page: str) -> None:
    assert [part for part in LISTED[page] if not any(part in each for each in found(page))] == []


def test_every_promise_names_tests_that_there_are() -> None:
    for page, parts in LISTED.items():
        for part, tests in parts.items():
            assert tests, f"{page}, {part!r}: no test"
            for test in tests if not tests[0].startswith(EXCUSE) else ():
                place, name = test.split("::")
                folder, _, file = place.rpartition("/")
                assert f"test_{name}" in functions(f"{folder}/test_{file}.py".lstrip("/")), f"{page}: {test}"


def test_every_row_of_the_table_of_faults_names_a_test() -> None:
    text = (DOCS / "guarantees.md").read_text(encoding="utf-8")
    table = text.partition("\n## What each fault does\n")[2].partition("\n## ")[0]
    rows = [line for line in table.splitlines() if line.startswith("|")][2:]
    assert len(rows) > 40
    assert [row for row in rows if "[test_" not in row.split(" | ")[-1]] == []
