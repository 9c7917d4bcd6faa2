"""Every block and every command of every page, and what runs it.

The line before a block says it; a page that comes later says it for itself:

``<!-- recipe: NAME -->``           a test that names the page runs it
``<!-- terminal: NAME -->``         it is part of the page's story: test_stories.py
``<!-- tested: tests/FILE.py -->``  that file runs it, and names the page
``<!-- not run: REASON -->``        nothing runs it, for one of the REASONS
``<!-- on the site: IMAGE -->``     mermaid, of which the site shows a drawing: test_drawings.py
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from .pages import DOCS, TOP, marked

#: Why nothing can run it.
REASONS = {
    "installs": "it installs something, or needs what the tests do not install",
    "long": "it takes minutes, and what it runs are tests itself",
    "drawing": "it is no code",
    "theirs": "it is for a server or an operating system that the tests must not touch",
}
#: Of every page that the repository has.
PAGES = [TOP / "README.md", *sorted(DOCS.rglob("*.md"))]

_MARK = re.compile(r"<!-- (recipe|terminal|tested|not run|on the site): (.+?) -->")
#: An indented line that is a command rather than a drawing.
_COMMAND = re.compile(
    r"\s*(\$ |(\.venv/bin/)?(python|pip|pytest|rlock|make|docker|redis-cli|valkey-cli|kubectl) )"
)


class Block(NamedTuple):
    """What stands between two fences, or an indented command."""

    page: Path
    line: int
    language: str
    text: str
    mark: str  # recipe, terminal, tested, not run; empty: none
    value: str

    @property
    def place(self) -> str:
        return (
            f"{self.page.relative_to(TOP) if self.page.is_relative_to(TOP) else self.page.name}:{self.line}"
        )


def blocks_of(page: Path) -> Iterator[Block]:
    """All blocks of a page, with the mark of each."""
    lines = page.read_text(encoding="utf-8").splitlines()
    fence, began = "", 0
    for number, line in enumerate(lines):
        opening = re.match(r" {0,3}(`{3,}|~{3,})(.*)", line)
        if not fence and opening:
            fence, began = opening[1], number
        elif fence and line.strip() == fence:
            fence = ""
            mark = _MARK.fullmatch(lines[began - 1].strip()) if began else None
            language = lines[began].strip().strip("`~").strip()
            text = "\n".join(lines[began + 1 : number])
            yield Block(page, began + 1, language, text, mark[1] if mark else "", mark[2] if mark else "")
        elif not fence and re.match(r"( {4}|\$ )", line) and _COMMAND.match(line):
            yield Block(page, number + 1, "", line, "", "")
    assert not fence, f"{page.name}:{began + 1}: a block that nothing ends"


def test_files() -> dict[str, str]:
    """The text of every test file."""
    return {
        path.relative_to(TOP).as_posix(): path.read_text(encoding="utf-8")
        for path in (TOP / "tests").rglob("*.py")
    }


def fault(block: Block, tests: dict[str, str]) -> str:
    """Why it cannot be said that a test runs this block; empty: it can."""
    name = block.page.relative_to(DOCS).as_posix() if block.page.is_relative_to(DOCS) else block.page.name
    if block.mark == "terminal":
        return "" if block.language == "console" else "a terminal is a console block"
    if block.mark == "on the site":
        return "" if block.language == "mermaid" else "only mermaid has another form on the site"
    if block.mark == "not run":
        return "" if block.value in REASONS else f"{block.value!r} is none of {', '.join(REASONS)}"
    if block.mark == "tested":
        if block.value not in tests:
            return f"there is no {block.value}"
        told = tests[block.value]
        # A test that picks blocks in a way of its own may leave out the one that somebody adds.
        if "marked(" not in told:
            return f"{block.value} does not take its blocks by pages.marked()"
        if block.page.exists() and f"{block.text}\n" not in marked(block.page, block.value):
            return f"pages.marked() does not find it: a fence with more than a language ({block.language!r})"
        return "" if name in told or Path(name).name in told else f"{block.value} does not name {name}"
    if block.mark == "recipe":
        # By name, or as one of the files that are laid out together.
        users = [text for text in tests.values() if name in text or f'"{Path(name).name}"' in text]
        page = block.page.read_text(encoding="utf-8")
        if "<!-- terminal:" in page:
            return ""
        if not users:
            return f"no test names {name}"
        return "" if _used(block, "".join(users)) else f"no test of {name} uses {block.value}"
    return "nothing says what runs it: put a mark in the line before it (tests/docs/inventory.py)"


def _used(block: Block, tests: str) -> bool:
    """Whether a test, or another block that is laid out beside it, asks for a block by its name."""
    file = Path(block.value)
    if file.name == "conftest.py" or file.name.startswith("test_"):
        return "runpytest" in tests
    others = "".join(other.text for other in blocks_of(block.page) if other.value != block.value)
    return f'"{block.value}"' in tests or bool(re.search(rf"\b{re.escape(file.stem)}\b", tests + others))
