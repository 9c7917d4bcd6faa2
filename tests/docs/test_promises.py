"""A sentence that promises has a test."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from .pages import DOCS, TOP

#: A word like *never* is a promise.
WORDS = re.compile(r"\b(never|always|certain|only|nobody|nothing|cannot)\b", re.IGNORECASE)
PAGES = "README.md", "docs/guarantees.md", "docs/how-it-works.md", "docs/fencing.md"
EXCUSE = "no promise: "


def listed() -> dict[str, dict[str, list[str]]]:
    """Of each page: a part of each sentence, and its tests, or one EXCUSE."""
    pages: dict[str, dict[str, list[str]]] = {}
    parts: dict[str, list[str]] = {}
    tests: list[str] = []
    for line in (TOP / "tests" / "docs" / "promises.txt").read_text(encoding="utf-8").splitlines():
        if line.startswith("== "):
            parts = pages[line.removeprefix("== ")] = {}
        elif line.startswith("    "):
            tests.append(line.strip())
        elif line and not line.startswith("#"):
            assert line not in parts, f"twice: {line}"
            tests = parts[line] = []
    return pages


def sentences(text: str) -> Iterator[str]:
    """The sentences of a page with one of WORDS outside backticks; headings and blocks are left out."""
    text = re.sub(r"^ {0,3}(`{3,}).*?^ {0,3}\1\s*$|<!--.*?-->", "", text, flags=re.DOTALL | re.MULTILINE)
    # Rows of the table of faults name their tests themselves.
    text = re.sub(r"^(#|\|.*\]\(\.\./(?:tests|evidence)/).*$", "", text, flags=re.MULTILINE)
    for block in re.split(r"\n\s*\n|\n(?=\s*(?:[-*]|\d+\.) )|\n(?=\|)", text):
        flat = " ".join(line.removeprefix("> ").strip() for line in block.splitlines())
        plain = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", flat).replace("**", "")
        for cell in plain.strip("| ").split(" | ") if plain.startswith("|") else [plain]:
            for sentence in re.split(r"(?<=[.!?;:]) +(?=[A-Z*`\"])", cell):
                if " " in sentence and WORDS.search(re.sub(r"`[^`]*`", "", sentence)):
                    yield sentence.strip()


def found(page: str) -> list[str]:
    return list(sentences((TOP / page).read_text(encoding="utf-8")))


LISTED = listed()


def path_of(file: str) -> Path:
    """Files of tests/ are listed without that folder."""
    return TOP / file if file.startswith("evidence/") else TOP / "tests" / file


@cache
def functions(file: str) -> set[str]:
    tree = ast.parse(path_of(file).read_text(encoding="utf-8"))
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
