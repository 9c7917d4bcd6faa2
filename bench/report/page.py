"""The pages: their sentences are written by hand, their tables and the plot are put between marks.

``<!-- table: NAME -->`` ... ``<!-- end -->``   the first table of a scenario, or one of `SPECIAL`
``<!-- plot: pair -->`` ... ``<!-- end -->``    the plot
"""

from __future__ import annotations

import os.path
import re
from collections.abc import Callable, Mapping
from pathlib import Path

from bench.harness.results import Results
from bench.report import plots, summary
from bench.report.tables import fragment
from bench.report.text import Table

ROOT = Path(__file__).parents[2]
#: The summary for users, and all scenarios.
PAGES = (ROOT / "docs" / "performance.md", ROOT / "bench" / "results.md")
FOLDER = ROOT / "docs" / "performance"
RESULTS, PLOT = FOLDER / "results.json", FOLDER / "pair.svg"
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


def table(name: str, results: Results) -> str:
    """One table of a page."""
    if name in SPECIAL:
        made = SPECIAL[name](results)
        return made.markdown() if made.rows else ("Nobody." if name == "failures" else "")
    return fragment(results, name)


def publish(results: Results) -> list[Path]:
    """Write the pages, the plot and the document for this run. The files that changed."""
    contents = {PLOT: plots.pair(results), RESULTS: results.to_json()}
    for page in PAGES:
        picture = f"![{plots.WORDS}]({os.path.relpath(PLOT, page.parent)})" if contents[PLOT] else ""

        def put(match: re.Match[str], picture: str = picture) -> str:
            head, kind, name, _, end = match.groups()
            content = table(name, results).strip() if kind == "table" else picture
            return f"{head}\n\n{content or MISSING}\n\n{end}"

        contents[page] = MARK.sub(put, page.read_text(encoding="utf-8"))
    changed = []
    for path, content in contents.items():
        if not path.exists() or path.read_text(encoding="utf-8") != content:
            path.write_text(content, encoding="utf-8")
            changed.append(path)
    return changed
