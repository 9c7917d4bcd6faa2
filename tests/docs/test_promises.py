"""A sentence that promises has a test; the site is complete; and a page shows no code that nothing runs.

The line before each block says what runs it:

``<!-- recipe: NAME -->``           a test that names the page runs it
``<!-- terminal: NAME -->``         it is part of the page's story: test_stories.py
``<!-- tested: tests/FILE.py -->``  that file runs it, and names the page
``<!-- not run: REASON -->``        nothing runs it, for one of the REASONS
``<!-- on the site: IMAGE -->``     mermaid, of which the site shows a drawing: tests/repository/test_docs.py
"""

from __future__ import annotations

import ast
import importlib.util
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from html import unescape
from pathlib import Path

import pytest

import rlock

from .pages import DOCS, PAGES, TOP, marked

#: A word like *never* is a promise.
WORDS = re.compile(r"\b(never|always|certain|only|nobody|nothing|cannot)\b", re.IGNORECASE)
PROMISING = "README.md", "docs/guarantees.md", "docs/how-it-works.md", "docs/fencing.md"
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
    # What a run measured promises nothing.
    text = re.sub(r"<!-- computed table: neighbours.*?<!-- end of the table -->", "", text, flags=re.DOTALL)
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


@pytest.mark.parametrize("page", PROMISING)
def test_every_sentence_with_a_word_that_promises_is_listed_once(page: str) -> None:
    unlisted = [each for each in found(page) if sum(part in each for part in LISTED[page]) != 1]
    assert unlisted == [], "list it with its tests in promises.txt, or say it without the word"


@pytest.mark.parametrize("page", PROMISING)
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


REASONS = {
    "installs": "it installs something, or needs something that the tests do not install",
    "long": "it takes minutes, and runs tests itself",
    "drawing": "it is no code",
    "theirs": "it is for a server or an operating system that the tests must not touch",
}
TESTS = {
    path.relative_to(TOP).as_posix(): path.read_text(encoding="utf-8")
    for folder in ("tests", "evidence")
    for path in (TOP / folder).rglob("*.py")
}
_MARK = re.compile(r"<!-- (recipe|terminal|tested|not run|on the site): (.+?) -->")


def blocks(page: Path) -> Iterator[tuple[int, str, str]]:
    """Line, kind and value of the mark of each block; a block without a mark has empty ones."""
    lines = page.read_text(encoding="utf-8").splitlines()
    fence = ""
    for number, line in enumerate(lines):
        opening = re.match(r" {0,3}(`{3,}|~{3,})", line)
        if not fence and opening:
            mark = _MARK.fullmatch(lines[number - 1].strip()) if number else None
            yield number + 1, mark[1] if mark else "", mark[2] if mark else ""
            fence = opening[1]
        elif fence and line.strip() == fence:
            fence = ""


def fault(page: Path, kind: str, value: str) -> str:
    """The reason to doubt that a test runs a block; empty: a test runs it."""
    if kind == "recipe":
        runs = "<!-- terminal:" in page.read_text(encoding="utf-8")
        return (
            "" if runs or any(page.name in text for text in TESTS.values()) else f"no test names {page.name}"
        )
    if kind == "tested":
        ours = page.name in TESTS.get(value, "") and marked(page, value)
        return "" if ours else f"{value} does not take its blocks by pages.marked()"
    if kind == "not run":
        return "" if value in REASONS else f"{value!r} is none of {', '.join(REASONS)}"
    return "" if kind else "the line before it has no mark (tests/docs/test_promises.py)"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(TOP).as_posix())
def test_a_test_runs_each_block_of_a_page(page: Path) -> None:
    assert [f"line {line}: {why}" for line, *mark in blocks(page) if (why := fault(page, *mark))] == []


@pytest.mark.parametrize("mark", ["", "<!-- not run: because -->", "<!-- tested: tests/no_such_file.py -->"])
def test_a_block_that_nothing_runs_is_noticed(mark: str, tmp_path: Path) -> None:
    page = tmp_path / "-".join(("named", "by", "nobody.md"))
    page.write_text(f"{mark}\n```python\nprint(1)\n```\n")
    ((_, kind, value),) = blocks(page)
    assert fault(page, kind, value)


NO_SITE = importlib.util.find_spec("mkdocs") is None or importlib.util.find_spec("material") is None
_FETCHED = re.compile(
    r"<(?:script|img|iframe|source)[^>]* src=\"?([^\" >]+)|<link(?! rel=\"canonical)[^>]* href=\"?([^\" >]+)"
)


def build(to: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "-f", str(TOP / "mkdocs.yml"), "-d", str(to)],
        cwd=TOP,
        env={**os.environ, "PYTHONPATH": str(TOP), "NO_MKDOCS_2_WARNING": "true"},
        capture_output=True,
        text=True,
        check=False,
        timeout=240,
    )
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.skipif(NO_SITE, reason="mkdocs-material is in the group docs")
@pytest.mark.timeout(300)
def test_the_site_is_complete(tmp_path: Path) -> None:
    """Built without a warning, which a broken link would be; it fetches nothing from the network."""
    site = tmp_path / "site"
    build(site)
    texts = {path: path.read_text(encoding="utf-8") for path in sorted(site.rglob("*.html"))}
    fetched = [target for text in texts.values() for found in _FETCHED.findall(text) for target in found]
    assert [target for target in fetched if "//" in target] == []
    stars = re.compile(r'<a[^>]* data-md-component="source"')
    assert not [path for path, text in texts.items() if stars.search(text)], "it asks for stars"
    for path in site.rglob("*.css"):
        assert not re.search(r"url\(\s*[\"']?(https?:)?//", path.read_text(encoding="utf-8")), path.name
    scripts = unescape(re.sub(r"<[^>]+>", "", texts[site / "scripts.html"]))
    for path in (TOP / "lua").glob("*.lua"):
        assert path.read_text(encoding="utf-8").strip() in scripts, path.name
    for name in rlock.__all__:
        assert re.search(rf'id="?rlock(\.\w+)?\.{name}"?[ >]', texts[site / "api.html"]), name
