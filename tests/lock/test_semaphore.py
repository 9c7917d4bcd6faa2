"""`client.semaphore`: at most k owners at a time, and all waiters in one queue."""

from __future__ import annotations

import time
from typing import Any

import pytest

import rlock
from rlock._client.notifications import Subscription
from rlock.recipes import semaphore as recipe
from rlock.testing import MemoryMasters, lose

from ..servers import Fleet
from .conftest import eventually, in_thread
from .test_several import Connect, round_trips, waiting
from .test_several import connect as connect  # a fixture
from .test_several import masters as masters  # a fixture


def test_each_acquire_takes_another_permit_and_a_release_gives_the_last_one_back(connect: Connect) -> None:
    gpu, others = (connect().semaphore("gpu", permits=2) for _ in range(2))
    assert gpu.permit is None
    assert gpu.acquire()
    first = gpu.permit
    with gpu:
        second, token = gpu.permit, gpu.fencing_token
        assert {first, second} == {0, 1}
        assert gpu.remaining() > 0.0
        gpu.check()
        assert not others.acquire(blocking=False)
        assert not in_thread(lambda: others.acquire(timeout=0.2))
    assert gpu.permit == first
    with others:
        assert others.permit == second
        assert others.fencing_token > token
        with pytest.raises(rlock.NotHeldError):
            in_thread(others.release)
    gpu.release()
    with pytest.raises(rlock.NotHeldError):
        gpu.release()
    with pytest.raises(rlock.LeaseLostError, match="lock 'gpu': the calling thread or task has no permit"):
        gpu.check()
    assert repr(gpu) == "<Semaphore 'gpu' permits=2>"


@pytest.mark.parametrize("free", [1, 16])
def test_a_free_permit_costs_two_round_trips(connect: Connect, free: int) -> None:
    client, others = connect(), connect().semaphore("gpu", permits=16)
    for _ in range(16 - free):
        others.acquire()
    for fair in (False, True):
        gpu = client.semaphore("gpu", permits=16, fair=fair)
        with round_trips(client) as made:
            assert gpu.acquire()
            assert len(made) == 2
        gpu.release()


def test_in_fair_mode_nobody_goes_round_the_gate_while_it_has_an_owner(connect: Connect) -> None:
    client, newcomer = connect(), connect()
    with client.lock("gpu"):
        assert not newcomer.semaphore("gpu", permits=2, fair=True).acquire(blocking=False)
        assert not newcomer.semaphore("gpu", permits=2, fair=True).acquire(timeout=0.2)
        assert newcomer.semaphore("gpu", permits=2).acquire(blocking=False)


@pytest.mark.parametrize("fair", [False, True])
def test_a_release_wakes_the_owner_of_the_gate_without_polling(
    connect: Connect, monkeypatch: pytest.MonkeyPatch, fair: bool
) -> None:
    monkeypatch.setattr(recipe, "poll_wait", lambda random, subscribed: 1000.0)
    first, second = (connect().semaphore("gpu", permits=2, fair=fair) for _ in range(2))
    first.acquire()
    first.acquire()
    # The status tells the end of the lease. Its renewal must not wake the waiter in the place of the message.
    monkeypatch.setattr(recipe, "EXPIRY_MARGIN_S", 1000.0)
    with waiting(second) as waiter:
        time.sleep(0.3)
        assert waiter.is_alive()
        first.release()
        waiter.join(2.0)
        assert not waiter.is_alive()
    first.release()


def test_a_late_confirmation_ends_the_quick_polls(connect: Connect, monkeypatch: pytest.MonkeyPatch) -> None:
    client, holder = connect(), connect().semaphore("gpu", permits=1)
    late, polls, confirm = list[Any](), list[bool](), Subscription.confirm
    monkeypatch.setattr(Subscription, "confirm", lambda *confirmation: late.append(confirmation))

    def poll_wait(random: object, subscribed: bool) -> float:
        polls.append(subscribed)
        while late:
            confirm(*late.pop())
        return 0.01

    monkeypatch.setattr(recipe, "poll_wait", poll_wait)
    holder.acquire()
    with waiting(client.semaphore("gpu", permits=1)):
        assert eventually(lambda: {*polls} == {False, True})
        holder.release()


@pytest.mark.slow
@pytest.mark.parametrize("dead", ["gpu#0", "gpu"])
def test_a_dead_owner_of_a_permit_or_of_the_gate_costs_its_lease_and_a_second_and_a_half(
    real_masters: Fleet, dead: str
) -> None:
    """A thread that ends without a release: nobody renews its lease."""
    urls = real_masters.urls
    with rlock.Client(urls, ttl=1.0) as client, rlock.Client(urls, ttl=1.0) as other:
        in_thread(client.lock(dead).acquire)
        began = time.monotonic()
        assert other.semaphore("gpu", permits=1, fair=True).acquire(timeout=10.0)
        assert 0.5 < time.monotonic() - began < 2.5


def test_a_lost_permit_is_reported_and_given_back(connect: Connect) -> None:
    client = connect()
    lost: list[rlock.LeaseLostError] = []
    gpu = client.semaphore("gpu", permits=2, on_lost=lost.append)
    gpu.acquire()
    gpu.acquire()
    signal, permit = gpu.lost, gpu.permit
    lose(client.lock(f"gpu#{permit}"))
    assert signal.is_set()
    assert gpu.remaining() == 0.0
    with pytest.raises(rlock.LeaseLostError):
        gpu.check()
    assert eventually(lambda: [error.name for error in lost] == [f"gpu#{permit}"])
    with pytest.raises(rlock.LeaseLostError, match=f"gpu#{permit}"):
        gpu.acquire(timeout=5)  # otherwise it would wait for its own release
    with pytest.raises(rlock.LeaseLostError):
        gpu.release()
    assert gpu.permit == 1 - permit  # type: ignore[operator]
    gpu.check()
    assert gpu.acquire(timeout=5)


def test_without_a_quorum_an_acquire_raises_and_the_owner_of_the_gate_goes_on_when_it_is_back(
    connect: Connect, masters: MemoryMasters, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(recipe, "poll_wait", lambda random, subscribed: 0.05)
    holder, waiter = (connect(restart_guard=0).semaphore("gpu", permits=1) for _ in range(2))
    holder.acquire()
    with waiting(waiter) as thread:
        time.sleep(0.3)
        for master in masters:
            master.down()
        with pytest.raises(rlock.QuorumUnreachableError):
            in_thread(lambda: waiter.acquire(blocking=False))
        time.sleep(0.5)
        for master in masters:
            master.up()
        assert thread.is_alive()
        holder.release()


def test_a_waiter_that_has_lost_the_gate_stands_in_the_queue_again(
    connect: Connect, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(recipe, "poll_wait", lambda random, subscribed: 0.05)
    holder, client, operator = connect(), connect(), connect()
    permits = [each.semaphore("gpu", permits=1, fair=True) for each in (holder, client)]
    permits[0].acquire()
    with waiting(permits[1]):
        assert eventually(lambda: client.lock("gpu")._holders())  # it knows that it has the gate
        first = operator.status("gpu").holder
        lose(client.lock("gpu"))
        assert eventually(lambda: operator.status("gpu").holder not in (None, first))
        permits[0].release()


def test_bad_options_are_refused(connect: Connect) -> None:
    client = connect()
    for permits in (0, -1, 1.5, True, "2"):
        with pytest.raises(rlock.OptionsError, match="permits"):
            client.semaphore("gpu", permits=permits)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="timeout"):
        client.semaphore("gpu", permits=1).acquire(blocking=False, timeout=1)
