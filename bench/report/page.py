"""The pages: their sentences are written by hand, their tables and plots are put between marks.

``<!-- table: NAME -->`` ... ``<!-- end -->``   a scenario's tables, or one of `SPECIAL`
``<!-- plot: NAME -->`` ... ``<!-- end -->``    a plot
"""

from __future__ import annotations

import os.path
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from bench.harness.results import Results
from bench.report import plots, summary
from bench.report.tables import fragment
from bench.report.text import Table

ROOT = Path(__file__).parents[2]
#: The summary for users, and all tables.
PAGES = (ROOT / "docs" / "performance.md", ROOT / "bench" / "results.md")
FOLDER = ROOT / "docs" / "performance"
RESULTS = FOLDER / "results.json"
#: For a table or a plot without results: otherwise a gap would look like a zero.
MISSING = "*Not measured in this run.*"
MARK = re.compile(r"(<!-- (table|plot): ([^\n]+?) -->)(.*?)(<!-- end -->)", re.DOTALL)

SPECIAL: Mapping[str, Callable[[Results], Table]] = {
    "summary-many": lambda results: summary.summary(results, 5),
    "summary-one": lambda results: summary.summary(results, 1),
    "demands": summary.demands,
    "versions": summary.versions,
    "failures": summary.failures,
    "machine": summary.machine,
}


def filled(text: str, results: Results, drawn: Mapping[str, str], folder: str) -> str:
    """A page with the tables and plots of these results between its marks."""

    def put(match: re.Match[str]) -> str:
        head, kind, name, _, end = match.groups()
        content = table(name, results) if kind == "table" else picture(name, drawn, folder)
        return f"{head}\n\n{content.strip() or MISSING}\n\n{end}"

    return MARK.sub(put, text)


def table(name: str, results: Results) -> str:
    """One table of a page."""
    if name in SPECIAL:
        made = SPECIAL[name](results)
        return made.markdown() if made.rows else ("Nobody.\n" if name == "failures" else "")
    return fragment(results, name)


def picture(name: str, drawn: Mapping[str, str], folder: str) -> str:
    """One plot of a page; ``folder`` is the way from the page to the plots."""
    return f"![{plots.PLOTS[name].words}]({folder}/{name}.svg)" if f"{name}.svg" in drawn else ""


def publish(results: Results, pages: Sequence[Path] = PAGES, folder: Path = FOLDER) -> list[Path]:
    """Write the pages, their plots and the document for this run. The files that changed."""
    drawn = plots.draw(results)
    folder.mkdir(parents=True, exist_ok=True)
    for old in folder.glob("*.svg"):
        if old.name not in drawn:
            old.unlink()
    contents = {folder / name: svg for name, svg in drawn.items()}
    contents[folder / RESULTS.name] = results.to_json()
    for page in pages:
        way = os.path.relpath(folder, page.parent)
        contents[page] = filled(page.read_text(encoding="utf-8"), results, drawn, way)
    changed = []
    for path, content in contents.items():
        if not path.exists() or path.read_text(encoding="utf-8") != content:
            path.write_text(content, encoding="utf-8")
            changed.append(path)
    return changed
