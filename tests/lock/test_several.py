"""`client.locks`, several names as one lock, and `client.semaphore`: at most k owners at a time."""

from __future__ import annotations

import random
import time
from collections.abc import Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from functools import partial
from typing import Any

import pytest

import rlock
from evidence.interrupts.scene import left
from rlock import Client, LeaseLostError
from rlock.model import Verdict
from rlock.procedures.contender import Contender
from rlock.procedures.port import Request
from rlock.recipes import semaphore as recipe
from rlock.rules import commands
from rlock.rules.quorum import Ballot, Settle
from rlock.testing import lose

from ..servers import Fleet
from .conftest import MakeClient, eventually, in_thread, running

EVERY_KIND = True
pytestmark = pytest.mark.kinds("memory")
#: Shared with Redisson there are no readers.
readers = pytest.mark.kinds("blocking", "asyncio", "memory", "asyncio-memory")


@pytest.fixture
def connect(masters: Fleet, make_client: MakeClient) -> MakeClient:
    """Makes clients that are connected. Each one stands for a process."""

    def connect(**options: Any) -> Client:
        client = make_client(masters.urls, **{"ttl": 2.0, **options})
        with client.lock("first use"):
            return client

    return connect


@contextmanager
def round_trips(client: Client) -> Iterator[list[str]]:
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
def waiting(lock: Any) -> Iterator[Future[object]]:
    """A thread that acquires and releases."""
    with running(lambda: lock.acquire() and lock.release()) as (done,):
        yield done


def test_the_end_of_the_time_is_an_error_if_nobody_is_known_to_have_had_a_name(
    connect: MakeClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    def without_answers(port: Any, contender: Contender, timeout: float, **_: bool) -> Iterator[None]:
        contender.findings.note(Verdict.UNREACHABLE, Ballot(3, Settle.ALL))
        yield from ()

    client = connect()
    for module in ("recipes.several", "procedures.acquire"):
        monkeypatch.setattr(f"rlock.{module}.attempt", without_answers)
    for timing in ({"timeout": 0.2}, {"blocking": False}):
        with pytest.raises(rlock.QuorumUnreachableError):
            client.locks(["a", "b"]).acquire(**timing)
    assert not client.lock("a").locked()


def test_all_names_are_held_or_none(connect: MakeClient, masters: Any) -> None:
    client, other, fleet = connect(), connect(), [each.master for each in masters]
    several = client.locks(["c", "a", "b"])
    with several:
        assert several.names == ["a", "b", "c"]
        assert several.fencing_tokens == {name: client.lock(name).fencing_token for name in "abc"}
        assert several.remaining() == pytest.approx(2.0, abs=0.5)
        several.check()
        before = left(fleet)
        for attempt in (other.locks(["b", "d"]), other.locks(["d", "e", "c"])):
            assert not attempt.acquire(blocking=False)
            assert not attempt.acquire(timeout=0.2)
        assert eventually(lambda: left(fleet) == before)
    assert eventually(lambda: not left(fleet))
    assert other.locks(["a", "b", "c", "d"]).acquire(blocking=False)


def test_a_waiter_keeps_nothing_while_it_waits(connect: MakeClient) -> None:
    holder, waiter, third = connect(), connect(), connect()
    holder.lock("m").acquire()
    with waiting(waiter.locks(["a", "m", "z"])) as done:
        time.sleep(0.3)
        assert third.locks(["a", "z"]).acquire(blocking=False)
        holder.lock("m").release()
        # It has m now, asks for a and z in vain, and gives m back.
        assert eventually(lambda: holder.lock("m").acquire(blocking=False))
        holder.lock("m").release()
        assert not done.done()
        third.locks(["a", "z"]).release()


@pytest.mark.parametrize("patience", [0.25, 60.0])
def test_a_part_is_kept(connect: MakeClient, monkeypatch: pytest.MonkeyPatch, patience: float) -> None:
    """For a moment: otherwise overlapping sets would refuse each other for long. Then all wait with none."""
    monkeypatch.setattr("rlock.recipes.several.PATIENCE_S", patience)
    holder, third = connect(), connect()
    holder.locks(["a", "b"]).acquire()
    with waiting(connect().locks(["a", "b"])) as done, waiting(connect().locks(["a", "b"])):
        assert eventually(lambda: holder.status("a").queue_length == 2)
        holder.lock("a").release()
        assert eventually(lambda: holder.status("b").queue_length)
        got = third.lock("a").acquire(timeout=5.0 if patience < 1.0 else 0.5)
        assert (got, done.done()) == (patience < 1.0, False)
        third.close()
        assert not got or eventually(lambda: holder.status("b").queue_length == 2)
        holder.lock("b").release()


def test_crossed_sets_never_dead_lock_and_never_overlap(connect: MakeClient) -> None:
    inside: dict[str, list[bool]] = {name: [] for name in "abcd"}

    def work(client: Client, seed: int) -> None:
        dice = random.Random(seed)
        for _ in range(40):
            names, size = dice.sample("abcd", dice.choice((2, 3))), dice.randrange(3)
            with client.locks(names[size:], shared=names[:size]):
                for i, name in enumerate(names):
                    assert all(inside[name]) if i < size else not inside[name]
                    inside[name].append(i < size)
                for i, name in enumerate(names):
                    inside[name].remove(i < size)

    with running(*(partial(work, connect(), seed) for seed in range(4))):
        pass


def test_a_hundred_names_on_five_masters_cost_one_round_trip_each_way(connect: MakeClient) -> None:
    client = connect()
    several = client.locks(f"name {i}" for i in range(100))
    with round_trips(client) as made:
        several.acquire()
        assert made == ["call_many"]
        several.release()
        assert made == ["call_many"] * 2


def test_tokens_that_masters_gave_differently_are_agreed_on_for_all_names(connect: MakeClient) -> None:
    client = connect()
    engine, ahead = client._engine(), time.time_ns() // 1000 + 3_600_000_000
    for name in "abc":
        for master in range(5):
            command = commands.fence(name, "host/1/other:0", ahead + master)
            engine.perform(engine.masters.call(Request(command, 1.0, Settle.ALL, (master,))))
    with round_trips(client) as made, client.locks(["a", "b", "c"]) as several:
        assert made == ["call_many"] * 2
        assert min(several.fencing_tokens.values()) > ahead + 2


def test_a_name_that_the_caller_has_already_nests(connect: MakeClient) -> None:
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
        with pytest.raises(LeaseLostError):
            client.locks(["a", "z"]).acquire()
        assert inner.hold_count == 1
        with pytest.raises(LeaseLostError):
            last.release()
    with pytest.raises(rlock.NotHeldError):
        client.locks(["a", "b"]).release()


@pytest.mark.parametrize("shared", [[], ["b", "c"]], ids=["exclusive", "shared"])
def test_the_loss_of_one_name_is_the_loss_of_all(connect: MakeClient, shared: list[str]) -> None:
    client = connect()
    locks = {name: client.lock(name) for name in "abc"}
    locks |= {name: client.read_write_lock(name).reader for name in shared}
    lost: list[LeaseLostError] = []
    several = client.locks(locks.keys() - {*shared}, shared=shared, on_lost=lost.append)
    several.acquire()
    signal = several.lost
    assert not signal.is_set()
    with running(lambda: signal.wait(5.0)) as (told,):
        lose(locks["b"])
    assert told.result()
    assert several.remaining() == 0.0
    with pytest.raises(LeaseLostError) as found:
        several.check()
    assert found.value.name == "b"
    lose(locks["c"])
    with pytest.raises(LeaseLostError) as found:
        several.release()
    assert found.value.name == "b"
    assert [error.name for error in lost] == ["b"]
    assert connect().locks(["a", "b", "c"]).acquire(blocking=False)


@readers
def test_several_names_may_be_exclusive_and_shared(connect: MakeClient) -> None:
    one, two, other = (connect() for _ in range(3))
    several = one.locks(["b"], shared=["c", "a"])
    with several, two.locks([], shared=["a", "c"]):
        assert several.names == ["a", "b", "c"]
        assert several.fencing_tokens == {
            "a": one.read_write_lock("a").reader.fencing_token,
            "b": one.lock("b").fencing_token,
            "c": one.read_write_lock("c").reader.fencing_token,
        }
        several.check()
        for names, shared in ((["a"], ["d"]), (["d"], ["b"]), (["d", "b"], ["a"])):
            assert not other.locks(names, shared=shared).acquire(blocking=False)
            assert not other.locks(names, shared=shared).acquire(timeout=0.1)
        assert other.lock("d").acquire(blocking=False), "a refused caller keeps nothing"
        assert len(other.status("a").readers) == 2
    assert several.remaining() == 0
    assert other.locks(["a", "b", "c"]).acquire(timeout=5)


@readers
def test_in_a_set_of_names_the_owner_of_a_writer_becomes_its_reader(
    client: Client, other: Client, connect: MakeClient
) -> None:
    writer, several = client.lock("a"), client.locks(["b"], shared=["a"])
    writer.acquire()
    assert several.acquire(blocking=False)
    assert not other.read_write_lock("a").reader.acquire(blocking=False)
    writer.release()
    with other.read_write_lock("a").reader:
        assert not connect().lock("a").acquire(blocking=False)
    several.release()
    with client.locks(["a", "b"]), several:
        assert (client.lock("b").hold_count, client.read_write_lock("a").reader.hold_count) == (2, 1)
    assert other.locks(["a", "b"]).acquire(blocking=False)


def test_each_acquire_takes_another_permit_and_a_release_gives_the_last_one_back(connect: MakeClient) -> None:
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
    with pytest.raises(LeaseLostError, match="lock 'gpu': the calling thread or task has no permit"):
        gpu.check()
    assert repr(gpu) == "<Semaphore 'gpu' permits=2>"


@pytest.mark.parametrize("free", [1, 16])
def test_a_free_permit_costs_two_round_trips(connect: MakeClient, free: int) -> None:
    client, others = connect(), connect().semaphore("gpu", permits=16)
    for _ in range(16 - free):
        others.acquire()
    for fair in (False, True):
        gpu = client.semaphore("gpu", permits=16, fair=fair)
        with round_trips(client) as made:
            assert gpu.acquire()
            assert len(made) == 2
        gpu.release()


def test_in_fair_mode_nobody_goes_round_the_gate_while_it_has_an_owner(connect: MakeClient) -> None:
    client, newcomer = connect(), connect()
    with client.lock("gpu"):
        assert not newcomer.semaphore("gpu", permits=2, fair=True).acquire(blocking=False)
        assert not newcomer.semaphore("gpu", permits=2, fair=True).acquire(timeout=0.2)
        assert newcomer.semaphore("gpu", permits=2).acquire(blocking=False)


@pytest.mark.parametrize("fair", [False, True])
def test_a_release_wakes_the_owner_of_the_gate_without_polling(
    connect: MakeClient, monkeypatch: pytest.MonkeyPatch, fair: bool
) -> None:
    monkeypatch.setattr(recipe, "poll_wait", lambda random, subscribed: 1000.0)
    first, second = (connect().semaphore("gpu", permits=2, fair=fair) for _ in range(2))
    first.acquire()
    first.acquire()
    # The status tells the end of the lease. Its renewal must not wake the waiter in the place of the message.
    monkeypatch.setattr(recipe, "EXPIRY_MARGIN_S", 1000.0)
    with waiting(second) as done:
        time.sleep(0.3)
        assert not done.done()
        first.release()
        done.result(2.0)
    first.release()


@pytest.mark.slow
@pytest.mark.parametrize("dead", ["gpu#0", "gpu"])
def test_a_dead_owner_of_a_permit_or_the_gate_costs_its_lease(connect: MakeClient, dead: str) -> None:
    client, other = connect(ttl=1.0), connect(ttl=1.0)
    in_thread(client.lock(dead).acquire)
    began = time.monotonic()
    assert other.semaphore("gpu", permits=1, fair=True).acquire(timeout=10.0)
    assert 0.5 < time.monotonic() - began < 2.5


def test_a_lost_permit_is_reported_and_given_back(connect: MakeClient) -> None:
    client = connect()
    lost: list[LeaseLostError] = []
    gpu = client.semaphore("gpu", permits=2, on_lost=lost.append)
    gpu.acquire()
    gpu.acquire()
    signal, permit = gpu.lost, gpu.permit
    lose(client.lock(f"gpu#{permit}"))
    assert signal.is_set()
    assert gpu.remaining() == 0.0
    with pytest.raises(LeaseLostError):
        gpu.check()
    assert eventually(lambda: [error.name for error in lost] == [f"gpu#{permit}"])
    with pytest.raises(LeaseLostError, match=f"gpu#{permit}"):
        gpu.acquire(timeout=5)  # otherwise it would wait for its own release
    with pytest.raises(LeaseLostError):
        gpu.release()
    assert gpu.permit == 1 - permit  # type: ignore[operator]
    gpu.check()
    assert gpu.acquire(timeout=5)


def test_without_a_quorum_an_acquire_raises_and_the_owner_of_the_gate_goes_on_when_it_is_back(
    connect: MakeClient, masters: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(recipe, "poll_wait", lambda random, subscribed: 0.05)
    holder, waiter = (connect(restart_guard=0).semaphore("gpu", permits=1) for _ in range(2))
    holder.acquire()
    with waiting(waiter) as done:
        time.sleep(0.3)
        for master in masters:
            master.master.down()
        with pytest.raises(rlock.QuorumUnreachableError):
            in_thread(lambda: waiter.acquire(blocking=False))
        time.sleep(0.5)
        for master in masters:
            master.master.up()
        assert not done.done()
        holder.release()


#: Arguments of `locks` and `semaphore` that are refused, and the words of the error.
REFUSED: list[tuple[dict[str, Any], str]] = [
    ({"names": ["a"], "shared": ["b", "a"]}, "'a' stands twice in names and shared"),
    *(
        ({"names": [], option: names}, text)
        for option in ("names", "shared")
        for names, text in (
            ([], "at least one"),
            (["a", "b", "a"], "'a' .*twice"),
            ("ab", "list"),
            (None, "list"),
        )
    ),
    *(({"permits": permits}, "permits") for permits in (0, -1, 1.5, True, "2", 10_001, 10**5000)),
]


def test_bad_names_and_options_are_refused(connect: MakeClient) -> None:
    client: Any = connect()
    for options, text in REFUSED:
        with pytest.raises(rlock.OptionsError, match=text):
            client.locks(**options) if "names" in options else client.semaphore("gpu", **options)
    with pytest.raises(ValueError, match="timeout"):
        client.semaphore("gpu", permits=1).acquire(blocking=False, timeout=1)
