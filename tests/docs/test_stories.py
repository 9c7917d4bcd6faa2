"""Every page that shows a terminal: its commands do what is shown."""

from __future__ import annotations

from pathlib import Path

import pytest

from rlock.testing.local.embedded import ServerBinary

from .pages import PAGES, TOP
from .stories import has_story, story

STORIES = [page for page in PAGES if has_story(page)]


@pytest.mark.timeout(300)
@pytest.mark.parametrize("page", STORIES, ids=lambda page: page.relative_to(TOP).as_posix())
def test_the_terminals_of_a_page_show_what_happens(page: Path, tmp_path: Path, server: ServerBinary) -> None:
    with story(page, tmp_path) as told:
        told.tell()


# -- the machine itself: it must notice what is wrong --------------------------------------------------


@pytest.mark.parametrize(
    "text",
    [
        "$ echo one\ntwo\n",
        "$ echo code=3\ncode=4\n",
    ],
)
def test_what_a_page_shows_wrongly_is_noticed(text: str, tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(f"<!-- terminal: 1 -->\n```console\n{text}```\n")
    with story(page, tmp_path) as told, pytest.raises(AssertionError, match="and says"):
        told.tell()
