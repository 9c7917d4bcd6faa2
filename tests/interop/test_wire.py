"""What Redisson writes and publishes for a lock on one master, and that rlock and it keep each other out."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest
import redis

from ..servers import AnyMaster, raw
from .conftest import MakeJava, MakePython
from .jvm import JavaError

EVERY_WAY = True
LEASE_MS = 10_000

#: Redisson's channel of a lock. A name is tagged unless it has an opening brace, whatever else it holds.
CHANNELS = {
    "orders:42": "redisson_lock__channel:{orders:42}",
    "ünïcode": "redisson_lock__channel:{ünïcode}",
    "user:{7}:mail": "redisson_lock__channel:user:{7}:mail",
}


@contextmanager
def ear(client: redis.Redis) -> Iterator[list[tuple[str, str]]]:
    """All that is published meanwhile: channel and message."""
    heard: list[tuple[str, str]] = []
    with client.pubsub() as pubsub:
        pubsub.psubscribe("*")
        assert pubsub.get_message(timeout=5.0), "not subscribed"
        yield heard
        # A message of our own comes behind all that was published before it.
        client.publish("the end", "")
        while (message := pubsub.get_message(timeout=5.0)) and message["channel"] != "the end":
            heard.append((message["channel"], message["data"]))
        assert message, "the end was not heard"


def test_a_java_hold_is_a_hash_of_its_owner_and_its_count(master: AnyMaster, java: MakeJava) -> None:
    client = java([master.url], watchdog_ms=LEASE_MS)
    thread = client.thread()
    (owner,) = thread.owners
    server = raw(master.url)
    thread.lock("x")
    assert server.hgetall("x") == {owner: "1"}
    assert 0 < server.pttl("x") <= client.lease_ms
    thread.lock("x")
    assert server.hgetall("x") == {owner: "2"}
    thread.unlock("x")
    assert server.hgetall("x") == {owner: "1"}
    assert 0 < server.pttl("x") <= client.lease_ms
    thread.unlock("x")
    assert not server.exists("x")


@pytest.mark.parametrize("name", CHANNELS)
def test_the_last_unlock_of_java_publishes_a_zero(master: AnyMaster, java: MakeJava, name: str) -> None:
    thread = java([master.url]).thread()
    with ear(raw(master.url)) as heard:
        thread.lock(name)
        thread.lock(name)
        thread.unlock(name)
        thread.unlock(name)
    assert heard == [(CHANNELS[name], "0")], "once, and nothing for the nested one"


def test_rlock_is_refused_while_java_holds(master: AnyMaster, java: MakeJava, python: MakePython) -> None:
    client = python([master.url])
    lock = client.lock("x")
    redissons = java([master.url], watchdog_ms=LEASE_MS)
    thread = redissons.thread()
    thread.lock("x")
    thread.lock("x")
    assert not lock.acquire(blocking=False)
    assert not lock.acquire(timeout=0.3)
    assert lock.locked()
    status = client.status("x")
    assert (status.holder, status.hold_count) == (thread.owners[0], 2)
    assert status.since is None, "Redisson's owner tokens do not tell"
    assert status.remaining is not None
    assert 0 < status.remaining <= redissons.lease_ms / 1000
    thread.unlock("x")
    assert not lock.acquire(blocking=False), "Java holds it once more"
    thread.unlock("x")
    assert lock.acquire(timeout=10.0)
    lock.release()


def test_java_is_refused_while_rlock_holds(master: AnyMaster, java: MakeJava, python: MakePython) -> None:
    lock = python([master.url]).lock("x")
    thread = java([master.url]).thread()
    with lock:
        assert not thread.trylock("x")
        assert not thread.trylock("x", wait_ms=300)
        (status,) = thread.status("x")
        assert (status["locked"], status["mine"], status["hold_count"]) == (True, False, 0)
        assert 0 < status["ttl_ms"] <= 10_000
        with pytest.raises(JavaError, match="IllegalMonitorStateException"):
            thread.unlock("x")
        assert lock.is_owned()
        (owner,) = raw(master.url).hkeys("x")
        assert owner not in thread.owners
    assert thread.trylock("x")
    thread.unlock("x")
