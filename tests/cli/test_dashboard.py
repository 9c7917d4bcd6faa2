"""`rlock dashboard` as a process, on real masters: what it prints, how it ends, what it sends."""

from __future__ import annotations

import json
import signal
import socket
import time
from contextlib import closing

import pytest

import rlock

from ..fixtures import FreshMasters
from ..lock.conftest import eventually
from ..servers import Fleet, raw
from .dashboards import Dashboard, get
from .shell import rlock as run


def test_it_prints_its_url_and_shows_the_real_fleet(masters3: Fleet) -> None:
    with closing(Dashboard(masters3.urls)) as page:
        assert page.said == {
            "url": f"http://127.0.0.1:{page.port}/",
            "masters": masters3.urls,
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


def test_no_secret_is_shown(fresh_masters: FreshMasters) -> None:
    fleet = fresh_masters(2, password="hunter2-secret")
    urls = [*fleet.urls, "redis://someone:hunter3-secret@127.0.0.1:1"]
    with (
        rlock.Client(fleet.urls, restart_guard=0) as client,
        closing(Dashboard(urls, RLOCK_RESTART_GUARD="0", SOME_SECRET="hunter4-secret")) as page,
    ):
        client.lock("job").acquire()
        assert eventually(lambda: page.snapshot()["locks"])
        shown = json.dumps(page.said)
        for path in ("/", "/api/snapshot", "/api/lock/job", "/api/lock/%ff", "/metrics", "/nothing"):
            shown += get(page.port, path)[1].decode()
        shown += page.end(signal.SIGTERM)[1]
    assert "127.0.0.1:1" in shown
    assert "-secret" not in shown
    assert "someone" not in shown


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
