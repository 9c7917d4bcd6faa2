"""The pages stay short, and none says what another one says."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from .pages import DOCS, TOP

PAGES = [TOP / "README.md", TOP / "CONTRIBUTING.md", TOP / "SECURITY.md", *sorted(DOCS.rglob("*.md"))]
#: The same number of words in a row in two places is a sentence that was copied.
LONGEST_RUN = 25
#: Of all pages in docs/. Change it only downwards.
MOST_WORDS = 40_000
#: Programs and tables that the code computes may repeat each other.
_NO_SENTENCES = re.compile(
    r"^```.*?^```|<!-- computed table.*?<!-- end of the table -->", re.DOTALL | re.MULTILINE
)


def words(text: str) -> list[str]:
    """Lower case, without the targets of links. A block of code or a table of the code is one word, a bar."""
    text = re.sub(r"\]\([^)]*\)", "]", _NO_SENTENCES.sub(" | ", text).replace("|", " | "))
    return re.findall(r"\||[\w']+", text.lower())


def repeated(texts: dict[str, str], longest: int = LONGEST_RUN) -> Iterator[str]:
    """The first words of each run that stands in two places."""
    seen: set[tuple[str, ...]] = set()
    for name, text in texts.items():
        found = words(text)
        skip_to = 0
        for i in range(len(found) - longest):
            run = tuple(found[i : i + longest + 1])
            if "|" in run:
                continue
            if run in seen and i >= skip_to:
                skip_to = i + longest
                yield f"{name}: {' '.join(run)}"
            seen.add(run)


def test_no_page_says_a_thing_twice() -> None:
    texts = {str(page.relative_to(TOP)): page.read_text(encoding="utf-8") for page in PAGES}
    assert list(repeated(texts)) == []


def test_a_repeated_sentence_is_found() -> None:
    sentence = " ".join(f"word{i}" for i in range(LONGEST_RUN + 1))
    assert len(list(repeated({"a": f"Before. {sentence}.", "b": f"Else. {sentence}, and so on."}))) == 1
    assert list(repeated({"a": sentence, "b": sentence.replace("word9 ", "other ")})) == []
    assert list(repeated({"a": f"```\n{sentence}\n```", "b": sentence})) == []


def test_the_pages_do_not_grow() -> None:
    # As `cat docs/*.md docs/*/*.md | wc -w` counts.
    pages: list[Path] = [*DOCS.glob("*.md"), *DOCS.glob("*/*.md")]
    assert sum(len(page.read_text(encoding="utf-8").split()) for page in pages) <= MOST_WORDS
