"""A flame graph out of stacks: what calls is above what it calls, wide is long. No script in it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from html import escape

from bench.report.picture import ALONE, OURS

WIDTH, HEIGHT, LETTER = 720.0, 17.0, 5.6
#: Narrower than this, in units of the picture, is left away.
THINNEST = 1.0
#: What a call into the kernel is, against what is Python.
SYSTEM = "#d55e00"
_CALLS = {"send", "sendall", "sendmsg", "poll", "select", "recv", "recv_into"}


@dataclass
class Node:
    """A function in one place of the stacks, and those that it calls."""

    name: str
    samples: float = 0.0
    inner: dict[str, Node] = field(default_factory=dict)


def tree(stacks: Mapping[str, float], root: str) -> Node:
    """The stacks as a tree, the outermost function first."""
    top = Node(root)
    for stack, samples in sorted(stacks.items()):
        node = top
        node.samples += samples
        for name in filter(None, stack.split(";")):
            node = node.inner.setdefault(name, Node(name))
            node.samples += samples
    return top


def flame(stacks: Mapping[str, float], name: str, root: str) -> str | None:
    """The picture, or None of no stacks."""
    top = tree(stacks, root)
    if not top.samples:
        return None
    parts: list[str] = []
    depth = _draw(top, 0.0, 0, WIDTH / top.samples, top.samples, parts)
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH:g} {(depth + 1) * HEIGHT:g}" '
            f'font-family="ui-monospace, monospace" font-size="9" fill="currentColor" class="{name}">',
            ALONE,
            f"<title>{escape(root)}</title>",
            *parts,
            "</svg>\n",
        ]
    )


def _draw(node: Node, x: float, depth: int, scale: float, whole: float, parts: list[str]) -> int:
    """One box and all that are under it; how deep it went."""
    width = node.samples * scale
    short = node.name.rpartition(":")[2] if depth else node.name
    system = short.strip("[]") in _CALLS and short.startswith("[")
    share = 100 * node.samples / whole
    opacity = 0.55 if system else 0.16 + 0.1 * (depth % 3)
    room = int((width - 4) / LETTER)
    # A name that does not fit begins with what tells it from others: the end of it.
    shown = short if len(short) <= room else short.rpartition(".")[2]
    shown = shown if len(shown) <= room else f"{shown[: room - 1]}…" if room >= 4 else ""
    parts.append(
        f'<g><title>{escape(node.name)}: {share:.1f} %</title><rect x="{x:.2f}" y="{depth * HEIGHT:g}" '
        f'width="{max(width - 0.5, 0.4):.2f}" height="{HEIGHT - 1:g}" rx="1.5" '
        f'fill="{SYSTEM if system else OURS}" fill-opacity="{opacity:.2f}"/>'
        + (f'<text x="{x + 2:.2f}" y="{depth * HEIGHT + 11:g}">{escape(shown)}</text>' if shown else "")
        + "</g>"
    )
    deepest = depth
    for inner in node.inner.values():
        if inner.samples * scale >= THINNEST:
            deepest = max(deepest, _draw(inner, x, depth + 1, scale, whole, parts))
        x += inner.samples * scale
    return deepest
