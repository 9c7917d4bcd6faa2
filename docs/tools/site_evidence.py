"""Tables of the evidence. `python -m evidence --publish` writes their figures, docs/evidence/results.json."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

from evidence import __main__ as runner

RESULTS = Path(__file__).resolve().parents[1] / "evidence" / "results.json"
Record = dict[str, Any]


def table(name: str) -> str:
    """``evidence``: all parts; else the rows of a part."""
    records: dict[str, Record] = json.loads(RESULTS.read_text(encoding="utf-8"))
    if name == "evidence":
        return _all(records)
    record = records.get(f"{name}-long", records[name])
    return _source(record) + _lines(*_as_table(record["rows"]))


def _source(*records: Record) -> str:
    told = (
        f"`{each['command']}`, {each['date']}, commit `{each['commit']}`, {each['machine']}, {_took(each)}"
        for each in records
    )
    return f"\n{'; '.join(told)}:\n\n"


def _took(record: Record) -> str:
    seconds = record["seconds"]
    return f"{seconds} s" if seconds < 100 else f"{seconds / 60:.0f} min"


def _row(*cells: str) -> str:
    return f"| {' | '.join(cells)} |"


def _lines(*rows: str) -> str:
    return "".join(f"{row}\n" for row in rows)


def _as_table(rows: list[str]) -> list[str]:
    """Lines of a table as they are; of others ("always: 30 cuts, 40 holds: green") a column a figure."""
    if rows[0].startswith("|"):
        return rows
    figures = [re.findall(r"(\d+) ([a-z ]*[a-z])", row) for row in rows]
    (names,) = {tuple(name for _, name in each) for each in figures}
    cells = (
        (row.partition(": ")[0], *(number for number, _ in each), row.rpartition(": ")[2])
        for row, each in zip(rows, figures, strict=True)
    )
    head = [_row("run", *names, "result"), f"|---|{'--:|' * len(names)}---|"]
    return head + [_row(*each) for each in cells]


def _cells(row: str) -> list[str]:
    return [cell.strip() for cell in row.strip("|").split("|")]


def _all(records: dict[str, Record]) -> str:
    rows = ["| part | what it does | result | command | measured |", "|---|---|---|---|---|"]
    for part in runner.PARTS:
        if (each := records.get(part.name)) is None:
            continue
        told = each["result"] or _counted([_cells(row) for row in each["rows"]])
        measured = f"{each['date']}, `{each['commit']}`, {_took(each)}"
        rows.append(f"| {part.title} | {part.scope} | {'; '.join(told)} | `{each['command']}` | {measured} |")
    return _lines(*rows)


def _counted(rows: list[list[str]]) -> list[str]:
    """The searches of TLC, summed up for each module; of other rows the number."""
    if rows[0][:3] != ["case", "module", "result"]:
        return [f"{len(rows) - 2 * (rows[1][0] == '---')} rows, each as expected"]
    told = []
    for module in dict.fromkeys(row[1] for row in rows[2:]):
        states = [int(row[3].replace(",", "")) for row in rows[2:] if row[1] == module and row[2] == "safe"]
        others = sum(row[1] == module for row in rows[2:]) - len(states)
        told.append(f"{module} {len(states)} safe ({sum(states):,} states), {others} found")
    return told
