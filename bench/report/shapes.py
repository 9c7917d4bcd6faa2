"""The kinds of plot: bars for contestants, lines along a setting, dots for several settings."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from bench.harness.results import Case, Row
from bench.report.contestants import family, order, title, tuned
from bench.report.picture import COLOURS, INK, MARKERS, OURS, THEIRS, panels
from bench.report.tables import failed
from bench.report.text import number

GRID = {"color": INK, "alpha": 0.18, "linewidth": 0.5}
#: The marks of our own variants, where lines are told apart: full, then with other dashes.
_OURS_STYLES = ("-", "-.", ":")


@dataclass(frozen=True)
class Bars:
    """What is drawn of each row: the figure, and the ends of its whisker."""

    figure: str
    label: str
    low: str = ""
    high: str = ""
    log: bool = False
    more_is_better: bool = False
    #: By how much the figure is divided: µs told as ms.
    divide: float = 1.0


def bars(case: Case, how: Bars) -> Any | None:
    """A bar for each contestant, the best on top; floors are dashed lines; who failed says so."""
    known = {
        key: row.figures[how.figure] / how.divide
        for key, row in case.rows.items()
        if how.figure in row.figures
    }
    contestants = [key for key in known if family(key) != "floor"]
    if not contestants:
        return None
    contestants.sort(key=lambda key: (known[key], order(key)), reverse=how.more_is_better)
    out = [key for key, row in case.rows.items() if failed(row.error) and key not in known]
    names = [*contestants, *sorted((key for key in out if family(key) != "floor"), key=order)]
    floors = sorted((key for key in known if family(key) == "floor"), key=lambda key: known[key])
    figure, (axes,) = panels(1, 0.75 + 0.235 * len(names) + 0.17 * len(floors))
    positive = [value for value in known.values() if value > 0]
    if how.log and positive:
        # Nothing has no place on such an axis: it begins low enough to show how far the others are from it.
        least = min(positive) / 2 if len(positive) == len(known) else min(1.0, min(positive) / 2)
        _log(axes.xaxis, least, max(positive) * 4)
    else:
        least = 0.0
        axes.set_xlim(0, max([*known.values(), 1e-9]) * 1.22)
    for place, key in enumerate(names):
        if key not in known:
            axes.annotate(
                "failed", (0, place), xytext=(4, 0), xycoords=("axes fraction", "data"),
                textcoords="offset points", va="center", style="italic",
            )  # fmt: skip
            continue
        value = known[key]
        axes.barh(
            place, max(value - least, 0.0), left=least, height=0.66, color=_colour(key), alpha=_alpha(key)
        )
        ends = [case.rows[key].figures.get(end) for end in (how.low, how.high)]
        right = value
        if ends[0] is not None and ends[1] is not None:
            low, right = ends[0] / how.divide, max(ends[1] / how.divide, value)
            axes.plot([low, right], [place, place], color=INK, linewidth=0.9)
        axes.annotate(
            number(value), (max(right, least), place), xytext=(3, 0), textcoords="offset points", va="center",
            fontsize=8.5, weight="bold" if family(key) == "rlock" else "normal",
        )  # fmt: skip
    for place, key in enumerate(floors):
        axes.axvline(
            known[key], color=INK, linestyle=("--", ":", "-.")[place % 3], linewidth=0.9, label=title(key)
        )
    _named(axes, names)
    if floors:
        axes.legend(
            loc="lower center", bbox_to_anchor=(0.4, 1.0), ncols=1, handlelength=2.4, borderaxespad=0.2
        )
    axes.set_xlabel(how.label)
    axes.grid(axis="x", **GRID)
    return figure


def _log(axis: Any, low: float, high: float) -> None:
    """A logarithmic axis with figures that are read as they stand, not as powers."""
    from matplotlib.ticker import FuncFormatter, LogLocator, NullLocator

    axis.axes.set(**{f"{axis.axis_name}scale": "log", f"{axis.axis_name}lim": (low, high)})
    axis.set_major_locator(LogLocator(subs=(1.0,) if high / low > 100 else (1.0, 2.0, 5.0), numticks=12))
    axis.set_minor_locator(NullLocator())
    axis.set_major_formatter(FuncFormatter(lambda value, _: number(round(value, 9))))


def _named(axes: Any, names: Sequence[str]) -> None:
    axes.set_yticks(range(len(names)), [title(key) for key in names])
    axes.set_ylim(len(names) - 0.45, -0.55)
    axes.tick_params(axis="y", length=0)
    for label, key in zip(axes.get_yticklabels(), names, strict=True):
        if family(key) == "rlock":
            label.set_fontweight("bold")


def _colour(key: str) -> str:
    return OURS if family(key) == "rlock" else THEIRS


def _alpha(key: str) -> float:
    return 0.6 if tuned(key) else 1.0


def lines(
    cases: Mapping[float, Case],
    value: Callable[[Row], float | None],
    label: str,
    along: str,
    *,
    log: bool = False,
) -> Any | None:
    """A line for each contestant along a setting; ours are thick, floors dashed."""
    points: dict[str, list[tuple[float, float]]] = {}
    for setting, case in sorted(cases.items()):
        for key, row in case.rows.items():
            found = value(row)
            if found is not None and (found > 0 or not log):
                points.setdefault(key, []).append((setting, found))
    if not points:
        return None
    figure, (axes,) = panels(1, 2.9 + 0.17 * ((len(points) + 1) // 2))
    ours = others = floors = 0
    for key in sorted(points, key=order):
        xs, ys = zip(*points[key], strict=True)
        style: dict[str, Any] = {"label": title(key), "linewidth": 1.2, "markersize": 4}
        if family(key) == "rlock":
            style.update(color=OURS, linewidth=2.4, marker="o", linestyle=_OURS_STYLES[ours % 3], zorder=4)
            ours += 1
        elif family(key) == "floor":
            style.update(color=INK, linestyle=("--", ":", "-.")[floors % 3])
            floors += 1
        else:
            style.update(color=COLOURS[others % len(COLOURS)], marker=MARKERS[others // 2 % len(MARKERS)])
            others += 1
        axes.plot(xs, ys, **style)
    if log:
        values = [value for found in points.values() for _, value in found]
        _log(axes.yaxis, min(values) / 1.3, max(values) * 1.3)
    else:
        axes.set_ylim(bottom=0)
    settings = sorted(cases)
    if settings[0] > 0 and settings[-1] / settings[0] > 8:
        axes.set_xscale("log")
    axes.set_xticks(settings, [number(setting) for setting in settings])
    axes.xaxis.minorticks_off()
    axes.set_xlabel(along)
    axes.set_ylabel(label)
    axes.grid(**GRID)
    figure.legend(loc="outside lower center", ncols=2, fontsize=8.5, handlelength=2.6, columnspacing=1.2)
    return figure


def dots(
    settings: Mapping[str, Mapping[str, float]], broken: Mapping[str, str], label: str, *, log: bool
) -> Any | None:
    """A row for each contestant, in it a mark for each setting; a line marks 1."""
    names = sorted({key for found in settings.values() for key in found} | {*broken}, key=_first_ours)
    if not names or not any(settings.values()):
        return None
    figure, (axes,) = panels(1, 1.15 + 0.25 * len(names) + 0.17 * len(settings))
    for place, key in enumerate(names):
        values = [found[key] for found in settings.values() if key in found]
        if values:
            axes.plot(
                [min(values), max(values)], [place, place], color=_colour(key), linewidth=2.2, alpha=0.45
            )
        if key in broken:
            axes.annotate(
                f"{broken[key]} ", (1, place), xycoords=("axes fraction", "data"), va="center", ha="right",
                fontsize=8.5, style="italic",
            )  # fmt: skip
    for index, (setting, found) in enumerate(settings.items()):
        there = [key for key in names if key in found]
        axes.plot(
            [found[key] for key in there], [names.index(key) for key in there], linestyle="none",
            marker=MARKERS[index % 6], color=COLOURS[index % 6], markersize=6, label=setting,
        )  # fmt: skip
    values = [value for found in settings.values() for value in found.values() if value > 0]
    low, high = min([1.0, *values]) / 1.15, max([1.0, *values]) * 1.15
    if log:
        _log(axes.xaxis, low, high * (high / low) ** 0.8 if broken else high)
    axes.axvline(1.0, color=INK, linewidth=0.9, linestyle="--")
    _named(axes, names)
    axes.set_xlabel(label)
    axes.grid(axis="x", **GRID)
    figure.legend(loc="outside lower center", ncols=2, fontsize=8.5)
    return figure


def _first_ours(key: str) -> tuple[bool, bool, int]:
    return family(key) != "rlock", family(key) == "floor", order(key)
