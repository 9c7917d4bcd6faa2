"""The named blocks of a page, so that what a page shows is what a test runs.

A block bears the name that stands in the line before it: ``<!-- recipe: tasks.py -->``.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import types
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import rlock

from ..cli.shell import Start as Start
from ..cli.shell import processes

TOP = Path(rlock.__file__).resolve().parent.parent
DOCS = TOP / "docs"
PAGES = [TOP / "README.md", *sorted(DOCS.rglob("*.md"))]
PYTHON = sys.executable
RLOCK = f'exec "{PYTHON}" -m rlock "$@"'  # the text of a script in the place of the installed program
_BLOCK = re.compile(
    r"(?:^ *<!-- (recipe|terminal|tested|not run|on the site): ([^\n]+?) -->\n)?"
    r"^ {0,3}(`{3,}|~{3,})[^\n]*\n(.*?)^ {0,3}\3$",
    re.DOTALL | re.MULTILINE,
)


class Block(NamedTuple):
    line: int
    kind: str  # of the mark in the line before it; empty: there is none (test_pages.py)
    value: str
    text: str


@cache
def page_blocks(page: Path) -> list[Block]:
    """All blocks of a page, in their order."""
    text = page.read_text(encoding="utf-8")
    found = _BLOCK.finditer(text)
    return [Block(text.count("\n", 0, one.start(3)) + 1, one[1] or "", one[2] or "", one[4]) for one in found]


@cache
def blocks(page: str) -> Mapping[str, str]:
    """Name and text of each block of ``docs/<page>`` that bears a name."""
    named = [(block.value, block.text) for block in page_blocks(DOCS / page) if block.kind == "recipe"]
    assert len(dict(named)) == len(named), f"{page} has two blocks with one name"
    return dict(named)


def marked(page: Path, by: str) -> list[str]:
    """The text of every block of a page that says ``tested: <by>``; a test has to take them all."""
    return [block.text for block in page_blocks(page) if (block.kind, block.value) == ("tested", by)]


def block(page: str, name: str, old: str = "", new: str = "") -> str:
    """One block; with ``new`` in the place of ``old``, which must be there."""
    text = blocks(page)[name]
    assert old in text, f"{page}, {name} has changed: {old!r}"
    return text.replace(old, new) if old else text


def module(text: str, name: str = "recipe") -> Any:
    made = types.ModuleType(name)
    exec(compile(text, name, "exec"), made.__dict__)
    return made


def lay_out(page: str, folder: Path, changes: Mapping[str, tuple[str, str]] | None = None) -> None:
    """Write the blocks of a page as files; ``changes`` maps a file to what is put in the place of what."""
    for name in blocks(page):
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(block(page, name, *(changes or {}).get(name, ("", ""))), encoding="utf-8")


def write_scripts(folder: Path, scripts: Mapping[str, str]) -> str:
    """Programs of the shell in a folder, by their paths; the PATH on which they come first."""
    for name, text in scripts.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"#!/bin/sh\n{text}\n", encoding="utf-8")
        path.chmod(0o755)
    return f"{folder}{os.pathsep}{os.environ['PATH']}"


@contextmanager
def starter(folder: Path, urls: list[str], **environment: str) -> Iterator[Start]:
    """``start(*command)``: a process in the folder, with the masters in its environment; ended at the end."""
    told = {
        **os.environ,
        "RLOCK_MASTERS": ",".join(urls),
        "RLOCK_TTL": "1",
        "PYTHONPATH": f"{folder}{os.pathsep}{TOP}",
        "PYTHONDONTWRITEBYTECODE": "1",
        **environment,
    }
    # A group of its own, so that its children end with it.
    with processes(told, cwd=folder, stderr=subprocess.STDOUT, start_new_session=True) as start:
        yield start


def told(process: subprocess.Popen[str], code: int = 0) -> str:
    """Its output, when it has ended as it has to."""
    out, _ = process.communicate(timeout=100)
    assert process.returncode == code, out
    return out
