"""docs/contributing: the files, functions, frames and sabotages that the pages name are those of the code."""

from __future__ import annotations

import ast
import re
from functools import cache

from ..repository.test_frames import CORE, frames_of_a_write
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


def test_each_file_of_the_core_is_on_the_page() -> None:
    """The files of a driver are those of `_client/` with the same name, or are named themselves."""
    names = [path.relative_to(TOP).as_posix() for path in CORE if not path.name.startswith("__")]
    named = {path for path in names if f"`{path}`" in ARCHITECTURE}
    twins = {re.sub(r"/_client/", f"/{driver}/", path) for path in named for driver in ("_sync", "_async")}
    assert set(names) - named - twins == set()


def test_the_table_says_which_files_a_driver_has() -> None:
    row = re.compile(r"^\| `rlock/_client/(\w+\.py)` \|.*\| *(yes)? *\| *(yes)? *\|$", re.MULTILINE)
    rows = row.findall(ARCHITECTURE)
    assert len(rows) > 10
    for name, sync, asynchronous in rows:
        assert bool(sync) == (TOP / "rlock" / "_sync" / name).exists(), name
        assert bool(asynchronous) == (TOP / "rlock" / "_async" / name).exists(), name


def test_the_nine_functions_are_on_the_stack_of_an_acquire(masters3: Fleet) -> None:
    rows = re.findall(r"^\| \d \| `rlock/(\S+)` \|", ARCHITECTURE, re.MULTILINE)
    assert rows == frames_of_a_write(masters3.urls)[::-1]
