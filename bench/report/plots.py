"""The plots of the page, each drawn from the results and nothing else."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from bench.harness.results import Case, Results, Row
from bench.report.contestants import alone, family, title, tuned
from bench.report.flame import flame
from bench.report.layout import STEPS, said
from bench.report.picture import COLOURS, INK, drawing, finished, panels
from bench.report.shapes import GRID, Bars, bars, dots, lines
from bench.report.tables import failed
from bench.report.text import number


@dataclass(frozen=True)
class Plot:
    """`words`: what it shows, for those who cannot see it. `draw`: None where the results have none of it."""

    words: str
    draw: Callable[[Results], Any | None]


def cases(results: Results, scenario: str, **settings: object) -> list[Case]:
    return list(results.find(scenario, **settings))


def largest(found: list[Case], setting: str) -> Case | None:
    """The case with most of something; None of none."""
    return max(found, key=lambda case: case.case.get(setting, 0), default=None)


def main_contest(results: Results) -> Case | None:
    """The comparison in which the whole field takes part."""
    return max(
        cases(results, "contention"), key=lambda c: (c.case.get("masters", 0), len(c.rows)), default=None
    )


def pair_bars(results: Results) -> Any | None:
    case = largest(cases(results, "pair"), "masters")
    how = (
        Bars(
            "p50_us",
            f"µs for one acquire and release, N = {case.case['masters']}",
            "p50_low_us",
            "p50_high_us",
        )
        if case
        else None
    )
    return bars(case, how) if case and how else None


def pair_lines(results: Results) -> Any | None:
    # Who knows one master only has no line; how often one polls is nothing where nobody waits.
    found = {
        float(case.case["masters"]): Case(
            case.case, {key: row for key, row in case.rows.items() if not tuned(key) and not alone(key)}
        )
        for case in cases(results, "pair")
    }
    return lines(found, lambda row: row.figures.get("p50_us"), "µs, median", "masters (N)", log=True)


def throughput_lines(results: Results) -> Any | None:
    found = {
        float(case.case["threads"]): case
        for case in cases(results, "throughput")
        if case.case.get("processes", 1) == 1 and "threads" in case.case
    }
    label = "pairs a second"
    return lines(found, lambda row: row.figures.get("pairs_per_s"), label, "threads, a lock each", log=True)


def changes_bars(results: Results) -> Any | None:
    case = main_contest(results)
    how = Bars(
        "changes_per_s", "owner changes a second (more is better)", "changes_per_s_low", "changes_per_s_high",
        log=True, more_is_better=True,
    )  # fmt: skip
    return bars(case, how) if case else None


def cpu_bars(results: Results) -> Any | None:
    case = main_contest(results)
    return (
        bars(case, Bars("cpu_ms_per_section", "ms of CPU of all workers for one section", log=True))
        if case
        else None
    )


def hand_off_bars(results: Results) -> Any | None:
    case = largest(cases(results, "wake_up"), "masters")
    how = Bars(
        "p50_us", "ms from release to the waiter's return", "p50_low_us", "p50_high_us", log=True, divide=1e3
    )
    return bars(case, how) if case else None


def waiters_lines(results: Results) -> Any | None:
    most = largest(cases(results, "contention"), "masters")
    found = {
        float(case.case["processes"]): case
        for case in cases(results, "contention", threads=1)
        if most and case.case["masters"] == most.case["masters"]
    }
    label = "owner changes a second"
    return lines(
        found, lambda row: row.figures.get("changes_per_s"), label, "processes that contend", log=True
    )


def idle_bars(results: Results) -> Any | None:
    case = largest(cases(results, "idle"), "masters")
    return bars(case, Bars("requests_per_s", "requests a second at all masters", log=True)) if case else None


def held_bars(results: Results) -> Any | None:
    found = cases(results, "held")
    case = max(found, key=lambda case: len(case.rows), default=None)
    return bars(case, Bars("cpu_percent", "% of one core while the locks are kept")) if case else None


def ratios(
    results: Results, scenario: str, setting: str, value: Callable[[Row], float | None]
) -> tuple[dict[str, dict[str, float]], dict[str, str]]:
    """For each setting the value of each contestant; and who failed where."""
    found: dict[str, dict[str, float]] = {}
    broken: dict[str, list[str]] = {}
    for case in cases(results, scenario):
        words = said({setting: case.case[setting]})
        for key, row in case.rows.items():
            if family(key) == "floor":
                continue
            told = value(row)
            if failed(row.error) and told is None:
                broken.setdefault(key, []).append(words)
            elif told is not None:
                found.setdefault(words, {})[key] = told
    return found, {key: f"failed: {', '.join(words)}" for key, words in broken.items()}


def degraded_dots(results: Results) -> Any | None:
    settings, broken = ratios(results, "degraded", "state", lambda row: row.ratios.get("healthy"))
    settings.pop("healthy", None)
    return dots(settings, broken, "p50, x of the same contestant with all healthy", log=True)


def wide_area_dots(results: Results) -> Any | None:
    settings, broken = ratios(results, "wide_area", "rtt_ms", lambda row: row.figures.get("round_trips"))
    return dots(settings, broken, "one pair, in round trips to the q-th nearest master", log=True)


def steps_bars(results: Results) -> Any | None:
    found = [case for case in cases(results, "steps") if "stacks" not in case.case]
    rows = {key: row for case in found for key, row in case.rows.items() if "build_us" in row.figures}
    if not rows:
        return None
    figure, (axes,) = panels(1, 1.55 + 0.42 * len(rows))
    for place, row in enumerate(rows.values()):
        left = 0.0
        for index, (figure_name, words) in enumerate(STEPS.items()):
            wide = row.figures[figure_name]
            axes.barh(
                place, wide, left=left, height=0.62, color=COLOURS[index], edgecolor=INK, linewidth=0.4,
                label=words if not place else None,
            )  # fmt: skip
            left += wide
        axes.annotate(number(left), (left, place), xytext=(3, 0), textcoords="offset points", va="center")
    longest = max(sum(row.figures[name] for name in STEPS) for row in rows.values())
    axes.set_xlim(0, longest * 1.13)
    axes.set_yticks(range(len(rows)), [title(key).replace(": ", ":\n").replace(", ", ",\n") for key in rows])
    axes.set_ylim(len(rows) - 0.4, -0.6)
    axes.tick_params(axis="y", length=0)
    axes.set_xlabel("µs of one pair, N = 5")
    axes.grid(axis="x", **GRID)
    figure.legend(loc="outside lower center", ncols=2, fontsize=8.5, handlelength=1.2)
    return figure


def flame_graph(results: Results, key: str = "rlock") -> str | None:
    for case in cases(results, "steps"):
        if "stacks" in case.case and key in case.rows:
            return flame(case.rows[key].figures, "flame", "one pair of rlock, N = 5: real time")
    return None


PLOTS: Mapping[str, Plot] = {
    "pair": Plot("Bars: the median time of one pair on five masters, by contestant", pair_bars),
    "pair-masters": Plot("Lines: the median time of one pair against the number of masters", pair_lines),
    "throughput": Plot("Lines: pairs a second against the number of threads", throughput_lines),
    "changes": Plot("Bars: owner changes a second under contention, by contestant", changes_bars),
    "hand-off": Plot("Bars: the time from a release to the waiter's return, by contestant", hand_off_bars),
    "cpu": Plot("Bars: CPU time of the workers for one critical section, by contestant", cpu_bars),
    "waiters": Plot("Lines: owner changes a second against the number of processes", waiters_lines),
    "idle": Plot("Bars: requests a second that idle waiters send, by contestant", idle_bars),
    "degraded": Plot("Dots: the time of a pair with one master ill, against all healthy", degraded_dots),
    "wide-area": Plot("Dots: the time of a pair in round trips to the master that decides", wide_area_dots),
    "held": Plot("Bars: CPU share of a process that keeps many locks, by contestant", held_bars),
    "steps": Plot("Stacked bars: the steps of one pair of rlock and of the floors", steps_bars),
}
#: The only one that matplotlib does not draw.
FLAME = "flame"
FLAME_WORDS = "Flame graph: the functions in which one pair of rlock spends its time"


def words(name: str) -> str:
    """What a plot shows, in words."""
    return FLAME_WORDS if name == FLAME else PLOTS[name].words


def draw(results: Results) -> dict[str, str]:
    """All plots for which there are figures, by the names of their files."""
    drawn = {}
    for name, plot in PLOTS.items():
        with drawing(name):
            figure = plot.draw(results)
            if figure is not None:
                drawn[f"{name}.svg"] = finished(figure, name, plot.words)
    graph = flame_graph(results)
    if graph:
        drawn[f"{FLAME}.svg"] = graph
    return drawn


__all__ = ["FLAME", "PLOTS", "Plot", "draw", "words"]
