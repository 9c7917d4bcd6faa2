"""The page of `rlock dashboard` in a real Chromium, on real masters with real holders and waiters."""
# ruff: noqa: F811 - fixtures

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import rlock
from rlock.rules.keys import client_label

from ..lock.conftest import eventually
from ..servers import Fleet
from .dashboards import NASTY
from .test_dashboard import Open, dashboard  # noqa: F401 - a fixture

if TYPE_CHECKING:
    from selenium.webdriver import Chrome


CHROMIUM, DRIVER = Path("/usr/bin/chromium"), Path("/usr/bin/chromedriver")
FLAGS = (
    "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--hide-scrollbars",
)  # fmt: skip


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


NONE = "\u2013"
pytestmark = pytest.mark.timeout(180)


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Seen]:
    with chromium(tmp_path_factory.mktemp("chromium")) as started:
        yield Seen(started)


@pytest.fixture
def seen(browser: Seen) -> Iterator[Seen]:
    """The page; after each test the console must be clean, and nobody else have been asked for anything."""
    yield browser
    own = ("http://127.0.0.1:", "about:blank")
    assert [url for url in browser.requests() if not url.startswith(own)] == []
    assert [line for line in browser.logs() if "ERR_CONNECTION_REFUSED" not in line] == []
    # Done with: the next test's server may get this one's port.
    browser.browser.get("about:blank")


def test_a_holder_is_seen_and_its_lease_counts_down_and_is_renewed(
    seen: Seen, dashboard: Open, masters3: Fleet
) -> None:
    seen.open(dashboard(masters3.urls).url)
    assert eventually(lambda: seen.text("h1") == "3 of 3 masters answer, quorum 2")
    assert eventually(lambda: seen.text("#empty") == "No lock is held or waited for.")
    assert seen.text("#live") == "live"
    with rlock.Client(masters3.urls, ttl=3.0) as client:
        job = client.lock("job")
        with job, job:
            holder = client_label("MainThread").replace("/", " / ")
            assert eventually(lambda: seen.row("job").get("Holder") == holder)
            row = seen.row("job")
            assert (row["Count"], row["Votes"], row["Waiting"]) == ("2", "3/3", NONE)
            left = []
            until = time.monotonic() + 4.0  # longer than the ttl
            while time.monotonic() < until:
                left.append(float(seen.row("job")["Lease left"].removesuffix(" s")))
                time.sleep(0.1)
            assert max(left) <= 3.0
            assert min(left) > 0.0, "a lease that is renewed does not run out on the page"
            assert any(one > two for one, two in pairwise(left)), "it counts down"
            assert any(two > one + 0.3 for one, two in pairwise(left)), "it is renewed"
            assert seen.text("#held") == "1"
            assert seen.texts(".card .pill") == ["answers"] * 3
    assert eventually(lambda: seen.row("job") == {})
    assert seen.text("#held") == "0"


def test_names_are_text_whatever_they_hold(seen: Seen, dashboard: Open, masters3: Fleet) -> None:
    with rlock.Client(masters3.urls) as client:
        for name in NASTY:
            client.lock(name).acquire()
        seen.open(dashboard(masters3.urls).url)
        assert eventually(lambda: len(seen.texts("#rows .name")) == len(NASTY))
        names = seen.js("return [...document.querySelectorAll('#rows tr')].map((row) => row.lock.name)")
        assert set(names) == set(NASTY)
        for i, name in enumerate(names):
            shown = seen.js("return document.querySelectorAll('#rows .name')[arguments[0]].textContent", i)
            if name.isprintable():
                assert shown == name
            seen.js("document.querySelectorAll('#rows .name')[arguments[0]].click()", i)
            assert eventually(lambda: seen.text("#detail-state").startswith("Held by")), name
            assert seen.js("return document.getElementById('detail-title').textContent") == shown
            assert seen.js("return document.documentElement.scrollWidth <= innerWidth"), name
        assert "⟨U+202E⟩" in str(seen.texts("#rows .name")), "a turned direction is shown, not obeyed"
        inside = seen.js("return document.querySelectorAll('main script, main img, main b, main a').length")
        assert inside == 0
        assert seen.js("return document.title") == "rlock: 3 of 3 masters answer, quorum 2"
