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
