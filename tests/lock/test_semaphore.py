"""`client.semaphore`: at most k owners at a time, and all waiters in one queue."""

from __future__ import annotations

import asyncio
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import rlock
import rlock.asyncio
from rlock.recipes import semaphore as recipe
from rlock.testing import MemoryMasters, lose, memory_client

from .conftest import eventually, in_thread
from .recipes import Rounds, keys, waiting


@pytest.fixture
def masters() -> MemoryMasters:
    return MemoryMasters(3)


@pytest.fixture
def connect(masters: MemoryMasters) -> Iterator[Callable[..., rlock.Client]]:
    """Makes clients. Each one stands for a process."""
    made: list[rlock.Client] = []

    def connect(**options: Any) -> rlock.Client:
        made.append(memory_client(masters=masters, **{"ttl": 2.0, **options}))
        return made[-1]

    yield connect
    for client in made:
        client.close()


def test_each_acquire_takes_another_permit_and_a_release_gives_the_last_one_back(
    connect: Callable[..., rlock.Client],
) -> None:
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
    with pytest.raises(rlock.LeaseLostError):
        gpu.check()


def test_three_owners_get_two_permits_from_counters_with_a_majority_and_not_from_locks(
    connect: Callable[..., rlock.Client],
) -> None:
    """Without any fault: a master counts its own owners, and no two of three owners share all masters."""
    limit, quorum = 2, 2
    counters = [Counter[str]() for _ in range(3)]
    owners = {"a": (0, 1), "b": (1, 2), "c": (2, 0)}  # the two masters whose answers came first
    for owner, reached in owners.items():
        for master in reached:
            if counters[master].total() < limit:
                counters[master][owner] += 1
    assert all(counter.total() <= limit for counter in counters)
    assert all(sum(counter[owner] for counter in counters) >= quorum for owner in owners)

    clients = [connect().semaphore("gpu", permits=limit) for _ in owners]
    assert [client.acquire(blocking=False) for client in clients] == [True, True, False]


@pytest.mark.parametrize("free", [1, 16])
def test_a_free_permit_costs_two_round_trips(
    connect: Callable[..., rlock.Client], free: int, masters: MemoryMasters
) -> None:
    others = connect().semaphore("gpu", permits=16)
    for _ in range(16 - free):
        others.acquire()
    client = connect()
    with client.lock("warm"):
        pass
    for fair in (False, True):
        gpu = client.semaphore("gpu", permits=16, fair=fair)
        with Rounds(client) as rounds:
            assert gpu.acquire()
        assert rounds.count == 2
        gpu.release()


def test_in_fair_mode_nobody_goes_round_the_gate_while_it_has_an_owner(
    connect: Callable[..., rlock.Client],
) -> None:
    client, newcomer = connect(), connect()
    with client.lock("gpu"):
        assert not newcomer.semaphore("gpu", permits=2, fair=True).acquire(blocking=False)
        assert not newcomer.semaphore("gpu", permits=2, fair=True).acquire(timeout=0.2)
        assert newcomer.semaphore("gpu", permits=2).acquire(blocking=False)


@pytest.mark.parametrize("fair", [False, True])
def test_a_release_wakes_the_owner_of_the_gate_without_polling(
    connect: Callable[..., rlock.Client], monkeypatch: pytest.MonkeyPatch, fair: bool
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


def test_waiters_get_permits_in_the_order_in_which_they_came(connect: Callable[..., rlock.Client]) -> None:
    holder = connect().semaphore("gpu", permits=1, fair=True)
    order: list[int] = []
    holder.acquire()

    def wait(number: int) -> None:
        with connect().semaphore("gpu", permits=1, fair=True):
            order.append(number)

    threads = [threading.Thread(target=wait, args=(number,)) for number in range(5)]
    for thread in threads:
        thread.start()
        time.sleep(0.15)
    holder.release()
    for thread in threads:
        thread.join(10.0)
    assert order == sorted(order)
    assert len(order) == 5


@pytest.mark.slow
@pytest.mark.parametrize("dead", ["a permit", "the gate"])
def test_a_dead_owner_costs_its_lease_and_a_second_and_a_half(
    connect: Callable[..., rlock.Client], dead: str
) -> None:
    """A thread that ends without a release: nobody renews its lease."""
    ttl = 1.0
    client = connect(ttl=ttl)
    if dead == "a permit":
        in_thread(client.semaphore("gpu", permits=1).acquire)
    else:
        in_thread(client.lock("gpu").acquire)
    began = time.monotonic()
    assert connect().semaphore("gpu", permits=1, fair=True).acquire(timeout=10.0)
    assert ttl / 2 < time.monotonic() - began < ttl + 1.5


def test_a_lost_permit_is_reported_and_given_back(connect: Callable[..., rlock.Client]) -> None:
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
    with pytest.raises(rlock.LeaseLostError):
        gpu.release()
    assert gpu.permit == 1 - permit  # type: ignore[operator]
    gpu.check()


def test_without_a_quorum_an_acquire_raises_and_the_owner_of_the_gate_goes_on_when_it_is_back(
    connect: Callable[..., rlock.Client], masters: MemoryMasters, monkeypatch: pytest.MonkeyPatch
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
        thread.join(10.0)
        assert not thread.is_alive()


def test_a_waiter_that_has_lost_the_gate_stands_in_the_queue_again(
    connect: Callable[..., rlock.Client], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(recipe, "poll_wait", lambda random, subscribed: 0.05)
    holder, client, operator = connect(), connect(), connect()
    permits = [each.semaphore("gpu", permits=1, fair=True) for each in (holder, client)]
    permits[0].acquire()
    with waiting(permits[1]) as thread:
        assert eventually(lambda: operator.status("gpu").locked)
        first = operator.status("gpu").holder
        lose(client.lock("gpu"))
        assert eventually(lambda: operator.status("gpu").holder not in (None, first))
        permits[0].release()
        thread.join(5.0)
        assert not thread.is_alive()


def test_bad_options_are_refused(connect: Callable[..., rlock.Client]) -> None:
    client = connect()
    for permits in (0, -1, 1.5, True, "2"):
        with pytest.raises(rlock.OptionsError, match="permits"):
            client.semaphore("gpu", permits=permits)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="timeout"):
        client.semaphore("gpu", permits=1).acquire(blocking=False, timeout=1)


@pytest.mark.parametrize("at", ["the gate", "the permits"])
def test_a_cancelled_task_leaves_nothing_behind(masters: MemoryMasters, at: str) -> None:
    async def main() -> None:
        async with memory_client(masters=masters, kind=rlock.asyncio.Client) as client:
            gpu = client.semaphore("gpu", permits=1)
            async with gpu:
                before = keys(masters)

                async def wait() -> None:
                    async with client.semaphore("gpu", permits=1):
                        raise AssertionError

                waiters = [asyncio.create_task(wait()) for _ in range(2)]
                await asyncio.sleep(0.3)
                for waiter in waiters if at == "the permits" else waiters[::-1]:
                    waiter.cancel()
                    await asyncio.wait([waiter])
                    assert waiter.cancelled()
                await asyncio.sleep(0.1)
                assert keys(masters) == before
            async with client.semaphore("gpu", permits=1) as again:
                assert again.permit == 0

    asyncio.run(main())


def test_tasks_share_the_permits(masters: MemoryMasters) -> None:
    async def main() -> None:
        inside, most = 0, 0

        async def work(gpu: Any) -> None:
            nonlocal inside, most
            async with gpu:
                inside += 1
                most = max(most, inside)
                await asyncio.sleep(0.01)
                inside -= 1

        async with memory_client(masters=masters, kind=rlock.asyncio.Client) as client:
            gpu = client.semaphore("gpu", permits=3)
            await asyncio.gather(*(work(gpu) for _ in range(12)))
        assert most == 3

    asyncio.run(main())
