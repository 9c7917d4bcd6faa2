"""Looks at a fleet: what is seen, what it costs the masters, and what a dead one costs the reader."""

from __future__ import annotations

from contextlib import closing

import rlock
from rlock.cli.scan import info
from rlock.cli.scan.look import Scan
from rlock.cli.scan.snapshot import GroupHealth, Snapshot
from rlock.rules.keys import owner_token, queue, waiter_name

from ..servers import AnyMaster, Fleet, raw


def look(urls: list[str], pattern: str = "*", limit: int = 200) -> Snapshot:
    with rlock.Client(urls) as client, closing(Scan(client, pattern, limit)) as scan:
        return scan.look()


def test_a_look_shows_locks_holders_waiters_and_masters(any_server: AnyMaster) -> None:
    urls = [any_server.url]
    with rlock.Client(urls) as client:
        client.lock("orders:1").acquire()
        client.lock("{odd}").acquire()
        raw(urls[0]).zadd(queue("orders:1"), {waiter_name(owner_token("web/2/a"), "s"): 1})
        snapshot = look(urls)
        assert [lock.name for lock in snapshot.locks] == ["orders:1", "{odd}"]
        found, status = snapshot.locks[0], client.status("orders:1")
        assert (found.holder, found.since, found.hold_count) == (status.holder, status.since, 1)
        assert [waiter.owner for waiter in found.waiters] == [each.owner for each in status.waiters] != []
        assert not snapshot.more
        assert [lock.name for lock in look(urls, "o*").locks] == ["orders:1"]
    (health,) = snapshot.masters
    assert (health.fault, health.unlisted, health.group) == (None, None, None)
    assert (health.locks, health.role, health.durable) == (2, "master", False)
    assert health.version is not None
    assert health.flavour == ("Valkey" if health.version[0] in "89" else "Redis")
    assert 0 < (health.latency or 0) < 1
    assert (health.memory or 0) > 100_000
    assert (health.clients or 0) >= 3
    assert health.clock_offset == 0.0, "the median of one"


def test_hashes_that_no_lock_wrote_are_not_shown(masters1: Fleet) -> None:
    client = raw(masters1.urls[0])
    client.hset("session", mapping={"user": "7"})
    client.hset("count", mapping={"n": 1})
    client.hset("cart", mapping={owner_token("a"): 1, owner_token("b"): 1})
    client.set("text", "x")
    client.hset("lock", mapping={owner_token("web/1/main"): 1})
    client.hset("java", mapping={"8743c9c0-0795-4907-87fd-6c719a6b4586:52": 1})
    with rlock.Client(masters1.urls) as own, closing(Scan(own)) as scan:
        snapshot = scan.look()
        assert [lock.name for lock in snapshot.locks] == ["java", "lock"]
        assert snapshot.masters[0].locks == 2
        assert set(scan._names) == {"java", "lock"}, "others are not even asked for again"


def test_of_a_group_only_fresh_acknowledgements_and_the_note_of_this_primary_count() -> None:
    told = {"run_id": "r", "master_replid": "i"}
    for number, lag in ((0, 2), (1, 3)):
        told[f"slave{number}"] = f"ip=10.0.0.{number},port=1,state=online,offset=7,lag={lag},type=replica"
    seen = GroupHealth("h:1", None, replicas=2, online=2, acknowledged=1)
    assert info.group(told, b"r+old 9000000 1000", 2, "h:1", clock=0.0) == seen
    assert info.group(told, b"r+i 9000000 1000", 2, "h:1", clock=0.5).since == 8.5
