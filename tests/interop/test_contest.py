"""Java and Python contend for one lock."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack

import pytest

import rlock
from bench.harness.sections import Section, overlaps, sections_of

from ..lock.conftest import eventually
from ..servers import Fleet, raw
from .conftest import opened

# The first test of a machine fetches Redisson.
pytestmark = pytest.mark.timeout(600)

NAME = "contest"
CHANNEL = "redisson_lock__channel:{contest}"
JAVAS, PYTHONS, THREADS = 2, 2, 2
SECONDS, HOLD_S = 3.0, 0.001
#: After its time a thread waits for the lock once more, at worst for a lease of Redisson's.
END_S = 60.0


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
                    found.append(
                        Section(JAVAS + number % PYTHONS, number, before, entered, time.monotonic_ns())
                    )
            return found

        ours = pool.map(python, range(PYTHONS * THREADS))
        sections, errors = sections_of([java.answer(SECONDS + END_S) for java in javas])
        assert errors == []
        return sorted([*sections, *(each for found in ours for each in found)], key=lambda one: one.entered)


@pytest.mark.parametrize("count", [1, 3])
def test_never_two_at_once_and_everybody_has_it(masters: Fleet, count: int) -> None:
    sections = contest(masters(count).urls)
    assert overlaps(sections) == 0
    assert len({section[:2] for section in sections}) == (JAVAS + PYTHONS) * THREADS
    assert len(sections) >= 50


def test_the_contest_notices_two_locks_where_one_should_be(masters1: Fleet) -> None:
    assert overlaps(contest(masters1.urls, "another lock"))


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
        assert eventually(lambda: server.pubsub_numsub(CHANNEL)[0][1], 30.0), "Java does not wait"
        time.sleep(0.5)
        ear.subscribe(CHANNEL)
        ear.get_message(timeout=1)
        client.lock(NAME).release()
        # Otherwise Java sleeps to the end of the lease that it was told.
        assert java.answer(lease_s / 3)["acquired"]
        java.ask("release", lock=NAME)
        heard = [ear.get_message(timeout=1) for _ in range(2)]
    assert [message and message["data"] for message in heard] == ["0", "0"]
