"""The plot of the page: bars in SVG, drawn from the results alone. The same results give the same bytes.

It takes the reader's colour of text (`currentColor`): it is readable on a light and on a dark page.
"""

from __future__ import annotations

from html import escape

from bench.harness.contestants import family, order, title, tuned
from bench.harness.results import Results
from bench.report.layout import number
from bench.report.tables import failed

#: For a checkout, where the plot is a file. The site puts it into the page, without this style.
ALONE = "<style>@media (prefers-color-scheme: dark) { svg { color: #ddd } }</style>"
#: Ours and the others: colour-blind readers can tell them apart, on white and on dark grey.
OURS, THEIRS = "#2f86d6", "#8d939c"
#: Of the picture, of the names, and of the longest bar. The rest is for the figures.
WIDTH, NAMES, LONGEST = 450, 190, 200
ROW = 18
LABEL = "µs for one acquire and release, N = 5"
#: For readers who cannot see the plot.
WORDS = "Bars: the median time of one pair on five masters, by contestant"


def pair(results: Results) -> str:
    """A bar for each contestant, the best on top, its interval as a line; failures say so."""
    rows = next((case.rows for case in results.find("pair", masters=5)), {})
    values = {key: row.figures["p50_us"] for key, row in rows.items() if "p50_us" in row.figures}
    if not values:
        return ""
    keys = sorted(values, key=lambda key: (values[key], order(key)))
    keys += [key for key, row in rows.items() if failed(row.error) and key not in values]
    ends = {key: rows[key].intervals.get("p50_us", ())[:2] for key in values}
    highest: float = max(high for key in values for high in (values[key], *ends[key]))

    def length(value: float) -> float:
        return round(LONGEST * value / highest, 1)

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
            f"<title>{escape(WORDS)}</title>",
            f'<text x="{NAMES}" y="12">{escape(LABEL)}</text>',
            *parts,
            "</svg>\n",
        ]
    )
