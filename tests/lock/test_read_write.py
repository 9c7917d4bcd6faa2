"""The read-write lock: many readers, or one writer."""

from __future__ import annotations

import pickle
import threading
import time
from concurrent.futures import Future
from contextlib import suppress
from typing import Any

import pytest

import rlock
from rlock import Client, LeaseLostError, NotHeldError, OptionsError, UpgradeError
from rlock.rules import commands, keys

from ..fixtures import FreshMasters
from ..servers import Fleet, raw, tell
from .conftest import MakeClient, eventually, in_background, in_thread

EVERY_KIND = True
#: Shared with Redisson there are no readers.
pytestmark = pytest.mark.kinds("blocking", "asyncio", "memory", "asyncio-memory")


def test_readers_go_together_and_keep_a_writer_out(connect: MakeClient) -> None:
    one, two, three = (connect().read_write_lock("x") for _ in range(3))
    assert one.reader.acquire(blocking=False)
    assert two.reader.acquire(blocking=False)
    assert in_thread(lambda: one.reader.acquire(blocking=False))
    assert not three.writer.acquire(blocking=False)
    assert not connect().lock("x").acquire(blocking=False)
    assert three.writer.locked()
    one.reader.release()
    assert not three.writer.acquire(timeout=0.05)
    two.reader.release()


def test_a_writers_token_is_above_all_before_and_a_readers_is_the_last_writers(connect: MakeClient) -> None:
    one, two = (connect().read_write_lock("x") for _ in range(2))
    last = 0
    for _ in range(3):
        with two.writer:
            assert two.writer.fencing_token > last
            last = two.writer.fencing_token
        with one.reader, two.reader:
            assert one.reader.fencing_token == two.reader.fencing_token == last


def test_a_reader_that_asks_for_the_writer_is_refused_at_once(connect: MakeClient) -> None:
    client = connect(ttl=10)
    lock = client.read_write_lock("x")
    with lock.reader:
        for upgrade in (lock.writer, client.lock("x")):
            with pytest.raises(UpgradeError, match="release the reader first"):
                upgrade.acquire()
            assert upgrade.hold_count == 0
            with pytest.raises(NotHeldError, match=", a reader, does"):
                upgrade.release()
        in_thread(client.lock("held").acquire)  # it ends, and the lock stays held for a ttl
        with pytest.raises(UpgradeError):
            client.locks(["held", "x"]).acquire(timeout=60)
        assert client.lock("held").locked(), "it was refused at once"
    error = pickle.loads(pickle.dumps(UpgradeError("x")))
    assert (error.name, str(error)) == ("x", str(UpgradeError("x")))
    assert lock.writer.acquire(blocking=False)


def test_a_writer_may_read_on(client: Client, connect: MakeClient) -> None:
    lock, other = client.read_write_lock("x"), connect().read_write_lock("x")
    lock.writer.acquire()
    token = lock.writer.fencing_token
    assert lock.reader.acquire(blocking=False)
    assert not other.reader.acquire(blocking=False), "the writer still excludes"
    lock.writer.release()
    assert (lock.writer.hold_count, lock.reader.hold_count) == (0, 1)
    assert lock.reader.fencing_token == token
    assert other.reader.acquire(timeout=2)
    assert not connect().lock("x").acquire(blocking=False)
    other.reader.release()
    time.sleep(1.2)  # longer than the first renewal
    lock.reader.check()
    assert not lock.reader.lost.is_set()
    lock.reader.release()
    assert other.writer.acquire(blocking=False)
    assert other.writer.fencing_token > token


def test_a_reader_has_its_own_lease_after_the_writer(connect: MakeClient) -> None:
    client = connect(ttl=10)
    writer, reader = client.lock("x"), client.read_write_lock("x", ttl=1, renew=False).reader
    writer.acquire()
    reader.acquire()
    assert reader.remaining() > 5
    writer.release()
    assert reader.remaining() < 1, "masters keep it for no longer"
    assert reader.is_owned()


def test_an_evicted_writer_does_not_read_on(other: Client, connect: MakeClient) -> None:
    told: list[LeaseLostError] = []
    lock = connect(ttl=6).read_write_lock("x", on_lost=told.append)
    lock.writer.acquire()
    lock.reader.acquire()
    other.evict("x")
    assert eventually(lambda: len(told) == 2, 4.5), "the reader is told with its writer"
    for each in (lock.writer.release, lock.reader.check, lock.reader.release):
        with pytest.raises(LeaseLostError, match="an operator evicted it"):
            each()
    assert not other.status("x").locked


@pytest.mark.kinds("blocking", "memory")
def test_a_condition_of_a_writer_that_reads_is_refused_before_its_release(connect: MakeClient) -> None:
    lock = connect().read_write_lock("x")
    condition = threading.Condition(lock.writer)
    with condition, lock.reader:
        with pytest.raises(UpgradeError):
            condition.wait(0)
        assert (lock.writer.hold_count, lock.reader.hold_count) == (1, 1)
    condition = threading.Condition(lock.reader)
    with lock.writer, condition:
        assert not condition.wait(0), "the reader ends and comes back alone"


def test_a_waiting_writer_stops_later_readers_and_then_they_go_together(connect: MakeClient) -> None:
    first, writing, *late = (connect() for _ in range(4))
    order: list[str] = []
    together = threading.Barrier(2)

    def write() -> None:
        with writing.read_write_lock("x").writer:
            order.append("writer")

    def read(client: rlock.Client) -> None:
        with client.read_write_lock("x").reader:
            order.append("reader")
            together.wait(30)

    with first.read_write_lock("x").reader:
        futures: list[Future[None]] = [in_background(write)]
        assert eventually(lambda: first.status("x").queue_length == 1)
        assert not late[0].read_write_lock("x").reader.acquire(blocking=False)
        for client in late:
            futures.append(in_background(lambda client=client: read(client)))  # type: ignore[misc]
        assert eventually(lambda: first.status("x").queue_length == 3)
        assert order == []
    for future in futures:
        future.result(30)
    assert order == ["writer", "reader", "reader"]


def test_the_readers_behind_a_writer_that_gives_up_go_at_once(connect: MakeClient) -> None:
    first, writing, late = (connect() for _ in range(3))
    with first.read_write_lock("x").reader:
        gives_up = in_background(lambda: writing.read_write_lock("x").writer.acquire(timeout=1.5))
        assert eventually(lambda: first.status("x").queue_length == 1)
        reads = in_background(lambda: late.read_write_lock("x").reader.acquire(timeout=30))
        assert gives_up.result(30) is False
        assert reads.result(30) is True


def test_thousands_of_readers_are_counted_listed_in_part_and_all_evicted(masters3: Fleet) -> None:
    client = rlock.Client(masters3.urls)
    with suppress(LeaseLostError), client.read_write_lock("x").reader, client.lock("other") as other:
        token = client.status("x").readers[0].owner
        crowd = {f"{token[:-5]}{i:05}": 1000 * int(time.time() + 3600) for i in range(5_001)}
        for url in masters3.urls:
            raw(url).zadd(keys.readers("x"), crowd)
        status = client.status("x")
        assert status.hold_count >= 5_001
        assert len(status.readers) == commands.STATUS_READERS
        tell(masters3.urls, "ZREMRANGEBYRANK", keys.readers("x"), 1_100, -1)
        assert len(client.evict("x")) == 1_100
        assert not client.status("x").locked
        assert other.hold_count == 1
    client.close()


def test_a_reader_that_gives_up_leaves_nothing(client: Client, other: Client) -> None:
    with client.lock("x"):
        assert not other.read_write_lock("x").reader.acquire(timeout=0.3)
        assert client.status("x").queue_length == 0
    assert client.lock("x").acquire(blocking=False)


def test_a_reader_cannot_change_hands(connect: MakeClient) -> None:
    lock = connect().read_write_lock("x")
    with lock.writer, lock.reader:
        with pytest.raises(OptionsError, match="a reader cannot change hands"):
            lock.reader.detach()
        with pytest.raises(OptionsError, match="holds the reader, too, which cannot change hands"):
            lock.writer.detach()


def test_closing_the_client_ends_a_reader(client: Client, other: Client) -> None:
    client.read_write_lock("x").reader.acquire()
    lock = client.read_write_lock("y")
    lock.writer.acquire()
    lock.reader.acquire()
    client.close()
    assert other.lock("x").acquire(blocking=False)
    assert other.lock("y").acquire(blocking=False)


@pytest.mark.kinds("blocking", "asyncio")
def test_a_reader_is_put_back_after_a_restart(fresh_masters: FreshMasters, make_client: MakeClient) -> None:
    fleet = fresh_masters(3)
    client = make_client(fleet.urls)
    client.init()
    with client.read_write_lock("x").reader:
        fleet[0].restart()
        assert eventually(lambda: sum(view.holder is not None for view in client.status("x").masters) == 3)
        assert client.read_write_lock("x").reader.is_owned()


@pytest.mark.kinds("blocking")
def test_redisson_has_no_readers_here(connect: MakeClient) -> None:
    with pytest.raises(OptionsError, match="leave interop out"):
        connect(interop="redisson").read_write_lock("x")


@pytest.mark.kinds("blocking")
def test_a_decorated_function_may_be_a_reader(client: Client, other: Client) -> None:
    def work() -> int:
        return read.lock().hold_count  # type: ignore[no-any-return]

    read: Any = rlock.locked(client, "x", shared=True, blocking=False)(work)
    with other.read_write_lock("x").reader:
        assert read() == 1
    with other.lock("x"):
        assert read() is None
