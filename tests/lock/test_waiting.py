"""Waiting: prompt wake-ups, quiet waiters, interrupts and deaths that leave nothing behind."""

from __future__ import annotations

import threading
import time

import pytest

from ..servers import Fleet, raw
from .conftest import MakeClient, StartChild, default_mode, eventually, in_thread

EVERY_KIND = True

HOLDER = """
    import sys, rlock
    client = rlock.Client(sys.argv[2:], ttl=float(sys.argv[1]))
    lock = client.lock("x")
    lock.acquire()
    print("held", flush=True)
    sys.stdin.readline()
    lock.release()
    print("released", flush=True)
    sys.stdin.readline()
"""


def channels(fleet: Fleet) -> list[str]:
    """Subscriptions to locks; beside each there is one to what is handed to the subscriber."""
    found = [str(channel) for master in fleet for channel in raw(master.url).pubsub_channels()]
    own = [channel for channel in found if "|" in channel]
    assert len({channel.rpartition("|")[0] for channel in own} - set(found)) == 0
    return [channel for channel in found if channel not in own]


def commands(fleet: Fleet) -> int:
    """Commands that clients sent, without those that run inside a script and those of this count."""
    inner = ("info", "client", "hello", "hlen", "hgetall", "pttl", "zadd", "pexpire", "time")
    return sum(
        int(told["calls"])
        for master in fleet
        for name, told in raw(master.url).info("commandstats").items()
        if not name.removeprefix("cmdstat_").startswith(inner)
    )


def test_a_killed_holder_frees_its_lock_within_ttl_and_a_half_second(
    masters: Fleet, make_client: MakeClient, child: StartChild
) -> None:
    holder = child(HOLDER, "2", *masters.urls)
    assert holder.line() == "held"
    lock = make_client(masters.urls).lock("x")
    assert not lock.acquire(timeout=0.1)
    holder.process.kill()
    began = time.monotonic()
    assert not lock.acquire(timeout=0.1), "its lease has not ended"
    assert lock.acquire(timeout=20)
    assert time.monotonic() - began < 2.5
    lock.release()


def test_no_subscription_stays_after_the_last_waiter(masters: Fleet, make_client: MakeClient) -> None:
    client = make_client(masters.urls)
    with client.lock("x"), client.lock("y"):
        assert in_thread(lambda: client.lock("x").acquire(timeout=0.2)) is False
        assert in_thread(lambda: client.lock("y").acquire(timeout=0.2)) is False
        assert channels(masters)
        assert eventually(lambda: not channels(masters), within=5.0)
        assert eventually(lambda: "rlock-listener" not in {t.name for t in threading.enumerate()})


@pytest.mark.slow
@default_mode
@pytest.mark.real_masters
def test_an_idle_waiter_sends_a_look_at_one_master_every_second_or_two(
    masters: Fleet, make_client: MakeClient
) -> None:
    client, other = make_client(masters.urls, ttl=10.0), make_client(masters.urls, ttl=10.0)
    with client.lock("x", renew=False):
        threads = [threading.Thread(target=lambda: other.lock("x").acquire(timeout=5)) for _ in range(10)]
        for thread in threads:
            thread.start()
        time.sleep(1.0)
        before = commands(masters)
        time.sleep(3.4)
        sent = commands(masters) - before
    for thread in threads:
        thread.join()
    # Ten threads on five masters: one of them looks at one master, each 0.96 to 1.44 s.
    assert 2 <= sent <= 4


def test_threads_of_one_process_take_turns_in_the_order_in_which_they_came(
    masters3: Fleet, make_client: MakeClient
) -> None:
    client = make_client(masters3.urls)
    order: list[int] = []
    with client.lock("x"):
        threads = []
        for i in range(6):

            def work(i: int = i) -> None:
                with client.lock("x"):
                    order.append(i)

            threads.append(threading.Thread(target=work))
            threads[-1].start()
            time.sleep(0.05)
    for thread in threads:
        thread.join(30)
    assert order == list(range(6))


def test_threads_share_the_sockets_of_their_client(masters3: Fleet, make_client: MakeClient) -> None:
    client = make_client(masters3.urls)
    before = int(raw(masters3.urls[0]).info("clients")["connected_clients"])

    def work() -> None:
        for i in range(10):
            with client.lock(f"lock-{i}"):
                pass

    threads = [threading.Thread(target=work) for _ in range(32)]
    for thread in threads:
        thread.start()
    time.sleep(0.1)
    during = int(raw(masters3.urls[0]).info("clients")["connected_clients"])
    for thread in threads:
        thread.join(60)
    # one for commands, one for subscriptions; and the pooled one with which this test asks
    assert during - before <= 3
