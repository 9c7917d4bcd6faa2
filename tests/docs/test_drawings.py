"""The drawings and tables of the pages are those of the code as it is."""

from __future__ import annotations

import re
from pathlib import Path
from xml.etree import ElementTree

import pytest
import site_drawings
import site_tables

from rlock.model import LeaseState, Verdict
from rlock.rules import timing
from rlock.rules.lease import TRANSITIONS

from .pages import DOCS, TOP

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


@pytest.mark.parametrize("name", DRAWN)
def test_a_drawing_is_xml_in_the_readers_colour_and_fetches_nothing(name: str) -> None:
    root = ElementTree.fromstring(DRAWN[name])
    assert root.get("fill") == "currentColor"
    assert "href" not in DRAWN[name]
    assert "font-face" not in DRAWN[name]
    width = float((root.get("viewBox") or "").split()[2])
    for text in root.iter("{http://www.w3.org/2000/svg}text"):
        assert 0 <= float(text.get("x", "-1")) <= width, text.text


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(DOCS).as_posix())
def test_every_picture_of_a_page_says_in_words_what_it_shows(page: Path) -> None:
    for words, target in re.findall(r"!\[([^\]]*)\]\(([^)]+)\)", page.read_text(encoding="utf-8")):
        assert len(words.split()) >= 5, f"{page.name}: {target} has no text for those who cannot see it"
        assert (page.parent / target).exists()


def test_the_drawings_show_every_state_and_every_verdict() -> None:
    for state in LeaseState:
        assert f">{state.value}<" in DRAWN["lease.svg"]
    for _, event in TRANSITIONS:
        assert event.value in DRAWN["lease.svg"]
    for verdict in Verdict:
        assert f">{verdict.value}<" in DRAWN["acquire.svg"]


def test_another_table_makes_another_drawing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(timing, "DRIFT_FACTOR", 0.02)
    assert site_drawings.everything()["times.svg"] != DRAWN["times.svg"]
    assert site_tables.sizing() not in (DOCS / "operations.md").read_text(encoding="utf-8")


def test_the_files_that_draw_are_of_the_house() -> None:
    for path in (TOP / "docs" / "tools").glob("*.py"):
        assert len(path.read_text(encoding="utf-8").splitlines()) <= 400
