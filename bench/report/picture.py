"""From a figure of matplotlib to a picture for a page: the same bytes for the same results.

It takes the reader's colour of text (`currentColor`), so that it can be read on a light and on a dark page;
it is narrow, so that a telephone shows it without shrinking its letters away.
"""

from __future__ import annotations

import io
import re
from collections.abc import Iterator
from contextlib import contextmanager
from html import escape
from typing import Any
from xml.etree import ElementTree

#: For a checkout, where the picture stands alone. The site puts it into the page and leaves this away.
ALONE = "<style>@media (prefers-color-scheme: dark) { svg { color: #ddd } }</style>"
#: Inches of 72 units; a telephone shows about as many pixels as it is wide.
WIDTH = 5.0
#: Ours; also seen by those who tell no red from green, on white and on dark grey.
OURS = "#2f86d6"
#: The others where they need no colour of their own.
THEIRS = "#8d939c"
#: Lines that have to be told from one another (Okabe and Ito); each has a marker of its own as well.
COLOURS = ("#d55e00", "#009e73", "#cc79a7", "#c79a00", "#56a5d9", "#8d939c")
MARKERS = ("s", "^", "D", "v", "P", "X")
#: What becomes the reader's colour.
INK = "#000000"

_SVG = "http://www.w3.org/2000/svg"
_LINK = "{http://www.w3.org/1999/xlink}href"
_SETTINGS: dict[str, Any] = {
    "svg.fonttype": "none",
    "font.family": "DejaVu Sans",  # matplotlib brings it: the layout is the same everywhere
    "font.size": 9.5,
    "axes.titlesize": 10.5,
    "axes.labelsize": 9.5,
    "xtick.labelsize": 9,
    "ytick.labelsize": 9,
    "legend.fontsize": 9,
    "legend.frameon": False,
    "axes.facecolor": "none",
    "figure.facecolor": "none",
    "savefig.facecolor": "none",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.linewidth": 0.6,
    "axes.axisbelow": True,
    "hatch.linewidth": 0.6,
}


@contextmanager
def drawing(name: str) -> Iterator[None]:
    """The settings of a picture; those of the user's own matplotlib have no part in it."""
    import matplotlib

    with matplotlib.rc_context():
        matplotlib.rcdefaults()
        settings: Any = matplotlib.rcParams
        settings.update({**_SETTINGS, "svg.hashsalt": name})
        yield


def panels(rows: int, height: float) -> tuple[Any, list[Any]]:
    """A figure of so many panels, one under the other, of this height in inches each."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(WIDTH, height * rows), layout="constrained")
    return figure, list(figure.subplots(rows, 1, squeeze=False)[:, 0])


def finished(figure: Any, name: str, title: str) -> str:
    """The picture. Call it within `drawing`."""
    out = io.BytesIO()
    # No date, no version, no author: they differ from run to run.
    figure.savefig(out, format="svg", metadata={"Date": None, "Creator": None})
    root = ElementTree.fromstring(out.getvalue())
    for parent in list(root.iter()):
        for child in list(parent):
            if child.tag.endswith(("}metadata", "}style")):
                parent.remove(child)
    for element in root.iter():
        _own(element, name)
    for key in ("width", "height", "version"):
        root.attrib.pop(key, None)
    root.set("font-family", "ui-sans-serif, system-ui, sans-serif")
    root.set("fill", "currentColor")
    root.set("stroke-linejoin", "round")
    root.text = f"\n@ALONE@@TITLE@{root.text or ''}"
    ElementTree.register_namespace("", _SVG)
    text = ElementTree.tostring(root, encoding="unicode")
    told = f"<title>{escape(title)}</title><!-- {maker()} -->"
    text = text.replace("@ALONE@", ALONE).replace("@TITLE@", told)
    return re.sub(r"\n\s*", "\n", re.sub(r"\s+(?=/?>)", "", text)) + "\n"


def maker() -> str:
    """Who draws: another version may put things a hair's breadth elsewhere."""
    import matplotlib

    return f"matplotlib {matplotlib.__version__}"


def _own(element: ElementTree.Element, name: str) -> None:
    """Ids that no other picture of the page has, the reader's colour, and no more digits than are seen."""
    target = element.attrib.pop(_LINK, None)
    if target is not None:
        element.set("href", f"#{name}-{target.removeprefix('#')}")
    if "id" in element.attrib:
        element.set("id", f"{name}-{element.attrib['id']}")
    for key, value in list(element.attrib.items()):
        if key in ("d", "x", "y", "width", "height", "points", "transform"):
            value = re.sub(r"-?\d+\.\d+", _short, value)
        if key in ("clip-path", "style"):
            value = re.sub(r"url\(#([^)]+)\)", rf"url(#{name}-\1)", value)
        if key in ("style", "fill", "stroke"):
            value = value.replace(INK, "currentColor")
            # The font is the reader's; its size and weight are ours.
            value = re.sub(r"font: ((?:\w+ )*)([\d.]+px)[^;]*", _font, value)
            value = re.sub(r"font-family: [^;]*(; |$)", "", value)
        element.set(key, " ".join(value.split()))


def _short(match: re.Match[str]) -> str:
    return f"{float(match[0]):.2f}".rstrip("0").rstrip(".")


def _font(match: re.Match[str]) -> str:
    weight = "; font-weight: bold" if "bold" in match[1] or "700" in match[1] else ""
    return f"font-size: {match[2]}{weight}"
