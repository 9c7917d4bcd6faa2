"""The page: its prose is written by hand, its figures, tables and plots are put between marks.

``<!-- table: NAME -->`` ... ``<!-- end -->``   a scenario's tables, or one of `SPECIAL`
``<!-- plot: NAME -->`` ... ``<!-- end -->``    a plot
``<!-- figure: SCENARIO KEY FIGURE SETTING=VALUE -->`` ... ``<!-- end -->``    a figure within a sentence
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from pathlib import Path

from bench.harness import demands
from bench.harness.results import Results
from bench.report import plots, summary
from bench.report.tables import fragment
from bench.report.text import Table, number

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "performance.md"
FOLDER = ROOT / "docs" / "performance"
RESULTS = FOLDER / "results.json"
#: What stands where the results have nothing. It is said, so that nobody takes a gap for a zero.
MISSING = "*Not measured in this run.*"
MARK = re.compile(r"(<!-- (table|plot|figure): ([^\n]+?) -->)(.*?)(<!-- end -->)", re.DOTALL)


class UnknownMarkError(Exception):
    """The page asks for something that there never is."""


def kept(results: Results) -> Table:
    """Each demand, what was measured, and whether it is kept."""
    table = Table(["demand on rlock", "of", "measured", "bound", "kept"])
    words = {True: "yes", False: "**no**", None: "not measured"}
    for verdict in demands.judge(results):
        demand = verdict.demand
        bound = f"{'at most' if demand.at_most else 'at least'} {demand.bound:g} {demand.unit}".strip()
        value = "-" if verdict.value is None else f"{number(verdict.value)} {demand.unit}".strip()
        scenario = demand.scenario.replace("_", " ")
        table.rows.append([demand.text, scenario, value, bound, words[verdict.kept]])
    return table


SPECIAL: Mapping[str, Callable[[Results], Table]] = {
    "summary": summary.summary,
    "demands": kept,
    "fairness": summary.fairness,
    "failures": summary.failures,
    "machine": summary.machine,
}


def filled(text: str, results: Results | None, drawn: Mapping[str, str] | None = None) -> str:
    """The page with everything between its marks as the results have it; of None all of it is missing."""
    pictures = drawn if drawn is not None else plots.draw(results) if results else {}

    def put(match: re.Match[str]) -> str:
        head, kind, name, _, end = match.groups()
        if kind == "figure":
            return f"{head}{(results and summary.figure(results, name)) or '?'}{end}"
        told = table(name, results) if kind == "table" else picture(name, pictures)
        return f"{head}\n\n{told.strip() or MISSING}\n\n{end}"

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
    if name != plots.FLAME and name not in plots.PLOTS:
        raise UnknownMarkError(f"there is no plot {name!r}")
    return f"![{plots.words(name)}]({FOLDER.name}/{name}.svg)" if f"{name}.svg" in drawn else ""


def published() -> Results | None:
    """The results that the page is made of, if there are any yet."""
    return Results.read(RESULTS) if RESULTS.exists() else None


def publish(results: Results, page: Path = PAGE, folder: Path = FOLDER) -> list[Path]:
    """Make the page, its plots and its document those of this run. What was written."""
    drawn = plots.draw(results)
    text = page.read_text(encoding="utf-8")
    new = filled(text, results, drawn)
    folder.mkdir(parents=True, exist_ok=True)
    for old in folder.glob("*.svg"):
        if old.name not in drawn:
            old.unlink()
    contents = {folder / name: told for name, told in drawn.items()}
    contents |= {folder / RESULTS.name: results.to_json(), page: new}
    changed = []
    for path, told in contents.items():
        if not path.exists() or path.read_text(encoding="utf-8") != told:
            path.write_text(told, encoding="utf-8")
            changed.append(path)
    return changed
