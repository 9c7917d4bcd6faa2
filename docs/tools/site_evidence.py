"""Tables of the evidence. `python -m evidence --publish` writes their figures, docs/evidence/results.json."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from evidence import __main__ as runner

RESULTS = Path(__file__).resolve().parents[1] / "evidence" / "results.json"
Record = dict[str, Any]


def table() -> str:
    """All parts, as they were last published."""
    records: dict[str, Record] = json.loads(RESULTS.read_text(encoding="utf-8"))
    rows = ["| part | what it does | result | command | measured |", "|---|---|---|---|---|"]
    for part in runner.PARTS:
        if (each := records.get(part.name)) is None:
            continue
        told = each["result"] or _counted([_cells(row) for row in each["rows"]])
        measured = f"{each['date']}, `{each['commit']}`, {_took(each)}"
        rows.append(f"| {part.title} | {part.scope} | {'; '.join(told)} | `{each['command']}` | {measured} |")
    return "".join(f"{row}\n" for row in rows)


def _took(record: Record) -> str:
    seconds = record["seconds"]
    return f"{seconds} s" if seconds < 100 else f"{seconds / 60:.0f} min"


def _cells(row: str) -> list[str]:
    return [cell.strip() for cell in row.strip("|").split("|")]


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
