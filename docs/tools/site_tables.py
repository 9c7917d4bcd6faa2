"""The tables that the code computes. They stand in the pages between two marks, for checkouts as well."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from pathlib import Path

import site_cli
import site_evidence
import site_metrics
import site_rules

from rlock.rules import timing
from rlock.rules.options import ClientOptions
from rlock.rules.quorum import quorum

DOCS = Path(__file__).resolve().parents[1]
#: Every page that may have a computed table.
PAGES = sorted([*DOCS.rglob("*.md"), *(DOCS.parent / "evidence").rglob("*.md")])
_TABLE = re.compile(r"(<!-- computed table: ([\w-]+) -->\n)(.*?)(<!-- end of the table -->)", re.DOTALL)


def _rows(head: str, rows: list[list[str]]) -> str:
    titles = head.split("|")
    lines = [titles, ["---"] * len(titles), *rows]
    return "".join("| " + " | ".join(cell.strip() for cell in row) + " |\n" for row in lines)


def sizing() -> str:
    """The durations that follow from a ttl."""
    rows = []
    for ttl in (2.0, 5.0, 10.0, 30.0):
        lease = ClientOptions(ttl, ttl).lease(None)
        pause = timing.valid_until(0.0, ttl) - timing.renew_period(ttl) - lease.request_timeout
        rows.append(
            [
                f"{ttl:g}",
                f"{lease.request_timeout:.3g}",
                f"{timing.renew_period(ttl):.3g}",
                f"{pause:.3g}",
                f"{timing.guard_time(ttl):.4g}",
                f"{timing.longest_acquisition(ttl):.3g}",
            ]
        )
    return _rows(
        "ttl|request time-out|renewed every|longest outage that costs nothing|restart guard (max_ttl = ttl)|"
        "longest acquisition",
        rows,
    )


def masters() -> str:
    """The number of masters that each fleet can lose."""
    rows = [[str(count), str(quorum(count)), str(count - quorum(count))] for count in (1, 3, 5)]
    return _rows("masters|quorum|may be gone", rows)


TABLES: Mapping[str, Callable[[], str]] = {
    "sizing": sizing,
    "masters": masters,
    "rules": site_rules.table,
    "settings": site_cli.settings,
    "exit-codes": site_cli.exit_codes,
    "commands": site_cli.commands,
    "checks": site_cli.checks,
    "metrics": site_metrics.metrics,
    "records": site_metrics.records,
    "evidence": site_evidence.table,
}


def filled(text: str) -> str:
    """A page with its tables as the code computes them."""
    return _TABLE.sub(lambda match: match[1] + TABLES[match[2]]() + match[4], text)


def write_tables() -> None:
    """Bring the tables of all pages up to date."""
    for page in PAGES:
        text = page.read_text(encoding="utf-8")
        if filled(text) != text:
            page.write_text(filled(text), encoding="utf-8")
