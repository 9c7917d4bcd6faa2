"""What a caller relies on, on 1, 3 and 5 real masters; quiet waiters, and deaths that leave nothing."""

from __future__ import annotations

import threading
import time
from functools import partial

import pytest

import rlock
from rlock import Client

from ..servers import Fleet, raw
from .conftest import WAITER, MakeClient, StartChild, acquired, eventually, in_background, in_thread, running

EVERY_KIND = True


@pytest.mark.rule("1.1")
def test_two_objects_of_one_name_nest_in_one_thread(client: Client) -> None:
    first, second = client.lock("x"), client.lock("x")
    first.acquire()
    assert second.acquire(blocking=False)
    assert first.hold_count == second.hold_count == 2
    second.release()
    first.release()
    assert not first.locked()


@pytest.mark.rule("3.1")
def test_threads_and_clients_exclude_each_other(client: Client, other: Client) -> None:
    lock = client.lock("x")
    with lock:
        assert in_thread(lambda: client.lock("x").acquire(blocking=False)) is False
        assert other.lock("x").acquire(blocking=False) is False
        assert other.lock("y").acquire(blocking=False) is True
    assert other.lock("x").acquire(blocking=False) is True


@pytest.mark.rule("1.1")
def test_nested_acquires_cost_no_network(masters3: Fleet, connect3: MakeClient) -> None:
    lock = connect3(ttl=10.0).lock("x")
    with lock, masters3.paused():
        for _ in range(1000):
            lock.acquire()
        assert lock.hold_count == 1001
        for _ in range(1000):
            lock.release()


def test_no_number_is_no_timeout(connect3: MakeClient) -> None:
    with pytest.raises(ValueError):
        connect3().lock("x").acquire(timeout=float("nan"))


def test_what_a_holder_and_what_others_see(connect: MakeClient) -> None:
    client = connect(ttl=3.0)
    lock = client.lock("x")
    assert (lock.is_owned(), lock.hold_count, lock.remaining(), lock.locked()) == (False, 0, 0.0, False)
    with pytest.raises(rlock.LeaseLostError):
        lock.check()
    with lock:
        assert lock.is_owned()
        assert lock.locked()
        assert 0 < lock.remaining() <= 3.0 - 0.032
        lock.check()
        assert not lock.lost.is_set()
        assert in_thread(lambda: (lock.is_owned(), lock.hold_count, lock.remaining())) == (False, 0, 0.0)
        assert in_thread(lock.locked) is True
    assert not lock.is_owned()


def test_status_tells_who_and_since_when(client: Client) -> None:
    assert client.status("x").holder is None
    before = time.time()
    with client.lock("x"):
        found = client.status("x")
        assert found.locked
        assert found.holder is not None
        assert "MainThread:" in found.holder
        assert found.since == pytest.approx(before, abs=2.0)
        assert found.remaining == pytest.approx(3.0, abs=1.5)
        assert [view.holder for view in found.masters].count(found.holder) >= found.quorum
    assert client.status("x").holder is None


@pytest.mark.rule("2.2")
def test_every_outermost_acquisition_has_an_owner_of_its_own(connect3: MakeClient) -> None:
    client = connect3()
    seen = set()
    for _ in range(5):
        with client.lock("x"):
            seen.add(client.status("x").holder)
    assert len(seen) == 5


@pytest.mark.rule("1.5")
def test_a_loss_does_not_mask_the_bodys_exception_and_is_raised_without_one(client: Client) -> None:
    with pytest.raises(ZeroDivisionError) as caught, client.lock("x"):
        client.evict("x")
        raise ZeroDivisionError
    assert any("was lost" in note for note in getattr(caught.value, "__notes__", ["was lost"]))
    with pytest.raises(rlock.LeaseLostError) as loss, client.lock("x"):
        client.evict("x")
    assert loss.value.name == "x"
    assert "quorum" in loss.value.reason


@pytest.mark.rule("1.2")
def test_a_busy_lock_is_false_and_the_time_out_is_exact(client: Client, other: Client) -> None:
    with client.lock("x"):
        for timeout in (0.0, 0.3, 1.2):
            began = time.monotonic()
            assert other.lock("x").acquire(timeout=timeout) is False
            assert timeout <= time.monotonic() - began < timeout + 0.3


@pytest.mark.rule("1.5")
def test_after_a_loss_everything_says_so_until_it_is_released(connect: MakeClient) -> None:
    client = connect(ttl=0.6)
    lock = acquired(client, renew=False)
    lock.acquire()
    lost, token = lock.lost, lock.fencing_token
    assert lost.wait(5.0)
    assert lost.is_set()
    assert not lock.is_owned()
    assert lock.fencing_token == token
    assert lock.remaining() == 0.0
    with pytest.raises(rlock.LeaseLostError):
        lock.check()
    with pytest.raises(rlock.LeaseLostError):
        lock.acquire()
    for count in (1, 0):
        with pytest.raises(rlock.LeaseLostError):
            lock.release()
        assert lock.hold_count == count
    with pytest.raises(rlock.NotHeldError) as caught:
        lock.release()
    assert not isinstance(caught.value, rlock.LeaseLostError)
    with pytest.raises(rlock.LeaseLostError):
        _ = lock.fencing_token
    assert lock.acquire(timeout=5.0)


def test_release_without_a_hold_is_a_runtime_error_that_says_who_does_hold_it(connect3: MakeClient) -> None:
    lock = connect3().lock("x")
    with pytest.raises(RuntimeError) as nobody:
        lock.release()
    assert type(nobody.value) is rlock.NotHeldError
    assert nobody.value.name == "x"
    assert "can release it" not in str(nobody.value)
    with lock, pytest.raises(rlock.NotHeldError, match="does, and no other can release it"):
        in_thread(lock.release)
    in_thread(lambda: lock.acquire())
    with pytest.raises(rlock.NotHeldError, match="which has ended, does, and no other can release it"):
        lock.release()


def channels(fleet: Fleet) -> list[str]:
    """Subscriptions to locks; beside each there is one to what is handed to the subscriber."""
    found = [str(channel) for master in fleet for channel in raw(master.url).pubsub_channels()]
    own = [channel for channel in found if "|" in channel]
    assert len({channel.rpartition("|")[0] for channel in own} - set(found)) == 0
    return [channel for channel in found if channel not in own]


def test_a_killed_holder_frees_its_lock_within_ttl_and_a_half_second(
    masters: Fleet, make_client: MakeClient, child: StartChild
) -> None:
    holder = child(WAITER, "default", "2", *masters.urls)
    assert holder.line() == "waiting"
    assert holder.line(), "it has the lock"
    lock = make_client(masters.urls).lock("x")
    assert not lock.acquire(timeout=0.1)
    holder.process.kill()
    began = time.monotonic()
    assert not lock.acquire(timeout=0.1), "its lease has not ended"
    assert lock.acquire(timeout=20)
    assert time.monotonic() - began < 2.5


def test_no_subscription_stays_after_the_last_waiter(masters: Fleet, make_client: MakeClient) -> None:
    client = make_client(masters.urls)
    with client.lock("x"), client.lock("y"):
        assert in_thread(lambda: client.lock("x").acquire(timeout=0.2)) is False
        assert in_thread(lambda: client.lock("y").acquire(timeout=0.2)) is False
        assert channels(masters)
        assert eventually(lambda: not channels(masters), within=5.0)
        assert eventually(lambda: "rlock-listener" not in {t.name for t in threading.enumerate()})


def test_threads_of_one_process_take_turns_in_the_order_in_which_they_came(connect3: MakeClient) -> None:
    client = connect3()
    order: list[int] = []

    def work(number: int) -> None:
        with client.lock("x"):
            order.append(number)

    waiters = []
    with client.lock("x"):
        for number in range(6):
            waiters.append(in_background(partial(work, number)))
            time.sleep(0.05)
    for waiter in waiters:
        waiter.result(30)
    assert order == list(range(6))


def test_threads_share_the_sockets_of_their_client(masters3: Fleet, connect3: MakeClient) -> None:
    client = connect3()
    before = int(raw(masters3.urls[0]).info("clients")["connected_clients"])

    def work() -> None:
        for i in range(10):
            with client.lock(f"lock-{i}"):
                pass

    with running(*[work] * 32):
        time.sleep(0.1)
        during = int(raw(masters3.urls[0]).info("clients")["connected_clients"])
    # one for commands, one for subscriptions; and the pooled one with which this test asks
    assert during - before <= 3
