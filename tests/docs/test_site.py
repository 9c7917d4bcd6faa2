"""The site: built without a warning, which a broken link would be, and fetching nothing from the network."""

from __future__ import annotations

import importlib.util
import os
import re
import subprocess
import sys
from html import unescape
from pathlib import Path

import pytest

import rlock

from .pages import TOP

if importlib.util.find_spec("mkdocs") is None or importlib.util.find_spec("material") is None:
    pytest.skip("mkdocs-material is not installed (the extra quorum-rlock[docs])", allow_module_level=True)

_FETCHED = re.compile(r"<(?:script|img|iframe|source)[^>]* src=\"?([^\" >]+)|<link[^>]* href=\"?([^\" >]+)")


def build(to: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "-f", str(TOP / "mkdocs.yml"), "-d", str(to)],
        cwd=TOP,
        env={**os.environ, "PYTHONPATH": str(TOP), "NO_MKDOCS_2_WARNING": "true"},
        capture_output=True,
        text=True,
        check=False,
        timeout=240,
    )
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.timeout(300)
def test_the_site_is_complete(tmp_path: Path) -> None:
    """One test for all: a build takes a quarter of a minute."""
    site = tmp_path / "site"
    build(site)
    texts = {path: path.read_text(encoding="utf-8") for path in sorted(site.rglob("*.html"))}
    fetched = [target for text in texts.values() for found in _FETCHED.findall(text) for target in found]
    assert [target for target in fetched if "//" in target] == []
    for path in site.rglob("*.css"):
        assert not re.search(r"url\(\s*[\"']?(https?:)?//", path.read_text(encoding="utf-8")), path.name
    scripts = unescape(re.sub(r"<[^>]+>", "", texts[site / "scripts.html"]))
    for path in (TOP / "lua").glob("*.lua"):
        assert path.read_text(encoding="utf-8").strip() in scripts, path.name
    for name in rlock.__all__:
        assert re.search(rf'id="?rlock(\.\w+)?\.{name}"?[ >]', texts[site / "api.html"]), name
