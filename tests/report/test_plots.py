"""The plots can be read: light and dark, on a telephone, by all eyes, and by none."""

from __future__ import annotations

import re
from typing import Any
from xml.etree import ElementTree

import pytest

from bench.harness.results import Case, Results, Row
from bench.report import flame, picture, plots

from .sample import BROKEN, sample

DRAWN = plots.draw(sample())
SVG = "{http://www.w3.org/2000/svg}"


def texts(name: str) -> list[str]:
    return [text.text or "" for text in ElementTree.fromstring(DRAWN[name]).iter(f"{SVG}text")]


def labels(figure: Any) -> list[str]:
    """What stands beside the bars, from the top."""
    return [label.get_text() for label in figure.axes[0].get_yticklabels()]


def with_rows(scenario: str, rows: dict[str, Row], **case: object) -> Results:
    results = sample()
    for one in results.scenarios:
        if one.name == scenario:
            one.cases = [Case(case, rows)]
    return results


def test_everything_is_drawn_of_a_full_run() -> None:
    assert {*DRAWN} == {f"{name}.svg" for name in [*plots.PLOTS, plots.FLAME]}


def test_nothing_is_drawn_of_an_empty_run() -> None:
    results = sample()
    results.scenarios = []
    assert plots.draw(results) == {}


@pytest.mark.parametrize("name", DRAWN)
def test_a_plot_is_in_the_readers_colour_and_fetches_nothing(name: str) -> None:
    text = DRAWN[name]
    root = ElementTree.fromstring(text)
    assert root.get("fill") == "currentColor"
    assert picture.ALONE in text
    assert "#000" not in text
    assert "white" not in text.replace("white-space", "")
    assert all(target.startswith("#") for target in re.findall(r'href="([^"]*)"', text))
    assert not re.search(r"<script|@import|font-face|<metadata|20\d\d-\d\d-\d\d", text)


@pytest.mark.parametrize("name", DRAWN)
def test_nothing_of_a_plot_has_the_name_of_something_in_another_one(name: str) -> None:
    names = re.findall(r' id="([^"]+)"', DRAWN[name])
    assert len(names) == len({*names})
    assert all(each.startswith(f"{name.removesuffix('.svg')}-") for each in names)
    for target in re.findall(r'(?:href="#|url\(#)([^")]+)', DRAWN[name]):
        assert target in names


@pytest.mark.parametrize("name", [f"{name}.svg" for name in plots.PLOTS])
def test_the_letters_of_a_plot_are_large_enough_on_a_telephone(name: str) -> None:
    root = ElementTree.fromstring(DRAWN[name])
    width = float((root.get("viewBox") or "").split()[2])
    shown = 328 / width  # of 360 pixels, without the margins
    sizes = [float(size) * shown for size in re.findall(r"font-size: ([\d.]+)px", DRAWN[name])]
    assert sizes
    assert min(sizes) >= 7.5


@pytest.mark.parametrize("colour", [picture.OURS, picture.THEIRS, *picture.COLOURS])
def test_a_colour_stands_out_from_white_and_from_the_dark_page(colour: str) -> None:
    def light(told: str) -> float:
        parts = [int(told[i : i + 2], 16) / 255 for i in (1, 3, 5)]
        linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
        return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]

    for paper in ("#ffffff", "#1e2129"):
        high, low = sorted((light(colour) + 0.05, light(paper) + 0.05), reverse=True)
        assert high / low >= 2.4, f"{colour} on {paper}: {high / low:.2f}"


def test_ours_stand_out_and_are_in_their_place() -> None:
    found = re.findall(r'<text style="([^"]*)"[^>]*>([^<]+)</text>', DRAWN["changes.svg"])
    bold = {told for style, told in found if "font-weight: 700" in style or "bold" in style}
    assert {"rlock", "rlock, fair", "rlock.asyncio"} <= bold
    assert "pottery" not in bold
    assert picture.OURS in DRAWN["changes.svg"]


def test_bars_begin_with_the_best_whether_more_or_less_is_better() -> None:
    rows = {
        "rlock": Row({"p50_us": 500.0}),
        "pottery": Row({"p50_us": 900.0}),
        "redsync": Row({"p50_us": 300.0}),
    }
    figure = plots.pair_bars(with_rows("pair", rows, masters=5))
    assert labels(figure) == ["redsync", "rlock", "pottery"]
    rows = {key: Row({"changes_per_s": row.figures["p50_us"]}) for key, row in rows.items()}
    figure = plots.changes_bars(with_rows("contention", rows, masters=5, processes=8, threads=2))
    assert labels(figure) == ["pottery", "rlock", "redsync"]


def test_a_bar_of_nothing_on_a_logarithmic_axis_is_no_error() -> None:
    rows = {"rlock": Row({"requests_per_s": 0.0}), "pottery": Row({"requests_per_s": 900.0})}
    figure: Any = plots.idle_bars(with_rows("idle", rows, masters=5, waiters=50))
    assert "0" in [text.get_text() for text in figure.axes[0].texts]


def test_who_failed_is_in_the_plot_and_says_so() -> None:
    # Not shown would be taken for not measured.
    assert "failed" in texts("pair.svg")
    assert any(BROKEN in told for told in texts("pair.svg"))
    assert "failed: one stalled " in texts("degraded.svg")


def test_a_floor_is_a_dashed_line_and_no_bar() -> None:
    figure: Any = plots.pair_bars(sample())
    axes = figure.axes[0]
    assert not [label for label in axes.get_yticklabels() if label.get_text().startswith("floor")]
    dashed = [line for line in axes.lines if line.get_linestyle() != "-"]
    assert len(dashed) == 3


def test_a_flame_graph_has_every_call_in_its_width() -> None:
    told = flame.flame({"a:f;b:g;[send]": 3.0, "a:f;b:h": 1.0}, "flame", "all")
    assert told is not None
    root = ElementTree.fromstring(told)
    titles = [title.text for title in root.iter(f"{SVG}title")]
    assert titles == ["all", "all: 100.0 %", "a:f: 100.0 %", "b:g: 75.0 %", "[send]: 75.0 %", "b:h: 25.0 %"]
    boxes = {rect.get("y"): float(rect.get("width", "0")) for rect in root.iter(f"{SVG}rect")}
    assert boxes["0"] == pytest.approx(flame.WIDTH, abs=1)
    assert flame.SYSTEM in told


def test_a_flame_graph_of_nothing_is_none() -> None:
    assert flame.flame({}, "flame", "all") is None
