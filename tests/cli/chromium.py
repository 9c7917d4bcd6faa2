"""A real Chromium without a screen, for the tests of the page."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from selenium.webdriver import Chrome

CHROMIUM, DRIVER = Path("/usr/bin/chromium"), Path("/usr/bin/chromedriver")
FLAGS = (
    "--headless=new",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--disable-background-networking",
    "--disable-component-update",
    "--no-first-run",
    "--hide-scrollbars",
)


@contextmanager
def chromium(profile: Path) -> Iterator[Chrome]:
    """A browser with a profile of its own; skips the test where there is none."""
    webdriver = pytest.importorskip("selenium.webdriver", reason="the package `selenium` is not installed")
    for program in (CHROMIUM, DRIVER):
        if not program.exists():
            pytest.skip(f"{program} is not installed (Debian: apt-get install chromium chromium-driver)")
    options = webdriver.ChromeOptions()
    options.binary_location = str(CHROMIUM)
    for flag in (*FLAGS, f"--user-data-dir={profile}"):
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    browser = webdriver.Chrome(options=options, service=webdriver.ChromeService(str(DRIVER)))
    try:
        yield browser
    finally:
        browser.quit()
        shutil.rmtree(profile, ignore_errors=True)


class Seen:
    """A page in a browser, by what a person sees of it."""

    def __init__(self, browser: Chrome) -> None:
        self.browser = browser

    def open(self, url: str) -> None:
        self.browser.get("about:blank")  # or another #fragment of the same page would load nothing
        self.logs()
        self.requests()
        self.browser.get(url)

    def js(self, script: str, *arguments: Any) -> Any:
        return self.browser.execute_script(script, *arguments)

    def text(self, selector: str) -> str:
        """What can be seen of the first such element; empty: nothing."""
        # innerText of what is hidden is all of its text.
        found = (
            "const e = document.querySelector(arguments[0]); return e?.checkVisibility() ? e.innerText : ''"
        )
        return str(self.js(found, selector))

    def texts(self, selector: str) -> list[str]:
        found = "return [...document.querySelectorAll(arguments[0])].map((e) => e.innerText)"
        return [str(text) for text in self.js(found, selector)]

    def row(self, name: str) -> dict[str, str]:
        """A row of the table by its headings; empty: there is none."""
        found: dict[str, str] = self.js(
            """for (const row of document.querySelectorAll("#rows tr"))
                 if (row.querySelector(".name").innerText === arguments[0])
                   return Object.fromEntries([...row.cells].map((c) =>
                     [c.dataset.label, c.innerText.trim()]));
               return {};""",
            name,
        )
        return found

    def logs(self) -> list[str]:
        """What the console said since the last question."""
        entries = self.browser.get_log("browser")  # type: ignore[no-untyped-call]
        # Chromium's own: it took a spare connection that the server had just closed, and asks again.
        return [one["message"] for one in entries if "ERR_SOCKET_NOT_CONNECTED" not in one["message"]]

    def requests(self) -> list[str]:
        """The URLs that were asked for since the last question, by the browser's own account."""
        entries = self.browser.get_log("performance")  # type: ignore[no-untyped-call]
        sent = [json.loads(entry["message"])["message"] for entry in entries]
        return [
            each["params"]["request"]["url"] for each in sent if each["method"] == "Network.requestWillBeSent"
        ]
