"""The server of `rlock dashboard`: its answers, its looks at the masters, slow and rude clients."""

from __future__ import annotations

import json
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from unittest.mock import Mock
from urllib.parse import quote

import pytest

import rlock
from rlock.cli.dashboard.hosts import AllowedHosts
from rlock.cli.dashboard.poller import Poller, Sight
from rlock.cli.output import plain
from rlock.errors import OptionsError, QuorumUnreachableError, RLockError
from rlock.model import LockStatus

from ..lock.conftest import eventually
from .dashboards import MASTERS, NASTY, Site, lock, site, snapshot

PAGE = Path(rlock.__file__).parent / "cli" / "dashboard" / "page"


def test_every_file_of_the_page_is_served_and_the_page_asks_for_nothing_else() -> None:
    for path in PAGE.iterdir():
        text = path.read_text(encoding="utf-8").replace("http://www.w3.org/2000/svg", "")
        for elsewhere in ("http:", "https:", "//cdn", "@import", "url("):
            assert elsewhere not in text, path
    html = (PAGE / "index.html").read_text(encoding="utf-8")
    assert "<style" not in html
    assert " style=" not in html
    assert "onclick" not in html
    assert html.count("<script") == html.count('<script type="module" src=') == 1


def test_the_snapshot_is_json_in_the_words_of_the_model() -> None:
    with site() as page:
        answer, body = page.get("/api/snapshot")
        assert (answer.status, answer.headers["Content-Type"]) == (200, "application/json")
        assert json.loads(body) == plain(page.poller.now.snapshot)
        assert 0 <= float(answer.headers["Rlock-Age"]) < 60


@pytest.mark.parametrize("name", NASTY, ids=lambda name: ascii(name)[:30])
def test_a_lock_is_found_by_any_name(name: str) -> None:
    with site() as page:
        for path in (f"/api/lock/{quote(name, safe='')}", f"/api/lock?name={quote(name, safe='')}"):
            answer, body = page.get(path)
            assert answer.status == 200
            assert json.loads(body) == plain(lock(name))


def test_a_lock_that_cannot_be_told_of_is_an_error_with_its_reason() -> None:
    faults = dict.fromkeys(MASTERS, "Connection refused")

    def status(name: str) -> LockStatus:
        if name == "gone":
            raise QuorumUnreachableError(name, 2, 0, faults)
        raise OptionsError(f"{name!r} is no name")

    with site(status=status) as page:
        answer, body = page.get("/api/lock/gone")
        told = json.loads(body)
        assert answer.status == 503
        assert (told["name"], told["quorum"]) == ("gone", 2)
        assert told["masters"] == [{"master": m, "fault": "Connection refused"} for m in MASTERS]
        answer, body = page.get("/api/lock/rlock%3Ax")
        assert answer.status == 400
        assert json.loads(body)["error"] == "'rlock:x' is no name"
        assert page.get("/api/lock/%ff")[0].status == 400


def test_what_is_not_there_is_404_and_no_path_leads_out_of_the_folder() -> None:
    with site() as page:
        for path in ("/nothing", "/../server.py", "/%2e%2e/server.py", "/page/", "//etc/passwd"):
            told = page.raw(f"GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
            assert told.startswith(b"HTTP/1.1 404 "), (path, told)


def test_every_answer_forbids_scripts_frames_sniffing_and_caches() -> None:
    with site() as page:
        sent = [
            page.raw(f"GET {p} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode()) for p in ("/", "/x", "/metrics")
        ]
        sent.append(page.raw(b"GET / HTTP/1.1\r\nHost: evil.example\r\n\r\n"))
        sent.append(page.raw(b"POST / HTTP/1.1\r\nHost: localhost\r\n\r\n"))
        sent.append(page.raw(b"\x16\x03\x01 garbage\r\n\r\n"))
    for told in sent:
        head = told.partition(b"\r\n\r\n")[0].decode()
        assert "Content-Security-Policy: default-src 'none'; script-src 'self';" in head
        assert "frame-ancestors 'none'" in head
        assert "unsafe" not in head
        for line in ("X-Content-Type-Options: nosniff", "Cache-Control: no-store", "X-Frame-Options: DENY"):
            assert line in head
        assert "Python" not in head
        assert "Access-Control" not in head


def test_it_answers_only_to_its_own_names() -> None:
    own = ("localhost", "LOCALHOST.:1", "127.0.0.1:8379", "[::1]:9", "proxy.example")
    others = ("evil.example", "localhost.evil.example", "10.0.0.1", "localhost@evil.example", "")
    with site(hosts=AllowedHosts(["Proxy.example"])) as page:
        for host in (*own, *others):
            told = page.raw(f"GET /api/snapshot HTTP/1.1\r\nHost: {host}\r\n\r\n".encode())
            assert told.startswith(b"HTTP/1.1 200 " if host in own else b"HTTP/1.1 403 "), host
            assert (b"orders:42" in told) is (host in own), host


def test_metrics_are_the_last_look_without_the_names_of_locks() -> None:
    pytest.importorskip("prometheus_client", reason="prometheus-client is in the group test-all")
    from prometheus_client.parser import text_string_to_metric_families

    held = [lock(f"n{i}", waiters=i) for i in range(3)]
    with site(Sight(snapshot(*held, lock("free", None, 5), more=True))) as page:
        answer, body = page.get("/metrics")
    assert answer.headers["Content-Type"].startswith("text/plain; version=")
    found: dict[str, list[float]] = {}
    for family in text_string_to_metric_families(body.decode()):
        for sample in sorted(family.samples, key=lambda sample: sample.labels.get("master", "")):
            found.setdefault(sample.name.removeprefix("redlock_"), []).append(sample.value)
    assert 0 <= found.pop("survey_age_seconds")[0] < 60
    assert found == {
        "master_up": [1, 1, 0],
        "master_latency_seconds": [0.0004, 0.25],
        "master_clock_offset_seconds": [0, -0.3],
        "master_guarded_seconds": [0, 4.1],
        "master_locks": [2, 1],
        "locks_held": [3],
        "locks_waited": [3],
        "waiters": [8],
        "queue_length_max": [5],
        "locks_more": [1],
    }


ASK = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n"
GARBAGE = (
    b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",  # the beginning of TLS
    b"GET / HTTP/1.1\r\n" + b"a: b\r\n" * 3000 + b"\r\n",
    b"GET /" + b"a" * 100_000 + b" HTTP/1.1\r\n\r\n",
)


def connected(page: Site, stack: ExitStack, first: bytes = b"") -> socket.socket:
    connection = stack.enter_context(socket.create_connection(("127.0.0.1", page.server.port), 15))
    connection.sendall(first)
    return connection


@pytest.mark.parametrize("garbage", GARBAGE, ids=lambda garbage: ascii(garbage[:20]))
def test_nonsense_gets_an_error_or_an_end_and_the_next_one_an_answer(
    garbage: bytes, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    with site(head_s=0.3) as page:
        told = page.raw(garbage)
        assert told == b"" or told.startswith((b"HTTP/1.1 4", b"HTTP/1.1 505 ")), told
        assert page.raw(ASK).endswith(b"\r\n\r\nok\n")
    assert not caplog.records
    assert capfd.readouterr().err == ""


def test_a_request_that_drips_is_ended_in_time() -> None:
    with site(head_s=1.0) as page, ExitStack() as stack:
        slow = connected(page, stack, b"GET / HTTP/1.1\r\n")
        began = time.monotonic()
        with pytest.raises(OSError):  # reset, or broken pipe
            while time.monotonic() - began < 10:
                slow.sendall(b"a")
                time.sleep(0.1)
        assert time.monotonic() - began < 5, "each byte gave it more time"


def test_when_all_threads_answer_others_are_told_to_come_again() -> None:
    free = threading.Event()

    def status(name: str) -> object:
        free.wait(20)
        return lock(name)

    with site(status=status, threads=2) as page, ExitStack() as stack:  # type: ignore[arg-type]
        for i in range(2):
            connected(page, stack, f"GET /api/lock/{i} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
        assert eventually(lambda: page.raw(ASK).startswith(b"HTTP/1.1 503 "))
        free.set()
        assert eventually(lambda: page.raw(ASK).endswith(b"ok\n"))


@pytest.fixture
def scans() -> Mock:
    """Makes what looks, and counts what is asked of it."""
    scans = Mock()
    scans.return_value.look.side_effect = snapshot
    return scans


@pytest.fixture
def poller(scans: Mock) -> Iterator[Poller]:
    poller = Poller(scans, every_s=0.3, idle_s=1.0)
    yield poller
    poller.close()
    assert scans.return_value.close.call_count == scans.call_count


def test_nobody_looks_before_somebody_asks_and_all_who_ask_share_a_look(scans: Mock, poller: Poller) -> None:
    look = scans.return_value.look
    assert (scans.call_count, look.call_count) == (0, 0)
    first = poller.sight()
    assert first.snapshot is not None
    assert poller.sight() is first
    assert look.call_count == 1
    assert eventually(lambda: poller.sight() is not first)
    assert (scans.call_count, look.call_count) == (1, 2)


def test_after_a_rest_the_scan_begins_anew(scans: Mock, poller: Poller) -> None:
    poller.sight()
    time.sleep(1.1)
    poller.sight()
    assert (scans.call_count, scans.return_value.close.call_count) == (2, 1)


@pytest.mark.parametrize("error", [RLockError("the masters are away"), ZeroDivisionError("a bug")])
def test_a_look_that_fails_is_told_and_followed_by_others(
    error: Exception, scans: Mock, poller: Poller
) -> None:
    first = poller.sight()
    scans.return_value.look.side_effect = error
    assert eventually(lambda: poller.sight().error is not None)
    assert poller.sight().error == str(error)
    assert poller.sight().snapshot is not None, "the last one is kept"
    scans.return_value.look.side_effect = snapshot
    assert eventually(lambda: poller.sight().error is None)
    assert poller.sight().snapshot is not first.snapshot


def test_a_look_that_hangs_keeps_no_answer_back(scans: Mock, poller: Poller) -> None:
    gate = threading.Event()
    scans.return_value.look.side_effect = lambda: gate.wait(20) and snapshot()
    hangs = threading.Thread(target=poller.sight)
    hangs.start()
    assert eventually(lambda: scans.call_count == 1)
    assert poller.sight(0.1).snapshot is None
    gate.set()
    hangs.join(10)
    assert poller.sight().snapshot is not None
