"""docs/contributing: the files, functions, frames and sabotages that the pages name are those of the code."""

from __future__ import annotations

import ast
import re
from functools import cache

from ..repository.test_frames import frames_of_a_write
from ..servers import Fleet
from .pages import DOCS, TOP

FOLDER = DOCS / "contributing"
ARCHITECTURE = (FOLDER / "architecture.md").read_text(encoding="utf-8")
SAFETY = (FOLDER / "safety.md").read_text(encoding="utf-8")
GLOSSARY = (FOLDER / "glossary.md").read_text(encoding="utf-8")
TEXT = ARCHITECTURE + SAFETY + GLOSSARY
FUNCTION = re.compile(r"`((?:rlock|tests)/[\w/]+\.py):(\w+)`")
PATH = re.compile(r"`((?:rlock|lua|tests|docs)/[\w/.-]+)`")


@cache
def functions(path: str) -> set[str]:
    tree = ast.parse((TOP / path).read_text(encoding="utf-8"))
    return {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)}


def test_each_function_that_the_pages_name_is_in_its_file() -> None:
    named = FUNCTION.findall(TEXT)
    assert len(named) > 30
    assert [f"{path}:{name}" for path, name in named if name not in functions(path)] == []


def test_each_path_that_the_pages_name_exists() -> None:
    assert [path for path in PATH.findall(TEXT) if not (TOP / path).exists()] == []


def test_the_nine_functions_are_on_the_stack_of_an_acquire(masters3: Fleet) -> None:
    rows = re.findall(r"^\| \d \| `rlock/(\S+)` \|", ARCHITECTURE, re.MULTILINE)
    assert rows == frames_of_a_write(masters3.urls)[::-1]
