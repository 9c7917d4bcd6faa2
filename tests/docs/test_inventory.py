"""No page shows code or commands that nothing runs."""

from __future__ import annotations

from pathlib import Path

import pytest

from . import inventory
from .inventory import PAGES, REASONS, Block, blocks_of, fault
from .pages import TOP

TESTS = inventory.test_files()


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(TOP).as_posix())
def test_every_block_of_a_page_is_run_by_a_test_or_says_why_not(page: Path) -> None:
    told = [f"{block.place}: {why}" for block in blocks_of(page) if (why := fault(block, TESTS))]
    assert not told, "\n".join(told)


def test_what_is_not_run_is_a_short_list() -> None:
    skipped = [block for page in PAGES for block in blocks_of(page) if block.mark == "not run"]
    everything = [block for page in PAGES for block in blocks_of(page)]
    assert {block.value for block in skipped} <= {*REASONS}
    code = [block for block in skipped if block.value != "drawing"]
    assert len(code) * 8 <= len(everything), "\n".join(block.place for block in code)
    # A drawing that holds commands would hide them.
    drawings = [block for block in skipped if block.value == "drawing"]
    assert not [block.place for block in drawings if block.language not in ("", "text")]


# -- it has to notice --------------------------------------------------------------------------------


def found(text: str, folder: Path) -> list[Block]:
    page = folder / "-".join(("named", "by", "nobody.md"))
    page.write_text(text)
    return list(blocks_of(page))


@pytest.mark.parametrize(
    "text",
    [
        "```python\nprint(1)\n```\n",
        "```\nACL SETUSER\n```\n",
        "<!-- not run: because -->\n```console\n$ ls\n```\n",
        "<!-- tested: tests/no_such_file.py -->\n```console\n$ ls\n```\n",
        "<!-- recipe: a.py -->\n```python\nprint(1)\n```\n",
    ],
)
def test_a_block_that_nothing_runs_is_noticed(text: str, tmp_path: Path) -> None:
    (block,) = found(text, tmp_path)
    assert fault(block, TESTS)
