"""Which figures of a scenario are shown, and under which words."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from bench.harness.results import Row
from bench.report.text import number, size

#: A cell that is narrow must not break within a range.
HYPHEN = "\u2011"
#: The steps of a pair in the order of a round, with what a reader calls them.
STEPS: Mapping[str, str] = {
    "build_us": "build the command",
    "send_us": "send it to all masters",
    "wait_us": "wait for the masters",
    "read_us": "read and decode answers",
    "count_us": "count votes, keep connections",
    "rest_us": "lease, holds, the lock itself",
}
#: The ends of the names of figures, which are their units.
UNITS: Mapping[str, str] = {
    "_us": "µs",
    "_ms": "ms",
    "_s": "s",
    "_mb": "MB",
    "_per_s": "a second",
    "_bytes": "bytes",
    "_percent": "%",
}


def unit(figure: str) -> str:
    """What a figure is counted in; empty: a plain number."""
    ends = [end for end in UNITS if figure.endswith(end)]
    return UNITS[max(ends, key=len)] if ends else ""


@dataclass(frozen=True)
class Column:
    """One figure, or one ratio. `spread`: the figures that say how far rounds lie apart."""

    figure: str
    title: str = ""
    spread: tuple[str, str] | None = None
    ratio: bool = False

    @property
    def heading(self) -> str:
        return self.title or named(self.figure)

    def of(self, row: Row) -> float | None:
        """The value in a row, if it is there."""
        return (row.ratios if self.ratio else row.figures).get(self.figure)

    def cell(self, row: Row) -> str:
        """The value as it is written, or a dash."""
        value = self.of(row)
        if value is None:
            return "-"
        if self.ratio:
            return f"{value:.2f}" if value < 100 else number(value)
        told = size(value) if unit(self.figure) == "bytes" else number(value)
        if self.spread and all(end in row.figures for end in self.spread):
            low, high = (number(row.figures[end]) for end in self.spread)
            told = f"{told} ({low}{HYPHEN}{high})"
        return told


def named(figure: str) -> str:
    """The heading of a figure that nobody has thought of: its name, and its unit behind a comma."""
    ends = [end for end in UNITS if figure.endswith(end)]
    end = max(ends, key=len) if ends else ""
    told = figure.removesuffix(end).replace("_", " ")
    between = " " if end == "_per_s" else ", "
    return f"{told}{between}{UNITS[end]}" if end and UNITS[end] != "bytes" else told


@dataclass(frozen=True)
class Layout:
    """How the cases of a scenario become tables.

    `across`: the settings whose values stand side by side, one table for each of `pivots`; `columns` are then
    shown for the last value, beside the first pivot. Without it each case is a table with `columns`, and what
    is neither in them nor `hidden` comes behind them.
    `best`: the column that rows are sorted by, the best first; `high`: more is better.
    """

    best: Column
    columns: tuple[Column, ...] = ()
    across: tuple[str, ...] = ()
    pivots: tuple[Column, ...] = ()
    hidden: frozenset[str] = frozenset()
    high: bool = False


#: How a setting is said; those that are not here are said as they are called, those with "" not at all.
SETTINGS: Mapping[str, str] = {
    "masters": "N = {}",
    "processes": "{} processes",
    "threads": "{} threads each",
    "hold_ms": "{} ms held",
    "waiters": "{} waiters",
    "locks": "{} locks",
    "names": "{} names",
    "ttl_ms": "ttl {} ms",
    "rtt_ms": "masters {} ms away",
    "round_trip_us": "",
}


def said(case: Mapping[str, object]) -> str:
    """A case in words."""
    words = []
    for key, value in case.items():
        told = f"{value:,}" if isinstance(value, int) and not isinstance(value, bool) else f"{value}"
        if isinstance(value, list | tuple):
            told = ", ".join(f"{each}" for each in (value if len({*value}) > 1 else value[:1]))
        text = SETTINGS.get(key, "{}" if isinstance(value, str) else f"{key.replace('_', ' ')} {{}}")
        if value == 1 and key in ("processes", "threads"):
            text = {"processes": "1 process", "threads": "1 thread each"}[key]
        if text:
            words.append(text.format(told))
    return ", ".join(words)


def usual(figure: str) -> bool:
    """Whether no table shows a figure by itself: the ends of a spread, and how many there were."""
    return figure.endswith(("_low", "_high", "_low_us", "_high_us", "count", "window_s")) or figure == "turns"


P50 = Column("p50_us", "p50, µs", ("p50_low_us", "p50_high_us"))
P99 = Column("p99_us", "p99, µs")
_CHANGES = Column("changes_per_s", "owner changes a second", ("changes_per_s_low", "changes_per_s_high"))
_RATE = Column("pairs_per_s", "pairs a second", ("pairs_per_s_low", "pairs_per_s_high"))
_REQUESTS = Column("requests_per_s", "requests a second at all masters")
_CPU = Column("cpu_percent", "CPU of the process, % of one core")
_THREADS, _MEMORY = Column("threads"), Column("rss_mb", "memory of the process, MB")
_BYTES = Column("held_bytes", "a held lock on a master")
_HELD = Column("cpu_percent", "CPU, % of one core")

LAYOUTS: Mapping[str, Layout] = {
    "pair": Layout(
        P50,
        (
            P99,
            Column("rlock", "x rlock", ratio=True),
            Column("floor-all", "x fan-out floor", ratio=True),
            Column("floor-majority", "x majority floor", ratio=True),
            Column("floor-c", "x floor in C", ratio=True),
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
            Column("acquire_round_trips", "acquire alone, in round trips"),
            Column("hand_off_round_trips", "hand-off, in round trips"),
            P50,
        ),
    ),
    "contention": Layout(
        _CHANGES,
        (
            _CHANGES,
            Column("rlock", "x rlock", ratio=True),
            Column("sections_per_s", "sections a second"),
            Column("hand_off_p50_us", "hand-off p50, µs"),
            Column("hand_off_p99_us", "p99, µs"),
            Column("cpu_ms_per_section", "CPU of a section, ms"),
            Column("requests_per_section", "requests of a section"),
            Column("attempts_per_section", "attempts"),
            Column("jain", "Jain's index"),
            Column("starved", "starved threads"),
            Column("longest_wait_ms", "longest wait, ms"),
            Column("overlaps"),
        ),
        hidden=frozenset(
            {"processes", "threads", "errors", "hand_offs", "commands_per_section", "scripts_per_section"}
        ),
        high=True,
    ),
    "wake_up": Layout(
        P50,
        (
            P99,
            Column("floor-blpop", "x a bare BLPOP", ratio=True),
            Column("floor-hand-off", "x message and claim", ratio=True),
        ),
        ("masters",),
        (P50,),
    ),
    "idle": Layout(_REQUESTS, (_REQUESTS, _CPU, _THREADS, _MEMORY)),
    "held": Layout(
        _HELD,
        (
            Column("locks", "locks held"),
            _HELD,
            Column("cpu_percent_per_1000", "the same for 1,000 locks"),
            _THREADS,
            Column("connections"),
            _MEMORY,
            Column("keys_lost", "keys lost"),
        ),
    ),
    "steps": Layout(
        P50,
        (
            P50,
            *(Column(figure, f"{words}, µs") for figure, words in STEPS.items()),
            Column("user_cpu_us", "CPU of the client, user, µs"),
            Column("system_cpu_us", "kernel, µs"),
            Column("masters_cpu_us", "CPU of all masters, µs"),
        ),
        hidden=frozenset({"samples", "p99_us"}),
    ),
    "names": Layout(
        _BYTES,
        (
            _BYTES,
            Column("left_bytes", "left of it on a master, afterwards"),
            Column("left_keys", "keys left of it"),
            Column("left_for_ever", "keys left for ever"),
            Column("client_bytes", "growth of the process"),
            Column("pairs_per_s", "pairs a second"),
        ),
    ),
}
