"""The Python blocks of docs/howto/migrating.md, and what to run them with."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import rlock

from . import pages

PAGE = Path(rlock.__file__).resolve().parent.parent / "docs" / "howto" / "migrating.md"

#: The package of each module that the page is about.
PACKAGES = {
    "redis": "redis",
    "pottery": "pottery",
    "redis_lock": "python-redis-lock",
    "redlock_plus": "redlock-plus",
    "redlock": "redlock-ng",
    "aioredlock": "aioredlock",
}
#: Blocks of a line or two before, and a line or two now.
PAIRS = ["redis_py", "pottery", "redis_lock", "redlock_plus"]


@cache
def text() -> str:
    return PAGE.read_text(encoding="utf-8")


def blocks() -> Mapping[str, str]:
    """The blocks of the page by name."""
    return pages.blocks("howto/migrating.md")


def side(name: str, which: str) -> str:
    """The lines of a block that stand ``before``, or that stand there ``now``."""
    lines = [line for line in blocks()[name].splitlines() if line.endswith(f"# {which}")]
    assert lines, f"no line of {name} is marked {which}"
    return "\n".join(lines)


def section(title: str) -> str:
    """What stands under a heading that begins with these words."""
    parts = [part for part in re.split(r"^## ", text(), flags=re.MULTILINE) if part.startswith(title)]
    assert len(parts) == 1, f"{title!r} is {len(parts)} headings"
    return parts[0]


def run(source: str, urls: Sequence[str], **given: Any) -> dict[str, Any]:
    """What the source defines, with the masters at ``urls`` for ``redis://10.0.0.1`` and so on."""
    for number, url in enumerate(urls, 1):
        source = source.replace(f"redis://10.0.0.{number}", url)
    assert "10.0.0." not in source, "more masters are named than there are"
    exec(compile(source, str(PAGE), "exec"), given)
    return given
