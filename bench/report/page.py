"""The page: its sentences are written by hand, its tables and plots are put between marks.

``<!-- table: NAME -->`` ... ``<!-- end -->``   a scenario's tables, or one of `SPECIAL`
``<!-- plot: NAME -->`` ... ``<!-- end -->``    a plot
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from pathlib import Path

from bench.harness.results import Results
from bench.report import plots, summary
from bench.report.tables import fragment
from bench.report.text import Table

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "performance.md"
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


def filled(text: str, results: Results | None, drawn: Mapping[str, str] | None = None) -> str:
    """The page with the tables and plots of these results between its marks; for None all are missing."""
    pictures = drawn if drawn is not None else plots.draw(results) if results else {}

    def put(match: re.Match[str]) -> str:
        head, kind, name, _, end = match.groups()
        content = table(name, results) if kind == "table" else picture(name, pictures)
        return f"{head}\n\n{content.strip() or MISSING}\n\n{end}"

    return MARK.sub(put, text)


def table(name: str, results: Results | None) -> str:
    """One table of the page."""
    if results is None:
        return ""
    if name in SPECIAL:
        made = SPECIAL[name](results)
        return made.markdown() if made.rows else ("Nobody.\n" if name == "failures" else "")
    return fragment(results, name)


def picture(name: str, drawn: Mapping[str, str]) -> str:
    """One plot of the page."""
    return f"![{plots.PLOTS[name].words}]({FOLDER.name}/{name}.svg)" if f"{name}.svg" in drawn else ""


def publish(results: Results, page: Path = PAGE, folder: Path = FOLDER) -> list[Path]:
    """Write the page, its plots and its document for this run. The files that changed."""
    drawn = plots.draw(results)
    text = page.read_text(encoding="utf-8")
    new = filled(text, results, drawn)
    folder.mkdir(parents=True, exist_ok=True)
    for old in folder.glob("*.svg"):
        if old.name not in drawn:
            old.unlink()
    contents = {folder / name: svg for name, svg in drawn.items()}
    contents |= {folder / RESULTS.name: results.to_json(), page: new}
    changed = []
    for path, content in contents.items():
        if not path.exists() or path.read_text(encoding="utf-8") != content:
            path.write_text(content, encoding="utf-8")
            changed.append(path)
    return changed
