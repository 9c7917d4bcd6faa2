"""The site: it is built without a warning, asks for nothing from the network, and works in a browser."""

from __future__ import annotations

import importlib.util
import json
import re
import shutil
import threading
import time
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from .building import Built, built_once, mkdocs
from .pages import DOCS, TOP

if importlib.util.find_spec("mkdocs") is None or importlib.util.find_spec("material") is None:
    pytest.skip("mkdocs-material is not installed (the extra rlock[docs])", allow_module_level=True)

#: Whoever comes first builds it, the others wait for that.
pytestmark = pytest.mark.timeout(300)
PAGES = [page.relative_to(DOCS).as_posix() for page in sorted(DOCS.rglob("*.md"))]


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


def test_make_docs_is_strict() -> None:
    makefile = (TOP / "Makefile").read_text(encoding="utf-8")
    assert re.search(r"^docs: .*\n(\t.*\n)*?\t.* mkdocs build --strict", makefile, re.MULTILINE)


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


def test_a_test_that_a_page_names_is_a_line_of_a_page(site: Path) -> None:
    text = (site / "guarantees.html").read_text(encoding="utf-8")
    name, target = (
        "test_a_slow_minority_makes_nobody_slower",
        "source/tests/faults/test_network_faults.py.html",
    )
    found = re.search(rf'href="?{re.escape(target)}#(__codelineno-0-\d+)"?><code>{name}', text)
    assert found
    number = int(found[1].rpartition("-")[2])
    lines = (TOP / "tests" / "faults" / "test_network_faults.py").read_text(encoding="utf-8").splitlines()
    assert f"def {name}" in lines[number - 1]


def test_the_scripts_stand_on_their_page_as_they_are(site: Path) -> None:
    from html import unescape

    text = unescape(re.sub(r"<[^>]+>", "", (site / "scripts.html").read_text(encoding="utf-8")))
    for path in (TOP / "lua").glob("*.lua"):
        assert path.read_text(encoding="utf-8").strip() in text, path.name


def test_the_acl_of_the_readme_is_on_the_page_of_operations(site: Path) -> None:
    (line,) = re.findall(r"^ACL SETUSER .*$", (TOP / "README.md").read_text(encoding="utf-8"), re.MULTILINE)
    text = (site / "operations.html").read_text(encoding="utf-8").replace("&gt;", ">").replace("&amp;", "&")
    assert line in re.sub(r"<[^>]+>", "", text)


def test_the_public_names_are_on_the_page_of_python(site: Path) -> None:
    import rlock

    text = (site / "api.html").read_text(encoding="utf-8")
    for name in rlock.__all__:
        assert re.search(rf'id="?rlock(\.\w+)?\.{name}"?[ >]', text), name


def test_what_the_fields_of_events_mean_is_on_the_page_of_python(site: Path) -> None:
    text = re.sub(r"<[^>]+>", "", (site / "api.html").read_text(encoding="utf-8"))
    assert "seconds from the grant to the call of release" in text
    assert "set: this master gave no answer" in text
    for ours in ("rlock.events.News", "rlock.events.tell"):
        assert not re.search(rf'id="?{ours}"?[ >]', (site / "api.html").read_text(encoding="utf-8"))


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


@pytest.fixture(scope="module")
def address(site: Path) -> Iterator[str]:
    """Where the site is served by the standard library."""

    class Silent(SimpleHTTPRequestHandler):
        def log_message(self, *_: Any) -> None: ...

    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Silent, directory=str(site)))
    threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()


def requests(browser: Any) -> list[str]:
    """What it has asked for since the last question."""
    messages = [json.loads(entry["message"])["message"] for entry in browser.get_log("performance")]
    return [
        message["params"]["request"]["url"]
        for message in messages
        if message["method"] == "Network.requestWillBeSent"
    ]


def errors(browser: Any) -> list[str]:
    return [entry["message"] for entry in browser.get_log("browser") if entry["level"] == "SEVERE"]


def wait_for(browser: Any, script: str, within_s: float = 20.0) -> Any:
    until = time.monotonic() + within_s
    while not (found := browser.execute_script(f"return {script}")):
        assert time.monotonic() < until, script
        time.sleep(0.05)
    return found


def html_of(page: str) -> str:
    return page.replace("README.md", "index.md").removesuffix(".md") + ".html"


def narrow(browser: Any, width: int) -> None:
    metrics = {"width": width, "height": 800, "deviceScaleFactor": 1, "mobile": width < 500}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)


def test_every_page_asks_for_nothing_from_elsewhere_and_fits_a_telephone_and_a_screen(
    browser: Any, address: str
) -> None:
    # All pages in one test: spread over processes, each of them would start a browser.
    wrong = []
    try:
        for page in PAGES:
            requests(browser), errors(browser)
            narrow(browser, 1400)
            browser.get(f"{address}/{html_of(page)}")
            wait_for(browser, "document.readyState === 'complete'")
            asked = requests(browser)
            assert asked
            wrong += [(page, url) for url in asked if not url.startswith((address, "data:", "blob:"))]
            wrong += [(page, error) for error in errors(browser)]
            if not browser.find_element("css selector", "h1").text:
                wrong.append((page, "no heading"))
            for width in (1400, 360):
                narrow(browser, width)
                wide = browser.execute_script("return document.documentElement.scrollWidth")
                if wide > width:
                    wrong.append((page, f"{wide} of {width} pixels"))
    finally:
        browser.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})
    assert wrong == []


@pytest.mark.parametrize("how", ["http", "file"])
def test_the_search_finds_a_page(how: str, browser: Any, address: str, site: Path) -> None:
    browser.get(f"{address}/index.html" if how == "http" else (site / "index.html").as_uri())
    field = wait_for(browser, "document.querySelector('[data-md-component=search-query]')")
    # A click, as a reader does: from a file the index is loaded only then.
    browser.execute_script("document.querySelector('#__search').click()")
    browser.execute_script("arguments[0].focus()", field)
    field.send_keys("restart guard")
    found = "document.querySelector('.md-search-result__item a[href*=\"how-it-works.html\"]')"
    assert wait_for(browser, found)


def test_there_is_a_dark_and_a_light_side(browser: Any, address: str) -> None:
    browser.get(f"{address}/diagrams.html")
    seen = set()
    for _ in range(2):
        scheme = browser.execute_script("return document.body.getAttribute('data-md-color-scheme')")
        ink, paper = (
            browser.execute_script(f"return getComputedStyle({where}).{what}")
            for where, what in (
                ("document.querySelector('.drawing svg')", "color"),
                ("document.body", "backgroundColor"),
            )
        )
        light = [sum(map(float, re.findall(r"[\d.]+", colour)[:3])) for colour in (ink, paper)]
        assert abs(light[0] - light[1]) > 200, f"{scheme}: a drawing that cannot be seen: {ink} on {paper}"
        seen.add(scheme)
        browser.execute_script(
            "document.querySelector('label.md-header__button:not([hidden])[for^=__palette]').click()"
        )
        wait_for(browser, f"document.body.getAttribute('data-md-color-scheme') !== '{scheme}'")
    assert seen == {"default", "slate"}


def test_the_state_of_a_lease_is_a_drawing_and_no_mermaid(browser: Any, address: str) -> None:
    browser.get(f"{address}/how-it-works.html")
    assert browser.execute_script("return document.querySelectorAll('.drawing svg').length") == 1
    assert (
        browser.execute_script("return document.querySelectorAll('.mermaid, code.language-mermaid').length")
        == 0
    )
