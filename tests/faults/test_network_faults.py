"""Networks that are slow, silent, divided or hostile, and wall clocks that jump: what a caller sees."""

from __future__ import annotations

import statistics
import threading
import time
from collections.abc import Callable
from functools import partial
from itertools import pairwise

import pytest

import rlock
from rlock._client.subscriptions import Subscriptions
from rlock.events import MasterFailed
from rlock.testing.local.spawn import free_port

from ..lock.conftest import eventually, running
from ..servers import Fleet, name_of, tell
from ..telemetry.happenings import Ledger
from .checks import excluded, holders, subscribers, unharmed, usable, waiting, within
from .clock import Clock
from .conftest import POLL_S, Clocked, Scene, Scenes, Waiter


def test_a_slow_minority_makes_nobody_slower(masters: Fleet, scenes: Scenes) -> None:
    scene = scenes(masters)
    client = scene.client(10.0, scene.proxied(2))
    for proxy in scene.proxies:
        proxy.delay_s = 0.2
    lock = client.lock("x")
    usable(client)  # connects; the slow ones need a little longer than the others for that
    times = []
    for _ in range(20):
        began = time.monotonic()
        assert lock.acquire()
        lock.release()
        times.append(time.monotonic() - began)
    assert statistics.median(times) < 0.1, "the quorum answers at once; one way to the slow ones takes 0.1 s"
    assert eventually(lambda: set(holders(masters.urls)) == {None}, 3.0), "releases overtook acquires"


@pytest.mark.parametrize("ask", ["status", "init"])
def test_the_first_question_to_all_waits_for_a_master_that_connects_late(ask: str, scene: Scene) -> None:
    client = scene.client(10.0, scene.proxied(1), restart_guard=None)
    scene.proxies[0].delay_s = 0.2  # the others are connected in milliseconds; its time-out is 0.5 s
    if ask == "status":
        assert [view.fault for view in client.status("x").masters] == [None] * 3
    else:
        assert list(client.init().values()) == [None] * 3


def test_a_slow_majority_costs_its_delay_and_the_validity_counts_from_before_sending(scene: Scene) -> None:
    client, other = scene.client(10.0, scene.proxied(2)), scene.client()
    usable(client)
    for proxy in scene.proxies:
        proxy.delay_s = 0.3  # under the time-out of 0.5 s
    began = time.monotonic()
    with client.lock("x") as lock:
        took = time.monotonic() - began
        assert 0.3 < took < 2.0
        # Less the drift of 0.102 s, and less all of what it took.
        assert lock.remaining() < 10.0 - 0.102 - took + 0.2
        excluded(other)
    with within(POLL_S):
        usable(other)


@pytest.mark.parametrize("fault", ["slow", "no requests", "no replies"])
def test_a_majority_that_answers_late_or_not_at_all_is_an_error_until_it_is_mended(
    fault: str, scene: Scene
) -> None:
    client, other = scene.client(1.2, scene.proxied(2)), scene.client()
    usable(client)
    for proxy in scene.proxies:
        if fault == "slow":
            proxy.delay_s = 0.6  # the time-out is 0.2 s
        else:
            proxy.cut(requests=fault == "no requests", replies=fault == "no replies")
    with within(2.0), pytest.raises(rlock.QuorumUnreachableError, match=r"no answer within 0\.2 s"):
        client.lock("x").acquire(blocking=False)
    # Where its commands arrive, so does the undo behind them.
    with within(3.0):
        usable(other)
    for proxy in scene.proxies:
        proxy.mend()
    usable(client)


def news(ledger: Ledger) -> list[MasterFailed]:
    """The faults that the log tells."""
    return [event for event in ledger.of(MasterFailed) if event.news]


def test_all_permits_are_subscribed_in_one_time_out(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise silent masters would keep a caller with a hundred permits for fifty seconds."""
    owner, other = (scene.client(10.0).semaphore("x", permits=4) for _ in range(2))
    for _ in range(4):
        owner.acquire()
    waited_for: set[str] = set()
    monkeypatch.setattr(Subscriptions, "_settled", lambda _, found: waited_for.add(found.name))
    assert not other.acquire(timeout=0.2)
    assert len(waited_for) == 1


@pytest.mark.parametrize("how", ["silent", "killed"])
def test_subscriptions_that_fell_silent_are_made_again_and_told_once(
    how: str, scene: Scene, ledger: Ledger
) -> None:
    holder, other = scene.client(10.0), scene.client(10.0, scene.proxied(3))
    lock, heard = holder.lock("x"), holder.lock("y")
    lock.acquire()
    heard.acquire()
    waiter, hears = Waiter(other), Waiter(other, name="y")
    assert eventually(lambda: all(subscribers(url) == 1 for url in scene.urls))
    waiting(holder)
    told: set[tuple[str, str]] = set()
    if how == "killed":
        tell(scene.urls, "CLIENT", "KILL", "TYPE", "pubsub")
    else:
        told = {(name_of(proxy.url), "silent") for proxy in scene.proxies}
        for proxy in scene.proxies:
            proxy.forget_subscribers()
    lock.release()  # nobody is told; a poll finds it
    # TCP would notice it after 11 s, or after a quarter of an hour if bytes of the client are on their way.
    assert waiter.got(2 * POLL_S)
    assert eventually(lambda: len(news(ledger)) == len(told), 5.0)
    time.sleep(0.5)  # it subscribes and polls at once, and sleeps again
    assert eventually(lambda: all(subscribers(url) == 1 for url in scene.urls))
    released_at = time.monotonic()
    heard.release()
    assert hears.got(5.0)
    assert hears.got_at - released_at < 0.3, "it polled"
    assert {(event.master, event.kind) for event in news(ledger)} == told


@pytest.mark.parametrize("later_ones", [False, True], ids=["once", "for ever"])
def test_fair_waiters_that_hear_nothing_cost_one_claim_each(later_ones: bool, scene: Scene) -> None:
    ended = threading.Event()
    held: tuple[list[float], list[float]] = ([], [])
    clients = [scene.client(10.0), scene.client(10.0, scene.proxied(3))]

    def work(number: int) -> None:
        lock = clients[number].lock("x", fair=True)
        while not ended.is_set():
            with lock:
                held[number].append(time.monotonic())
                time.sleep(0.005)

    with running(*(partial(work, number) for number in (0, 1) * 3)):
        assert eventually(lambda: min(map(len, held)) > 20, 10.0)
        silent_at = time.monotonic()
        for proxy in scene.proxies:
            proxy.forget_subscribers(later_ones=later_ones)
        time.sleep(7.0)
        ended.set()
        for proxy in scene.proxies:
            proxy.mend()
    times = [silent_at, *(at for at in held[0] if at > silent_at)]
    pauses = [later - earlier for earlier, later in pairwise(times) if later - earlier > 0.4]
    assert sum(pauses) < 4.6, pauses  # a claim and a poll for each of three


def test_a_closed_port_is_refused_at_once_and_the_error_says_so(scene: Scene) -> None:
    closed = [f"redis://127.0.0.1:{free_port()}" for _ in range(2)]
    client = scene.client(urls=[scene.urls[0], *closed])
    with within(2.0), pytest.raises(rlock.QuorumUnreachableError, match="refused") as caught:
        client.lock("x").acquire(timeout=0.3)
    assert set(caught.value.faults) == set(closed)
    assert eventually(lambda: holders(scene.urls[:1]) == [None], 2.0), "the one vote was kept"
    with within(2.0):
        usable(scene.client(urls=[*scene.urls, *closed]))


def test_connections_that_are_reset_are_made_again_and_neither_holder_nor_waiter_is_hurt(
    scene: Scene,
) -> None:
    def reset() -> int:
        return sum(proxy.reset() for proxy in scene.proxies)

    lock, other = scene.held(1.5, scene.proxied(3))
    waiter = Waiter(other)
    waiting(scene.client())
    until = time.monotonic() + 2.0  # longer than a lease
    while time.monotonic() < until:
        assert reset() > 0
        time.sleep(0.4)
        lock.check()
        assert not waiter.done
    reset()
    with within(POLL_S):
        lock.release()
        assert waiter.got()
    reset()
    assert other.lock("x").acquire(blocking=False), "a reset between two calls is not the caller's business"
    other.lock("x").release()


WRONG: dict[str, Callable[[Clock], None]] = {
    "forward": lambda clock: clock.step(60.0),
    "back": lambda clock: clock.step(-60.0),
    "fast": lambda clock: clock.run(2.0),
    "slow": lambda clock: clock.run(0.5),
}


@pytest.mark.parametrize(("masters", "how"), [(3, "forward"), (3, "slow"), (5, "back"), (5, "fast")])
def test_a_minority_whose_clock_jumps_or_runs_wrong_lets_nobody_in_and_costs_a_holder_nothing(
    masters: int, how: str, clocked: Clocked
) -> None:
    scene, clocks = clocked(masters)
    with unharmed(scene.client(1.2), scene.client(1.2), 1.4):
        assert eventually(lambda: None not in holders(scene.urls))
        for clock in clocks[: masters // 2]:
            WRONG[how](clock)


def test_a_dead_holders_lock_is_free_after_its_lease_although_the_clock_of_a_minority_went_back(
    clocked: Clocked,
) -> None:
    scene, clocks = clocked(3)
    dead = scene.process('lock.acquire(); print("got"); time.sleep(60)', 1.2)
    assert dead.line() == "got"
    assert eventually(lambda: len({*holders(scene.urls)}) == 1), "also on the slowest master"
    clocks[0].step(-60.0)
    dead.process.kill()
    other = scene.client()
    with within(1.2 + POLL_S):
        assert other.lock("x").acquire()
    first, second, _ = holders(scene.urls)
    assert first != second, "there the dead one has it for a minute more"
    other.lock("x").release()
    with within(1.0):
        usable(other)


def test_waiters_in_fair_mode_are_all_served_although_the_masters_clocks_disagree_by_an_hour(
    clocked: Clocked,
) -> None:
    scene, clocks = clocked(3)
    clocks[0].step(3600.0)
    clocks[1].step(-3600.0)
    holder = scene.client()
    lock = holder.lock("x", fair=True)
    lock.acquire()
    queue: list[Waiter] = []
    for i in range(3):
        queue.append(Waiter(scene.client(), fair=True))
        waiting(holder, i + 1)
        clocks[0].step(-3600.0)  # and while they wait
        clocks[1].step(3600.0)
    with within(2 * POLL_S):
        if holder.status("x").locked:
            lock.release()
        for waiter in queue:
            assert waiter.got()
    assert sorted(queue, key=lambda waiter: waiter.got_at) == queue, "not in the order of their coming"
