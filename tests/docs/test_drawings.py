"""The drawings and tables of the pages are those of the code as it is."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import site_drawings
import site_tables

from .pages import DOCS

WRITE = "run: python docs/tools/site_drawings.py"
DRAWN = site_drawings.everything()
PAGES = sorted(DOCS.rglob("*.md"))


@pytest.mark.parametrize("name", DRAWN)
def test_a_drawing_is_up_to_date(name: str) -> None:
    assert (DOCS / "diagrams" / name).read_text(encoding="utf-8") == DRAWN[name], WRITE


def test_there_is_no_other_drawing() -> None:
    assert {path.name for path in (DOCS / "diagrams").iterdir()} == {*DRAWN}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(DOCS).as_posix())
def test_the_computed_tables_of_a_page_are_up_to_date(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    assert site_tables.filled(text) == text, WRITE
    assert text.count("<!-- computed table: ") == text.count("<!-- end of the table -->")


def test_every_table_is_on_some_page() -> None:
    text = "".join(page.read_text(encoding="utf-8") for page in PAGES)
    assert {*re.findall(r"<!-- computed table: ([\w-]+) -->", text)} == {*site_tables.TABLES}
