"""`client.locks`: several names as one lock; and what it shares with the semaphore."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import pytest

import rlock
import rlock.asyncio
from rlock.procedures.port import Request
from rlock.rules import commands
from rlock.rules.quorum import Settle
from rlock.testing import MemoryMasters, lose, memory_client

from .conftest import eventually

Connect = Callable[..., rlock.Client]


@pytest.fixture
def masters() -> MemoryMasters:
    return MemoryMasters(5)


@pytest.fixture
def connect(masters: MemoryMasters) -> Iterator[Connect]:
    """Makes clients. Each one stands for a process."""
    made: list[rlock.Client] = []

    def connect(**options: Any) -> rlock.Client:
        made.append(memory_client(masters=masters, **{"ttl": 2.0, **options}))
        with made[-1].lock(f"first use {len(made)}"):
            return made[-1]

    yield connect
    for client in made:
        client.close()


@contextmanager
def round_trips(client: rlock.Client) -> Iterator[list[str]]:
    """The round trips of a client for which somebody waits."""
    masters: Any = client._engine().masters
    made: list[str] = []

    def counted(method: Any, *arguments: Any, **options: Any) -> Any:
        made.append(method.__name__)
        return method(*arguments, **options)

    masters.call, masters.call_many = partial(counted, masters.call), partial(counted, masters.call_many)
    yield made
    del masters.call, masters.call_many


@contextmanager
def waiting(lock: Any) -> Iterator[threading.Thread]:
    """A thread that acquires and releases."""

    def wait() -> None:
        with lock:
            pass

    thread = threading.Thread(target=wait, daemon=True)
    thread.start()
    yield thread
    thread.join(10.0)
    assert not thread.is_alive()


def test_all_names_are_held_or_none(connect: Connect, masters: MemoryMasters) -> None:
    client, other = connect(), connect()
    several = client.locks(["c", "a", "b"])
    with several:
        assert several.names == ["a", "b", "c"]
        assert several.fencing_tokens == {name: client.lock(name).fencing_token for name in "abc"}
        assert several.remaining() == pytest.approx(2.0, abs=0.5)
        several.check()
        before = keys(masters)
        for attempt in (other.locks(["b", "d"]), other.locks(["d", "e", "c"])):
            assert not attempt.acquire(blocking=False)
            assert not attempt.acquire(timeout=0.2)
        assert eventually(lambda: keys(masters) == before)
    assert eventually(lambda: keys(masters) == [set()] * 5)
    assert other.locks(["a", "b", "c", "d"]).acquire(blocking=False)


def test_a_waiter_keeps_nothing_while_it_waits(connect: Connect) -> None:
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


def test_crossed_sets_never_dead_lock_and_never_overlap(connect: Connect) -> None:
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


def test_a_hundred_names_on_five_masters_cost_one_round_trip_each_way(connect: Connect) -> None:
    client = connect()
    several = client.locks(f"name {i}" for i in range(100))
    with round_trips(client) as made:
        several.acquire()
        assert made == ["call_many"]
        several.release()
        assert made == ["call_many"] * 2


def test_tokens_that_masters_gave_differently_are_agreed_on_for_all_names_together(connect: Connect) -> None:
    client = connect()
    engine, ahead = client._engine(), time.time_ns() // 1000 + 3_600_000_000
    for name in "abc":
        for master in range(5):
            command = commands.fence(name, "host/1/other:0", ahead + master)
            engine.perform(engine.masters.call(Request(command, 1.0, Settle.ALL, (master,))))
    with round_trips(client) as made, client.locks(["a", "b", "c"]) as several:
        assert made == ["call_many"] * 2
        assert min(several.fencing_tokens.values()) > ahead + 2


def test_a_name_that_the_caller_has_already_nests(connect: Connect) -> None:
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


def test_the_loss_of_one_name_is_the_loss_of_all(connect: Connect) -> None:
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


def test_a_name_that_is_lost_during_the_acquire_is_given_back(connect: Connect) -> None:
    client = connect()
    engine: Any = client._engine()

    def taken(name: str) -> bool:
        if engine.hold("m") is not None:
            lose(client.lock("m"))
        return name == "m"  # so m is taken first

    engine.taken = taken
    with pytest.raises(rlock.LeaseLostError):
        client.locks(["a", "m"]).acquire()
    assert not len(engine.holds)


def test_bad_names_are_refused(connect: Connect) -> None:
    client = connect()
    for names, text in (([], "at least one"), (["a", "b", "a"], "twice"), ("ab", "list"), (None, "list")):
        with pytest.raises(rlock.OptionsError, match=text):
            client.locks(names)  # type: ignore[arg-type]


# -- a semaphore and several names: Ctrl-C before each line, and cancelled tasks, leave nothing behind


def keys(masters: MemoryMasters) -> list[set[str]]:
    """The locks and queues on each master."""
    found = []
    for master in masters:
        with master.mutex:
            there = [key for key in list(master._keys.keys) if master._keys.look(key)]
        found.append({key for key in there if key != "rlock:fleet" and not key.endswith(":fence")})
    return found
