"""Results as tables of text: all figures of all scenarios."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from bench.harness.contestants import family, order, title
from bench.harness.results import Case, Results, Row, Scenario
from bench.report.layout import LAYOUTS, Layout, number, said

FAMILIES = ("rlock", "peer", "floor")


@dataclass
class Table:
    heading: list[str]
    rows: list[list[str]] = field(default_factory=list)
    caption: str = ""
    notes: list[str] = field(default_factory=list)

    def lines(self) -> list[str]:
        """In columns: the first one is text, the others are aligned to the right."""
        rows = (self.heading, *self.rows)
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        lines = [f"  {self.caption}"] if self.caption else []
        for first, *others in rows:
            cells = [cell.rjust(width) for cell, width in zip(others, widths[1:], strict=True)]
            lines.append("  " + "  ".join([first.ljust(widths[0]), *cells]).rstrip())
        return [*lines, *(f"  ! {note}" for note in self.notes), ""]


def render(results: Results) -> str:
    kind = "a quick run: its figures mean nothing" if results.quick else "a run"
    lines = [f"{kind}, {results.began}, {number(results.took_s)} s"]
    for scenario in results.scenarios:
        lines += ["", scenario.title, f"  {scenario.question}", ""]
        lines += [line for table in tables(scenario) for line in table.lines()]
    return "\n".join(lines)


def tables(scenario: Scenario) -> list[Table]:
    layout = LAYOUTS[scenario.name]
    cases = list(scenario.cases)
    if layout.across:
        return [table for group in _groups(cases, layout.across) for table in _across(group, layout)]
    cases.sort(key=lambda case: -case.case.get("masters", 0))
    return [_one(case, layout) for case in cases]


def _split(case: Case, across: Sequence[str]) -> tuple[str, str]:
    """The settings in words: those that stand side by side, and the others."""
    beside = {key: value for key, value in case.case.items() if key in across}
    return said(beside), said({key: value for key, value in case.case.items() if key not in across})


def _groups(cases: Sequence[Case], across: Sequence[str]) -> list[list[Case]]:
    """Cases that differ only in these settings, together."""
    found: dict[str, list[Case]] = {}
    for case in cases:
        found.setdefault(_split(case, across)[1], []).append(case)
    return list(found.values())


def _one(case: Case, layout: Layout) -> Table:
    columns = [
        column for column in layout.columns if any(column.of(row) is not None for row in case.rows.values())
    ]
    table = Table(["", *(column.heading for column in columns)], caption=said(case.case))
    for key in ranked(case.rows, layout):
        row = case.rows[key]
        table.rows.append([named(key, row), *(column.cell(row) for column in columns)])
    table.notes = notes({key: {"": row} for key, row in case.rows.items()})
    return table


def _across(cases: Sequence[Case], layout: Layout) -> list[Table]:
    words = [_split(case, layout.across)[0] for case in cases]
    rest = _split(cases[-1], layout.across)[1]
    rows: dict[str, dict[str, Row]] = {}
    for word, case in zip(words, cases, strict=True):
        for key, row in case.rows.items():
            rows.setdefault(key, {})[word] = row
    # By the last case; rows without a value there by the case before, and so on.
    ranks = [
        [key for key in ranked(c.rows, layout) if layout.best.of(c.rows[key]) is not None] for c in cases
    ]
    keys = list(dict.fromkeys([*(key for found in reversed(ranks) for key in found), *rows]))
    keys.sort(key=lambda key: FAMILIES.index(family(key)))
    tables: list[Table] = []
    if not any(layout.best.of(row) is not None for found in rows.values() for row in found.values()):
        failures = [[named(key, Row(error="failed")), *["-"] * len(words)] for key in keys]
        return [Table(["", *words], failures, rest, notes(rows))]
    for pivot in layout.pivots:
        if not any(pivot.of(row) is not None for found in rows.values() for row in found.values()):
            continue
        extra = [] if tables else [c for c in layout.columns if any(c.of(r) for r in cases[-1].rows.values())]
        headings = [*words, *(f"{words[-1]}: {column.heading}" for column in extra)]
        table = Table(["", *headings], caption=", ".join(filter(None, [rest, pivot.heading])))
        for key in keys:
            found = [rows[key].get(word, Row()) for word in words]
            cells = [pivot.cell(row) for row in found] + [column.cell(found[-1]) for column in extra]
            if any(pivot.of(row) is not None or row.error for row in found):
                worst = next((row for row in found if failed(row.error)), found[-1])
                table.rows.append([named(key, worst), *cells])
        tables.append(table)
    tables[-1].notes = notes(rows)
    return tables


def failed(error: str | None) -> bool:
    """Whether something went wrong. A lock that lacks a function has not failed."""
    return error is not None and not error.startswith("Unsupported:")


def named(key: str, row: Row) -> str:
    """The name of a row, with other conditions in brackets, and with a mark for a failure."""
    return title(key) + (f" ({row.differs})" if row.differs else "") + (" †" if failed(row.error) else "")


def notes(rows: Mapping[str, Mapping[str, Row]]) -> list[str]:
    """The errors under a table; the same error in several cases once."""
    found = []
    for key in sorted(rows, key=order):
        by_error: dict[str, list[str]] = {}
        for word, row in rows[key].items():
            if row.error:
                by_error.setdefault(row.error, []).append(word)
        for error, words in by_error.items():
            where = "; ".join(word for word in words if word) if len(words) < len(rows[key]) else ""
            mark = "† " if failed(error) else ""
            found.append(f"{mark}{title(key)}{where and f', {where}'}: {error[:160]}")
    return found


def ranked(rows: Mapping[str, Row], layout: Layout) -> list[str]:
    """Ours, then the peers, the best first, those without figures last; then the floors."""

    def place(key: str) -> tuple[int, bool, float, int]:
        value = layout.best.of(rows[key])
        value = value if value is None or not layout.high else -value
        return FAMILIES.index(family(key)), value is None, value or 0.0, order(key)

    return sorted(rows, key=place)
