"""What `rlock status`, `list`, `watch` and `evict` show, also on a terminal; what `rlock exporter` does."""

from __future__ import annotations

import io
import json
import os
import re
import signal
import time
import urllib.request
from collections.abc import Callable
from contextlib import closing
from typing import Any

import pytest
from rich.cells import cell_len
from rich.console import Console

import rlock
from rlock.cli.scan.look import Scan
from rlock.cli.scan.snapshot import GroupHealth, MasterHealth, Snapshot
from rlock.cli.watch.tables import View, picture
from rlock.model import LockStatus, MasterStatus, Waiter
from rlock.procedures.port import new_owner
from rlock.rules.keys import queue, waiter_name
from rlock.testing.local.embedded import Master, ServerBinary

from ..environments.programs import needs
from ..fixtures import FreshMasters
from ..groups.group import ReplicatedGroup, until
from ..lock.conftest import eventually
from ..servers import Fleet, acl_user, raw
from .shell import NOWHERE, RLOCK, Screen, ask, environment, line, starter
from .shell import rlock as run

MASTERS = tuple(f"redis://10.0.0.{i}:6379" for i in (1, 2, 3))
HOLDER = "web-1/4711/MainThread:0198f3a2b4c57def8123456789abcdef"


def lock(name: str, waiters: int = 0) -> LockStatus:
    views = tuple(MasterStatus(master, HOLDER, 1, 7.5) for master in MASTERS)
    queue = tuple(Waiter(f"job-{i}/{i}/MainThread:{i:032x}", 1_700_000_000.0 + i) for i in range(waiters))
    return LockStatus(name, HOLDER, 1_700_000_000.0, 1, 7.5, 2, views, waiters, queue)


def snapshot(*locks: LockStatus, **more: Any) -> Snapshot:
    masters = (
        MasterHealth(MASTERS[0], None, 0.0004, "Valkey", "9.1.0", guarded=0.0, clock_offset=0.0, locks=2),
        MasterHealth(MASTERS[1], None, 0.25, "Redis", "6.2.7", guarded=4.1, clock_offset=-0.3, locks=1),
        MasterHealth(MASTERS[2], "Connection refused"),
    )
    given: dict[str, Any] = {"masters": masters, **more}
    return Snapshot(time.time(), 2, locks=locks, **given)


def test_free_is_said_only_where_nobody_can_have_it(masters3: Fleet) -> None:
    holder = new_owner("box/1/MainThread")
    raw(masters3.urls[0]).execute_command("HSET", "job", holder, 1)
    raw(masters3.urls[0]).execute_command("PEXPIRE", "job", 60_000)
    told = ask(masters3.urls, "status", "job")[1].splitlines()[0]
    assert told == f"job: free, nobody has 2 votes ({holder} on 1 of 3 masters)"
    # The second vote may be on the one that gives no answer.
    dead = [masters3.urls[0], masters3.urls[1], "redis://127.0.0.1:1"]
    told = ask(dead, "status", "job")[1].splitlines()[0]
    assert told == f"job: unknown, {holder} on 1 of 3 masters, and 1 did not answer"
    told = ask([*masters3.urls[1:], "redis://127.0.0.1:1"], "status", "job")[1].splitlines()[0]
    assert told == "job: free (no holder on 2 of 3 masters)"
    # Without a quorum it shows the views of the masters that answered.
    dead = [masters3.urls[0], *NOWHERE]
    code, out, err = ask(dead, "status", "job")
    assert (code, err, holder in out) == (69, "", True)
    code, out, err = ask(dead, "status", "job", "--json")
    found = json.loads(out)
    assert (code, err) == (69, "")
    assert (found["holder"], found["free"]) == (None, False)
    assert [view["holder"] for view in found["masters"]] == [holder, None, None]
    assert [view["fault"] is None for view in found["masters"]] == [True, False, False]


@pytest.mark.parametrize(
    ("rules", "code", "told"),
    [
        (["~other:*", "~rlock:*"], 0, "no lock was found(.|\n)*missing: this user may not read 1 key"),
        (["~*", "-eval", "-evalsha", "-script"], 64, "(?i)does not tell which locks there are.*no ?perm"),
    ],
    ids=["a key", "scripts"],
)
def test_what_the_user_may_not_read_makes_no_empty_list(
    rules: list[str], code: int, told: str, fresh_masters: FreshMasters
) -> None:
    fleet = fresh_masters(3)
    for server in map(raw, fleet.urls):
        server.hset("orders:1", mapping={new_owner("web/1/1"): 1})
    users = [acl_user(url, "reader", "&*", "+@all", *rules) for url in fleet.urls]
    found, watched = ask(users, "list"), ask(users, "watch", "--once")
    assert (found.code, found.out, watched.code) == (code, "", code)
    assert re.search(told, found.err)
    assert re.search("among those that this user may read" if code == 0 else told, watched.out)


def test_it_prints_a_table_of_what_is_held_and_waited_for_chosen_and_sorted(masters3: Fleet) -> None:
    owners = {name: new_owner(f"web/1/{name}") for name in ("a:1", "a:2", "b:1")}
    for server in map(raw, masters3.urls):
        for name, owner in owners.items():
            server.hset(name, mapping={owner: 1})
            server.pexpire(name, 60_000)
        for number, name in ((1, "a:2"), (2, "b:1"), (1, "c:1"), (1, "{x}"), (1, "x{y")):
            for i in range(number):
                server.zadd(queue(name), {waiter_name(new_owner(f"web/2/{i}"), "s"): i})

    def names(*words: str) -> list[str]:
        code, out, _ = ask(masters3.urls, "list", *words)
        assert code == 0
        return [line.split()[0] for line in out.splitlines()[1:]]

    code, out, err = ask(masters3.urls, "list", "a:*")
    assert (code, err) == (0, "")
    head, first, second = out.splitlines()
    assert head.split() == ["NAME", "HOLDER", "HELD", "FOR", "LEASE", "COUNT", "WAITERS", "VOTES"]
    assert first.split()[:2] == ["a:1", owners["a:1"].rpartition(":")[0]]
    assert (first.split()[-2:], second.split()[-2:]) == (["-", "3/3"], ["1", "3/3"])
    assert "\x1b" not in out
    assert names() == ["a:1", "a:2", "b:1", "c:1", "x{y", "{x}"]
    # Where the braces of a hash tag stand in the key of a queue depends on those of the name.
    for pattern in ("[{]*", "\\{x\\}", "[^a-x]*"):
        assert names(pattern) == ["{x}"]
    assert names("?:[1]") == ["a:1", "b:1", "c:1"]
    assert names("--held") == ["a:1", "a:2", "b:1"]
    assert names("--held", "--waited") == ["a:2", "b:1"]
    assert names("?:*", "--waited", "--sort", "waiters") == ["b:1", "a:2", "c:1"]
    assert names("?:*", "--sort", "since") == ["a:1", "a:2", "b:1", "c:1"]


def drawn(seen: Snapshot, view: View | None = None, late: float = 0.0) -> str:
    stream, view = io.StringIO(), view or View(width=140)
    Console(file=stream, width=view.width).print(picture(seen, view, seen.at + late))
    lines = stream.getvalue().splitlines()
    assert all(cell_len(line) <= view.width for line in lines)
    return "\n".join(line.rstrip() for line in lines)


def test_a_master_without_an_answer_or_a_vote_is_shown_with_the_reason() -> None:
    shown = drawn(snapshot(lock("a", waiters=2)))
    assert shown.startswith("rlock  *  2/3 masters answer  1 held  1 waited for")
    assert "guard 4 s" in shown
    assert f"{MASTERS[2]}: Connection refused" in shown
    down = [MasterHealth(master, "Connection refused") for master in MASTERS[1:]]
    shown = drawn(snapshot(masters=(MasterHealth(MASTERS[0], None, role="replica"), *down)))
    assert "replica" in shown
    assert "fewer than 2 masters answer: nobody gets a lock" in shown
    assert "? held" in shown
    assert "which locks are held is unknown" in shown


@pytest.mark.parametrize("width", [40, 200])
def test_the_lines_fit_and_foreign_names_are_text(width: int) -> None:
    names = ("x" * 500, "\x1b[2J\x1b]0;owned\x07", "[bold red]markup[/]", "锁" * 90, "line\nbreak")
    shown = drawn(snapshot(*map(lock, names)), View(width=width))
    mute = [MasterHealth(each, None, unlisted=names[1]) for each in MASTERS]
    assert "\x1b" not in shown + drawn(snapshot(masters=mute))
    # Behind an empty line, the titles, and one line for each lock.
    assert len(shown.partition("\n\n")[2].splitlines()) == 1 + len(names)
    if width == 200:
        assert r"\x1b[2J" in shown
        assert "[bold red]markup[/]" in shown


def address(server: Master) -> str:
    return f"127.0.0.1:{server.port}"


@needs("prometheus_client")
def test_the_views_of_masters_and_the_metrics_follow_the_leader_of_a_group(server: ServerBinary) -> None:
    from prometheus_client import CollectorRegistry

    from rlock.telemetry import prometheus

    registry: Any = CollectorRegistry()
    handle = prometheus.enable(registry=registry)
    with (
        ReplicatedGroup(server, replicas=1, sentinels=3) as group,
        rlock.Client([group.url], 1.0) as client,
        closing(Scan(client)) as scan,
    ):
        client.init()
        (label,) = client.masters

        def look() -> Any:
            return scan.look().masters[0]

        def measured() -> list[float | None]:
            names = ("master_up", "group_replicas", "group_replicas_acknowledged", "group_promotions_total")
            return [registry.get_sample_value(f"redlock_{name}", {"master": label}) for name in names]

        old = group.primary
        assert client.lock("x").acquire()
        assert look().group == GroupHealth(address(old), None, replicas=1, online=1, acknowledged=1)
        until(lambda: measured() == [1, 1, 1, 0], "the replica acknowledged the grant")
        group.fail_over()
        until(lambda: (now := look().group) and now.leader == address(group.primary) and now.since, "B leads")
        until(lambda: look().guarded > 0, "the look asks the server that leads for locks")
        until(lambda: measured()[:3] == [0, 1, 0], "no replica acknowledges the renewals")
        shown = run("watch", "--once", masters=[group.url], COLUMNS="250").out
        assert " no vote " in shown
        assert f"{address(group.primary)} leads for " in shown
        assert "0 of 1 replicas acknowledge: no vote without exactly all of them" in shown
        told = json.loads(run("status", "y", "--json", masters=[group.url]).out)
        assert told["groups"][label]["leader"] == address(group.primary)
        group.mend()
        until(lambda: look().group.votes, "all replicas acknowledge")
        assert 0 < time.time() - look().group.since < 60
        shown = run("status", "y", masters=[group.url]).out
        assert f"\n    {address(group.primary)} leads" in shown
        assert shown.endswith(", 1 of 1 replicas acknowledge\n")
        handle.disable()


def scrape(url: str) -> dict[str, float]:
    with urllib.request.urlopen(url, timeout=20) as answer:
        text = answer.read().decode()
    rows = (line.rpartition(" ") for line in text.splitlines() if not line.startswith("#"))
    return {name: float(value) for name, _, value in rows}


@needs("prometheus_client")
def test_it_shows_the_fleet_and_writes_nothing(masters3: Fleet) -> None:
    waiters = {waiter_name(new_owner(f"web/2/{i}"), "s"): i for i in range(3)}
    for server in map(raw, masters3.urls):
        server.zadd(queue("next"), waiters)
    urls = [*masters3.urls, "redis://127.0.0.1:1"]
    with rlock.Client(urls) as client, client.lock("job"), starter(urls) as start:
        process = start("exporter", "--port", "0")
        url = line(process).strip()
        before = scrape(url)
        assert before["redlock_locks_held"] == 1.0
        assert before["redlock_waiters"] == before["redlock_queue_length_max"] == 3.0
        for label in masters3.labels:
            assert before[f'redlock_master_up{{master="{label}"}}'] == 1.0
            assert before[f'redlock_master_latency_seconds{{master="{label}"}}'] > 0
        dead = f'{{master="{urls[-1]}"}}'
        assert [name for name in before if name.endswith(dead)] == [f"redlock_master_up{dead}"]
        assert before[f"redlock_master_up{dead}"] == 0.0
        servers = [*map(raw, masters3.urls)]
        for server in servers:
            server.config_resetstat()
        # Each scrape that comes more than EVERY_S later looks anew.
        assert eventually(
            lambda: scrape(url) and all("cmdstat_scan" in each.info("commandstats") for each in servers)
        )
        flags = {name: told["flags"] for name, told in servers[0].execute_command("COMMAND").items()}
        holders = {"evalsha", "eval", "pexpire"}  # of the holder's renewals
        for server in servers:
            seen = {name.removeprefix("cmdstat_") for name in server.info("commandstats")}
            assert {name for name in seen if "write" in flags.get(name.partition("|")[0], ())} <= holders
            assert "keys" not in seen
        process.send_signal(signal.SIGTERM)
        _, err = process.communicate(timeout=20)
        assert (process.returncode, err.splitlines()[-1]) == (0, "ended")


ENTER, LEAVE = "\x1b[?1049h", "\x1b[?1049l"


def terminal(urls: list[str], *words: str) -> closing[Screen]:
    """`rlock ...` at a terminal."""
    env = environment(urls, TERM="xterm-256color", PYTHONIOENCODING="utf-8")
    return closing(Screen([*RLOCK, *words], env))


@pytest.mark.parametrize("end", ["q", signal.SIGINT])
def test_watch_shows_locks_and_puts_the_terminal_back(end: str | signal.Signals, masters3: Fleet) -> None:
    with terminal(masters3.urls, "watch", "-i", "0.2") as screen:
        screen.until("3/3 masters answer")
        screen.until("no lock is held")
        assert screen.mode() != screen.before
        with rlock.Client(masters3.urls) as client:
            with client.lock("nightly"):
                screen.until("nightly")
                screen.until("MainThread")
            screen.until("no lock is held")
        if isinstance(end, str):
            screen.type(end)
            assert screen.ends() == 0
        else:
            screen.process.send_signal(end)
            assert screen.ends() == 128 + end
        # Its mode, its screen, its cursor.
        tail = screen.text[screen.text.rindex(ENTER) :]
        assert (screen.mode() == screen.before, LEAVE in tail, "\x1b[?25h" in tail) == (True, True, True)
        assert "Traceback" not in screen.text


def test_once_is_one_picture_for_paper(masters3: Fleet) -> None:
    with rlock.Client(masters3.urls) as client, client.lock("x"):
        code, out, err = ask(masters3.urls, "watch", "--once")
        assert (code, err) == (0, "")
        assert "\x1b" not in out
        rows = [line.split() for line in out.splitlines() if line]
        assert [row[0] for row in rows] == ["MASTER", *masters3.labels, "NAME", "x"]
        assert all(row[1] == "ok" for row in rows[1:4])
        assert rows[5][1].endswith("/MainThread")
        assert rows[5][-2] == "3/3"
    code, out, _ = ask(["redis://127.0.0.1:1"], "watch", "--once", "--json")
    assert code == 69
    assert json.loads(out)["masters"][0]["fault"] is not None


def answer(urls: list[str], keys: str, between: Callable[[], object] = lambda: None) -> tuple[int, str]:
    """Run it on a terminal, and type when it asks; exit status and what stood there."""
    with terminal(urls, "evict", "job") as screen:
        screen.until(r"\[y/N\]")
        between()
        screen.type(keys)
        return screen.ends(), screen.text


def test_on_a_terminal_it_asks_and_no_is_the_answer_that_is_taken_for_granted(masters3: Fleet) -> None:
    with rlock.Client(masters3.urls) as client, client.lock("job"):
        code, shown = answer(masters3.urls, "\n")
        assert code == 1
        assert f"/{os.getpid()}/MainThread" in shown
        assert "since 2" in shown
        assert "nobody was evicted" in shown
        assert client.status("job").locked
        code, shown = answer(masters3.urls, "y\n")
        assert code == 0
        assert "evicted" in shown
        assert not client.status("job").locked
        with pytest.raises(rlock.LeaseLostError):
            client.lock("job").release()
        assert client.lock("job").acquire(timeout=5)


def test_one_who_came_while_it_asked_is_not_evicted(masters3: Fleet) -> None:
    with rlock.Client(masters3.urls) as client, rlock.Client(masters3.urls) as other:
        first, second = client.lock("job"), other.lock("job")
        first.acquire()

        def change() -> None:
            first.release()
            second.acquire()

        code, shown = answer(masters3.urls, "y\n", change)
        assert code == 1
        assert "released in the meantime: nobody was evicted" in shown
        assert second.is_owned()
        second.release()


def test_with_an_owner_nobody_else_is_evicted(masters3: Fleet) -> None:
    with rlock.Client(masters3.urls) as client:
        lock = client.lock("job")
        lock.acquire()
        stranger = new_owner("web/1/main")
        code, _, err = ask(masters3.urls, "evict", "job", "-y", "--owner", stranger)
        assert code == 1
        assert f"not by {stranger}" in err
        assert client.status("job").locked
        holder = client.status("job").holder
        assert holder is not None
        code, out, _ = ask(masters3.urls, "evict", "job", "-y", "--owner", holder, "--json")
        assert code == 0
        assert json.loads(out)["evicted"] == [holder]
        assert eventually(lambda: not client.status("job").locked)


def test_what_is_left_on_a_minority_is_called_what_it_is(masters3: Fleet) -> None:
    raw(masters3.urls[0]).hset("job", mapping={new_owner("web/1/main"): 1})
    code, out, _ = ask(masters3.urls, "evict", "job", "-y")
    assert code == 0
    assert "is no holder, and stands on 1 of 3 masters" in out
    assert not raw(masters3.urls[0]).exists("job")
