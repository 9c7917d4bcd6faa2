"""The page and the text of all tables.

The sentences of the page are written by hand. Its two tables and the plot are put between marks:
``<!-- table: summary-many -->``, ``<!-- table: summary-one -->``, ``<!-- plot: pair -->``, each up to
``<!-- end -->``.
"""

from __future__ import annotations

import re
from pathlib import Path

from bench.harness import verdicts
from bench.harness.contestants import order, title
from bench.harness.results import Results
from bench.report import plots, summary, tables

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "performance.md"
FOLDER = ROOT / "docs" / "performance"
TABLES, RESULTS, PLOT = FOLDER / "tables.txt", FOLDER / "results.json", FOLDER / "pair.svg"
#: For a table or a plot without results: otherwise a gap would look like a zero.
MISSING = "*Not measured in this run.*"
MARK = re.compile(r"(<!-- (?:table|plot): ([^\n]+?) -->)(.*?)(<!-- end -->)", re.DOTALL)


def all_tables(results: Results) -> str:
    """Every figure of the run, what became of our own targets, versions and the machine."""
    lines = [tables.render(results), "", "Our own targets", ""]
    lines += map(verdicts.line, results.verdicts)
    lines += ["", "Versions", ""]
    lines += [f"  {title(key):<32}{results.versions[key]}" for key in sorted(results.versions, key=order)]
    lines += ["", "The machine", ""]
    lines += [f"  {name.replace('_', ' '):<32}{value}" for name, value in results.machine.items()]
    return "\n".join(line.rstrip() for line in lines) + "\n"


def publish(results: Results) -> list[Path]:
    """Write the page, the tables, the plot and the document for this run. The files that changed."""
    contents = {TABLES: all_tables(results), PLOT: plots.pair(results), RESULTS: results.to_json()}
    parts = {"pair": f"![{plots.WORDS}]({FOLDER.name}/{PLOT.name})" if contents[PLOT] else ""}
    for name, masters in (("summary-many", 5), ("summary-one", 1)):
        parts[name] = summary.summary(results, masters)

    def put(match: re.Match[str]) -> str:
        head, name, _, end = match.groups()
        return f"{head}\n\n{parts[name] or MISSING}\n\n{end}"

    contents[PAGE] = MARK.sub(put, PAGE.read_text(encoding="utf-8"))
    changed = []
    for path, content in contents.items():
        if not path.exists() or path.read_text(encoding="utf-8") != content:
            path.write_text(content, encoding="utf-8")
            changed.append(path)
    return changed
