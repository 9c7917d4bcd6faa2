"""The summary: one row for each lock, from all scenarios."""

from __future__ import annotations

from collections.abc import Callable

from bench.harness.contestants import BY_KEY, family, order, title, tuned
from bench.harness.results import Results, Row
from bench.report.layout import number
from bench.report.tables import failed

Value = Callable[[Row], "float | None"]


def summary(results: Results, masters: int) -> str:
    """In Markdown: one row for each lock, all with the same number of masters; empty without any lock."""
    heading = [
        "",
        "pair, µs",
        "wake-up, ms",
        "owner changes a second",
        "requests a second of 50 idle waiters",
    ]
    if masters > 1:
        heading.append("pair with one of five stalled, x healthy")
    rows = [heading, [":---", *["---:"] * (len(heading) - 1)]]
    for key in locks(results):
        many = key not in BY_KEY or BY_KEY[key].masters == "many"
        if (not many and masters > 1) or (many and masters == 1 and family(key) == "peer"):
            continue
        changes = pick(results, "contention", key, _figure("changes_per_s"), masters=masters)
        faster = pick(results, "contention", f"{key}-tuned", _figure("changes_per_s"), masters=masters)
        cells = [
            pick(results, "pair", key, _figure("p50_us"), masters=masters),
            pick(results, "wake_up", key, _figure("p50_us", 1000), masters=masters),
            changes if faster == "-" else f"{changes} ({faster} tuned)",
            pick(results, "idle", key, _figure("requests_per_s"), masters=masters),
        ]
        if masters > 1:
            cells.append(
                pick(results, "degraded", key, lambda row: row.ratios.get("healthy"), state="one stalled")
            )
        if set(cells) == {"-"}:
            continue  # This lock ran in no scenario of the summary.
        rows.append([f"**{title(key)}**" if family(key) == "rlock" else title(key), *cells])
    lines = [f"| {' | '.join(row)} |" for row in rows]
    return "\n".join([f"N = {masters}:", "", *lines]) if len(lines) > 2 else ""


def _figure(name: str, divisor: float = 1) -> Value:
    return lambda row: row.figures[name] / divisor if name in row.figures else None


def locks(results: Results) -> list[str]:
    """Every lock of the run, at its default settings, ours first."""
    keys = {key for scenario in results.scenarios for case in scenario.cases for key in case.rows}
    chosen = [key for key in keys if family(key) != "floor" and not tuned(key)]
    return sorted(chosen, key=lambda key: (family(key) != "rlock", order(key), key))


def pick(results: Results, scenario: str, key: str, value: Value, **case: object) -> str:
    """One figure of the case with the most contestants; a contestant that failed there says so."""
    found = [one.rows for one in results.find(scenario, **case) if key in one.rows]
    if not found:
        return "-"
    row = max(found, key=len)[key]
    picked = value(row)
    if picked is None:
        return "failed" if failed(row.error) else "-"
    return number(picked)
