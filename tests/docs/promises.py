"""The sentences that promise, out of the pages, and their tests, out of promises.txt."""

from __future__ import annotations

import re
from collections.abc import Iterator

from .pages import TOP

#: A word like *never* is a promise.
WORDS = re.compile(r"\b(never|always|certain|only|nobody|nothing|cannot)\b", re.IGNORECASE)
#: The page, and the heading where its promises end: what comes behind reports what was run.
PAGES = {
    "README.md": None,
    "docs/guarantees.md": "## What was run",
    "docs/how-it-works.md": None,
    "docs/waiting.md": None,
    "docs/fencing.md": None,
}
EXCUSE = "no promise: "


def listed() -> dict[str, dict[str, list[str]]]:
    """Of each page: a part of each sentence, and its tests, or one EXCUSE."""
    pages: dict[str, dict[str, list[str]]] = {}
    parts: dict[str, list[str]] = {}
    tests: list[str] = []
    for line in (TOP / "tests" / "docs" / "promises.txt").read_text(encoding="utf-8").splitlines():
        if line.startswith("== "):
            parts = pages[line.removeprefix("== ")] = {}
        elif line.startswith("    "):
            tests.append(line.strip())
        elif line and not line.startswith("#"):
            assert line not in parts, f"twice: {line}"
            tests = parts[line] = []
    return pages


def sentences(text: str) -> Iterator[str]:
    """The sentences of a page with one of WORDS outside backticks; headings and blocks are left out."""
    text = re.sub(r"^ {0,3}(`{3,}).*?^ {0,3}\1\s*$|<!--.*?-->", "", text, flags=re.DOTALL | re.MULTILINE)
    # Rows of the table of faults name their tests themselves.
    text = re.sub(r"^(#|\|.*\]\(\.\./tests/).*$", "", text, flags=re.MULTILINE)
    for block in re.split(r"\n\s*\n|\n(?=\s*(?:[-*]|\d+\.) )|\n(?=\|)", text):
        flat = " ".join(line.removeprefix("> ").strip() for line in block.splitlines())
        plain = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", flat).replace("**", "")
        for cell in plain.strip("| ").split(" | ") if plain.startswith("|") else [plain]:
            for sentence in re.split(r"(?<=[.!?;:]) +(?=[A-Z*`\"])", cell):
                if " " in sentence and WORDS.search(re.sub(r"`[^`]*`", "", sentence)):
                    yield sentence.strip()


def found(page: str) -> list[str]:
    text = (TOP / page).read_text(encoding="utf-8")
    end = PAGES[page]
    assert end is None or f"\n{end}\n" in text, f"{page} has no {end}"
    return list(sentences(text.partition(f"\n{end}\n")[0] if end else text))
