"""The site: it is built without a warning, asks for nothing from the network, and works in a browser."""

from __future__ import annotations

import importlib.util
import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from .building import Built, built_once, mkdocs
from .pages import TOP

if importlib.util.find_spec("mkdocs") is None or importlib.util.find_spec("material") is None:
    pytest.skip("mkdocs-material is not installed (the extra quorum-rlock[docs])", allow_module_level=True)

#: Whoever comes first builds it, the others wait for that.
pytestmark = pytest.mark.timeout(300)


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Built:
    """The folder of the site, and what was said while it was built."""
    found = built_once(tmp_path_factory)
    assert found.code == 0, found.said
    return found


@pytest.fixture(scope="module")
def site(built: Built) -> Path:
    return built.folder


def test_it_is_built_without_a_warning(built: Built) -> None:
    assert "Documentation built" in built.said
    assert "WARNING" not in built.said
    assert "ERROR" not in built.said


def test_what_is_broken_ends_the_build(tmp_path: Path) -> None:
    folder = tmp_path / "docs"
    folder.mkdir()
    broken = {
        "no-such-anchor": "[x](index.md#no-such-anchor)",
        "no-such-page.md": "[x](no-such-page.md)",
        "no-such.svg": "![no such picture](no-such.svg)",
        "missing.md": "in the navigation, and not there",
        "other.md": "there, and not in the navigation",
    }
    (folder / "index.md").write_text("# One\n\n" + "\n\n".join(broken.values()))
    (folder / "other.md").write_text("# Other\n")
    config = tmp_path / "mkdocs.yml"
    config.write_text(
        f"INHERIT: {TOP / 'mkdocs.yml'}\ndocs_dir: docs\nhooks: []\nplugins: [search]\nextra_css: []\n"
        "nav: [index.md, missing.md]\n"
    )
    done = mkdocs(config, tmp_path / "site")
    assert done.returncode != 0
    # Each of them is a warning of its own, so each alone would have ended the build.
    assert [name for name in broken if name not in done.stderr] == []
    assert f"Aborted with {len(broken)} warnings in strict mode" in done.stdout + done.stderr


def html(site: Path) -> Iterator[tuple[Path, str]]:
    for path in sorted(site.rglob("*.html")):
        yield path, path.read_text(encoding="utf-8")


def test_nothing_is_fetched_from_elsewhere(site: Path) -> None:
    fetched = re.compile(
        r"<(?:script|img|iframe|source)[^>]* src=\"?([^\" >]+)|<link[^>]* href=\"?([^\" >]+)"
    )
    for path, text in html(site):
        for found in fetched.finditer(text):
            target = found[1] or found[2]
            assert "//" not in target, f"{path.name}: {target}"
    for path in site.rglob("*.css"):
        assert not re.search(r"url\(\s*[\"']?(https?:)?//", path.read_text(encoding="utf-8")), path.name


def test_every_link_within_the_site_leads_to_a_file_and_an_anchor_of_it(site: Path) -> None:
    texts = dict(html(site))
    anchors = {path: {*re.findall(r'\b(?:id|name)="?([^" >]+)', text)} for path, text in texts.items()}
    checked = 0
    for path, text in texts.items():
        if path.name == "404.html":
            continue
        for target in re.findall(r'<a\b[^>]* href="?([^" >]+)', text):
            if re.match(r"\w+:", target):
                continue
            file, _, anchor = target.partition("#")
            found = (path.parent / file).resolve() if file else path
            if found.is_dir():
                found /= "index.html"
            assert found.exists(), f"{path.relative_to(site)}: {target}"
            if anchor and found in anchors:
                assert anchor in anchors[found], f"{path.relative_to(site)}: {target}"
            checked += 1
    assert checked > 1000


def test_the_scripts_stand_on_their_page_as_they_are(site: Path) -> None:
    from html import unescape

    text = unescape(re.sub(r"<[^>]+>", "", (site / "scripts.html").read_text(encoding="utf-8")))
    for path in (TOP / "lua").glob("*.lua"):
        assert path.read_text(encoding="utf-8").strip() in text, path.name


def test_the_public_names_are_on_the_page_of_python(site: Path) -> None:
    import rlock

    text = (site / "api.html").read_text(encoding="utf-8")
    for name in rlock.__all__:
        assert re.search(rf'id="?rlock(\.\w+)?\.{name}"?[ >]', text), name


# -- in a browser --------------------------------------------------------------------------------------------

CHROMIUM, DRIVER = shutil.which("chromium"), shutil.which("chromedriver")


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    """A Chromium that finds nobody but this machine."""
    selenium = pytest.importorskip("selenium", reason="selenium is not installed")
    if CHROMIUM is None or DRIVER is None:
        pytest.skip("no chromium and chromedriver on this machine")
    from selenium import webdriver
    from selenium.webdriver.chrome.service import Service

    assert selenium
    options = webdriver.ChromeOptions()
    for argument in (
        "--headless=new",
        "--no-sandbox",
        "--disable-gpu",
        "--disable-dev-shm-usage",
        "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1",
    ):
        options.add_argument(argument)
    options.binary_location = CHROMIUM
    options.set_capability("goog:loggingPrefs", {"performance": "ALL", "browser": "ALL"})
    driver = webdriver.Chrome(options=options, service=Service(DRIVER))
    driver.set_window_size(1400, 1000)
    yield driver
    driver.quit()
