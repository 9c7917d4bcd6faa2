"""The drawings and tables of the pages are those of the code as it is."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import site_drawings
import site_tables

from rlock.model import Verdict
from rlock.rules.waiting import MOVES, STAGES, Move

from .pages import DOCS

WRITE = "run: python docs/tools/site_drawings.py"
DRAWN = site_drawings.everything()


@pytest.mark.parametrize("name", DRAWN)
def test_a_drawing_is_up_to_date(name: str) -> None:
    assert (DOCS / "diagrams" / name).read_text(encoding="utf-8") == DRAWN[name], WRITE


def test_there_is_no_other_drawing() -> None:
    assert {path.name for path in (DOCS / "diagrams").iterdir()} == {*DRAWN}


def words(name: str) -> str:
    """The text of a drawing, with its lines joined."""
    return " ".join(re.findall(r"<text[^>]*>([^<]*)</text>", DRAWN[name]))


def test_the_drawings_of_waiting_show_the_whole_tables() -> None:
    for (before, step), after in STAGES.items():
        assert {before.value, step.value, after.value} <= set(words("stages.svg").split())
    for row in MOVES:
        assert f"{row.when} " in words("moves.svg")
        assert f"{row.move.name} {row.move.value}" in words("moves.svg")
    for name in (*(move.name for move in Move), *(verdict.value for verdict in Verdict)):
        assert name in words("acquire.svg")


@pytest.mark.parametrize("page", site_tables.PAGES, ids=lambda page: page.relative_to(DOCS.parent).as_posix())
def test_the_computed_tables_of_a_page_are_up_to_date(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    assert site_tables.filled(text) == text, WRITE
    assert text.count("<!-- computed table: ") == text.count("<!-- end of the table -->")
