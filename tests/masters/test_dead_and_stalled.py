"""Masters that die, stall, restart or forget: what a caller sees."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

import pytest

import rlock
from rlock.rules.keys import OWN

from ..contract.conftest import eventually, in_thread
from ..servers import Fleet, raw

FreshMasters = Callable[..., Fleet]


def cycle(lock: rlock.RLock, times: int) -> float:
    """The longest of so many pairs of acquire and release, in seconds."""
    longest = 0.0
    for _ in range(times):
        began = time.monotonic()
        assert lock.acquire(timeout=5.0)
        lock.release()
        longest = max(longest, time.monotonic() - began)
    return longest


@pytest.mark.parametrize("how", ["kill", "pause"])
def test_a_master_that_is_back_counts_again(fresh_masters: FreshMasters, how: str) -> None:
    fleet = fresh_masters(3)
    with rlock.Client(fleet.urls, 2.0, max_ttl=2.0) as client:
        lock = client.lock("x")
        cycle(lock, 5)
        getattr(fleet[0], how)()
        cycle(lock, 5)
        time.sleep(0.6)
        cycle(lock, 5)
        fleet[0].resume() if how == "pause" else fleet[0].start()

        def votes() -> bool:
            with lock:
                return client.status("x").masters[0].holder is not None

        assert eventually(votes, within=10.0)
        fleet[1].kill()
        assert lock.acquire(timeout=5.0), "the master that came back is not counted"
        lock.release()


@pytest.mark.parametrize("how", ["kill", "pause"])
def test_a_majority_gone_is_an_error_and_not_contention(fresh_masters: FreshMasters, how: str) -> None:
    fleet = fresh_masters(3)
    with rlock.Client(fleet.urls, 2.0, max_ttl=2.0) as client:
        lock = client.lock("x")
        cycle(lock, 3)
        for master in fleet[1:]:
            getattr(master, how)()
        for arguments in ((False, -1), (True, 1.0)):
            began = time.monotonic()
            with pytest.raises(rlock.QuorumUnreachableError) as caught:
                lock.acquire(*arguments)
            assert time.monotonic() - began < 2.5
            assert set(caught.value.faults) == {*client.masters[1:]}
        questions: tuple[Callable[[], object], ...] = (
            lock.locked,
            lambda: client.status("x"),
            lambda: client.evict("x"),
        )
        for question in questions:
            with pytest.raises(rlock.QuorumUnreachableError):
                question()
        for master in fleet[1:]:
            master.resume() if how == "pause" else master.start()
        assert lock.acquire(timeout=10.0)
        lock.release()


def test_waiting_for_ever_goes_on_until_the_masters_are_back(
    fresh_masters: FreshMasters, caplog: pytest.LogCaptureFixture
) -> None:
    fleet = fresh_masters(3)
    with rlock.Client(fleet.urls, 2.0, max_ttl=2.0) as client:
        for master in fleet:
            master.kill()

        def wait() -> bool:
            return client.lock("x").acquire() and client.lock("x").is_owned()

        got: list[bool] = []
        thread = threading.Thread(target=lambda: got.append(wait()))
        thread.start()
        time.sleep(1.5)
        assert not got
        assert any("still waiting" in record.message for record in caplog.records)
        for master in fleet:
            master.start()
        thread.join(20)
        assert got == [True]


@pytest.mark.rule("3.4")
def test_an_acquire_that_was_given_up_does_not_come_back_to_life(fresh_masters: FreshMasters) -> None:
    fleet = fresh_masters(1)
    with rlock.Client(fleet.urls) as client:
        lock = client.lock("x")
        cycle(lock, 1)
        fleet[0].pause()
        with pytest.raises(rlock.QuorumUnreachableError):
            lock.acquire(blocking=False)
        fleet[0].resume()
        # What the stopped server finds in its socket is an acquire; nobody may be left with its vote.
        assert lock.acquire(timeout=5.0)
        lock.release()
        assert not raw(fleet[0].url).exists("x")


def test_the_channel_is_told_of_a_full_release_only(masters1: Fleet) -> None:
    with rlock.Client(masters1.urls) as client:
        subscriber = raw(masters1.urls[0]).pubsub(ignore_subscribe_messages=True)
        subscriber.subscribe(OWN.channel("x"))
        subscriber.get_message(timeout=1.0)
        lock = client.lock("x")
        with lock, lock:
            pass
        with lock:
            assert in_thread(lambda: client.lock("x").acquire(timeout=0.2)) is False
        told = [subscriber.get_message(timeout=0.5) for _ in range(4)]
        assert len([message for message in told if message]) == 2
        subscriber.close()


@pytest.mark.rule("3.4")
def test_a_connection_that_was_given_up_with_requests_unanswered_is_killed_before_the_next_is_used(
    fresh_masters: FreshMasters, caplog: pytest.LogCaptureFixture
) -> None:
    """A server that goes on reads it in any order beside the new one: an acquire behind its own release."""
    fleet = fresh_masters(3)
    with rlock.Client(fleet.urls, ttl=3.0) as client:
        lock = client.lock("x")
        cycle(lock, 1)
        server = client._engine().masters._connections.servers[0]
        assert eventually(lambda: cycle(lock, 1) and server.connection is not None)
        assert server.connection is not None
        old = server.connection.connection_id
        fleet[0].pause()
        assert eventually(lambda: cycle(lock, 1) and server.connection is None), "it was never given up"
        assert [number for _, number in server.kill] == [old]
        fleet[0].resume()
        assert eventually(lambda: cycle(lock, 1) and server.connection is not None)
        assert server.kill == []
        stats = raw(fleet[0].url).info("commandstats")
        if any("|" in command for command in stats):  # Redis 6.2 does not tell subcommands apart
            assert stats["cmdstat_client|kill"]["calls"] >= 1


def test_a_round_that_no_connection_can_take_is_over_without_a_look_at_any(
    fresh_masters: FreshMasters, monkeypatch: pytest.MonkeyPatch
) -> None:
    fleet = fresh_masters(3)
    with rlock.Client(fleet.urls) as client:
        lock = client.lock("x")
        cycle(lock, 1)
        for master in fleet:
            master.kill()
        connections = client._engine().masters._connections

        def gone() -> bool:
            with pytest.raises(rlock.QuorumUnreachableError):
                lock.acquire(blocking=False)
            return connections.up == 0 and not connections.is_connecting

        assert eventually(gone, within=10.0)
        looks: list[float] = []

        def poll(timeout: float) -> list[tuple[int, int]]:
            looks.append(timeout)
            return []

        monkeypatch.setattr(connections, "poll", poll)
        monkeypatch.setattr(connections, "connect_due", lambda: None)
        with pytest.raises(rlock.QuorumUnreachableError):
            lock.acquire(blocking=False)
        assert looks == []
