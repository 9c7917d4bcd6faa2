"""The folder docs/howto as a whole."""

from __future__ import annotations

import pytest

from .pages import DOCS, TOP, blocks

PAGES = sorted(path.name for path in (DOCS / "howto").glob("*.md") if path.name != "README.md")

#: Tables of several libraries, and of two kinds of tests.
LONG = {"migrating.md": 260, "testing.md": 265}


def test_the_index_names_every_page_and_no_other() -> None:
    index = (DOCS / "howto" / "README.md").read_text(encoding="utf-8")
    listed = [line.split("](")[1].split(")")[0] for line in index.splitlines() if line.startswith("- [")]
    assert sorted(listed) == PAGES


@pytest.mark.parametrize("page", PAGES)
def test_a_page_says_first_what_a_lock_cannot_do_and_is_short(page: str) -> None:
    text = (DOCS / "howto" / page).read_text(encoding="utf-8")
    first = text.partition("\n## ")[0]
    assert "cannot" in first
    assert "paused" in first
    assert "(../guarantees.md)" in first
    assert "(../fencing.md)" in first
    seen = [line for line in text.splitlines() if not line.startswith("<!-- ")]
    assert len(seen) <= LONG.get(page, 160)


@pytest.mark.parametrize("page", PAGES)
def test_the_code_of_a_page_is_run_by_a_test_of_its_name(page: str) -> None:
    assert blocks(f"howto/{page}")
    assert (TOP / "tests" / "docs" / f"test_howto_{page.removesuffix('.md')}.py").exists()
