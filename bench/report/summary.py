"""The tables over all scenarios: the summary, the verdicts, the failures, the machine; and single figures."""

from __future__ import annotations

from collections.abc import Callable

from bench.harness import verdicts
from bench.harness.contestants import BY_KEY, family, order, title, tuned
from bench.harness.results import Results, Row
from bench.harness.verdicts import Outcome, Verdict
from bench.report.layout import HYPHEN, said
from bench.report.tables import failed, named
from bench.report.text import Table, number, quoted

Value = Callable[[Row], "float | None"]
OUTCOMES = {Outcome.KEPT: "yes", Outcome.MISSED: "not yet", Outcome.NOT_MEASURED: "not measured"}


def summary(results: Results, masters: int) -> Table:
    """One row for each lock, all with the same number of masters."""
    headings = ["pair, µs", "wake-up, ms", "owner changes a second", "requests a second of 50 idle waiters"]
    table = Table(["", *headings], caption=f"N = {masters}")
    if masters > 1:
        table.heading.append("pair with one of five stalled, x healthy")
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
        table.rows.append([named(key, Row()), *cells])
    return table


def _figure(name: str, divisor: float = 1) -> Value:
    return lambda row: row.figures[name] / divisor if name in row.figures else None


def versions(results: Results) -> Table:
    """The version of each lock, and its runtime."""
    table = Table(["", "version"])
    for key in locks(results):
        table.rows.append([named(key, Row()), results.versions.get(key, "-")])
    return table


def demands(results: Results) -> Table:
    """Each demand, which the page calls a target, its measurement with the interval, and the verdict."""
    table = Table(["target", "of", "measured", "bound", "reached"])
    for verdict in results.verdicts:
        outcome = verdicts.outcome(verdict)
        word = OUTCOMES.get(outcome) or f"undecided: {verdicts.reason(verdict)}"
        scenario = verdict.scenario.replace("_", " ")
        table.rows.append([verdict.text, scenario, _measured(verdict), verdicts.bound(verdict), word])
    return table


def _measured(verdict: Verdict) -> str:
    if verdict.value is None:
        return "-"
    value = number(verdict.value)
    if verdict.rounds and verdict.low is not None and verdict.high is not None:
        value += f" ({number(verdict.low)}{HYPHEN}{number(verdict.high)})"
    return f"{value} {verdict.unit}".strip()


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


def failures(results: Results) -> Table:
    """Every contestant that failed, where, and its error."""
    table = Table(["", "where", "error"])
    by_error: dict[tuple[str, str], list[str]] = {}
    for scenario in results.scenarios:
        for case in scenario.cases:
            for key, row in case.rows.items():
                if row.error and failed(row.error):
                    where = f"{scenario.name.replace('_', ' ')} ({said(case.case)})"
                    by_error.setdefault((key, row.error), []).append(where)
    for (key, error), places in sorted(by_error.items(), key=lambda item: (order(item[0][0]), item[0])):
        where = "; ".join(places[:3]) + (f"; and {len(places) - 3} more" if len(places) > 3 else "")
        table.rows.append([title(key), where, quoted(error)])
    return table


def machine(results: Results) -> Table:
    """The commit, the time and the machine of the run."""
    table = Table(["", ""])
    table.rows = [
        ["document", "[results.json](../docs/performance/results.json)"],
        ["begun", results.began],
        ["took", f"{number(results.took_s)} s"],
        *([name.replace("_", " "), _text(value)] for name, value in results.machine.items()),
    ]
    return table


def _text(value: object) -> str:
    if isinstance(value, list | tuple):
        return ", ".join(map(_text, value))
    return number(value) if isinstance(value, float) else str(value)
