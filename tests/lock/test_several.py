"""`client.locks`: several names as one lock."""

from __future__ import annotations

import asyncio
import random
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import rlock
import rlock.asyncio
from rlock.rules import commands
from rlock.rules.quorum import Settle
from rlock.testing import MemoryMasters, lose, memory_client

from .conftest import eventually, in_thread
from .recipes import Rounds, keys, waiting


@pytest.fixture
def masters() -> MemoryMasters:
    return MemoryMasters(5)


@pytest.fixture
def connect(masters: MemoryMasters) -> Iterator[Callable[..., rlock.Client]]:
    """Makes clients. Each one stands for a process."""
    made: list[rlock.Client] = []

    def connect(**options: Any) -> rlock.Client:
        made.append(memory_client(masters=masters, **options))
        return made[-1]

    yield connect
    for client in made:
        client.close()


def test_all_names_are_held_or_none(connect: Callable[..., rlock.Client], masters: MemoryMasters) -> None:
    client, other = connect(), connect()
    several = client.locks(["c", "a", "b"])
    with several:
        assert several.names == ["a", "b", "c"]
        assert several.fencing_tokens == {name: client.lock(name).fencing_token for name in "abc"}
        assert several.remaining() == pytest.approx(10.0, abs=0.5)
        several.check()
        before = keys(masters)
        for attempt in (other.locks(["b", "d"]), other.locks(["d", "e", "c"])):
            assert not attempt.acquire(blocking=False)
            assert not attempt.acquire(timeout=0.2)
        assert eventually(lambda: keys(masters) == before)
    assert eventually(lambda: keys(masters) == [set()] * 5)
    assert other.locks(["a", "b", "c", "d"]).acquire(blocking=False)


def test_a_waiter_keeps_nothing_while_it_waits(connect: Callable[..., rlock.Client]) -> None:
    holder, waiter, third = connect(), connect(), connect()
    holder.lock("m").acquire()
    with waiting(waiter.locks(["a", "m", "z"])) as thread:
        time.sleep(0.3)
        assert third.locks(["a", "z"]).acquire(blocking=False)
        holder.lock("m").release()
        # It has m now, asks for a and z in vain, and gives m back.
        assert eventually(lambda: holder.lock("m").acquire(blocking=False))
        holder.lock("m").release()
        assert thread.is_alive()
        third.locks(["a", "z"]).release()
        thread.join(5.0)
        assert not thread.is_alive()


def test_crossed_sets_never_dead_lock_and_never_overlap(connect: Callable[..., rlock.Client]) -> None:
    inside: list[str] = []
    done: list[int] = []

    def work(client: rlock.Client, seed: int) -> None:
        dice = random.Random(seed)
        for _ in range(40):
            with client.locks(dice.sample("abcd", dice.choice((2, 3)))) as several:
                assert not set(several.names) & set(inside)
                inside.extend(several.names)
                for name in several.names:
                    inside.remove(name)
        done.append(seed)

    threads = [threading.Thread(target=work, args=(connect(), seed), daemon=True) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60.0)
    assert sorted(done) == [0, 1, 2, 3]


def test_a_hundred_names_on_five_masters_cost_one_round_trip_each_way(
    connect: Callable[..., rlock.Client],
) -> None:
    client = connect()
    with client.lock("warm"):
        pass
    several = client.locks(f"name {i}" for i in range(100))
    with Rounds(client) as rounds:
        several.acquire()
        # The second one agrees on fencing tokens that masters gave differently.
        assert rounds.count <= 2
        rounds.count = 0
        several.release()
        assert rounds.count == 1


def test_tokens_that_masters_gave_differently_are_agreed_on_for_all_names_together(
    connect: Callable[..., rlock.Client],
) -> None:
    client = connect()
    with client.lock("warm"):
        pass
    engine, ahead = client._engine(), time.time_ns() // 1000 + 3_600_000_000
    for name in "abc":
        for master in range(5):
            command = commands.fence(name, "host/1/other:0", ahead + master)
            engine.perform(engine.masters.call(command, 1.0, Settle.ALL, (master,)))
    with Rounds(client) as rounds, client.locks(["a", "b", "c"]) as several:
        assert rounds.count == 2
        assert min(several.fencing_tokens.values()) > ahead + 2


def test_a_name_that_the_caller_has_already_nests(connect: Callable[..., rlock.Client]) -> None:
    client, other = connect(), connect()
    inner = client.lock("a")
    with inner:
        with client.locks(["a", "b"]) as several:
            assert inner.hold_count == 2
            with several:
                assert inner.hold_count == 3
        assert inner.hold_count == 1
        assert other.lock("b").acquire(blocking=False)
        assert not client.locks(["a", "b"]).acquire(blocking=False)
        assert inner.hold_count == 1
        last = client.lock("z")
        last.acquire()
        lose(last)
        with pytest.raises(rlock.LeaseLostError):
            client.locks(["a", "z"]).acquire()
        assert inner.hold_count == 1
        with pytest.raises(rlock.LeaseLostError):
            last.release()
    with pytest.raises(rlock.NotHeldError):
        client.locks(["a", "b"]).release()


def test_the_loss_of_one_name_is_the_loss_of_all(connect: Callable[..., rlock.Client]) -> None:
    client = connect()
    lost: list[rlock.LeaseLostError] = []
    several = client.locks(["a", "b", "c"], on_lost=lost.append)
    several.acquire()
    signal = several.lost
    assert not signal.is_set()
    told: list[bool] = []
    thread = threading.Thread(target=lambda: told.append(signal.wait(5.0)))
    thread.start()
    lose(client.lock("b"))
    thread.join(5.0)
    assert told == [True]
    assert several.remaining() == 0.0
    with pytest.raises(rlock.LeaseLostError) as found:
        several.check()
    assert found.value.name == "b"
    lose(client.lock("c"))
    with pytest.raises(rlock.LeaseLostError) as found:
        several.release()
    assert found.value.name == "b"
    assert [error.name for error in lost] == ["b"]
    assert connect().locks(["a", "b", "c"]).acquire(blocking=False)


def test_without_a_quorum_an_acquire_raises(
    connect: Callable[..., rlock.Client], masters: MemoryMasters
) -> None:
    client = connect(restart_guard=0)
    for master in list(masters)[:3]:
        master.down()
    with pytest.raises(rlock.QuorumUnreachableError):
        client.locks(["a", "b"]).acquire(blocking=False)
    with pytest.raises(rlock.QuorumUnreachableError):
        client.locks(["a", "b"]).acquire(timeout=0.3)
    for master in list(masters)[:3]:
        master.up()
    assert in_thread(lambda: client.locks(["a", "b"]).acquire(timeout=5.0))


def test_bad_names_are_refused(connect: Callable[..., rlock.Client]) -> None:
    client = connect()
    for names, text in (([], "at least one"), (["a", "b", "a"], "twice"), ("ab", "list"), ([""], "empty")):
        with pytest.raises(rlock.OptionsError, match=text):
            client.locks(names)


def test_a_cancelled_task_leaves_nothing_behind(masters: MemoryMasters) -> None:
    async def main() -> None:
        async with memory_client(masters=masters, kind=rlock.asyncio.Client) as client:
            async with client.lock("b"):
                before = keys(masters)

                async def wait() -> None:
                    async with client.locks(["a", "b", "c"]):
                        raise AssertionError

                for pause in (0.0, 0.001, 0.2):
                    waiter = asyncio.create_task(wait())
                    await asyncio.sleep(pause)
                    waiter.cancel()
                    await asyncio.wait([waiter])
                    await asyncio.sleep(0.1)
                    assert keys(masters) == before
            async with client.locks(["a", "b", "c"]) as several:
                assert len(several.fencing_tokens) == 3
                assert not await several.lost.wait(0.01)

    asyncio.run(main())
