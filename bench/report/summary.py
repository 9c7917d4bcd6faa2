"""The tables that look over all scenarios: the summary, who failed, the machine, and single figures."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from bench.harness.results import Results, Row
from bench.report.contestants import family, order, title, tuned
from bench.report.layout import said
from bench.report.peers import FACTS
from bench.report.tables import failed, named
from bench.report.text import Table, number, quoted

Value = Callable[[Row], float | None]


def summary(results: Results) -> Table:
    """One row for each lock: what a reader chooses by."""
    table = Table(
        [
            "",
            "pair, N = 5, µs",
            "pair, N = 1, µs",
            "wake-up, ms",
            "owner changes a second",
            "requests a second of 50 idle waiters",
            "pair with one of five stalled, x healthy",
            "reentrant",
            "renewed",
            "fencing token",
            "source",
        ]
    )
    broken = {key for scenario in results.scenarios for key in _failed(scenario.name, results)}
    for key in locks(results):
        facts = FACTS.get(key)
        changes = best(results, "contention", key, lambda row: row.figures.get("changes_per_s"))
        faster = best(results, "contention", f"{key}-tuned", lambda row: row.figures.get("changes_per_s"))
        table.rows.append(
            [
                named(key, "failed" if key in broken else None),
                pick(results, "pair", key, lambda row: row.figures.get("p50_us"), masters=5),
                pick(results, "pair", key, lambda row: row.figures.get("p50_us"), masters=1),
                best(results, "wake_up", key, lambda row: _ms(row.figures.get("p50_us"))),
                f"{changes} ({faster.split()[0]} tuned)" if faster not in ("-", "failed") else changes,
                best(results, "idle", key, lambda row: row.figures.get("requests_per_s")),
                pick(results, "degraded", key, lambda row: row.ratios.get("healthy"), state="one stalled"),
                *((facts.reentrant, facts.renewed, facts.fencing, facts.source) if facts else ("-",) * 4),
            ]
        )
    return table


def fairness(results: Results) -> Table:
    """What has to be known to compare fairly: when an acquire returns, how a waiter learns."""
    table = Table(["", "version", "acquire waits for the answers of", "who waits", "renews a held lock"])
    for key in locks(results):
        facts = FACTS.get(key)
        told = (facts.returns, facts.waits, facts.renewed) if facts else ("-",) * 3
        table.rows.append([named(key, None), results.versions.get(key, "-"), *told])
    return table


def locks(results: Results) -> list[str]:
    """Every lock of the run, at its default settings, ours first."""
    keys = {key for scenario in results.scenarios for case in scenario.cases for key in case.rows}
    chosen = [key for key in keys if family(key) != "floor" and not tuned(key)]
    return sorted(chosen, key=lambda key: (family(key) != "rlock", order(key), key))


def pick(results: Results, scenario: str, key: str, value: Value, **case: object) -> str:
    """One figure of one case; who failed there says so."""
    for found in results.find(scenario, **case):
        row = found.rows.get(key)
        if row is not None:
            told = value(row)
            return number(told) if told is not None else "failed" if failed(row.error) else "-"
    return "-"


def best(results: Results, scenario: str, key: str, value: Value) -> str:
    """The figure with most masters; of the case with the widest field, if several have as many."""
    found = [case for case in results.find(scenario) if key in case.rows]
    found.sort(key=lambda case: (case.case.get("masters", 0), len(case.rows)), reverse=True)
    for case in found[:1]:
        told = value(case.rows[key])
        if told is None:
            return "failed" if failed(case.rows[key].error) else "-"
        return number(told) if case.case.get("masters") != 1 else f"{number(told)} (N\u00a0=\u00a01)"
    return "-"


def _ms(us: float | None) -> float | None:
    return None if us is None else us / 1000


def _failed(scenario: str, results: Results) -> Iterator[str]:
    for case in results.find(scenario):
        yield from (key for key, row in case.rows.items() if failed(row.error))


def failures(results: Results) -> Table:
    """Everybody who failed anywhere, and what they said."""
    table = Table(["", "where", "error"])
    told: dict[tuple[str, str], list[str]] = {}
    for scenario in results.scenarios:
        for case in scenario.cases:
            for key, row in case.rows.items():
                if row.error and failed(row.error):
                    where = f"{scenario.name.replace('_', ' ')} ({said(case.case)})"
                    told.setdefault((key, row.error), []).append(where)
    for (key, error), places in sorted(told.items(), key=lambda item: (order(item[0][0]), item[0])):
        where = "; ".join(places[:3]) + (f"; and {len(places) - 3} more" if len(places) > 3 else "")
        table.rows.append([title(key), where, quoted(error)])
    return table


def machine(results: Results) -> Table:
    """Where and when it was measured."""
    table = Table(["", ""])
    table.rows = [
        ["document", "[results.json](performance/results.json)"],
        ["begun", results.began],
        ["took", f"{number(results.took_s)} s"],
        *([name.replace("_", " "), _said(value)] for name, value in results.machine.items()),
    ]
    return table


def _said(value: object) -> str:
    if isinstance(value, list | tuple):
        return ", ".join(map(_said, value))
    return number(value) if isinstance(value, float) else str(value)


def figure(results: Results, told: str) -> str | None:
    """One figure within a sentence: ``SCENARIO KEY FIGURE SETTING=VALUE ...``; None if it is not there.

    FIGURE may be ``x:BASE`` for a ratio.
    """
    scenario, key, name, *settings = told.split()
    wanted = dict(setting.split("=", 1) for setting in settings)
    for case in results.find(scenario):
        if all(str(case.case.get(setting)).replace(" ", "_") == value for setting, value in wanted.items()):
            row = case.rows.get(key, Row())
            value = row.ratios.get(name[2:]) if name.startswith("x:") else row.figures.get(name)
            if value is not None:
                return f"{value:.2f}" if name.startswith("x:") else number(value)
    return None
