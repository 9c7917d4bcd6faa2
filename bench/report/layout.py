"""The figures of each scenario that the tables show, and their headings."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from bench.harness.figures import LEAST_ROUNDS
from bench.harness.results import Row

#: A plain hyphen would let a narrow cell break within a range.
HYPHEN = "\u2011"


def number(value: float) -> str:
    """Three significant digits: 0.412, 4.12, 41.2, 412, 4,120; a count stays as it is."""
    if value == 0:
        return "0"
    if abs(value) >= 100 or value == int(value):
        return f"{value:,.0f}"
    digits = max(0, 2 - math.floor(math.log10(abs(value))))
    text = f"{value:.{min(digits, 4)}f}"
    # 99.96 would be rounded to 100.0, which has four digits.
    return number(round(value)) if abs(value) >= 10 and abs(round(value, digits)) >= 100 else text


@dataclass(frozen=True)
class Column:
    """One figure, or one ratio. `interval`: with the range in which noise may move it."""

    figure: str
    heading: str
    interval: bool = False
    ratio: bool = False

    def of(self, row: Row) -> float | None:
        return (row.ratios if self.ratio else row.figures).get(self.figure)

    def cell(self, row: Row) -> str:
        """The value as it is written, or a dash."""
        value = self.of(row)
        if value is None:
            return "-"
        if self.ratio:
            return f"{value:.2f}" if value < 100 else number(value)
        if not self.interval or self.figure not in row.intervals:
            return number(value)
        low, high, rounds = row.intervals[self.figure]
        if rounds == 1:
            return f"{number(value)} (1 round)"
        few = f", {rounds} rounds" if 0 < rounds < LEAST_ROUNDS else ""
        return f"{number(value)} ({number(low)}{HYPHEN}{number(high)}{few})"


@dataclass(frozen=True)
class Layout:
    """How the cases of a scenario become tables.

    `across`: the settings whose values stand side by side, one table for each of `pivots`; `columns` are then
    shown for the last value, beside the first pivot. Without it each case is a table with `columns`.
    `best`: the column that sorts the rows, the best first; `high`: more is better.
    """

    best: Column
    columns: tuple[Column, ...] = ()
    across: tuple[str, ...] = ()
    pivots: tuple[Column, ...] = ()
    high: bool = False


#: The words of a setting; a setting without an entry has its own name, and "" hides one.
SETTINGS: Mapping[str, str] = {
    "masters": "N = {}",
    "processes": "{} processes",
    "threads": "{} threads each",
    "hold_ms": "{} ms held",
    "waiters": "{} waiters",
    "locks": "{} locks",
    "readers": "{} % readers",
    "ttl_ms": "ttl {} ms",
    "rtt_ms": "masters {} ms away",
    "round_trip_us": "",
}


def said(case: Mapping[str, object]) -> str:
    words = []
    for key, value in case.items():
        text = f"{value:,}" if isinstance(value, int) else f"{value}"
        if isinstance(value, list | tuple):
            text = ", ".join(f"{each}" for each in (value if len({*value}) > 1 else value[:1]))
        form = SETTINGS.get(key, "{}" if isinstance(value, str) else f"{key.replace('_', ' ')} {{}}")
        if value == 1 and key in ("processes", "threads"):
            form = {"processes": "1 process", "threads": "1 thread each"}[key]
        if form:
            words.append(form.format(text))
    return ", ".join(words)


P50 = Column("p50_us", "p50, µs", interval=True)
P99 = Column("p99_us", "p99, µs")
_CHANGES = Column("changes_per_s", "owner changes a second", interval=True)
_SECTIONS = Column("sections_per_s", "sections a second", interval=True)
_RATE = Column("pairs_per_s", "pairs a second", interval=True)
_REQUESTS = Column("requests_per_s", "requests a second at all masters", interval=True)
_CPU = Column("cpu_percent", "CPU of the process, % of one core")
_TO_OURS = Column("rlock", "x rlock", ratio=True)
_THREADS, _MEMORY = Column("threads", "threads"), Column("rss_mb", "memory of the process, MB")
_HELD = Column("cpu_percent", "CPU, % of one core", interval=True)

LAYOUTS: Mapping[str, Layout] = {
    "pair": Layout(
        P50,
        (
            P99,
            Column("server_us", "CPU of a master, µs"),
            Column("script_us", "of it in scripts, µs"),
            _TO_OURS,
            Column("floor-all", "x fan-out floor", ratio=True),
            Column("floor-majority", "x majority floor", ratio=True),
        ),
        ("masters",),
        (P50,),
    ),
    "nested": Layout(P50, (P99,), ("masters",), (P50,)),
    "throughput": Layout(
        _RATE,
        (),
        ("processes", "threads"),
        (_RATE, Column("cpu_us_per_pair", "CPU of a pair, µs")),
        high=True,
    ),
    "degraded": Layout(
        P50,
        (),
        ("state",),
        (
            P50,
            Column("healthy", "p50, x healthy", ratio=True),
            P99,
            Column("healthy_p99", "p99, x healthy", ratio=True),
        ),
    ),
    "wide_area": Layout(
        P50,
        (),
        ("rtt_ms",),
        (
            Column("round_trips", "one pair, in round trips"),
            Column("acquire_round_trips", "acquire alone, in round trips", interval=True),
            Column("hand_off_round_trips", "hand-off, in round trips", interval=True),
            P50,
        ),
    ),
    "contention": Layout(
        _CHANGES,
        (
            _CHANGES,
            _TO_OURS,
            Column("sections_per_s", "sections a second"),
            Column("hand_off_p50_us", "hand-off p50, µs", interval=True),
            Column("hand_off_p99_us", "p99, µs"),
            Column("cpu_ms_per_section", "CPU of a section, ms"),
            Column("requests_per_section", "requests of a section"),
            Column("attempts_per_section", "attempts"),
            Column("jain", "Jain's index"),
            Column("starved", "starved threads"),
            Column("overlaps", "overlaps"),
        ),
        high=True,
    ),
    "read_write": Layout(
        _SECTIONS,
        (
            _SECTIONS,
            Column("writer_p99_ms", "a writer's wait p99, ms"),
            Column("writer_wait_ms", "the longest, ms"),
            Column("attempts_per_section", "attempts"),
            Column("overlaps", "overlaps"),
        ),
        high=True,
    ),
    "wake_up": Layout(P50, (P99, _TO_OURS), ("masters",), (P50,)),
    "idle": Layout(_REQUESTS, (_REQUESTS, _CPU, _THREADS, _MEMORY)),
    "held": Layout(
        _HELD,
        (
            Column("locks", "locks held"),
            _HELD,
            Column("cpu_percent_per_1000", "the same for 1,000 locks"),
            _THREADS,
            Column("connections", "connections"),
            _MEMORY,
            Column("keys_lost", "keys lost"),
            Column("requests_per_s", "requests a second"),
        ),
    ),
}
