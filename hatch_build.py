"""The README of the distribution: links lead to the repository, because an index has no files beside it."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from hatchling.metadata.plugin.interface import MetadataHookInterface


class LinkedReadme(MetadataHookInterface):
    """Hatchling finds it by the name of this file."""

    def update(self, metadata: dict[str, Any]) -> None:
        """Fill in the field ``readme``."""
        text = (Path(self.root) / "README.md").read_text(encoding="utf-8")
        top = metadata["urls"]["Repository"], f"v{metadata['version']}"

        def absolute(link: re.Match[str]) -> str:
            # Of an image `blob` is a page about it, which no browser shows as an image.
            place = "raw" if link[1].endswith((".png", ".svg")) else "blob"
            return "/".join(("](" + top[0], place, top[1], link[1]))

        text = re.sub(r"\]\((?!\w+:|#)([^)]+)", absolute, text)
        metadata["readme"] = {"content-type": "text/markdown", "text": text}
