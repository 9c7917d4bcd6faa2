"""`rlock dashboard` as a process, on real masters; and its page in a real Chromium."""

from __future__ import annotations

import json
import signal
import socket
import time
from collections.abc import Iterator
from contextlib import closing
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import rlock
from rlock._client.engine import client_label

from ..lock.conftest import eventually
from ..servers import Fleet, raw
from .dashboards import NASTY, Dashboard, get
from .shell import rlock as run


def test_it_prints_its_url_and_shows_the_real_fleet(masters3: Fleet) -> None:
    with closing(Dashboard(masters3.urls)) as page:
        assert page.said == {
            "url": f"http://127.0.0.1:{page.port}/",
            "masters": masters3.labels,
            "pattern": "*",
        }
        assert get(page.port, "/healthz")[1] == b"ok\n"
        with rlock.Client(masters3.urls) as client:
            client.lock("job").acquire()
            assert eventually(lambda: [lock["name"] for lock in page.snapshot()["locks"]] == ["job"])
            (seen,) = page.snapshot()["locks"]
            told = json.loads(get(page.port, "/api/lock/job")[1])
            assert seen["holder"] == told["holder"] == client.status("job").holder
            assert set(seen) == set(told)
            assert 0 < seen["remaining"] <= 10
        assert [m["fault"] for m in page.snapshot()["masters"]] == [None] * 3
        assert eventually(lambda: page.snapshot()["locks"] == [])


def test_no_master_sees_a_command_that_writes(masters3: Fleet) -> None:
    with rlock.Client(masters3.urls) as client, closing(Dashboard(masters3.urls)) as page:
        client.lock("job").acquire()
        assert eventually(lambda: all(raw(url).exists("job") for url in masters3.urls)), "no vote comes late"
        renewing = {"evalsha", "eval", "pexpire"}  # of the holder, who goes on
        for master in masters3:
            raw(master.url).config_resetstat()
        dumped = [raw(master.url).dump("job") for master in masters3]
        until = time.monotonic() + 2.2
        while time.monotonic() < until:
            for path in ("/", "/api/snapshot", "/api/lock/job", "/api/lock/none", "/metrics"):
                assert get(page.port, path)[0].status == 200
            time.sleep(0.1)
        for master, before in zip(masters3, dumped, strict=True):
            flags = {name: told["flags"] for name, told in raw(master.url).execute_command("COMMAND").items()}
            stats = raw(master.url).info("commandstats")
            assert stats["cmdstat_scan"]["calls"] >= 2, "nobody looked"
            seen = {name.removeprefix("cmdstat_") for name in stats}
            writes = {name for name in seen if "write" in flags.get(name.partition("|")[0], ())}
            assert writes <= renewing, f"{writes} on {master.url}"
            assert "keys" not in seen
            assert raw(master.url).dump("job") == before
    assert all(not raw(master.url).exists("none") for master in masters3)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_it_at_once(number: signal.Signals, masters3: Fleet) -> None:
    with (
        closing(Dashboard(masters3.urls)) as page,
        socket.create_connection(("127.0.0.1", page.port)),  # somebody who never asks
    ):
        if number == signal.SIGINT:  # and also when nobody ever looked
            page.snapshot()
        code, err, took = page.end(number)
    assert (code, err.splitlines()[-1]) == (0, "ended")
    assert "Traceback" not in err
    assert took < 3


def test_a_port_in_use_is_one_line() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        found = run("dashboard", "--port", str(port), masters=["redis://127.0.0.1:1"])
    told = f"rlock: port {port} is in use: take another one with --port, or any with --port 0\n"
    assert found == (64, "", told)


if TYPE_CHECKING:
    from selenium.webdriver import Chrome

CHROMIUM, DRIVER = Path("/usr/bin/chromium"), Path("/usr/bin/chromedriver")
FLAGS = (
    "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--hide-scrollbars",
)  # fmt: skip
NAMES = "[...document.querySelectorAll('#rows .name')]"
#: The cells of the row of a lock, by their headings.
ROW = """
const row = [...document.querySelectorAll("#rows tr")].find((row) => row.lock.name === "job");
const heads = document.querySelectorAll("#table th"), cells = [...row?.cells ?? []];
return Object.fromEntries(cells.map((c) => [heads[c.cellIndex].textContent, c.innerText.trim()]));
"""


@pytest.fixture
def browser(tmp_path: Path) -> Iterator[Chrome]:
    """Behind the test the console must be clean, and nobody else have been asked for anything."""
    webdriver = pytest.importorskip("selenium.webdriver", reason="selenium is in the group test-all")
    for program in (CHROMIUM, DRIVER):
        if not program.exists():
            pytest.skip(f"{program} is not installed (Debian: apt-get install chromium chromium-driver)")
    options = webdriver.ChromeOptions()
    options.binary_location = str(CHROMIUM)
    for flag in (*FLAGS, f"--user-data-dir={tmp_path}"):
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    started = webdriver.Chrome(options=options, service=webdriver.ChromeService(str(DRIVER)))
    try:
        yield started
        for entry in started.get_log("performance"):
            event = json.loads(entry["message"])["message"]
            if event["method"] == "Network.requestWillBeSent":
                url = event["params"]["request"]["url"]
                assert url.startswith(("http://127.0.0.1:", "about:", "data:", "chrome")), url
        # Chromium's own: it took a spare connection that the server had just closed, and asks again.
        own = ("ERR_SOCKET_NOT_CONNECTED", "ERR_CONNECTION_REFUSED")
        said = [entry["message"] for entry in started.get_log("browser")]
        assert [line for line in said if not any(error in line for error in own)] == []
    finally:
        started.quit()


@pytest.mark.timeout(180)
def test_a_holder_is_seen_with_its_lease_and_names_are_text_whatever_they_hold(
    browser: Chrome, masters3: Fleet
) -> None:
    def js(script: str, *arguments: Any) -> Any:
        return browser.execute_script(script, *arguments)

    def text(identifier: str) -> str:
        return str(js("return document.getElementById(arguments[0]).textContent", identifier))

    with closing(Dashboard(masters3.urls)) as page, rlock.Client(masters3.urls, ttl=3.0) as client:
        browser.get(page.url)
        assert eventually(lambda: js("return document.title") == "rlock: 3 of 3 masters answer, quorum 2")
        with client.lock("job"):
            holder = client_label("MainThread").replace("/", " / ")
            assert eventually(lambda: js(ROW).get("Holder") == holder)
            assert (js(ROW)["Count"], js(ROW)["Votes"]) == ("1", "3/3")
            left, until = [], time.monotonic() + 4.0  # longer than the ttl
            while time.monotonic() < until:
                left.append(float(js(ROW)["Lease left"].removesuffix(" s")))
                time.sleep(0.1)
            assert 0.0 < min(left) < max(left) <= 3.0
            assert any(one > two for one, two in pairwise(left)), "it counts down"
            assert any(two > one + 0.3 for one, two in pairwise(left)), "it is renewed"
        assert eventually(lambda: js(ROW) == {})
        for name in NASTY:
            client.lock(name).acquire()
        assert eventually(lambda: js(f"return {NAMES}.length") == len(NASTY))
        names = js("return [...document.querySelectorAll('#rows tr')].map((row) => row.lock.name)")
        assert set(names) == set(NASTY)
        for i, name in enumerate(names):
            shown = js(f"return {NAMES}[arguments[0]].textContent", i)
            if name.isprintable():
                assert shown == name
            js(f"{NAMES}[arguments[0]].click()", i)
            assert eventually(lambda: text("detail-state").startswith("Held by")), name
            assert text("detail-title") == shown
            assert js("return document.documentElement.scrollWidth <= innerWidth"), name
        assert "⟨U+202E⟩" in js(f"return {NAMES}.map((each) => each.textContent).join()")
        assert js("return document.querySelectorAll('main script, main img, main b, main a').length") == 0
        assert js("return document.title") == "rlock: 3 of 3 masters answer, quorum 2"
        browser.get("about:blank")  # or its next question would find no server
