"""The plots of the page: bars in SVG, drawn from the results alone. The same results give the same bytes.

A plot takes the reader's colour of text (`currentColor`): it is readable on a light and on a dark page.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from html import escape

from bench.harness.results import Case, Results
from bench.report.contestants import family, order, title, tuned
from bench.report.tables import failed
from bench.report.text import number

#: For a checkout, where the plot is a file. The site puts it into the page, without this style.
ALONE = "<style>@media (prefers-color-scheme: dark) { svg { color: #ddd } }</style>"
#: Ours and the others: colour-blind readers can tell them apart, on white and on dark grey.
OURS, THEIRS = "#2f86d6", "#8d939c"
#: Of the picture, of the names, and of the longest bar. The rest is for the figures.
WIDTH, NAMES, LONGEST = 450, 190, 200
ROW = 18


@dataclass(frozen=True)
class Plot:
    """One figure of the case with the most masters. `words`: for readers who cannot see the plot."""

    scenario: str
    figure: str
    label: str
    words: str
    more_is_better: bool = False
    log: bool = False
    #: 1,000 shows microseconds as milliseconds.
    divisor: float = 1.0


PLOTS: Mapping[str, Plot] = {
    "pair": Plot(
        "pair",
        "p50_us",
        "µs for one acquire and release, N = 5",
        "Bars: the median time of one pair on five masters, by contestant",
    ),
    "changes": Plot(
        "contention",
        "changes_per_s",
        "owner changes a second, N = 5 (more is better), logarithmic",
        "Bars: owner changes a second under contention, by contestant",
        more_is_better=True,
        log=True,
    ),
    "hand-off": Plot(
        "wake_up",
        "p50_us",
        "ms from the release to the waiter's return, N = 5, logarithmic",
        "Bars: the time from a release to the waiter's return, by contestant",
        log=True,
        divisor=1e3,
    ),
    "idle": Plot(
        "idle",
        "requests_per_s",
        "requests a second of 50 idle waiters, N = 5, logarithmic",
        "Bars: requests a second that idle waiters send, by contestant",
        log=True,
    ),
}


def draw(results: Results) -> dict[str, str]:
    """All plots for which there are figures, by the names of their files."""
    drawn = {}
    for name, plot in PLOTS.items():
        cases = list(results.find(plot.scenario))
        if cases:
            largest = max(cases, key=lambda case: (case.case.get("masters", 0), len(case.rows)))
            if svg := bars(largest, plot):
                drawn[f"{name}.svg"] = svg
    return drawn


def bars(case: Case, plot: Plot) -> str:
    """A bar for each contestant, the best on top, its interval as a line; failures say so."""
    values = {
        key: row.figures[plot.figure] / plot.divisor
        for key, row in case.rows.items()
        if plot.figure in row.figures
    }
    if not values:
        return ""
    sign = -1 if plot.more_is_better else 1
    keys = sorted(values, key=lambda key: (sign * values[key], order(key)))
    keys += [key for key, row in case.rows.items() if failed(row.error) and key not in values]
    intervals = {key: case.rows[key].intervals.get(plot.figure, ()) for key in values}
    ends = {key: [end / plot.divisor for end in found[:2]] for key, found in intervals.items()}
    highest = max(high for key in values for high in (values[key], *ends[key]))
    least = min([value for value in values.values() if value > 0], default=1.0) / 2

    def length(value: float) -> float:
        if plot.log:
            share = math.log(max(value, least) / least) / math.log(max(highest, 2 * least) / least)
        else:
            share = value / (highest or 1.0)
        return round(LONGEST * share, 1)

    parts = []
    for i, key in enumerate(keys):
        y, weight = (i + 1) * ROW, "bold" if family(key) == "rlock" else "normal"
        parts.append(
            f'<text x="{NAMES - 6}" y="{y + 12}" text-anchor="end" font-weight="{weight}">'
            f"{escape(title(key))}</text>"
        )
        if key not in values:
            parts.append(f'<text x="{NAMES + 4}" y="{y + 12}" font-style="italic">failed</text>')
            continue
        colour, opacity = OURS if family(key) == "rlock" else THEIRS, 0.6 if tuned(key) else 1
        if family(key) == "floor":
            opacity = 0.3
        right = max(map(length, (values[key], *ends[key])))
        parts.append(
            f'<rect x="{NAMES}" y="{y + 2}" width="{length(values[key])}" height="{ROW - 5}" '
            f'fill="{colour}" fill-opacity="{opacity}"/>'
        )
        if ends[key]:
            low, high = map(length, ends[key])
            parts.append(
                f'<path d="M{NAMES + low:g} {y + 8}H{NAMES + high:g}" stroke="currentColor" fill="none"/>'
            )
        parts.append(
            f'<text x="{NAMES + right + 4:g}" y="{y + 12}" font-weight="{weight}">'
            f"{number(values[key])}</text>"
        )
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {(len(keys) + 1) * ROW + 4}" '
            'font-family="ui-sans-serif, system-ui, sans-serif" font-size="10.5" fill="currentColor">',
            ALONE,
            f"<title>{escape(plot.words)}</title>",
            f'<text x="{NAMES}" y="12">{escape(plot.label)}</text>',
            *parts,
            "</svg>\n",
        ]
    )
