"""A few elements of SVG. All lines have the reader's own colour (`currentColor`), light or dark."""

from __future__ import annotations

from html import escape

#: For a checkout, which shows the file by itself. The site puts the drawing into the page without this.
ALONE = "<style>@media (prefers-color-scheme: dark) { svg { color: #ddd } }</style>"
GREEN, AMBER, RED, BLUE = "#2e9e5b", "#d08a00", "#d1453b", "#3b7dd8"


class Picture:
    """A drawing; later elements cover earlier ones."""

    def __init__(self, name: str, width: int, height: int, title: str) -> None:
        self.name, self.width, self.height, self.title = name, width, height, title
        self.parts: list[str] = []

    def text(
        self, x: float, y: float, words: str, *, anchor: str = "middle", size: int = 14, more: str = ""
    ) -> None:
        """Text; a newline begins a new line."""
        for number, line in enumerate(words.split("\n")):
            self.parts.append(
                f'<text x="{x:g}" y="{y + number * size * 1.25:g}" text-anchor="{anchor}" font-size="{size}"'
                f"{more and ' ' + more}>{escape(line)}</text>"
            )

    def box(
        self, x: float, y: float, width: float, height: float, *, fill: str = "none", opacity: float = 0.18
    ) -> None:
        """A box with round corners and a pale fill."""
        self.parts.append(
            f'<rect x="{x:g}" y="{y:g}" width="{width:g}" height="{height:g}" rx="8" fill="{fill}" '
            f'fill-opacity="{opacity:g}" stroke="currentColor" stroke-width="1.2"/>'
        )

    def line(self, path: str, *, arrow: bool = True, dashed: bool = False) -> None:
        """A path, with an arrow head at its end."""
        head = f' marker-end="url(#{self.name}-head)"' if arrow else ""
        dash = ' stroke-dasharray="5 4"' if dashed else ""
        self.parts.append(
            f'<path d="{path}" fill="none" stroke="currentColor" stroke-width="1.4"{dash}{head}/>'
        )

    def __str__(self) -> str:
        head = (
            f'<marker id="{self.name}-head" viewBox="0 0 10 10" refX="9" refY="5" markerWidth="7" '
            f'markerHeight="7" orient="auto-start-reverse">'
            f'<path d="M0 0L10 5L0 10z" fill="currentColor"/></marker>'
        )
        return "\n".join(
            [
                f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {self.width} {self.height}" '
                f'font-family="ui-sans-serif, system-ui, sans-serif" fill="currentColor">',
                ALONE,
                f"<title>{escape(self.title)}</title>",
                f"<defs>{head}</defs>",
                *self.parts,
                "</svg>\n",
            ]
        )
