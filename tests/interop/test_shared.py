"""Locks that are shared with Redisson: what a client writes, publishes, hears and refuses; contests.

Redisson is played by the few commands that its scripts consist of, so that most tests run everywhere. Others
need a Java, and are skipped where its program cannot be built.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from functools import partial
from typing import Any

import pytest
import redis

import rlock
import rlock.asyncio
from bench.harness import builds
from bench.harness.builds import Broken
from bench.harness.contestants import select
from bench.harness.sections import Section, overlaps, sections_of
from bench.harness.worker import Failed, Worker
from rlock.rules.keys import REDISSON

from ..faults.conftest import Waiter
from ..lock.conftest import MakeClient, eventually
from ..lock.conftest import make_client as make_client  # a fixture
from ..servers import Fleet, left, raw

TTL_MS = 2000
OPEN_S = 90.0  # a JVM that starts, and warms up, while the machine has other work


def built(environment: str) -> list[str]:
    """The command of its program; the test is skipped where it cannot be built, without a network say."""
    try:
        return builds.command(environment)
    except Broken:
        raise
    except Failed as why:
        pytest.skip(f"{environment}: {why}")


def opened(key: str, urls: Sequence[str], **more: Any) -> Worker:
    """Its process, connected to the masters; ``more`` are fields of its `open` request."""
    (found,) = select([key])
    built(found.environment)
    worker = found.start()
    try:
        worker.ask("open", OPEN_S, **{**found.opening(urls, TTL_MS), **more})
    except BaseException:
        worker.close()
        raise
    return worker


@pytest.fixture(scope="session")
def redisson() -> list[str]:
    *java, _ = built("java")
    return java


MakeShared = Callable[..., rlock.Client]
CHANNEL = "redisson_lock__channel:{job}"
UUID = "{:08x}-89ab-4cde-8f01-23456789abcd"


@pytest.fixture
def shared(make_client: MakeClient) -> MakeShared:
    return partial(make_client, ttl=2.0, interop="redisson")


class Java:
    """A thread of Java that holds ``job``: an RLock on each master, with a uuid each, as RedLock has."""

    def __init__(self, urls: Sequence[str], thread: int = 35) -> None:
        self._servers = [raw(url) for url in urls]
        self.owners = [f"{UUID.format(i)}:{thread}" for i in range(len(urls))]

    def lock(self, lease_ms: int = 30_000, masters: Sequence[int] | None = None) -> None:
        for i in range(len(self._servers)) if masters is None else masters:
            assert not self._servers[i].exists("job")
            self._servers[i].hincrby("job", self.owners[i], 1)
            self._servers[i].pexpire("job", lease_ms)

    def unlock(self) -> None:
        for server, owner in zip(self._servers, self.owners, strict=True):
            if server.hexists("job", owner):
                self._free(server)

    def force(self) -> None:
        for server in self._servers:
            self._free(server)

    def _free(self, server: redis.Redis) -> None:
        if server.delete("job"):
            server.publish(CHANNEL, "0")


@pytest.mark.parametrize(
    ("name", "channel"),
    [
        ("job", "redisson_lock__channel:{job}"),
        ("half{", "redisson_lock__channel:half{"),
        ("half}", "redisson_lock__channel:{half}}"),
    ],
)
def test_the_channel_is_named_as_redisson_names_it(name: str, channel: str) -> None:
    assert REDISSON.channel(name) == channel


def test_a_release_is_told_as_redisson_expects_it(masters3: Fleet, shared: MakeShared) -> None:
    ears = [raw(url).pubsub(ignore_subscribe_messages=True) for url in masters3.urls]
    for ear in ears:
        ear.psubscribe("*")
        ear.get_message(timeout=1)
    with shared(masters3.urls).lock("job") as lock, lock:
        assert raw(masters3.urls[0]).hlen("job") == 1
    for ear in ears:
        message = ear.get_message(timeout=2) or {}
        assert (message.get("channel"), message.get("data")) == (CHANNEL, "0")
        assert ear.get_message(timeout=0.1) is None, "once"
        ear.close()


@pytest.mark.parametrize("count", [1, 3])
def test_a_waiter_is_woken_by_an_unlock_of_java(masters: Fleet, shared: MakeShared, count: int) -> None:
    urls = masters(count).urls
    java, client = Java(urls), shared(urls)
    java.lock()
    assert not client.lock("job").acquire(blocking=False)
    waiter = Waiter(client, name="job")
    assert eventually(lambda: raw(urls[-1]).zcard("rlock:{job}:queue") == 1)
    time.sleep(0.2)
    # While one thread of Java has all of them, it sleeps: a poll now and then, and no rounds.
    before = [raw(url).info("commandstats")["cmdstat_evalsha"]["calls"] for url in urls]
    time.sleep(1.0)
    after = [raw(url).info("commandstats")["cmdstat_evalsha"]["calls"] for url in urls]
    assert sum(after) - sum(before) <= 3
    began = time.monotonic()
    java.unlock()
    assert waiter.got(10)
    assert waiter.got_at - began < 0.6, "it was not woken, it polled"
    assert not left(urls[0])


def test_a_vote_that_is_taken_back_is_told_to_java(masters3: Fleet, shared: MakeShared) -> None:
    Java(masters3.urls, 35).lock(5_000, [0])
    Java(masters3.urls, 36).lock(5_000, [1])
    ear = raw(masters3.urls[2]).pubsub(ignore_subscribe_messages=True)
    ear.subscribe(CHANNEL)
    ear.get_message(timeout=1)
    with pytest.raises(rlock.QuorumUnreachableError, match="voted for redisson:35"):
        shared(masters3.urls).lock("job").acquire(blocking=False)  # neither of the two has it
    assert (ear.get_message(timeout=2) or {}).get("data") == "0"
    assert not raw(masters3.urls[2]).exists("job")
    ear.close()


@pytest.mark.parametrize("count", [1, 3])
def test_status_and_evict_know_java(masters: Fleet, shared: MakeShared, count: int) -> None:
    urls = masters(count).urls
    client, java = shared(urls), Java(urls)
    java.lock()
    found = client.status("job")
    assert found.holder in java.owners
    assert [view.holder for view in found.masters] == java.owners
    assert (found.since, found.hold_count) == (None, 1)
    assert found.remaining is not None
    assert 25 < found.remaining <= 30
    assert client.lock("job").locked()
    assert sorted(client.evict("job")) == sorted(java.owners)
    assert not client.status("job").locked


@pytest.mark.parametrize("count", [1, 3])
def test_a_force_of_java_is_a_loss_and_is_not_healed(masters: Fleet, shared: MakeShared, count: int) -> None:
    urls = masters(count).urls
    lock = shared(urls, ttl=1.0).lock("job")
    lock.acquire()
    lost = lock.lost
    assert eventually(lambda: all(raw(url).exists("job") for url in urls))
    Java(urls).force()
    assert eventually(lost.is_set)
    assert not any(raw(url).exists("job") for url in urls)
    with pytest.raises(rlock.LeaseLostError):
        lock.release()


@pytest.mark.parametrize("kind", [rlock.Client, rlock.asyncio.Client])
def test_a_fair_lock_is_refused(kind: Any) -> None:
    with pytest.raises(rlock.OptionsError, match="cannot be fair"):
        kind("redis://127.0.0.1:1", interop="redisson").lock("job", fair=True)


fetches = pytest.mark.timeout(600)  # the first test of a machine fetches Redisson

NAME = "contest"
CONTEST_CHANNEL = "redisson_lock__channel:{contest}"
JAVAS, PYTHONS, THREADS = 2, 2, 2
SECONDS, HOLD_S = 3.0, 0.001
END_S = 60.0  # after its time a thread waits for the lock once more, at worst for a lease of Redisson's


def contest(urls: list[str], name: str = NAME) -> list[Section]:
    """Let the processes and threads contend, Python for the lock of this name; the sections of all."""
    with ExitStack() as stack:
        key = "redisson-rlock" if len(urls) == 1 else "redisson-redlock"
        javas = [stack.enter_context(opened(key, urls)) for _ in range(JAVAS)]
        clients = [stack.enter_context(rlock.Client(urls, interop="redisson")) for _ in range(PYTHONS)]
        pool = stack.enter_context(ThreadPoolExecutor(PYTHONS * THREADS))
        start = time.monotonic_ns() + 500_000_000
        stop = start + int(SECONDS * 1e9)
        asked = {"lock": NAME, "threads": THREADS, "hold_us": round(HOLD_S * 1e6), "wait_ms": END_S * 1000}
        for java in javas:
            java.send("loop", **asked, start_ns=start, stop_ns=stop)

        def python(number: int) -> list[Section]:
            found = []
            lock = clients[number % PYTHONS].lock(name)
            while (before := time.monotonic_ns()) < stop:
                with lock:
                    entered = time.monotonic_ns()
                    time.sleep(HOLD_S)
                    ended = time.monotonic_ns()
                    found.append(Section(JAVAS + number % PYTHONS, number, before, entered, ended))
            return found

        ours = pool.map(python, range(PYTHONS * THREADS))
        sections, errors = sections_of([java.answer(SECONDS + END_S) for java in javas])
        assert errors == []
        return sorted([*sections, *(each for found in ours for each in found)], key=lambda one: one.entered)


@fetches
@pytest.mark.parametrize("count", [1, 3])
def test_never_two_at_once_and_everybody_has_it(masters: Fleet, count: int) -> None:
    sections = contest(masters(count).urls)
    assert overlaps(sections) == 0
    assert len({section[:2] for section in sections}) == (JAVAS + PYTHONS) * THREADS
    assert len(sections) >= 50


@fetches
def test_the_contest_notices_two_locks_where_one_should_be(masters1: Fleet) -> None:
    assert overlaps(contest(masters1.urls, "another lock"))


@fetches
def test_java_is_woken_by_a_release_of_python_and_publishes_its_own(masters1: Fleet) -> None:
    (url,) = masters1.urls
    server, lease_s = raw(url), 30.0
    with (
        opened("redisson-rlock", [url]) as java,
        rlock.Client([url], lease_s, interop="redisson", max_ttl=lease_s) as client,
        server.pubsub(ignore_subscribe_messages=True) as ear,
    ):
        client.lock(NAME).acquire()
        java.send("acquire", lock=NAME, wait_ms=int(lease_s * 1000))
        assert eventually(lambda: server.pubsub_numsub(CONTEST_CHANNEL)[0][1], 30.0), "Java does not wait"
        time.sleep(0.5)
        ear.subscribe(CONTEST_CHANNEL)
        ear.get_message(timeout=1)
        client.lock(NAME).release()
        # Otherwise Java sleeps to the end of the lease that it was told.
        assert java.answer(lease_s / 3)["acquired"]
        java.ask("release", lock=NAME)
        heard = [ear.get_message(timeout=1) for _ in range(2)]
    assert [message and message["data"] for message in heard] == ["0", "0"]
