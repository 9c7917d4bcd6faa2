"""The folder docs/howto as a whole."""

from __future__ import annotations

import pytest

from .pages import DOCS, TOP

PAGES = sorted(path.name for path in (DOCS / "howto").glob("*.md") if path.name != "README.md")


def test_the_index_names_every_page_and_no_other() -> None:
    index = (DOCS / "howto" / "README.md").read_text(encoding="utf-8")
    listed = [line.split("](")[1].split(")")[0] for line in index.splitlines() if line.startswith("- [")]
    assert sorted(listed) == PAGES


@pytest.mark.parametrize("page", PAGES)
def test_a_page_has_a_test_of_its_name(page: str) -> None:
    assert (TOP / "tests" / "docs" / f"test_howto_{page.removesuffix('.md')}.py").exists()
