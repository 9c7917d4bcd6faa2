"""Several names as one lock: some exclusive, and the others shared."""

from __future__ import annotations

import pytest

from rlock import Client, LeaseLostError

from .conftest import MakeClient, eventually

EVERY_KIND = True
#: Shared with Redisson there are no readers.
pytestmark = pytest.mark.kinds("blocking", "asyncio", "memory", "asyncio-memory")


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


def test_the_loss_of_a_reader_is_the_loss_of_its_set_of_names(client: Client, connect: MakeClient) -> None:
    several = client.locks(["a"], shared=["b", "c"])
    several.acquire()
    signal = several.lost
    assert not signal.is_set()
    client.evict("b")
    assert eventually(signal.is_set)
    for each in (several.check, several.release):
        with pytest.raises(LeaseLostError) as found:
            each()
        assert found.value.name == "b"
    assert connect().locks(["a", "b", "c"]).acquire(timeout=5)


def test_after_the_loss_of_a_reader_its_owner_learns_of_the_loss_before_it_writes(client: Client) -> None:
    lock = client.read_write_lock("x")
    lock.reader.acquire()
    client.evict("x")
    assert eventually(lock.reader.lost.is_set)
    for writer in (lock.writer, client.locks(["x", "y"])):
        with pytest.raises(LeaseLostError, match=r"evicted.*the caller's reader: release it first"):
            writer.acquire()
    with pytest.raises(LeaseLostError):
        lock.reader.release()
    assert lock.writer.acquire(blocking=False)
