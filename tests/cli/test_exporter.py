"""`rlock exporter`: the gauges of the fleet, on real masters and by itself."""

from __future__ import annotations

import signal
import socket
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

import rlock
from rlock.cli.scan.snapshot import GroupHealth, MasterHealth

from ..servers import Fleet, raw
from .looks import MASTERS, lock, snapshot
from .shell import begin, refused
from .shell import rlock as run

pytest.importorskip("prometheus_client", reason="prometheus-client is in the extra prometheus")


@contextmanager
def exporting(urls: list[str], end: signal.Signals = signal.SIGTERM) -> Iterator[str]:
    """The URL that it prints. Behind the block it ends by the signal, as it should."""
    process = begin("exporter", "--port", "0", masters=urls)
    assert process.stdout is not None
    try:
        yield process.stdout.readline().strip()
        process.send_signal(end)
        _, err = process.communicate(timeout=20)
        assert (process.returncode, err) == (0, "ended\n")
    finally:
        process.kill()
        process.communicate()


def scrape(url: str) -> dict[str, float]:
    with urllib.request.urlopen(url, timeout=20) as answer:
        text = answer.read().decode()
    rows = (line.rpartition(" ") for line in text.splitlines() if not line.startswith("#"))
    return {name: float(value) for name, _, value in rows}


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_it_shows_the_fleet_and_writes_nothing(number: signal.Signals, masters3: Fleet) -> None:
    with rlock.Client(masters3.urls) as client, client.lock("job"), exporting(masters3.urls, number) as url:
        before = scrape(url)
        assert before["redlock_locks_held"] == 1.0
        assert before["redlock_waiters"] == 0.0
        for label in masters3.labels:
            assert before[f'redlock_master_up{{master="{label}"}}'] == 1.0
            assert before[f'redlock_master_latency_seconds{{master="{label}"}}'] > 0
        for master in masters3:
            raw(master.url).config_resetstat()
        # Each scrape that comes more than EVERY_S later looks anew.
        assert _until_looked(url, masters3)
        flags = {
            name: told["flags"] for name, told in raw(masters3.urls[0]).execute_command("COMMAND").items()
        }
        holders = {"evalsha", "eval", "pexpire"}  # of the holder's renewals
        for master in masters3:
            seen = {name.removeprefix("cmdstat_") for name in raw(master.url).info("commandstats")}
            assert {name for name in seen if "write" in flags.get(name.partition("|")[0], ())} <= holders
            assert "keys" not in seen


def _until_looked(url: str, masters: Fleet) -> bool:
    for _ in range(1000):
        scrape(url)
        if all("cmdstat_scan" in raw(master.url).info("commandstats") for master in masters):
            return True
    return False


def test_a_port_in_use_is_one_line() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        found = run("exporter", "--port", str(port), masters=["redis://127.0.0.1:1"])
    refused(found, 64, f"cannot listen on --host 127.0.0.1 --port {port}: ")


def test_a_master_without_an_answer_has_no_gauge_but_up() -> None:
    from rlock.cli.scan.gauges import gauges

    group = MasterHealth("group", None, group=GroupHealth("10.0.0.9:6379", None, 2, 1, 1))
    seen = snapshot(lock("a", waiters=3), lock("b", None, 1), masters=(*snapshot().masters, group))
    told = {
        (sample.name, sample.labels.get("master")): sample.value
        for family in gauges(seen)
        for sample in family.samples
    }
    assert told[("redlock_locks_held", None)] == 1
    assert told[("redlock_waiters", None)] == 4
    assert told[("redlock_queue_length_max", None)] == 3
    assert [name for name, master in told if master == MASTERS[2]] == ["redlock_master_up"]
    assert told[("redlock_master_up", MASTERS[2])] == 0
    assert told[("redlock_master_guarded_seconds", MASTERS[1])] == 4.1
    assert told[("redlock_group_replicas_acknowledged", "group")] == 1
